// SPDX-License-Identifier: Apache-2.0
// What the communication of a job puts on the links of the cluster: from groups to links.
//
// For each group of each axis the directed links that its collectives use and how much of the
// message passes each (a ring: 2(n-1)/n on every link between neighbours), for each transfer of the
// pipeline its route.  What `stepcast explain --links` prints, and what the contention engine
// shares (sim/contention.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/contention.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/rank_grid.h"
#include "topology/cluster_graph.h"
#include "topology/placement.h"
#include "topology/routes.h"

namespace stepcast {

// Links of one collective of `kind` over the GPUs of a group, as `algorithm` ("ring", "tree",
// "pairwise", ...) runs it.  Loads in bytes over the link for each kFullLoad bytes of the message.
std::vector<LinkUse> collective_links(Router& router, WorkKind kind, std::string_view algorithm,
                                      std::span<const int64_t> gpus);

// Patterns of all communication works of the graph on all roles and lanes.  Links that no two
// streams of the job can use at the same time are left out.
Traffic traffic_of(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                   const Placement& placement, const ClusterGraph& cluster,
                   const RouteOptions& options);

// Which groups cross which kind of link, and how loaded the fullest link of the kind is.
struct LinkCrossing {
  Axis axis = Axis::none;
  WorkKind kind = WorkKind::all_reduce;
  int64_t groups = 0, ranks = 0;  // groups of the axis; ranks in each
  std::string links;              // "NVLink inside n0", "leaf to spine"
  int64_t links_used = 0;         // of that kind, by all groups together
  int64_t groups_per_link = 0;    // most on one link
  double seconds = 0;             // bytes of one step over the fullest link / its bandwidth
};
std::vector<LinkCrossing> link_crossings(const OpGraph& graph, const RankGrid& grid,
                                         const Placement& placement, const ClusterGraph& cluster,
                                         const RouteOptions& options);

}  // namespace stepcast
