// SPDX-License-Identifier: Apache-2.0
// Threads of the contention engine, item by item: each runs as far as times are known.
#include <algorithm>
#include <utility>

#include "sim/contention_engine.h"

namespace stepcast::contention {
namespace {

constexpr auto kCompute = static_cast<size_t>(Stream::compute);

}  // namespace

void Engine::run_thread(uint32_t id) {
  Thread& th = threads_[id];
  Actor& a = actors_[th.actor];
  const std::vector<uint32_t>& items = program_.roles[a.role].items[th.code];
  const bool noted = records(a, th);
  for (; th.at < items.size(); ++th.at) {
    if (noted) note_item(a, th, items[th.at], false);
    if (!execute(a, th, items[th.at])) return;
    if (noted) note_item(a, th, items[th.at], true);
  }
}

bool Engine::execute(Actor& a, Thread& th, uint32_t item) {
  switch (graph_.roles[a.role].items[item].kind) {
    case ItemKind::pass: return run_pass(a, th, item);
    case ItemKind::post: return run_post(a, th, item);
    case ItemKind::join:
      return th.code == kHost ? run_host_join(a, th, item) : run_join(a, th, item);
    case ItemKind::record: run_record(a, th, item); return true;
    case ItemKind::wait: return run_wait(a, th, item);
    case ItemKind::sync: return run_sync(a, th, item);
  }
  return true;
}

// Until `waiters` are woken; returns false.
bool Engine::sleep(Thread& th, uint32_t& waiters) {
  th.next_waiter = std::exchange(waiters, static_cast<uint32_t>(&th - threads_.data()));
  return false;
}

void Engine::wake(uint32_t& waiters) {
  for (uint32_t id = std::exchange(waiters, kNone); id != kNone; id = threads_[id].next_waiter) {
    ready_.push_back(id);
  }
}

bool Engine::knows_host(const Actor& a, const Thread& th, uint32_t segment) {
  for (uint32_t l = th.lane; l < th.lane + th.lanes && segment > 0; ++l) {
    if (a.segments[l] <= segment) return false;
  }
  return true;
}

// The host's time at the begin of `segment`, for the lanes of the thread.
void Engine::know_host(Actor& a, const Thread& th, uint32_t segment) {
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) a.segments[l] = segment + 1;
  wake(a.host_waiters);
}

bool Engine::run_post(Actor& a, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[a.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(a, th, segment)) return sleep(th, a.host_waiters);
  const Item& it = graph_.roles[a.role].items[item];
  const auto id = static_cast<uint32_t>(it.rendezvous);
  Row& row = row_of_rendezvous(id);
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  const int64_t launched = role.launched[item];
  const int64_t* const stream = &a.time[static_cast<size_t>(it.stream) * block_];
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const int64_t time = std::max(stream[l], a.host[segment * block_ + l] + launched);
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
  const Item& it = graph_.roles[a.role].items[item];
  Row& row = row_of_rendezvous(static_cast<uint32_t>(it.rendezvous));
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    Meeting& m = row.meetings[groups.of[a.lane + l]];
    if (m.end == kUnknown) return sleep(th, m.first_waiter);
  }
  const auto stream = static_cast<size_t>(it.stream);
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const Meeting& m = row.meetings[groups.of[a.lane + l]];
    if (a.lane + l == recorded_) note_join(a, item, m);
    int64_t& time = a.time[stream * block_ + l];
    if (m.end < time) continue;
    time = m.end;
    if (coupled_ && stream == kCompute) ranks_[a.role * width_ + a.lane].exact = false;
  }
  visit(row, th.lanes);
  return true;
}

// By the host, which goes on no earlier either.
bool Engine::run_host_join(Actor& a, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[a.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(a, th, segment)) return sleep(th, a.host_waiters);
  Row& row = row_of_rendezvous(static_cast<uint32_t>(graph_.roles[a.role].items[item].rendezvous));
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  Meeting& m = row.meetings[groups.of[a.lane + th.lane]];
  if (m.end == kUnknown) return sleep(th, m.first_waiter);
  const int64_t host = a.host[segment * block_ + th.lane] + role.launched[item];
  a.host[(segment + 1) * block_ + th.lane] = std::max(host, m.end);
  know_host(a, th, segment + 1);
  visit(row, 1);
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
  const auto stream = static_cast<size_t>(graph_.roles[a.role].items[item].stream);
  std::copy_n(&a.time[stream * block_ + th.lane], th.lanes, &it->time[th.lane]);
  it->known |= th.mask();
  if (records(a, th)) it->straggler = role_records_[a.role].straggler[stream];
  wake(a.event_waiters);
}

bool Engine::run_wait(Actor& a, Thread& th, uint32_t item) {
  const uint32_t record = program_.roles[a.role].record[item];
  if (record == RoleThreads::kNone) return true;
  const auto it = std::ranges::find(a.events, record, &LiveEvent::record);
  if (it == a.events.end() || (th.mask() & ~it->known) != 0) return sleep(th, a.event_waiters);
  const Item& waits = graph_.roles[a.role].items[item];
  if (waits.stream == Stream::compute && records(a, th)) {
    record_->event_wait(a.role, waits, item, recorded_time(a, kCompute),
                        it->time[static_cast<size_t>(recorded_) - a.lane], it->straggler);
  }
  raise(a, th, static_cast<size_t>(waits.stream), it->time.data(), 0);
  it->waits -= th.lanes;
  if (it->waits == 0) it->record = kNone;
  return true;
}

bool Engine::run_sync(Actor& a, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[a.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(a, th, segment)) return sleep(th, a.host_waiters);
  const int64_t launched = role.launched[item];
  const auto stream = static_cast<size_t>(graph_.roles[a.role].items[item].stream);
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    a.host[(segment + 1) * block_ + l] =
        std::max(a.host[segment * block_ + l] + launched, a.time[stream * block_ + l]);
  }
  know_host(a, th, segment + 1);
  return true;
}

// The stream goes on no earlier than to[lane] + by.
void Engine::raise(Actor& a, const Thread& th, size_t stream, const int64_t* to, int64_t by) {
  int64_t* const time = &a.time[stream * block_];
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const int64_t until = to[l] + by;
    if (coupled_ && stream == kCompute && until >= time[l]) {
      ranks_[a.role * width_ + a.lane].exact = false;
    }
    time[l] = std::max(time[l], until);
  }
}

}  // namespace stepcast::contention
