// SPDX-License-Identifier: Apache-2.0
// What the contention engine runs: for each pass one list of instructions a stream, for each role
// the items of each stream.  Streams are walked each by its own pace, since one may stand at a flow
// whose end nobody knows yet while another goes on; between them there are only marks, events and
// the host's launches.
//
// Chains of ops are one instruction, as in program.h, but keep their ops: where the host is late,
// or compute is slowed, a chain is taken op by op.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/spend.h"

namespace stepcast {

constexpr size_t kThreads = kStreams + 1;  // the last is the host, where it waits for a rendezvous

enum class ThreadCode : uint8_t {
  wait,     // t = max(t, slot + ps)
  compute,  // chain on the compute stream
  fixed,    // chain of what is no communication on another stream
  talk,     // one collective
};

struct ThreadInstruction {
  int64_t ps = 0;                 // sum of the chain; wait: delay
  uint32_t first = 0, count = 0;  // ops of the chain, in PassThreads::ops
  uint32_t work = 0;              // talk
  int32_t end_slot = -1;          // takes the end; wait: the slot that is waited for
  int32_t start_slot = -1;        // takes the start (chains of one op, talks)
  ThreadCode code = ThreadCode::wait;
};

struct ThreadOp {
  int64_t ps = 0;
  uint32_t launches = 0;  // of the pass, up to and including this op's
  Spend spend{};
};

struct PassThreads {
  std::array<std::vector<ThreadInstruction>, kStreams> code;
  std::vector<ThreadOp> ops;
  std::vector<Spend> slot_spend;  // what a wait for the slot is booked as
  uint32_t slots = 0;
  uint32_t streams = 0;  // with code
  uint32_t launches = 0;
};

struct RoleThreads {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::array<std::vector<uint32_t>, kThreads> items;  // that each thread deals with, ascending
  std::vector<size_t> threads;                        // that have items
  // By item.  The host's time is known from one item on which it waited to the next: a segment.
  std::vector<uint32_t> segment;
  std::vector<uint32_t> launches;  // in the segment, before the item
  std::vector<uint32_t> record;    // record, wait: which record of the role; kNone: of none
  std::vector<uint32_t> waits;     // by record: waits for it
  uint32_t segments = 1;
  int64_t device_ops = 0;
};

// A rendezvous as the roles see it.
struct MeetingPlan {
  std::vector<uint32_t> posts;    // roles, ascending
  std::vector<uint32_t> parties;  // that post or join, ascending
  uint32_t sender = 0;            // whose pattern it has
  uint32_t visits = 0;            // of each lane: posts, joins, and waits of the host
};

struct ContentionProgram {
  std::vector<PassThreads> passes;
  std::vector<RoleThreads> roles;
  std::vector<MeetingPlan> meetings;
};

// REQUIRES: check_graph(graph) passes.  `merge`: chains, else one instruction an op.
ContentionProgram compile_threads(const OpGraph& graph, const Prices& prices, bool merge);

}  // namespace stepcast
