// SPDX-License-Identifier: Apache-2.0
// Families of models: what they take for granted, and what the keys of their config.json mean.
//
// All families are read in one vocabulary, the one of Llama's config.json, widened by a few words
// of ours for what other families have without saying so (qkv_bias, use_qk_norm, normalization,
// ...); their own names for keys of the vocabulary are translated.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stepcast {

struct ModelFamily {
  std::string_view name;      // model_type of config.json; "gpt" and "llama" as presets
  std::string_view defaults;  // a mapping in that vocabulary
  std::string_view common{};  // what it shares with others, where `defaults` does not say it
};

// By the `model_type` of a config.json, or that of a model that is built the same; nullptr if
// unknown.
const ModelFamily* find_model_type(std::string_view model_type);
std::span<const ModelFamily> model_types();

// `gpt` and `llama`: kinds of architecture without any size; nullptr for other names.
const ModelFamily* find_base_family(std::string_view preset);
std::span<const ModelFamily> base_families();

enum class KeyUse : uint8_t {
  read,      // changes the cost
  ignored,   // known, and without effect on the cost of a training step
  left_out,  // known: changes the cost, and is not modelled
  unknown,
};
struct ConfigKey {
  KeyUse use = KeyUse::unknown;
  std::string_view name;  // in the vocabulary
};
// The meaning of `key` in a config.json of `family`.
ConfigKey find_config_key(const ModelFamily& family, std::string_view key);

// Whether what the family takes for granted names `key` of the vocabulary.
bool names_by_default(const ModelFamily& family, std::string_view key);

// All keys that are read, for "did you mean"; those that only few models have apart.
std::span<const std::string_view> config_vocabulary();
std::span<const std::string_view> rare_config_vocabulary();

}  // namespace stepcast
