// SPDX-License-Identifier: Apache-2.0
// What the key names of Hugging Face's config.json mean.
//
// All families are read in one vocabulary, the one of Llama's config.json, widened by a few words
// of ours for what other families have without saying so (qkv_bias, use_qk_norm, normalization,
// ...); their own names for keys of the vocabulary are translated.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "scenarios/model_families.h"

namespace stepcast {

enum class KeyUse : uint8_t {
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
