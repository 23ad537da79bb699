// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast import`.
#pragma once

#include "tools/schedule_options.h"

namespace stepcast::cli {

// Adds `import`; `command` is set if it is chosen.
void add_import(CLI::App& app, Arguments& args, Command& command);

}  // namespace stepcast::cli
