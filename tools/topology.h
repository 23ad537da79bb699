// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast topology`.
#pragma once

#include "tools/schedule_options.h"

namespace stepcast::cli {

// Adds `topology` with its subcommand; the chosen one is stored in `command`.
void add_topology(CLI::App& app, Arguments& args, Command& command);

}  // namespace stepcast::cli
