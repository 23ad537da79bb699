// SPDX-License-Identifier: Apache-2.0
// The same long run drawn again and again: what the mean does not say, and what the exact form does
// not know (copies in memory).
#pragma once

#include <cstdint>
#include <vector>

#include "job/losses.h"

namespace stepcast {

struct ReplicaRuns {
  RunParts mean;
  double deviation = 0;       // standard deviation of the wall time
  std::vector<double> walls;  // seconds, ascending
};

// `count` runs, each with random numbers of its own that depend on `seed` and its number alone: the
// same bits for any machine, and any number of others.  Of each the wall time is infinite if it is
// more than kMostLoss times the work.  O(interruptions).
ReplicaRuns draw_runs(const LongRun& run, int64_t count, uint64_t seed);

}  // namespace stepcast
