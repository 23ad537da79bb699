// SPDX-License-Identifier: Apache-2.0
// Items of a role, written one after the other, and how the steps of a rank's program
// (transfers/transfers.h) become items.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/transfers/transfers.h"
#include "sim/graph/op_graph.h"

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
  // `second`: of a pass that runs two actions at once.  Compute goes on when all that the pass
  // communicates with other parts of its stage has ended, since it is handed on.
  void run(const OpGraph& graph, PassId pass, const Action& action, const Action* second = nullptr);
  // Runs a pass that lives on `stream` after all compute so far; compute goes on when it has ended.
  void run_beside(const OpGraph& graph, PassId pass, Stream stream);
  void post(RendezvousId id, Stream stream);
  void join(RendezvousId id, Stream stream, JoinOptions options = {});
  uint32_t record(Stream stream);  // returns the event
  void wait(Stream stream, uint32_t event);
  // The host waits until the compute stream is done.
  void sync();

  // An exchange, issue or wait, on the compute stream.  The rendezvous of message n is
  // first_message + n.  REQUIRES: not a step that runs actions.
  void transfer(const RankProgram& program, const Step& step, const Messages& messages,
                RendezvousId first_message);

 private:
  void start_after_compute(const OpGraph& graph, PassId pass);
  using LooseEnds = std::array<bool, 3>;  // of the tp, cp and ep stream
  const LooseEnds& loose_ends(const OpGraph& graph, PassId pass);

  std::vector<Item>& items_;
  std::vector<std::optional<LooseEnds>> loose_ends_;  // by pass
  uint32_t events_ = 0;
};

// Posts that a message needs before it moves: of the sender, and of the receiver unless async.
uint16_t parties_of_message(P2pStyle style);

}  // namespace stepcast
