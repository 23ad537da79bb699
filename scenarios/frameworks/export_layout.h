// SPDX-License-Identifier: Apache-2.0
// The layout of a scenario, and nothing else of it, in words of frameworks: what to change in a
// configuration that trains the model already.
#pragma once

#include <optional>
#include <string>

#include "scenarios/scenario.h"

namespace stepcast {

// torchtitan's sections parallelism, training and activation_checkpoint, as TOML.  Nothing where
// torchtitan has no such layout: it shards parameters (FSDP) whatever the pipeline, and recomputes
// whole layers or by operator.
std::optional<std::string> torchtitan_layout(const Scenario& scenario);

// Overrides of NVIDIA NeMo's Megatron-Bridge, one a line.  Nothing where it has no such layout:
// other orders of the pipeline, ZeRO-2 and 3.
std::optional<std::string> nemo_overrides(const Scenario& scenario);

}  // namespace stepcast
