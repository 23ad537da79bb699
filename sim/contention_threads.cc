// SPDX-License-Identifier: Apache-2.0
// Threads of the contention engine: each runs as far as times are known.
#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/contention_engine.h"
#include "sim/lane_program.h"

namespace stepcast::contention {
namespace {

constexpr auto kCompute = static_cast<size_t>(Stream::compute);

}  // namespace

void Engine::advance(uint32_t id) {
  Actor& a = actors_[id];
  a.queued = false;
  do {
    moved_ = false;
    for (uint32_t i = 0; i < a.front; ++i) {
      if (a.threads[i].sleep == Sleep::awake) run_thread(a, a.threads[i]);
    }
    for (size_t i = a.front; i < a.threads.size() && a.awake_behind > 0; ++i) {
      if (a.threads[i].sleep == Sleep::awake) run_between(a, a.threads[i]);
    }
  } while (moved_);
}

void Engine::run_thread(Actor& a, Thread& th) {
  if (th.part == Part::passes) return run_together(a, th);
  const std::vector<uint32_t>& items = program_.roles[a.role].items[th.stream];
  for (; th.at < items.size(); ++th.at) {
    if (!run_item(a, th, items[th.at])) return;
    moved_ = true;
  }
  sleep(a, th, Sleep::others);
}

// One lane of a block, up to the next pass.
void Engine::run_between(Actor& a, Thread& th) {
  const std::vector<uint32_t>& items = program_.roles[a.role].items[th.stream];
  for (; th.at < items.size(); ++th.at) {
    if (graph_.roles[a.role].items[items[th.at]].kind == ItemKind::pass) break;
    if (!run_item(a, th, items[th.at])) return;
    moved_ = true;
  }
  sleep(a, th, Sleep::others);
  Thread& passes = a.threads[th.partner];
  if (++passes.gathered < passes.lanes) return;
  passes.at = th.at;
  passes.sleep = Sleep::awake;
  moved_ = true;
}

// A block through passes.
void Engine::run_together(Actor& a, Thread& th) {
  const std::vector<uint32_t>& items = program_.roles[a.role].items[th.stream];
  if (th.gathered == th.lanes) {
    while (th.at < items.size() &&
           graph_.roles[a.role].items[items[th.at]].kind == ItemKind::pass) {
      if (!run_item(a, th, items[th.at])) return;
      ++th.at;
      moved_ = true;
    }
    th.gathered = 0;
    for (uint32_t l = 0; l < th.lanes; ++l) {
      Thread& lane = a.threads[th.partner + l];
      lane.at = th.at;
      if (th.at < items.size()) wake_thread(a, lane);
    }
    moved_ = true;
  }
  sleep(a, th, Sleep::others);
}

void Engine::wake_thread(Actor& a, Thread& th) {
  if (th.sleep == Sleep::awake) return;
  th.sleep = Sleep::awake;
  if (th.part == Part::between) ++a.awake_behind;
}

bool Engine::run_item(Actor& a, Thread& th, uint32_t item) {
  if (!records(a, th)) return execute(a, th, item);
  note_item(a, th, item, false);
  if (!execute(a, th, item)) return false;
  note_item(a, th, item, true);
  return true;
}

bool Engine::execute(Actor& a, Thread& th, uint32_t item) {
  switch (graph_.roles[a.role].items[item].kind) {
    case ItemKind::pass: return run_pass(a, th, item);
    case ItemKind::post: return run_post(a, th, item);
    case ItemKind::join: return run_join(a, th, item);
    case ItemKind::record: run_record(a, th, item); return true;
    case ItemKind::wait: return run_wait(a, th, item);
    case ItemKind::sync: return run_sync(a, th, item);
  }
  return true;
}

bool Engine::knows_host(const Actor& a, const Thread& th, uint32_t segment) {
  for (uint32_t l = th.lane; l < th.lane + th.lanes && segment > 0; ++l) {
    if (a.segments[l] <= segment) return false;
  }
  return true;
}

// --- items --------------------------------------------------------------------------------------

bool Engine::run_post(Actor& a, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[a.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(a, th, segment)) return sleep(a, th, Sleep::host);
  const auto id = static_cast<uint32_t>(graph_.roles[a.role].items[item].rendezvous);
  Row& row = row_of_rendezvous(id);
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  const int64_t launched = (int64_t{role.launches[item]} + 1) * launch_;
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const int64_t host = a.host[segment * block_ + l] + launched;
    const int64_t time = std::max(a.time[th.stream * block_ + l], host);
    const uint32_t group = groups.of[a.lane + l];
    if (recorded_ >= 0 && group == groups.of[static_cast<size_t>(recorded_)]) {
      note_post(a, item, id, a.lane + l, time);
    }
    arrive(row, group, time);
  }
  visit(row, th.lanes);
  return true;
}

bool Engine::run_join(Actor& a, Thread& th, uint32_t item) {
  const bool is_host = th.stream == kStreams;
  const uint32_t segment = program_.roles[a.role].segment[item];
  if (is_host && !knows_host(a, th, segment)) return sleep(a, th, Sleep::host);
  const auto id = static_cast<uint32_t>(graph_.roles[a.role].items[item].rendezvous);
  Row& row = row_of_rendezvous(id);
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  const auto meeting = [&](uint32_t l) -> Meeting& { return row.meetings[groups.of[a.lane + l]]; };
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    if (meeting(l).end == kUnknown) return sleep_until_end(a, th, meeting(l));
  }
  const int64_t launched = int64_t{program_.roles[a.role].launches[item]} * launch_;
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const int64_t end = meeting(l).end;
    if (is_host) {
      a.host[(segment + 1) * block_ + l] = std::max(a.host[segment * block_ + l] + launched, end);
      a.segments[l] = segment + 2;
      continue;
    }
    int64_t& time = a.time[th.stream * block_ + l];
    if (a.lane + l == recorded_) note_join(a, item, meeting(l));
    if (end < time) continue;
    time = end;
    if (coupled_ && th.stream == kCompute) ranks_[a.role * width_ + a.lane].exact = false;
  }
  if (is_host) wake_inside(a, Sleep::host, 0);
  visit(row, th.lanes);
  return true;
}

void Engine::run_record(Actor& a, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[a.role];
  const uint32_t record = role.record[item];
  if (role.waits[record] == 0) return;
  auto it = std::ranges::find(a.events, record, &LiveEvent::record);
  if (it == a.events.end()) {
    it = std::ranges::find(a.events, kNone, &LiveEvent::record);  // its memory is used again
    if (it == a.events.end()) it = a.events.emplace(it);
    it->record = record;
    it->waits = role.waits[record] * block_;
    it->known = 0;
    it->time.resize(block_);
  }
  std::copy_n(&a.time[th.stream * block_ + th.lane], th.lanes, &it->time[th.lane]);
  it->known |= th.mask();
  if (records(a, th)) it->straggler = role_records_[a.role].straggler[th.stream];
  wake_inside(a, Sleep::event, record);
}

bool Engine::run_wait(Actor& a, Thread& th, uint32_t item) {
  const uint32_t record = program_.roles[a.role].record[item];
  if (record == RoleThreads::kNone) return true;
  const auto it = std::ranges::find(a.events, record, &LiveEvent::record);
  if (it == a.events.end() || (th.mask() & ~it->known) != 0) {
    return sleep(a, th, Sleep::event, record);
  }
  if (records(a, th) && th.stream == kCompute) {
    record_->event_wait(a.role, graph_.roles[a.role].items[item], item, recorded_time(a, kCompute),
                        it->time[static_cast<size_t>(recorded_) - a.lane], it->straggler);
  }
  raise(a, th, it->time.data(), 0);
  it->waits -= th.lanes;
  if (it->waits == 0) it->record = kNone;
  return true;
}

bool Engine::run_sync(Actor& a, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[a.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(a, th, segment)) return sleep(a, th, Sleep::host);
  const int64_t launched = int64_t{role.launches[item]} * launch_;
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    a.host[(segment + 1) * block_ + l] =
        std::max(a.host[segment * block_ + l] + launched, a.time[th.stream * block_ + l]);
    a.segments[l] = segment + 2;
  }
  wake_inside(a, Sleep::host, 0);
  return true;
}

// --- passes -------------------------------------------------------------------------------------

LivePass& Engine::enter(Actor& a, uint32_t item, const PassThreads& pass) {
  LivePass* place = nullptr;
  for (LivePass& live : a.passes) {
    if (live.item == item) return live;
    if (live.item == kNone) place = &live;
  }
  LivePass& live = place != nullptr ? *place : a.passes.emplace_back();
  live.item = item;
  live.threads = 0;
  for (uint32_t i = 0; i < a.front; ++i) {
    const size_t stream = a.threads[i].stream;
    if (stream < kStreams && !pass.code[stream].empty()) ++live.threads;
  }
  live.slots.resize(size_t{pass.slots} * block_);
  live.known.assign(pass.slots, 0);
  live.watched.assign(pass.slots, 0);
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
  if (!knows_host(a, th, segment)) return sleep(a, th, Sleep::host);
  const PassThreads& pass =
      program_.passes[static_cast<size_t>(graph_.roles[a.role].items[item].pass)];
  const std::vector<ThreadInstruction>& code = pass.code[th.stream];
  const Place at{a,
                 th,
                 pass,
                 enter(a, item, pass),
                 &a.time[th.stream * block_],
                 &a.host[segment * block_],
                 int64_t{role.launches[item]} * launch_};
  while (th.pc < code.size()) {
    if (!run_instruction(at, code[th.pc])) return false;
    ++th.pc;
    moved_ = true;
  }
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    if (at.time[l] > kLongestLaneTime) throw_step_too_long();
  }
  th.pc = 0;
  leave(at.live);
  return true;
}

bool Engine::run_instruction(const Place& at, const ThreadInstruction& in) {
  const Thread& th = at.th;
  switch (in.code) {
    case ThreadCode::wait: {
      const auto slot = static_cast<size_t>(in.end_slot);
      if ((th.mask() & ~at.live.known[slot]) != 0) {
        at.live.watched[slot] = 1;
        return sleep(at.a, at.th, Sleep::slot, static_cast<uint32_t>(slot));
      }
      const int64_t before = records(at.a, th) ? recorded_time(at.a, th.stream) : 0;
      raise(at.a, th, &at.live.slots[slot * block_], in.ps * kOne);
      if (records(at.a, th) && th.stream == kCompute) {
        record_->note_wait(at.a.role, at.pass.slot_spend[slot], before,
                           recorded_time(at.a, kCompute), at.live.straggler[slot]);
      }
      return true;
    }
    case ThreadCode::compute:
      if (coupled_ ? !run_slowed_chain(at, in) : !run_chain(at, in)) return false;
      break;
    case ThreadCode::fixed:
      if (!run_chain(at, in)) return false;
      break;
    case ThreadCode::talk:
      if (own_[at.a.role][in.work] == TalkKind::others ? !run_talk(at, in) : !run_own_talk(at, in))
        return false;
      break;
  }
  if (in.end_slot >= 0) {
    const auto slot = static_cast<size_t>(in.end_slot);
    std::copy_n(at.time + th.lane, th.lanes, &at.live.slots[slot * block_ + th.lane]);
    mark(at, slot);
  }
  return true;
}

bool Engine::sleep(Actor& a, Thread& th, Sleep why, uint32_t on) {
  if (th.part == Part::between) --a.awake_behind;
  th.sleep = why;
  th.sleeps_for = on;
  return false;
}

bool Engine::sleep_until_end(Actor& a, Thread& th, Meeting& m) {
  const auto actor = static_cast<uint32_t>(&a - actors_.data());
  const auto number = static_cast<uint32_t>(&th - a.threads.data());
  th.next_waiter = std::exchange(m.first_waiter, actor * most_threads_ + number);
  return sleep(a, th, Sleep::meeting);
}

// Wakes threads of the actor, which is running or about to.
void Engine::wake_inside(Actor& a, Sleep why, uint32_t on) {
  const size_t threads = why == Sleep::slot ? a.front : a.threads.size();
  for (size_t i = 0; i < threads; ++i) {
    Thread& th = a.threads[i];
    if (th.sleep == why && th.sleeps_for == on) wake_thread(a, th);
  }
  moved_ = true;
}

// The lanes of the thread are known in the slot.
void Engine::mark(const Place& at, size_t slot) {
  at.live.known[slot] |= at.th.mask();
  if (records(at.a, at.th)) {
    at.live.straggler[slot] = role_records_[at.a.role].straggler[at.th.stream];
  }
  if (at.live.watched[slot] == 0) return;
  wake_inside(at.a, Sleep::slot, static_cast<uint32_t>(slot));
}

void Engine::raise(Actor& a, const Thread& th, const int64_t* to, int64_t by) {
  int64_t* time = &a.time[th.stream * block_];
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const int64_t until = to[l] + by;
    if (coupled_ && th.stream == kCompute && until >= time[l]) {
      ranks_[a.role * width_ + a.lane].exact = false;
    }
    time[l] = std::max(time[l], until);
  }
}

void Engine::note_start(const Place& at, uint32_t lane, int64_t time) {
  int64_t& first = first_start_[at.a.role][at.a.lane + lane];
  if (first == kUnknown) first = time;
}

// A chain of compute that nothing slows.  Where the host is ahead of the stream all along, the
// chain is one addition.
bool Engine::run_chain(const Place& at, const ThreadInstruction& in) {
  const Thread& th = at.th;
  const ThreadOp* const ops = &at.pass.ops[in.first];
  const int64_t first = at.launched + ops[0].launches * launch_;
  const int64_t last = at.launched + ops[in.count - 1].launches * launch_;
  const Slowness* const slowness = &slowness_[at.a.role * width_ + at.a.lane];
  const bool noted = th.stream == kCompute && records(at.a, th);
  const int64_t before = noted ? recorded_time(at.a, kCompute) : 0;
  const bool is_first =
      th.stream == kCompute && first_start_[at.a.role][at.a.lane + th.lane] == kUnknown;
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    int64_t time = at.time[l];
    if (is_first) note_start(at, l, std::max(time, at.host[l] + first));
    if (in.start_slot >= 0) {
      at.live.slots[static_cast<size_t>(in.start_slot) * block_ + l] =
          std::max(time, at.host[l] + first);
    }
    if (at.host[l] + last <= time) {
      at.time[l] = time + in.ps * slowness[l];
      continue;
    }
    for (uint32_t i = 0; i < in.count; ++i) {
      const int64_t launched = at.host[l] + at.launched + ops[i].launches * launch_;
      time = std::max(time, launched) + ops[i].ps * slowness[l];
    }
    at.time[l] = time;
  }
  if (noted) note_chain(at, in, before);
  if (in.start_slot >= 0) mark(at, static_cast<size_t>(in.start_slot));
  return true;
}

bool Engine::wake_later(Actor& a, Thread& th, int64_t time) {
  if (a.woken_at <= now_ || a.woken_at > time) {
    a.woken_at = time;
    push(time, EventKind::wake, static_cast<uint32_t>(&a - actors_.data()), 0);
  }
  return sleep(a, th, Sleep::moment);
}

// --- compute that communication slows -----------------------------------------------------------

bool Engine::run_slowed_chain(const Place& at, const ThreadInstruction& in) {
  Thread& th = at.th;
  if (th.state == 2) {
    th.state = 0;
    at.time[0] = now_;
    if (records(at.a, th)) note_slowed(at, in);
  }
  while (th.ops < in.count) {
    const uint32_t launches = at.pass.ops[in.first + th.ops].launches;
    const int64_t start = std::max(at.time[0], at.host[0] + at.launched + launches * launch_);
    if (start > now_) return wake_later(at.a, th, start);
    start_slowed_ops(at, in, start);
    if (th.state == 1) return sleep(at.a, th, Sleep::compute);
  }
  th.ops = 0;
  return true;
}

// Starts the ops of the chain that nothing but their predecessors holds up.
void Engine::start_slowed_ops(const Place& at, const ThreadInstruction& in, int64_t start) {
  Thread& th = at.th;
  const uint32_t id = at.a.role * width_ + at.a.lane;
  Rank& rank = ranks_[id];
  const ThreadOp* const ops = &at.pass.ops[in.first];
  const auto launched = [&](uint32_t i) {
    return at.host[0] + at.launched + ops[i].launches * launch_;
  };
  advance_progress(rank);
  const bool goes_on = rank.exact && at.time[0] == now_ && launched(th.ops) < now_;
  const Wide begin = goes_on ? rank.exact_end : rank.progress;
  if (th.ops == 0) {
    note_start(at, 0, start);
    if (in.start_slot >= 0) {
      at.live.slots[static_cast<size_t>(in.start_slot)] = start;
      mark(at, static_cast<size_t>(in.start_slot));
    }
  }
  // A launch at this very moment counts as one that an op has to wait for.
  const int64_t before = begin == rank.progress ? now_ + 1 : now_;
  if (records(at.a, th)) record_->note(at.a.role, Spend::launch, start - at.time[0]);
  rank.begin = start;
  rank.first_op = th.ops;
  int64_t ps = 0;
  if (th.ops == 0 && launched(in.count - 1) < before) {
    ps = in.ps;
    th.ops = in.count;
  } else {
    ps = ops[th.ops++].ps;
    for (; th.ops < in.count && launched(th.ops) < before; ++th.ops) ps += ops[th.ops].ps;
  }
  rank.target = begin + Wide{ps} * slowness_[id] * slow_compute_;
  if (rank.target > rank.progress) {
    rank.runs = rank.restarted = true;
    mark_dirty(id);
    th.state = 1;
    return;
  }
  rank.exact_end = rank.target;
  rank.exact = true;
  at.time[0] = now_;
}

// --- collectives --------------------------------------------------------------------------------

// Among the lanes of the block, on links nobody else uses.
bool Engine::run_own_talk(const Place& at, const ThreadInstruction& in) {
  const Thread& th = at.th;
  const int64_t launched = at.launched + at.pass.ops[in.first].launches * launch_;
  const uint32_t together = own_[at.a.role][in.work] == TalkKind::block ? block_ : 1;
  for (uint32_t first = th.lane; first < th.lane + th.lanes; first += together) {
    const bool noted = recorded_ >= at.a.lane + first && recorded_ < at.a.lane + first + together;
    const int64_t before = noted ? recorded_time(at.a, th.stream) : 0;
    int64_t begin = kUnknown;
    for (uint32_t l = first; l < first + together; ++l) {
      begin = std::max({begin, at.time[l], at.host[l] + launched});
    }
    const auto classes = lanes_.group_class[static_cast<size_t>(graph_.works[in.work].axis)].empty()
                             ? 0
                             : class_of(at.a.role, in.work, at.a.lane + first);
    const int64_t end = begin + price_in(classes, in.work) * kOne;
    for (uint32_t l = first; l < first + together; ++l) {
      if (th.stream == kCompute) note_start(at, l, begin);
      if (in.start_slot >= 0) {
        at.live.slots[static_cast<size_t>(in.start_slot) * block_ + l] = begin;
      }
      at.time[l] = end;
    }
    if (noted) {
      const size_t lane = static_cast<size_t>(recorded_) - at.a.lane;
      note_talk(at, in, before, std::max(before, at.host[lane] + launched), begin);
    }
  }
  if (in.start_slot >= 0) mark(at, static_cast<size_t>(in.start_slot));
  return true;
}

bool Engine::run_talk(const Place& at, const ThreadInstruction& in) {
  Thread& th = at.th;
  const auto source = static_cast<uint32_t>(at.a.role * kStreams + th.stream);
  Row& row = row_of_collective(source, th.sequence, in.work);
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[in.work].axis)];
  const auto meeting = [&](uint32_t l) -> Meeting& {
    return row.meetings[groups.of[at.a.lane + l]];
  };
  if (th.state == 0) {
    th.state = 1;
    moved_ = true;
    const int64_t launched = at.launched + at.pass.ops[in.first].launches * launch_;
    for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
      arrive(row, groups.of[at.a.lane + l], std::max(at.time[l], at.host[l] + launched));
    }
  }
  if (th.state == 1 && in.start_slot >= 0) {
    for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
      if (meeting(l).arrived < row.needed) return sleep_until_end(at.a, th, meeting(l));
    }
    th.state = 2;
    for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
      at.live.slots[static_cast<size_t>(in.start_slot) * block_ + l] = meeting(l).begin;
    }
    if (in.start_slot >= 0) mark(at, static_cast<size_t>(in.start_slot));
  }
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    if (meeting(l).end == kUnknown) return sleep_until_end(at.a, th, meeting(l));
  }
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    if (th.stream == kCompute) note_start(at, l, meeting(l).begin);
    const int64_t before = at.time[l];
    at.time[l] = meeting(l).end;
    if (at.a.lane + l != recorded_) continue;
    const int64_t launched = at.launched + at.pass.ops[in.first].launches * launch_;
    note_talk(at, in, before, std::max(before, at.host[l] + launched), meeting(l).begin);
  }
  if (coupled_ && th.stream == kCompute) ranks_[at.a.role * width_ + at.a.lane].exact = false;
  th.state = 0;
  ++th.sequence;
  visit(row, th.lanes);
  return true;
}

}  // namespace stepcast::contention
