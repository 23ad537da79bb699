// SPDX-License-Identifier: Apache-2.0
// What commands that rank the rows of stores have in common: `stepcast top`, `stepcast report`.
#pragma once

#include <string>
#include <vector>

#include "sim/results/step_ranking.h"
#include "sim/results/step_row.h"
#include "tools/command/command.h"

namespace CLI {
class App;
}

namespace stepcast::cli {

// --by, --pareto, -n, --memory-margin, --tokens, --price.
void add_ranking(CLI::App* sub, Arguments& args);

// Throws InputError E004.
StepRanking ranking_of(const Arguments& args);

// Throws InputError E004 where rows fit and none has what is ranked by: days, price, energy.
void require_figures(const std::vector<StepRow>& rows, const StepRanking& ranking);

// The stores that args.files names.  Throws InputError as store_files().
std::vector<std::string> all_files(const Arguments& args);

}  // namespace stepcast::cli
