// SPDX-License-Identifier: Apache-2.0
// Rows of steps, as sweeps find them and stores keep them: tables, CSV, JSON and JSON Lines.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/format.h"
#include "report/text/cells.h"
#include "sim/results/step_ranking.h"
#include "sim/results/step_row.h"
#include "sim/units.h"

namespace stepcast {

// A table of the rows, best first, with what varies between them, and how to run the first.
std::string steps_text(const std::vector<StepRow>& rows, const StepRanking& ranking,
                       const TextStyle& style = {});
// The table of it; what is the same in all rows is left out.
CellTable steps_table(const std::vector<StepRow>& rows);
// "step_time, price": what rows are ranked by.
std::string objective_names(const StepRanking& ranking);
// What is said where there is no row.
std::string no_step(const StepRanking& ranking);
// "stepcast run my.yaml -s parallel.tp=2": the row as a forecast of its own.  `words`: how the file
// is read, if not by its name.
std::string run_line(const StepRow& row, std::span<const std::string> words = {});
// "14.54": four digits and more; of a row "" if it cannot run.
std::string step_seconds(Time step);
std::string step_seconds(const StepRow& row);
// As of a layout that a search found.
std::string layout_text(const StepRow& row);
// A line for each row with all columns of a store, and what follows from them: step_time_s, days,
// price_usd.
std::string steps_csv(const std::vector<StepRow>& rows);
std::string steps_json(const std::vector<StepRow>& rows, const StepRanking& ranking,
                       std::string_view version);

// A line for each point: its values, what it takes and holds, and why some are no scenarios.
std::string sweep_text(const SweepResult& result, const TextStyle& style = {});
// The axes, then the columns of steps_csv(), then `error`; points that were not come to are left
// out.
std::string sweep_csv(const SweepResult& result);
// An object a line.
std::string sweep_json_lines(const SweepResult& result);
std::string sweep_json(const SweepResult& result, std::string_view version);

}  // namespace stepcast
