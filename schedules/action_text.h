// SPDX-License-Identifier: Apache-2.0
// Actions as text, read strictly: `5F12` is the forward of stage 5 for microbatch 12.
//
// The notation is that of torch.distributed.pipelining ("compute_only"):
// <stage><F|B|I|W><microbatch> in decimal, without signs, spaces or leading zeros.  Writing is
// to_string(Action) in sim/action.h.
#pragma once

#include <stdexcept>
#include <string_view>
#include <vector>

#include "sim/action.h"

namespace stepcast {

// A text that is not an action, with where it stands.
struct ActionTextError : std::invalid_argument {
  ActionTextError(const std::string& sentence, size_t offset_in_text, size_t length_of_text)
      : std::invalid_argument(sentence), offset(offset_in_text), length(length_of_text) {}
  size_t offset = 0;  // first byte of the wrong action in the text that was given
  size_t length = 0;  // bytes of it
};

// One action.  Throws ActionTextError with a sentence for the user; a stage must be at most 65,535
// and a microbatch at most 4,294,967,294.
Action parse_action(std::string_view text);

// The actions of one rank, separated by spaces, tabs or commas; nothing between two separators is
// an idle slot of PyTorch's CSV and stands for no action.  Throws as parse_action.  O(characters).
std::vector<Action> parse_actions(std::string_view row);

}  // namespace stepcast
