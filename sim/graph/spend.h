// SPDX-License-Identifier: Apache-2.0
// The items of the account: what a picosecond of a rank can be spent on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/graph/op_graph.h"
#include "sim/graph/work.h"
#include "sim/units.h"

namespace stepcast {

enum class Spend : uint8_t {
  matmul,
  attention,
  norm,
  elementwise,     // activation, dropout, bias, residual, rotary
  embedding_loss,  // embedding lookup, cross-entropy
  recompute,
  gradient_buffers,  // zeroing, casting, scaling gradients
  optimizer,         // Adam, gradient norm and clipping
  exposed_tp,
  exposed_cp,
  exposed_ep,
  exposed_pp,  // a pipeline transfer on the wire
  exposed_dp,
  exposed_other,  // collectives over first and last stage, over the model group; copies from host
  fill,           // bubble: before the rank's first backward, waiting for other stages to compute
  imbalance,      // bubble: between its first backward and its last forward, the same
  drain,          // bubble: after its last forward, the same
  blocked,        // bubble: waiting for a rank that is itself held up by a blocking send
  straggler,      // bubble: in a collective, for slower ranks of the group
  expert_imbalance,  // bubble: for the rank whose experts got most tokens
  contention,        // ops that take longer than alone: shared links, slowed compute
  launch,            // the device waits for the host
  idle_end,          // this rank is done, other ranks still work
};
constexpr int kSpends = 23;
using SpendTable = std::array<Time, kSpends>;

// "matmul", "exposed_tp", ...: keys of the JSON account.
std::string_view name_of(Spend s);
// "TP exposed": for tables.
std::string_view title_of(Spend s);

constexpr bool is_compute(Spend s) {
  return s < Spend::exposed_tp;
}
constexpr bool is_bubble(Spend s) {
  return s >= Spend::fill && s <= Spend::expert_imbalance;
}
constexpr bool is_exposed(Spend s) {
  return s >= Spend::exposed_tp && s <= Spend::exposed_other;
}

// What the items of this kind add up to: sum_if(table, is_bubble).
Time sum_if(const SpendTable& table, bool (*counts)(Spend));

// Where the time of an op on the compute stream is booked, or of a communication that holds the
// compute stream up.
Spend spend_of(const Work& work, Phase phase);

}  // namespace stepcast
