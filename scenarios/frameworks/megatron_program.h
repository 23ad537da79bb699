// SPDX-License-Identifier: Apache-2.0
// What a program does with Megatron's arguments, which have the same names whatever it trains.
#pragma once

#include <string_view>

namespace stepcast {

struct MegatronProgram {
  enum class Trains : unsigned char {
    decoder,          // a language model, as most programs do, under any name
    encoder,          // BERT
    encoder_decoder,  // T5
    other,            // what is not simulated: `what`
    nothing,          // it converts, evaluates, generates, measures
  };
  Trains trains = Trains::decoder;
  std::string_view what{};  // other: in words
};

// By the name of the program as it is called: "examples/t5/pretrain_t5.py",
// "tools.checkpoint.util".
MegatronProgram megatron_program(std::string_view called);

}  // namespace stepcast
