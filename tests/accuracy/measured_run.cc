// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/measured_run.h"

#include <cmath>
#include <string>

namespace stepcast::accuracy {
namespace {

constexpr double kGB = 1e9, kGiB = 1024.0 * 1024.0 * 1024.0;

bool contains(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

std::optional<double> positive(const Value& record, const char* path) {
  const auto x = number_at(record, path);
  return x && *x > 0 && std::isfinite(*x) ? x : std::nullopt;
}

std::optional<double> step_time(const std::optional<double>& seconds) {
  return seconds && is_step_time(*seconds) ? seconds : std::nullopt;
}

// FLOPs of a step as the source counts them.
double counted_flops(const Value& record, const Scenario& s) {
  const auto sequences = static_cast<double>(s.plan.global_batch);
  const auto seq = static_cast<double>(s.plan.seq);
  // 4 passes (recomputation is one) of 2 FLOPs a parameter and token.
  const auto billions = positive(record, "model.params_b");
  if (billions && contains(text_at(record, "measured.flops_convention"), "hardware FLOPs"))
    return 8 * *billions * 1e9 * sequences * seq;
  return 3 * forward_matmul_flops(s.model, sequences, seq, false);
}

// Seconds of a step, from rates that need its size.
std::optional<double> time_of_flops(const Value& record, const Scenario& s) {
  const double gpus = static_cast<double>(s.plan.tp * s.plan.cp * s.plan.dp * s.plan.pp);
  if (const auto rate = positive(record, "measured.tflops_per_gpu"))
    return counted_flops(record, s) / (*rate * 1e12 * gpus);
  const auto share = positive(record, "measured.mfu");  // per cent
  const auto peak = s.cluster.node.gpu.peak.find(s.plan.precision.params);
  if (!share || peak == s.cluster.node.gpu.peak.end()) return {};
  return counted_flops(record, s) / (*share / 100 * peak->second.value * gpus);
}

std::optional<double> time_of_tokens(const Value& record, const Scenario& s) {
  const auto sequences = static_cast<double>(s.plan.global_batch);
  const auto seq = static_cast<double>(s.plan.seq);
  const double gpus = static_cast<double>(s.plan.tp * s.plan.cp * s.plan.dp * s.plan.pp);
  if (const auto rate = positive(record, "measured.tokens_per_s_per_gpu"))
    return sequences * seq / (*rate * gpus);
  if (const auto rate = positive(record, "measured.tokens_per_s")) return sequences * seq / *rate;
  if (const auto rate = positive(record, "measured.samples_per_s_per_gpu"))
    return sequences / (*rate * gpus);
  return {};
}

void read_time(const Value& record, const Scenario* scenario, MeasuredRun& m) {
  m.basis = TimeBasis::step;
  m.step_time_s = step_time(positive(record, "measured.step_time_s"));
  if (m.step_time_s) return;
  if (const auto ms = positive(record, "measured.layer_total_ms")) {
    m.basis = TimeBasis::layer;
    m.step_time_s = step_time(*ms / 1000);
    if (m.step_time_s) return;
  }
  m.basis = TimeBasis::tokens;
  if (scenario != nullptr) m.step_time_s = step_time(time_of_tokens(record, *scenario));
  if (!m.step_time_s) m.step_time_s = step_time(positive(record, "derived.step_time_s"));
  if (m.step_time_s) return;
  m.basis = TimeBasis::flops;
  if (scenario != nullptr) m.step_time_s = step_time(time_of_flops(record, *scenario));
  if (!m.step_time_s) m.basis = TimeBasis::none;
}

}  // namespace

bool is_step_time(double seconds) {
  return seconds >= 1e-9 && seconds <= 1e6;
}

MeasuredRun measured_run(const RunRecord& record, const Scenario* scenario) {
  const Value& r = record.value;
  MeasuredRun m;
  read_time(r, scenario, m);
  if (const auto gb = positive(r, "measured.peak_memory_gb")) m.peak_memory = *gb * kGB;
  if (const auto gib = positive(r, "measured.peak_memory_gib")) m.peak_memory = *gib * kGiB;
  const std::string kind = text_at(r, "measured.peak_memory_kind");
  if (contains(kind, "LAST rank")) {
    m.memory_kind = MemoryKind::last_allocated;
  } else if (contains(kind, "nvidia-smi")) {
    m.memory_kind = MemoryKind::device;
  } else if (contains(kind, "reserved") || contains(kind, "torchtitan")) {
    m.memory_kind = MemoryKind::reserved;
  }
  if (text_at(r, "measured.outcome") == "OOM") {
    m.out_of_memory = true;
  } else if (m.basis != TimeBasis::none || m.peak_memory) {
    m.out_of_memory = false;
  }
  return m;
}

}  // namespace stepcast::accuracy
