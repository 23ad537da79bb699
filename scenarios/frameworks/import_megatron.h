// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's arguments -> a scenario.  Megatron-Bridge's configuration has the same names.
//
// Names and defaults: megatron/training/arguments.py and megatron/core/transformer/
// transformer_config.py of https://github.com/NVIDIA/Megatron-LM.
#pragma once

#include <span>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/import_draft.h"

namespace stepcast {

// Arguments that change the cost, and launcher arguments that say how many GPUs there are.
std::span<const CostArgument> megatron_arguments();

// The cluster that the job ran on: a file of arguments does not say.
struct ImportCluster {
  std::string preset = "dgx-h100";
  std::string gpu;      // another one than the preset's
  bool assumed = true;  // the preset was not chosen by the user
};

// Adds E331 for values that cannot be, E332 for arguments that are missing or exclude each other.
void draft_megatron(const ArgumentReader& arguments, const ImportCluster& cluster,
                    ScenarioDraft& draft);

// Parts of it.
// The sizes of the job, as far as several parts need them.
struct MegatronSizes {
  int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1, dp = 1;
  int64_t layers = 0;
  int64_t vpp = 1;
};
void draft_megatron_model(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
void draft_megatron_layout(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
void draft_megatron_run(const ArgumentReader& a, const MegatronSizes& sizes, ScenarioDraft& draft);

// A variable of the environment, if it is one that changes how collectives or kernels run; sets
// what it switches.
void draft_environment(const std::string& name, const std::string& value, ScenarioDraft& draft);

// `gpus` as nodes of the cluster.
void draft_cluster(const ImportCluster& cluster, int64_t gpus, const std::string& why,
                   ScenarioDraft& draft);

}  // namespace stepcast
