// SPDX-License-Identifier: Apache-2.0
// What forecasts of published runs, set beside what was measured, say of the error of the next one
// (observed_errors.csv; docs/trust.md).
//
// Runs are sorted into a few classes by what is known before anything runs, and errors of forecasts
// depend on: whether the model has experts, how long a kernel takes on average, whether parameters
// are sharded, the generation of the GPU.  A class has the ratios measured / forecast between which
// 80 % of its runs lie.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/results/result.h"

namespace stepcast {

struct ClassErrors {
  std::string name;  // "training / long kernels"; without its last part: the next wider
  int64_t runs = 0, sources = 0;  // who published them
  double low = 1, high = 1;       // measured / forecast
  double cost_error = 0;          // Interval::cost_error, their median
  int64_t own_runs = 0;           // of the source and known to the forecasts: none, one, or three
};

// The narrowest class that the run belongs to; empty if the step does not train: nobody compared
// such runs.  REQUIRES: graph and prices.
std::string run_class(const Scenario& scenario, const Result& result);

// Rows of a table of classes.  Throws InputError if it is none.
std::vector<ClassErrors> parse_observed_errors(std::string_view text);
// The shipped table.
std::span<const ClassErrors> observed_errors();
// The same of forecasts that some of the source's other runs had a part in: own_run_errors.csv,
// whose first column says how many.
std::vector<ClassErrors> parse_own_run_errors(std::string_view text);
std::span<const ClassErrors> own_run_errors();
// Of the rows for so many own runs (one for two, three for more) the class of that name, else the
// next wider one that is in the table; nullptr if none is.
const ClassErrors* errors_like(std::span<const ClassErrors> table, std::string_view run_class,
                               int64_t own_runs = 0);

// Around `step`: the ratios of `like`, made wider where the costs of this step are less certain
// than those of the runs in the class.  Half widths in the logarithm add in squares.
Interval make_interval(Time step, double cost_error, const ClassErrors& like);
// The interval of a forecast; nullopt if no run like it was compared.  An interval from the costs
// alone would be too narrow: most of the errors of the compared forecasts do not come from costs.
// REQUIRES: graph, prices,
// account and step time.
std::optional<Interval> interval_of(const Scenario& scenario, const Result& result);

}  // namespace stepcast
