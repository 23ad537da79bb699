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

// Why there is none, a line: Megatron-LM's pretrain_gpt.py would train another model, or nothing
// is trained.  Empty where there is one.
std::string why_not_megatron(const Scenario& scenario);

// Throws an InputError (E130) where why_not_megatron() says something.
//
// Megatron's defaults are left out, so that only what matters is written.  Where a scenario says
// nothing (data, tokenizer, length of the training) the script has something that runs:
// --mock-data, NullTokenizer, 50 iterations.
ExportedArguments export_megatron(const Scenario& scenario);

}  // namespace stepcast
