// SPDX-License-Identifier: Apache-2.0
// The program of a pipeline rank: its actions, and between them the transfers as a framework makes
// them (P2pStyle).
//
// A step is one of
//   run        an action, or the two of an overlapped pair
//   exchange   transfers issued together; the rank goes on when all of them have ended
//   issue      transfers issued without waiting
//   wait       for transfers to end
// and its text is `0F1`, `{0SEND_F1;0RECV_B0}`, `<0SEND_F1>`, `?0SEND_F1`.  A transfer is named
// from the side of the stage it belongs to: 3SEND_F5 is the output of stage 3 for microbatch 5 on
// its way, 4RECV_F5 the same message where it arrives; 4SEND_B5 and 3RECV_B5 the gradient that
// comes back.
//
// A message begins to move when its send and its receive have both been issued; P2pStyle::async
// issues sends only, and a message moves as soon as it is sent.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schedules/schedule.h"
#include "sim/diagnostic.h"
#include "sim/graph/action.h"

namespace stepcast {

// One message between ranks, seen by one of them.
struct Transfer {
  bool sends = false;       // else receives
  bool forward = true;      // an activation; else a gradient
  uint16_t stage = 0;       // that sends or receives it
  uint32_t microbatch = 0;  // as Action::microbatch
  bool operator==(const Transfer&) const = default;
};

// What `action` needs from another rank, and what it has for one.  R, O, L and W have neither.
std::optional<Transfer> received_by(const Schedule& schedule, const Action& action);
std::optional<Transfer> sent_by(const Schedule& schedule, const Action& action);

struct Step {
  enum class Kind : uint8_t { run, exchange, issue, wait } kind = Kind::run;
  uint16_t count = 1;  // actions (1, or 2 of a pair), or transfers
  uint32_t first = 0;  // position in the rank's list, or in RankProgram::transfers
};

struct RankProgram {
  std::vector<Step> steps;
  std::vector<Transfer> transfers;
};

// One program a rank, which can be run to the end: every receive meets its send, an input has
// arrived before its action, and no ranks wait for each other in a cycle.  Throws InputError with a
// sentence for the user if the rule of the style has no meaning for this schedule or deadlocks with
// it; the sentence names the styles that do work.
// REQUIRES: check_schedule(schedule) is empty.  O(actions).
std::vector<RankProgram> with_transfers(const Schedule& schedule, P2pStyle style);

// The programs of a schedule in a style, with what they are of: made once for all who want them.
struct MadeTransfers {
  Schedule schedule;
  P2pStyle style = P2pStyle::async;
  std::vector<RankProgram> ranks;
};

// The same as with_transfers(), or why there are none, without the styles that do work.
std::variant<std::shared_ptr<const MadeTransfers>, Diagnostic> make_transfers(
    const Schedule& schedule, P2pStyle style);

// Nothing, or why with_transfers() has no programs, for searches over styles and schedules; async
// always has.  REQUIRES and cost as there.
std::optional<Diagnostic> check_transfers(const Schedule& schedule, P2pStyle style);

// The styles with_transfers() accepts.  O(actions).
std::vector<P2pStyle> legal_p2p_styles(const Schedule& schedule);

// Steps as text, separated by spaces; pairs as `(5F3;2B1)OVERLAP_F_B`.
std::string to_string(const Schedule& schedule, size_t rank, const RankProgram& program);
std::string to_string(const Transfer& transfer, int64_t seq_splits = 1);  // "3SEND_F5"

// Numbers every message between ranks: 0, 1, ... in blocks, one for each hop between two stages and
// each direction, by microbatch inside a block.
class Messages {
 public:
  struct Hop {
    uint16_t from = 0, to = 0;  // stages; to = from + 1: activations, from - 1: gradients
  };

  explicit Messages(const Schedule& schedule);
  uint32_t count() const { return static_cast<uint32_t>(hops_.size()) * pieces_; }
  // In the order of their numbers, schedule.pieces() messages each.
  const std::vector<Hop>& hops() const { return hops_; }
  // REQUIRES: a transfer that received_by() or sent_by() gives.
  uint32_t number(const Transfer& t) const {
    const int up = t.forward ? 1 : -1;
    const auto target = static_cast<size_t>(t.stage + (t.sends ? up : 0));
    return (t.forward ? forward_ : backward_)[target] + t.microbatch;
  }

 private:
  uint32_t pieces_ = 0;
  std::vector<Hop> hops_;
  std::vector<uint32_t> forward_, backward_;  // by receiving stage: first number of the block
};

// ------------------------------------------------------------------------- inside of this folder
// How rules write programs; with_transfers() picks a rule and proves what it gives.

// Appends steps to the program of one rank.  Transfers that are not there (nullopt) are left out,
// and so is a step without any.
class ProgramWriter {
 public:
  using Transfers = std::initializer_list<std::optional<Transfer>>;

  ProgramWriter(const Schedule& schedule, size_t rank, RankProgram& program)
      : schedule_(schedule), actions_(schedule.ranks[rank]), program_(program) {
    program_.steps.reserve(4 * actions_.size());
    program_.transfers.reserve(2 * actions_.size());
  }

  const std::vector<Action>& actions() const { return actions_; }
  std::optional<Transfer> in(const Action& a) const { return received_by(schedule_, a); }
  std::optional<Transfer> out(const Action& a) const { return sent_by(schedule_, a); }

  void run(size_t position, uint16_t count = 1) {
    program_.steps.push_back({Step::Kind::run, count, static_cast<uint32_t>(position)});
  }
  void exchange(Transfers transfers) { add(Step::Kind::exchange, transfers); }
  void issue(Transfers transfers) { add(Step::Kind::issue, transfers); }
  void wait(Transfers transfers) { add(Step::Kind::wait, transfers); }
  void exchange(const std::vector<Transfer>& transfers);

 private:
  void add(Step::Kind kind, Transfers transfers);

  const Schedule& schedule_;
  const std::vector<Action>& actions_;
  RankProgram& program_;
};

// Each gives one program a rank, or a sentence that says why the rule has no meaning for the
// schedule.
struct RuleResult {
  std::vector<RankProgram> ranks;
  std::string refusal;  // empty: none
};

// Megatron-LM's interleaved schedule; style is one of the three of Megatron-LM.
RuleResult interleaved_transfers(const Schedule& schedule, P2pStyle style);

}  // namespace stepcast
