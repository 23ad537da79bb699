// SPDX-License-Identifier: Apache-2.0
// What `where` and constraints of a search may ask, and by which names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepcast {

// In the order of the values that conditions are asked with.
enum class Ask : uint8_t {
  gpus,
  nodes,
  tp,
  cp,
  pp,
  vpp,
  dp,
  ep,
  etp,
  zero,
  micro,
  microbatches,
  layers,
  recompute,
  schedule,
  split,
  // of constraints alone
  step_time,
  tokens_per_gpu_s,
  peak_memory,
  gpu_memory,
  days,
  price,
  fits,
  energy,
};
inline constexpr std::array<std::string_view, 24> kAskNames{
    "gpus",        "nodes",      "tp",       "cp",    "pp",        "vpp",
    "dp",          "ep",         "etp",      "zero",  "micro",     "microbatches",
    "layers",      "recompute",  "schedule", "split", "step_time", "tokens_per_gpu_s",
    "peak_memory", "gpu.memory", "days",     "price", "fits",      "energy"};
// Those of `where`.
inline constexpr size_t kAsksOfLayouts = 16;

}  // namespace stepcast
