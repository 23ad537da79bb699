// SPDX-License-Identifier: Apache-2.0
// What is known by a name of the Hugging Face Hub alone (imports/hub_models.yaml,
// imports/tokenizers.yaml).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast {

// The preset with the sizes of the config.json of the model `name`; empty: there is none.
std::string preset_of_hub_model(std::string_view name);

// How large the vocabulary of a tokenizer is.
struct TokenizerSize {
  int64_t count = 0;
  bool of_tokens = false;  // what it has; else the rows of its model's embedding, which are more
};
// By the name on the Hub, or by a path whose last part is the name of a model or a known file, or a
// tokenizer's file in a folder of such a name: "/models/Llama-2-7b-hf/tokenizer.model".  Nothing
// for names that are not known.
std::optional<TokenizerSize> size_of_tokenizer(std::string_view name);

}  // namespace stepcast
