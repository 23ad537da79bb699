// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/megatron/program.h"

#include <algorithm>
#include <string>

#include "scenarios/frameworks/shell/syntax.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// What a row compares: names are in small letters and without ".py".
enum class Place : unsigned char {
  begins,  // the file's name begins so
  word,    // one of the words of the file's name begins so: "run" and "evaluate" of "run_evaluate"
  part,    // the file's name has it anywhere
  folder,  // the file lies in this folder: whole components
  path,    // the file has this name, in these folders: whole components
};

struct ProgramRow {
  Place place;
  std::string_view text;
  MegatronProgram does;
};

constexpr MegatronProgram not_simulated(std::string_view what, std::string_view needs = {}) {
  return {MegatronProgram::Trains::other, what, needs};
}
constexpr MegatronProgram leaves_out(std::string_view what) {
  return {MegatronProgram::Trains::decoder, what};
}
constexpr MegatronProgram kNothing{MegatronProgram::Trains::nothing};

constexpr std::string_view kImages = "a model of images";
constexpr std::string_view kHead = "a head for a task";
constexpr std::string_view kRetro = "layers that retrieve (RETRO)";
constexpr std::string_view kTransformers = "a model of transformers' with Megatron's arguments";
constexpr std::string_view kPrefix = "attention to both sides in the part of a text that is given";

// The first that fits counts.  Programs are those of Megatron-LM and of what was made of it
// (Megatron-DeepSpeed, Pai-Megatron-Patch, BigScience, epfLLM).
constexpr ProgramRow kPrograms[] = {
    {Place::path, "tasks/main", not_simulated(kHead, "train_data")},
    {Place::path, "tasks/msdp/main", not_simulated(kHead, "train_data")},
    {Place::path, "tasks/vision/main", not_simulated(kImages, "train_data")},
    {Place::path, "examples/multimodal/train", leaves_out("the encoder of images")},

    // Names that say that they train win over every other word in them.
    {Place::begins, "pretrain_retro", not_simulated(kRetro)},
    {Place::begins, "pretrain_ict", not_simulated("two encoders trained against each other")},
    {Place::begins, "pretrain_vision", not_simulated(kImages)},
    {Place::begins, "pretrain_vit", not_simulated(kImages)},
    {Place::begins, "pretrain_vlm", leaves_out("the encoder of images")},
    {Place::begins, "pretrain_prefix_lm", leaves_out(kPrefix)},
    {Place::begins, "finetune_t0_non_causal", leaves_out(kPrefix)},
    {Place::begins, "finetune_huggingface", not_simulated(kTransformers)},
    {Place::begins, "train_huggingface", not_simulated(kTransformers)},
    {Place::begins, "train_rl", not_simulated("training by preferences or rewards")},
    {Place::begins, "pretrain_bert", {MegatronProgram::Trains::encoder}},
    {Place::begins, "pretrain_t5", {MegatronProgram::Trains::encoder_decoder}},
    {Place::begins, "pretrain_gpt", {MegatronProgram::Trains::decoder}},
    {Place::begins, "pretrain_llama", {MegatronProgram::Trains::decoder}},
    {Place::begins, "pretrain_mamba", {MegatronProgram::Trains::decoder}},
    {Place::begins, "pretrain_hybrid", {MegatronProgram::Trains::decoder}},
    {Place::begins, "finetune_gpt", {MegatronProgram::Trains::decoder}},
    {Place::begins, "finetune_llama", {MegatronProgram::Trains::decoder}},
    {Place::begins, "pretrain", {}},
    {Place::begins, "finetune", {}},
    {Place::begins, "train", {}},

    {Place::word, "preprocess", kNothing},
    {Place::word, "conver", kNothing},
    {Place::begins, "checkpoint_util", kNothing},
    {Place::word, "generat", kNothing},
    {Place::word, "eval", kNothing},
    {Place::word, "inference", kNothing},
    {Place::word, "server", kNothing},
    {Place::word, "merge", kNothing},
    {Place::word, "export", kNothing},
    {Place::begins, "build_", kNothing},
    {Place::word, "quantiz", kNothing},
    {Place::word, "ptq", kNothing},
    {Place::begins, "create_", kNothing},
    {Place::part, "hf2", kNothing},
    {Place::part, "2hf", kNothing},
    {Place::word, "prompt", kNothing},
    {Place::word, "benchmark", kNothing},
    {Place::word, "estimate", kNothing},
    {Place::begins, "report_", kNothing},
    // Some train, some read a data set with the arguments of a training.
    {Place::begins, "test_",
     not_simulated("a test, which may train nothing",
                   "micro_batch_size|global_batch_size|train_iters|train_samples")},
    {Place::begins, "analyze_data", kNothing},
    {Place::folder, "tools", kNothing},
    {Place::folder, "tools/checkpoint", kNothing},
    {Place::folder, "tools/retro", kNothing},
    {Place::folder, "inference", kNothing},

    {Place::word, "retro", not_simulated(kRetro)},
    {Place::word, "huggingface", not_simulated(kTransformers)},
};

// `name` without "$NAME", "${NAME}" and "<name>".
std::string without_variables(std::string_view name) {
  std::string plain;
  for (size_t at = 0; at < name.size();) {
    const bool variable = name[at] == '$' && at + 1 < name.size();
    const char close = variable && name[at + 1] == '{' ? '}' : name[at] == '<' ? '>' : '\0';
    if (close != '\0') {
      at = std::min(name.find(close, at), name.size() - 1) + 1;
    } else if (variable) {
      for (++at; at < name.size() && is_shell_name(name[at]);) ++at;
    } else {
      plain += name[at++];
    }
  }
  return plain;
}

bool has_word_of_name(std::string_view file, std::string_view begin) {
  for (size_t at = 0; at < file.size();) {
    if (file.substr(at).starts_with(begin)) return true;
    at = file.find_first_of("_-.", at);
    if (at != file.npos) ++at;
  }
  return false;
}

// Whether the last components of `path` are `components`.
bool ends_in(std::string_view path, std::string_view components) {
  return path.ends_with(components) &&
         (path.size() == components.size() || path[path.size() - components.size() - 1] == '/');
}

}  // namespace

MegatronProgram megatron_program(std::string_view called) {
  std::string path = lower_case(without_variables(called));
  if (path.ends_with(".py"))
    path.resize(path.size() - 3);
  else if (path.find('/') == path.npos)  // a module: "python -m examples.inference.gpt"
    std::replace(path.begin(), path.end(), '.', '/');
  const size_t slash = path.rfind('/');
  const std::string_view whole = path;
  const std::string_view file = whole.substr(slash + 1);
  const std::string_view folder = slash == path.npos ? "" : whole.substr(0, slash);
  const auto fits = [&](const ProgramRow& row) {
    switch (row.place) {
      case Place::begins: return file.starts_with(row.text);
      case Place::word: return has_word_of_name(file, row.text);
      case Place::part: return file.find(row.text) != file.npos;
      case Place::folder: return ends_in(folder, row.text);
      case Place::path: return ends_in(whole, row.text);
    }
    return false;
  };
  for (const ProgramRow& row : kPrograms)
    if (fits(row)) return row.does;
  return {};
}

}  // namespace stepcast
