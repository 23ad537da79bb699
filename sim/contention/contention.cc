// SPDX-License-Identifier: Apache-2.0
// The contention engine: its clock, its threads item by item, what it records, and results.
//
// Where transfers share links, how long one takes depends on what else runs, so ends are not known
// from begins and the recurrence of run.cc cannot be evaluated in any order.  An example: two pairs
// of ranks send 1 GB each over one link of 100 GB/s, at 0 and at 5 ms.
//
//      0 ms  the first transfer is alone, gets 100 GB/s, and would end at 10 ms
//      5 ms  the second starts; each gets 50 GB/s.  The first has 0.5 GB left, would end at 15 ms:
//            the end at 10 ms is void.  The second would end at 25 ms.
//     15 ms  the first ends.  The second has 0.5 GB left, gets 100 GB/s, and would end at 20 ms.
//     20 ms  the second ends.
//
// What a rank does between such moments is as certain as ever.  So a rank has threads that run
// ahead of the clock through all that is known (run_thread), and sleep where it is not: at the end
// of a transfer, or at a rendezvous that lacks a post.  When all sleep, the clock moves to the
// earliest moment at which something is known to start or end (next_moment), what happens then is
// processed, threads that slept for it go on, and so forth:
//
//     drain()    threads run until all sleep
//     settle()   rates and ends as they are after everything that happened at this moment
//     process()  the next moment
//
// In the example the receiver of the first transfer sleeps at its join until 15 ms, then runs ahead
// through compute, priced collectives and posts up to its next join, perhaps to 90 ms of its own
// time, while the clock still stands at 15 ms.  That is safe because whatever it posts lies in the
// future of the clock and is put among the events.
//
// An event whose version is out of date is dropped when it comes up; nothing is removed from the
// middle of the queue.  What happens at one moment may be processed in any order, since rates are
// solved only after all of it.

#include "sim/contention/contention.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/check.h"
#include "sim/contention/contention_engine.h"
#include "sim/contention/equal_ranks.h"
#include "sim/contention/folded_traffic.h"
#include "sim/contention/lone_passes.h"
#include "sim/diagnostic.h"
#include "sim/lanes/lane_program.h"
#include "sim/lanes/lane_recorder.h"
#include "sim/lanes/lane_speeds.h"

namespace stepcast {
namespace contention {
namespace {

int64_t whole_factor(double factor) {
  if (!(factor >= 1) || factor > 1024) {
    refuse("a factor of interference is from 1 to 1024");
  }
  return static_cast<int64_t>(factor * kNominal + 0.5);
}

}  // namespace

Engine::Engine(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
               const Traffic& traffic, const Interference& interference, const LaneOptions& options,
               const FoldedLanes* folded, AxisGroups groups)
    : graph_(graph),
      prices_(prices),
      lanes_(lanes),
      traffic_(traffic),
      merge_(options.merge && !options.ops),
      slow_compute_(whole_factor(interference.compute)),
      slow_communication_(whole_factor(interference.communication)),
      coupled_(slow_compute_ != kNominal || slow_communication_ != kNominal),
      width_(static_cast<uint32_t>(lanes.lanes())),
      folded_(folded),
      groups_(std::move(groups)),
      network_(traffic.capacity),
      ops_(options.record && options.ops),
      most_turns_(options.most_turns) {
  stands_for_.assign(width_, folded == nullptr ? 1 : 0);
  for (size_t lane = 0; folded != nullptr && lane < folded->of.size(); ++lane) {
    ++stands_for_[static_cast<size_t>(folded->of[lane])];
  }
  const size_t ranks = graph.roles.size() * width_;
  slowness_.assign(ranks, kNominal);
  for (size_t r = 0; r < lanes.slowness.size(); ++r) {
    std::ranges::copy(lanes.slowness[r], slowness_.begin() + static_cast<ptrdiff_t>(r * width_));
  }
  first_start_.assign(ranks, kUnknown);
  rendezvous_occurrence_.assign(graph.rendezvous.size(), kNone);
  sequences_.resize(graph.roles.size() * kStreams);
  choose_lockstep();
  if (coupled_) prepare_slowing();
  prepare_blocks();
  prepare_windows();
}

// By work: with whom do collectives in passes communicate?
std::vector<Scope> Engine::find_scopes() const {
  std::vector<Scope> scopes(graph_.works.size(), Scope::outside);
  const LaneDigit inner = lanes_.digits.empty() ? LaneDigit{} : lanes_.digits.front();
  for (size_t w = 0; w < scopes.size(); ++w) {
    const Axis axis = graph_.works[w].axis;
    const uint32_t size = groups_[static_cast<size_t>(axis)].largest;
    const bool is_private = w >= traffic_.pattern_of.size() || traffic_.pattern_of[w].empty();
    if (!is_communication(graph_.works[w].kind) || !is_private) continue;
    if (size == 1) scopes[w] = Scope::lane;
    if (size == 1 || !covers(axis, inner) || size != static_cast<uint32_t>(inner.size)) continue;
    scopes[w] = Scope::block;
  }
  return scopes;
}

// What is walked together: lanes of the innermost digit, and streams, where that changes nothing.
void Engine::choose_lockstep() {
  scopes_ = find_scopes();
  std::vector<Scope> scopes = scopes_;
  // Compute whose end depends on other ranks is walked by itself.
  if (coupled_) {
    scopes.assign(scopes.size(), Scope::outside);
    program_ = compile_threads(graph_, prices_, lockstep_, merge_);
    together_.assign(graph_.roles.size(), Lockstep::none);
  } else {
    LaneDigit inner;
    if (!lanes_.digits.empty()) inner = lanes_.digits.front();
    if (std::ranges::count(scopes, Scope::block) > 0 && inner.size <= 64) {
      block_lanes_ = static_cast<uint32_t>(inner.size);
    } else {
      std::ranges::replace(scopes, Scope::block, Scope::outside);
    }
    std::vector<bool> whole;
    for (const Work& work : graph_.works) whole.push_back(covers(work.axis, inner));
    lockstep_ = lockstep_streams(graph_, scopes);
    program_ = compile_threads(graph_, prices_, lockstep_, merge_);
    together_ = plan_lockstep(graph_, program_, {lockstep_, scopes, whole, block_lanes_});
  }
  for (size_t r = 0; r < graph_.roles.size(); ++r) {
    own_.push_back(scopes);
    if (together_[r] == Lockstep::none)
      std::ranges::replace(own_.back(), Scope::block, Scope::outside);
  }
  uint32_t slots = 0;
  for (const PassThreads& pass : program_.passes) slots = std::max(slots, pass.slots);
  closed_.slots.resize(size_t{slots} * block_lanes_);
  closed_.known.resize(slots);
  closed_.waiters.resize(slots, kNone);
  closed_.straggler.resize(slots);
}

void Engine::prepare_slowing() {
  ranks_.resize(graph_.roles.size() * width_);
  sequences_.resize(graph_.roles.size() * kStreams * (1 + size_t{width_}));
  if (!lanes_.windows.empty() || lanes_.jitter) return;
  undisturbed_.emplace(graph_, prices_, scopes_, slow_compute_, slow_communication_, merge_);
}

// Whose tp group consists of ranks as priced, none of which is recorded.
void Engine::find_equal_ranks() {
  equal_.assign(ranks_.size(), true);
  for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
    for (uint32_t lane = 0; lane < width_; ++lane) {
      bool as_priced = slowness_[role * width_ + lane] == kNominal && lane != recorded_;
      for (const auto& classes : lanes_.group_class)
        as_priced =
            as_priced && (classes.empty() || classes[role].empty() || classes[role][lane] == 0);
      if (as_priced) continue;
      for (size_t w = 0; w < scopes_.size(); ++w) {
        if (scopes_[w] == Scope::outside) continue;
        const Groups& groups = groups_[static_cast<size_t>(graph_.works[w].axis)];
        for (const uint32_t other : groups.lanes_of(groups.of[lane]))
          equal_[role * width_ + other] = false;
      }
      equal_[role * width_ + lane] = false;
    }
  }
}

void Engine::prepare_blocks() {
  const uint32_t blocks = width_ / block_lanes_;
  blocks_.resize(graph_.roles.size() * blocks);
  for (uint32_t id = 0; id < blocks_.size(); ++id) {
    Block& block = blocks_[id];
    block.role = id / blocks;
    block.lane = id % blocks * block_lanes_;
    const RoleThreads& role = program_.roles[block.role];
    block.first_thread = static_cast<uint32_t>(threads_.size());
    const Lockstep together = together_[block.role];
    const auto add_threads = [&](size_t code, size_t list, uint32_t lanes) {
      if (role.items[list].empty()) return;
      Thread th;
      th.block = id;
      th.code = static_cast<uint8_t>(code);
      th.list = static_cast<uint8_t>(list);
      th.lanes = lanes;
      for (; th.lane < block_lanes_; th.lane += lanes) threads_.push_back(th);
    };
    for (size_t s = 0; s < kStreams; ++s) {
      if (!lockstep_[s] || together == Lockstep::none) add_threads(s, s, 1);
    }
    add_threads(kHost, kHost, 1);
    if (together == Lockstep::whole) add_threads(kLockstep, kLockstep, block_lanes_);
    if (together == Lockstep::passes) {
      add_threads(kPasses, kLockstep, 1);
      block.pass_thread = static_cast<uint32_t>(threads_.size());
      add_threads(kLockstep, kPasses, block_lanes_);
    }
    block.end_thread = static_cast<uint32_t>(threads_.size());
    block.segments.assign(block_lanes_, 1);
    block.time.assign(kStreams * block_lanes_, 0);
    block.host.assign(size_t{role.segments} * block_lanes_, 0);
  }
}

// --- clock --------------------------------------------------------------------------------------

// A binary heap rather than a radix heap: most events come out again after a few more have gone in,
// and those of one moment may be taken in any order.
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
    case EventKind::transfer_end: break;
  }
  return transfers_[event.id].on && transfers_[event.id].version == event.version;
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
    turns_ += kTurnsOfAFlow * std::ssize(ended_);
    for (const FlowNetwork::Ended& e : ended_) {
      flow_events_ += flows_of(static_cast<uint32_t>(e.tag));
      end_transfer(static_cast<uint32_t>(e.tag));
    }
  }
  while (!events_.empty() && events_.front().time == time) {
    std::ranges::pop_heap(events_, std::greater<>(), &Event::time);
    const Event e = events_.back();
    events_.pop_back();
    if (is_valid(e)) handle(e);
  }
}

void Engine::handle(const Event& event) {
  ++turns_;
  switch (event.kind) {
    case EventKind::begin: return begin_transfer(event.id);
    case EventKind::move: return start_moving(event.id);
    case EventKind::price: return change_price(event.id);
    case EventKind::window: return change_window(event.id);
    case EventKind::transfer_end: return end_transfer(event.id);
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

void Engine::keep_times(MeetingTimes& times) {
  kept_ = &times;
  times = {};
  times.collectives.resize(graph_.roles.size() * kStreams);
  for (const Rendezvous& rendezvous : graph_.rendezvous) {
    const auto work = static_cast<size_t>(rendezvous.work);
    const Groups& groups = groups_[static_cast<size_t>(graph_.works[work].axis)];
    times.ends.emplace_back(groups.count(), kUnknown);
    const size_t others = groups.largest > 1 ? groups.count() : 0;
    times.begins.emplace_back(others, kUnknown);
    times.last.emplace_back(others);
  }
}

// The ranks that communicate with the recorded one on links of their own are run with it.
void Engine::run_again(int64_t record, const MeetingTimes& times, LaneResult& result) {
  recorded_ = record;
  known_ = &times;
  most_turns_ = INT64_MAX;  // few beside those of the run before
  prepare_record();
  if (undisturbed_) find_equal_ranks();
  const auto lane = static_cast<uint32_t>(record);
  run_lanes_.assign(width_, false);
  const uint32_t first = lane - lane % block_lanes_;
  std::fill_n(run_lanes_.begin() + first, block_lanes_, true);
  for (size_t w = 0; w < scopes_.size(); ++w) {
    if (scopes_[w] == Scope::outside) continue;
    const Groups& groups = groups_[static_cast<size_t>(graph_.works[w].axis)];
    for (const uint32_t other : groups.lanes_of(groups.of[lane])) run_lanes_[other] = true;
  }
  for (auto id = static_cast<uint32_t>(threads_.size()); id-- > 0;) {
    const Thread& th = threads_[id];
    if (th.list != kPasses && is_run(blocks_[th.block].lane)) ready_.push_back(id);
  }
  run_events();
  finish_record(result);
}

ContentionResult Engine::run(int64_t record) {
  recorded_ = record;
  if (recorded_ >= 0) prepare_record();
  if (undisturbed_) find_equal_ranks();
  for (auto id = static_cast<uint32_t>(threads_.size()); id-- > 0;) {
    if (threads_[id].list != kPasses) ready_.push_back(id);  // that one waits for its lanes
  }
  run_events();
  throw_deadlock();
  ContentionResult out = result();
  if (recorded_ >= 0) finish_record(out.lanes);
  return out;
}

void Engine::run_events() {
  for (;;) {
    drain();
    settle();
    const int64_t next = next_moment();
    if (next == INT64_MAX) break;
    process(next);
    if (turns_ > most_turns_) throw TooManyTurns(to_time(now_));
  }
}

// If a thread is not at its end: all that wait at a join, one for each role.
void Engine::throw_deadlock() const {
  Deadlock deadlock;
  bool stuck = false;
  for (const Block& block : blocks_) {
    uint32_t first = kNone;
    for (uint32_t i = block.first_thread; i < block.end_thread; ++i) {
      const Thread& th = threads_[i];
      const std::vector<uint32_t>& items = program_.roles[block.role].items[th.list];
      if (th.at == items.size()) continue;
      stuck = true;
      const uint32_t item = items[th.at];
      if (graph_.roles[block.role].items[item].kind == ItemKind::join)
        first = std::min(first, item);
    }
    if (first == kNone) continue;
    if (!deadlock.waiting.empty() && deadlock.waiting.back().role == block.role) continue;
    deadlock.waiting.push_back(
        {block.role, first, graph_.roles[block.role].items[first].rendezvous});
  }
  if (!deadlock.waiting.empty()) throw deadlock;
  STEPCAST_CHECK(!stuck, "the contention engine stands still");
}

ContentionResult Engine::result() const {
  ContentionResult out;
  LaneResult& r = out.lanes;
  const auto given = static_cast<int64_t>(folded_ == nullptr ? width_ : folded_->of.size());
  const auto as_given = [&](uint32_t lane) {
    return folded_ == nullptr ? lane : folded_->original[lane];
  };
  r.lanes_run = width_;
  r.end.assign(graph_.roles.size(), std::vector<Time>(width_));
  for (const RoleThreads& role : program_.roles) r.rank_ops += role.device_ops * given;
  int64_t last = kUnknown;
  for (const Block& block : blocks_) {
    for (uint32_t l = 0; l < block_lanes_; ++l) {
      int64_t end = 0;
      for (size_t s = 0; s < kStreams; ++s) end = std::max(end, block.time[s * block_lanes_ + l]);
      r.end[block.role][block.lane + l] = to_time(end);
      const int64_t first = first_start_[block.role * width_ + block.lane + l];
      r.span = std::max(r.span, to_time(end) - to_time(first == kUnknown ? 0 : first));
      const int64_t lane = as_given(block.lane + l);
      const bool earlier_lane = end == last && r.last_role == block.role && lane < r.last_lane;
      if (end <= last && !earlier_lane) continue;
      last = end;
      r.last_role = block.role;
      r.last_lane = lane;
    }
  }
  r.makespan = to_time(std::max<int64_t>(last, 0));
  for (std::vector<Time>& of_role : r.end) {
    if (folded_ == nullptr) break;
    const std::vector<Time> merged = std::move(of_role);
    of_role.clear();
    for (const int64_t lane : folded_->of) of_role.push_back(merged[static_cast<size_t>(lane)]);
  }
  out.shared_ops = shared_ops_;
  out.flow_events = flow_events_;
  out.turns = turns_;
  out.passes_at_once = passes_at_once_;
  return out;
}

// -------------------------------------------------------------------------------------------------
// Threads of the contention engine, item by item: each runs as far as times are known.

void Engine::run_thread(uint32_t id) {
  Thread& th = threads_[id];
  Block& block = blocks_[th.block];
  const std::vector<uint32_t>& items = program_.roles[block.role].items[th.list];
  // The thread of passes comes to its next one before its lanes do.
  const bool recorded = records(block, th) && th.list != kPasses;
  for (; th.at < items.size(); ++th.at) {
    if (recorded) book_item(block, th, items[th.at], false);
    if (!execute(block, th, items[th.at])) return;
    if (recorded) book_item(block, th, items[th.at], true);
  }
}

bool Engine::execute(Block& block, Thread& th, uint32_t item) {
  ++turns_;
  switch (graph_.roles[block.role].items[item].kind) {
    case ItemKind::pass:
      return th.code == kPasses ? meet_at_pass(block, th, item) : run_pass(block, th, item);
    case ItemKind::post: return run_post(block, th, item);
    case ItemKind::join:
      return th.code == kHost ? run_host_join(block, th, item) : run_join(block, th, item);
    case ItemKind::record: run_record(block, th, item); return true;
    case ItemKind::wait: return run_wait(block, th, item);
    case ItemKind::sync: return run_sync(block, th, item);
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

bool Engine::knows_host(const Block& block, const Thread& th, uint32_t segment) {
  for (uint32_t l = th.lane; l < th.lane + th.lanes && segment > 0; ++l) {
    if (block.segments[l] <= segment) return false;
  }
  return true;
}

// The host's time at the begin of `segment`, for the lanes of the thread.
void Engine::know_host(Block& block, const Thread& th, uint32_t segment) {
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) block.segments[l] = segment + 1;
  wake(block.host_waiters);
}

bool Engine::run_post(Block& block, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[block.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(block, th, segment)) return sleep(th, block.host_waiters);
  const Item& it = graph_.roles[block.role].items[item];
  const auto id = static_cast<uint32_t>(it.rendezvous);
  Occurrence& occurrence = occurrence_of_rendezvous(id);
  const Groups& groups = groups_of(occurrence);
  const int64_t launched = role.launched[item];
  const int64_t* const stream = &block.time[static_cast<size_t>(it.stream) * block_lanes_];
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const int64_t time = std::max(stream[l], block.host[segment * block_lanes_ + l] + launched);
    const uint32_t group = groups.of[block.lane + l];
    if (recorded_ >= 0 && group == groups.of[static_cast<size_t>(recorded_)]) {
      book_post(block, item, id, block.lane + l, time);
    }
    if (kept_ != nullptr && groups.largest > 1)
      see_post(kept_->last[id][group], block.role, item, time);
    arrive(occurrence, group, time);
  }
  visit(occurrence, th.lanes);
  return true;
}

bool Engine::run_join(Block& block, Thread& th, uint32_t item) {
  const Item& it = graph_.roles[block.role].items[item];
  Occurrence& occurrence = occurrence_of_rendezvous(static_cast<uint32_t>(it.rendezvous));
  const Groups& groups = groups_of(occurrence);
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    Arrivals& arrivals = occurrence.of(groups.of[block.lane + l]);
    if (arrivals.end == kUnknown) return sleep(th, arrivals.first_waiter);
  }
  const auto stream = static_cast<size_t>(it.stream);
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const Arrivals& arrivals = occurrence.of(groups.of[block.lane + l]);
    if (block.lane + l == recorded_) book_join(block, item, arrivals);
    int64_t& time = block.time[stream * block_lanes_ + l];
    if (arrivals.end < time) continue;
    time = arrivals.end;
    if (coupled_ && stream == kCompute) ranks_[block.role * width_ + block.lane].exact = false;
  }
  visit(occurrence, th.lanes);
  return true;
}

// By the host, which goes on no earlier either.
bool Engine::run_host_join(Block& block, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[block.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(block, th, segment)) return sleep(th, block.host_waiters);
  Occurrence& occurrence = occurrence_of_rendezvous(
      static_cast<uint32_t>(graph_.roles[block.role].items[item].rendezvous));
  const Groups& groups = groups_of(occurrence);
  Arrivals& arrivals = occurrence.of(groups.of[block.lane + th.lane]);
  if (arrivals.end == kUnknown) return sleep(th, arrivals.first_waiter);
  const int64_t host = block.host[segment * block_lanes_ + th.lane] + role.launched[item];
  block.host[(segment + 1) * block_lanes_ + th.lane] = std::max(host, arrivals.end);
  know_host(block, th, segment + 1);
  visit(occurrence, 1);
  return true;
}

void Engine::run_record(Block& block, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[block.role];
  const uint32_t record = role.record[item];
  if (role.waits[record] == 0) return;
  auto it = std::ranges::find(block.events, record, &LiveEvent::record);
  if (it == block.events.end()) {
    it = std::ranges::find(block.events, kNone, &LiveEvent::record);  // its memory is used again
    if (it == block.events.end()) it = block.events.emplace(it);
    it->record = record;
    it->waits = role.waits[record] * block_lanes_;
    it->known = 0;
    it->time.resize(block_lanes_);
  }
  const auto stream = static_cast<size_t>(graph_.roles[block.role].items[item].stream);
  std::copy_n(&block.time[stream * block_lanes_ + th.lane], th.lanes, &it->time[th.lane]);
  it->known |= th.mask();
  if (records(block, th)) it->straggler = role_records_[block.role].straggler[stream];
  wake(block.event_waiters);
}

bool Engine::run_wait(Block& block, Thread& th, uint32_t item) {
  const uint32_t record = program_.roles[block.role].record[item];
  if (record == RoleThreads::kNone) return true;
  const auto it = std::ranges::find(block.events, record, &LiveEvent::record);
  if (it == block.events.end() || (th.mask() & ~it->known) != 0)
    return sleep(th, block.event_waiters);
  const Item& waits = graph_.roles[block.role].items[item];
  if (waits.stream == Stream::compute && records(block, th)) {
    record_->event_wait(block.role, waits, item, recorded_time(block, kCompute),
                        it->time[static_cast<size_t>(recorded_) - block.lane], it->straggler);
  }
  raise(block, th, static_cast<size_t>(waits.stream), it->time.data(), 0);
  it->waits -= th.lanes;
  if (it->waits == 0) it->record = kNone;
  return true;
}

bool Engine::run_sync(Block& block, Thread& th, uint32_t item) {
  const RoleThreads& role = program_.roles[block.role];
  const uint32_t segment = role.segment[item];
  if (!knows_host(block, th, segment)) return sleep(th, block.host_waiters);
  const int64_t launched = role.launched[item];
  const auto stream = static_cast<size_t>(graph_.roles[block.role].items[item].stream);
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    block.host[(segment + 1) * block_lanes_ + l] = std::max(
        block.host[segment * block_lanes_ + l] + launched, block.time[stream * block_lanes_ + l]);
  }
  know_host(block, th, segment + 1);
  return true;
}

// The stream goes on no earlier than to[lane] + by.
void Engine::raise(Block& block, const Thread& th, size_t stream, const int64_t* to, int64_t by) {
  int64_t* const time = &block.time[stream * block_lanes_];
  for (uint32_t l = th.lane; l < th.lane + th.lanes; ++l) {
    const int64_t until = to[l] + by;
    if (coupled_ && stream == kCompute && until >= time[l]) {
      ranks_[block.role * width_ + block.lane].exact = false;
    }
    time[l] = std::max(time[l], until);
  }
}
// -------------------------------------------------------------------------------------------------
// What the contention engine writes down of one lane, for account and critical path.

void Engine::prepare_record() {
  record_.emplace(graph_, ops_ ? Record::all : Record::account);
  rendezvous_records_.resize(graph_.rendezvous.size());
  role_records_.resize(graph_.roles.size());
  for (size_t r = 0; r < graph_.roles.size(); ++r) {
    role_records_[r].items.assign(graph_.roles[r].items.size(), {kUnknown, kUnknown});
  }
}

int64_t Engine::recorded_time(const Block& block, size_t stream) const {
  return block.time[stream * block_lanes_ + static_cast<size_t>(recorded_) - block.lane];
}

// REQUIRES: records(block, th), here and below.
void Engine::book_item(const Block& block, const Thread& th, uint32_t item, bool ends) {
  const bool in_lockstep = th.code == kLockstep || th.code == kPasses;
  if (th.code != kCompute && (!in_lockstep || !lockstep_[kCompute])) return;
  auto& [begin, end] = role_records_[block.role].items[item];
  const int64_t time = recorded_time(block, kCompute);
  if (begin == kUnknown) begin = time;
  if (ends) end = time;
}

// A chain that ran for `ran`, at the lane's own speed.
void Engine::book_chain(const Place& at, const ThreadInstruction& in, int64_t before, int64_t ran) {
  const int64_t after = recorded_time(at.block, in.stream);
  if (ops_) book_op(at, in.first, after - ran, after);
  if (in.stream != kCompute) return;
  record_->book(at.block.role, Spend::launch, after - before - ran);
  book_more(at, in.first, in.count, ran - in.ps * kNominal);
}

// Ops of a chain that has run beside communication.
void Engine::book_slowed(const Place& at, const ThreadInstruction& in) {
  const Rank& rank = ranks_[at.block.role * width_ + at.block.lane];
  const uint32_t count = at.th.ops - rank.first_op;
  int64_t ps = 0;
  for (uint32_t i = 0; i < count; ++i) ps += at.pass.ops[in.first + rank.first_op + i].ps;
  const uint32_t id = at.block.role * width_ + at.block.lane;
  // The pace of its begin, not of its end: a window may begin or end at this very moment.
  const int64_t own = is_uneven(id) ? std::min(ps * rank.first_pace, now_ - rank.begin)
                                    : ps * int64_t{slowness_[id]};
  book_more(at, in.first + rank.first_op, count, own - ps * kNominal);
  record_->book(at.block.role, Spend::contention, now_ - rank.begin - own);
  if (ops_) book_op(at, in.first, rank.begin, now_);
}

// Op `op` of the pass's list ran in [begin, end).  REQUIRES: ops_, so it is a chain by itself.
void Engine::book_op(const Place& at, uint32_t op, int64_t begin, int64_t end) {
  const uint32_t item = program_.roles[at.block.role].items[at.th.list][at.th.at];
  record_->op(at.block.role, item, at.pass.ops[op].index, begin, end);
}

// Books that the ops took `more` longer than priced, to each by its share of the time.
void Engine::book_more(const Place& at, uint32_t first, uint32_t count, int64_t more) {
  int64_t total = 0;
  for (uint32_t i = first; i < first + count; ++i) total += at.pass.ops[i].ps;
  for (uint32_t i = first; i < first + count && total > 0; ++i) {
    const ThreadOp& op = at.pass.ops[i];
    record_->book(at.block.role, op.spend, static_cast<int64_t>(Wide{more} * op.ps / total));
  }
}

// A collective: of the recorded lane the stream was free at `before`, the lane ready at `ready`,
// the group at `begin`; it has ended.
void Engine::book_collective(const Place& at, const ThreadInstruction& in, int64_t before,
                             int64_t ready, int64_t begin) {
  const size_t stream = in.stream;
  const auto lane = static_cast<uint32_t>(recorded_);
  const Axis axis = graph_.works[in.work].axis;
  const Groups& groups = groups_[static_cast<size_t>(axis)];
  std::vector<LaneSpan> spans;
  for (const uint32_t other : groups.lanes_of(groups.of[lane])) {
    if (!lanes_.windows.empty()) add_link_spans(axis, at.block.role, other, spans);
  }
  const uint8_t link_class = class_of(at.block.role, in.work, lane);
  const int64_t alone = priced_end(begin, in.work, link_class, spans) - begin;
  const int64_t end = recorded_time(at.block, stream);
  role_records_[at.block.role].straggler[stream] = {ready, begin, begin + alone, end};
  if (ops_) book_op(at, in.first, begin, end);
  if (stream != kCompute) return;
  record_->book(at.block.role, Spend::launch, ready - before);
  record_->book(at.block.role, Spend::straggler, begin - ready);
  record_->book(at.block.role, at.pass.ops[in.first].spend,
                alone - price_in(0, in.work) * kNominal);
  record_->book(at.block.role, Spend::contention, end - begin - alone);
}

// A post to the group that the recorded lane is in.
void Engine::book_post(const Block& block, uint32_t item, uint32_t id, uint32_t lane,
                       int64_t time) {
  RendezvousRecord& record = rendezvous_records_[id];
  if (lane == recorded_) record.own.emplace_back(block.role, time);
  see_post(record, block.role, item, time);
}

void Engine::see_post(RendezvousRecord& record, uint32_t role, uint32_t item, int64_t time) {
  if (time < record.last || (time == record.last && role >= record.last_role)) return;
  record.last = time;
  record.last_role = role;
  record.last_item = item;
}

void Engine::book_join(const Block& block, uint32_t item, const Arrivals& group) {
  const Item& it = graph_.roles[block.role].items[item];
  if (it.stream != Stream::compute) return;
  const RendezvousRecord& record = rendezvous_records_[static_cast<size_t>(it.rendezvous)];
  const auto own = std::ranges::find(record.own, block.role, &std::pair<uint32_t, int64_t>::first);
  const bool waits_for_own_role = record.last_role == block.role && own != record.own.end();
  record_->rendezvous_wait(
      block.role, it, item, recorded_time(block, kCompute), group.end,
      waits_for_own_role ? StragglerWait{own->second, group.begin} : StragglerWait{});
}

void Engine::book_rendezvous(const Occurrence& occurrence, uint32_t group) {
  const Groups& groups = groups_of(occurrence);
  if (groups.of[static_cast<size_t>(recorded_)] != group) return;
  const Arrivals& arrivals = occurrence.of(group);
  const RendezvousRecord& record = rendezvous_records_[occurrence.source];
  const int64_t alone_end = priced_end(arrivals.begin, occurrence.work, class_of(occurrence, group),
                                       link_spans(occurrence, group));
  record_->timeline.rendezvous[occurrence.source] = {to_time(arrivals.begin), to_time(arrivals.end),
                                                     record.last_role, record.last_item,
                                                     to_time(arrivals.end - alone_end)};
}

void Engine::finish_record(LaneResult& result) {
  for (uint32_t r = 0; r < graph_.roles.size(); ++r) {
    const Block& block =
        blocks_[r * (width_ / block_lanes_) + static_cast<uint32_t>(recorded_) / block_lanes_];
    const std::vector<Item>& items = graph_.roles[r].items;
    int64_t at = 0, busy = 0, end = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto& [begin, until] = role_records_[r].items[i];
      record_->item(r, items[i], begin == kUnknown ? at : begin, until == kUnknown ? at : until);
      if (until != kUnknown) at = until;
      if (items[i].kind != ItemKind::pass) continue;
      const PassThreads& pass = program_.passes[static_cast<size_t>(items[i].pass)];
      for (const ThreadInstruction& in : pass.code[kCompute]) {
        if (in.code != ThreadCode::wait && in.code != ThreadCode::watch) busy += in.ps;
      }
    }
    for (size_t s = 0; s < kStreams; ++s) end = std::max(end, recorded_time(block, s));
    const int64_t first = first_start_[r * width_ + static_cast<size_t>(recorded_)];
    record_->finish_role(r, first == kUnknown ? 0 : first, recorded_time(block, kCompute), end,
                         busy);
  }
  result.timeline = std::move(record_->timeline);
  result.timeline.rank_ops = 0;
  for (const RoleThreads& role : program_.roles) result.timeline.rank_ops += role.device_ops;
  result.timeline.makespan = result.makespan;
  result.timeline.span = result.span;
}
}  // namespace contention

namespace {

bool is_private(const Traffic& traffic) {
  return std::ranges::all_of(traffic.pattern_of, [](const auto& of_work) {
    return std::ranges::all_of(of_work, [](uint32_t p) { return p == Traffic::kPrivate; });
  });
}

// Of all roles together.
int64_t ops_of_a_lane(const OpGraph& graph) {
  int64_t ops = 0;
  for (const RoleOps& role : graph.roles) {
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::pass)
        ops += std::ssize(graph.passes[static_cast<size_t>(item.pass)].ops);
    }
  }
  return ops;
}

// The step on shared links, of one lane of each kind.  Links are counted as far as they can be full
// (folded_traffic.cc).
ContentionResult run_folded_traffic(const OpGraph& graph, const Prices& prices,
                                    const LaneSet& lanes, const Traffic& traffic,
                                    const Interference& interference, const LaneOptions& options) {
  constexpr int kMostGuesses = 8;
  contention::TrafficFolder folder(graph, lanes, traffic);
  std::optional<contention::FoldedTraffic> folded;
  contention::MeetingTimes times;  // of the last run, where the lane to record is not known
  int64_t turns = 0;               // of the runs so far
  const auto make_engine = [&] {
    LaneOptions left = options;
    left.most_turns = options.most_turns - turns;
    return contention::Engine(graph, prices, folded ? folded->lanes.lanes : lanes,
                              folded ? folded->traffic : traffic, interference, left,
                              folded ? &folded->lanes : nullptr,
                              folded ? folded->groups : contention::groups_of_axes(lanes));
  };
  const auto as_run = [&](int64_t lane) {
    return folded && lane >= 0 ? folded->lanes.of[static_cast<size_t>(lane)] : lane;
  };
  const auto run = [&](int64_t lane, std::vector<contention::FlowSpan>* flows) {
    contention::Engine engine = make_engine();
    if (flows != nullptr) engine.note_flows(*flows);
    if (options.record && lane < 0) engine.keep_times(times);
    ContentionResult result = engine.run(as_run(lane));
    result.turns = turns += result.turns;
    return result;
  };
  // The lane to record, as far as it is known before the end.
  const auto known_lane = [&]() -> int64_t {
    if (!options.record) return -1;
    return options.lane < 0 && folded && folded->lanes.original.size() == 1 ? 0 : options.lane;
  };
  std::optional<ContentionResult> result;
  for (int guess = 0; !result; ++guess) {
    folded = folder.fold();
    // A guess is to cost less than what it may spare.
    if (!folded || guess == kMostGuesses || 4 * folded->lanes.lanes.lanes() > lanes.lanes()) break;
    std::vector<contention::FlowSpan> flows;
    try {
      ContentionResult guessed = run(known_lane(), &flows);
      if (!folder.count_full_links(*folded, flows)) result = std::move(guessed);
    } catch (const InputError&) {
      break;  // the guess takes too long; all links may not
    }
  }
  if (!result) {
    folder.count_all();
    folded = folder.fold();
    result = run(known_lane(), nullptr);
  }
  if (options.record && known_lane() < 0)
    make_engine().run_again(as_run(result->lanes.last_lane), times, result->lanes);
  return *std::move(result);
}

}  // namespace

ContentionResult run_contended(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                               const Traffic& traffic, const Interference& interference,
                               const LaneOptions& options, LonePassCache* passes) {
  STEPCAST_CHECK(prices.by_work.size() == graph.works.size(), "one price for each work");
  const int64_t compute = contention::whole_factor(interference.compute);
  const int64_t communication = contention::whole_factor(interference.communication);
  if (options.fold && !is_private(traffic)) {
    return run_folded_traffic(graph, prices, lanes, traffic, interference, options);
  }
  // Equal lanes on links of their own begin and end alike, and what one op does to another does not
  // depend on how many others do the same: one of them stands for all.
  std::optional<FoldedLanes> folded;
  if (options.fold && !lanes.jitter) folded = fold_lanes(lanes, true);
  if (folded && contention::are_equal(*folded) && !(options.record && options.ops) &&
      (compute != kNominal || communication != kNominal)) {
    std::optional<ContentionResult> lone =
        contention::run_lone_passes(graph, prices, static_cast<int64_t>(folded->of.size()), compute,
                                    communication, options.merge, options.record, passes);
    if (lone) return *std::move(lone);
    return contention::run_equal_ranks(graph, prices, *folded, compute, communication,
                                       options.merge, options.record);
  }
  const LaneSet& run_lanes = folded ? folded->lanes : lanes;
  // Mostly more turns than ops, and none is needed to know that they are too many.
  if (run_lanes.lanes() > options.most_turns / std::max<int64_t>(1, ops_of_a_lane(graph)))
    throw TooManyTurns(Time{});
  const auto make_engine = [&] {
    return contention::Engine(graph, prices, run_lanes, traffic, interference, options,
                              folded ? &*folded : nullptr, contention::groups_of_axes(run_lanes));
  };
  const auto as_run = [&](int64_t lane) {
    return folded && lane >= 0 ? folded->of[static_cast<size_t>(lane)] : lane;
  };
  int64_t lane = options.lane;
  if (!options.record) return make_engine().run(-1);
  if (lane < 0 && folded && folded->lanes.lanes() == 1) lane = 0;
  if (lane >= 0) return make_engine().run(as_run(lane));
  contention::MeetingTimes times;  // the lane is known at the end
  ContentionResult result;
  {
    contention::Engine engine = make_engine();
    engine.keep_times(times);
    result = engine.run(-1);
  }
  make_engine().run_again(as_run(result.lanes.last_lane), times, result.lanes);
  return result;
}

}  // namespace stepcast
