// SPDX-License-Identifier: Apache-2.0
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
#include <algorithm>
#include <utility>

#include "schedules/transfer_rules.h"

namespace stepcast {
namespace {

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

}  // namespace

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

}  // namespace stepcast
