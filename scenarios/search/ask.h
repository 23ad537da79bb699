// SPDX-License-Identifier: Apache-2.0
// What `where` and constraints of a search may ask, and by which names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepcast {

// An expression knows what it asks by this number (expression.h).
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
inline constexpr size_t kAsks = 24;
// Those of `where`, which come first.
inline constexpr size_t kAsksOfLayouts = 16;
static_assert(static_cast<size_t>(Ask::energy) + 1 == kAsks);
static_assert(static_cast<size_t>(Ask::split) + 1 == kAsksOfLayouts);

constexpr std::string_view name_of(Ask ask) {
  switch (ask) {
    case Ask::gpus: return "gpus";
    case Ask::nodes: return "nodes";
    case Ask::tp: return "tp";
    case Ask::cp: return "cp";
    case Ask::pp: return "pp";
    case Ask::vpp: return "vpp";
    case Ask::dp: return "dp";
    case Ask::ep: return "ep";
    case Ask::etp: return "etp";
    case Ask::zero: return "zero";
    case Ask::micro: return "micro";
    case Ask::microbatches: return "microbatches";
    case Ask::layers: return "layers";
    case Ask::recompute: return "recompute";
    case Ask::schedule: return "schedule";
    case Ask::split: return "split";
    case Ask::step_time: return "step_time";
    case Ask::tokens_per_gpu_s: return "tokens_per_gpu_s";
    case Ask::peak_memory: return "peak_memory";
    case Ask::gpu_memory: return "gpu.memory";
    case Ask::days: return "days";
    case Ask::price: return "price";
    case Ask::fits: return "fits";
    case Ask::energy: return "energy";
  }
  return "";
}

}  // namespace stepcast
