// SPDX-License-Identifier: Apache-2.0
#include "report/topology_svg.h"

#include <algorithm>
#include <map>
#include <set>

#include "report/format.h"
#include "report/svg_canvas.h"
#include "report/topology_svg_parts.h"
#include "report/xml_text.h"

namespace stepcast {
namespace {

constexpr int64_t kLegendRow = 20;
constexpr size_t kMostLegend = 10;

std::string gigabytes(Bandwidth b) {
  std::string s = fixed(b.value / 1e9, b.value < 100e9 ? 2 : 0);
  while (s.find('.') != std::string::npos && (s.ends_with('0') || s.ends_with('.'))) s.pop_back();
  return s + " GB/s";
}

// What each kind of line stands for.
int64_t draw_legend(SvgCanvas& canvas, const TopologySummary& summary, int64_t y) {
  size_t rows = 0;
  for (const LinkClass& c : summary.links) {
    if (++rows > kMostLegend) {
      canvas.text(kMargin + 44, y,
                  "and " + grouped(static_cast<int64_t>(summary.links.size() - kMostLegend)) +
                      " more kinds of links");
      return y + kLegendRow;
    }
    canvas.line(kMargin, y - 4, kMargin + 34, y - 4, link_style(c.kind));
    std::string text = link_name(c.kind) + ", " + kind_name(c.a) + " to " + kind_name(c.b) + ": " +
                       gigabytes(c.bandwidth) + " each way";
    if (c.cables > 1) text += " in " + std::to_string(c.cables) + " cables";
    if (c.links > 1) text += ", " + grouped(c.links) + " times";
    canvas.text(kMargin + 44, y, text);
    y += kLegendRow;
  }
  return y;
}

}  // namespace

std::string topology_svg(const TopologyView& view) {
  const TopologySummary summary = summarize(view);
  SvgCanvas canvas;
  canvas.text(kMargin, 30, elided(view.title, 90), "t");
  int64_t y = 54;
  y = draw_node(canvas, view, y);
  y = draw_domain(canvas, view, y);
  y = draw_fabric(canvas, view, y);
  y = draw_legend(canvas, summary, y + 10);
  return canvas.finish(xml_text(view.title), y + 4);
}

}  // namespace stepcast
