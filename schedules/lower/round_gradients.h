// SPDX-License-Identifier: Apache-2.0
// ZeroReduce::round: where a rank sums the gradients of a stage until they are reduced and
// scattered (reduces_every_round).
//
// A round is a run of backwards of one stage that no backward of another stage of the rank
// interrupts.  With two stages and the backwards B1 B1 B0 B0 B1 B1 B0 B0, for example, there are
// four rounds of two.  Before a round its stage gets a buffer for all of its gradients, which the
// first backward writes and the others add to; the last one reduces it on Stream::dp, beside the
// next round.  The round after that waits for the reduction and has the memory again, so that at
// most two buffers are alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "model/passes/pass_writer.h"
#include "schedules/lower/rank_parameters.h"
#include "schedules/lower/role_items.h"
#include "schedules/schedule.h"

namespace stepcast {

// Positions in a rank's list of actions: the first and the last gradient of weights of each round.
struct Rounds {
  std::vector<size_t> first, last;  // ascending
};
Rounds rounds_of(const std::vector<Action>& actions);

// The buffers of one rank, while its items are written.
class RoundGradients {
 public:
  // Keeps the references.  `table`: of the passes that belong to no action.
  RoundGradients(const RankParameters& held, GraphBuilder& builder, TensorTableId table,
                 int64_t rank)
      : held_(held), builder_(builder), table_(table), rank_(rank) {}

  // Before the first and after the last backward of a round of `stage`, and after all rounds.
  void begin(RoleItems& items, uint16_t stage);
  void end(RoleItems& items);
  void finish(RoleItems& items);

 private:
  struct Buffer {
    PassId allocate{}, release{};
  };
  struct Alive {
    PassId release{};
    uint32_t reduced = 0;  // event
  };

  const Buffer* buffer_of(uint16_t stage);
  void release_first(RoleItems& items);

  const RankParameters& held_;
  GraphBuilder& builder_;
  const TensorTableId table_;
  const int64_t rank_;
  std::map<uint16_t, Buffer> buffers_;  // by stage
  std::deque<Alive> alive_;             // the oldest first
};

}  // namespace stepcast
