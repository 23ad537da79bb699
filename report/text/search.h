// SPDX-License-Identifier: Apache-2.0
// What `stepcast search` found: a table and words for people, JSON, and rows for spreadsheets.
#pragma once

#include <string>
#include <string_view>

#include "report/format.h"
#include "sim/search_result.h"

namespace stepcast {

// The funnel with counts by rule, the table of the best layouts, how many are as good as the first,
// why the first is first, what a lighter and a simpler one would cost, and how to start it; or what
// is nearest where nothing fits.  Ends with '\n'.
std::string search_text(const SearchResult& result, const TextStyle& style = {});

std::string search_json(const SearchResult& result, std::string_view version);

// The points, rules and counts alone.
std::string funnel_json(const SearchResult& result);

// A line for each of the best layouts, with a header.
std::string search_csv(const SearchResult& result);

// "TP 8  PP 4  VPP 2  DP 4  MBS 1, selective recomputation": axes that are 1 are left out.
std::string layout_text(const FoundLayout& layout);

// Layers of the stages, "9 9 8 6", with those that are alike counted: "2x9 8 6".
std::string layers_text(std::string_view stage_layers);

}  // namespace stepcast
