// SPDX-License-Identifier: Apache-2.0
// A run for tests of what is said about runs.
#pragma once

#include <string>

#include "tools/runs/predict.h"

namespace stepcast::accuracy {

// Of source "some" on A100, in group "g"; step times in seconds, nothing ran out of memory.
inline RunRow row(const std::string& id, double measured, double predicted) {
  RunRow r;
  r.id = id;
  r.source = "some";
  r.hardware = "A100";
  r.group = "g";
  r.tokens_per_gpu = 1000;
  r.measured.step_time_s = measured;
  r.measured.out_of_memory = false;
  r.step_time_s = predicted;
  r.out_of_memory = false;
  return r;
}

}  // namespace stepcast::accuracy
