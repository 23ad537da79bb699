// SPDX-License-Identifier: Apache-2.0
// The subcommands of `stepcast calibrate`.
#pragma once

#include "tools/command.h"

namespace stepcast::cli {

int calibrate_plan_command(const Arguments& args, const Terminal& terminal);
int calibrate_run_command(const Arguments& args, const Terminal& terminal);
int calibrate_fit_command(const Arguments& args, const Terminal& terminal);
int calibrate_merge_command(const Arguments& args, const Terminal& terminal);
int calibrate_show_command(const Arguments& args, const Terminal& terminal);
int calibrate_diff_command(const Arguments& args, const Terminal& terminal);

}  // namespace stepcast::cli
