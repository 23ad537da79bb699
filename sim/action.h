// SPDX-License-Identifier: Apache-2.0
// One entry of a pipeline schedule, in the notation of torch.distributed.pipelining: `5F12` is the
// forward of stage 5 for microbatch 12.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace stepcast {

enum class ActionKind : uint8_t {
  forward,          // F
  backward,         // B: input and weight gradients together
  backward_input,   // I: gradient of the input only; what the previous stage waits for
  backward_weight,  // W: gradients of the weights, any time after I
};

struct Action {
  ActionKind kind = ActionKind::forward;
  uint16_t stage = 0;       // global stage, 0 .. pp*vpp-1
  uint32_t microbatch = 0;  // from 0
  auto operator<=>(const Action&) const = default;
};

char letter_of(ActionKind k);            // 'F', 'B', 'I', 'W'
std::string to_string(const Action& a);  // "5F12"

}  // namespace stepcast
