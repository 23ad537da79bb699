// SPDX-License-Identifier: Apache-2.0
// How well a source's runs are forecast when one of them, or three, are known: what a user's own
// runs are worth (calibrate/fit/own_runs.h).
//
// Everything that is known of a source beforehand comes from the others (LeftOut).  Runs of one
// source on one generation of GPUs are a cluster; the known ones are drawn from the smaller half of
// them by GPUs, by fixed seeds, as one runs a job small before it is run large.  Their values are
// those of the first round of `stepcast calibrate runs` (derivatives at the prior); the other runs
// of that cluster are simulated with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/runs/observed.h"
#include "tools/runs/predict.h"
#include "tools/runs/run_model.h"

namespace stepcast::accuracy {

// Errors of the other runs: the median and the 90th percentile of a draw, in the mean of the draws.
struct OtherRuns {
  int64_t draws = 0;
  double median = 0, p90 = 0;
};

// Of one source, with so many of its runs known.
struct KnownRuns {
  OtherRuns without, with;  // of the same runs by what other sources say, and with what is learnt
};

struct OwnRunStudy {
  int64_t draws = 0;                                          // of each source, asked for
  std::map<std::string, std::map<int, KnownRuns>> by_source;  // by the number of runs known
  // Other runs beside their forecasts in one draw; `none`: the same runs with none known.
  std::vector<ObservedRun> observed, none;
  // That differ, of `observed`, by own runs and class.
  std::map<std::pair<int64_t, std::string>, int64_t> runs_of_class;
};

// `rows` have the class of each run, by its id.
OwnRunStudy own_run_study(const std::vector<ModelledRun>& runs, const std::vector<RunRow>& rows,
                          const LeftOut& left_out, int64_t draws, int threads);

// Tables for a page.
std::string own_runs_markdown(const OwnRunStudy& study);
// scenarios/own_run_errors.csv.
std::string own_run_errors_csv(const OwnRunStudy& study);

}  // namespace stepcast::accuracy
