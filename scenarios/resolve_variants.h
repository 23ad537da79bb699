// SPDX-License-Identifier: Apache-2.0
// `prune` and `distill`: another model than the one that is named, and a second one beside it.
#pragma once

#include "scenarios/model_config.h"
#include "scenarios/resolve_plan.h"

namespace stepcast {

// Takes away what `prune` says.  Adds E127 if that cannot be done, E121 for a share of all.
void prune_model(const FieldValues& values, Transformer& model);

// The teacher of `distill`, with its layers spread over the plan's stages.  Adds what reading a
// model can say, what the model itself would be refused for with this layout and batch, E127 if its
// vocabulary is another one or the step does not train, E130 for teachers that are not a decoder.
void resolve_teacher(const PlanInputs& in, const FileReader& read_file, Plan& plan);

}  // namespace stepcast
