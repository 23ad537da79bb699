// SPDX-License-Identifier: Apache-2.0
// stepcast help TOPIC: the options of a command; what an error code means and what to do about it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "report/diagnostics.h"
#include "report/json/writer.h"
#include "scenarios/document/number.h"
#include "sim/text.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

std::string as_json(std::span<const ErrorCode> codes) {
  return json_document([&](JsonWriter& json) {
    json.objects("codes", codes, [&](const ErrorCode& c) {
      json.member("code", c.code);
      json.member("title", c.title);
      json.member("explanation", c.explanation);
    });
  });
}

// `stepcast help`, `help run`, `help schedule show`: what --help prints; nothing if `topic` is no
// command.
std::optional<std::string> help_of_command(const CLI::App& app,
                                           std::span<const std::string> topic) {
  const CLI::App* chosen = &app;
  std::string path;
  for (const std::string& word : topic) {
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : chosen->get_subcommands({}))
      if (sub->get_name() == word) next = sub;
    if (next == nullptr) return std::nullopt;
    path += (path.empty() ? "stepcast" : " ") + (chosen == &app ? "" : chosen->get_name());
    chosen = next;
  }
  return chosen == &app ? app.help() : chosen->help(path);
}

std::string all_codes() {
  std::string text;
  for (const ErrorCode& c : error_codes())
    text += std::string(c.code) + "  " + std::string(c.title) + '\n';
  return text;
}

std::string explained(const ErrorCode& code, int width) {
  return std::string(code.code) + ": " + std::string(code.title) + "\n\n" +
         wrap(code.explanation, "", width);
}

// Words of answers that readers look up, as written there; what some of them have in common stands
// once.
struct Word {
  std::string_view names;  // "fill, drain": any of them
  std::string_view explanation;
};
constexpr std::array kWords{
    Word{"MFU",
         "Model FLOPs utilization: the FLOPs that the model needs, recomputation not counted, as a "
         "share "
         "of what the GPUs could do at the peak of the parameters' format. Every query meets every "
         "key, "
         "unless it is called causal. With products in fp8 or fp4 it may exceed 100 %."},
    Word{"HFU",
         "Hardware FLOPs utilization: as MFU, but of the FLOPs that are executed: with "
         "recomputation, and "
         "attention under its mask."},
    Word{"bubble",
         "Share of the step in which a pipeline rank waits for other ranks: fill + imbalance + "
         "drain + "
         "blocked sends. `stepcast explain --bubble FILE` shows what is waited for."},
    Word{"fill, pipeline fill",
         "Bubble: waiting for other stages before the rank's first backward."},
    Word{"drain, pipeline drain",
         "Bubble: waiting for other stages after the rank's last forward."},
    Word{"imbalance, stage imbalance",
         "Bubble: waiting for stages that take longer, between the rank's first backward "
         "and its last forward. parallel.layout moves layers."},
    Word{"blocked, blocked sends", "Bubble: waiting for a rank that a blocking send holds up."},
    Word{"exposed, exposed communication",
         "Communication that the compute stream waits for. What runs beside compute "
         "is hidden and costs only what it slows compute down."},
    Word{"launch gaps", "The GPU waits for the host to launch its next kernel."},
    Word{"contention",
         "What ops take longer than alone: links that transfers share, compute beside "
         "communication."},
    Word{"undisturbed", "The step of equal ranks, without what perturb or contention adds."},
    Word{"span",
         "The longest time that a rank works on the step: what a step takes without the "
         "optimizer's barrier."},
    Word{"critical rank",
         "The pipeline rank that the step's end is waited for through; the account is of it."},
    Word{
        "trust",
        "Where prices come from, as shares of device time: measured (this very shape on this GPU), "
        "interpolated, extrapolated, fitted to runs, roofline (data sheet)."},
    Word{"80 % interval, interval",
         "Where four of five such steps lie, going by published runs like this one and what was "
         "forecast of them. `stepcast explain --costs FILE` says which."},
    Word{"peak memory, reserved memory",
         "What the fullest GPU reserves from the device: tensors and the gaps of the caching "
         "allocator (PyTorch's max_memory_reserved). Objectives and conditions of a search mean "
         "this by peak_memory."},
    Word{"allocated memory, allocated",
         "What the tensors of a GPU take at their peak (PyTorch's max_memory_allocated), less than "
         "what is reserved for them. Under `measured:` peak_memory is this, reserved_memory the "
         "other."},
    Word{"usable",
         "Memory of the GPU without what CUDA, NCCL and the framework hold beside the allocator."},
    Word{"twins",
         "Layouts that differ from this line in VP and split alone and take at most 0.5 % longer."},
    Word{"TP", "Tensor parallelism: ranks that share each layer's matrices. parallel.tp"},
    Word{"PP", "Pipeline parallelism: ranks that hold different layers. parallel.pp"},
    Word{"VP, VPP", "Virtual pipeline: chunks of layers that a pipeline rank holds. parallel.vpp"},
    Word{"CP", "Context parallelism: ranks that share each sequence. parallel.cp"},
    Word{"EP", "Expert parallelism: ranks that share the experts of a layer. parallel.ep"},
    Word{"ETP", "Tensor parallelism inside experts. parallel.etp"},
    Word{"DP", "Data parallelism: replicas of the model that share the batch. parallel.dp"},
    Word{"ZeRO",
         "What replicas do not hold twice: 1 the optimizer's states, 2 gradients too, 3 parameters "
         "too. "
         "parallel.zero"},
    Word{"GBS", "Global batch size: sequences of a step. batch.global"},
    Word{"MBS", "Microbatch size: sequences that go through a stage at once. batch.micro"},
    Word{"ETTR, useful",
         "Effective training time ratio: the share of the wall time of a training that is spent in "
         "steps that count; the rest is checkpoints, restarts and what failures undid."},
    Word{"steps stand",
         "How long no step runs while a checkpoint is written, or copied to the host."},
    Word{"16B1, 8B0",
         "An action of a schedule: stage 16, backward, microbatch 1. F is forward, I and W are the "
         "backward's parts for inputs and weights."},
};

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// "16B1" and its like.
bool is_action(std::string_view word) {
  const size_t kind = word.find_first_of("FBIWfbiw");
  return kind != word.npos && parse_index(word.substr(0, kind)) &&
         parse_index(word.substr(kind + 1));
}

// "fill, pipeline fill" -> "fill" and "pipeline fill".
std::vector<std::string_view> names_of(const Word& word) {
  std::vector<std::string_view> names;
  for (const std::string_view name : split(word.names, ',')) names.push_back(trim(name));
  return names;
}

const Word* find_word(std::string_view topic) {
  if (is_action(topic)) return &kWords.back();
  for (const Word& word : kWords)
    for (const std::string_view name : names_of(word))
      if (same_word(name, topic)) return &word;
  return nullptr;
}

// Words that come close to it.
std::string similar_words(const std::string& topic) {
  std::vector<std::string_view> names;
  for (const Word& word : kWords)
    for (const std::string_view name : names_of(word)) names.push_back(name);
  return did_you_mean(topic, names);
}

std::string explained(const Word& word, int width) {
  return std::string(word.names) + "\n\n" + wrap(std::string(word.explanation), "", width);
}

std::string all_words(int width) {
  constexpr int kNames = 32;
  std::string text;
  for (const Word& word : kWords)
    text += wrap(std::string(word.explanation), pad_right(word.names, kNames), width);
  return text;
}

int help_command(const CLI::App& app, const Arguments& args, const Terminal& terminal) {
  if (const std::optional<std::string> text = help_of_command(app, args.topic)) {
    write_stdout(args.json ? json_document([&](JsonWriter& json) { json.member("help", *text); })
                           : *text);
    return 0;
  }
  std::string topic;
  for (const std::string& word : args.topic) topic += (topic.empty() ? "" : " ") + word;
  if (topic == "codes") {
    write_stdout(args.json ? as_json(error_codes()) : all_codes());
    return 0;
  }
  const Word* word = find_word(topic);
  if (word != nullptr || topic == "words") {
    const std::string text =
        word != nullptr ? explained(*word, terminal.out.width) : all_words(terminal.out.width);
    write_stdout(args.json ? json_document([&](JsonWriter& json) { json.member("help", text); })
                           : text);
    return 0;
  }
  std::string code = topic;
  for (char& c : code) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const ErrorCode* found = find_error_code(code);
  if (found == nullptr) {
    const std::string similar = similar_words(topic);
    usage_error("E007", "there is nothing to say about '" + topic + "'",
                similar.empty()
                    ? "a command such as run, an error code such as E102, a word of an answer such "
                      "as bubble, `stepcast help codes` or `stepcast help words`"
                    : similar + " `stepcast help words` lists all");
  }
  write_stdout(args.json ? as_json({found, 1}) : explained(*found, terminal.out.width));
  return 0;
}

}  // namespace

void add_help(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "help", "Explain a command, an error code or a word of an answer", chosen,
                  [&app](const Arguments& a, const Terminal& terminal) {
                    return help_command(app, a, terminal);
                  });
  sub->add_option(
         "TOPIC", args.topic,
         "a command, an error code (E102), a word of an answer (bubble); codes and words list all")
      ->option_text(" ");
  add_common(sub, args);
}

}  // namespace stepcast::cli
