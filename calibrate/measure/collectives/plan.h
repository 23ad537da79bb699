// SPDX-License-Identifier: Apache-2.0
// Which groups of GPUs and which sizes the collectives are measured for, and how sizes are counted.
// Needs no GPU.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibrate/measure/collectives/processes.h"
#include "calibrate/plan/plan_text.h"
#include "calibrate/plan/sweep.h"
#include "sim/graph/work.h"

namespace stepcast::measure {

// What is measured.  send_recv is the exchange of nccl-tests' sendrecv_perf: each rank sends to the
// next one and receives as much from the last.
constexpr std::array<WorkKind, 6> kMeasuredCollectives{
    WorkKind::all_reduce, WorkKind::all_gather, WorkKind::reduce_scatter,
    WorkKind::broadcast,  WorkKind::all_to_all, WorkKind::send_recv};

constexpr int64_t kSmallestMessage = 8;
constexpr int64_t kLargestMessage = int64_t{4} << 30;
constexpr int64_t kElementBytes = 2;  // bf16

// A group that is measured: the first `ranks_per_node` ranks of the first `nodes` nodes.
struct RankGroup {
  int nodes = 1;
  int ranks_per_node = 1;
  auto operator<=>(const RankGroup&) const = default;
};

// All groups of at least two ranks with powers of two, and all there are, of nodes and of ranks a
// node: {2, 4, 8} GPUs of one node with 8; {1, 2, 3} nodes of three.  Nodes with different numbers
// of ranks count as the smallest.  Largest groups first.  REQUIRES: nodes as place_ranks numbers
// them.
std::vector<RankGroup> rank_groups(std::span<const RankPlace> ranks);

// Indices into `ranks` of the members, in order; empty if there are not enough ranks.
std::vector<int> members_of(const RankGroup& group, std::span<const RankPlace> ranks);

// Powers of two from kSmallestMessage to `largest`, and half-way points from 16 KiB to 64 MiB,
// where NCCL changes its protocols and the curve bends.  Unless `full`: powers of four, of two
// there.
std::vector<int64_t> size_ladder(int64_t largest, bool full);

// Elements that one rank puts in and gets out, for `bytes` as nccl-tests counts them: the buffer of
// an all-reduce, a broadcast and an exchange; the gathered whole of an all-gather and a
// reduce-scatter; what one rank sends in an all-to-all, its own part included.
struct ElementCounts {
  int64_t send = 0;
  int64_t receive = 0;
};
// REQUIRES: a measurable size.
ElementCounts element_counts(WorkKind kind, int64_t ranks, int64_t bytes);

// The next size up of which each rank has whole elements.
int64_t measurable_bytes(WorkKind kind, int64_t ranks, int64_t bytes);

// Every kind for every group and size of the ladder, in equal parts of weight 1 over all points.
// `nic_gbs` is of groups that span nodes.
std::vector<SweepPoint> collective_grid(std::span<const RankGroup> groups, double nic_gbs,
                                        int64_t largest, bool full);

// The groups of one node with `gpus`, in one process.
std::vector<SweepPoint> collective_points(int gpus, bool full);

// The rows of a plan that these ranks can measure; the plan's sizes, rounded up to measurable ones.
// What they cannot is told in `left_out` ("collective,all_reduce,64,8,8,50: 64 ranks on 8 nodes are
// not here"), once for each group.
std::vector<SweepPoint> planned_collectives(const PlanText& plan, std::span<const RankPlace> ranks,
                                            double nic_gbs, std::vector<std::string>& left_out);

}  // namespace stepcast::measure
