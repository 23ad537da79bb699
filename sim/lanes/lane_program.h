// SPDX-License-Identifier: Apache-2.0
// The compiled form of a step for lanes: as program.h, with durations that depend on the lane.
//
// A chain of ops on one stream behind a host that launches in order ends at
//     max( t + sum d_i,  h + max over i of ( l_1 + .. + l_i + d_i + .. + d_k ) ).
// On a lane of slowness f each d_i is (ps of compute) * f + (constant, of communication), so the
// chain takes `scaled * f + constant`, and the last term is the upper envelope of k straight lines
// in f: of which those are kept that can be the highest for a slowness that occurs.
//
// A collective that joins lanes is an instruction of its own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/graph/spend.h"
#include "sim/lanes/lanes.h"

namespace stepcast {

// Times are in 1/4096 ps; `scaled` is in ps, since slowness is in 1/4096.
struct LaneLine {
  int64_t constant = 0;
  int64_t scaled = 0;

  int64_t at(int64_t slowness) const { return constant + scaled * slowness; }
};

// A vector of times: of a stream, or of a slot of the pass.
using LanePlace = int32_t;
constexpr LanePlace kNoPlace = -1;
constexpr LanePlace slot_place(int32_t slot) {
  return kStreams + slot;
}

enum class LaneCode : uint8_t {
  chain,  // t = max(t, wait + delay) + duration, no earlier than the host allows
  join,   // the same with the latest lane of each group; duration by class of the group
  wait,   // t = max(t, wait + delay)
};

struct LaneInstruction {
  LaneCode code = LaneCode::chain;
  Stream stream = Stream::compute;
  LanePlace wait = kNoPlace;  // waits for the time in this place ...
  int64_t delay = 0;          // ... plus this delay
  bool follows = false;       // its stream cannot be later than what it waits for
  LanePlace mark_end =
      kNoPlace;  // its end is copied to, if it is needed when the stream has gone on
  LanePlace mark_start = kNoPlace;  // its start is copied to
  LaneLine duration;
  int64_t launch = 0;       // host time of the chain
  uint32_t ops = 1;         // in the chain
  uint32_t leads = 0;       // number of lines of the host's term; 0 for a single op
  uint32_t first_lead = 0;  // the first of them in LanePass::leads
  uint32_t op = 0;          // the first, index into Pass::ops
  WorkId work{};            // of the first op
  Spend spend{};            // of the first op
  Spend wait_spend{};       // what standing still at `wait` is booked as
};

struct LanePass {
  std::vector<LaneInstruction> code;
  std::vector<LaneLine> leads;
  int32_t slots = 0;
  uint32_t device_ops = 0;
  // On the compute stream: ps that slowness applies to, and ps that it does not.
  std::array<int64_t, kSpends> scaled{}, fixed{};
};

struct LaneProgram {
  std::vector<LanePass> passes;   // as OpGraph::passes
  std::vector<int64_t> launches;  // host time of each, in 1/4096 ps
};

// What the compiler has to know of the lanes.
struct LaneTraits {
  Slowness fastest = kNominal, slowest = kNominal;  // of all
  std::array<bool, kAxes> joins{};  // a collective of this axis is an instruction of its own
  bool merge = true;                // chains to one instruction
};

// Throws InputError if one instruction alone is longer than 2^50 ps.  O(ops of the passes, times
// the length of chains where slowness varies).
LaneProgram compile_lanes(const OpGraph& graph, const Prices& prices, const LaneTraits& traits);

constexpr int64_t kLongestLaneTime = int64_t{1} << (50 + kLaneFractionBits);
[[noreturn]] void throw_step_too_long();

}  // namespace stepcast
