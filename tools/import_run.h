// SPDX-License-Identifier: Apache-2.0
// stepcast import of files that describe a training run.
#pragma once

#include <string>

#include "tools/command.h"

namespace stepcast::cli {

// Whether `kind` is one of them; their names, for messages.
bool is_run_kind(const std::string& kind);
std::string run_kinds();

// Writes the scenario to args.import.output, what was found to standard error.
int import_run_command(const Arguments& args);

}  // namespace stepcast::cli
