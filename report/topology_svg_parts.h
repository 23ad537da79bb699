// SPDX-License-Identifier: Apache-2.0
// The parts of a topology's picture.  Each draws from `y` down and returns where the next begins;
// `y` itself if there is nothing to draw.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/svg_canvas.h"
#include "report/topology_view.h"

namespace stepcast {

constexpr int64_t kMargin = 24;  // pixels left of everything

int64_t draw_node(SvgCanvas& canvas, const TopologyView& view, int64_t y);
int64_t draw_domain(SvgCanvas& canvas, const TopologyView& view, int64_t y);
int64_t draw_fabric(SvgCanvas& canvas, const TopologyView& view, int64_t y);

std::string_view link_style(ViewLinkKind kind);  // class of its lines
std::string link_name(ViewLinkKind kind);        // "NVLink"

}  // namespace stepcast
