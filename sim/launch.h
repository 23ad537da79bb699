// SPDX-License-Identifier: Apache-2.0
// What a rank's host does to get an op going, in the terms its cost depends on: the key of a launch
// time (price.h), as Work is that of a duration.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

// Calls that a training framework's host thread makes.  Each costs the same wherever it is made.
enum class HostCall : uint8_t {
  kernel,             // one more kernel inside a call
  eager_forward,      // a PyTorch operator called from Python, which records its gradient
  eager_backward,     // ... its gradient, called by the autograd engine
  function_forward,   // an operator with its own gradient, written in Python or as an extension
  function_backward,  // ... its gradient
  module_forward,     // a linear layer of Transformer Engine, norm included
  module_backward,
  collective,   // a collective on a process group
  transfer,     // a send or a receive between pipeline stages
  tensor_list,  // one kernel over a list of tensors: optimizer, norms
  microbatch,   // the schedule's Python and the batch, once a microbatch
  synchronize,  // the host waits until the device is done, and is told so
  graph,        // a captured CUDA graph, whatever it holds
};
constexpr int kHostCalls = 13;
std::string_view name_of(HostCall c);

// How often the host makes each call before the op can start.  No calls: it costs nothing.
struct Launch {
  std::array<uint16_t, kHostCalls> calls{};

  Launch& add(HostCall c, int times = 1);
  auto operator<=>(const Launch&) const = default;
};

// "module_forward + 2 kernel", or "nothing".
std::string describe(const Launch& launch);

}  // namespace stepcast
