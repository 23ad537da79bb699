// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast size`.
#pragma once

#include "tools/schedule_options.h"

namespace stepcast::cli {

// Adds `size`; the chosen command is stored in `command`.
void add_size(CLI::App& app, Arguments& args, Command& command);

}  // namespace stepcast::cli
