// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price_graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "calibrate/roofline.h"
#include "sim/check.h"
#include "topology/collectives.h"

namespace stepcast {
namespace {

// Host time of launching one cublasGemmEx: 3.5 to 4.7 us on an EPYC host (openfabric-systems/simllm
// @9c2672c), the middle.
constexpr Time kLaunch{4'100'000};

Price price_compute(const Work& work, const Gpu& gpu, const CostTable* table) {
  if (work.flops.value <= 0 && work.bytes.value <= 0) {
    return {Time{}, Origin::measured, "nothing to do"};
  }
  if (table != nullptr) {
    if (auto found = table->compute(work, gpu)) return *found;
  }
  return {roofline_time(work, gpu), Origin::roofline, "data sheet of " + gpu.name};
}

class CommunicationPrices {
 public:
  CommunicationPrices(const Cluster& cluster, const RankGrid& grid, const CostTable* table)
      : cluster_(cluster), grid_(grid), table_(table) {}

  Price of(const Work& work) {
    if (work.bytes.value <= 0) return {Time{}, Origin::measured, "nothing to send"};
    if (work.kind == WorkKind::send_recv) return transfer(work);
    const GroupShape shape = work.from != work.to ? pair_shape(work) : shape_of_axis(work.axis);
    if (shape.ranks <= 1) return {Time{}, Origin::measured, "nothing to send"};
    const CommunicationCost cost = collective_cost(cluster_, work.kind, work.bytes, shape);
    if (table_ != nullptr) {
      if (auto found = table_->collective(work.kind, work.bytes, shape, cluster_))
        return with_model(std::move(*found), cost);
    }
    return with_model({cost.time, Origin::roofline, cost.basis}, cost);
  }

 private:
  static Price with_model(Price price, const CommunicationCost& model) {
    price.latency = std::min(price.time, model.latency);
    price.algorithm = model.algorithm;
    return price;
  }

  // The slowest of the pairs of ranks of the two stages; pairs of the same two nodes cost the same.
  Price transfer(const Work& work) const {
    CommunicationCost worst;
    std::pair<int64_t, int64_t> nodes{-1, -1};
    for (int64_t i = 0; i < grid_.tp * grid_.cp * grid_.dp; ++i) {
      const Coordinates at{i % grid_.tp, i / grid_.tp % grid_.cp, i / (grid_.tp * grid_.cp), 0};
      const int64_t from = grid_.rank({at.tp, at.cp, at.dp, work.from});
      const int64_t to = grid_.rank({at.tp, at.cp, at.dp, work.to});
      const std::pair<int64_t, int64_t> here{cluster_.node_of(from), cluster_.node_of(to)};
      if (std::exchange(nodes, here) == here) continue;
      CommunicationCost cost = transfer_cost(cluster_, from, to, work.bytes);
      if (cost.time > worst.time || worst.basis.empty()) worst = std::move(cost);
    }
    return with_model({worst.time, Origin::roofline, worst.basis}, worst);
  }

  // The costliest of the pairs of ranks of two stages; all GPUs of a node are in some pair.
  GroupShape pair_shape(const Work& work) const {
    GroupShape worst;
    Time longest{-1};
    for (int64_t i = 0; i < grid_.tp * grid_.cp * grid_.dp; ++i) {
      const Coordinates at{i % grid_.tp, i / grid_.tp % grid_.cp, i / (grid_.tp * grid_.cp), 0};
      std::array<int64_t, 2> pair{grid_.rank({at.tp, at.cp, at.dp, work.from}),
                                  grid_.rank({at.tp, at.cp, at.dp, work.to})};
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

  const GroupShape& shape_of_axis(Axis axis) {
    std::optional<GroupShape>& shape = shapes_[static_cast<size_t>(axis)];
    if (!shape) shape = worst_shape(cluster_, grid_, axis);
    return *shape;
  }

  const Cluster& cluster_;
  const RankGrid& grid_;
  const CostTable* table_;
  std::array<std::optional<GroupShape>, kAxes> shapes_;
};

}  // namespace

Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
             const CostTable* table) {
  Prices prices;
  prices.by_work.reserve(graph.works.size());
  CommunicationPrices communication(cluster, grid, table);
  for (const Work& work : graph.works) {
    prices.by_work.push_back(is_communication(work.kind)
                                 ? communication.of(work)
                                 : price_compute(work, cluster.node.gpu, table));
  }
  prices.launch = kLaunch;
  if (table != nullptr) prices.launch = table->launch().value_or(kLaunch);
  return prices;
}

}  // namespace stepcast
