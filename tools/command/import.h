// SPDX-License-Identifier: Apache-2.0
// stepcast import of files that describe a training run.
#pragma once

#include <optional>
#include <string>

#include "scenarios/frameworks/import_run.h"
#include "tools/command/command.h"

namespace stepcast::cli {

// What the command line says about a file of `kind`.  Throws InputError if it cannot be read.
ImportRequest import_request(const Arguments& args, const std::string& kind,
                             const std::string& file);
// "imported 61 cost-relevant arguments (0 unknown, 214 without effect on cost) and 480 iterations".
std::string imported_summary(const ImportedRun& run);

// What is assumed and what is not understood, a line each.
std::string imported_remarks(const ImportedRun& run);

// The scenario of a file of another tool, told by its content; nothing for scenarios.  Says on
// standard error, once, what was assumed.  A config.json counts where --set says cluster and batch.
std::optional<std::string> imported_scenario(const std::string& file, const Arguments& args);

// Imports each file of the folder args.file, and prints a table of what came of it.
int import_folder(const Arguments& args);

// Writes the scenario to args.output, what was found to standard error.
int import_run_command(const Arguments& args);

}  // namespace stepcast::cli
