// SPDX-License-Identifier: Apache-2.0
#include "sim/statistics.h"

namespace stepcast {

double interpolated_quantile(std::span<const double> ascending, double share) {
  STEPCAST_CHECK(!ascending.empty(), "a quantile of samples");
  const double at = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  const double part = at - static_cast<double>(below);
  return ascending[below] + part * (ascending[above] - ascending[below]);
}

double upper_quantile(std::vector<double> samples, double share) {
  STEPCAST_CHECK(!samples.empty() && share >= 0, "a quantile of samples");
  const auto at = static_cast<size_t>(static_cast<double>(samples.size()) * share);
  const auto place =
      samples.begin() + static_cast<std::ptrdiff_t>(std::min(at, samples.size() - 1));
  std::nth_element(samples.begin(), place, samples.end());
  return *place;
}

double median(std::vector<double> samples) {
  STEPCAST_CHECK(!samples.empty(), "a median of samples");
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  return n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

double weighted_quantile(std::span<const WeightedSample> ascending, double share) {
  STEPCAST_CHECK(!ascending.empty(), "a quantile of samples");
  constexpr double kRounding = 1e-9;  // of the sum of weights
  double sum = 0;
  for (const WeightedSample& s : ascending) {
    sum += s.weight;
    if (sum >= share - kRounding) return s.value;
  }
  return ascending.back().value;
}

SampleSummary summarize_samples(std::vector<double> samples) {
  STEPCAST_CHECK(!samples.empty(), "samples to sum up");
  std::sort(samples.begin(), samples.end());
  const double middle = interpolated_quantile(samples, 0.5);
  const double range = interpolated_quantile(samples, 0.75) - interpolated_quantile(samples, 0.25);
  return {middle, middle > 0 ? range / middle : 0};
}

}  // namespace stepcast
