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

// What a training framework's host thread does.  Each costs the same wherever it is done, and a
// launch may be made of several.
enum class HostCall : uint8_t {
  kernel,            // one more kernel inside a call
  eager_forward,     // a PyTorch operator called from Python, which records its gradient
  eager_backward,    // its gradient, called by the autograd engine
  product_forward,   // the same of a matrix product: cuBLAS
  product_backward,  // one of the two of its gradient
  view,              // a view, transpose or slice called from Python: no kernel
  node,              // a gradient, called by the autograd engine, that launches no kernel
  function,          // Python around an operator with a gradient of its own (autograd.Function)
  frame,             // a module called from Python, and what it reads of itself
  script,            // a function compiled by torch.jit, beyond its kernels
  fork,              // another random state for a while (Megatron-LM's RNG tracker)
  region,            // a region that is recomputed: Megatron-LM's autograd.Function, both ways
  checkpoint,        // the same of torch.utils.checkpoint
  module,            // a linear layer or attention of Transformer Engine, one way
  collective,        // on a process group
  transfer,          // a send or a receive between pipeline stages
  synchronize,       // the host asks the device whether it is done
  graph,             // a captured CUDA graph, whatever it holds
};
constexpr int kHostCalls = 18;
std::string_view name_of(HostCall c);

// How often the host makes each call before the op can start.  No calls: it costs nothing.
struct Launch {
  std::array<uint16_t, kHostCalls> calls{};

  Launch& add(HostCall c, int times = 1);
  auto operator<=>(const Launch&) const = default;
};

// "module + 2 kernel", or "nothing".
std::string describe(const Launch& launch);

}  // namespace stepcast
