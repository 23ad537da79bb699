// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/timing_summary.h"

#include <algorithm>
#include <vector>

#include "sim/check.h"

namespace stepcast::measure {
namespace {

// Between the two values that the rank falls between.  `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + (sorted[above] - sorted[below]) * part;
}

}  // namespace

Timing summarize(std::span<const double> us_per_call) {
  STEPCAST_CHECK(!us_per_call.empty(), "a median of nothing");
  std::vector<double> sorted(us_per_call.begin(), us_per_call.end());
  std::sort(sorted.begin(), sorted.end());
  Timing out;
  out.us = quantile(sorted, 0.5);
  out.spread = out.us > 0 ? (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / out.us : 0;
  out.samples = static_cast<int>(sorted.size());
  return out;
}

bool is_stable(std::span<const double> us_per_call) {
  constexpr double kAgreement = 0.02;
  const size_t n = us_per_call.size();
  if (n < 2) return false;
  const double last = us_per_call[n - 1], before = us_per_call[n - 2];
  const double difference = last > before ? last - before : before - last;
  return difference <= kAgreement * last;
}

int64_t calls_in_a_batch(double us_per_call, double batch_us) {
  constexpr int64_t kMost = 500;  // below the depth of the launch queue, 1024
  if (us_per_call * static_cast<double>(kMost) <= batch_us) return kMost;
  return std::max<int64_t>(1, static_cast<int64_t>(batch_us / us_per_call + 0.5));
}

int samples_within(double us_per_batch, const TimingOptions& options) {
  constexpr int kFewest = 5;
  const double fit = options.limit_seconds * 1e6 / std::max(us_per_batch, 1e-3);
  if (fit >= options.samples) return options.samples;
  return std::clamp(static_cast<int>(fit), std::min(kFewest, options.samples), options.samples);
}

}  // namespace stepcast::measure
