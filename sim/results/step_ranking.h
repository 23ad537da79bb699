// SPDX-License-Identifier: Apache-2.0
// The best of many rows, and which of them no other one beats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/results/search_result.h"
#include "sim/results/step_row.h"

namespace stepcast {

// What of rows is looked for.
struct StepRanking {
  std::vector<SearchObjective> by{SearchObjective::step_time};
  bool pareto = false;  // the front alone: none is better in one and no worse in all
  double memory_margin = kMemoryMargin;  // share of the usable memory that stays free
  size_t top = 10;
  std::optional<int64_t> tokens;  // of the job, instead of what rows say
  std::optional<double> price;    // USD for a GPU and hour
};

// Rows of one step as one row, in the order of keys: the one that comes first stays, with what any
// says that is found out only where somebody asks.  Where the ranking asks what the rows themselves
// say of the job, rows of different jobs stay apart.
std::vector<StepRow> distinct_steps(std::vector<StepRow> rows, const StepRanking& ranking);

// The rows that run, fit and have what is ranked by, best first: by the first objective, of equal
// ones by the next, then by key.  Rows with one key are one row; where neither days nor price is
// ranked by, or `tokens` and `price` say them, so are rows of one step.  The order of `rows` does
// not matter.  With `pareto` all of the front is returned, whatever `top` says.
std::vector<StepRow> rank_steps(std::vector<StepRow> rows, const StepRanking& ranking);

// Steps that are drawn against each other.
struct StepPoints {
  std::vector<StepRow> rows;  // all of them run: best first those that count, then the others
  size_t counted = 0;         // that fit and keep what is asked for
  size_t left_out = 0;        // rows behind these, where there are too many
  // Rows one step from the first, of a search.
  struct Step {
    std::string axis;  // "TP"
    size_t row = 0;
  };
  std::vector<Step> steps;

  // Leaves so many rows.
  void keep_first(size_t most);
};

// All rows of stores: those that run as points, and how many became what.
struct StoredSteps {
  StepPoints points;
  int64_t rows = 0;                 // with keys of their own
  std::vector<SearchRule> decided;  // of these, each by what keeps it from being ranked
};
// Points: rank_steps() of all, then what runs and is not ranked.
StoredSteps stored_steps(std::vector<StepRow> rows, const StepRanking& ranking);

}  // namespace stepcast
