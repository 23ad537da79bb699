// SPDX-License-Identifier: Apache-2.0
// The panels of one step as HTML: everything that is read rather than moved.  Each is a whole
// section; "" if there is nothing to say.
#pragma once

#include <string>

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

}  // namespace stepcast
