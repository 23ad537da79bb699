// SPDX-License-Identifier: Apache-2.0
// What the forecasts are meant to reach on measured runs, and how far they are.
#pragma once

#include <string>
#include <vector>

#include "tests/accuracy/predict.h"

namespace stepcast::accuracy {

struct Aim {
  std::string what;    // "step time: median error, %"
  std::string wanted;  // "at most 5"
  double reached = 0;  // in the unit of `what`
  size_t of = 0;       // runs, or groups, that it is taken over
  bool is_met = false;
};

// Those that the rows have runs for.
std::vector<Aim> aims_of(const std::vector<RunRow>& rows);

}  // namespace stepcast::accuracy
