// SPDX-License-Identifier: Apache-2.0
// Which way ops went through the engine, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/json_writer.h"
#include "sim/result.h"

namespace stepcast {

struct EnginePath {
  std::string name;  // "fast", "events"
  int64_t rank_ops = 0;
  double share = 0;  // of all rank-ops
  std::string why;   // "how long each takes is known beforehand"
};

// The paths that were taken; shares sum to 1.
std::vector<EnginePath> engine_paths(const Result& result);

// The same in a sentence.
std::string engine_sentence(const Result& result);

// "engine": for the JSON of a run.
void write_engine(JsonWriter& json, const Result& result);

}  // namespace stepcast
