// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/megatron_program.h"

#include <algorithm>
#include <string>

#include "sim/text.h"

namespace stepcast {
namespace {

using Trains = MegatronProgram::Trains;

struct ProgramName {
  // Of the name in small letters, '/' between folders; with '/' in front, what the last part begins
  // with.
  std::string_view part;
  MegatronProgram does;
};

constexpr MegatronProgram not_simulated(std::string_view what) {
  return {Trains::other, what};
}

// The first that the name has counts.  Programs are those of Megatron-LM and of what was made of it
// (Megatron-DeepSpeed, Pai-Megatron-Patch, BigScience, epfLLM).
constexpr ProgramName kPrograms[] = {
    {"preprocess", {Trains::nothing}},
    {"convert", {Trains::nothing}},
    {"checkpoint_util", {Trains::nothing}},
    {"checkpoint/util", {Trains::nothing}},
    {"generat", {Trains::nothing}},
    {"eval", {Trains::nothing}},
    {"inference", {Trains::nothing}},
    {"server", {Trains::nothing}},
    {"merge", {Trains::nothing}},
    {"export", {Trains::nothing}},
    {"tools/", {Trains::nothing}},
    {"build_", {Trains::nothing}},
    {"quantiz", {Trains::nothing}},
    {"ptq", {Trains::nothing}},
    {"create_", {Trains::nothing}},
    {"hf2", {Trains::nothing}},
    {"2hf", {Trains::nothing}},
    {"prompt", {Trains::nothing}},
    {"benchmark", {Trains::nothing}},
    {"estimate", {Trains::nothing}},
    {"/report_", {Trains::nothing}},
    {"/test_", {Trains::nothing}},
    {"analyze_data", {Trains::nothing}},
    {"_retro.py", not_simulated("layers that retrieve (RETRO)")},
    {"/pretrain_ict", not_simulated("two encoders trained against each other")},
    {"/pretrain_vision", not_simulated("a model of images")},
    {"tasks/main.py", not_simulated("a head for a task")},
    {"tasks/msdp/main.py", not_simulated("a head for a task")},
    {"_huggingface_", not_simulated("a model of transformers' with Megatron's arguments")},
    {"/train_rl", not_simulated("training by preferences or rewards")},
    {"/pretrain_bert", {Trains::encoder}},
    {"/pretrain_t5", {Trains::encoder_decoder}},
};

}  // namespace

MegatronProgram megatron_program(std::string_view called) {
  std::string name = '/' + lower_case(called);
  // A module: "python -m examples.inference.gpt".
  if (!name.ends_with(".py")) std::replace(name.begin(), name.end(), '.', '/');
  const size_t last = name.rfind('/');
  for (const ProgramName& p : kPrograms)
    if (p.part.front() == '/' ? name.compare(last, p.part.size(), p.part) == 0
                              : name.find(p.part) != name.npos)
      return p.does;
  return {};
}

}  // namespace stepcast
