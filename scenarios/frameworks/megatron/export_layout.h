// SPDX-License-Identifier: Apache-2.0
// The layout of a scenario and how it is run, and nothing else of it, in words of frameworks: what
// to change in a configuration that trains the model already.
//
// What a framework cannot be told stands in the text as comments ("# not said: ..."), a key a line:
// nothing that a scenario states of how its step runs is lost silently.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario.h"

namespace stepcast {

// Why there is none, a line; empty where there is one.
std::string why_not_torchtitan(const Scenario& scenario);
std::string why_not_nemo(const Scenario& scenario);

// torchtitan's sections parallelism, training and activation_checkpoint, as TOML.  Nothing where
// torchtitan has no such layout: it shards parameters (FSDP) whatever the pipeline, and recomputes
// whole layers or by operator.
std::optional<std::string> torchtitan_layout(const Scenario& scenario);

// Overrides of NVIDIA NeMo's Megatron-Bridge, one a line.  Nothing where it has no such layout:
// other orders of the pipeline, ZeRO-2 and 3.
std::optional<std::string> nemo_overrides(const Scenario& scenario);

// Keys that Megatron's arguments and Megatron-Bridge's settings both say, and `more`.
std::vector<std::string_view> said_by_megatron(std::span<const std::string_view> more);

// What the scenario itself states of how its step runs (layout, batch, schedule, number formats,
// recomputation, overlap, optimizer, kernels, experts, offload, environment), but for the keys in
// `said` and those below them: "kernels.cuda_graph layer".
std::vector<std::string> stated_beside(const Scenario& scenario,
                                       std::span<const std::string_view> said);

}  // namespace stepcast
