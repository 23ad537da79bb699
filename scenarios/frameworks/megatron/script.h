// SPDX-License-Identifier: Apache-2.0
// The arguments of Megatron in a shell script: of the command in it that trains.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/program.h"

namespace stepcast {

using MegatronEnvironment = std::vector<std::pair<std::string, std::string>>;

// The arguments of the command that trains: the first that has sizes of a model or a batch.  A text
// of nothing but arguments is all of one command.  Adds what the script exports to `environment`,
// and sets the `program` of that command if there is one.  Adds E130 for a program that trains what
// is not simulated, E331 for a script that is too long, E332 for values that only its caller knows,
// E336 where nothing is trained.
std::vector<Argument> megatron_script_arguments(const ImportSources& in,
                                                MegatronEnvironment& environment,
                                                CalledProgram& program);

}  // namespace stepcast
