// SPDX-License-Identifier: Apache-2.0
// The layers of Megatron-LM's hybrids: a pattern of letters, or shares of attention and MLPs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"

namespace stepcast {

inline constexpr int64_t kMostLayers = 100'000;  // of a model

// A model of one branch a layer: M a state space, * attention, E experts, - an MLP.
struct Hybrid {
  std::string layers;           // "M-M*M-"
  std::vector<int64_t> stages;  // how many layers each stage has; one entry: no stages are said
  std::string prediction;       // the layers of a prediction module, or empty
  int64_t predictions = 0;      // how many modules
  Origin why = "";
};

// --hybrid-layer-pattern, until 2025 --hybrid-override-pattern, or shares of attention and MLPs
// (--hybrid-attention-ratio).  Nothing where the model is no hybrid.
// Adds E130 for layers that are not modelled, E331 for patterns that cannot be.
std::optional<Hybrid> hybrid_of(const ArgumentReader& a);

}  // namespace stepcast
