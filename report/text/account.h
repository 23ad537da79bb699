// SPDX-License-Identifier: Apache-2.0
// What a forecast says of time, in the parts that texts and JSON share: the account of a role as
// lines for people, names of roles, and which of the engine's two paths ops took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/format.h"
#include "report/json/writer.h"
#include "sim/graph/spend.h"
#include "sim/result.h"

namespace stepcast {

// --- The account of one role: lines of zero are left out, small ones grouped.

struct AccountLine {
  std::string title;
  Time time{};
  std::optional<Time> saved;  // what-if: shorter step if this cost were removed
  Tone tone = Tone::plain;    // of its bar
};

// Lines that add up to the account of `role`: compute by kind, then exposed communication, bubbles,
// launch gaps and idling, each group largest first within the order of the account; also what takes
// no time here but would save some.  REQUIRES: role < account.by_role.size().
std::vector<AccountLine> account_lines(const Result& result, uint32_t role);

// The pipeline rank of a role: of the graph, or its number if there is no graph.
uint32_t pipeline_rank(const Result& result, uint32_t role);
// "stage 3" where each rank holds one stage, else "pp rank 3".
std::string role_name(const Result& result, uint32_t role);

// Part / whole, 0 of nothing.
double share_of(Time part, Time whole);

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
