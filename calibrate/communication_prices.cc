// SPDX-License-Identifier: Apache-2.0
#include "calibrate/communication_prices.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "sim/places_reached.h"
#include "topology/written_fabric.h"

namespace stepcast {
namespace {

bool in_two_hops(const Work& work) {
  return work.kind == WorkKind::all_to_all && work.m > 0;
}

Price with_model(Price price, const CommunicationCost& model) {
  price.latency = std::min(price.time, model.latency);
  price.algorithm = model.algorithm;
  return price;
}

Price two_hops(const Work& work, const Cluster& cluster, const GroupShape& shape) {
  // Nodes that a token reaches, of the ranks that it reaches: each gets it over the network once.
  const double ranks = places_reached(shape.ranks, work.n, work.m);
  const double any = places_reached(shape.nodes, work.n, work.m);
  const double nodes = work.k > 0 ? std::min(any, static_cast<double>(work.k)) : any;
  const CommunicationCost cost =
      expert_exchange_cost(cluster, work.bytes, shape, std::min(1.0, nodes / ranks));
  return with_model({cost.time, Origin::roofline, cost.basis}, cost);
}

}  // namespace

Price CommunicationPrices::of(const Work& work) {
  if (work.bytes.value <= 0) return {Time{}, Origin::measured, "nothing to send"};
  if (work.kind == WorkKind::send_recv) return transfer(work);
  if (work.kind == WorkKind::shift) return shift(work);
  const GroupShape shape = work.from != work.to ? pair_shape(work) : shape_of_axis(work.axis);
  if (shape.ranks <= 1) return {Time{}, Origin::measured, "nothing to send"};
  const Cluster& cluster = shape.nodes > 1 ? seen_by_groups(work) : cluster_;
  if (in_two_hops(work)) return two_hops(work, cluster, shape);
  const CommunicationCost cost = collective_cost(cluster, work.kind, work.bytes, shape);
  if (table_ != nullptr) {
    if (auto found = table_->collective(work.kind, work.bytes, shape, cluster))
      return with_model(std::move(*found), cost);
  }
  return with_model({cost.time, Origin::roofline, cost.basis}, cost);
}

// The slowest of the pairs of ranks of the two stages; pairs of the same two nodes cost the same.
Price CommunicationPrices::transfer(const Work& work) const {
  CommunicationCost worst;
  std::pair<int64_t, int64_t> nodes{-1, -1};
  for (int64_t i = 0; i < grid_.tp * grid_.cp * grid_.dp; ++i) {
    const Coordinates at{i % grid_.tp, i / grid_.tp % grid_.cp, i / (grid_.tp * grid_.cp), 0};
    const int64_t from = gpu_of({at.tp, at.cp, at.dp, work.from});
    const int64_t to = gpu_of({at.tp, at.cp, at.dp, work.to});
    const std::pair<int64_t, int64_t> here{cluster_.node_of(from), cluster_.node_of(to)};
    if (std::exchange(nodes, here) == here) continue;
    CommunicationCost cost = transfer_cost(cluster_, from, to, work.bytes);
    if (cost.time > worst.time || worst.basis.empty()) worst = std::move(cost);
  }
  return with_model({worst.time, Origin::roofline, worst.basis}, worst);
}

// The slowest of the pairs of neighbours along the axis: all ranks of a ring wait for it.
Price CommunicationPrices::shift(const Work& work) const {
  struct Digit {
    int64_t stride, size;
  };
  std::vector<Digit> places;  // of a rank in its ring
  int64_t stride = 1;
  for (const GridDigit& d : grid_.digits()) {
    if (covers(work.axis, d)) places.push_back({stride, d.size});
    stride *= d.size;
  }
  if (places.empty()) return {Time{}, Origin::measured, "nothing to send"};
  CommunicationCost worst;
  std::set<std::array<int64_t, 3>> seen;  // nodes, and whether both GPUs are on one rail
  for (int64_t rank = 0; rank < grid_.world(); ++rank) {
    int64_t next = rank;
    for (const Digit& p : places) {
      const int64_t at = rank / p.stride % p.size;
      next += at + 1 < p.size ? p.stride : -at * p.stride;
      if (at + 1 < p.size) break;
    }
    const int64_t from = placement_.gpu_of(rank), to = placement_.gpu_of(next);
    const bool rail = (to - from) % cluster_.node.gpus == 0;
    if (!seen.insert({cluster_.node_of(from), cluster_.node_of(to), rail ? 1 : 0}).second) continue;
    CommunicationCost cost = transfer_cost(cluster_, from, to, work.bytes);
    if (cost.time > worst.time || worst.basis.empty()) worst = std::move(cost);
  }
  return with_model({worst.time, Origin::roofline, worst.basis}, worst);
}

// The costliest of the pairs of ranks of two stages; all GPUs of a node are in some pair.
GroupShape CommunicationPrices::pair_shape(const Work& work) const {
  GroupShape worst;
  Time longest{-1};
  for (int64_t i = 0; i < grid_.tp * grid_.cp * grid_.dp; ++i) {
    const Coordinates at{i % grid_.tp, i / grid_.tp % grid_.cp, i / (grid_.tp * grid_.cp), 0};
    std::array<int64_t, 2> pair{gpu_of({at.tp, at.cp, at.dp, work.from}),
                                gpu_of({at.tp, at.cp, at.dp, work.to})};
    if (pair[0] > pair[1]) std::swap(pair[0], pair[1]);
    GroupShape shape = shape_of(cluster_, pair);
    if (shape.nodes > 1) shape.sharing = std::min(cluster_.node.gpus, grid_.world());
    if (shape == worst && longest >= Time{}) continue;
    const Time time = collective_cost(cluster_, work.kind, work.bytes, shape).time;
    if (time <= longest) continue;
    longest = time;
    worst = shape;
  }
  return worst;
}

// What the groups of a work get of the links where these are written out (written_fabric.h).
const Cluster& CommunicationPrices::seen_by_groups(const Work& work) {
  if (cluster_.graph == nullptr) return cluster_;
  const bool pairs = work.from != work.to;
  const int64_t axis = pairs ? -1 : static_cast<int64_t>(work.axis);
  const std::array<int64_t, 3> key{axis, pairs ? work.from : 0, pairs ? work.to : 0};
  const auto [at, fresh] = seen_.try_emplace(key);
  if (!fresh) return at->second;
  std::set<std::vector<int64_t>> groups;
  for (int64_t rank = 0; rank < grid_.world(); ++rank) {
    const Coordinates c = grid_.coordinates(rank);
    if (pairs && c.pp != work.from) continue;
    std::vector<int64_t> group = pairs ? std::vector{rank, grid_.rank({c.tp, c.cp, c.dp, work.to})}
                                       : grid_.group(work.axis, rank);
    for (int64_t& member : group) member = placement_.gpu_of(member);
    groups.insert(std::move(group));
  }
  return at->second = as_seen_by(cluster_, std::vector(groups.begin(), groups.end()));
}

const GroupShape& CommunicationPrices::shape_of_axis(Axis axis) {
  std::optional<GroupShape>& shape = shapes_[static_cast<size_t>(axis)];
  if (!shape) shape = worst_shape(cluster_, grid_, axis, placement_);
  return *shape;
}

}  // namespace stepcast
