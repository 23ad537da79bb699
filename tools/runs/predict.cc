// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "scenarios/forecast/forecast.h"
#include "scenarios/highest_mfu.h"
#include "scenarios/memory_errors.h"
#include "scenarios/observed_errors.h"
#include "schedules/synthesis/order_timing.h"
#include "sim/diagnostic.h"
#include "tools/runs/run_model.h"

namespace stepcast::accuracy {
namespace {

// ---- steps from measured stage times

struct Profile {
  double forward = 0, input = 0, weight = 0, hop = 0;  // ms
};

std::optional<Profile> profile_of(const Value& record) {
  const auto f = number_at(record, "profiled_ms.T_F"), b = number_at(record, "profiled_ms.T_B"),
             w = number_at(record, "profiled_ms.T_W"), c = number_at(record, "profiled_ms.T_comm");
  if (!f || !b || !w || !c) return {};
  if (!(*f > 0 && *b > 0 && *w > 0 && *c >= 0 && *f + *b + *w + *c < 1e9)) return {};
  return Profile{*f, *b, *w, *c};
}

// Activations of a layer without fused attention in bytes a token, 34h + 5as (Korthikanti et al.
// 2022, eq. 1), of which W frees 32h (docs/schedules.md).  Schedules look at the ratios only.
StageMemory stage_memory(const Value& record) {
  const int64_t h = whole_at(record, "model.hidden").value_or(1);
  const int64_t as =
      whole_at(record, "model.heads").value_or(0) * whole_at(record, "model.seq").value_or(0);
  return {34 * h + 5 * as, -2 * h - 5 * as, -32 * h};
}

Schedule schedule_of(const ScheduleFamily& family, ScheduleParams params, const Profile& p,
                     const StageMemory& m) {
  for (const ScheduleParameter& known : family.parameters) {
    if (known.key == "tF") params.more["tF"] = fmt::format("{:f}", p.forward);
    if (known.key == "tB_input") params.more["tB_input"] = fmt::format("{:f}", p.input);
    if (known.key == "tW") params.more["tW"] = fmt::format("{:f}", p.weight);
    if (known.key == "tComm") params.more["tComm"] = fmt::format("{:f}", p.hop);
    if (known.key == "mem_F") params.more["mem_F"] = fmt::format("{}", m.forward);
    if (known.key == "mem_B") params.more["mem_B"] = fmt::format("{}", m.backward_input);
    if (known.key == "mem_W") params.more["mem_W"] = fmt::format("{}", m.backward_weight);
  }
  return generate_schedule(family, params);
}

// ---- steps from the scenario

double memory_of(const Result& result, MemoryKind kind) {
  Bytes beside{};
  for (const DeviceMemory& line : result.device_memory) beside += line.bytes;
  switch (kind) {
    case MemoryKind::first_allocated:
      return static_cast<double>(result.memory.front().memory.peak.value);
    case MemoryKind::last_allocated:
      return static_cast<double>(result.memory.back().memory.peak.value);
    case MemoryKind::first_reserved:
      return static_cast<double>(result.memory.front().reserved.value);
    case MemoryKind::reserved: return static_cast<double>(result.memory_reserved.value);
    case MemoryKind::device: return static_cast<double>((result.memory_reserved + beside).value);
    case MemoryKind::allocated: break;
  }
  int64_t most = 0;
  for (const RankMemory& m : result.memory) most = std::max(most, m.memory.peak.value);
  return static_cast<double>(most);
}

// The class of the shipped table of errors (scenarios/memory_errors.h).
std::string_view memory_class_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::allocated:
    case MemoryKind::first_allocated:
    case MemoryKind::last_allocated: return kAllocatedMemory;
    case MemoryKind::first_reserved:
    case MemoryKind::reserved:
    case MemoryKind::device: break;
  }
  return kReservedMemory;
}

// What the model is split over, beside the data.
std::string layout_of(const Plan& plan) {
  std::string layout;
  const auto add = [&](bool split, const char* name) {
    if (split) layout += fmt::format("{}{}", layout.empty() ? "" : "+", name);
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

double layer_time(const std::string& scenario, const Plan& plan) {
  double sum = 0;
  for (const auto& [factor, changes] : layer_as_steps(plan)) {
    LoadOptions options;
    options.set = changes;
    const Scenario step = load_scenario_text(scenario, "layer.yaml", options);
    sum += factor * to_seconds(step_of(step).step_time);
  }
  return sum;
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

// What the parameters do to the step, where a time was measured.
void note_parameters(const Scenario& scenario, const LeftOut& left_out, bool one_layer,
                     RunRow& row) {
  if (!row.measured.step_time_s) return;
  const RunModel model(row.scenario, row.id + ".yaml", one_layer);
  row.without_s = model.seconds(neutral_in_situ());
  const auto values = left_out.find(row.source);
  if (values == left_out.end()) return;
  row.left_out_s = model.seconds(
      in_situ_values(values->second, scenario.cluster.node, scenario.plan.kernels.libraries));
}

void forecast_row(const RunRecord& record, const LeftOut& left_out, RunRow& row) {
  const Scenario scenario = load_scenario_text(row.scenario, row.id + ".yaml");
  const StepSize size = step_size(scenario);
  row.measured = measured_run(record, &size);
  const Plan& plan = scenario.plan;
  row.hardware = scenario.cluster.node.gpu.name;
  row.parameters = static_cast<double>(parameters(scenario.model));
  row.layout = layout_of(plan);
  row.tokens_per_gpu = static_cast<double>(plan.global_batch * plan.seq) / size.gpus;
  if (std::string why = contradiction(record.value, scenario.model); !why.empty()) {
    row.skipped.push_back(std::move(why));
    return;
  }
  const Result result = step_of(scenario);
  const bool one_layer = row.measured.basis == TimeBasis::layer;
  note_step(scenario, result,
            one_layer ? layer_time(row.scenario, plan) : to_seconds(result.step_time), row);
  note_parameters(scenario, left_out, one_layer, row);
  if (one_layer) return;
  row.gpu_generation = name_of(scenario.cluster.node.gpu.arch);
  row.product_bits = product_bits(plan);
  if (row.measured.step_time_s && result.utilization.mfu_full_attention > 0)
    row.measured_mfu = result.utilization.mfu_full_attention * to_seconds(result.step_time) /
                       *row.measured.step_time_s;
  row.peak_memory = memory_of(result, row.measured.memory_kind);
  row.memory_class = memory_class_of(row.measured.memory_kind);
  row.out_of_memory = !result.fits;
  if (result.memory_usable.value > 0)
    row.memory_free = 1 - static_cast<double>(result.memory_reserved.value) /
                              static_cast<double>(result.memory_usable.value);
  row.memory_room = result.memory_room;
}

}  // namespace

std::optional<double> profiled_step_s(const Value& record) {
  const std::optional<Profile> p = profile_of(record);
  const ScheduleFamily* family = find_schedule_family(text_at(record, "parallelism.schedule"));
  const int64_t pp = whole_at(record, "parallelism.pp").value_or(0);
  const int64_t vpp = whole_at(record, "parallelism.vpp").value_or(1);
  const int64_t microbatches = whole_at(record, "batch.num_microbatches").value_or(0);
  if (!p || family == nullptr || pp < 1 || vpp < 1 || microbatches < 1) return {};
  const auto time = [](double ms) { return Time{std::llround(ms * 1e9)}; };  // in picoseconds
  const auto share = [&](double ms) { return time(ms / static_cast<double>(vpp)); };
  StageTimes times;
  times.forward = share(p->forward);
  times.backward_input = share(p->input);
  times.backward_weight = share(p->weight);
  try {
    const StageMemory memory = stage_memory(record);
    const Schedule s = schedule_of(*family, {pp, vpp, microbatches, 0}, *p, memory);
    const PipelineCosts costs =
        level_costs(pp, microbatches, s.rank_of_stage, times, memory, time(p->hop), std::nullopt);
    const std::optional<OrderTimes> ends = time_order(costs, s.ranks);
    if (!ends) return {};
    return to_seconds(ends->makespan);
  } catch (const InputError&) {  // no such schedule of these sizes
    return {};
  }
}

RunRow predict(const RunRecord& record, const std::vector<RunRule>& rules,
               const LeftOut& left_out) {
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
    RunConversion conversion = convert_run(record, rules);
    row.assumed = std::move(conversion.assumed);
    row.scenario = std::move(conversion.scenario);
    if (conversion.skipped) {
      row.skipped.push_back(std::move(*conversion.skipped));
    } else {
      forecast_row(record, left_out, row);
    }
  } catch (const InputError& e) {
    for (const Diagnostic& d : e.diagnostics)
      row.skipped.push_back(fmt::format("{} {}", d.code, d.message));
  } catch (const std::exception& e) {  // a defect; the others are still of interest
    row.skipped.push_back(fmt::format("internal error: {}", e.what()));
  }
  return row;
}

std::vector<RunRow> predict_all(const std::vector<RunRecord>& records,
                                const std::vector<RunRule>& rules, int threads,
                                const LeftOut& left_out) {
  std::vector<RunRow> rows(records.size());
  for_each_index(records.size(), threads,
                 [&](size_t i) { rows[i] = predict(records[i], rules, left_out); });
  return rows;
}

}  // namespace stepcast::accuracy
