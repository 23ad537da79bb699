// SPDX-License-Identifier: Apache-2.0
// Pipelines with stages of random times, the same on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "schedules/synthesis/order_timing.h"

namespace stepcast::testing {

struct RandomPipeline {
  std::string name;  // sizes, for messages
  PipelineCosts costs;
  double cap = 1;  // memory limit of every rank, in peaks of 1F1B
};

// Pipeline `index` of a series: 2 to 16 ranks with one stage each, 4 to 64 microbatches; times of a
// stage log-normal with sigma 0.3 around F 1.0, I 1.1 and W 0.7 ms, the last stage 1.5 times as
// long where index is odd; hops up to 0.1 ms; memory limits of 1 to 2 times what 1F1B holds, 2
// times for every third.  Another `seed` gives another series.
RandomPipeline random_pipeline(uint64_t index, uint64_t seed = 1000);

}  // namespace stepcast::testing
