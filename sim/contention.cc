// SPDX-License-Identifier: Apache-2.0
#include "sim/contention.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "sim/check.h"
#include "sim/contention_engine.h"
#include "sim/lane_program.h"
#include "sim/lane_record.h"

namespace stepcast {
namespace contention {
namespace {

int64_t whole_factor(double factor) {
  if (!(factor >= 1) || factor > 1024) {
    throw std::invalid_argument("a factor of interference is from 1 to 1024");
  }
  return static_cast<int64_t>(factor * kOne + 0.5);
}

Groups groups_of(Axis axis, const std::vector<LaneDigit>& digits, uint32_t width) {
  Groups groups;
  for (const LaneDigit& d : digits) {
    if (covers(axis, d)) groups.size *= static_cast<uint32_t>(d.size);
  }
  groups.count = width / groups.size;
  groups.of.resize(width);
  groups.lanes.resize(width);
  std::vector<uint32_t> filled(groups.count);
  for (uint32_t lane = 0; lane < width; ++lane) {
    uint32_t rest = lane, group = 0, stride = 1;
    for (const LaneDigit& d : digits) {
      const auto size = static_cast<uint32_t>(d.size);
      if (!covers(axis, d)) {
        group += rest % size * stride;
        stride *= size;
      }
      rest /= size;
    }
    groups.of[lane] = group;
    groups.lanes[size_t{group} * groups.size + filled[group]++] = lane;
  }
  return groups;
}

}  // namespace

Engine::Engine(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
               const Traffic& traffic, const Interference& interference, const LaneOptions& options)
    : graph_(graph),
      prices_(prices),
      lanes_(lanes),
      traffic_(traffic),
      program_(compile_threads(graph, prices, options.merge)),
      slow_compute_(whole_factor(interference.compute)),
      slow_talk_(whole_factor(interference.communication)),
      coupled_(slow_compute_ != kOne || slow_talk_ != kOne),
      width_(static_cast<uint32_t>(lanes.lanes())),
      launch_(prices.launch.count() * kOne),
      network_(traffic.capacity) {
  const size_t ranks = graph.roles.size() * width_;
  slowness_.assign(ranks, kNominal);
  for (size_t r = 0; r < lanes.slowness.size(); ++r) {
    std::ranges::copy(lanes.slowness[r], slowness_.begin() + static_cast<ptrdiff_t>(r * width_));
  }
  first_start_.assign(graph.roles.size(), std::vector<int64_t>(width_, kUnknown));
  rendezvous_row_.assign(graph.rendezvous.size(), kNone);
  sequences_.resize(graph.roles.size() * kStreams);
  if (coupled_) ranks_.resize(ranks);
  for (size_t axis = 0; axis < kAxes; ++axis) {
    groups_[axis] = groups_of(static_cast<Axis>(axis), lanes.digits, width_);
  }
  choose_block();
  prepare_actors();
}

// Lanes of the innermost digit are advanced together where that changes nothing.
void Engine::choose_block() {
  const size_t works = graph_.works.size();
  std::vector<TalkKind> talks(works, TalkKind::others);
  const LaneDigit inner = lanes_.digits.empty() ? LaneDigit{Axis::tp, 1} : lanes_.digits.front();
  std::vector<bool> whole(works);
  bool any = false;
  for (size_t w = 0; w < works && !coupled_; ++w) {
    const Axis axis = graph_.works[w].axis;
    const uint32_t size = groups_[static_cast<size_t>(axis)].size;
    whole[w] = covers(axis, inner);
    const bool is_private = w >= traffic_.pattern_of.size() || traffic_.pattern_of[w].empty();
    if (!is_communication(graph_.works[w].kind) || !is_private) continue;
    if (size == 1) talks[w] = TalkKind::alone;
    if (size == 1 || !whole[w] || size != static_cast<uint32_t>(inner.size)) continue;
    talks[w] = TalkKind::block;
    any = true;
  }
  BlockPlan plan;
  if (any && inner.size <= 64) {
    block_ = static_cast<uint32_t>(inner.size);
    plan = plan_blocks(graph_, program_, talks, whole);
  } else {
    plan.narrow.resize(graph_.roles.size());
    plan.together.resize(graph_.roles.size());
  }
  narrow_ = std::move(plan.narrow);
  for (size_t r = 0; r < graph_.roles.size(); ++r) {
    own_.push_back(talks);
    if (!plan.together[r]) {
      std::ranges::replace(own_.back(), TalkKind::block, TalkKind::others);
    }
  }
}

void Engine::add_threads(Actor& a) const {
  const RoleThreads& role = program_.roles[a.role];
  const auto add = [&](size_t stream, uint32_t lane, uint32_t lanes) -> Thread& {
    Thread th;
    th.stream = stream;
    th.lane = lane;
    th.lanes = lanes;
    return a.threads.emplace_back(th);
  };
  for (const size_t stream : role.threads) {
    const bool together = block_ > 1 && stream < kStreams && !narrow_[a.role][stream];
    if (together) {
      Thread& th = add(stream, 0, block_);
      th.part = Part::passes;
      th.sleep = Sleep::others;
      continue;
    }
    for (uint32_t l = 0; l < block_; ++l) add(stream, l, 1);
  }
  a.front = static_cast<uint32_t>(a.threads.size());
  for (uint32_t i = 0; i < a.front; ++i) {
    if (a.threads[i].part != Part::passes) continue;
    a.threads[i].partner = static_cast<uint32_t>(a.threads.size());
    for (uint32_t l = 0; l < block_; ++l) {
      Thread& th = add(a.threads[i].stream, l, 1);
      th.part = Part::between;
      th.partner = i;
      ++a.awake_behind;
    }
  }
}

void Engine::prepare_actors() {
  const uint32_t blocks = width_ / block_;
  actors_.resize(graph_.roles.size() * blocks);
  for (uint32_t id = 0; id < actors_.size(); ++id) {
    Actor& a = actors_[id];
    a.role = id / blocks;
    a.lane = id % blocks * block_;
    const RoleThreads& role = program_.roles[a.role];
    add_threads(a);
    most_threads_ = std::max(most_threads_, static_cast<uint32_t>(a.threads.size()));
    a.segments.assign(block_, 1);
    a.time.assign(kStreams * block_, 0);
    a.host.assign(size_t{role.segments} * block_, 0);
  }
}

// --- clock --------------------------------------------------------------------------------------

// A heap rather than a radix heap: most events are followed within a few others, and those of one
// moment may be taken in any order.
void Engine::push(int64_t time, EventKind kind, uint32_t id, uint32_t version) {
  if (time > kLongestLaneTime) throw_step_too_long();
  STEPCAST_CHECK(time >= now_, "an event in the past");
  events_.push_back({time, id, version, kind});
  std::ranges::push_heap(events_, std::greater<>(), &Event::time);
}

bool Engine::is_valid(const Event& event) const {
  switch (event.kind) {
    case EventKind::wake: return true;
    case EventKind::compute_end:
      return ranks_[event.id].runs && ranks_[event.id].version == event.version;
    case EventKind::begin:
    case EventKind::move:
    case EventKind::talk_end: break;
  }
  return talks_[event.id].on && talks_[event.id].version == event.version;
}

// The next moment at which something is known to start or end; INT64_MAX if there is none.
int64_t Engine::next_moment() {
  while (!events_.empty() && !is_valid(events_.front())) {
    std::ranges::pop_heap(events_, std::greater<>(), &Event::time);
    events_.pop_back();
  }
  const int64_t next = events_.empty() ? INT64_MAX : events_.front().time;
  return std::min(next, network_.next_end());
}

void Engine::process(int64_t time) {
  now_ = time;
  if (network_.next_end() == time) {
    ended_.clear();
    network_.end_due(time, ended_);
    flow_events_ += static_cast<int64_t>(ended_.size());
    for (const FlowNetwork::Ended& e : ended_) end_talk(static_cast<uint32_t>(e.tag));
  }
  while (!events_.empty() && events_.front().time == time) {
    std::ranges::pop_heap(events_, std::greater<>(), &Event::time);
    const Event e = events_.back();
    events_.pop_back();
    if (is_valid(e)) handle(e);
  }
}

void Engine::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::begin: return begin_talk(event.id);
    case EventKind::move: return start_moving(event.id);
    case EventKind::talk_end: return end_talk(event.id);
    case EventKind::wake:
      wake_inside(actors_[event.id], Sleep::moment, 0);
      return wake_actor(event.id);
    case EventKind::compute_end: break;
  }
  Rank& rank = ranks_[event.id];
  advance_progress(rank);
  rank.runs = false;
  rank.exact = true;
  rank.exact_end = rank.target;
  mark_dirty(event.id);
  Actor& a = actors_[event.id];
  Thread& th = *std::ranges::find(a.threads, static_cast<size_t>(Stream::compute), &Thread::stream);
  th.state = 2;
  wake_thread(a, th);
  wake_actor(event.id);
}

void Engine::drain() {
  while (!ready_.empty()) {
    const uint32_t id = ready_.back();
    ready_.pop_back();
    advance(id);
  }
}

// --- interference -------------------------------------------------------------------------------

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
}

// --- result -------------------------------------------------------------------------------------

ContentionResult Engine::run(int64_t record) {
  recorded_ = record;
  if (recorded_ >= 0) prepare_record();
  for (auto id = static_cast<uint32_t>(actors_.size()); id-- > 0;) wake_actor(id);
  for (;;) {
    drain();
    settle();
    const int64_t next = next_moment();
    if (next == INT64_MAX) break;
    process(next);
  }
  throw_deadlock();
  ContentionResult out = result();
  if (recorded_ >= 0) finish_record(out.lanes);
  return out;
}

// If somebody is not at his end: all that wait at a join, one for each role.
void Engine::throw_deadlock() const {
  Deadlock deadlock;
  bool stuck = false;
  for (const Actor& a : actors_) {
    uint32_t first = kNone;
    for (const Thread& th : a.threads) {
      const std::vector<uint32_t>& items = program_.roles[a.role].items[th.stream];
      if (th.at == items.size()) continue;
      stuck = true;
      const uint32_t item = items[th.at];
      if (graph_.roles[a.role].items[item].kind == ItemKind::join) first = std::min(first, item);
    }
    if (first == kNone) continue;
    if (!deadlock.waiting.empty() && deadlock.waiting.back().role == a.role) continue;
    deadlock.waiting.push_back({a.role, first, graph_.roles[a.role].items[first].rendezvous});
  }
  if (!deadlock.waiting.empty()) throw deadlock;
  STEPCAST_CHECK(!stuck, "the contention engine stands still");
}

ContentionResult Engine::result() const {
  ContentionResult out;
  LaneResult& r = out.lanes;
  r.lanes_run = width_;
  r.end.assign(graph_.roles.size(), std::vector<Time>(width_));
  for (const RoleThreads& role : program_.roles) r.rank_ops += role.device_ops * width_;
  int64_t last = kUnknown;
  for (const Actor& a : actors_) {
    for (uint32_t l = 0; l < block_; ++l) {
      int64_t end = 0;
      for (size_t s = 0; s < kStreams; ++s) end = std::max(end, a.time[s * block_ + l]);
      r.end[a.role][a.lane + l] = to_time(end);
      const int64_t first = first_start_[a.role][a.lane + l];
      r.span = std::max(r.span, to_time(end) - to_time(first == kUnknown ? 0 : first));
      if (end <= last) continue;
      last = end;
      r.last_role = a.role;
      r.last_lane = a.lane + l;
    }
  }
  r.makespan = to_time(std::max<int64_t>(last, 0));
  out.shared_ops = shared_ops_;
  out.flow_events = flow_events_;
  return out;
}

}  // namespace contention

ContentionResult run_contended(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                               const Traffic& traffic, const Interference& interference,
                               const LaneOptions& options) {
  STEPCAST_CHECK(prices.by_work.size() == graph.works.size(), "one price for each work");
  if (!lanes.windows.empty() || lanes.jitter) {
    throw std::invalid_argument("windows and jitter are not supported with shared links yet");
  }
  using contention::Engine;
  ContentionResult out = Engine(graph, prices, lanes, traffic, interference, options).run();
  if (!options.record) return out;
  // Which lane is last is known at the end.
  return Engine(graph, prices, lanes, traffic, interference, options).run(out.lanes.last_lane);
}

}  // namespace stepcast
