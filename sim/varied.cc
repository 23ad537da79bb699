// SPDX-License-Identifier: Apache-2.0
#include "sim/varied.h"

#include <map>
#include <utility>
#include <vector>

#include "sim/check.h"

namespace stepcast {
namespace {

int64_t scaled(int64_t ps, double factor) {
  if (factor == 1) return ps;
  return static_cast<int64_t>(static_cast<double>(ps) * factor + 0.5);
}

// Works of other durations, each once.
class VariedWorks {
 public:
  explicit VariedWorks(VariedStep& step) : step_(step) {}

  WorkId with(WorkId work, int64_t ps) {
    const auto index = static_cast<size_t>(work);
    if (step_.prices.by_work[index].time.count() == ps) return work;
    const auto [it, fresh] = known_.try_emplace({index, ps}, step_.graph.works.size());
    if (fresh) {
      step_.graph.works.push_back(Work(step_.graph.works[index]));
      step_.prices.by_work.push_back(Price(step_.prices.by_work[index]));
      step_.prices.by_work.back().time = Time{ps};
    }
    return static_cast<WorkId>(it->second);
  }

 private:
  VariedStep& step_;
  std::map<std::pair<size_t, int64_t>, size_t> known_;
};

Pass copy_of(const Pass& pass, const Variation& variation) {
  const auto all = pass.waits.all();
  std::vector<Wait> waits(all.begin(), all.end());
  for (Wait& w : waits) w.delay = Time{varied_delay(w.delay, variation)};
  Pass copy;
  copy.name = pass.name;
  copy.tensors = pass.tensors;
  copy.second_tensors = pass.second_tensors;
  copy.ops = pass.ops;
  copy.waits = WaitGraph(static_cast<uint32_t>(pass.ops.size()), std::move(waits));
  copy.memory = pass.memory;
  return copy;
}

}  // namespace

int64_t varied_ps(int64_t ps, const Work& work, Phase phase, const Variation& v,
                  double pass_scale) {
  double f = 1;
  if (is_communication(work.kind)) f *= v.axis_scale[static_cast<size_t>(work.axis)];
  if (phase == Phase::optimizer) f *= v.optimizer_scale;
  if (phase == Phase::recompute) f *= v.recompute_scale;
  return scaled(ps, f * pass_scale);
}

std::vector<int64_t> varied_launches(const OpGraph& graph, const Prices& prices,
                                     const Variation& variation) {
  std::vector<int64_t> times(graph.launches.size());
  STEPCAST_CHECK(prices.by_launch.empty() || prices.by_launch.size() == times.size(),
                 "one time for each launch");
  for (size_t i = 0; i < prices.by_launch.size(); ++i)
    times[i] = scaled(prices.by_launch[i].count(), variation.launch_scale);
  return times;
}

int64_t varied_delay(Time delay, const Variation& variation) {
  return scaled(delay.count(), variation.launch_scale);
}

VariedStep vary(const OpGraph& graph, const Prices& prices, const Variation& variation) {
  STEPCAST_CHECK(prices.by_work.size() == graph.works.size(), "one price for each work");
  VariedStep step;
  OpGraph& out = step.graph;
  out.labels = graph.labels;
  out.works = graph.works;
  out.launches = graph.launches;
  out.tensor_tables = graph.tensor_tables;
  out.rendezvous = graph.rendezvous;
  out.roles = graph.roles;
  step.prices = prices;
  step.prices.by_launch.clear();
  for (const int64_t ps : varied_launches(graph, prices, variation))
    step.prices.by_launch.push_back(Time{ps});
  VariedWorks works(step);
  const auto varied = [&](WorkId work, Phase phase, double pass_scale) {
    const auto index = static_cast<size_t>(work);
    return works.with(work, varied_ps(prices.by_work[index].time.count(), graph.works[index], phase,
                                      variation, pass_scale));
  };
  for (size_t p = 0; p < graph.passes.size(); ++p) {
    Pass pass = copy_of(graph.passes[p], variation);
    const double scale = variation.pass_scale.empty() ? 1 : variation.pass_scale[p];
    for (Op& op : pass.ops) op.work = varied(op.work, op.phase, scale);
    out.passes.push_back(std::move(pass));
  }
  for (Rendezvous& r : out.rendezvous) r.work = varied(r.work, Phase::forward, 1);
  return step;
}

}  // namespace stepcast
