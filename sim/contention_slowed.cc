// SPDX-License-Identifier: Apache-2.0
// Compute and communication that slow each other.
#include <algorithm>

#include "sim/contention_engine.h"

namespace stepcast::contention {
namespace {

constexpr auto kCompute = static_cast<size_t>(Stream::compute);

}  // namespace

void Engine::advance_progress(Rank& rank) const {
  rank.progress += Wide{now_ - rank.last} * (rank.slow ? kOne : slow_compute_);
  rank.last = now_;
}

void Engine::mark_dirty(uint32_t rank) {
  if (ranks_[rank].dirty) return;
  ranks_[rank].dirty = true;
  dirty_ranks_.push_back(rank);
}

void Engine::mark_talk_dirty(uint32_t talk) {
  if (talks_[talk].dirty) return;
  talks_[talk].dirty = true;
  dirty_talks_.push_back(talk);
}

// Everything that could happen at this moment has: new rates, new ends.
void Engine::settle() {
  for (const uint32_t id : dirty_ranks_) settle_rank(id);
  dirty_ranks_.clear();
  for (const uint32_t id : dirty_talks_) settle_talk(id);
  dirty_talks_.clear();
}

void Engine::settle_rank(uint32_t id) {
  Rank& rank = ranks_[id];
  rank.dirty = false;
  if (const bool slow = !rank.talks.empty(); slow != rank.slow) {
    advance_progress(rank);
    rank.slow = slow;
    rank.restarted = true;
  }
  if (rank.runs != rank.busy) {
    rank.busy = rank.runs;
    for (const uint32_t talk : rank.talks) {
      talks_[talk].busy += rank.busy ? 1U : UINT32_MAX;
      mark_talk_dirty(talk);
    }
  }
  if (rank.runs && rank.restarted) {
    advance_progress(rank);
    const Wide rate = rank.slow ? kOne : slow_compute_;
    const Wide time = (rank.target - rank.progress + rate - 1) / rate;
    push(now_ + static_cast<int64_t>(time), EventKind::compute_end, id, ++rank.version);
  }
  rank.restarted = false;
}

void Engine::settle_talk(uint32_t id) {
  Talk& talk = talks_[id];
  talk.dirty = false;
  const bool slowed = talk.busy > 0;
  if (!talk.on || (slowed == talk.slowed && !talk.restarted)) return;
  const Wide rate_before = talk.slowed ? kOne : slow_talk_;
  const bool changes = slowed != talk.slowed;
  talk.slowed = slowed;
  talk.restarted = false;
  if (talk.flows) {
    if (talk.moving && changes) {
      network_.set_cap(now_, talk.flow, slowed ? slowed_cap(talk) : talk.cap);
    }
    return;
  }
  talk.left -= rate_before * (now_ - talk.last);
  talk.last = now_;
  const Wide rate = slowed ? kOne : slow_talk_;
  push(now_ + static_cast<int64_t>((talk.left + rate - 1) / rate), EventKind::talk_end, id,
       ++talk.version);
  push_next_window(id, now_);
}

// --- chains of compute --------------------------------------------------------------------------

// The ops that run on the rank have ended.
void Engine::end_compute(uint32_t id) {
  Rank& rank = ranks_[id];
  advance_progress(rank);
  rank.runs = false;
  rank.exact = true;
  rank.exact_end = rank.target;
  mark_dirty(id);
  threads_[rank.thread].state = 2;
  ready_.push_back(rank.thread);
}

bool Engine::run_slowed_chain(const Place& at, const ThreadInstruction& in) {
  Thread& th = at.th;
  int64_t& time = at.a.time[kCompute * block_ + th.lane];
  if (th.state == 2) {
    th.state = 0;
    time = now_;
    if (at.noted) note_slowed(at, in);
  }
  while (th.ops < in.count) {
    const int64_t launched = at.launched + at.pass.ops[in.first + th.ops].launched;
    const int64_t start = std::max(time, at.host[0] + launched);
    if (start > now_) {
      push(start, EventKind::wake, static_cast<uint32_t>(&th - threads_.data()));
      return false;
    }
    start_slowed_ops(at, in, start);
    if (th.state == 1) return false;
  }
  th.ops = 0;
  return true;
}

// Starts the ops of the chain that nothing but their predecessors holds up.
void Engine::start_slowed_ops(const Place& at, const ThreadInstruction& in, int64_t start) {
  Thread& th = at.th;
  int64_t& time = at.a.time[kCompute * block_ + th.lane];
  const uint32_t id = at.a.role * width_ + at.a.lane;
  Rank& rank = ranks_[id];
  const ThreadOp* const ops = &at.pass.ops[in.first];
  const auto launched = [&](uint32_t i) { return at.host[0] + at.launched + ops[i].launched; };
  advance_progress(rank);
  const bool goes_on = rank.exact && time == now_ && launched(th.ops) < now_;
  const Wide begin = goes_on ? rank.exact_end : rank.progress;
  if (th.ops == 0) {
    note_start(at, 0, start);
    if (in.start_slot >= 0) {
      at.live.slots[static_cast<size_t>(in.start_slot)] = start;
      mark(at, kCompute, static_cast<size_t>(in.start_slot));
    }
  }
  // A launch at this very moment counts as one that an op has to wait for.
  const int64_t before = begin == rank.progress ? now_ + 1 : now_;
  if (at.noted) record_->note(at.a.role, Spend::launch, start - time);
  rank.begin = start;
  rank.first_op = th.ops;
  if (is_uneven(id)) {
    start_uneven_op(at, in, begin);
    if (ops_ && at.noted && th.state != 1) note_op(at, in.first, now_, now_);
    return;
  }
  int64_t ps = 0;
  if (th.ops == 0 && launched(in.count - 1) < before) {
    ps = in.ps;
    th.ops = in.count;
  } else {
    ps = ops[th.ops++].ps;
    for (; th.ops < in.count && launched(th.ops) < before; ++th.ops) ps += ops[th.ops].ps;
  }
  run_until(at, begin + Wide{ps} * slowness_[id] * slow_compute_);
  if (ops_ && at.noted && th.state != 1) note_op(at, in.first, now_, now_);
}

// One op by itself: its speed may change while it runs, and the next has another.
void Engine::start_uneven_op(const Place& at, const ThreadInstruction& in, Wide begin) {
  const uint32_t id = at.a.role * width_ + at.a.lane;
  Rank& rank = ranks_[id];
  const ThreadOp& op = at.pass.ops[in.first + at.th.ops++];
  rank.factor = factor_of(at, id, op);
  rank.pace = jittered(slowness_now(id), rank.factor);
  run_until(at, begin + Wide{op.ps} * rank.pace * slow_compute_);
}

void Engine::run_until(const Place& at, Wide target) {
  Thread& th = at.th;
  const uint32_t id = at.a.role * width_ + at.a.lane;
  Rank& rank = ranks_[id];
  rank.target = target;
  if (rank.target > rank.progress) {
    rank.runs = rank.restarted = true;
    rank.thread = static_cast<uint32_t>(&th - threads_.data());
    mark_dirty(id);
    th.state = 1;
    return;
  }
  rank.exact_end = rank.target;
  rank.exact = true;
  at.a.time[kCompute * block_ + th.lane] = now_;
}

}  // namespace stepcast::contention
