// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's arguments -> a scenario.  Megatron-Bridge's configuration has the same names.
//
// Names and defaults: megatron/training/arguments.py and megatron/core/transformer/
// transformer_config.py of https://github.com/NVIDIA/Megatron-LM.
#pragma once

#include <span>
#include <string>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/import_draft.h"
#include "scenarios/frameworks/import_run.h"

namespace stepcast {

// Arguments that change the cost, and launcher arguments that say how many GPUs there are.
std::span<const CostArgument> megatron_arguments();

// The whole scenario.  Adds E331 for values that cannot be, E332 for arguments that are missing or
// exclude each other.
void draft_megatron(const ArgumentReader& arguments, const ImportCluster& cluster,
                    ScenarioDraft& draft);

// A variable of the environment, if it is one that changes how collectives or kernels run; sets
// what it switches.
void draft_environment(const std::string& name, const std::string& value, ScenarioDraft& draft);

}  // namespace stepcast
