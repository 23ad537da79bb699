// SPDX-License-Identifier: Apache-2.0
// What a search over layouts found, as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/results/result.h"
#include "sim/units.h"

namespace stepcast {

enum class SearchObjective : uint8_t {
  step_time,
  tokens_per_gpu_s,
  peak_memory,
  price,
  days,
  energy
};
constexpr int kSearchObjectives = 6;
// As a scenario writes it: "step_time".
std::string_view name_of(SearchObjective objective);

// How many layouts a rule decided, in the order in which rules are asked.
struct SearchRule {
  std::string name;   // "memory_bound"
  std::string words;  // "hold more than the GPU has, by a lower bound"
  int64_t count = 0;
  enum class Kind : uint8_t {
    drops,
    where,  // drops what the conditions of `where` leave out
    keeps,  // these fit
  } kind = Kind::drops;
};

// One layout of the answer.
struct FoundLayout {
  int64_t gpus = 1, nodes = 1;
  int64_t tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1, etp = 1, dp = 1, micro = 1, microbatches = 1;
  int64_t zero = 0;
  std::string recompute, schedule, split;  // words of a scenario
  std::vector<int64_t> stage_layers;       // where they are not alike; else empty
  // What else the search varied, but for the number of nodes: dotted path, value.
  std::vector<std::pair<std::string, std::string>> beside;
  // What makes it of the file: dotted path -> value, null takes a key back.
  std::vector<std::pair<std::string, std::string>> set;

  Time step_time{};
  Bytes reserved{}, usable{};
  double tokens_per_gpu_s = 0;
  double days = 0, price = 0;    // of the whole job; 0: not asked for
  double joules_per_token = 0;   // GPUs and hosts; 0: not asked for
  bool on_front = false;         // no other is better in one objective and no worse in all
  std::optional<Result> result;  // the whole forecast
  // Those that differ in chunks and split alone, and take hardly longer: they have no line of their
  // own.  Without a forecast.
  std::vector<FoundLayout> twins;
};

// A layout one step from the first: an axis at its next value.
struct SearchStep {
  std::string axis, from, to;    // "TP", "2", "4"; "overlap.dp_grad", "false", "true"
  std::vector<std::string> too;  // what changes with it: "VP 1"
  bool fits = false;
  bool searched = true;  // false: of a key that is no axis of the space
  FoundLayout layout;    // if it does not fit: without a time, `reserved` what a rank allocates
  bool keeps = true;     // the constraints, if it fits
};

struct SearchResult {
  std::string name, file, gpu;
  std::vector<std::string> run_words;  // by which `stepcast run` reads the file; empty: its name
  bool dense = true;                   // the model has no experts
  std::vector<SearchObjective> objectives;
  int64_t top = 10;
  double memory_margin = 0;            // share of the usable memory
  std::vector<std::string> schedules;  // orders of the pipeline that are tried, ...
  bool schedules_stated = false;       // ... as the user lists them; else those of the software
  double points = 0;                   // combinations of all axes
  int64_t layouts = 0;                 // legal ones that differ
  std::vector<SearchRule> illegal;     // combinations that are no layouts, by rule
  std::vector<SearchRule> decided;     // of the layouts, each by the rule that decided it
  int64_t simulated = 0;
  int64_t part = 1, parts = 1;  // of the layouts: those of one of several processes
  std::vector<std::pair<std::string, std::string>>
      kept;                        // that the file states and search.space does not list
  int64_t undecided = 0;           // left when the search was stopped
  bool all_seen = true;            // false: it was stopped before all layouts were known
  bool stopped = false;            // before its end, wherever
  int64_t within_discernment = 0;  // as good as the first within kDiscernment, itself counted
  int64_t faster = 0;              // than what the search was to be compared with
  std::vector<FoundLayout> best;   // best first; of several objectives the front
  std::vector<SearchStep> steps;   // from the first of these
  // Worth measuring: fast, likely to fit, and unlike each other; the first of `best` is one.
  std::vector<FoundLayout> next;
  // Without any that fits: the one that needs least memory among those that were looked at.
  std::optional<FoundLayout> nearest;
  // Then also: one that fits on more nodes, the fewest among doublings of their number.
  std::optional<FoundLayout> on_more_nodes;
  // Without any that is legal: the nearest numbers of GPUs, fewer and more, that have some, if any
  // is near.
  std::vector<int64_t> legal_gpus;
  // Without any because it was stopped before: a simple one that fits.
  std::optional<FoundLayout> simple;
  // Where layouts fit but all break a constraint: the best of them, and what it breaks.
  std::optional<FoundLayout> breaking;
  std::vector<std::string> broken_constraints;
};

// Whether costs `a`, of which less is better, are higher than `b` nowhere and lower somewhere.
// REQUIRES: one cost of each objective in either.
bool dominates(const std::vector<double>& a, const std::vector<double>& b);

// Of the usable memory, what stays free by default.  Of 65 published runs that are forecast to
// leave 5 to 10 % none ran out of memory, of 43 that leave less five did (docs/search.md).
inline constexpr double kMemoryMargin = 0.05;
// Steps that differ by less are closer than forecasts of layouts of one model can be told apart.
inline constexpr double kDiscernment = 0.02;
// Layouts that differ in chunks and split alone share a line if they take at most so much longer
// than its first.
inline constexpr double kTwins = 0.005;

}  // namespace stepcast
