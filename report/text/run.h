// SPDX-License-Identifier: Apache-2.0
// The answer of `stepcast run` for people: one screen, 80 columns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/format.h"
#include "sim/results/result.h"

namespace stepcast {

// Headline, the figures everybody asks for, the account of the step, what if, trust, warnings and
// at most one hint.  Ends with '\n'.
std::string text_report(const Result& result, const TextStyle& style = {},
                        const std::string& read_by = "FILE");

// "gpt3-175b   64 x A100-SXM-80G   TP 8  PP 8 ...", one or two lines.
std::string headline(const ScenarioSummary& scenario, const TextStyle& style = {});

// How surely a step fits, by the share of such steps that do; where no run like it was compared, by
// the forecast alone.
enum class Fit : uint8_t {
  fits,         // at least 90 %
  probably,     // less, but most
  may_run_out,  // less than half, or the forecast is beyond the memory but more than 10 % fit
  does_not,
};
Fit fit_of(const Result& result);
Tone tone_of(Fit fit);

// "fits, 24 % free", "probably fits: 80 % of such steps do", "may run out of memory: 35 % of such
// steps fit" or "does NOT fit: out of memory by 3.2 GiB on stage 0"
std::string memory_verdict(const Result& result);

// "bf16" where products are in formats of higher peaks than the one that MFU and HFU are shares of:
// they may exceed 1 then.  Else nothing.
std::string_view low_peak(const Utilization& u);
// "MFU" or "MFU % (bf16)": the head of a column of them; `unit`: "", " %".
std::string mfu_title(std::span<const Utilization> rows, std::string_view unit = {});

// What the fullest rank holds, of how much, and the verdict: one line or two, each with its '\n'.
// REQUIRES: reserved_role < memory.size().
std::string peak_memory_lines(const Result& result, const TextStyle& style);

// "91 % of the time measured, 9 % interpolated": shares of device time by origin of its price.
std::string trust_sentence(const Result& result);
// The same shares in whole percent that sum to 100, by Origin, and what a share is called.
std::vector<int64_t> trust_percents(const Result& result);
std::string_view origin_words(Origin origin);

// The account of one role as text_report() shows it: lines of zero are left out, small ones
// grouped.
struct AccountLine {
  std::string title;
  Time time{};
  std::optional<Time> saved;  // what-if: shorter step if this cost were removed
  Tone tone = Tone::plain;    // of its bar
};

// Lines that add up to the account of `role`: compute by kind, then exposed communication, bubbles,
// launch gaps and idling, each group largest first within the order of the account; also what takes
// no time here but would save some.  REQUIRES: role < account.by_role.size().
std::vector<AccountLine> account_lines(const Result& result, uint32_t role);

// One sentence of advice that the result itself proves, or nothing.  `read_by`: the words by which
// a command reads the scenario.
std::string next_step(const Result& result, const std::string& read_by = "FILE");

}  // namespace stepcast
