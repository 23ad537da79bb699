// SPDX-License-Identifier: Apache-2.0
// Transfers of Megatron-LM's interleaved schedule (forward_backward_pipelining_with_interleaving),
// in its three modes: without overlap (P2pStyle::megatron), with overlap_p2p_comm
// (megatron_overlap), and with overlap_p2p_comm_warmup_flush as well (megatron_overlap_flush).
//
// Take 2 ranks with 2 chunks each and 4 microbatches in groups of 2.  Rank 0 has stages 0 and 2,
// rank 1 stages 1 and 3, and rank 0 runs the list
//
//     warm-up    0F0 0F1 2F0 2F1
//     steady     0F2 2B0  0F3 2B1  2F2 0B0  2F3 0B1
//     cool-down  2B2 2B3 0B2 0B3
//
// With overlap_p2p_comm its program begins (notation: transfers.h)
//
//     0F0 {0SEND_F0} 0F1 {0SEND_F1;2RECV_F0} 2F0 {2SEND_F0;2RECV_F1} 2F1 {2SEND_F1} <2RECV_B0>
//     0F2 <0SEND_F2> ?2RECV_B0 2B0 <2SEND_B0;2RECV_B1>
//     0F3 <0SEND_F3;2RECV_F2> ?0SEND_F2 ?2RECV_B1 2B1 <2SEND_B1;0RECV_B0> ?2SEND_B0 ?2RECV_F2 2F2
//     ...
//
// In the warm-up each forward is followed by one exchange that the rank waits for: its output
// leaves while the input of its next forward arrives.  In the steady phase nothing is waited for at
// once. Sends and receives are issued behind an action, and are waited for where they are needed: a
// receive before the action that takes it, a send after the next send of its direction.  With
// warmup_flush the warm-up and the cool-down are like that too; without overlap every step is like
// the warm-up, with the transfers of a forward and a backward in one exchange.
//
// What a rank receives beside its k-th forward is the input of its next one, except on the first
// rank: it gets whatever the last rank has just made, pp - 1 forwards behind, and keeps it for
// later.  That is why {2SEND_F1} and <0SEND_F2> above come without a receive: the last rank has
// just made 3F0 and 3F1, which go nowhere.  Backwards mirror that.  Receives that were issued are
// waited for in the order in which they were issued, one before each action that has an input from
// another rank.
#include <algorithm>
#include <deque>

#include "schedules/transfers/transfers.h"

namespace stepcast {
namespace {

// One rank's list as Megatron-LM sees it.
struct Phases {
  std::vector<Action> forwards, backwards;
  size_t warmup = 0;    // forwards before the steady phase of one forward and one backward in turn
  bool merged = false;  // F and B of the steady phase are overlapped pairs
};

bool is_full_backward(const Action& a) {
  return a.kind == ActionKind::backward;
}

// Reads a list of the form F..F, (F B).., B..B or F..F, (F;B).., B..B.  False if it has another.
bool read_phases(const std::vector<Action>& actions, Phases& out) {
  size_t i = 0;
  const size_t n = actions.size();
  const auto plain_forward = [&](size_t at) {
    return at < n && actions[at].kind == ActionKind::forward && !actions[at].overlaps_next;
  };
  const auto steady = [&](size_t at) {
    return at + 1 < n && actions[at].kind == ActionKind::forward &&
           is_full_backward(actions[at + 1]) && actions[at].overlaps_next == out.merged;
  };
  while (plain_forward(i)) out.forwards.push_back(actions[i++]);
  out.merged = i < n && actions[i].overlaps_next;
  if (!out.merged && i > 0) {  // the last of them is the first of the steady phase
    out.forwards.pop_back();
    --i;
  }
  out.warmup = out.forwards.size();
  for (; steady(i); i += 2) {
    out.forwards.push_back(actions[i]);
    out.backwards.push_back(actions[i + 1]);
  }
  while (i < n && is_full_backward(actions[i])) out.backwards.push_back(actions[i++]);
  return i == n && out.forwards.size() == out.backwards.size() && !out.forwards.empty();
}

// Forwards of the first group on its first chunk: N.
int64_t group_of(const std::vector<Action>& forwards) {
  const auto other = std::find_if(forwards.begin(), forwards.end(), [&](const Action& a) {
    return a.stage != forwards.front().stage;
  });
  return other - forwards.begin();
}

// A list in which all forwards come first may end its warm-up with or before the last of them; the
// length of Megatron-LM's warm-up, 2 (pp - 1 - rank) + (vpp - 1) N, decides.  With merged pairs on
// any rank there are none on this one because everything is in warm-up.
void settle_warmup(const Schedule& schedule, int64_t rank, bool any_merged, Phases& phases) {
  const size_t all = phases.forwards.size();
  if (phases.merged || phases.warmup + 1 < all) return;
  const int64_t rule =
      2 * (schedule.pp - 1 - rank) + (schedule.vpp - 1) * group_of(phases.forwards);
  if (any_merged || rule >= static_cast<int64_t>(all)) phases.warmup = all;
}

// Loop placement, the same number of chunks everywhere.
bool is_looped(const Schedule& schedule) {
  if (schedule.is_bidirectional() || schedule.vpp < 2) return false;
  const size_t stages = schedule.rank_of_stage.size();
  if (stages != schedule.ranks.size() * static_cast<size_t>(schedule.vpp)) return false;
  for (size_t s = 0; s < stages; ++s)
    if (schedule.rank_of_stage[s] != s % schedule.ranks.size()) return false;
  return true;
}

// Writes the program of one rank.
class Interleaved {
 public:
  Interleaved(ProgramWriter& out, const std::vector<Phases>& ranks, size_t rank, P2pStyle style)
      : out_(out),
        own_(ranks[rank]),
        first_(ranks.front()),
        last_(ranks.back()),
        ranks_(ranks.size()),
        on_first_(rank == 0),
        on_last_(rank + 1 == ranks.size()),
        overlap_(style != P2pStyle::megatron),
        flush_(style == P2pStyle::megatron_overlap_flush) {}

  void write() {
    const size_t all = own_.forwards.size();
    const size_t steady = all - own_.warmup;
    out_.exchange({out_.in(own_.forwards.front())});
    for (size_t k = 0; k < own_.warmup; ++k) flush_ ? warmup_ahead(k) : warmup_blocking(k);
    for (size_t k = 0; k < steady; ++k) {
      if (own_.merged) {
        steady_merged(k);
      } else if (overlap_) {
        steady_overlapped(k);
      } else {
        steady_blocking(k);
      }
    }
    if (steady == 0) out_.exchange({out_.in(own_.backwards.front())});
    for (size_t k = steady; k < all; ++k) flush_ ? cooldown_ahead(k) : cooldown_blocking(k);
    out_.wait({gradient_under_way_});
  }

 private:
  using Optional = std::optional<Transfer>;

  // What arrives beside the k-th forward.
  Optional next_activation(size_t k) const {
    if (k + 1 == own_.forwards.size()) return std::nullopt;
    if (!on_first_) return out_.in(own_.forwards[k + 1]);
    if (k + 1 < ranks_) return std::nullopt;  // the last rank has nothing yet
    return received_at(out_.out(last_.forwards[k + 1 - ranks_]));
  }
  Optional next_gradient(size_t k) const {
    if (k + 1 == own_.backwards.size()) return std::nullopt;
    if (!on_last_) return out_.in(own_.backwards[k + 1]);
    if (k + 1 < ranks_) return std::nullopt;
    return received_at(out_.out(first_.backwards[k + 1 - ranks_]));
  }
  // The other side of a send.
  static Optional received_at(Optional sent) {
    if (!sent) return sent;
    sent->sends = false;
    sent->stage = static_cast<uint16_t>(sent->stage + (sent->forward ? 1 : -1));
    return sent;
  }
  Optional sent_by_forward(size_t k) const { return out_.out(own_.forwards[k]); }
  Optional sent_by_backward(size_t k) const { return out_.out(own_.backwards[k]); }
  bool ends_warmup(size_t k) const {
    return k + 1 == own_.warmup && own_.warmup < own_.forwards.size();
  }
  size_t position_of_forward(size_t k) const {
    return k <= own_.warmup ? k : own_.warmup + 2 * (k - own_.warmup);
  }
  size_t position_of_backward(size_t k) const {
    const size_t steady = own_.forwards.size() - own_.warmup;
    return k < steady ? own_.warmup + 2 * k + 1 : own_.forwards.size() + k;
  }
  void run_forward(size_t k) { out_.run(position_of_forward(k)); }
  void run_backward(size_t k) { out_.run(position_of_backward(k)); }

  // ---- receives that were issued
  static void note(std::deque<Transfer>& awaited, const Optional& received) {
    if (received) awaited.push_back(*received);
  }
  void wait_for_input(std::deque<Transfer>& awaited, const Action& action) {
    if (!out_.in(action) || awaited.empty()) return;
    out_.wait({awaited.front()});
    awaited.pop_front();
  }
  void await_activation(size_t k) { wait_for_input(activations_, own_.forwards[k]); }
  void await_gradient(size_t k) { wait_for_input(gradients_, own_.backwards[k]); }

  // ---- one send is under way while the next action runs
  void issue_activations(const Optional& sent, const Optional& received) {
    out_.issue({sent, received});
    note(activations_, received);
    out_.wait({activation_under_way_});
    activation_under_way_ = sent;
  }
  void issue_gradients(const Optional& sent, const Optional& received) {
    out_.issue({sent, received});
    note(gradients_, received);
    out_.wait({gradient_under_way_});
    gradient_under_way_ = sent;
  }
  void issue_first_gradient(size_t k) {
    if (ends_warmup(k)) issue_gradients(std::nullopt, out_.in(own_.backwards.front()));
  }

  void warmup_blocking(size_t k) {
    run_forward(k);
    Optional gradient;
    if (!overlap_ && ends_warmup(k)) gradient = out_.in(own_.backwards.front());
    out_.exchange({sent_by_forward(k), next_activation(k), gradient});
    if (overlap_) issue_first_gradient(k);
  }

  // The first rank receives what was sent long ago; others receive before they compute.
  void warmup_ahead(size_t k) {
    if (k > 0) await_activation(k);
    const Optional received = next_activation(k);
    if (!on_first_) {
      out_.issue({received});
      note(activations_, received);
    }
    run_forward(k);
    issue_activations(sent_by_forward(k), on_first_ ? received : std::nullopt);
    issue_first_gradient(k);
  }

  void steady_blocking(size_t k) {
    const size_t f = own_.warmup + k;
    run_forward(f);
    run_backward(k);
    out_.exchange({sent_by_backward(k), sent_by_forward(f), next_activation(f), next_gradient(k)});
  }

  void steady_overlapped(size_t k) {
    const size_t f = own_.warmup + k;
    await_activation(f);
    run_forward(f);
    issue_activations(sent_by_forward(f), next_activation(f));
    await_gradient(k);
    run_backward(k);
    issue_gradients(sent_by_backward(k), next_gradient(k));
  }

  void steady_merged(size_t k) {
    const size_t f = own_.warmup + k;
    if (overlap_) {
      await_activation(f);
      await_gradient(k);
    }
    out_.run(position_of_forward(f), 2);
    if (overlap_) {
      issue_activations(sent_by_forward(f), next_activation(f));
      issue_gradients(sent_by_backward(k), next_gradient(k));
    } else {
      out_.exchange(
          {sent_by_backward(k), sent_by_forward(f), next_activation(f), next_gradient(k)});
    }
  }

  void cooldown_blocking(size_t k) {
    await_gradient(k);
    run_backward(k);
    out_.exchange({sent_by_backward(k), next_gradient(k)});
  }

  void cooldown_ahead(size_t k) {
    if (k > 0) await_gradient(k);
    const Optional received = next_gradient(k);
    if (!on_last_) {
      out_.issue({received});
      note(gradients_, received);
    }
    run_backward(k);
    issue_gradients(sent_by_backward(k), on_last_ ? received : std::nullopt);
  }

  ProgramWriter& out_;
  const Phases& own_;
  const Phases &first_, &last_;  // ranks
  const size_t ranks_;
  const bool on_first_, on_last_;
  const bool overlap_, flush_;
  std::deque<Transfer> activations_, gradients_;  // issued receives, not waited for yet
  Optional activation_under_way_, gradient_under_way_;
};

}  // namespace

RuleResult interleaved_transfers(const Schedule& schedule, P2pStyle style) {
  RuleResult result;
  const auto no_rule = [&](std::string why) {
    result.refusal = std::move(why);
    return result;
  };
  if (!is_looped(schedule))
    return no_rule(schedule.vpp == 1
                       ? "Megatron-LM overlaps transfers of interleaved schedules only (vpp >= 2)"
                       : "its rule is for stages that go round the ranks in a loop");
  if (style == P2pStyle::megatron && schedule.pp == 2)
    return no_rule(
        "Megatron-LM needs overlap_p2p_comm for an interleaved schedule on pp = 2 ranks");
  std::vector<Phases> ranks(schedule.ranks.size());
  bool any_merged = false;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!read_phases(schedule.ranks[r], ranks[r]) ||
        ranks[r].forwards.size() != ranks.front().forwards.size())
      return no_rule(
          "its rule is for a warm-up of forwards, then one forward and one backward in turn, then "
          "a cool-down of backwards");
    any_merged = any_merged || ranks[r].merged;
  }
  for (size_t r = 0; r < ranks.size(); ++r)
    settle_warmup(schedule, static_cast<int64_t>(r), any_merged, ranks[r]);
  result.ranks.resize(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    ProgramWriter out(schedule, r, result.ranks[r]);
    Interleaved(out, ranks, r, style).write();
  }
  return result;
}

}  // namespace stepcast
