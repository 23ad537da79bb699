// SPDX-License-Identifier: Apache-2.0
// The parts of a scenario that Megatron's arguments are made into, one after the other.
#pragma once

#include <cstdint>

#include "scenarios/frameworks/import_arguments.h"
#include "scenarios/frameworks/import_draft.h"

namespace stepcast {

// The sizes of the job, as far as several parts need them: each part fills in what it finds out.
struct MegatronSizes {
  int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1, dp = 1;
  int64_t layers = 0;
  int64_t vpp = 1;
};

// Each is a file of that name.  All add E331 and E332.
void draft_megatron_model(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
void draft_megatron_layout(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft);
void draft_megatron_run(const ArgumentReader& a, const MegatronSizes& sizes, ScenarioDraft& draft);

}  // namespace stepcast
