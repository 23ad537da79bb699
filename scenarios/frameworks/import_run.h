// SPDX-License-Identifier: Apache-2.0
// Files that other tools run with -> a scenario.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/frameworks/import_megatron.h"

namespace stepcast {

// hf, megatron-args, megatron-log, bridge, torchtitan, deepspeed, nanotron.
std::span<const std::string_view> import_kinds();

struct ImportRequest {
  std::string kind;
  std::string file, text;              // as it is shown, and what is in it
  std::string model_file, model_text;  // a config.json, for files that do not say the model
  ImportCluster cluster;
  std::vector<std::pair<std::string, std::string>> set;  // dotted path, YAML on one line
};

struct UnknownPlace {
  std::string name;  // as the file has it
  int line = 0, column = 0;
};

struct ImportedRun {
  std::string scenario;  // YAML; comments say which argument each value came from
  int64_t used = 0;      // arguments that change the cost
  int64_t ignored = 0;   // known to have no effect on it
  std::vector<UnknownPlace> unknown;
  std::vector<std::string> notes;  // what is assumed, or cannot be modelled
  std::string measured;            // "480 iterations (median 8.41 s, ...)", or empty
};

// Throws InputError: E100-E106 for files that are no YAML or JSON, E125 for an unknown model_type,
// E330 for a file of another kind, E331 and E332 for arguments that cannot be.
// REQUIRES: kind is one of import_kinds().
ImportedRun import_run(const ImportRequest& request);

// Of each kind: reads the source `file` into `draft`.  `config` is the source of --model's file.
struct ImportCounts {
  int64_t used = 0, ignored = 0;
  std::vector<UnknownArgument> unknown;
  std::string measured;
  void add(const ArgumentReader& reader);
};
struct ImportSources {
  Problems& problems;
  uint32_t file = 0;
  const uint32_t* config = nullptr;  // nullptr: none was given
  std::span<const std::pair<std::string, std::string>> set{};

  // Whether the user states `path` himself.
  bool states(std::string_view path) const;
};
void import_hf(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
               ImportCounts& counts);
void import_megatron_args(const ImportSources& in, const ImportCluster& cluster,
                          ScenarioDraft& draft, ImportCounts& counts);
void import_megatron_log(const ImportSources& in, const ImportCluster& cluster,
                         ScenarioDraft& draft, ImportCounts& counts);
void import_bridge(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                   ImportCounts& counts);
void import_torchtitan(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                       ImportCounts& counts);
void import_deepspeed(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                      ImportCounts& counts);
void import_nanotron(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                     ImportCounts& counts);

// The file as a mapping; a problem and an empty mapping if it is none.
Value read_mapping(const ImportSources& in, uint32_t source, const std::string& what);
// Every value below `value` that is no mapping, named by its keys: "parallelism.tp".
std::vector<Argument> flatten(const Value& value);

// The model of a config.json, its keys as they are.  Adds E125 and E126.  Returns nothing if there
// is no such model; max_positions is 0 if it says nothing.
struct ConfigModel {
  int64_t max_positions = 0;
};
std::optional<ConfigModel> draft_config_model(const Value& config, Problems& problems,
                                              ScenarioDraft& draft, ImportCounts& counts);

}  // namespace stepcast
