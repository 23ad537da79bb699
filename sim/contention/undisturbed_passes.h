// SPDX-License-Identifier: Apache-2.0
// Internal to the contention engine: passes that nothing of other tp groups can meet while compute
// and communication slow each other.
//
// Where a rank waits for its transfers between passes, no transfer is on while it runs one; all
// that runs beside its compute are the collectives of its tp group.  The ranks of the group come
// to the pass at times of their own and first meet in its first collective:
//
//     rank 0   c0  c1  |               c3 ..        c0, c1  compute before it
//     rank 1       c0  c1  |           c3 ..        x2      the first collective
//     both                  x2 x2 x2                c3      waits for x2
//
// If compute waits for it, then at its begin all of them stand still, and what follows is the same
// for all equal ranks: it takes what it takes one rank by itself from that moment on
// (`after_meeting`), unless some op waits for its launch.  The same holds if compute goes on beside
// it and all have come at one time, as from a collective at the end of the pass before.  Before it,
// compute is beside nothing.  So of such a pass the engine looks at the compute before the first
// collective and at its begin, and the rest is a row of numbers, worked out once by the engine of
// equal ranks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/contention/contention_program.h"
#include "sim/contention/equal_ranks.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast::contention {

// The first collective of a pass, where the ranks of a tp group meet.
struct PassMeeting {
  bool apart = false;        // of a pass of which the ranks may be equal from the meeting on
  uint32_t op = 0;           // in Pass::ops; their number: the pass is compute alone ...
  size_t stream = kStreams;  // ... and this is no stream
  // Host time from the begin of the pass up to it, without its own launch, and that launch; both in
  // 1/4096 ps.
  int64_t launched = 0, launch = 0;
  std::array<bool, kStreams> uses{};  // streams with ops from it on
  bool compute_waits = true;          // for its end; if not, the ranks must come at one time
  bool on_two_streams = true;         // nothing but compute and its own stream
  // Before this op compute and the collectives of the group take turns: each waits for the other
  // and nothing else is on, so that all ranks stand alike when one of those collectives begins.
  uint32_t aligned = 0;
};

class UndisturbedPasses {
 public:
  // `scopes`: by work, of collectives in passes; `block` are those of the tp group.  REQUIRES:
  // graph and prices outlive this.  O(ops of all passes and items of all roles).
  UndisturbedPasses(const OpGraph& graph, const Prices& prices, std::vector<Scope> scopes,
                    int64_t slow_compute, int64_t slow_communication, bool merge);

  // Nothing of other groups can be on while the ranks of the role run the item, a pass, and nothing
  // of it after the next pass has begun.
  bool is_undisturbed(uint32_t role, uint32_t item) const { return undisturbed_[role][item]; }
  const PassMeeting& meeting(PassId pass) const { return meetings_[static_cast<size_t>(pass)]; }

  // What follows from the begin of the meeting, for ranks as priced whose hosts come to the pass
  // between `first_host` and `host`, the last of them, as from that begin, in 1/4096 ps; null where
  // it may matter how they come.  `over`: of LonePassBegin; -1 if compute waits for the meeting.
  // REQUIRES: meeting(pass).apart, and it is a collective; it has been launched by its begin.
  // The pointer holds for ever.
  const LonePassEnd* after_meeting(PassId pass, int64_t first_host, int64_t host, int64_t over);

 private:
  struct Rest {
    int64_t over = -1;
    std::optional<LonePassEnd> end;  // where no launch matters
    int64_t enough = INT64_MIN;      // a host that comes no later than this is early enough
    std::deque<std::pair<int64_t, LonePassEnd>> late;  // hosts that are not
    int tries = 0;
  };

  PassMeeting meeting_of(const Pass& pass) const;
  uint32_t aligned_ops(const Pass& pass, uint32_t meeting) const;
  bool is_loose(const Pass& pass, size_t stream) const;
  void mark(uint32_t role);
  void prepare_rest(PassId pass);

  const OpGraph& graph_;
  const Prices& prices_;
  std::vector<Scope> scopes_;
  int64_t slow_compute_, slow_communication_;
  bool merge_;
  std::vector<int64_t> launches_;               // in 1/4096 ps
  std::vector<PassMeeting> meetings_;           // by pass
  std::vector<std::vector<bool>> undisturbed_;  // by role and item
  std::vector<std::deque<Rest>> rests_;         // by pass, of each `over`
  OpGraph alone_;                               // of the rest that is run by itself
};

}  // namespace stepcast::contention
