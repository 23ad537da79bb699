// SPDX-License-Identifier: Apache-2.0
// Items of a role, and the pipeline transfers between its actions.
//
// Two styles of transfer:
//   async      a send leaves when its action ends and nobody waits for it; the receiver waits
//   before the action that
//              needs it.  What Megatron-LM does with overlap_p2p_comm, and
//              torch.distributed.pipelining.
//   blocking   Megatron-LM's non-interleaved schedule: every transfer is a rendezvous that both
//   sides wait for; in the
//              steady phase a send and the opposite receive form one exchange ({send F, receive B},
//              {send B, receive F}), in warm-up and cool-down they follow each other.
#pragma once

#include <cstdint>
#include <vector>

#include "model/layer_ops.h"
#include "schedules/schedule.h"
#include "sim/op_graph.h"

namespace stepcast {

struct JoinOptions {
  bool host_waits = false;
  bool only_sends = false;
};

// Appends to the program order of one role.
class RoleItems {
 public:
  explicit RoleItems(std::vector<Item>& items) : items_(items) {}

  void run(const OpGraph& graph, PassId pass);
  void run(const OpGraph& graph, PassId pass, const Action& action);
  // Runs a pass that lives on `stream` after all compute so far; compute goes on when it has ended.
  void run_beside(const OpGraph& graph, PassId pass, Stream stream);
  void post(RendezvousId id, Stream stream);
  void join(RendezvousId id, Stream stream, JoinOptions options = {});
  uint32_t record(Stream stream);  // returns the event
  void wait(Stream stream, uint32_t event);

 private:
  void start_after_compute(const OpGraph& graph, PassId pass);

  std::vector<Item>& items_;
  uint32_t events_ = 0;
};

// One rank's list, with the places where a send and the next receive are one exchange: at every
// change between F and B outside the first pp - 1 - rank forwards, which are the warm-up.
class Exchanges {
 public:
  // Keeps a reference to `actions`.  O(actions).
  Exchanges(const std::vector<Action>& actions, int64_t rank, int64_t pp);
  const Action& action(size_t i) const { return actions_[i]; }
  bool fused(size_t i) const { return fused_[i]; }  // between actions i and i + 1

 private:
  const std::vector<Action>& actions_;
  std::vector<bool> fused_;
};

class Transfers {
 public:
  // Appends to `items` what happens before and after action `i` of a rank's list.
  void before(RoleItems& items, const Exchanges& exchanges, size_t i) const;
  void after(RoleItems& items, const Exchanges& exchanges, size_t i) const;

 private:
  friend Transfers add_transfers(GraphBuilder& builder, const Schedule& schedule, Bytes payload,
                                 DType dtype, bool blocking);
  // nullptr: no transfer.  `stage` is the one that consumes it.
  const RendezvousId* find(const std::vector<RendezvousId>& ids, int64_t stage,
                           uint32_t microbatch) const;
  const RendezvousId* sent_by(const Action& a) const;
  const RendezvousId* needed_by(const Action& a) const;

  static constexpr RendezvousId kNone{UINT32_MAX};
  std::vector<RendezvousId> forward_, backward_;  // [consuming stage][microbatch]
  int64_t stages_ = 0, microbatches_ = 0;
  bool blocking_ = false;
};

// One rendezvous for each activation and gradient that changes ranks.
Transfers add_transfers(GraphBuilder& builder, const Schedule& schedule, Bytes payload, DType dtype,
                        bool blocking);

}  // namespace stepcast
