// SPDX-License-Identifier: Apache-2.0
// Times of two things that run beside each other, from when each call of them began and ended.
// Needs no GPU.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace stepcast::measure {

// One call, microseconds on a clock that both sides share.
struct Interval {
  double begin = 0;
  double end = 0;
};

// Durations of the calls that lie wholly within the span of the other side, from the beginning of
// its first call to the end of its last: those that had company from beginning to end.  Calls of
// each side are in order, one after another.
std::vector<double> accompanied(std::span<const Interval> calls, std::span<const Interval> others);

// Calls that each side has to make for both to run about equally long, `total_us`, at their times
// alone: at least 4.
std::pair<int, int> calls_beside(double compute_us, double communication_us, double total_us);

// The ratios of an `interference` row, each from 1: time beside the other over time alone.
struct Beside {
  double compute_alone_us = 0, communication_alone_us = 0;
  double compute_us = 0, communication_us = 0;  // medians of accompanied calls
};
// The medians over what was measured at several sizes.  Nothing is faster beside something: what
// comes out below 1 by chance is 1.  Nothing if `all` is empty.
std::optional<std::pair<double, double>> interference_ratios(std::span<const Beside> all);

}  // namespace stepcast::measure
