// SPDX-License-Identifier: Apache-2.0
// The cluster that an imported job ran on, of which its files say only the number of GPUs.
#pragma once

#include <cstdint>
#include <string>

#include "scenarios/frameworks/import_draft.h"

namespace stepcast {

struct ImportCluster {
  std::string preset = "dgx-h100";
  std::string gpu;      // another one than the preset's; may be empty
  bool assumed = true;  // the preset was not chosen by the user
};

// `gpus` as nodes of the cluster; `why`: where their number is from.  Throws InputError E125 for
// presets that there are not.
void draft_cluster(const ImportCluster& cluster, int64_t gpus, const std::string& why,
                   ScenarioDraft& draft);

}  // namespace stepcast
