// SPDX-License-Identifier: Apache-2.0
// What the key names of Hugging Face's config.json mean, and what a family of models takes for
// granted.
//
// All families are read in one vocabulary, the one of Llama's config.json, widened by a few words
// of ours for what other families have without saying so (qkv_bias, use_qk_norm, normalization,
// ...). A family is then two tables: names of its own for keys of the vocabulary, and values of
// keys that its files leave out.
#pragma once

#include <span>
#include <string_view>

namespace stepcast {

struct ModelFamily {
  std::string_view name;      // model_type of config.json; "gpt" and "llama" as presets
  std::string_view defaults;  // mapping in the vocabulary: the class defaults of transformers
};

// By the `model_type` of a config.json; nullptr if unknown.
const ModelFamily* find_model_type(std::string_view model_type);
std::span<const ModelFamily> model_types();

// `gpt` and `llama`: kinds of architecture without any size; nullptr for other names.
const ModelFamily* find_base_family(std::string_view preset);
std::span<const ModelFamily> base_families();

enum class KeyUse : unsigned char {
  read,     // changes the cost
  ignored,  // known, and without effect on the cost of a training step
  refused,  // known: a model that has it set to true cannot be simulated
  unknown,
};
struct ConfigKey {
  KeyUse use = KeyUse::unknown;
  std::string_view name;  // in the vocabulary
};
// The meaning of `key` in a config.json of `family`.
ConfigKey find_config_key(const ModelFamily& family, std::string_view key);

// All keys that are read, for "did you mean".
std::span<const std::string_view> config_vocabulary();

}  // namespace stepcast
