// SPDX-License-Identifier: Apache-2.0
// What keys of scenarios are called in other tools: for "did you mean".
#pragma once

#include <string_view>

namespace stepcast {

struct ForeignName {
  std::string_view foreign;  // normalised: lower case, '_'
  std::string_view path;     // ours, "batch.global"
  std::string_view note;     // "Megatron's --global-batch-size is batch.global here"; may be empty
};

// By a key as the user wrote it ("--global-batch-size", "GBS"); nullptr if it is none.
const ForeignName* find_foreign_name(std::string_view key);

}  // namespace stepcast
