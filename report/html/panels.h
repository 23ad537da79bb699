// SPDX-License-Identifier: Apache-2.0
// The panels of one step as HTML: everything that is read rather than moved.  Each is a whole
// section; "" if there is nothing to say.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/format.h"
#include "report/html/page.h"
#include "sim/result.h"

namespace stepcast {

std::string verdict_panel(const Result& result, const PageFacts& facts);
std::string account_panel(const Result& result);
std::string timeline_panel(const Result& result);  // the static picture (gantt.h) and its table
std::string memory_panel(const Result& result);
std::string bubble_panel(const Result& result);
std::string communication_panel(const Result& result);
std::string cluster_panel(const PageFacts& facts);
std::string trust_panel(const Result& result);
std::string scenario_panel(const Result& result, const PageFacts& facts);

// --- Of several results

std::string cases_panel(std::span<const PageCase> cases, size_t baseline,
                        std::span<const LeftOut> left_out);
std::string accounts_panel(std::span<const PageCase> cases);
std::string timelines_panel(std::span<const PageCase> cases);
std::string memories_panel(std::span<const PageCase> cases);
std::string differences_panel(std::span<const PageCase> cases, const PageFacts& facts);

// All panels of a search.
std::string search_panels(const SearchResult& search);

// --- What panels of one result and of several have in common

std::string swatch(std::string_view style);
// Times in one unit, so that a column lines up; the unit is said once.
std::string in_scale(Time t, const TimeScale& scale);
std::string spend_style(Spend s);
std::string note(std::string_view text);
std::string timeline_legend();
std::string memory_legend(std::span<const RankMemory> ranks);
// A bar of the categories at the peak and of what is reserved beside them, over `whole` bytes.
std::string memory_bar(const RankMemory& memory, double whole);

}  // namespace stepcast
