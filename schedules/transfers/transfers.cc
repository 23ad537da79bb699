// SPDX-License-Identifier: Apache-2.0
// Where a framework puts the transfers between the actions of a rank: one rule for each style, and
// a proof that the outcome runs.  The rule of interleaved schedules, which is the longest, has a
// file of its own (interleaved_transfers.cc).
//
// 1F1B on 2 ranks with 3 microbatches begins in three styles as follows.  {..} is an exchange that
// the rank waits for, <..> a send that it does not wait for, ?.. a wait.
//
//     async      rank 0   0F0 <0SEND_F0> 0F1 <0SEND_F1> ?0RECV_B0 0B0 0F2 <0SEND_F2> ?0RECV_B1
//     megatron   rank 0   0F0 {0SEND_F0} 0F1 {0SEND_F1;0RECV_B0} 0B0 0F2 {0SEND_F2;0RECV_B1} 0B1
//                rank 1   {1RECV_F0} 1F0 1B0 {1SEND_B0;1RECV_F1} 1F1 1B1
//     deepspeed  rank 0   0F0 {0SEND_F0} 0F1 {0RECV_B0} {0SEND_F1} 0B0 0F2 {0RECV_B1} {0SEND_F2}
//
// With async only the receiver waits.  Megatron's rank 0 stands at {0SEND_F0} until rank 1 has
// posted {1RECV_F0}: the latency of a hop is exposed wherever a rank has nothing else to run.
// DeepSpeed makes two calls of each exchange and exposes it twice.
//
// Blocking calls of two ranks can wait for each other for good.  So the programs that a rule writes
// are executed once, as far as they go (Replay): ranks take turns, an exchange is over when both
// ends of all its messages have been issued, and what is left over is the refusal.
#include "schedules/transfers/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/lower/vocabulary.h"
#include "sim/check.h"

namespace stepcast {
namespace {

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

// ------------------------------------------------------- async, and one chunk a rank, blocking

// Actions that run as one unit from position i.
uint16_t unit_size(const std::vector<Action>& actions, size_t i) {
  return actions[i].overlaps_next ? 2 : 1;
}

// Positions of the actions that may have transfers.  Recompute, offload and reload of an activation
// belong to the action behind them: what that one receives is received before them.
std::vector<size_t> units_of(const std::vector<Action>& actions) {
  std::vector<size_t> units;
  for (size_t i = 0; i < actions.size(); ++i) {
    const ActionKind kind = actions[i].kind;
    if (kind != ActionKind::recompute && kind != ActionKind::offload && kind != ActionKind::reload)
      units.push_back(i);
  }
  return units;
}

bool changes_direction(const Action& a, const Action& b) {
  const bool weight =
      a.kind == ActionKind::backward_weight || b.kind == ActionKind::backward_weight;
  return !weight && (a.kind == ActionKind::forward) != (b.kind == ActionKind::forward);
}

// Megatron-LM, forward_backward_pipelining_without_interleaving: in the steady phase a send and the
// receive for the next action are one exchange; in warm-up (the first pp - 1 - rank forwards) and
// cool-down they follow each other.  DeepSpeed, TrainSchedule: one call at a time, and before a
// backward its gradient is received first, then the activation of the forward before it sent.
void write_blocking(ProgramWriter& out, int64_t warmup, bool serial) {
  const std::vector<Action>& actions = out.actions();
  const std::vector<size_t> units = units_of(actions);
  size_t position = 0;
  int64_t forwards = 0;
  bool received = false;  // the input of the next unit, by the exchange before it
  for (size_t u = 0; u < units.size(); ++u) {
    const Action& a = actions[units[u]];
    if (!received) out.exchange({out.in(a)});
    received = false;
    for (; position <= units[u]; ++position) out.run(position);
    const bool last = u + 1 == units.size();
    if (a.kind == ActionKind::forward) ++forwards;
    const bool in_warmup = a.kind == ActionKind::forward && forwards <= warmup;
    if (last || in_warmup || !changes_direction(a, actions[units[u + 1]])) {
      out.exchange({out.out(a)});
      continue;
    }
    const std::optional<Transfer> next = out.in(actions[units[u + 1]]);
    received = true;
    if (!serial) {
      out.exchange({out.out(a), next});
    } else if (a.kind == ActionKind::forward) {
      out.exchange({next});
      out.exchange({out.out(a)});
    } else {
      out.exchange({out.out(a)});
      out.exchange({next});
    }
  }
  for (; position < actions.size(); ++position) out.run(position);
}

bool has_one_stage_a_rank(const Schedule& schedule) {
  if (schedule.is_bidirectional()) return false;
  std::vector<int> stages(schedule.ranks.size());
  for (const uint16_t rank : schedule.rank_of_stage) ++stages[rank];
  return std::all_of(stages.begin(), stages.end(), [](int n) { return n == 1; });
}

RuleResult async_transfers(const Schedule& schedule) {
  RuleResult result;
  result.ranks.resize(schedule.ranks.size());
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    ProgramWriter out(schedule, r, result.ranks[r]);
    const std::vector<Action>& actions = out.actions();
    for (size_t i = 0; i < actions.size();) {
      const uint16_t count = unit_size(actions, i);
      const Action& second = actions[i + count - 1];
      out.wait({out.in(actions[i])});
      if (count == 2) out.wait({out.in(second)});
      out.run(i, count);
      out.issue({out.out(actions[i])});
      if (count == 2) out.issue({out.out(second)});
      i += count;
    }
  }
  return result;
}

RuleResult blocking_transfers(const Schedule& schedule, bool serial) {
  RuleResult result;
  if (!has_one_stage_a_rank(schedule)) {
    result.refusal = "its rule is for one stage on each rank";
    return result;
  }
  for (const std::vector<Action>& list : schedule.ranks)
    if (std::any_of(list.begin(), list.end(), [](const Action& a) { return a.overlaps_next; })) {
      result.refusal = "it knows no overlapped pairs";
      return result;
    }
  result.ranks.resize(schedule.ranks.size());
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    ProgramWriter out(schedule, r, result.ranks[r]);
    const std::vector<Action>& actions = out.actions();
    const int64_t stage = actions.empty() ? 0 : actions.front().stage;
    write_blocking(out, schedule.pp - 1 - stage, serial);
  }
  return result;
}

// -------------------------------------------------------------------------------------- DualPipe
// Transfers of DualPipe and DualPipeV: what a rank has to send and what it will need next is queued
// and becomes one blocking exchange before the next action that computes.
//
// Both number the chunks of a rank 0 and 1 (by the order of their first forwards).  Most transfers
// are queued where one expects: a receive before its action, a send after it.  The exceptions, all
// in the first half of the step:
//   * where a forward of chunk 1 follows one of chunk 0 (step 2), the input of the next forward of
//     chunk 0 is received with its own, and the output of chunk 0 is sent after it;
//   * a rank in the middle of the pipeline (whose second action is of chunk 1) sends the output of
//     chunk 0 at once; the last forward of chunk 1 there is sent after the forward that follows,
//     and that one after the backward that follows (beginning of step 4);
//   * where a forward follows a W (step 3), its input is received before the W.

bool is_plain_forward(const Action& a) {
  return a.kind == ActionKind::forward && !a.overlaps_next;
}

class DualPipe {
 public:
  explicit DualPipe(ProgramWriter& out) : out_(out), actions_(out.actions()) {
    received_.resize(actions_.size());
    in_the_middle_ = actions_.size() > 1 && chunk(1) == 1;
  }

  void write() {
    for (size_t i = 0; i < actions_.size();) {
      const size_t count = is_pair(i) ? 2 : 1;
      if (enters_chunk_one(i)) receive(next_of_chunk_zero(i));
      for (size_t j = i; j < i + count; ++j) receive(j);
      if (actions_[i].kind == ActionKind::backward_weight && is_forward_at(i + 1)) receive(i + 1);
      commit();
      out_.run(i, static_cast<uint16_t>(count));
      send_after(i, count);
      i += count;
    }
    commit();
  }

 private:
  int chunk(size_t i) const { return actions_[i].stage == actions_.front().stage ? 0 : 1; }
  bool is_pair(size_t i) const { return actions_[i].overlaps_next; }
  bool is_forward_at(size_t i) const {
    return i < actions_.size() && actions_[i].kind == ActionKind::forward;
  }
  bool is_plain_forward_of(size_t i, int wanted) const {
    return i < actions_.size() && is_plain_forward(actions_[i]) && chunk(i) == wanted;
  }
  // Step 2: F of chunk 1 right after F of chunk 0.
  bool enters_chunk_one(size_t i) const {
    return i > 0 && is_plain_forward_of(i, 1) && is_plain_forward_of(i - 1, 0);
  }
  size_t next_of_chunk_zero(size_t i) const {
    while (i < actions_.size() && !(is_forward_at(i) && chunk(i) == 0)) ++i;
    return i;
  }
  // A lone full backward of chunk 1 after F of chunk 1 and F of chunk 0.
  bool begins_step_four(size_t f1) const {
    return in_the_middle_ && is_plain_forward_of(f1, 1) && is_plain_forward_of(f1 + 1, 0) &&
           f1 + 2 < actions_.size() && actions_[f1 + 2].kind == ActionKind::backward;
  }
  // Its output is queued after the next action.
  bool holds_back(size_t i) const {
    if (begins_step_four(i) || (i > 0 && begins_step_four(i - 1))) return true;
    return !in_the_middle_ && is_plain_forward_of(i, 0) && is_plain_forward_of(i + 1, 1);
  }

  void receive(size_t i) {
    if (i >= actions_.size() || received_[i]) return;
    received_[i] = true;
    if (const std::optional<Transfer> t = out_.in(actions_[i])) queue_.push_back(*t);
  }
  void send(size_t i) {
    if (const std::optional<Transfer> t = out_.out(actions_[i])) queue_.push_back(*t);
  }
  // What was held back goes after the output of a forward, but before that of a backward.
  void send_after(size_t i, size_t count) {
    const bool forward = actions_[i].kind == ActionKind::forward;
    const std::optional<size_t> held = std::exchange(held_, std::nullopt);
    if (held && !forward) send(*held);
    if (holds_back(i)) {
      held_ = i;
    } else {
      for (size_t j = i; j < i + count; ++j) send(j);
    }
    if (held && forward) send(*held);
  }
  void commit() {
    out_.exchange(queue_);
    queue_.clear();
  }

  ProgramWriter& out_;
  const std::vector<Action>& actions_;
  std::vector<bool> received_;
  std::optional<size_t> held_;  // a forward whose output is not queued yet
  std::vector<Transfer> queue_;
  bool in_the_middle_ = false;
};

RuleResult dualpipe_transfers(const Schedule& schedule) {
  RuleResult result;
  std::vector<std::vector<uint16_t>> stages(schedule.ranks.size());
  for (size_t r = 0; r < schedule.ranks.size(); ++r)
    for (const Action& a : schedule.ranks[r]) {
      std::vector<uint16_t>& own = stages[r];
      if (std::find(own.begin(), own.end(), a.stage) == own.end() && own.size() < 3)
        own.push_back(a.stage);
    }
  if (std::any_of(stages.begin(), stages.end(), [](const auto& own) { return own.size() != 2; })) {
    result.refusal = "its rule is for two stages on each rank, as in dualpipe and dualpipev";
    return result;
  }
  result.ranks.resize(schedule.ranks.size());
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    ProgramWriter out(schedule, r, result.ranks[r]);
    DualPipe(out).write();
  }
  return result;
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
    return fmt::format("it would deadlock: rank {} waits for ever at {{{}}}", rank, names);
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

void ProgramWriter::add(Step::Kind kind, Transfers transfers) {
  const auto first = static_cast<uint32_t>(program_.transfers.size());
  for (const std::optional<Transfer>& t : transfers)
    if (t) program_.transfers.push_back(*t);
  const auto count = static_cast<uint16_t>(program_.transfers.size() - first);
  if (count > 0) program_.steps.push_back({kind, count, first});
}

void ProgramWriter::exchange(const std::vector<Transfer>& transfers) {
  if (transfers.empty()) return;
  program_.steps.push_back({Step::Kind::exchange, static_cast<uint16_t>(transfers.size()),
                            static_cast<uint32_t>(program_.transfers.size())});
  program_.transfers.insert(program_.transfers.end(), transfers.begin(), transfers.end());
}

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

namespace {

Diagnostic refused_transfers(const Schedule& schedule, P2pStyle style, const std::string& why) {
  return refusal(fmt::format("transfers of style {} do not go with the schedule {}: {}",
                             name_of(style), schedule.name, why));
}

}  // namespace

std::optional<Diagnostic> check_transfers(const Schedule& schedule, P2pStyle style) {
  if (style == P2pStyle::async) return {};
  const RuleResult result = apply_rule(schedule, style);
  if (result.refusal.empty()) return {};
  return refused_transfers(schedule, style, result.refusal);
}

std::variant<std::shared_ptr<const MadeTransfers>, Diagnostic> make_transfers(
    const Schedule& schedule, P2pStyle style) {
  RuleResult result = apply_rule(schedule, style);
  if (!result.refusal.empty()) return refused_transfers(schedule, style, result.refusal);
  return std::make_shared<const MadeTransfers>(
      MadeTransfers{schedule, style, std::move(result.ranks)});
}

std::vector<RankProgram> with_transfers(const Schedule& schedule, P2pStyle style) {
  RuleResult result = apply_rule(schedule, style);
  if (result.refusal.empty()) return std::move(result.ranks);
  const std::vector<P2pStyle> legal = legal_p2p_styles(schedule);
  std::string styles;
  for (size_t i = 0; i < legal.size(); ++i) {
    if (i > 0) styles += i + 1 == legal.size() ? " and " : ", ";
    styles += name_of(legal[i]);
  }
  refuse(fmt::format("transfers of style {} do not go with the schedule {}: {}; styles that do: {}",
                     name_of(style), schedule.name, result.refusal, styles));
}

// ------------------------------------------------------------------------------------------ text
std::string to_string(const Transfer& transfer, int64_t seq_splits) {
  Action place{ActionKind::forward, transfer.stage, transfer.microbatch};
  if (!transfer.forward) place.kind = ActionKind::backward;
  std::string text = to_string(place, seq_splits);  // "3F5"; the verb goes before its letter
  text.insert(text.find(letter_of(place.kind)), transfer.sends ? "SEND_" : "RECV_");
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
