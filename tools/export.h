// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast export`.
#pragma once

#include "tools/schedule_options.h"

namespace stepcast::cli {

// Adds `export`; `command` is set if it is chosen.
void add_export(CLI::App& app, Arguments& args, Command& command);

}  // namespace stepcast::cli
