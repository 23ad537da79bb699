// SPDX-License-Identifier: Apache-2.0
// In-situ parameters (calibrate/price/in_situ.h), estimated from measured runs.
//
// Maximum a posteriori.  Of run i of source s, with the parameters theta,
//
//   log(measured) = log(forecast(theta)) + b_s + e_i
//
// b_s is what all forecasts of a source are off by for reasons of its own (its machines, what it
// did not print), a random effect of mean zero (Kennedy and O'Hagan, J. R. Stat. Soc. B 63, 2001,
// section 4), so that what one source alone has does not move the parameters far.  Effects and
// errors are Student's, so that a run or a source which is something else has little weight; one
// that the priors' forecast is off by more than a factor of two has none.  A source of n runs
// weighs as n kFull / (n + kFull) of them do.  Priors are normal, of factors in their logarithm.
// The forecast is simulated anew for each theta, with forward differences for its derivatives
// (Gauss-Newton, damped); everything is summed in the order of the records, so that the number of
// threads changes no bit.
//
// What judges the parameters is the forecast of each source with values that were estimated without
// it.  For these the derivatives at the optimum of all runs are used again, and the forecasts of
// the source are simulated.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "tools/runs/predict.h"
#include "tools/runs/run_model.h"

namespace stepcast::accuracy {

// One run under three sets of values, in seconds.
struct EstimatedRun {
  std::string id, source;
  double measured = 0;
  double without = 0;               // parameters off
  double seen = 0;                  // all runs made the values
  double left_out = 0;              // those of other sources did
  std::vector<double> derivatives;  // of log(seen), by a parameter (a factor's logarithm)
};

struct Estimate {
  std::vector<InSituParameter> parameters;
  std::map<std::string, std::vector<double>> left_out;  // source -> values, by parameter
  std::map<std::string, double> effects;                // b_s
  std::vector<EstimatedRun> runs;
};

// `start`: which parameters there are, with their priors; values are not looked at.
Estimate estimate(const std::vector<ModelledRun>& runs, std::vector<InSituParameter> start,
                  int threads);

// calibrate/in_situ.csv.
std::string in_situ_csv(const std::vector<InSituParameter>& parameters);
// What keeps the shipped parameters from being those, a line each: others, or values that differ by
// more than a fifth of their width.
std::string stale_in_situ(std::span<const InSituParameter> shipped,
                          const std::vector<InSituParameter>& now);
// tools/runs/in_situ_left_out.csv: a row a source, a column a parameter.
std::string left_out_csv(const Estimate& estimate);
// Reads that.  Throws InputError if it is none for these parameters.
LeftOut parse_left_out(const std::string& text, std::vector<InSituParameter> parameters);

// A row a run: id, source, seconds measured, without parameters, seen, left out, derivatives.
std::string estimated_runs_csv(const Estimate& estimate);

// Parameters, then errors by source: off, seen, left out.
std::string estimate_text(const Estimate& estimate);

}  // namespace stepcast::accuracy
