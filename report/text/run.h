// SPDX-License-Identifier: Apache-2.0
// The answer of `stepcast run` for people: one screen, 80 columns.
#pragma once

#include <string>

#include "report/format.h"
#include "sim/result.h"

namespace stepcast {

// Headline, the figures everybody asks for, the account of the step, what if, trust, warnings and
// at most one hint.  Ends with '\n'.
std::string text_report(const Result& result, const TextStyle& style = {});

// "gpt3-175b   64 x A100-SXM-80G   TP 8  PP 8 ...", one or two lines.
std::string headline(const ScenarioSummary& scenario, const TextStyle& style = {});

// "fits, 24 % free" or "does NOT fit: out of memory by 3.2 GiB on stage 0"
std::string memory_verdict(const Result& result);

// "91 % of the time measured, 9 % interpolated": shares of device time by origin of its price.
std::string trust_sentence(const Result& result);

// One sentence of advice that the result itself proves, or nothing.
std::string next_step(const Result& result);

}  // namespace stepcast
