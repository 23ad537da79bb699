// SPDX-License-Identifier: Apache-2.0
#include "sim/search_result.h"

#include <array>

namespace stepcast {

std::string_view name_of(SearchObjective objective) {
  constexpr std::array<std::string_view, kSearchObjectives> kNames{"step_time", "tokens_per_gpu_s",
                                                                   "peak_memory", "price", "days"};
  return kNames[static_cast<size_t>(objective)];
}

}  // namespace stepcast
