// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_placement.h"

#include <optional>
#include <string>
#include <string_view>

#include "scenarios/number.h"

namespace stepcast {
namespace {

constexpr std::string_view kPath = "cluster.placement.nodes";

}  // namespace

Placement resolve_placement(const FieldValues& v, Problems& problems, const Cluster& cluster) {
  Placement placement;
  placement.gpus_per_node = cluster.node.gpus;
  if (v.value(kPath) == nullptr || !v.has(kPath)) return placement;
  const Value& list = *v.value(kPath);
  const std::vector<std::string>& words = v.texts(kPath);
  std::vector<bool> taken(static_cast<size_t>(cluster.nodes), false);
  const auto problem = [&](size_t i, const char* code, std::string message, std::string help = {}) {
    const bool inside = list.kind == Value::Kind::sequence && i < list.items.size();
    problems.add(code, std::move(message), inside ? list.items[i].mark : list.mark,
                 static_cast<int>(words[i].size()), {}, std::move(help));
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::optional<IndexRange> range = parse_range(words[i]);
    if (!range || range->last < range->first) {
      problem(i, "E107", '\'' + words[i] + "' is no node and no range of nodes",
              "nodes: [0, 1, 8-15]");
      continue;
    }
    if (range->last >= cluster.nodes) {
      problem(i, "E240",
              "there is no node " +
                  std::to_string(range->first < cluster.nodes ? range->last : range->first) +
                  ": the cluster has " + std::to_string(cluster.nodes) + ", counted from 0",
              "the nearest is node " + std::to_string(cluster.nodes - 1));
      continue;
    }
    for (int64_t node = range->first; node <= range->last; ++node) {
      if (taken[static_cast<size_t>(node)]) {
        problem(i, "E127", "node " + std::to_string(node) + " is named twice");
        break;
      }
      taken[static_cast<size_t>(node)] = true;
      placement.nodes.push_back(node);
    }
  }
  return placement;
}

int64_t gpus_of(const Placement& placement, const Cluster& cluster) {
  if (placement.in_order()) return cluster.gpus();
  return static_cast<int64_t>(placement.nodes.size()) * placement.gpus_per_node;
}

}  // namespace stepcast
