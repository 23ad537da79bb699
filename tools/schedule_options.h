// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast schedule`.
#pragma once

#include "tools/command.h"

namespace CLI {
class App;
}

namespace stepcast::cli {

using Command = int (*)(const Arguments&, const Terminal&);

// --json, --color and --quiet, which every command has.
void add_common(CLI::App* sub, Arguments& args);

// Adds `schedule` with its subcommands; the chosen one is stored in `command`.
void add_schedule(CLI::App& app, Arguments& args, Command& command);

}  // namespace stepcast::cli
