// SPDX-License-Identifier: Apache-2.0
// Files of runs that were measured: scenarios with `measured`, and logs of what is imported.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/results/result.h"
#include "tools/command/command.h"

namespace stepcast::cli {

struct MeasuredScenario {
  std::string name;  // of the scenario and its variant, with the file where `names` has it already
  Scenario scenario;
  Measured measured;
};

// A scenario, and what the log args.log measured instead of what it says itself, with a line on
// standard error.  Throws InputError: what measured_in_log() and loading throw.
MeasuredScenario measured_by_log(const std::string& file, const Arguments& args,
                                 std::set<std::string>& warnings);

// The runs of one file that say what was measured.  A log is imported first, with a line on
// standard error.  Throws InputError: E008 if nothing was measured; what importing and loading
// throw.
std::vector<MeasuredScenario> read_measured_runs(const std::string& file, const Arguments& args,
                                                 std::set<std::string>& names);

// That a run which was measured would not fit by its forecast; nothing if it does.
std::optional<std::string> doubt_of_memory(const std::string& name, const Result& forecast);

}  // namespace stepcast::cli
