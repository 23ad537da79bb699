// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast calibrate`, and its subcommands.
#pragma once

#include "tools/schedule_options.h"

namespace stepcast::cli {

// Adds `calibrate` with its subcommands; the chosen one is stored in `command`.
void add_calibrate(CLI::App& app, Arguments& args, Command& command);

int calibrate_plan_command(const Arguments& args, const Terminal& terminal);
int calibrate_run_command(const Arguments& args, const Terminal& terminal);
int calibrate_fit_command(const Arguments& args, const Terminal& terminal);
int calibrate_merge_command(const Arguments& args, const Terminal& terminal);
int calibrate_show_command(const Arguments& args, const Terminal& terminal);
int calibrate_diff_command(const Arguments& args, const Terminal& terminal);

}  // namespace stepcast::cli
