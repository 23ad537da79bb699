// SPDX-License-Identifier: Apache-2.0
// The parts that draft_megatron (import.h) puts a scenario together of, a file each.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/import_draft.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/program.h"

namespace stepcast {

// What several parts need to know of the job.  Each part fills in what it finds out.
struct MegatronSizes {
  const ImportSources& in;
  CalledProgram program{};
  bool encodes_and_decodes = false;  // an encoder and a decoder are trained: T5
  bool sees_images = false;          // --seq-length is that of an encoder of images
  int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1, dp = 1;
  int64_t layers = 0;
  int64_t encoder_layers = 0;     // of `layers`, where there is a decoder too
  std::vector<int64_t> stages{};  // layers of each, where the model's pattern says it
  int64_t vpp = 1;
};

// The argument that says that others are of Megatron-LM v2, of 2021 and early 2022; empty: none.
std::string_view sign_of_version_2(const ArgumentReader& a);

// Whether --experimental-attention-variant means gated delta nets beside attention.
bool is_gated_delta_net(std::string_view variant);

// Adds E336 where no model is trained, and E130 where something is that is not simulated.  Returns
// whether there was any.
bool refuse_megatron_training(const ArgumentReader& a, const MegatronSizes& sizes);
// `model`; REQUIRES: tp.
void draft_megatron_model(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
// `parallel`, `batch` and `schedule`.
void draft_megatron_layout(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
// `precision`, `recompute`, `overlap`, `optimizer`, `offload`, `moe`, `kernels` and `job`.
void draft_megatron_run(const ArgumentReader& a, const MegatronSizes& sizes, ScenarioDraft& draft);

}  // namespace stepcast
