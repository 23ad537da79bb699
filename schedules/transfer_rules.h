// SPDX-License-Identifier: Apache-2.0
// The rules of the frameworks, one function each; with_transfers() (transfers.h) picks one and
// proves what it gives.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "schedules/transfers.h"

namespace stepcast {

// Appends steps to the program of one rank.  Transfers that are not there (nullopt) are left out,
// and so is a step without any.
class ProgramWriter {
 public:
  using Transfers = std::initializer_list<std::optional<Transfer>>;

  ProgramWriter(const Schedule& schedule, size_t rank, RankProgram& program)
      : schedule_(schedule), actions_(schedule.ranks[rank]), program_(program) {
    program_.steps.reserve(2 * actions_.size());
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

RuleResult async_transfers(const Schedule& schedule);
// Blocking transfers of one chunk a rank: Megatron-LM's or, if `serial`, DeepSpeed's.
RuleResult blocking_transfers(const Schedule& schedule, bool serial);
// Megatron-LM's interleaved schedule; style is one of the three of Megatron-LM.
RuleResult interleaved_transfers(const Schedule& schedule, P2pStyle style);
RuleResult dualpipe_transfers(const Schedule& schedule);

}  // namespace stepcast
