// SPDX-License-Identifier: Apache-2.0
// stepcast import of files about kernels and collectives.
#pragma once

#include <string>

#include "tools/command.h"

namespace stepcast::cli {

// Whether `kind` is one of them; their names, for messages.
bool is_measured_kind(const std::string& kind);
std::string measured_kinds();

// Writes a cost table of their rows, without fits, to args.import.output; what was not used to
// standard error.
int import_measured_command(const Arguments& args);

}  // namespace stepcast::cli
