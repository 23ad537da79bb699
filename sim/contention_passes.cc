// SPDX-License-Identifier: Apache-2.0
// Threads of the contention engine inside a pass, instruction by instruction.
#include <algorithm>

#include "sim/contention_engine.h"
#include "sim/lane_program.h"

namespace stepcast::contention {
namespace {

constexpr auto kCompute = static_cast<size_t>(Stream::compute);

}  // namespace

LivePass& Engine::enter(Actor& a, uint32_t item, const PassThreads& pass) {
  LivePass* place = nullptr;
  for (LivePass& live : a.passes) {
    if (live.item == item) return live;
    if (live.item == kNone) place = &live;
  }
  LivePass& live = place != nullptr ? *place : a.passes.emplace_back();
  live.item = item;
  live.threads = 0;
  for (uint32_t i = a.first_thread; i < a.end_thread; ++i) {
    if (!pass.code[threads_[i].code].empty()) ++live.threads;
  }
  live.slots.resize(size_t{pass.slots} * block_);
  live.known.assign(pass.slots, 0);
  live.waiters.assign(pass.slots, kNone);
  if (recorded_ >= 0) live.straggler.assign(pass.slots, {});
  return live;
}

// Its memory is used again.
void Engine::leave(LivePass& live) {
  if (--live.threads == 0) live.item = kNone;
}

bool Engine::run_pass(Actor& a, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[a.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(a, th, segment)) return sleep(th, a.host_waiters);
  const PassThreads& pass =
      program_.passes[static_cast<size_t>(graph_.roles[a.role].items[item].pass)];
  const std::vector<ThreadInstruction>& code = pass.code[th.code];
  const bool alone = th.code == kStrand && pass.closed;
  const Place at{a,
                 th,
                 pass,
                 alone ? closed_ : enter(a, item, pass),
                 &a.host[segment * block_],
                 role.launched[item],
                 role.instances[item],
                 records(a, th)};
  for (; th.pc < code.size(); ++th.pc) {
    if (!run_instruction(at, code[th.pc])) return false;
  }
  for (size_t s = 0; s < kStreams; ++s) {
    if (s != th.code && (th.code != kStrand || !strand_[s])) continue;
    for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
      if (a.time[s * block_ + l] > kLongestLaneTime) throw_step_too_long();
    }
  }
  th.pc = 0;
  if (!alone) leave(at.live);
  return true;
}

bool Engine::run_instruction(const Place& at, const ThreadInstruction& in) {
  Thread& th = at.th;
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
      const int64_t before = at.noted ? recorded_time(at.a, stream) : 0;
      raise(at.a, th, stream, &at.live.slots[slot * block_], in.ps * kOne);
      if (at.noted && stream == kCompute) {
        const int64_t after = recorded_time(at.a, kCompute);
        const int64_t waited = std::clamp(after - in.ps, before, std::max(before, after));
        record_->note_wait(at.a.role, at.pass.slot_spend[slot], before, waited,
                           at.live.straggler[slot]);
        record_->note_wait(at.a.role, Spend::launch, waited, after, {});
      }
      return true;
    }
    case ThreadCode::compute:
      if (!coupled_) {
        run_chain(at, in);
      } else if (!run_slowed_chain(at, in)) {
        return false;
      }
      break;
    case ThreadCode::fixed: run_chain(at, in); break;
    case ThreadCode::talk:
      if (own_[at.a.role][in.work] != TalkKind::others) {
        run_own_talk(at, in);
      } else if (!run_talk(at, in)) {
        return false;
      }
      break;
  }
  if (in.end_slot >= 0) {
    const auto slot = static_cast<size_t>(in.end_slot);
    std::copy_n(&at.a.time[stream * block_ + th.lane], th.lanes,
                &at.live.slots[slot * block_ + th.lane]);
    mark(at, stream, slot);
  }
  return true;
}

// The lanes of the thread are known in the slot.
void Engine::mark(const Place& at, size_t stream, size_t slot) {
  if (at.noted) at.live.straggler[slot] = role_records_[at.a.role].straggler[stream];
  at.live.known[slot] |= at.th.mask();
  wake(at.live.waiters[slot]);
}

void Engine::note_start(const Place& at, uint32_t lane, int64_t time) {
  int64_t& first = first_start_[at.a.role * width_ + at.a.lane + lane];
  if (first == kUnknown) first = time;
}

// A chain of compute that nothing slows.  Where the host is ahead of the stream all along, the
// chain is one addition.
void Engine::run_chain(const Place& at, const ThreadInstruction& in) {
  const Thread& th = at.th;
  const ThreadOp* const ops = &at.pass.ops[in.first];
  const int64_t first = at.launched + ops[0].launched;
  const int64_t last = at.launched + ops[in.count - 1].launched;
  const Slowness* const slowness = &slowness_[at.a.role * width_ + at.a.lane];
  int64_t* const times = &at.a.time[in.stream * block_];
  const bool noted = (in.stream == kCompute || ops_) && at.noted;
  const int64_t before = noted ? recorded_time(at.a, in.stream) : 0;
  const bool is_first =
      in.stream == kCompute && first_start_[at.a.role * width_ + at.a.lane + th.lane] == kUnknown;
  for (uint32_t l = th.lane; l < th.lane + th.lanes && (is_first || in.start_slot >= 0); ++l) {
    const int64_t start = std::max(times[l], at.host[l] + first);
    if (is_first) note_start(at, l, start);
    if (in.start_slot >= 0) at.live.slots[static_cast<size_t>(in.start_slot) * block_ + l] = start;
  }
  int64_t ran = 0;  // of the recorded lane
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    int64_t busy = in.ps * slowness[l];
    if (is_uneven(at.a.role * width_ + at.a.lane + l)) {
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
    if (at.a.lane + l == recorded_) ran = busy;
  }
  if (noted) note_chain(at, in, before, ran);
  if (in.start_slot >= 0) mark(at, in.stream, static_cast<size_t>(in.start_slot));
}

// One by one, for each has its own slowness.  Returns the time in which one ran.
int64_t Engine::run_ops(const Place& at, const ThreadInstruction& in, uint32_t lane) {
  const uint32_t rank = at.a.role * width_ + at.a.lane + lane;
  int64_t& time = at.a.time[in.stream * block_ + lane];
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

// Among the lanes of the block, on links nobody else uses.
void Engine::run_own_talk(const Place& at, const ThreadInstruction& in) {
  const Thread& th = at.th;
  const int64_t launched = at.launched + at.pass.ops[in.first].launched;
  const uint32_t together = own_[at.a.role][in.work] == TalkKind::block ? block_ : 1;
  int64_t* const times = &at.a.time[in.stream * block_];
  const Axis axis = graph_.works[in.work].axis;
  const bool has_classes = !lanes_.group_class[static_cast<size_t>(axis)].empty();
  std::vector<LaneSpan> spans;
  for (uint32_t first = th.lane; first < th.lane + th.lanes; first += together) {
    const bool noted = recorded_ >= at.a.lane + first && recorded_ < at.a.lane + first + together;
    const int64_t before = noted ? recorded_time(at.a, in.stream) : 0;
    int64_t begin = kUnknown;
    for (uint32_t l = first; l < first + together; ++l) {
      begin = std::max({begin, times[l], at.host[l] + launched});
    }
    const uint8_t link_class = has_classes ? class_of(at.a.role, in.work, at.a.lane + first) : 0;
    spans.clear();
    for (uint32_t l = first; l < first + together && !lanes_.windows.empty(); ++l) {
      add_link_spans(axis, at.a.role, at.a.lane + l, spans);
    }
    const int64_t end = priced_end(begin, in.work, link_class, spans);
    for (uint32_t l = first; l < first + together; ++l) {
      if (in.stream == kCompute) note_start(at, l, begin);
      if (in.start_slot >= 0) {
        at.live.slots[static_cast<size_t>(in.start_slot) * block_ + l] = begin;
      }
      times[l] = end;
    }
    if (noted) {
      const size_t lane = static_cast<size_t>(recorded_) - at.a.lane;
      note_talk(at, in, before, std::max(before, at.host[lane] + launched), begin);
    }
  }
  if (in.start_slot >= 0) mark(at, in.stream, static_cast<size_t>(in.start_slot));
}

// One lane at a collective with lanes of other blocks, or on links others use.
bool Engine::run_talk(const Place& at, const ThreadInstruction& in) {
  Thread& th = at.th;
  const auto source = static_cast<uint32_t>(at.a.role * kStreams + in.stream);
  Row& row = row_of_collective(source, th.sequence, in.work);
  const uint32_t group =
      groups_[static_cast<size_t>(graph_.works[in.work].axis)].of[at.a.lane + th.lane];
  Meeting& m = row.meetings[group];
  int64_t& time = at.a.time[in.stream * block_ + th.lane];
  const int64_t launched = at.host[th.lane] + at.launched + at.pass.ops[in.first].launched;
  if (th.state == 0) {
    th.state = 1;
    arrive(row, group, std::max(time, launched));
  }
  if (th.state == 1 && in.start_slot >= 0) {
    if (m.arrived < row.needed) return sleep(th, m.first_waiter);
    th.state = 2;
    at.live.slots[static_cast<size_t>(in.start_slot) * block_ + th.lane] = m.begin;
    mark(at, in.stream, static_cast<size_t>(in.start_slot));
  }
  if (m.end == kUnknown) return sleep(th, m.first_waiter);
  if (in.stream == kCompute) note_start(at, th.lane, m.begin);
  const int64_t before = time;
  time = m.end;
  if (at.noted) note_talk(at, in, before, std::max(before, launched), m.begin);
  if (coupled_ && in.stream == kCompute) ranks_[at.a.role * width_ + at.a.lane].exact = false;
  th.state = 0;
  ++th.sequence;
  visit(row, 1);
  return true;
}

}  // namespace stepcast::contention
