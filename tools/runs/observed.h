// SPDX-License-Identifier: Apache-2.0
// The shipped table of observed errors (scenarios/observed_errors.csv): how it is made of forecast
// runs, and how many runs lie in the intervals that it gives.
//
// The ratios measured / forecast of a class are those of its runs, every source weighing about
// alike however many runs it published, and, as much as those of two sources, those of the next
// wider class.  How much is cut off at either end is chosen so that as many runs as the level says
// are covered of sources that had no part in the table: what a run of one's own is like.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/observed_errors.h"
#include "sim/statistics.h"
#include "tools/runs/predict.h"

namespace stepcast::accuracy {

// One figure of a run.
struct SourceSample {
  std::string_view source;
  double value = 0;
};
// Sorted by value, with weights that sum to 1: every source weighs about alike, however many
// samples it has, and `wider`, if there is one, as much as two sources.
std::vector<WeightedSample> weigh_by_source(const std::vector<SourceSample>& samples,
                                            const std::vector<WeightedSample>* wider = nullptr);

struct ObservedRun {
  std::string source, run_class;
  Time forecast{}, measured{};
  double cost_error = 0;
  int64_t own_runs = 0;  // that the forecast knew: none, one or three (ClassErrors)
};
// Of rows that have both times, between a nanosecond and eleven days, and a class.
std::vector<ObservedRun> observed_runs(const std::vector<RunRow>& rows);

// Classes in order of own runs and of their names; `share` of the weights lie between low and high.
std::vector<ClassErrors> class_errors(const std::vector<ObservedRun>& runs, double share);

// Share of the runs that lie in their intervals.
struct Coverage {
  double by_run = 0, by_source = 0;  // of all runs; mean over the sources

  double mean() const { return (by_run + by_source) / 2; }
};
struct Coverages {
  Coverage seen;           // by a table made of these very runs
  Coverage source_unseen;  // by one made without their source
  Coverage half_unseen;    // by one made of every second run of each source, without them
};
Coverages coverages(const std::vector<ObservedRun>& runs, double share);

// The share of class_errors by which `level` of the runs of sources left out are covered, in the
// mean of by_run and by_source.  If that leaves the halves left out 5 points or more beside the
// level, the one by which the two means lie on either side of the level alike.  REQUIRES: runs.
double share_that_covers(const std::vector<ObservedRun>& runs, double level);
// With that share, for the level of an Interval.  REQUIRES: runs.
Coverages coverages_at_level(const std::vector<ObservedRun>& runs);

// The file: class_errors with that share and the level of an Interval.
std::string observed_csv(const std::vector<ObservedRun>& runs);
// scenarios/highest_mfu.csv: the highest measured utilization by generation of GPU and format.
std::string highest_mfu_csv(const std::vector<RunRow>& rows);
// How many measured steps lie in their intervals, for a terminal: those that were predicted, by the
// shipped table, and what coverages() finds.  Empty without such runs.
std::string coverage_text(const std::vector<RunRow>& rows);
// What keeps `shipped` from being the table that `now` is: classes that are missing, other numbers
// of runs or sources, ratios or errors of prices that differ by more than a twentieth.  Empty if
// nothing does.  Throws InputError for what is no table.
std::string stale_errors(const std::string& shipped, const std::string& now);

}  // namespace stepcast::accuracy
