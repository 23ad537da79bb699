// SPDX-License-Identifier: Apache-2.0
// Which texts a model is made of: the defaults of its family, its preset or config.json, and what
// the scenario replaces; laid over each other into one mapping.
#pragma once

#include <optional>
#include <string>

#include "scenarios/model_config.h"
#include "scenarios/model_families.h"
#include "scenarios/value.h"

namespace stepcast {

struct ModelKeys {
  const ModelFamily* family = nullptr;
  std::string name;  // the preset, the file or the model_type
  Value keys;        // mapping in the vocabulary of model_families.h
};

// Adds problems and returns nothing if there are any.
std::optional<ModelKeys> collect_model_keys(const Value& model, Problems& problems,
                                            const FileReader& read_file);

}  // namespace stepcast
