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
      merge_(options.merge && !options.ops),
      slow_compute_(whole_factor(interference.compute)),
      slow_talk_(whole_factor(interference.communication)),
      coupled_(slow_compute_ != kOne || slow_talk_ != kOne),
      width_(static_cast<uint32_t>(lanes.lanes())),
      network_(traffic.capacity),
      ops_(options.record && options.ops) {
  const size_t ranks = graph.roles.size() * width_;
  slowness_.assign(ranks, kNominal);
  for (size_t r = 0; r < lanes.slowness.size(); ++r) {
    std::ranges::copy(lanes.slowness[r], slowness_.begin() + static_cast<ptrdiff_t>(r * width_));
  }
  first_start_.assign(ranks, kUnknown);
  rendezvous_row_.assign(graph.rendezvous.size(), kNone);
  sequences_.resize(graph.roles.size() * kStreams);
  if (coupled_) ranks_.resize(ranks);
  for (size_t axis = 0; axis < kAxes; ++axis) {
    groups_[axis] = groups_of(static_cast<Axis>(axis), lanes.digits, width_);
  }
  choose_strands();
  prepare_actors();
  prepare_windows();
}

// What is walked together: lanes of the innermost digit, and streams, where that changes nothing.
void Engine::choose_strands() {
  const size_t works = graph_.works.size();
  std::vector<TalkKind> talks(works, TalkKind::others);
  LaneDigit inner;
  if (!lanes_.digits.empty()) inner = lanes_.digits.front();
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
  if (any && inner.size <= 64) {
    block_ = static_cast<uint32_t>(inner.size);
  } else {
    std::ranges::replace(talks, TalkKind::block, TalkKind::others);
  }
  // Compute whose end others decide is walked by itself.
  if (!coupled_) strand_ = strand_streams(graph_, talks);
  program_ = compile_threads(graph_, prices_, strand_, merge_);
  together_ = plan_strands(graph_, program_, {strand_, talks, whole, block_});
  for (size_t r = 0; r < graph_.roles.size(); ++r) {
    own_.push_back(talks);
    if (!together_[r]) std::ranges::replace(own_.back(), TalkKind::block, TalkKind::others);
  }
  uint32_t slots = 0;
  for (const PassThreads& pass : program_.passes) slots = std::max(slots, pass.slots);
  closed_.slots.resize(size_t{slots} * block_);
  closed_.known.resize(slots);
  closed_.waiters.resize(slots, kNone);
  closed_.straggler.resize(slots);
}

void Engine::prepare_actors() {
  const uint32_t blocks = width_ / block_;
  actors_.resize(graph_.roles.size() * blocks);
  for (uint32_t id = 0; id < actors_.size(); ++id) {
    Actor& a = actors_[id];
    a.role = id / blocks;
    a.lane = id % blocks * block_;
    const RoleThreads& role = program_.roles[a.role];
    a.first_thread = static_cast<uint32_t>(threads_.size());
    for (size_t code = 0; code < kThreads; ++code) {
      const bool in_strand = code == kStrand || (code < kStreams && strand_[code]);
      if (role.items[code].empty() || (in_strand && together_[a.role] != (code == kStrand))) {
        continue;
      }
      Thread th;
      th.actor = id;
      th.code = static_cast<uint8_t>(code);
      th.lanes = code == kStrand ? block_ : 1;
      for (; th.lane < block_; th.lane += th.lanes) threads_.push_back(th);
    }
    a.end_thread = static_cast<uint32_t>(threads_.size());
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
    case EventKind::window: return true;
    case EventKind::begin:
    case EventKind::move:
    case EventKind::price:
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
    case EventKind::price: return change_price(event.id);
    case EventKind::window: return change_window(event.id);
    case EventKind::talk_end: return end_talk(event.id);
    case EventKind::compute_end: return end_compute(event.id);
    case EventKind::wake: ready_.push_back(event.id);
  }
}

void Engine::drain() {
  while (!ready_.empty()) {
    const uint32_t id = ready_.back();
    ready_.pop_back();
    run_thread(id);
  }
}

// --- result -------------------------------------------------------------------------------------

ContentionResult Engine::run(int64_t record) {
  recorded_ = record;
  if (recorded_ >= 0) prepare_record();
  for (auto id = static_cast<uint32_t>(threads_.size()); id-- > 0;) ready_.push_back(id);
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
    for (uint32_t i = a.first_thread; i < a.end_thread; ++i) {
      const Thread& th = threads_[i];
      const std::vector<uint32_t>& items = program_.roles[a.role].items[th.code];
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
      const int64_t first = first_start_[a.role * width_ + a.lane + l];
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
  using contention::Engine;
  int64_t lane = options.lane;
  if (!options.record || lane < 0) {
    ContentionResult out = Engine(graph, prices, lanes, traffic, interference, options).run();
    if (!options.record) return out;
    lane = out.lanes.last_lane;  // known at the end
  }
  return Engine(graph, prices, lanes, traffic, interference, options).run(lane);
}

}  // namespace stepcast
