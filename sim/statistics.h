// SPDX-License-Identifier: Apache-2.0
// Medians and other quantiles of samples.
//
// There are three quantiles in use, and which one a figure is belongs to the figure: published
// tables and recorded figures depend on it to the last bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "sim/check.h"

namespace stepcast {

// The value at `share` (0 to 1) of the way through the samples, linear between the two samples on
// either side (Hyndman and Fan's type 7, as NumPy's and R's default).  REQUIRES: ascending, not
// empty.
double interpolated_quantile(std::span<const double> ascending, double share);

// The least sample that has at least `percent` (0 to 100) of the samples at or below it: the
// nearest rank.  REQUIRES: ascending, not empty.
template <class T>
const T& nearest_rank(std::span<const T> ascending, size_t percent) {
  STEPCAST_CHECK(!ascending.empty() && percent <= 100, "a percentile of samples");
  return ascending[std::max<size_t>(1, (ascending.size() * percent + 99) / 100) - 1];
}

// The sample that has `share` of all samples below it: number floor(n share) in ascending order,
// from 0.  Of two samples in the middle the upper one.  O(n).  REQUIRES: not empty; 0 <= share.
double upper_quantile(std::vector<double> samples, double share);

// The middle sample, the mean of the two in the middle if their number is even.  REQUIRES: not
// empty.
double median(std::vector<double> samples);

// A sample that counts `weight` times.
struct WeightedSample {
  double value = 0;
  double weight = 0;
};

// The least value below which, with itself, `share` of the weight lies.  REQUIRES: ascending, not
// empty; the weights sum to 1.
double weighted_quantile(std::span<const WeightedSample> ascending, double share);

// A measurement that was repeated.
struct SampleSummary {
  double median = 0;
  double spread = 0;  // interquartile range over median; 0 for one sample
};

// By interpolated_quantile; the spread is 0 where the median is not positive.  REQUIRES: not empty.
SampleSummary summarize_samples(std::vector<double> samples);

}  // namespace stepcast
