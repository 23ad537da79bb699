// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/run_model.h"

#include <fmt/core.h>

#include <atomic>
#include <cmath>
#include <exception>
#include <thread>

#include "calibrate/runs/convert.h"
#include "model/parameters.h"
#include "sim/engine/run.h"

namespace stepcast::accuracy {

std::string contradiction(const Value& record, const Transformer& model) {
  constexpr double kRounding = 0.1;  // printed with two digits, with or without embeddings
  const auto printed = number_at(record, "model.params_b");
  if (!printed) return {};
  const double billions = static_cast<double>(parameters(model)) / 1e9;
  const double embedding = static_cast<double>(model.vocab * model.hidden) / 1e9;
  for (const double counted : {billions, billions - embedding})
    if (std::abs(counted / *printed - 1) <= kRounding) return {};
  return fmt::format(
      "the record contradicts itself: its sizes make {:.3g} B parameters, it says "
      "{:.3g} B",
      billions, *printed);
}

StepSize step_size(const Scenario& scenario) {
  const Plan& plan = scenario.plan;
  StepSize size;
  size.sequences = static_cast<double>(plan.global_batch);
  size.sequence_length = static_cast<double>(plan.seq);
  size.gpus = static_cast<double>(plan.tp * plan.cp * plan.dp * plan.pp);
  size.forward_flops =
      forward_matmul_flops(scenario.model, size.sequences, size.sequence_length, false);
  const auto& peaks = scenario.cluster.node.gpu.peak;
  const auto peak = peaks.find(plan.precision.params);
  if (peak != peaks.end()) size.peak_flops = peak->second.value;
  return size;
}

std::vector<std::pair<double, ScenarioChanges>> layer_as_steps(const Plan& plan) {
  const auto with = [&](int layers, int64_t microbatches) {
    return ScenarioChanges{
        {"model.num_hidden_layers", fmt::format("{}", layers)},
        {"batch.global", fmt::format("{}", plan.micro_batch * plan.dp * microbatches)}};
  };
  return {{1, with(2, 2)}, {-1, with(2, 1)}, {-1, with(1, 2)}, {1, with(1, 1)}};
}

RunModel::RunModel(const std::string& text, const std::string& name, bool one_layer) {
  const auto add = [&](double factor, const ScenarioChanges& changes) {
    LoadOptions options;
    options.set = changes;
    // Schedules that depend on prices are made for those without the parameters that are sought.
    options.set.emplace_back("in_situ", "off");
    parts_.emplace_back(factor, InSituStep(load_scenario_text(text, name, options)));
  };
  if (one_layer) {
    for (const auto& [factor, changes] : layer_as_steps(load_scenario_text(text, name).plan))
      add(factor, changes);
  } else {
    add(1, {});
  }
}

double RunModel::seconds(const InSituValues& values) const {
  double sum = 0;
  for (const auto& [factor, step] : parts_) sum += factor * to_seconds(step.time(values));
  return sum;
}

std::optional<ModelledRun> modelled_run(const RunRecord& record,
                                        const std::vector<RunRule>& rules) {
  if (!record.problem.empty()) return {};
  try {
    const RunConversion conversion = convert_run(record, rules);
    if (conversion.skipped) return {};
    const Scenario scenario = load_scenario_text(conversion.scenario, record.id + ".yaml");
    const StepSize size = step_size(scenario);
    const MeasuredRun measured = measured_run(record, &size);
    if (!measured.step_time_s || !is_step_time(*measured.step_time_s)) return {};
    if (!contradiction(record.value, scenario.model).empty()) return {};
    return ModelledRun{
        record.id, record.source, *measured.step_time_s,
        RunModel(conversion.scenario, record.id + ".yaml", measured.basis == TimeBasis::layer)};
  } catch (const std::exception&) {  // `stepcast_accuracy runs` says why
    return {};
  }
}

std::vector<ModelledRun> modelled_runs(const std::vector<RunRecord>& records,
                                       const std::vector<RunRule>& rules, int threads) {
  std::vector<std::optional<ModelledRun>> all(records.size());
  for_each_index(records.size(), threads,
                 [&](size_t i) { all[i] = modelled_run(records[i], rules); });
  std::vector<ModelledRun> runs;
  for (std::optional<ModelledRun>& run : all)
    if (run) runs.push_back(std::move(*run));
  return runs;
}

void for_each_index(size_t n, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto loop = [&] {
    for (size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(loop);
  loop();
  for (std::thread& t : others) t.join();
}

}  // namespace stepcast::accuracy
