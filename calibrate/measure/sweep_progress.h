// SPDX-License-Identifier: Apache-2.0
// How far a run is, in words.  Needs no GPU.
#pragma once

#include <cstdint>
#include <string>

#include "calibrate/plan/sweep.h"

namespace stepcast::measure {

// "[######----------] 12/34 points, 45 of 300 s"; below 80 columns.
std::string sweep_bar(int64_t done, int64_t total, double seconds, double budget_s);

// What a run says at its end: rows measured, points left and why, and how to go on.  `output` as
// for -o, `command` what to type again.
std::string sweep_summary(const SweepReport& report, const std::string& output,
                          const std::string& command);

}  // namespace stepcast::measure
