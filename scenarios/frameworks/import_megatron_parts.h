// SPDX-License-Identifier: Apache-2.0
// The parts that draft_megatron (import_megatron.h) puts a scenario together of, a file each.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/import_draft.h"

namespace stepcast {

// The sizes of the job that several parts need.  Each part fills in what it finds out.
struct MegatronSizes {
  int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1, dp = 1;
  int64_t layers = 0;
  std::vector<int64_t> stages{};  // layers of each, where the model's pattern says it
  int64_t vpp = 1;
};

// The argument that says that others are of Megatron-LM v2, of 2021 and early 2022; empty: none.
std::string_view sign_of_version_2(const ArgumentReader& a);

// Whether an encoder and a decoder are trained: T5.
bool has_encoder_and_decoder(const ArgumentReader& a);

// `model`; REQUIRES: tp.
void draft_megatron_model(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
// `parallel`, `batch` and `schedule`.
void draft_megatron_layout(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
// `precision`, `recompute`, `overlap`, `optimizer`, `offload`, `moe`, `kernels` and `job`.
void draft_megatron_run(const ArgumentReader& a, const MegatronSizes& sizes, ScenarioDraft& draft);

}  // namespace stepcast
