// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's arguments -> a scenario.  Megatron-Bridge's configuration has the same names.
//
// Names and defaults: megatron/training/arguments.py and megatron/core/transformer/
// transformer_config.py of https://github.com/NVIDIA/Megatron-LM.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/import_draft.h"
#include "scenarios/frameworks/import_run.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/program.h"

namespace stepcast {

// Arguments that change the cost, and launcher arguments that say how many GPUs there are.
std::span<const CostArgument> megatron_arguments();

// The whole scenario; the model is left to the caller if it is not in the arguments.  Adds E130 and
// E336 for what is not forecast, E331 for values that cannot be, E332 for arguments that are
// missing, and that the user does not state, or exclude each other.
void draft_megatron(const ArgumentReader& arguments, const CalledProgram& program,
                    const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                    bool with_model = true);

// The scenario of a file that says the layout in Megatron's arguments, and the model too or leaves
// it to --model's config.json.  Adds E332 where neither says it.
void draft_megatron_file(std::vector<Argument> arguments, const ImportSources& in,
                         const ImportCluster& cluster, ScenarioDraft& draft, ImportCounts& counts);

// Adds E130 where a file of Megatron-Bridge or NeMo 2 says `peft`: adapters are trained in place of
// the model.
void refuse_peft(const Value& file, const ImportSources& in);

// A variable of the environment, if it is one that changes how collectives or kernels run; sets
// what it switches.
void draft_environment(const std::string& name, const std::string& value, ScenarioDraft& draft);

}  // namespace stepcast
