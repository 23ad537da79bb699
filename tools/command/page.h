// SPDX-License-Identifier: Apache-2.0
// The report of a command as an HTML file.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/html/page.h"
#include "report/text/compare.h"
#include "scenarios/scenario.h"
#include "sim/results/result.h"
#include "sim/results/search_result.h"
#include "sim/results/step_ranking.h"
#include "sim/results/training_result.h"
#include "tools/command/command.h"

namespace stepcast::cli {

// Before anything is simulated: that args.html, if it is given, is a file that may be written.
// Throws InputError.
void check_page_options(const Arguments& args);

// To args.html.  Throws InputError as OutputFile does.  REQUIRES: a result that was traced.
void write_page(const Result& result, const Scenario& scenario, const Arguments& args);
// REQUIRES: as many scenarios and names as results, at most kMostPageCases.
void write_compare_page(std::span<const Result> results, std::span<const Scenario> scenarios,
                        std::span<const std::string> names, size_t baseline,
                        std::span<const std::optional<TrainingPlan>> whole_runs,
                        std::span<const LeftOut> left_out, const Arguments& args);

// `best`: the scenario of the first layout, if there is one.
void write_search_page(const SearchResult& search, const StepPoints& points, const Scenario* best,
                       const Arguments& args);

void write_train_page(const TrainingResult& run, const Scenario& scenario, const Arguments& args);

// To args.output.
void write_store_page(StorePage& page, const std::vector<std::string>& files,
                      const Arguments& args);

}  // namespace stepcast::cli
