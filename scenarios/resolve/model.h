// SPDX-License-Identifier: Apache-2.0
// The `model:` of a scenario -> Transformer.
//
//   model: llama3-8b                                     a preset
//   model: {preset: llama3-8b, num_hidden_layers: 16}    ... with keys replaced
//   model: {preset: gpt, num_hidden_layers: 40, ...}     an architecture (gpt, llama), its sizes
//   model: {hf: models/config.json}                      a Hugging Face config.json; keys here win
//   model: {model_type: qwen2, hidden_size: 3584, ...}   the same, pasted
//
// Keys are config.json's.  Keys that a file leaves out have the default of transformers' class for
// its model_type (model_families.h).  Dropout and the type of stored weights are not taken from the
// model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer.h"
#include "scenarios/document/value.h"

namespace stepcast {

// Reads the file `path`, named at `from`.  Adds a problem and returns null if it cannot be read.
using FileReader = std::function<SourceRef(const std::string& path, const Mark& from)>;

// Adds what is wrong to `problems` and returns nothing if there is anything:
//   E102 unknown key              E103 one key under two names      E107 wrong kind of value
//   E120-E125 wrong values; E125 also unknown presets and model_types
//   E126 sizes that are missing   E127 sizes that contradict each other
//   E123 more than 10^15 parameters                                 E130 not supported yet
// Adds to `warnings`, if any, which parts of a config.json are left out.
std::optional<Transformer> resolve_model(const Value& model, Problems& problems,
                                         const FileReader& read_file,
                                         std::vector<std::string>* warnings = nullptr);

// What is said of a key of a config.json that changes the cost and is not modelled.
std::string left_out_remark(std::string_view key);

}  // namespace stepcast
