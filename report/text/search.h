// SPDX-License-Identifier: Apache-2.0
// What `stepcast search` found: a table and words for people, JSON, and rows for spreadsheets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/format.h"
#include "report/text/cells.h"
#include "sim/results/search_result.h"

namespace stepcast {

// The funnel with counts by rule, the table of the best layouts, how many are as good as the first,
// why the first is first, what a lighter and a simpler one would cost, and how to start it; or what
// is nearest where nothing fits.  Ends with '\n'.
std::string search_text(const SearchResult& result, const TextStyle& style = {});

// The best layouts, and what those one step from the first take and hold beside it.
CellTable layouts_table(const SearchResult& result);
CellTable neighbors_table(const SearchResult& result);

// Why a search has no layout to show: the constraints, an early end, or memory.  One reading for
// all reports; not escaped, as constraints are somebody's text.  REQUIRES: result.best is empty.
struct NoLayout {
  std::string verdict;            // "no layout fits with 5 % of the memory left free"
  std::vector<std::string> more;  // sentences: the nearest or the best, and what would help
  bool stopped = false;           // what was not looked at may fit
};
NoLayout no_layout(const SearchResult& result);

// What is said where the search was stopped before its end (all_seen, undecided).
inline constexpr std::string_view kNotAllSeen =
    "The search was stopped before all layouts were known.";
inline constexpr std::string_view kNotLookedAt = "not looked at: the search was stopped";

// "stepcast run run.yaml -s parallel.tp=2": the forecast of this layout, as a shell takes it.
std::string run_line(const SearchResult& result, const FoundLayout& layout);

std::string search_json(const SearchResult& result, std::string_view version);

// The points, rules and counts alone.
std::string funnel_json(const SearchResult& result);

// A line for each of the best layouts, with a header.
std::string search_csv(const SearchResult& result);

// "TP 8  PP 4  VPP 2  DP 4  MBS 1, selective recomputation": axes that are 1 are left out.
std::string layout_text(const FoundLayout& layout);

// Of a token: "0.734", "12.31".
std::string joules_text(double joules);

// Layers of the stages, "9 9 8 6", with those that are alike counted: "2x9 8 6".
std::string layers_text(std::string_view stage_layers);

}  // namespace stepcast
