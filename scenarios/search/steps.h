// SPDX-License-Identifier: Apache-2.0
// Layouts next to one: an axis is at its next value, and the rest as it is, or as near as goes with
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scenarios/search/space.h"

namespace stepcast {

struct LayoutStep {
  uint32_t layout = 0;           // index into the layouts
  std::string axis;              // "TP"
  std::string from, to;          // values: "2", "selective"
  std::vector<std::string> too;  // what else changes: "VP 1"
};

// The next value below and above on each axis of a layout, those that are in the space, and all
// other words of what is searched beside it, if GPUs and batch are the same.  What a
// value cannot go without changes with it: etp that is tp stays tp, chunks, split and schedule may
// be others.  O(layouts).
std::vector<LayoutStep> steps_from(const SearchSpace& space, std::span<const Layout> layouts,
                                   uint32_t from);

}  // namespace stepcast
