// SPDX-License-Identifier: Apache-2.0
// A scenario -> the command line that makes Megatron-LM train it.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace stepcast {

struct ExportedArguments {
  std::string text;                // a shell script, one argument a line
  std::vector<std::string> notes;  // what Megatron cannot be told, or does otherwise
};

// Defaults of Megatron are left out, so that what is written is what matters.  For what a scenario
// says nothing about (data, tokenizer, length of the training) something stands that runs:
// --mock-data, NullTokenizer, 50 iterations.
ExportedArguments export_megatron(const Scenario& scenario);

}  // namespace stepcast
