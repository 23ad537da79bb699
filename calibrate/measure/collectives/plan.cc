// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "sim/check.h"

namespace stepcast::measure {
namespace {

constexpr int64_t kBendFrom = int64_t{16} << 10;
constexpr int64_t kBendTo = int64_t{64} << 20;

// 1, 2, 4, ... and `most` itself, ascending.
std::vector<int> powers_and(int most) {
  std::vector<int> all;
  for (int n = 1; n < most; n *= 2) all.push_back(n);
  if (most > 0) all.push_back(most);
  return all;
}

// Ranks of each node, in order of the nodes.
std::vector<int> ranks_of_nodes(std::span<const RankPlace> ranks) {
  std::vector<int> counts;
  for (const RankPlace& r : ranks) {
    const auto node = static_cast<size_t>(r.node);
    if (counts.size() <= node) counts.resize(node + 1);
    ++counts[node];
  }
  return counts;
}

bool is_split(WorkKind kind) {
  return kind == WorkKind::all_gather || kind == WorkKind::reduce_scatter ||
         kind == WorkKind::all_to_all;
}

SweepPoint point_of(WorkKind kind, const RankGroup& group, double nic_gbs, int64_t bytes) {
  SweepPoint point;
  point.work.kind = kind;
  point.work.dtype = DType::bf16;
  point.ranks = int64_t{group.nodes} * group.ranks_per_node;
  point.nodes = group.nodes;
  point.ranks_per_node = group.ranks_per_node;
  point.nic_gbs = group.nodes > 1 ? nic_gbs : 0;
  point.work.bytes = Bytes{measurable_bytes(kind, point.ranks, bytes)};
  point.key = row_key(point);
  point.expected_us = nominal_us(point);
  return point;
}

}  // namespace

std::vector<RankGroup> rank_groups(std::span<const RankPlace> ranks) {
  const std::vector<int> counts = ranks_of_nodes(ranks);
  std::vector<RankGroup> groups;
  if (counts.empty()) return groups;
  const int smallest = *std::min_element(counts.begin(), counts.end());
  for (const int nodes : powers_and(static_cast<int>(counts.size()))) {
    for (const int per_node : powers_and(smallest)) {
      if (nodes * per_node > 1) groups.push_back({nodes, per_node});
    }
  }
  std::sort(groups.begin(), groups.end(), [](const RankGroup& a, const RankGroup& b) {
    return std::pair(a.nodes * a.ranks_per_node, a) > std::pair(b.nodes * b.ranks_per_node, b);
  });
  return groups;
}

std::vector<int> members_of(const RankGroup& group, std::span<const RankPlace> ranks) {
  std::vector<int> taken(static_cast<size_t>(std::max(0, group.nodes)));
  std::vector<int> members;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].node >= group.nodes) continue;
    int& of_node = taken[static_cast<size_t>(ranks[i].node)];
    if (of_node == group.ranks_per_node) continue;
    ++of_node;
    members.push_back(static_cast<int>(i));
  }
  const bool complete =
      std::all_of(taken.begin(), taken.end(), [&](int n) { return n == group.ranks_per_node; });
  if (!complete) members.clear();
  return members;
}

std::vector<int64_t> size_ladder(int64_t largest, bool full) {
  std::vector<int64_t> sizes;
  const int64_t step = full ? 2 : 4;
  for (int64_t bytes = kSmallestMessage; bytes <= largest; bytes *= step) {
    sizes.push_back(bytes);
    const int64_t between = full ? bytes / 2 * 3 : bytes * 2;
    if (bytes >= kBendFrom && bytes < kBendTo && between <= largest) sizes.push_back(between);
  }
  return sizes;
}

ElementCounts element_counts(WorkKind kind, int64_t ranks, int64_t bytes) {
  STEPCAST_CHECK(bytes > 0 && bytes == measurable_bytes(kind, ranks, bytes), std::to_string(bytes));
  const int64_t all = bytes / kElementBytes;
  switch (kind) {
    case WorkKind::all_gather: return {all / ranks, all};
    case WorkKind::reduce_scatter: return {all, all / ranks};
    default: return {all, all};
  }
}

int64_t measurable_bytes(WorkKind kind, int64_t ranks, int64_t bytes) {
  const int64_t unit = kElementBytes * (is_split(kind) ? ranks : 1);
  return std::max<int64_t>(1, (bytes + unit - 1) / unit) * unit;
}

std::vector<SweepPoint> collective_grid(std::span<const RankGroup> groups, double nic_gbs,
                                        int64_t largest, bool full) {
  std::vector<SweepPoint> points;
  for (const RankGroup& group : groups) {
    for (const WorkKind kind : kMeasuredCollectives) {
      for (const int64_t bytes : size_ladder(largest, full)) {
        points.push_back(point_of(kind, group, nic_gbs, bytes));
      }
    }
  }
  // Rounding makes equal sizes of small ones.
  std::set<std::string> seen;
  std::erase_if(points, [&](const SweepPoint& p) { return !seen.insert(p.key).second; });
  for (SweepPoint& p : points) p.weight = 1.0 / static_cast<double>(points.size());
  return points;
}

std::vector<SweepPoint> collective_points(int gpus, bool full) {
  const std::vector<RankPlace> ranks = [&] {
    const ProcessRecord here{"localhost", gpus, 0, ""};
    return gpus > 0 ? place_ranks(std::span(&here, 1)) : std::vector<RankPlace>();
  }();
  return collective_grid(rank_groups(ranks), 0, kLargestMessage, full);
}

std::vector<SweepPoint> planned_collectives(const PlanText& plan, std::span<const RankPlace> ranks,
                                            double nic_gbs, std::vector<std::string>& left_out) {
  std::vector<SweepPoint> points;
  std::set<std::tuple<int64_t, int64_t, int64_t>> told;
  for (const PlanRow& row : plan.rows) {
    if (std::find(kMeasuredCollectives.begin(), kMeasuredCollectives.end(), row.work.kind) ==
        kMeasuredCollectives.end()) {
      continue;
    }
    const RankGroup group{static_cast<int>(std::min<int64_t>(row.nodes, 1 << 20)),
                          static_cast<int>(std::min<int64_t>(row.ranks_per_node, 1 << 20))};
    const bool regular = row.ranks == row.nodes * row.ranks_per_node && row.ranks > 1;
    if (!regular || members_of(group, ranks).empty()) {
      if (told.insert({row.ranks, row.nodes, row.ranks_per_node}).second) {
        left_out.push_back(plan_key(row) + ": " + std::to_string(row.ranks) + " ranks on " +
                           std::to_string(row.nodes) +
                           (row.nodes == 1 ? " node are not here" : " nodes are not here"));
      }
      continue;
    }
    SweepPoint point = point_of(row.work.kind, group, nic_gbs, row.work.bytes.value);
    point.weight = row.weight;
    point.origin = row.origin;
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace stepcast::measure
