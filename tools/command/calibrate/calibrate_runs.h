// SPDX-License-Identifier: Apache-2.0
// stepcast calibrate runs: the in-situ parameters of a cluster from its own runs
// (calibrate/fit/own_runs.h).
#pragma once

#include "tools/command/command.h"

namespace stepcast::cli {

int calibrate_runs_command(const Arguments& args, const Terminal& terminal);

}  // namespace stepcast::cli
