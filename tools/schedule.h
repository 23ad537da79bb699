// SPDX-License-Identifier: Apache-2.0
// The subcommands of `stepcast schedule`.
#pragma once

#include "tools/command.h"

namespace stepcast::cli {

int schedule_show_command(const Arguments& args, const Terminal& terminal);
int schedule_check_command(const Arguments& args, const Terminal& terminal);
int schedule_export_command(const Arguments& args, const Terminal& terminal);
int schedule_eval_command(const Arguments& args, const Terminal& terminal);
int schedule_synth_command(const Arguments& args, const Terminal& terminal);

}  // namespace stepcast::cli
