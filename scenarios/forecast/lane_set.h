// SPDX-License-Identifier: Apache-2.0
// How the ranks of a scenario differ, in the form the lanes engine takes.
//
// A GPU that computes slower slows its lane.  Links that are slower put the groups that
// use them into a class of their own, priced as if all NICs (or NVLinks) were like the slowest of
// the group: rings and trees are as fast as their slowest link, and NCCL spreads a message evenly
// over the NICs that it uses.  NICs slow only groups that leave the node, NVLink those that do not
// have one GPU a node.  What lies above the NICs keeps its capacity.
#pragma once

#include <cstdint>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/lanes/lanes.h"

namespace stepcast {

// Lanes are numbered tp, cp, dp, innermost first; a role's pipeline rank is its fourth coordinate.
// The digits are those of RankGrid::digits, so dp and cp may be cut in several.
// REQUIRES: graph and prices are those of the scenario.  Throws InputError E130 if there are more
// than 255 kinds of slow links, or any in a topology that is written out.  Random factors are drawn
// from `seed`.
LaneSet lane_set(const Scenario& scenario, const OpGraph& graph, const Prices& prices,
                 uint64_t seed);

// [lane]: the first lane of its group along the axis, which holds the lanes that differ only in the
// digits it covers.
std::vector<int64_t> first_of_group(const std::vector<LaneDigit>& digits, Axis axis);

// Ranks that have a slower link, at any time, over which they communicate.
int64_t ranks_on_slow_links(const Scenario& scenario, const OpGraph& graph);

// Rank of the job that a lane of a role is; lane that a rank of the job is in.
int64_t rank_of_lane(const Scenario& scenario, const OpGraph& graph, uint32_t role, int64_t lane);
int64_t lane_of_rank(const RankGrid& grid, int64_t rank);

}  // namespace stepcast
