// SPDX-License-Identifier: Apache-2.0
// One importer for each kind of file (import_run.h), and what several of them need.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/import_draft.h"
#include "scenarios/frameworks/import_run.h"

namespace stepcast {

// What an importer reads.
struct ImportSources {
  Problems& problems;
  SourceRef file;
  SourceRef config;  // --model's file; null: none was given
  std::span<const std::pair<std::string, std::string>> set{};  // --set
  std::span<const std::string> given{};                        // ImportRequest::given
  std::vector<std::string>* warnings = nullptr;  // of what is read; null: nobody listens
  std::function<std::optional<std::string>(std::string_view)> files{};  // ImportRequest::files
  std::string folder{};                                                 // ImportRequest::folder

  // Whether the user states `path` himself, and what he states; empty if he does not.
  bool states(std::string_view path) const;
  std::string stated(std::string_view path) const;
  // Whether he states it, a section that it is in, or something in it.
  bool states_any_of(std::string_view path) const;
  // Whether he states which model it is, which --set then writes.
  bool states_a_model() const {
    return states("model") || states("model.preset") || states("model.hf");
  }
};

// What an importer found.
struct ImportCounts {
  int64_t used = 0, ignored = 0;
  std::vector<UnknownArgument> unknown;
  std::string measured;  // in words, of a log
  void add(const ArgumentReader& reader);
};

// Each reads the source `file` into `draft`, and adds the problems that import_run() names.
void import_hf(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
               ImportCounts& counts);
void import_megatron_args(const ImportSources& in, const ImportCluster& cluster,
                          ScenarioDraft& draft, ImportCounts& counts);
void import_megatron_log(const ImportSources& in, const ImportCluster& cluster,
                         ScenarioDraft& draft, ImportCounts& counts);
void import_bridge(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                   ImportCounts& counts);
void import_nemo(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                 ImportCounts& counts);
void import_torchtitan(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                       ImportCounts& counts);
void import_deepspeed(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                      ImportCounts& counts);
void import_accelerate(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                       ImportCounts& counts);
void import_axolotl(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                    ImportCounts& counts);
void import_nanotron(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                     ImportCounts& counts);
void import_neox(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                 ImportCounts& counts);
void import_primus(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                   ImportCounts& counts);

// The scenario of torchtitan's values, whatever file they are in, on so many GPUs; 0: the values
// say how many.  Adds E330 where there are none, E332 for models that are not known and for degrees
// that do not make so many GPUs.
void draft_torchtitan(const Value& file, int64_t gpus, const ImportSources& in,
                      const ImportCluster& cluster, ScenarioDraft& draft, ImportCounts& counts);

// Rows of what DeepSpeed shards and moves to the host, which files of its users have too.
std::span<const CostArgument> deepspeed_sharding();

// An import by a table of rows.
struct Importing {
  const ArgumentReader& a;
  const ImportSources& in;
  const ImportCluster& cluster;
  ScenarioDraft& draft;
  int64_t layers = 0, max_positions = 0;  // of the model, where the importer needs them; 0: unknown
  int64_t gpus = 0;                       // of the job, if it is said beside the file; 0: it is not
};
// Writes the rows of the table of `i.a` in their order, then notes what is not modelled.  Adds E331
// and E332.
void draft_rows(Importing& i);

// Numbers as YAML 1.1 has them, which PyYAML reads, become decimal: 020 and 0x10 are 16.
void read_old_numbers(Value& value);
// Warns of the keys that a file has more than once.
void note_repeated(const ImportSources& in, const std::vector<RepeatedKey>& repeated);
// The file as a mapping.  Adds a problem and returns an empty mapping if it is none.
Value read_mapping(const ImportSources& in, const SourceRef& source, const std::string& what);
// A scalar.
Value word_value(std::string text, const Mark& mark);
// All values below `value` that are no mappings, named by their keys: "parallelism.tp".
std::vector<Argument> flatten(const Value& value);

// The model of a config.json, its keys as they are.  Adds E125, E126 and E130.  Returns nothing if
// there is no such model; max_positions is 0 if it says nothing.
struct ConfigModel {
  int64_t max_positions = 0;
  Value keys;  // the decoder's mapping (open_config)
};
std::optional<ConfigModel> draft_config_model(const Value& config, const ImportSources& in,
                                              ScenarioDraft& draft, ImportCounts& counts);
// The model of a file that does not say it: that of --model's config.json, or the one that is
// stated (-s model=PRESET).  `whose` begins the message where neither is given: "DeepSpeed's file".
// Returns how long its sequences can be, 0: it does not say; nothing if there were problems.
std::optional<int64_t> draft_model_beside(const ImportSources& in, const std::string& whose,
                                          ScenarioDraft& draft, ImportCounts& counts);
// Adds what loading refuses in the model of a config.json, --set applied, but for what is not
// supported yet (E130).  It sees null, which a scenario does not have, and knows the exact places.
// REQUIRES: draft_config_model returned something.
void check_config_model(const ImportSources& in, const ConfigModel& model);

// Writes the cluster as nodes for `gpus` GPUs; `origin` says where that number comes from, `each`
// how many there are of a node, if the file says so.  Where they fill no whole nodes of the preset,
// nodes have fewer GPUs, and NICs in proportion.  Throws InputError E125 for presets that there are
// not.
void draft_cluster(const ImportCluster& cluster, int64_t gpus, const Origin& origin,
                   ScenarioDraft& draft, std::optional<int64_t> each = {});

// Adds E130 for experts with tensor parallelism where sequences are not split, which DeepSpeed
// trains, unless the user states parallel.sp himself.
void refuse_unsplit_experts(const ImportSources& in, const Mark& mark);

// What PyTorch's FSDP does with a sharding strategy, by its name or number.
struct FsdpStrategy {
  bool none = false;    // every rank keeps everything
  bool hybrid = false;  // split within a node, copied to each node
  bool keeps = false;   // parameters stay gathered after the forward pass
};
FsdpStrategy fsdp_strategy(std::string_view word);

// The length of sequences to assume where the file does not say it: that of the model, at most
// 4096.
int64_t usual_sequence(int64_t max_positions);

}  // namespace stepcast
