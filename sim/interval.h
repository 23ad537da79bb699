// SPDX-License-Identifier: Apache-2.0
// How far a step time is to be trusted, and how that is known.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/units.h"

namespace stepcast {

// Where `level` of the measured steps lie.  Nothing is subtracted from the forecast for what is
// known of its errors, so it need not stand in the middle, nor between the two at all.
struct Interval {
  double level = 0.8;
  Time low{}, high{};
  // What the costs alone leave open: |log(true / forecast)|, as a ratio less 1.
  double cost_error = 0;
  std::vector<std::pair<std::string_view, double>> cost_parts;  // by family; squares add up
  // Published runs that were forecast and are like this one; without any there is no interval.
  std::string like;  // "training / long kernels / Hopper or Blackwell"
  int64_t runs = 0, sources = 0;
  double like_low = 1, like_high = 1;  // measured / forecast of `level` of them
  double like_cost_error = 0;          // their median
};

}  // namespace stepcast
