// SPDX-License-Identifier: Apache-2.0
// How an op graph is priced.
//
// A graph has each distinct piece of work once, however many ops do it, so pricing is a pass over
// its works:
//
//   compute         compute_price.h: the cost table, else the data sheet
//   collectives     collective_price.h: the cost table, where it has rows of this very group on
//                   these wires, else the model of communication (topology/nccl/collectives.h)
//   transfers       always that model
//   launches        what the framework's calls cost the host (data/host_costs.csv)
//
// Communication needs the plan as well, because a work says which axis its group lies along and not
// which GPUs are in it.  Take 16 GPUs on two nodes, tp = 4, pp = 2, dp = 2.  The TP groups 0-3,
// 4-7, 8-11 and 12-15 each lie in a node, so an all-reduce of the TP axis costs what 4 ranks on 1
// node cost.  Groups of one axis may lie differently, as those of 12 ranks on nodes of 8 do; then
// the costliest shape counts, because the step waits for it.  A transfer from stage 0 to stage 1 is
// run by eight pairs of ranks, 0 to 8 and so on; it too costs what the costliest pair takes.
#include "calibrate/price/price_graph.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/price/collective_price.h"
#include "calibrate/price/compute_price.h"
#include "calibrate/table/cost_table.h"
#include "sim/check.h"
#include "sim/csv.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/rank_grid.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/explicit_fabric.h"
#include "topology/cluster/fabric.h"
#include "topology/nccl/collectives.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> host_cost_files();

namespace {

// Keeps what works of one axis have in common.  Refers to its arguments.
class CommunicationPrices {
 public:
  // `table` may be null: the communication model (topology/nccl/collectives.h) answers.
  CommunicationPrices(const Cluster& cluster, const RankGrid& grid, const CostTable* table,
                      const Placement& placement)
      : cluster_(cluster), grid_(grid), table_(table), placement_(placement) {}

  // REQUIRES: is_communication(work.kind).
  Price of(const Work& work);

 private:
  Price of_group(const Work& work, const Cluster& cluster, const GroupShape& shape) const;
  Price transfer(const Work& work);
  Price shift(const Work& work);
  GroupShape pair_shape(const Work& work) const;
  const Cluster& seen_by_groups(const Work& work);
  const GroupShape& shape_of_axis(Axis axis);
  int64_t gpu_of(const Coordinates& c) const { return placement_.gpu_of(grid_.rank(c)); }
  const std::vector<int64_t>& first_stage();
  // What the route between two GPUs depends on (fabric.h); nothing where links are listed, as each
  // may be another.
  std::optional<int64_t> kind_of_route(int64_t from, int64_t to);

  const Cluster& cluster_;
  const RankGrid& grid_;
  const CostTable* table_;
  const Placement& placement_;
  std::array<std::optional<GroupShape>, kAxes> shapes_;
  std::vector<int64_t> first_stage_;  // ranks, tp innermost, then cp, then dp
  std::vector<Tier> tiers_;
  std::map<std::array<int64_t, 3>, Cluster> seen_;  // by axis or pair of stages
};

bool in_two_hops(const Work& work) {
  return work.kind == WorkKind::all_to_all && work.m > 0;
}

Price by_model(const CommunicationCost& cost) {
  Price price{cost.time, Origin::roofline, cost.basis};
  price.latency = std::min(cost.time, cost.latency);
  price.algorithm = cost.algorithm;
  price.protocol = cost.protocol;
  return price;
}

Price two_hops(const Work& work, const Cluster& cluster, const GroupShape& shape) {
  // Nodes that a token reaches, of the ranks that it reaches: each gets it over the network once.
  const double ranks = expected_destinations(shape.ranks, work.n, work.m);
  const double any = expected_destinations(shape.nodes, work.n, work.m);
  const double nodes = work.k > 0 ? std::min(any, static_cast<double>(work.k)) : any;
  const CommunicationCost cost =
      expert_exchange_cost(cluster, work.bytes, shape, std::min(1.0, nodes / ranks));
  return by_model(cost);
}

Price CommunicationPrices::of(const Work& work) {
  if (work.bytes.value <= 0) return {Time{}, Origin::measured, "nothing to send"};
  if (work.kind == WorkKind::send_recv) return transfer(work);
  if (work.kind == WorkKind::shift) return shift(work);
  const GroupShape shape = work.from != work.to ? pair_shape(work) : shape_of_axis(work.axis);
  if (shape.ranks <= 1) return {Time{}, Origin::measured, "nothing to send"};
  const Cluster& cluster = shape.nodes > 1 ? seen_by_groups(work) : cluster_;
  Price price = of_group(work, cluster, shape);
  price.crosses_nodes = shape.nodes > 1;
  return price;
}

Price CommunicationPrices::of_group(const Work& work, const Cluster& cluster,
                                    const GroupShape& shape) const {
  if (in_two_hops(work)) return two_hops(work, cluster, shape);
  return collective_price(work.kind, work.bytes, shape, cluster, table_);
}

const std::vector<int64_t>& CommunicationPrices::first_stage() {
  if (!first_stage_.empty()) return first_stage_;
  const int64_t ranks = grid_.tp * grid_.cp * grid_.dp;
  first_stage_.reserve(static_cast<size_t>(ranks));
  for (int64_t i = 0; i < ranks; ++i)
    first_stage_.push_back(
        grid_.rank({i % grid_.tp, i / grid_.tp % grid_.cp, i / (grid_.tp * grid_.cp), 0}));
  return first_stage_;
}

std::optional<int64_t> CommunicationPrices::kind_of_route(int64_t from, int64_t to) {
  if (cluster_.graph != nullptr) return {};
  if (from == to) return -2;
  if (cluster_.node_of(from) == cluster_.node_of(to)) return -1;
  if (tiers_.empty()) tiers_ = fabric_tiers(cluster_);
  const bool other_rail = from % cluster_.node.gpus != to % cluster_.node.gpus;
  return 2 * tier_between(tiers_, from, to) + (other_rail ? 1 : 0);
}

// The slowest of the pairs of ranks of the two stages; pairs of the same two nodes cost the same,
// and so do those with routes of one kind.
Price CommunicationPrices::transfer(const Work& work) {
  std::optional<CommunicationCost> worst;
  bool crosses_nodes = false;
  std::pair<int64_t, int64_t> nodes{-1, -1};
  std::vector<int64_t> kinds;
  const int64_t stage = grid_.rank({0, 0, 0, 1}) - grid_.rank({0, 0, 0, 0});  // to the next one
  for (const int64_t rank : first_stage()) {
    const int64_t from = placement_.gpu_of(rank + work.from * stage);
    const int64_t to = placement_.gpu_of(rank + work.to * stage);
    const std::pair<int64_t, int64_t> here{cluster_.node_of(from), cluster_.node_of(to)};
    if (std::exchange(nodes, here) == here) continue;
    crosses_nodes |= here.first != here.second;
    if (const std::optional<int64_t> kind = kind_of_route(from, to)) {
      if (std::ranges::find(kinds, *kind) != kinds.end()) continue;
      kinds.push_back(*kind);
    }
    CommunicationCost cost = transfer_cost(cluster_, from, to, work.bytes);
    if (!worst || cost.time > worst->time) worst = std::move(cost);
  }
  Price price = by_model(*worst);
  price.crosses_nodes = crosses_nodes;
  return price;
}

// The slowest of the pairs of neighbours along the axis: all ranks of a ring wait for it.
Price CommunicationPrices::shift(const Work& work) {
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
  std::optional<CommunicationCost> worst;
  std::set<std::array<int64_t, 3>> seen;  // nodes, and whether both GPUs are on one rail
  std::vector<int64_t> kinds;             // of routes
  bool crosses_nodes = false;
  for (int64_t rank = 0; rank < grid_.world(); ++rank) {
    int64_t next = rank;
    for (const Digit& p : places) {
      const int64_t at = rank / p.stride % p.size;
      next += at + 1 < p.size ? p.stride : -at * p.stride;
      if (at + 1 < p.size) break;
    }
    const int64_t from = placement_.gpu_of(rank), to = placement_.gpu_of(next);
    crosses_nodes |= cluster_.node_of(from) != cluster_.node_of(to);
    if (const std::optional<int64_t> kind = kind_of_route(from, to)) {
      if (std::ranges::find(kinds, *kind) != kinds.end()) continue;
      kinds.push_back(*kind);
    }
    const bool rail = (to - from) % cluster_.node.gpus == 0;
    if (!seen.insert({cluster_.node_of(from), cluster_.node_of(to), rail ? 1 : 0}).second) continue;
    CommunicationCost cost = transfer_cost(cluster_, from, to, work.bytes);
    if (!worst || cost.time > worst->time) worst = std::move(cost);
  }
  Price price = by_model(*worst);
  price.crosses_nodes = crosses_nodes;
  return price;
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

// What the groups of a work get of the links where these are written out (explicit_fabric.h).
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
  return at->second = effective_cluster(cluster_, std::vector(groups.begin(), groups.end()));
}

const GroupShape& CommunicationPrices::shape_of_axis(Axis axis) {
  std::optional<GroupShape>& shape = shapes_[static_cast<size_t>(axis)];
  if (!shape) shape = worst_shape(cluster_, grid_, axis, placement_);
  return *shape;
}

enum Host : size_t { kX86, kGrace, kHosts };
using AllCosts = std::array<HostCosts, kHosts>;

size_t call_named(std::string_view name) {
  for (size_t call = 0; call < kHostCalls; ++call)
    if (name == name_of(static_cast<HostCall>(call))) return call;
  STEPCAST_CHECK(false, "host_costs.csv: unknown call '" + std::string(name) + "'");
  return 0;
}

// One row a call: its costs by host, and where they are from.
AllCosts read_costs(std::string_view text) {
  AllCosts all{};
  for (const CsvRow& row : csv_rows(text, "call,x86_us,grace_us,kind")) {
    const size_t call = call_named(row.cells[0]);
    for (size_t host = 0; host < kHosts; ++host)
      all[host][call] = time_from_seconds(row.number(host + 1) * 1e-6);
    STEPCAST_CHECK(row.cells[3] == "measured" || row.cells[3] == "derived",
                   "host_costs.csv: '" + std::string(row.cells[3]) + "'");
  }
  for (const HostCosts& costs : all)
    for (const Time t : costs) STEPCAST_CHECK(t > Time{}, "host_costs.csv lacks a call");
  return all;
}

}  // namespace

const HostCosts& host_costs(const Node& node) {
  static const AllCosts all = read_costs(host_cost_files()[0].second);
  return all[node.c2c ? kGrace : kX86];
}

Time host_time(const Launch& launch, const HostCosts& costs) {
  Time sum{};
  for (size_t call = 0; call < kHostCalls; ++call) sum += costs[call] * int64_t{launch.calls[call]};
  return sum;
}

std::string beyond_tables(const Work& work) {
  if (work.kind == WorkKind::host_adam) return "Adam on the host";
  if (in_two_hops(work)) return "exchange of experts' tokens in two hops";
  if (reads_cache(work)) return "attention of one query to a cache";
  return {};
}

namespace {

void price_launches(const OpGraph& graph, const Cluster& cluster, const CostTable* table,
                    Prices& prices) {
  HostCosts costs = host_costs(cluster.node);
  HostCosts measured{};
  const auto take = [&](HostCall call, std::optional<Time> time) {
    if (!time) return;
    costs[static_cast<size_t>(call)] = measured[static_cast<size_t>(call)] = *time;
  };
  if (table != nullptr) {
    take(HostCall::kernel, table->launch());
    take(HostCall::graph, table->graph_launch());
  }
  prices.by_launch.reserve(graph.launches.size());
  prices.measured_launches.reserve(graph.launches.size());
  for (const Launch& launch : graph.launches) {
    prices.by_launch.push_back(host_time(launch, costs));
    prices.measured_launches.push_back(host_time(launch, measured));
  }
}

}  // namespace

Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
             const CostTable* table, const Placement& placement) {
  Prices prices;
  prices.by_work.reserve(graph.works.size());
  CommunicationPrices communication(cluster, grid, table, placement);
  for (const Work& work : graph.works) {
    prices.by_work.push_back(
        is_communication(work.kind)
            ? communication.of(work)
            : compute_price(work, cluster.node.gpu, table, nullptr, graph.libraries));
  }
  price_launches(graph, cluster, table, prices);
  return prices;
}

Prices PriceCache::price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
                         const CostTable* table, const Placement& placement) {
  constexpr size_t kMostGrids = 64;
  if (std::exchange(libraries_, graph.libraries) != graph.libraries) compute_.clear();
  auto known = std::ranges::find(grids_, grid, &OfGrid::grid);
  if (known == grids_.end()) {
    if (grids_.size() == kMostGrids) grids_.erase(grids_.begin());
    known = grids_.insert(grids_.end(), OfGrid{grid, {}});
  }
  CommunicationPrices communication(cluster, grid, table, placement);
  Prices prices;
  prices.by_work.reserve(graph.works.size());
  for (const Work& work : graph.works) {
    const bool communicates = is_communication(work.kind);
    std::map<Work, Price>& of = communicates ? known->prices : compute_;
    auto at = of.find(work);
    if (at == of.end()) {
      Price price = communicates
                        ? communication.of(work)
                        : compute_price(work, cluster.node.gpu, table, nullptr, graph.libraries);
      price.basis = {};
      price.remark = {};
      at = of.emplace(work, std::move(price)).first;
    }
    prices.by_work.push_back(at->second);
  }
  price_launches(graph, cluster, table, prices);
  return prices;
}

}  // namespace stepcast
