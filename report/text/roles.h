// SPDX-License-Identifier: Apache-2.0
// What texts and JSON say alike of the roles of a step: their names, and which of the engine's two
// paths their ops took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/json/writer.h"
#include "sim/results/result.h"

namespace stepcast {

// The pipeline rank of a role: of the graph, or its number if there is no graph.
uint32_t pipeline_rank(const Result& result, uint32_t role);
// "stage 3" where each rank holds one stage, else "pp rank 3".
std::string role_name(const Result& result, uint32_t role);

// --- Which path ops took through the engine, and why.

struct EnginePath {
  bool by_events = false;  // else on the fast path
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
