// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan/sweep.h"

#include <algorithm>
#include <utility>

#include "calibrate/plan/plan_text.h"
#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/table_text.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// Nominal hardware (see sweep.h).  No measured figure depends on it, only the order of measuring.
constexpr double kFlopsPerUs = 300e6;
constexpr double kMemoryBytesPerUs = 2e6;
constexpr double kLinkBytesPerUs = 25e3;
constexpr double kLeastUs = 5;

// How measuring one point goes (calibrate/measure/timing_summary.h): operands are made, the device
// warms up, then 20 samples of half a millisecond or of one call.
constexpr double kSetupSeconds = 0.05;
constexpr double kWarmupSeconds = 0.02;
constexpr double kSampleSeconds = 5e-4;
constexpr double kSamples = 20, kFewestSamples = 5;
constexpr double kLimitSeconds = 2;

double rate_factor(DType t) {
  switch (t) {
    case DType::fp32: return 0.1;
    case DType::tf32: return 0.5;
    case DType::fp8:
    case DType::int8:
    case DType::uint8: return 2;
    case DType::fp4: return 4;
    case DType::fp16:
    case DType::bf16: break;
  }
  return 1;
}

double worth(const SweepPoint& p) {
  return p.weight * uncertainty(p.origin) / measuring_seconds(p);
}

// PointResult over estimated seconds of a family so far.
struct Learned {
  std::string family;
  double estimated = 0, taken = 0;
};

double correction(const std::vector<Learned>& learned, std::string_view family) {
  for (const Learned& l : learned) {
    if (l.family == family && l.estimated > 0) return l.taken / l.estimated;
  }
  return 1;
}

void learn(std::vector<Learned>& learned, std::string_view family, double estimated, double taken) {
  auto found = std::find_if(learned.begin(), learned.end(),
                            [&](const Learned& l) { return l.family == family; });
  if (found == learned.end()) found = learned.insert(found, {std::string(family), 0, 0});
  found->estimated += estimated;
  found->taken += taken;
}

}  // namespace

std::string_view family_of(std::string_view key) {
  return key.substr(0, key.find(','));
}

std::string row_key(const SweepPoint& point) {
  PlanRow row;
  row.work = point.work;
  row.ranks = point.ranks;
  row.nodes = point.nodes;
  row.ranks_per_node = point.ranks_per_node;
  row.nic_gbs = point.nic_gbs;
  Work& w = row.work;
  if (w.kind == WorkKind::grouped_gemm) w.kind = WorkKind::gemm;
  const bool attention =
      w.kind == WorkKind::attention_forward || w.kind == WorkKind::attention_backward;
  if (attention && w.value_dim != 0) {  // tables have the mean
    w.k = (w.k + w.value_dim) / 2;
    w.value_dim = 0;
  }
  STEPCAST_CHECK(w.kind != WorkKind::host_copy, "a copy's direction is not in its work");
  return plan_key(row);
}

double nominal_memory_us(Bytes moved) {
  return std::max(static_cast<double>(moved.value) / kMemoryBytesPerUs, kLeastUs);
}

double nominal_us(const SweepPoint& point) {
  const Work& w = point.work;
  double us = 0;
  switch (w.kind) {
    case WorkKind::gemm:
    case WorkKind::grouped_gemm:
    case WorkKind::attention_forward:
    case WorkKind::attention_backward:
      us = w.flops.value / (kFlopsPerUs * rate_factor(w.dtype)) +
           static_cast<double>(operand_bytes(w).value) / kMemoryBytesPerUs;
      break;
    case WorkKind::memory_bound: return nominal_memory_us(w.bytes);
    default: us = static_cast<double>(w.bytes.value) / kLinkBytesPerUs;
  }
  return std::max(us, kLeastUs);
}

double measuring_seconds(const SweepPoint& point) {
  const double us = point.expected_us > 0 ? point.expected_us : nominal_us(point);
  const double sample = std::max(us * 1e-6, kSampleSeconds);
  const double samples =
      std::max(std::min(kSamples * sample, kLimitSeconds), kFewestSamples * sample);
  return kSetupSeconds + kWarmupSeconds + 3 * sample + samples;
}

double uncertainty(Origin origin) {
  switch (origin) {
    case Origin::measured: return 0.01;
    case Origin::interpolated: return 0.05;
    case Origin::extrapolated: return 0.15;
    case Origin::fitted: return 0.2;
    case Origin::roofline: break;
  }
  return 0.3;
}

std::vector<SweepPoint> in_order(std::vector<SweepPoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const SweepPoint& a, const SweepPoint& b) { return a.key < b.key; });
  std::vector<SweepPoint> out;
  for (SweepPoint& p : points) {
    if (out.empty() || out.back().key != p.key) {
      out.push_back(std::move(p));
    } else {
      out.back().weight = std::max(out.back().weight, p.weight);
      out.back().origin = std::min(out.back().origin, p.origin);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SweepPoint& a, const SweepPoint& b) { return worth(a) > worth(b); });
  return out;
}

SweepReport run_sweep(const std::vector<SweepPoint>& points, double budget_s,
                      const SweepHooks& hooks) {
  SweepReport report;
  std::vector<Learned> learned;
  const double begin = hooks.seconds();
  const auto used = [&] { return hooks.seconds() - begin; };
  const auto total = static_cast<int64_t>(points.size());
  for (int64_t i = 0; i < total; ++i) {
    const SweepPoint& point = points[static_cast<size_t>(i)];
    hooks.progress(i, total, used());
    report.interrupted = hooks.interrupted();
    if (report.interrupted) {
      report.left += total - i;
      break;
    }
    const std::string_view family = family_of(point.key);
    const double estimated = measuring_seconds(point), before = used();
    if (before + estimated * correction(learned, family) > budget_s) {
      ++report.left;
      continue;
    }
    const PointResult measured = hooks.measure(point);
    if (measured.skipped.empty()) {
      learn(learned, family, estimated, used() - before);
      hooks.finished(point, measured);
      ++report.measured;
    } else {
      report.skipped.push_back(point.key + ": " + measured.skipped);
    }
  }
  report.seconds = used();
  hooks.progress(total, total, report.seconds);
  return report;
}

std::string row_text(const SweepPoint& point, const PointResult& measured,
                     std::string_view source) {
  std::string text = point.key;
  for (const double value : measured.values) text += ',' + number_text(value, 6);
  text += ',';
  text += source;
  if (measured.spread > 0) text += ',' + number_text(measured.spread, 3);
  return text;
}

}  // namespace stepcast
