// SPDX-License-Identifier: Apache-2.0
// Configurations of NeMo and its launcher that train no language model.
#pragma once

#include <optional>
#include <string_view>

#include "scenarios/document/value.h"

namespace stepcast {

struct NemoPurpose {
  std::string_view what;  // "models of speech"
  std::string_view key;   // of the file or of its `model`, which says it
  bool trains = true;     // something, if no language model
};

// What the file is for, if not to train a language model; nothing if it may be.
std::optional<NemoPurpose> other_purpose_of_nemo(const Value& file);

}  // namespace stepcast
