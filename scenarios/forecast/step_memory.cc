// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/step_memory.h"

namespace stepcast {

StepMemory step_memory(const OpGraph& graph, const std::vector<RoleMemory>& memory, Bytes room) {
  constexpr int64_t kTebibyte = int64_t{1} << 40;
  StepMemory step;
  for (uint32_t r = 0; r < memory.size(); ++r)
    if (memory[r].peak > memory[step.peak_role].peak) step.peak_role = r;
  step.peak = memory[step.peak_role].peak;
  step.reserved_role = step.peak_role;
  // Another role may reserve more than the one that allocates most, if it comes close.
  for (uint32_t r = 0; r < memory.size(); ++r) {
    if (memory[r].peak.value < step.peak.value / 100 * 98) continue;
    // Far beyond any GPU the allocator's rounding is of no interest.
    const Bytes reserved = step.peak.value > kTebibyte ? step.peak : trace_reserved(graph, r, room);
    if (reserved > step.reserved) {
      step.reserved = reserved;
      step.reserved_role = r;
    }
  }
  return step;
}

}  // namespace stepcast
