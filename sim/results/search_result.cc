// SPDX-License-Identifier: Apache-2.0
#include "sim/results/search_result.h"

#include <array>

namespace stepcast {

std::string_view name_of(SearchObjective objective) {
  constexpr std::array<std::string_view, kSearchObjectives> kNames{
      "step_time", "tokens_per_gpu_s", "peak_memory", "price", "days", "energy"};
  return kNames[static_cast<size_t>(objective)];
}

bool dominates(const std::vector<double>& a, const std::vector<double>& b) {
  bool better = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

}  // namespace stepcast
