// SPDX-License-Identifier: Apache-2.0
#include "sim/work_counts.h"

#include <cstdint>

namespace stepcast {

std::vector<double> work_counts(const OpGraph& graph) {
  std::vector<double> counts(graph.works.size());
  std::vector<int64_t> runs(graph.passes.size());
  for (const RoleOps& role : graph.roles) {
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::pass) runs[static_cast<size_t>(item.pass)] += role.ranks;
      if (item.kind != ItemKind::post) continue;
      const Rendezvous& r = graph.rendezvous[static_cast<size_t>(item.rendezvous)];
      counts[static_cast<size_t>(r.work)] += static_cast<double>(role.ranks) / r.parties;
    }
  }
  for (size_t p = 0; p < runs.size(); ++p) {
    for (const Op& op : graph.passes[p].ops)
      counts[static_cast<size_t>(op.work)] += static_cast<double>(runs[p]);
  }
  return counts;
}

}  // namespace stepcast
