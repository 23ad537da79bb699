// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "scenarios/forecast/forecast.h"
#include "scenarios/observed_errors.h"
#include "sim/diagnostic.h"
#include "tests/accuracy/profiled.h"

namespace stepcast::accuracy {
namespace {

// Sizes that do not give the number of parameters that is printed beside them are of another model.
std::string contradiction(const Value& record, const Transformer& model) {
  constexpr double kRounding = 0.1;  // printed with two digits, with or without embeddings
  const auto printed = number_at(record, "model.params_b");
  if (!printed) return {};
  const double billions = static_cast<double>(parameters(model)) / 1e9;
  if (std::abs(billions / *printed - 1) <= kRounding) return {};
  return fmt::format(
      "the record contradicts itself: its sizes make {:.3g} B parameters, it says "
      "{:.3g} B",
      billions, *printed);
}

double memory_of(const Result& result, MemoryKind kind, const Gpu& gpu) {
  switch (kind) {
    case MemoryKind::last_allocated:
      return static_cast<double>(result.memory.back().memory.peak.value);
    case MemoryKind::reserved: return static_cast<double>(result.memory_reserved.value);
    case MemoryKind::device:
      return static_cast<double>(result.memory_reserved.value + gpu.reserve.value);
    case MemoryKind::allocated: break;
  }
  int64_t most = 0;
  for (const RankMemory& m : result.memory) most = std::max(most, m.memory.peak.value);
  return static_cast<double>(most);
}

// What the model is split over, beside the data.
std::string layout_of(const Plan& plan) {
  std::string layout;
  const auto add = [&](bool split, const char* name) {
    if (split) layout += (layout.empty() ? "" : "+") + std::string(name);
  };
  add(plan.tp > 1, "tp");
  add(plan.pp > 1, "pp");
  add(plan.cp > 1, "cp");
  add(plan.ep > 1, "ep");
  add(plan.zero == 3, "zero-3");
  return layout.empty() ? "data" : layout;
}

Result step_of(const Scenario& scenario) {
  ForecastOptions options;
  options.what_if = false;
  return forecast(scenario, options);
}

// What one more layer adds to one more microbatch: ends of the model, optimizer and gradient
// reduction cancel out.
double layer_time(const std::string& scenario, const Plan& plan) {
  const auto step = [&](int layers, int64_t microbatches) {
    LoadOptions options;
    options.set = {{"model.num_hidden_layers", std::to_string(layers)},
                   {"batch.global", std::to_string(plan.micro_batch * plan.dp * microbatches)}};
    return to_seconds(step_of(load_scenario_text(scenario, "layer.yaml", options)).step_time);
  };
  return step(2, 2) - step(2, 1) - step(1, 2) + step(1, 1);
}

// A time of the step, or of a layer of it, and how far it is to be trusted.
void note_step(const Scenario& scenario, const Result& result, double seconds, RunRow& row) {
  row.step_time_s = seconds;
  row.origins = result.trust;
  row.run_class = run_class(scenario, result);
  if (!result.interval) return;
  const Interval& interval = *result.interval;
  row.cost_error = interval.cost_error;
  const double part = seconds / to_seconds(result.step_time);
  row.interval = {part * to_seconds(interval.low), part * to_seconds(interval.high),
                  interval.level};
}

void forecast_row(const RunRecord& record, RunRow& row) {
  const Scenario scenario = load_scenario_text(row.scenario, row.id + ".yaml");
  row.measured = measured_run(record, &scenario);
  const Plan& plan = scenario.plan;
  row.hardware = scenario.cluster.node.gpu.name;
  row.parameters = static_cast<double>(parameters(scenario.model));
  row.layout = layout_of(plan);
  row.tokens_per_gpu = static_cast<double>(plan.global_batch * plan.seq) /
                       static_cast<double>(plan.tp * plan.cp * plan.dp * plan.pp);
  if (std::string why = contradiction(record.value, scenario.model); !why.empty()) {
    row.skipped.push_back(std::move(why));
    return;
  }
  const Result result = step_of(scenario);
  const bool one_layer = row.measured.basis == TimeBasis::layer;
  note_step(scenario, result,
            one_layer ? layer_time(row.scenario, plan) : to_seconds(result.step_time), row);
  if (one_layer) return;
  row.peak_memory = memory_of(result, row.measured.memory_kind, scenario.cluster.node.gpu);
  row.out_of_memory = !result.fits;
}

}  // namespace

RunRow predict(const RunRecord& record, const std::vector<Rule>& rules) {
  RunRow row;
  row.id = record.id;
  row.source = record.source;
  row.group = record.group;
  row.hardware = text_at(record.value, "hardware.gpu");
  row.gpus = whole_at(record.value, "hardware.gpus").value_or(0);
  row.measured = measured_run(record, nullptr);
  row.profiled_step_s = profiled_step_s(record.value);
  if (!record.problem.empty()) {
    row.skipped.push_back(record.problem);
    return row;
  }
  try {
    Conversion conversion = convert(record, rules);
    row.assumed = std::move(conversion.assumed);
    row.scenario = std::move(conversion.scenario);
    if (conversion.skipped) {
      row.skipped.push_back(std::move(*conversion.skipped));
    } else {
      forecast_row(record, row);
    }
  } catch (const InputError& e) {
    for (const Diagnostic& d : e.diagnostics) row.skipped.push_back(d.code + ' ' + d.message);
  } catch (const std::exception& e) {  // a defect; the others are still of interest
    row.skipped.push_back(std::string("internal error: ") + e.what());
  }
  return row;
}

std::vector<RunRow> predict_all(const std::vector<RunRecord>& records,
                                const std::vector<Rule>& rules, int threads) {
  std::vector<RunRow> rows(records.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < records.size(); i = next++) rows[i] = predict(records[i], rules);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  return rows;
}

}  // namespace stepcast::accuracy
