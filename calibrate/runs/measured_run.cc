// SPDX-License-Identifier: Apache-2.0
#include "calibrate/runs/measured_run.h"

#include <cmath>
#include <string>

namespace stepcast {
namespace {

constexpr double kGB = 1e9, kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * 1024.0 * 1024.0;

bool mentions(const std::string& text, const char* word) {
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
double counted_flops(const Value& record, const StepSize& size) {
  // 4 passes (recomputation is one) of 2 FLOPs a parameter and token.
  const auto billions = positive(record, "model.params_b");
  if (billions && mentions(text_at(record, "measured.flops_convention"), "hardware FLOPs"))
    return 8 * *billions * 1e9 * size.sequences * size.sequence_length;
  return 3 * size.forward_flops;
}

// Seconds of a step, from rates that need its size.
std::optional<double> time_of_flops(const Value& record, const StepSize& size) {
  if (const auto rate = positive(record, "measured.tflops_per_gpu"))
    return counted_flops(record, size) / (*rate * 1e12 * size.gpus);
  const auto share = positive(record, "measured.mfu");  // per cent
  if (!share || !size.peak_flops) return {};
  return counted_flops(record, size) / (*share / 100 * *size.peak_flops * size.gpus);
}

std::optional<double> time_of_tokens(const Value& record, const StepSize& size) {
  const double tokens = size.sequences * size.sequence_length;
  if (const auto rate = positive(record, "measured.tokens_per_s_per_gpu"))
    return tokens / (*rate * size.gpus);
  if (const auto rate = positive(record, "measured.tokens_per_s")) return tokens / *rate;
  if (const auto rate = positive(record, "measured.samples_per_s_per_gpu"))
    return size.sequences / (*rate * size.gpus);
  return {};
}

void read_time(const Value& record, const StepSize* size, MeasuredRun& m) {
  m.basis = TimeBasis::step;
  m.step_time_s = step_time(positive(record, "measured.step_time_s"));
  if (m.step_time_s) return;
  if (const auto ms = positive(record, "measured.layer_total_ms")) {
    m.basis = TimeBasis::layer;
    m.step_time_s = step_time(*ms / 1000);
    if (m.step_time_s) return;
  }
  m.basis = TimeBasis::tokens;
  if (size != nullptr) m.step_time_s = step_time(time_of_tokens(record, *size));
  if (!m.step_time_s) m.step_time_s = step_time(positive(record, "derived.step_time_s"));
  if (m.step_time_s) return;
  m.basis = TimeBasis::flops;
  if (size != nullptr) m.step_time_s = step_time(time_of_flops(record, *size));
  if (!m.step_time_s) m.basis = TimeBasis::none;
}

}  // namespace

bool is_step_time(double seconds) {
  return seconds >= 1e-9 && seconds <= 1e6;
}

MeasuredRun measured_run(const RunRecord& record, const StepSize* size) {
  const Value& r = record.value;
  MeasuredRun m;
  read_time(r, size, m);
  if (const auto gb = positive(r, "measured.peak_memory_gb")) m.peak_memory = *gb * kGB;
  if (const auto mib = positive(r, "measured.peak_memory_mib")) m.peak_memory = *mib * kMiB;
  if (const auto gib = positive(r, "measured.peak_memory_gib")) m.peak_memory = *gib * kGiB;
  const std::string kind = text_at(r, "measured.peak_memory_kind");
  if (mentions(kind, "LAST rank")) {
    m.memory_kind = MemoryKind::last_allocated;
  } else if (mentions(kind, "allocated of rank 0")) {
    m.memory_kind = MemoryKind::first_allocated;
  } else if (mentions(kind, "nvidia-smi")) {
    m.memory_kind = MemoryKind::device;
  } else if (mentions(kind, "rank 0 alone")) {
    m.memory_kind = MemoryKind::first_reserved;
  } else if (mentions(kind, "reserved") || mentions(kind, "torchtitan")) {
    m.memory_kind = MemoryKind::reserved;
  }
  if (text_at(r, "measured.outcome") == "OOM") {
    m.out_of_memory = true;
  } else if (m.basis != TimeBasis::none || m.peak_memory) {
    m.out_of_memory = false;
  }
  return m;
}

}  // namespace stepcast
