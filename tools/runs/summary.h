// SPDX-License-Identifier: Apache-2.0
// How good the forecasts of many runs are: errors and calls by source or kind, how they compare
// with what is aimed at, and with what was reached before.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/runs/predict.h"

namespace stepcast::accuracy {

// Relative errors, predicted / measured - 1; percentiles by nearest rank.  Zeros without any.
struct Errors {
  size_t count = 0;
  double median = 0, p90 = 0, mean = 0, worst = 0;  // of the absolute values
  double bias = 0;                                  // median with sign
};
Errors errors_of(std::vector<double> relative);

// "12.3" and "+12.3" of a share or a relative error.
std::string percent(double share);
std::string signed_percent(double share);

// nullopt where one of the two is not known.
std::optional<double> time_error(const RunRow& row);
std::optional<double> memory_error(const RunRow& row);
// Of the step by in-situ parameters that its source had no part in, and without any.
std::optional<double> left_out_error(const RunRow& row);
std::optional<double> without_error(const RunRow& row);
// Of the step with measured stage times (RunRow::profiled_step_s).
std::optional<double> profiled_error(const RunRow& row);

// Calls of "out of memory" against outcomes.
struct OutOfMemory {
  size_t hit = 0;     // it was, and was called so
  size_t missed = 0;  // it was, and was called to fit
  size_t fits = 0;    // it ran, and was called to fit
  size_t alarms = 0;  // it ran, and was called out of memory

  size_t known() const { return hit + missed + fits + alarms; }
};

// Measured step times and the intervals of their predictions.
struct InInterval {
  size_t runs = 0, inside = 0, below = 0, above = 0;  // above: it took longer than the interval
  double level = 0;  // that the intervals claim; 0 if there are none
};

// Runs of one group by their speed, tokens a second and GPU.  A winner counts if it leads by more
// than 2 %.
struct Rankings {
  size_t groups = 0, winners = 0;  // groups with such a gap behind their fastest; named right
  Errors ratio;                    // of a run's speed to that of its group's fastest
};

// Of a group of runs: the one that forecasts choose, and the fastest that was measured.
struct Choice {
  const RunRow* chosen = nullptr;
  const RunRow* fastest = nullptr;
  double cost = 0;  // measured time for a token, of the chosen over the fastest, less 1
};

// How good the run is that a search would choose: of runs of a source that differ in layout,
// schedule and recomputation alone, the time of the fastest by forecast over that of the fastest
// measured, less 1.  As in a search, of those that are forecast to leave its memory margin free;
// where none does, of those that are forecast to fit.  A choice that ran out of memory is counted,
// and the next one taken.
struct Regret {
  size_t groups = 0;         // with two runs that were measured to run, or more
  size_t out_of_memory = 0;  // groups whose first choice ran out of memory
  size_t no_answer = 0;      // groups without a run that is forecast to fit and ran
  double mean = 0, worst = 0;
  std::vector<Choice> choices;  // of the groups with an answer
};

struct PoolSummary {
  size_t records = 0, predicted = 0;
  Errors time, left_out, without;  // of step times: see RunRow
  Errors memory, profiled;
  OutOfMemory oom;
  InInterval coverage;
  Rankings rankings;
  Regret regret;
};

// Rows that are looked at together.
using Pool = std::vector<const RunRow*>;
Pool all_of(const std::vector<RunRow>& rows);
// By a key, in order of the keys.
std::map<std::string, Pool> pools_by(const std::vector<RunRow>& rows, std::string RunRow::*key);

PoolSummary summarize(const Pool& pool);

// The layout of a scenario (YAML text), on a line: "tp 2 pp 4 micro 1 full recomputation".
std::string layout_words(const std::string& scenario);

// How many records each reason keeps from being predicted; numbers in it are written as #.
struct Reason {
  std::string text;
  size_t records = 0;   // that have it
  size_t alone = 0;     // ... and no other
  std::string example;  // its id; of what is no record, its place in the file: "runs.yaml:12:3"
};
// Most frequent first.
std::vector<Reason> reasons(const std::vector<RunRow>& rows);

// Runs of a source that differ in the number of GPUs alone, by more data-parallel ranks and, if the
// batch grows with them, a larger batch; four times as many at least from the smallest to the
// largest.  A loss is what a GPU does less, in tokens a second, than one of the smallest run.
struct ScaledRun {
  const RunRow* row = nullptr;
  double measured = 0, predicted = 0;  // losses, shares
};
using Scaling = std::vector<ScaledRun>;  // ascending GPUs, the smallest with losses of 0
// By source, then by the name of the smallest.
std::vector<Scaling> scalings(const std::vector<RunRow>& rows);

// What the forecasts are meant to reach on measured runs, and how far they are.
struct Aim {
  std::string what;    // "step time: median error, %"
  std::string wanted;  // "at most 5"
  double reached = 0;  // in the unit of `what`
  size_t of = 0;       // runs, or groups, that it is taken over
  bool is_met = false;
};

// Those that the rows have runs for.
std::vector<Aim> aims_of(const std::vector<RunRow>& rows);

// What accuracy was reached, so that it only gets better (reached.csv).
//
// A table, a row a source and one of "all".  Errors in % with one decimal: median and p90 of the
// absolute errors of step time, of step time with the source left out, and of peak memory, the
// bias of times, the median of the ratio of speeds in a group; then counts: groups whose winner is
// named right, runs out of memory that are called so, and runs called so that were not; of "all"
// the share of times in their intervals and errors from measured stage times.  Empty where there is
// none.
std::string reached_csv(const std::vector<RunRow>& rows);

// What is worse in `now` than in `before`, both such tables, a line each: a source that is gone,
// fewer predictions, a larger error (a bias further from 0, a share further from 80 % that is
// not in 75 to 85), fewer right calls.  Empty: nothing.  Throws InputError for what is
// no such table.
std::string worse_than_reached(const std::string& before, const std::string& now);

// What runs have in common that differ in layout alone: their scenario without it.
std::string without_layout(const std::string& scenario);
// The same for runs that differ in the number of GPUs alone.
std::string without_size(const std::string& scenario);

}  // namespace stepcast::accuracy
