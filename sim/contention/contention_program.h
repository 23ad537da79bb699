// SPDX-License-Identifier: Apache-2.0
// What the contention engine runs.  A role's streams are walked by threads, each by its own pace,
// since one may stand at a flow whose end is not known yet while another goes on; between them
// there are only marks, events and the host's launches.  A thread has one stream, or all streams
// without communication that other ranks see: those are walked together, in program order (a
// strand). So each pass has code for each stream and for the strand, and a role has items for each.
//
// Chains of ops are one instruction, as in program.h, but keep their ops: where the host is late,
// or compute is slowed, a chain is taken op by op.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast {
constexpr size_t kHost = kStreams;  // where it waits for a rendezvous
constexpr size_t kStrand = kStreams + 1;
constexpr size_t kThreads = kStreams + 2;  // that a role may have

enum class ThreadCode : uint8_t {
  wait,        // t = max(t, slot + ps)
  watch,       // the same, where the slot is another thread's
  compute,     // chain on the compute stream
  fixed,       // chain of what is no communication on another stream
  collective,  // one
};

struct ThreadInstruction {
  int64_t ps = 0;                 // sum of the chain; wait: delay
  uint32_t first = 0, count = 0;  // ops of the chain, in PassThreads::ops
  uint32_t work = 0;              // collective
  int32_t end_slot = -1;          // takes the end; wait: the slot that is waited for
  int32_t start_slot = -1;        // takes the start (chains of one op, collectives)
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
  std::array<std::vector<ThreadInstruction>, kThreads> code;  // by thread; none of the host
  std::vector<ThreadOp> ops;
  std::vector<Spend> slot_spend;  // what a wait for the slot is booked as
  uint32_t slots = 0;
  uint32_t device_ops = 0;
  int64_t launched = 0;  // host time of all, in 1/4096 ps
  bool closed = false;   // all of it is the strand's
};

struct RoleThreads {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::array<std::vector<uint32_t>, kThreads> items;  // that each thread deals with, ascending
  // By item.  The host's time is known from one item on which it waited to the next: a segment.
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
  std::vector<uint32_t> posts;    // roles, ascending
  std::vector<uint32_t> parties;  // that post or join, ascending
  uint32_t sender = 0;            // whose pattern it has
  uint32_t visits = 0;            // of each lane: posts, joins, and waits of the host
};

struct ContentionProgram {
  std::vector<PassThreads> passes;
  std::vector<RoleThreads> roles;
  std::vector<RendezvousPlan> rendezvous;
};

// REQUIRES: check_graph(graph) passes.  `strand`: streams that may be walked together.  `merge`:
// chains, else one instruction an op.
ContentionProgram compile_threads(const OpGraph& graph, const Prices& prices,
                                  const std::array<bool, kStreams>& strand, bool merge);

// -------------------------------------------------------------------------------------------------
// What the contention engine may walk together, in program order: lanes and streams.
//
// The lanes of the innermost digit (a tp group) synchronise at nearly every layer, on links that no
// other rank uses; walked together they cost little more than one.  So do streams whose
// communication is priced.  But such a strand stands until the last of its lanes and streams may go
// on, and what a lane begins on shared links must be known in time.  So between such a stop and the
// next thing the strand shows to other ranks there has to be something that waits for it anyway:
// for the other lanes a collective of their own.  Streams with other collectives (dp) are walked
// lane by lane.

enum class Scope : uint8_t {
  lane,     // one lane only, priced
  block,    // among the lanes of each block, priced
  outside,  // with lanes of other blocks, or on shared links
};

// Streams of which no pass communicates with other ranks.  `scopes`: by work.
std::array<bool, kStreams> strand_streams(const OpGraph& graph, const std::vector<Scope>& scopes);

struct StrandChoice {
  std::array<bool, kStreams> streams{};
  const std::vector<Scope>& scopes;  // by work, of collectives in passes
  const std::vector<bool>& whole;    // by work: does it join all lanes of the blocks in it?
  uint32_t lanes = 1;                // of a block
};

// By role: may its strand be walked together, for all lanes of a block?  O(ops of all items).
std::vector<bool> plan_strands(const OpGraph& graph, const ContentionProgram& program,
                               const StrandChoice& choice);

}  // namespace stepcast
