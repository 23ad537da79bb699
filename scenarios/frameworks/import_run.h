// SPDX-License-Identifier: Apache-2.0
// A file that another tool runs with, or its log -> a scenario.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {

// hf, megatron-args, megatron-log, bridge, nemo, torchtitan, deepspeed, accelerate, axolotl,
// nanotron, gpt-neox, primus.
std::span<const std::string_view> import_kinds();

// The kind that reads a text, if it is a log with measured steps: megatron-log, bridge (of NeMo
// too), torchtitan; else empty.
std::string_view kind_of_log(std::string_view text);

// The kind that reads a text, by what is in it; empty for scenarios and for what no importer reads.
std::string_view kind_of_file(const std::string& text);

// Whether a script, or a function in it, has $1, $@ or the like: one without takes no words.
bool reads_words(std::string_view script);

// What a log measured, whatever it says of the run.
struct LogMeasurement {
  std::vector<std::pair<std::string, std::string>> set;  // keys of the section `measured`
  std::string summary;       // "480 of 500 iterations (median 8.41 s, IQR 0.02)"
  int64_t global_batch = 0;  // of those iterations; 0: it is not printed
};
// Throws InputError: E330 for a text without steps that say what they took, E331 for numbers that
// cannot be read.
LogMeasurement measured_in_log(const std::string& file, const std::string& text);

// Whether --set states cluster and batch.  A config.json says nothing of the run: it is taken for a
// scenario where this does.
bool says_the_run(std::span<const std::pair<std::string, std::string>> set);

// The cluster that an imported job ran on, of which its files say only the number of GPUs.
struct ImportCluster {
  std::string preset = "dgx-h100";
  std::string gpu;      // another one than the preset's; may be empty
  bool assumed = true;  // the preset was not chosen by the user
};

struct ImportRequest {
  std::string kind;                    // one of import_kinds(), or "auto": kind_of_file() says it
  std::string file, text;              // as it is shown, and what is in it
  std::string model_file, model_text;  // a config.json, for files that do not say the model
  std::string folder{};                // in which the file lies, if it is known: its name alone
  std::vector<std::string> given{};    // of a script: "NAME=VALUE", or the next of $1, $2, ...
  // The text of a file that a script names, by its path from the script's folder; nothing if there
  // is none.  Empty: no other file is read.
  std::function<std::optional<std::string>(std::string_view path)> files{};
  ImportCluster cluster;
  std::vector<std::pair<std::string, std::string>> set;  // dotted path, YAML on one line
};

struct UnknownPlace {
  std::string name;  // as the file has it
  std::string file;  // in which it is: ImportRequest::file, or one that this names
  int line = 0, column = 0;
  std::string near{};  // the known one it may be meant for, or empty
};

struct ImportedRun {
  std::string kind;      // of import_kinds()
  std::string scenario;  // YAML; comments say which argument each value came from
  int64_t used = 0;      // arguments that change the cost
  int64_t ignored = 0;   // known to have no effect on it
  std::vector<UnknownPlace> unknown;
  std::vector<std::string> notes;    // what is assumed, or cannot be modelled
  int64_t parameters = 0, gpus = 0;  // of the scenario; 0 if it cannot be simulated yet
  std::string unsupported;           // why it cannot, or empty
  std::string measured;              // "480 iterations (median 8.41 s, ...)", or empty
};

// The scenario that is returned loads, unless it says what is not supported yet (E130) or names
// files that are not where it will lie.  Throws InputError: E100-E106 for files that are no YAML or
// JSON, E125 for an unknown model_type, E330 for a file of another kind, E331 and E332 for
// arguments that cannot be; and everything that loading would refuse, with its own code, at the
// place in the file that the value comes from. REQUIRES: kind is one of
// import_kinds(), or "auto".
ImportedRun import_run(const ImportRequest& request);

}  // namespace stepcast
