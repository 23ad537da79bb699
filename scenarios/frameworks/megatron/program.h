// SPDX-License-Identifier: Apache-2.0
// What a program does with Megatron's arguments, which have the same names whatever it trains.
#pragma once

#include <string_view>

#include "scenarios/frameworks/import_draft.h"

namespace stepcast {

struct MegatronProgram {
  enum class Trains : unsigned char {
    unknown,          // a language model, as far as the name says; its tokenizer may say more
    decoder,          // GPT
    encoder,          // BERT
    encoder_decoder,  // T5
    other,            // what is not simulated: `what`
    nothing,          // it converts, evaluates, generates, measures
  };
  Trains trains = Trains::unknown;
  // In words.  other: what it trains; decoder: what it does beside, which is left out.
  std::string_view what{};
  // Beginnings of the names of arguments, "a|b": without any of them it trains nothing.
  std::string_view needs{};
};

// By the name of the program as it is called: "examples/t5/pretrain_t5.py",
// "tools.checkpoint.util".  The name of the file decides, and folders only where whole tools lie in
// them.  What is left open in a name ("$DIR/train.py") says nothing.
MegatronProgram megatron_program(std::string_view called);

// The program of a script, and how the script calls it.
struct CalledProgram {
  MegatronProgram does{};
  Origin called = "";
};

}  // namespace stepcast
