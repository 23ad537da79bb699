// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/calibration_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "calibrate/price/compute_price.h"
#include "calibrate/price/price_graph.h"
#include "scenarios/forecast/forecast.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/graph/op_graph.h"
#include "topology/nccl/collectives.h"

namespace stepcast {
namespace {

class GroupFinder {
 public:
  explicit GroupFinder(const Scenario& s) : s_(s) {}

  // Sets the group of a communication.
  void fill(PlanRow& row) {
    Work& w = row.work;
    if (w.from != w.to) {
      row.ranks = 2;
      row.nodes = pair_crosses_nodes(w) ? 2 : 1;
      row.ranks_per_node = 2 / row.nodes;
    } else {
      std::optional<GroupShape>& shape = shapes_[static_cast<size_t>(w.axis)];
      const Plan& plan = s_.plan;
      if (!shape) shape = worst_shape(s_.cluster, plan.grid, w.axis, s_.placement);
      row.ranks = shape->ranks;
      row.nodes = shape->nodes;
      row.ranks_per_node = shape->ranks_per_node;
    }
    // A shift along an axis is what nccl-tests calls send and receive.
    if (w.kind == WorkKind::shift) w.kind = WorkKind::send_recv;
    if (row.nodes > 1) row.nic_gbs = s_.cluster.node.nic_share().value * 1e-9;
  }

 private:
  bool pair_crosses_nodes(const Work& w) const {
    const RankGrid& grid = s_.plan.grid;
    for (int64_t rank = 0; rank < grid.world(); ++rank) {
      Coordinates at = grid.coordinates(rank);
      if (at.pp != w.from) continue;
      at.pp = w.to;
      if (node_of(rank) != node_of(grid.rank(at))) return true;
    }
    return false;
  }
  int64_t node_of(int64_t rank) const { return s_.cluster.node_of(s_.placement.gpu_of(rank)); }

  const Scenario& s_;
  std::array<std::optional<GroupShape>, kAxes> shapes_;
};

class PlanMaker {
 public:
  void add(const Scenario& scenario);
  CalibrationPlan finish();

 private:
  void add(const PlanRow& row);

  std::string gpu_, first_;
  std::vector<std::string> names_;
  std::map<std::string, PlanRow> rows_;  // by plan_key
  std::map<std::string, double> left_out_;
};

void PlanMaker::add(const PlanRow& row) {
  const auto [at, fresh] = rows_.try_emplace(plan_key(row), row);
  if (fresh) return;
  at->second.weight += row.weight;
  at->second.origin = std::max(at->second.origin, row.origin);
}

void PlanMaker::add(const Scenario& scenario) {
  const std::string& gpu = scenario.cluster.node.gpu.name;
  if (names_.empty()) {
    gpu_ = gpu;
    first_ = scenario.file;
  } else if (gpu != gpu_) {
    throw file_error("E127", "this scenario runs on " + gpu + ", " + first_ + " on " + gpu_,
                     scenario.file, "a plan is for one GPU");
  }
  names_.push_back(scenario.name + ' ' + scenario.hash);
  Scenario alone = scenario;  // prices are the same, and it is quicker
  alone.perturb.clear();
  alone.links = Scenario::Links::off;
  alone.share_links = false;
  alone.interference = Scenario::Interference::off;
  alone.replicas = 1;
  const Result result = forecast(alone, {.what_if = false});
  const OpGraph& graph = *result.graph;
  std::vector<double> times = work_counts(graph);
  double all = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    times[i] *= static_cast<double>(result.prices->by_work[i].time.count());
    all += times[i];
  }
  GroupFinder groups(scenario);
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] <= 0) continue;
    PlanRow row;
    row.work = graph.works[i];
    row.weight = times[i] / all;
    row.origin = result.prices->by_work[i].origin;
    if (row.work.kind == WorkKind::expert_wait) row.work = busiest_work(row.work);
    if (const std::string why = beyond_tables(row.work); !why.empty()) {
      left_out_[why] += row.weight;
      continue;
    }
    if (is_communication(row.work.kind)) groups.fill(row);
    add(row);
  }
}

CalibrationPlan PlanMaker::finish() {
  CalibrationPlan plan;
  plan.text.gpu = gpu_;
  plan.text.scenarios = names_;
  for (auto& [key, row] : rows_) plan.text.rows.push_back(row);
  std::stable_sort(plan.text.rows.begin(), plan.text.rows.end(),
                   [](const PlanRow& a, const PlanRow& b) { return a.weight > b.weight; });
  plan.left_out.assign(left_out_.begin(), left_out_.end());
  std::stable_sort(plan.left_out.begin(), plan.left_out.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return plan;
}

}  // namespace

CalibrationPlan calibration_plan(std::span<const Scenario> scenarios) {
  STEPCAST_CHECK(!scenarios.empty(), "a plan is for scenarios");
  PlanMaker maker;
  for (const Scenario& s : scenarios) maker.add(s);
  return maker.finish();
}

}  // namespace stepcast
