// SPDX-License-Identifier: Apache-2.0
// A config.json of Hugging Face as it lies in a file -> the mapping that describes the decoder.
//
// A model of several parts (text and images) has a mapping for each: {"model_type": "qwen3_vl",
// "text_config": {...}, "vision_config": {...}}.  The decoder is in text_config, llm_config,
// language_config or thinker_config; the others are named and left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/resolve/model_families.h"

namespace stepcast {

struct ConfigJson {
  Value model;                        // a mapping; its model_type is there if the file says one
  std::vector<std::string> left_out;  // other parts of the model: "vision_config"
};
ConfigJson open_config(Value file);

// Adds E130, and returns true, for each part of the model that cannot be simulated, by the key that
// says it: keys that `family` does not have by its defaults.
bool refuse_missing_parts(const Value& model, const ModelFamily& family, Problems& problems);

// What a model of an unknown type would be as a decoder like Llama: "7.24 billion parameters
// (7241732096), ...", and what that takes for granted.  Nothing if its sizes do not say it.
std::optional<std::string> as_llama(const Value& model);

}  // namespace stepcast
