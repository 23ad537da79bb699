// SPDX-License-Identifier: Apache-2.0
// The panels of one step as HTML: everything that is read rather than moved.  Each is a whole
// section; "" if there is nothing to say.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/format.h"
#include "report/html/page.h"
#include "report/text/cells.h"
#include "sim/results/result.h"
#include "sim/results/step_ranking.h"
#include "sim/results/training_result.h"

namespace stepcast {

std::string verdict_panel(const Result& result, const PageFacts& facts);
std::string account_panel(const Result& result);
std::string timeline_panel(const Result& result);  // the static picture (gantt.h) and its table
std::string memory_panel(const Result& result);
std::string bubble_panel(const Result& result);
std::string communication_panel(const Result& result, const PageFacts& facts);
std::string cluster_panel(const PageFacts& facts);
std::string trust_panel(const Result& result);
std::string scenario_panel(const Result& result, const PageFacts& facts);

// --- Of several results

std::string cases_panel(std::span<const PageCase> cases, size_t baseline,
                        std::span<const LeftOut> left_out);
std::string whole_runs_panel(std::span<const PageCase> cases);  // days and price, if any knows them
std::string accounts_panel(std::span<const PageCase> cases);
std::string timelines_panel(std::span<const PageCase> cases);
std::string memories_panel(std::span<const PageCase> cases);
std::string differences_panel(std::span<const PageCase> cases, const PageFacts& facts);

std::string case_waits_panel(std::span<const PageCase> cases);

// --- Of many steps: a search, or what stores hold

std::string search_verdict(const SearchResult& search);
std::string search_best_panel(const SearchResult& search);
std::string neighbors_panel(const SearchResult& search);
std::string funnel_panel(const SearchResult& search);
std::string store_verdict(const StorePage& store);
std::string store_best_panel(const StorePage& store);
std::string store_funnel_panel(const StorePage& store);
// The picture that stands still, and the place of the one that moves.
std::string points_panel(const StepPoints& points);
// A place for the lines of each axis through the point that is selected, and those of the first row
// as a table.
std::string axes_panel(const StepPoints& points);

// --- Of a whole training run

std::string train_verdict(const TrainingResult& run);
std::string waterfall_panel(const TrainingResult& run);
std::string intervals_panel(const TrainingResult& run);  // what other checkpoint intervals cost
std::string phases_panel(const TrainingResult& run);
std::string train_plans_panel(const TrainingResult& run);
std::string train_facts_panel(const TrainingResult& run);

// --- What panels of one result and of several have in common

std::string swatch(std::string_view style);
// Times in one unit, so that a column lines up; the unit is said once.
std::string in_scale(Time t, const TimeScale& scale);
std::string spend_style(Spend s);
std::string note(std::string_view text);
std::string paragraph(std::string_view text);
// One figure of a verdict.
std::string card(std::string_view name, std::string_view value, std::string_view more,
                 std::string_view style = {});
// The interval of a figure as a line, with the forecast on it; `published`: places and words of
// what was measured.  Figures are above 0.
struct IntervalPicture {
  std::string_view title;
  double low = 0, forecast = 0, high = 0;
  std::string low_text, forecast_text, high_text;
  std::vector<std::pair<double, std::string>> published;
};
std::string interval_picture(const IntervalPicture& picture);
// A line of a list of facts; "" of an empty value.
std::string fact(std::string_view name, std::string_view value);
// A table of the text as HTML; columns without a word are left out.  `more`: columns after these,
// of tables whose first row is the best.
struct ExtraColumn {
  std::string title;
  std::vector<std::string> html;  // of each row
};
std::string cell_table(std::string_view caption, const CellTable& cells,
                       std::span<const ExtraColumn> more = {});
std::string timeline_legend();
std::string memory_legend(std::span<const RankMemory> ranks);
// A bar of the categories at the peak and of what is reserved beside them, over `whole` bytes.
std::string memory_bar(const RankMemory& memory, double whole);

}  // namespace stepcast
