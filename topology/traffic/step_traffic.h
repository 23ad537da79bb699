// SPDX-License-Identifier: Apache-2.0
// What the communication of a job puts on shared links of the cluster, for the engine in which
// transfers slow each other down (sim/contention.h): collective_links.h for every group of every
// axis, a route for each transfer of the pipeline.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/contention.h"
#include "sim/link_loads.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/rank_grid.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"
#include "topology/cluster/routes.h"

namespace stepcast {

// Patterns of all communication works of the graph on all roles and lanes.  Lanes are numbered by
// the coordinates tp, cp, dp of their rank, tp innermost.  What can never be shared is left out:
//
//   * links that one stream of one group uses at a time, links that carry all that their users
//     could send together at the speed of their prices, and links as wide as another one with the
//     same users (a GPU's PCIe beside its NIC);
//   * works that hardly take longer than their latency (a tenth): the gradient norm.
//
// Loads are cut so that a group alone is never slower than its price, which knows better: that of
// the class of links which `lanes` put it in all the time.
// REQUIRES: prices.by_work.size() == graph.works.size(); `lanes` are of the graph, or empty.
Traffic traffic_of(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                   const Placement& placement, const ClusterGraph& cluster,
                   const RouteOptions& options, const LaneSet& lanes = {});

// What `stepcast explain --links` prints: which groups of a step cross which links, and how full
// these are.

// What switches like this one are called: "leaf" of "leaf2/rail5", "NIC" of a NIC; "switch" for
// names that do not begin with letters.
std::string switch_word(const Device& device);

// Which groups cross which kinds of link, and the fullest link of each kind.  Works that hardly
// take longer than their latency are left out here too.
LinkLoads link_loads(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                     const Placement& placement, const ClusterGraph& cluster,
                     const RouteOptions& options);

// The groups of ranks that communicate in a step, and what they run.

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
