// SPDX-License-Identifier: Apache-2.0
// What a family of models takes for granted: values of the keys that its config.json leaves out.
#pragma once

#include <span>
#include <string_view>

namespace stepcast {

struct ModelFamily {
  std::string_view name;      // model_type of config.json; "gpt" and "llama" as presets
  std::string_view defaults;  // a mapping in the vocabulary of config_keys.h
};

// By the `model_type` of a config.json; nullptr if unknown.
const ModelFamily* find_model_type(std::string_view model_type);
std::span<const ModelFamily> model_types();

// `gpt` and `llama`: kinds of architecture without any size; nullptr for other names.
const ModelFamily* find_base_family(std::string_view preset);
std::span<const ModelFamily> base_families();

}  // namespace stepcast
