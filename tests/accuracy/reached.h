// SPDX-License-Identifier: Apache-2.0
// What accuracy was reached, by source, so that it only gets better (reached.csv).
#pragma once

#include <string>
#include <vector>

#include "tests/accuracy/predict.h"

namespace stepcast::accuracy {

// A table: source ("all": of all), predicted, and median and p90 of the absolute errors of step
// time and peak memory in %, with one decimal; empty where there are none.
std::string reached_csv(const std::vector<RunRow>& rows);

// What is worse in `now` than in `before`, both such tables, a line each: a source that is gone,
// fewer predictions, a larger error.  Empty: nothing.  Throws std::invalid_argument for what is no
// such table.
std::string worse_than_reached(const std::string& before, const std::string& now);

}  // namespace stepcast::accuracy
