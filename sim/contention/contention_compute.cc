// SPDX-License-Identifier: Apache-2.0
// Compute of the contention engine: threads inside a pass, and ops that communication slows.
//
// Without interference an instruction of compute is arithmetic: a chain of 1, 2 and 3 ms on a
// stream that is free at 10 ms, launched in time, ends at 16 ms (run_chain), and the thread goes on
// to what comes after without the clock having moved.
//
// With interference the end depends on what other ranks will send here.  Suppose that compute takes
// 1.25 times as long beside communication, and that an op of 8 ms starts at 0.  Its progress is
// counted in units that pass at a rate of 1.25 a millisecond alone and of 1 beside communication,
// so it needs 10 of them:
//
//     0 ms    it starts alone: 10 / 1.25, so its end is put among the events at 8 ms
//     4 ms    a transfer begins.  5 units have passed, 5 are left at the rate 1: the end is at
//             9 ms, and the event at 8 ms is void, because its version is out of date
//     7 ms    the transfer ends.  3 more units have passed, 2 are left: the end is at 8.6 ms
//     8.6 ms  the event is true: the op has ended, and its thread wakes
//
// A thread therefore starts a chain only when the clock has reached its begin, and sleeps until the
// event of its end (run_slowed_chain).  What begins and ends at one moment only marks ranks and
// transfers as dirty; settle() gives each of them its new rate and end once, after everything at
// that moment has happened.  An op that starts where its predecessor ended starts at the exact
// progress at which that ended, not at the rounded time, so that chains may be merged.

#include <algorithm>

#include "sim/contention/contention_engine.h"
#include "sim/contention/slowing.h"
#include "sim/lanes/lane_program.h"

namespace stepcast::contention {
LivePass& Engine::enter(Block& block, uint32_t item, const PassThreads& pass) {
  LivePass* place = nullptr;
  for (LivePass& live : block.passes) {
    if (live.item == item) return live;
    if (live.item == kNone) place = &live;
  }
  LivePass& live = place != nullptr ? *place : block.passes.emplace_back();
  live.item = item;
  live.rest = nullptr;
  live.threads = 0;
  for (uint32_t i = block.first_thread; i < block.end_thread; ++i) {
    if (!pass.code[threads_[i].code].empty()) ++live.threads;
  }
  live.known.clear();
  live.waiters.clear();
  live.straggler.clear();
  return live;
}

// Slots of a pass are made when an instruction first names them: of most passes whose ranks meet
// few are.
void Engine::make_slots(LivePass& live, const ThreadInstruction& in) const {
  const auto needed = static_cast<size_t>(std::max(in.start_slot, in.end_slot) + 1);
  if (needed <= live.known.size()) return;
  if (live.slots.size() < needed * block_lanes_) live.slots.resize(needed * block_lanes_);
  live.known.resize(needed, 0);
  live.waiters.resize(needed, kNone);
  if (recorded_ >= 0) live.straggler.resize(needed);
}

// Its memory is used again.
void Engine::leave(LivePass& live) {
  if (--live.threads == 0) live.item = kNone;
}

// A lane of a block that runs its passes as a whole: the last one to come lets the pass begin.
bool Engine::meet_at_pass(Block& block, Thread& th, uint32_t item) {
  if (th.state == 1) {
    th.state = 0;
    return true;
  }
  if (!knows_host(block, th, program_.roles[block.role].segment[item]))
    return sleep(th, block.host_waiters);
  th.state = 1;
  if (++block.arrived == block_lanes_) ready_.push_back(block.pass_thread);
  return sleep(th, block.pass_waiters);
}

bool Engine::run_pass(Block& block, Thread& th, uint32_t item) {
  // Its lanes come to the next pass by themselves.
  if (th.list == kPasses && block.arrived < block_lanes_) return false;
  const RoleThreads& role = program_.roles[block.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(block, th, segment)) return sleep(th, block.host_waiters);
  const PassId id = graph_.roles[block.role].items[item].pass;
  const PassThreads& pass = program_.passes[static_cast<size_t>(id)];
  const std::vector<ThreadInstruction>& code = pass.code[th.code];
  const bool alone = th.code == kLockstep && pass.closed;
  const Place at{
      block,
      th,
      pass,
      id,
      alone ? closed_ : enter(block, item, pass),
      &block.host[segment * block_lanes_],
      role.launched[item],
      role.instances[item],
      records(block, th),
      undisturbed_ && undisturbed_->is_undisturbed(block.role, item) && has_equal_ranks(block)};
  for (; th.pc < code.size() && at.live.rest == nullptr; ++th.pc) {
    if (!run_instruction(at, code[th.pc])) return false;
  }
  if (at.live.rest != nullptr) end_as_met(at);
  for (size_t s = 0; s < kStreams; ++s) {
    if (s != th.code && (th.code != kLockstep || !lockstep_[s])) continue;
    for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
      if (block.time[s * block_lanes_ + l] > kLongestLaneTime) throw_step_too_long();
    }
  }
  th.pc = 0;
  if (!alone) leave(at.live);
  if (th.list == kPasses) {
    block.arrived = 0;
    wake(block.pass_waiters);
  }
  return true;
}

bool Engine::run_instruction(const Place& at, const ThreadInstruction& in) {
  Thread& th = at.th;
  turns_ += 1 + th.lanes / kLanesOfATurn;
  make_slots(at.live, in);
  const size_t stream = in.stream;
  switch (in.code) {
    case ThreadCode::watch:
      if (const auto slot = static_cast<size_t>(in.end_slot);
          (th.mask() & ~at.live.known[slot]) != 0) {
        return sleep(th, at.live.waiters[slot]);
      }
      [[fallthrough]];
    case ThreadCode::wait: {
      const auto slot = static_cast<size_t>(in.end_slot);
      const int64_t before = at.recorded ? recorded_time(at.block, stream) : 0;
      raise(at.block, th, stream, &at.live.slots[slot * block_lanes_], in.ps * kNominal);
      if (at.recorded && stream == kCompute) {
        const int64_t after = recorded_time(at.block, kCompute);
        const int64_t waited =
            std::clamp(after - in.ps * kNominal, before, std::max(before, after));
        record_->book_wait(at.block.role, at.pass.slot_spend[slot], before, waited,
                           at.live.straggler[slot]);
        record_->book_wait(at.block.role, Spend::launch, waited, after, {});
      }
      return true;
    }
    case ThreadCode::compute:
      if (!coupled_) {
        run_chain(at, in);
      } else if (precedes_meeting(at, in)) {
        run_undisturbed_chain(at, in);
      } else if (!run_slowed_chain(at, in)) {
        return false;
      }
      break;
    case ThreadCode::fixed: run_chain(at, in); break;
    case ThreadCode::collective:
      if (own_[at.block.role][in.work] != Scope::outside) {
        run_own_collective(at, in);
      } else if (!run_collective(at, in)) {
        return false;
      }
      break;
  }
  if (in.end_slot >= 0) {
    const auto slot = static_cast<size_t>(in.end_slot);
    std::copy_n(&at.block.time[stream * block_lanes_ + th.lane], th.lanes,
                &at.live.slots[slot * block_lanes_ + th.lane]);
    mark(at, stream, slot);
  }
  return true;
}

// The lanes of the thread are known in the slot.
void Engine::mark(const Place& at, size_t stream, size_t slot) {
  if (at.recorded) at.live.straggler[slot] = role_records_[at.block.role].straggler[stream];
  at.live.known[slot] |= at.th.mask();
  wake(at.live.waiters[slot]);
}

void Engine::book_start(const Place& at, uint32_t lane, int64_t time) {
  int64_t& first = first_start_[at.block.role * width_ + at.block.lane + lane];
  if (first == kUnknown) first = time;
}

// A chain of compute that nothing slows.  Where the host is ahead of the stream all along, the
// chain is one addition.
void Engine::run_chain(const Place& at, const ThreadInstruction& in) {
  const Thread& th = at.th;
  const ThreadOp* const ops = &at.pass.ops[in.first];
  const int64_t first = at.launched + ops[0].launched;
  const int64_t last = at.launched + ops[in.count - 1].launched;
  const Slowness* const slowness = &slowness_[at.block.role * width_ + at.block.lane];
  int64_t* const times = &at.block.time[in.stream * block_lanes_];
  const bool recorded = (in.stream == kCompute || ops_) && at.recorded;
  const int64_t before = recorded ? recorded_time(at.block, in.stream) : 0;
  const bool is_first = in.stream == kCompute &&
                        first_start_[at.block.role * width_ + at.block.lane + th.lane] == kUnknown;
  for (uint32_t l = th.lane; l < th.lane + th.lanes && (is_first || in.start_slot >= 0); ++l) {
    const int64_t start = std::max(times[l], at.host[l] + first);
    if (is_first) book_start(at, l, start);
    if (in.start_slot >= 0)
      at.live.slots[static_cast<size_t>(in.start_slot) * block_lanes_ + l] = start;
  }
  int64_t ran = 0;  // of the recorded lane
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    int64_t busy = in.ps * slowness[l];
    if (is_uneven(at.block.role * width_ + at.block.lane + l)) {
      busy = run_ops(at, in, l);
    } else if (at.host[l] + last <= times[l]) {
      times[l] += busy;
    } else {
      int64_t time = times[l];
      for (uint32_t i = 0; i < in.count; ++i) {
        const int64_t launched = at.host[l] + at.launched + ops[i].launched;
        time = std::max(time, launched) + ops[i].ps * slowness[l];
      }
      times[l] = time;
    }
    if (at.block.lane + l == recorded_) ran = busy;
  }
  if (recorded) book_chain(at, in, before, ran);
  if (in.start_slot >= 0) mark(at, in.stream, static_cast<size_t>(in.start_slot));
}

// One by one, for each has its own slowness.  Returns the time in which one ran.
int64_t Engine::run_ops(const Place& at, const ThreadInstruction& in, uint32_t lane) {
  const uint32_t rank = at.block.role * width_ + at.block.lane + lane;
  int64_t& time = at.block.time[in.stream * block_lanes_ + lane];
  int64_t ran = 0;
  for (uint32_t i = in.first; i < in.first + in.count; ++i) {
    const ThreadOp& op = at.pass.ops[i];
    const int64_t begin = std::max(time, at.host[lane] + at.launched + op.launched);
    time = end_of_op(at, rank, op, begin);
    ran += time - begin;
  }
  return ran;
}

// --- collectives --------------------------------------------------------------------------------

// A collective among the lanes of the block, on links that no other rank uses.
void Engine::run_own_collective(const Place& at, const ThreadInstruction& in) {
  const Thread& th = at.th;
  const int64_t launched = at.launched + at.pass.ops[in.first].launched;
  const uint32_t together = own_[at.block.role][in.work] == Scope::block ? block_lanes_ : 1;
  int64_t* const times = &at.block.time[in.stream * block_lanes_];
  const Axis axis = graph_.works[in.work].axis;
  const bool has_classes = !lanes_.group_class[static_cast<size_t>(axis)].empty();
  std::vector<LaneSpan> spans;
  for (uint32_t first = th.lane; first < th.lane + th.lanes; first += together) {
    const bool recorded =
        recorded_ >= at.block.lane + first && recorded_ < at.block.lane + first + together;
    const int64_t before = recorded ? recorded_time(at.block, in.stream) : 0;
    int64_t begin = kUnknown;
    for (uint32_t l = first; l < first + together; ++l) {
      begin = std::max({begin, times[l], at.host[l] + launched});
    }
    const uint8_t link_class =
        has_classes ? class_of(at.block.role, in.work, at.block.lane + first) : 0;
    spans.clear();
    for (uint32_t l = first; l < first + together && !lanes_.windows.empty(); ++l) {
      add_link_spans(axis, at.block.role, at.block.lane + l, spans);
    }
    const int64_t end = priced_end(begin, in.work, link_class, spans);
    for (uint32_t l = first; l < first + together; ++l) {
      if (in.stream == kCompute) book_start(at, l, begin);
      if (in.start_slot >= 0) {
        at.live.slots[static_cast<size_t>(in.start_slot) * block_lanes_ + l] = begin;
      }
      times[l] = end;
    }
    if (recorded) {
      const size_t lane = static_cast<size_t>(recorded_) - at.block.lane;
      book_collective(at, in, before, std::max(before, at.host[lane] + launched), begin);
    }
  }
  if (in.start_slot >= 0) mark(at, in.stream, static_cast<size_t>(in.start_slot));
}

// One lane at a collective with lanes of other blocks, or on links that other ranks use.
bool Engine::run_collective(const Place& at, const ThreadInstruction& in) {
  Thread& th = at.th;
  const uint32_t group =
      groups_[static_cast<size_t>(graph_.works[in.work].axis)].of[at.block.lane + th.lane];
  Occurrence& occurrence = occurrence_of_collective(at.block, th, in, group);
  Arrivals& arrivals = occurrence.of(group);
  int64_t& time = at.block.time[in.stream * block_lanes_ + th.lane];
  const int64_t launched = at.host[th.lane] + at.launched + at.pass.ops[in.first].launched;
  if (th.state == 0) {
    if (meets(at, in, occurrence, group, std::max(time, launched))) return true;
    th.state = 1;
    arrive(occurrence, group, std::max(time, launched));
  }
  if (th.state == 1 && in.start_slot >= 0) {
    if (!is_complete(occurrence, group)) return sleep(th, arrivals.first_waiter);
    th.state = 2;
    at.live.slots[static_cast<size_t>(in.start_slot) * block_lanes_ + th.lane] = arrivals.begin;
    mark(at, in.stream, static_cast<size_t>(in.start_slot));
  }
  if (arrivals.end == kUnknown) return sleep(th, arrivals.first_waiter);
  if (in.stream == kCompute) book_start(at, th.lane, arrivals.begin);
  const int64_t before = time;
  time = arrivals.end;
  if (at.recorded) book_collective(at, in, before, std::max(before, launched), arrivals.begin);
  if (coupled_ && in.stream == kCompute)
    ranks_[at.block.role * width_ + at.block.lane].exact = false;
  th.state = 0;
  ++(coupled_ && scopes_[in.work] != Scope::outside ? th.tp_sequence : th.sequence);
  visit(occurrence, 1);
  return true;
}

// -------------------------------------------------------------------------------------------------
// Interference: compute and communication that slow each other.

void Engine::advance_progress(Rank& rank) const {
  rank.progress += Wide{now_ - rank.last} * (rank.slow ? kNominal : slow_compute_);
  rank.last = now_;
}

void Engine::mark_dirty(uint32_t rank) {
  if (ranks_[rank].dirty) return;
  ranks_[rank].dirty = true;
  dirty_ranks_.push_back(rank);
}

void Engine::mark_transfer_dirty(uint32_t transfer) {
  if (transfers_[transfer].dirty) return;
  transfers_[transfer].dirty = true;
  dirty_transfers_.push_back(transfer);
}

// Everything that could happen at this moment has: new rates, new ends.
void Engine::settle() {
  for (const uint32_t id : dirty_ranks_) settle_rank(id);
  dirty_ranks_.clear();
  for (const uint32_t id : dirty_transfers_) settle_transfer(id);
  dirty_transfers_.clear();
}

void Engine::settle_rank(uint32_t id) {
  Rank& rank = ranks_[id];
  rank.dirty = false;
  settle_pace(
      rank, !rank.transfers.empty(), [&](Rank& of) { advance_progress(of); },
      [&](uint32_t by) {
        for (const uint32_t transfer : rank.transfers) {
          transfers_[transfer].busy += by;
          mark_transfer_dirty(transfer);
        }
      });
  if (rank.runs && rank.restarted) {
    advance_progress(rank);
    const Wide rate = rank.slow ? kNominal : slow_compute_;
    const Wide time = (rank.target - rank.progress + rate - 1) / rate;
    push(rank.last + static_cast<int64_t>(time), EventKind::compute_end, id, ++rank.version);
  }
  rank.restarted = false;
}

void Engine::settle_transfer(uint32_t id) {
  Transfer& transfer = transfers_[id];
  transfer.dirty = false;
  if (transfer.known_end != kUnknown) return;
  const bool slowed = transfer.busy > 0;
  if (!transfer.on || (slowed == transfer.slowed && !transfer.restarted)) return;
  const Wide rate_before = transfer.slowed ? kNominal : slow_communication_;
  const bool changes = slowed != transfer.slowed;
  transfer.slowed = slowed;
  transfer.restarted = false;
  if (transfer.flows) {
    if (transfer.moving && changes) {
      network_.set_cap(now_, transfer.flow, slowed ? slowed_cap(transfer) : transfer.cap);
    }
    return;
  }
  transfer.left -= rate_before * (now_ - transfer.last);
  transfer.last = now_;
  const Wide rate = slowed ? kNominal : slow_communication_;
  push(now_ + static_cast<int64_t>((transfer.left + rate - 1) / rate), EventKind::transfer_end, id,
       ++transfer.version);
  push_next_window(id, now_);
}

// --- passes that nothing disturbs ---------------------------------------------------------------

// As priced, all ranks of its tp group; and none is recorded, for that takes every op.
bool Engine::has_equal_ranks(const Block& block) const {
  return equal_[block.role * width_ + block.lane];
}

// Is it compute before the ranks of the tp group meet?
bool Engine::precedes_meeting(const Place& at, const ThreadInstruction& in) const {
  return at.undisturbed && at.pass.ops[in.first].index < undisturbed_->meeting(at.id).op;
}

// Compute that is beside nothing.  What it takes is whole, so a fraction that the stream has from
// before stays as it is until an op starts for another reason than that its predecessor has ended.
void Engine::run_undisturbed_chain(const Place& at, const ThreadInstruction& in) {
  const uint32_t id = at.block.role * width_ + at.block.lane;
  Rank& rank = ranks_[id];
  int64_t& time = at.block.time[kCompute * block_lanes_ + at.th.lane];
  advance_progress(rank);
  const auto progress_at = [&](int64_t moment) {
    return rank.progress + Wide{moment - now_} * slow_compute_;
  };
  Wide over = rank.exact ? progress_at(time) - rank.exact_end : 0;
  for (uint32_t i = in.first; i < in.first + in.count; ++i) {
    const ThreadOp& op = at.pass.ops[i];
    const int64_t launched = at.host[0] + at.launched + op.launched;
    if (launched >= time) over = 0;
    time = std::max(time, launched);
    book_start(at, 0, time);
    if (i == in.first && in.start_slot >= 0)
      at.live.slots[static_cast<size_t>(in.start_slot)] = time;
    time += op.ps * kNominal;
    if (time > kLongestLaneTime) throw_step_too_long();
  }
  rank.exact = true;
  rank.exact_end = progress_at(time) - over;
  if (in.start_slot >= 0) mark(at, kCompute, static_cast<size_t>(in.start_slot));
}

// The rank would be at the collective at `time`.  If it is the last one of an undisturbed pass to
// come to the meeting, all of them end the pass as one by itself would from that moment on.
bool Engine::meets(const Place& at, const ThreadInstruction& in, const Occurrence& occurrence,
                   uint32_t group, int64_t time) {
  if (!at.undisturbed || at.pass.ops[in.first].index != undisturbed_->meeting(at.id).op)
    return false;
  const Arrivals& arrivals = occurrence.of(group);
  const std::span<const uint32_t> lanes = groups_of(occurrence).lanes_of(group);
  if (arrivals.arrived + 1 < lanes.size()) return false;
  const int64_t begin = std::max(arrivals.begin, time);
  const uint32_t item = program_.roles[at.block.role].items[at.th.list][at.th.at];
  const uint32_t segment = program_.roles[at.block.role].segment[item];
  const bool compute_waits = undisturbed_->meeting(at.id).compute_waits;
  int64_t first_host = INT64_MAX, host = kUnknown, over = -1;
  bool have_started = true;
  for (const uint32_t lane : lanes) {
    Block& block = blocks_[at.block.role * width_ + lane];
    Rank& rank = ranks_[at.block.role * width_ + lane];
    first_host = std::min(first_host, block.host[segment]);
    host = std::max(host, block.host[segment]);
    have_started = have_started && first_start_[at.block.role * width_ + lane] != kUnknown;
    if (!waits_for_meeting(block, item, in)) return false;
    const int64_t ended = block.time[kCompute];
    if (compute_waits ? ended > begin : ended != begin || begin <= now_ || !rank.exact)
      return false;
    if (compute_waits) continue;
    advance_progress(rank);
    const Wide more = rank.progress + Wide{begin - now_} * slow_compute_ - rank.exact_end;
    if (lane != lanes.front() && more != over) return false;
    over = static_cast<int64_t>(more);
  }
  const int64_t before = at.launched - begin;
  const LonePassEnd* const rest =
      undisturbed_->after_meeting(at.id, first_host + before, host + before, over);
  if (rest == nullptr) return false;
  // `first_start` of what follows is that of the rank whose host came last.  Whose came earlier may
  // have started earlier, so each must have a first start from before.
  if (rest->launch_mattered && first_host < host && !have_started) return false;
  ++passes_at_once_;
  for (const uint32_t lane : lanes) {
    Block& block = blocks_[at.block.role * width_ + lane];
    LivePass& live = *std::ranges::find(block.passes, item, &LivePass::item);
    live.rest = rest;
    live.met = begin;
    shared_ops_ += rest->collectives * stands_for_[lane];
    make_slots(live, in);
    if (compute_waits && in.end_slot >= 0) wake(live.waiters[static_cast<size_t>(in.end_slot)]);
    if (!undisturbed_->meeting(at.id).on_two_streams) {
      for (uint32_t& waiters : live.waiters) wake(waiters);
    }
  }
  const uint32_t id = occurrence.id;
  wake(occurrences_[id].of(group).first_waiter);
  visit(occurrences_[id], std::ssize(lanes) + 1);
  return true;
}

// Has compute of the rank stopped in the pass, where it waits for the end of that collective, or
// before the op that goes on beside it; or come past the pass, if it has no more of it?
bool Engine::waits_for_meeting(const Block& block, uint32_t item,
                               const ThreadInstruction& meeting) const {
  const PassId id = graph_.roles[block.role].items[item].pass;
  const std::vector<ThreadInstruction>& code =
      program_.passes[static_cast<size_t>(id)].code[kCompute];
  for (uint32_t i = block.first_thread; i < block.end_thread; ++i) {
    const Thread& th = threads_[i];
    if (th.code != kCompute) continue;
    const std::vector<uint32_t>& items = program_.roles[block.role].items[th.list];
    if (!undisturbed_->meeting(id).uses[kCompute])
      return th.at == items.size() || items[th.at] >= item;
    if (th.at == items.size() || items[th.at] != item || th.pc == code.size()) return false;
    const ThreadInstruction& next = code[th.pc];
    if (!undisturbed_->meeting(id).compute_waits)
      return next.code == ThreadCode::compute && th.state == 0 && th.ops == 0;
    return next.code == ThreadCode::watch && next.end_slot == meeting.end_slot;
  }
  return false;
}

// The thread leaves the pass, whose ranks have met.
void Engine::end_as_met(const Place& at) {
  Thread& th = at.th;
  const LonePassEnd& rest = *at.live.rest;
  const PassMeeting& meeting = undisturbed_->meeting(at.id);
  const size_t stream = th.code;
  int64_t& time = at.block.time[stream * block_lanes_ + th.lane];
  if (meeting.uses[stream]) time = at.live.met + rest.time[stream];
  if (stream == kCompute && meeting.uses[stream]) {
    Rank& rank = ranks_[at.block.role * width_ + at.block.lane];
    advance_progress(rank);
    rank.exact = rest.over >= 0;
    rank.exact_end = rank.progress + Wide{time - now_} * slow_compute_ - rest.over;
    if (rest.first_start != kUnknown) book_start(at, 0, at.live.met + rest.first_start);
  }
  if (meeting.stream == stream) ++th.tp_sequence;
  th.state = 0;
  th.ops = 0;
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
  int64_t& time = at.block.time[kCompute * block_lanes_ + th.lane];
  if (th.state == 2) {
    th.state = 0;
    time = now_;
    if (at.recorded) book_slowed(at, in);
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
  int64_t& time = at.block.time[kCompute * block_lanes_ + th.lane];
  const uint32_t id = at.block.role * width_ + at.block.lane;
  Rank& rank = ranks_[id];
  const ThreadOp* const ops = &at.pass.ops[in.first];
  const auto launched = [&](uint32_t i) { return at.host[0] + at.launched + ops[i].launched; };
  advance_progress(rank);
  const bool goes_on = rank.exact && time == now_ && launched(th.ops) < now_;
  const Wide begin = goes_on ? rank.exact_end : rank.progress;
  if (th.ops == 0) {
    book_start(at, 0, start);
    if (in.start_slot >= 0) {
      at.live.slots[static_cast<size_t>(in.start_slot)] = start;
      mark(at, kCompute, static_cast<size_t>(in.start_slot));
    }
  }
  // A launch at this very moment counts as one that an op has to wait for.
  const int64_t before = begin == rank.progress ? now_ + 1 : now_;
  if (at.recorded) record_->book(at.block.role, Spend::launch, start - time);
  rank.begin = start;
  rank.first_op = th.ops;
  if (is_uneven(id)) {
    start_uneven_op(at, in, begin);
    if (ops_ && at.recorded && th.state != 1) book_op(at, in.first, now_, now_);
    return;
  }
  int64_t ps = 0;
  const bool host_is_ahead =
      launched(in.count - 1) < before ||
      (slowness_[id] >= kNominal && at.host[0] + at.launched + in.late < start);
  if (th.ops == 0 && host_is_ahead) {
    ps = in.ps;
    th.ops = in.count;
  } else {
    ps = ops[th.ops++].ps;
    for (; th.ops < in.count && launched(th.ops) < before; ++th.ops) ps += ops[th.ops].ps;
  }
  run_until(at, begin + Wide{ps} * slowness_[id] * slow_compute_);
  if (ops_ && at.recorded && th.state != 1) book_op(at, in.first, now_, now_);
}

// One op by itself: its speed may change while it runs, and the next has another.
void Engine::start_uneven_op(const Place& at, const ThreadInstruction& in, Wide begin) {
  const uint32_t id = at.block.role * width_ + at.block.lane;
  Rank& rank = ranks_[id];
  const ThreadOp& op = at.pass.ops[in.first + at.th.ops++];
  rank.factor = factor_of(at, id, op);
  rank.pace = rank.first_pace = jittered(slowness_now(id), rank.factor);
  run_until(at, begin + Wide{op.ps} * rank.pace * slow_compute_);
}

void Engine::run_until(const Place& at, Wide target) {
  Thread& th = at.th;
  const uint32_t id = at.block.role * width_ + at.block.lane;
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
  at.block.time[kCompute * block_lanes_ + th.lane] = now_;
}

}  // namespace stepcast::contention
