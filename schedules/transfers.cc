// SPDX-License-Identifier: Apache-2.0
#include "schedules/transfers.h"

#include <stdexcept>
#include <utility>

#include "schedules/transfer_rules.h"
#include "schedules/vocabulary.h"
#include "sim/check.h"

namespace stepcast {
namespace {

bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

// The message that `a` gets from (incoming) or has for (else) the stage next to it, if that is on
// another rank.
std::optional<Transfer> message_of(const Schedule& schedule, const Action& a, bool incoming) {
  const bool forward = a.kind == ActionKind::forward;
  if (!forward && !is_backward(a.kind)) return std::nullopt;
  const int other = a.stage + (forward == incoming ? -1 : 1);
  if (other < 0 || static_cast<size_t>(other) >= schedule.rank_of_stage.size()) return std::nullopt;
  if (schedule.rank_of(static_cast<size_t>(other), a.microbatch) ==
      schedule.rank_of(a.stage, a.microbatch))
    return std::nullopt;
  return Transfer{!incoming, forward, a.stage, a.microbatch};
}

// ------------------------------------------------------------------------------------------ proof
// Executes the programs as far as they go.
class Replay {
 public:
  Replay(const Schedule& schedule, const std::vector<RankProgram>& programs)
      : schedule_(schedule),
        programs_(programs),
        messages_(schedule),
        state_(messages_.count()),
        next_(programs.size()) {}

  // Empty if all programs come to their end with every message received; else a sentence.
  std::string problem() {
    for (size_t r = next_.size(); r-- > 0;) ready_.push_back(static_cast<uint16_t>(r));
    while (!ready_.empty() && problem_.empty()) {
      const uint16_t rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    if (!problem_.empty()) return problem_;
    for (size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < programs_[r].steps.size()) return stuck_at(r);
    for (const uint8_t state : state_)
      if ((state & kMoving) != kMoving) return "a message would not be both sent and received";
    return {};
  }

 private:
  static constexpr uint8_t kSent = 1, kReceived = 2, kMoving = 3, kArrived = 4;

  void advance(uint16_t rank) {
    const RankProgram& program = programs_[rank];
    for (uint32_t& next = next_[rank]; next < program.steps.size(); ++next) {
      const Step& step = program.steps[next];
      const bool done =
          step.kind == Step::Kind::run ? run(rank, step) : transfer(program, rank, next);
      if (!done) return;
    }
  }

  // An input must have been waited for.  Never blocks.
  bool run(uint16_t rank, const Step& step) {
    for (uint32_t i = step.first; i < step.first + step.count; ++i) {
      const Action& action = schedule_.ranks[rank][i];
      const std::optional<Transfer> input = received_by(schedule_, action);
      if (input && (state_[messages_.number(*input)] & kArrived) == 0)
        problem_ = "`" + to_string(action, schedule_.seq_splits) +
                   "` would run before its input has been received";
    }
    return problem_.empty();
  }

  // Issues what is to be issued (once: the bits tell), then says whether all that is waited for
  // moves.
  bool transfer(const RankProgram& program, uint16_t rank, uint32_t position) {
    const Step& step = program.steps[position];
    bool done = true;
    for (uint32_t i = step.first; i < step.first + step.count; ++i) {
      const Transfer& t = program.transfers[i];
      uint8_t& state = state_[messages_.number(t)];
      if (step.kind != Step::Kind::wait) issue(rank, t, state);
      if (step.kind == Step::Kind::issue) continue;
      if ((state & kMoving) != kMoving) done = false;
    }
    if (!done || step.kind == Step::Kind::issue) return done;
    for (uint32_t i = step.first; i < step.first + step.count; ++i) {
      const Transfer& t = program.transfers[i];
      if (!t.sends) state_[messages_.number(t)] |= kArrived;
    }
    return true;
  }

  void issue(uint16_t rank, const Transfer& t, uint8_t& state) {
    const uint8_t bit = t.sends ? kSent : kReceived;
    if ((state & bit) != 0) return;
    state |= bit;
    if ((state & kMoving) != kMoving) return;
    const int other = t.stage + (t.sends == t.forward ? 1 : -1);
    const uint16_t peer = schedule_.rank_of(static_cast<size_t>(other), t.microbatch);
    if (peer != rank) ready_.push_back(peer);
  }

  std::string stuck_at(size_t rank) const {
    const RankProgram& program = programs_[rank];
    const Step& step = program.steps[next_[rank]];
    std::string names;
    for (uint32_t i = step.first; i < step.first + step.count; ++i)
      names += (names.empty() ? "" : ";") + to_string(program.transfers[i], schedule_.seq_splits);
    return "it would deadlock: rank " + std::to_string(rank) + " waits for ever at {" + names + "}";
  }

  const Schedule& schedule_;
  const std::vector<RankProgram>& programs_;
  Messages messages_;
  std::vector<uint8_t> state_;   // by message
  std::vector<uint32_t> next_;   // by rank: first step not done
  std::vector<uint16_t> ready_;  // ranks that may go on
  std::string problem_;
};

RuleResult apply_rule(const Schedule& schedule, P2pStyle style) {
  if (Messages(schedule).count() == 0) return async_transfers(schedule);  // nothing to block
  const bool chunks = schedule.rank_of_stage.size() != schedule.ranks.size();
  RuleResult result;
  if (style != P2pStyle::async && vocabulary_split(schedule) != VocabularySplit::none) {
    result.refusal = "its ranks meet for the vocabulary between transfers, which must not wait";
    return result;
  }
  switch (style) {
    case P2pStyle::async: return async_transfers(schedule);
    case P2pStyle::deepspeed: result = blocking_transfers(schedule, true); break;
    case P2pStyle::dualpipe: result = dualpipe_transfers(schedule); break;
    case P2pStyle::megatron:
      result =
          chunks ? interleaved_transfers(schedule, style) : blocking_transfers(schedule, false);
      break;
    case P2pStyle::megatron_overlap:
    case P2pStyle::megatron_overlap_flush: result = interleaved_transfers(schedule, style); break;
  }
  if (result.refusal.empty()) result.refusal = Replay(schedule, result.ranks).problem();
  return result;
}

}  // namespace

std::optional<Transfer> received_by(const Schedule& schedule, const Action& action) {
  return message_of(schedule, action, true);
}

std::optional<Transfer> sent_by(const Schedule& schedule, const Action& action) {
  return message_of(schedule, action, false);
}

std::vector<P2pStyle> legal_p2p_styles(const Schedule& schedule) {
  std::vector<P2pStyle> legal;
  for (const P2pStyle style : kAllP2pStyles)
    if (apply_rule(schedule, style).refusal.empty()) legal.push_back(style);
  return legal;
}

std::vector<RankProgram> with_transfers(const Schedule& schedule, P2pStyle style) {
  RuleResult result = apply_rule(schedule, style);
  if (result.refusal.empty()) return std::move(result.ranks);
  std::string text = "transfers of style " + std::string(name_of(style)) +
                     " do not go with the schedule " + schedule.name + ": " + result.refusal +
                     "; styles that do: ";
  const std::vector<P2pStyle> legal = legal_p2p_styles(schedule);
  for (size_t i = 0; i < legal.size(); ++i) {
    if (i > 0) text += i + 1 == legal.size() ? " and " : ", ";
    text += name_of(legal[i]);
  }
  throw std::invalid_argument(text);
}

// ------------------------------------------------------------------------------------------ text
std::string to_string(const Transfer& transfer, int64_t seq_splits) {
  Action place{ActionKind::forward, transfer.stage, transfer.microbatch};
  if (!transfer.forward) place.kind = ActionKind::backward;
  std::string text = to_string(place, seq_splits);
  text.insert(std::to_string(transfer.stage).size(), transfer.sends ? "SEND_" : "RECV_");
  return text;
}

std::string to_string(const Schedule& schedule, size_t rank, const RankProgram& program) {
  const std::vector<Action>& actions = schedule.ranks[rank];
  const auto action = [&](uint32_t i) { return to_string(actions[i], schedule.seq_splits); };
  std::string text;
  for (const Step& step : program.steps) {
    if (!text.empty()) text += ' ';
    if (step.kind == Step::Kind::run) {
      text += step.count == 1
                  ? action(step.first)
                  : "(" + action(step.first) + ";" + action(step.first + 1) + ")OVERLAP_F_B";
      continue;
    }
    std::string names;
    for (uint32_t i = step.first; i < step.first + step.count; ++i)
      names += (names.empty() ? "" : ";") + to_string(program.transfers[i], schedule.seq_splits);
    if (step.kind == Step::Kind::exchange) text += "{" + names + "}";
    if (step.kind == Step::Kind::issue) text += "<" + names + ">";
    if (step.kind == Step::Kind::wait) text += "?" + names;
  }
  return text;
}

// -------------------------------------------------------------------------------------- messages
Messages::Messages(const Schedule& schedule)
    : pieces_(static_cast<uint32_t>(schedule.pieces())),
      forward_(schedule.rank_of_stage.size()),
      backward_(schedule.rank_of_stage.size()) {
  const auto crosses = [](const std::vector<uint16_t>& ranks, size_t s) {
    return ranks[s] != ranks[s + 1];
  };
  for (size_t s = 0; s + 1 < schedule.rank_of_stage.size(); ++s) {
    const bool hop = crosses(schedule.rank_of_stage, s);
    STEPCAST_CHECK(
        !schedule.is_bidirectional() || crosses(schedule.reverse_rank_of_stage, s) == hop,
        "the replicas of a bidirectional schedule mirror each other");
    if (!hop) continue;
    const auto low = static_cast<uint16_t>(s), high = static_cast<uint16_t>(s + 1);
    forward_[high] = count();
    hops_.push_back({low, high});
    if (schedule.forward_only) continue;
    backward_[low] = count();
    hops_.push_back({high, low});
  }
}

}  // namespace stepcast
