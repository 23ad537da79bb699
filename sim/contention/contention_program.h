// SPDX-License-Identifier: Apache-2.0
// The program of the contention engine.  The streams of a role are run by threads, each at its own
// pace, because one may be stopped at a flow whose end is not known yet while another goes on.
// Threads of a role only wait for each other at slots (starts and ends of ops), at events and at
// launches of the host.  A thread runs one stream, or in lockstep, in program order, all streams
// without communication that other ranks can see.  So every pass is compiled for each stream and
// once more for the lockstep thread, and each thread has its list of a role's items.
//
// A chain of ops is one instruction, as in program.h, but its ops are kept: where the host is late
// or compute is slowed, the chain is run op by op.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/graph/spend.h"

namespace stepcast {
constexpr size_t kHost = kStreams;  // where it waits for a rendezvous
constexpr size_t kLockstep = kStreams + 1;
constexpr size_t kPasses = kStreams + 2;   // of the lockstep thread, the passes alone
constexpr size_t kThreads = kStreams + 3;  // lists of items that a role may have

enum class ThreadCode : uint8_t {
  wait,        // t = max(t, slot + ps)
  watch,       // the same, where the slot is another thread's
  compute,     // chain on the compute stream
  fixed,       // chain of ops other than communication, on another stream
  collective,  // a single collective
};

struct ThreadInstruction {
  int64_t ps = 0;                 // sum of the chain; wait: delay
  uint32_t first = 0, count = 0;  // ops of the chain, in PassThreads::ops
  uint32_t work = 0;              // collective
  // Chain of compute: the host is ahead of every op but the first if `late` after the begin of the
  // pass comes before the begin of the chain, and the lane is not faster than nominal.  1/4096 ps.
  int64_t late = INT64_MIN / 2;
  int32_t end_slot = -1;    // takes the end; wait: the slot that is waited for
  int32_t start_slot = -1;  // takes the start (chains of one op, collectives)
  uint8_t stream = 0;
  ThreadCode code = ThreadCode::wait;
};

struct ThreadOp {
  int64_t ps = 0;
  int64_t launched = 0;  // host time from the begin of the pass, up to and including this op's, in
                         // 1/4096 ps
  uint32_t index = 0;    // in Pass::ops
  Spend spend{};
};

struct PassThreads {
  std::array<std::vector<ThreadInstruction>, kThreads> code;  // by thread; none of kHost, kPasses
  std::vector<ThreadOp> ops;
  std::vector<Spend> slot_spend;  // what a wait for the slot is booked as
  uint32_t slots = 0;
  uint32_t device_ops = 0;
  int64_t launched = 0;  // host time of all, in 1/4096 ps
  bool closed = false;   // all of its streams are those of the lockstep thread
};

struct RoleThreads {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::array<std::vector<uint32_t>, kThreads> items;  // that each thread runs, ascending
  // By item.  A segment is the part of a role from one item at which the host waits to the next:
  // within it the host's times follow from the time at its begin.
  std::vector<uint32_t> segment;
  // Host time in the segment, before the item; of a post including its own.  In 1/4096 ps.
  std::vector<int64_t> launched;
  std::vector<uint32_t> record;     // record, wait: which record of the role; kNone: of none
  std::vector<uint32_t> waits;      // by record: waits for it
  std::vector<uint64_t> instances;  // by item: ops of passes before it
  uint32_t segments = 1;
  int64_t device_ops = 0;
};

// A rendezvous as the roles see it.
struct RendezvousPlan {
  std::span<const uint32_t> posts;    // roles, ascending
  std::span<const uint32_t> parties;  // that post or join, ascending
  uint32_t sender = 0;                // whose pattern it has
  uint32_t visits = 0;                // of each lane: posts, joins, and waits of the host
};

struct ContentionProgram {
  std::vector<PassThreads> passes;
  std::vector<RoleThreads> roles;
  std::vector<RendezvousPlan> rendezvous;
  std::vector<uint32_t> met;  // the lists of roles of all rendezvous

  ContentionProgram() = default;
  // `met` stays where it is.
  ContentionProgram(ContentionProgram&&) = default;
  ContentionProgram& operator=(ContentionProgram&&) = default;
};

// REQUIRES: what check_graph(graph) checks.  `lockstep`: streams that the lockstep thread runs.
// `merge`: chains of ops become one instruction; otherwise each op is an instruction.
ContentionProgram compile_threads(const OpGraph& graph, const Prices& prices,
                                  const std::array<bool, kStreams>& lockstep, bool merge);

// -------------------------------------------------------------------------------------------------
// Which lanes and streams the contention engine may run in lockstep, in program order.
//
// The lanes of the innermost digit (a tp group) synchronise at nearly every layer, on links that no
// other rank uses; run in lockstep they cost little more than one lane.  The same holds for streams
// whose communication is priced.  But a lockstep thread stops until the last of its lanes and
// streams may go on, while what any one of them begins on shared links must be known in time.  So
// whatever the thread shows to other ranks after such a stop must depend on the stop anyway; for
// the other lanes of the block, by a collective among them.  Streams with collectives of other axes
// (dp, say) are run lane by lane.
//
// Where a rank shows something after a transfer that the other lanes do not wait for (a pipeline
// stage in the middle, which receives after it has sent), its lanes go through all other items one
// by one, and together through passes only, where a tp group synchronises anyway.

enum class Lockstep : uint8_t {
  none,    // stream by stream and lane by lane
  passes,  // each lane by itself, but passes by whole blocks
  whole,   // whole blocks
};

enum class Scope : uint8_t {
  lane,     // one lane only, priced
  block,    // among the lanes of each block, priced
  outside,  // with lanes of other blocks, or on shared links
};

// Streams of which no pass communicates with other ranks.  `scopes`: by work.
std::array<bool, kStreams> lockstep_streams(const OpGraph& graph, const std::vector<Scope>& scopes);

struct LockstepChoice {
  std::array<bool, kStreams> streams{};
  const std::vector<Scope>& scopes;  // by work, of collectives in passes
  const std::vector<bool>& whole;    // by work: does it join all lanes of the blocks in it?
  uint32_t lanes = 1;                // of a block
};

// By role: how far may the lanes of a block run in lockstep on the streams of `choice`?  O(ops of
// all items).
std::vector<Lockstep> plan_lockstep(const OpGraph& graph, const ContentionProgram& program,
                                    const LockstepChoice& choice);

}  // namespace stepcast
