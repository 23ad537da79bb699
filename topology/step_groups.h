// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that communicate in a step, and what they run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/rank_grid.h"

namespace stepcast {

// A communication of a step as one group runs it.
struct GroupWork {
  WorkId work{};
  int64_t runs = 0;      // in a step
  uint32_t streams = 0;  // bit s: in passes on Stream s; none: beside them, as rendezvous
  // Bytes per second while its bytes flow; 0 for one that takes hardly longer than its latency.
  double rate = 0;
};

// Works that put the same loads on the same links.
struct GroupPattern {
  WorkKind kind = WorkKind::all_reduce;
  Algorithm algorithm = Algorithm::ring;  // protocols load links alike
  std::vector<GroupWork> works;
};

// Groups that lie alike: those of one axis at one pipeline rank; pairs of two pipeline ranks; those
// of an axis over all pipeline ranks.
struct GroupFamily {
  Axis axis = Axis::none;
  int64_t pp = -1;     // pipeline rank; -1: over several
  bool pairs = false;  // of pipeline ranks `from` and `to`
  int64_t from = 0, to = 0;
  std::vector<GroupPattern> patterns;
};

// Families of all communication that moves bytes, by axis.  Collectives whose price names no
// algorithm count as rings, all-to-all as pairwise.  O(ops + works log works).
std::vector<GroupFamily> group_families(const OpGraph& graph, const Prices& prices,
                                        const RankGrid& grid);

// Calls `visit` with the ranks of each group, always in the same order: ranks ascending, of a
// transfer the sender first.
void for_each_group(const RankGrid& grid, const GroupFamily& family,
                    const std::function<void(std::span<const int64_t>)>& visit);

}  // namespace stepcast
