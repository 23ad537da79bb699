// SPDX-License-Identifier: Apache-2.0
#include "sim/op_graph.h"

#include <algorithm>

#include "sim/check.h"

namespace stepcast {

LaunchId launch_of(OpGraph& graph, const Launch& launch) {
  std::vector<Launch>& known = graph.launches;
  const auto it = std::ranges::find(known, launch);
  STEPCAST_CHECK(it != known.end() || known.size() < UINT16_MAX, "too many kinds of launches");
  const auto id = static_cast<LaunchId>(it - known.begin());
  if (it == known.end()) known.push_back(launch);
  return id;
}

std::string action_text(const Item& item) {
  if (!item.has_second) return to_string(item.action);
  return '(' + to_string(item.action) + ';' + to_string(item.second) + ')';
}

}  // namespace stepcast
