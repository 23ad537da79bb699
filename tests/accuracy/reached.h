// SPDX-License-Identifier: Apache-2.0
// What accuracy was reached, by source, so that it only gets better (reached.csv).
#pragma once

#include <string>
#include <vector>

#include "tests/accuracy/predict.h"

namespace stepcast::accuracy {

// A table, a row a source and one of "all".  Errors in % with one decimal: median and p90 of the
// absolute errors of step time and peak memory, the bias of times, the median of the ratio of
// speeds in a group; then counts: groups whose winner is named right, runs out of memory that are
// called so, and runs called so that were not; of "all" the share of times in their intervals and
// errors from measured stage times.  Empty where there is none.
std::string reached_csv(const std::vector<RunRow>& rows);

// What is worse in `now` than in `before`, both such tables, a line each: a source that is gone,
// fewer predictions, a larger error (a bias further from 0, a share further from 80 % that is
// not in 75 to 85), fewer right calls.  Empty: nothing.  Throws InputError for what is
// no such table.
std::string worse_than_reached(const std::string& before, const std::string& now);

}  // namespace stepcast::accuracy
