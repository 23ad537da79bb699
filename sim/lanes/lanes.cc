// SPDX-License-Identifier: Apache-2.0
// The engine of lanes.
//
// Roles are walked as in run.cc: in any order, each as far as it goes.  But every clock, of a
// stream, the host, a slot of a pass or a rendezvous, is a vector with the time of each lane, so
// an instruction of a role is executed once for all of its ranks: a loop of additions and maxima
// without branches, which compilers turn into vector code (lane_kernels.h).
//
// An example: one role with tp = 2 and dp = 2, hence the lanes (tp, dp) = (0,0) (1,0) (0,1) (1,1),
// of which the last is a GPU of half the speed.  A pass is a product of 10, an all-reduce over tp
// that takes 3, and another product of 10:
//
//     product      10 10 | 10 20     t += 10 * slowness
//     all-reduce   10 10 | 20 20     the latest of each tp group ...
//                  13 13 | 23 23     ... and its price
//     product      23 23 | 33 43
//
// So the slow GPU holds up its tp group at once, and the other one as soon as something is
// communicated over dp.  Lanes (0,0) and (1,0) had equal times all along: were the last lane no
// slower than they, all four would be equal, one of them would be kept (fold_lanes), and the
// vectors would have one entry.
//
// Three things keep the loops short.  Chains of ops on one stream are one instruction, whose
// duration and host term are straight lines in the slowness of the lane (lane_program.h).  Each
// clock has bounds on its times, and where they show that the host, or what is waited for, cannot
// be later on any lane, that maximum is left out.  And where a stream follows another one, as
// compute and the collectives between its ops do, the clock is set instead of compared.
//
// A step is recorded by a second run, which writes down what the wanted lane does
// (lane_recorder.h). All times are in 1/4096 ps, so that slowness in 1/4096 gives whole numbers.

#include "sim/lanes/lanes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/engine/role_queue.h"
#include "sim/lanes/lane_groups.h"
#include "sim/lanes/lane_kernels.h"
#include "sim/lanes/lane_program.h"
#include "sim/lanes/lane_recorder.h"
#include "sim/lanes/lane_speeds.h"

namespace stepcast {

namespace kernels = lane_kernels;

namespace {

class LaneEngine {
 public:
  // `record`: the lane to record, or -1; `ops`: and each of its ops.  REQUIRES: then not `merge`.
  LaneEngine(const OpGraph& graph, const Prices& prices, const FoldedLanes& folded, bool merge,
             int64_t record, bool ops = false);

  // Throws Deadlock.
  void run();

  // When the last stream of each lane ends.
  std::vector<int64_t> ends(size_t r) const;
  const std::vector<int64_t>& begins(size_t r) const { return roles_[r].begin; }
  int64_t role_ops(size_t r) const { return static_cast<int64_t>(roles_[r].instances); }

  // REQUIRES: a lane was recorded.
  Timeline take_timeline();

 private:
  static constexpr auto kCompute = static_cast<size_t>(Stream::compute);

  struct RoleState {
    std::array<LaneClock, kStreams> stream;
    LaneClock host;           // the host's time is this ...
    int64_t host_offset = 0;  // ... plus this, on all lanes
    uint32_t item = 0;        // next one to execute
    std::vector<LaneClock> events;
    std::vector<uint32_t> event_waits;  // still to come
    bool started = false;
    std::vector<int64_t> begin;  // of the first op on the compute stream
    uint64_t instances = 0;      // ops executed
    std::array<StragglerWait, kStreams> straggler{};
    std::vector<StragglerWait> event_straggler;
  };

  struct RendezvousState {
    LaneClock clock;  // while posts come in: the latest; then its end
    uint32_t posts = 0;
    uint32_t joins = 0;           // still to come
    uint32_t sleepers = kNobody;  // roles that stand at its join
    // On the recorded lane:
    int64_t begin = 0;
    uint32_t last_role = kNobody, last_item = 0;
    std::vector<std::pair<uint32_t, int64_t>> posted;  // by whom, when
  };

  // --- before the run, items

  LaneTraits traits_of_lanes() const;
  // Which roles a rendezvous joins: those that post it or wait for it.
  void find_ends();
  void prepare_role(size_t r);
  // Executes items of role r until it has to wait for another role or is done.
  void advance(uint32_t r);
  // The time on the recorded lane.
  int64_t on_lane(const LaneClock& clock) const;
  // False if the item has to be tried again later.
  bool execute(uint32_t r, RoleState& role, const Item& item);
  void wait(uint32_t r, RoleState& role, const Item& item, LaneClock& stream);
  void post(uint32_t r, RoleState& role, const Item& item, const LaneClock& stream);
  void complete(uint32_t id, const Work& work, RendezvousState& m);
  bool join(uint32_t r, RoleState& role, const Item& item, LaneClock& stream);

  // --- clocks, passes

  void raise(LaneClock& c, const LaneClock& other, int64_t by);
  // c = max(c, host + lead), unless no lane can be that early.
  void raise_by_host(const RoleState& role, LaneClock& c, int64_t lead);
  // The host waits for `until`.
  void hold_host(RoleState& role, const LaneClock& until);
  void copy(LaneClock& to, const LaneClock& from);
  void release(LaneClock& clock);
  LaneClock& place(RoleState& role, LanePlace p);
  void run_pass(uint32_t r, RoleState& role, const Item& item);
  void book_begin(RoleState& role, const LaneInstruction& in, int64_t launch, const LaneClock& c,
                  const LaneClock* other);
  Axis axis_of(const LaneInstruction& in) const;
  // Waits, then stands where the host lets a single op begin.
  void get_ready(RoleState& role, const LaneInstruction& in, LaneClock& c, const LaneClock* other);
  void mark_start(RoleState& role, const LaneInstruction& in, const LaneClock& c);
  void run_chain(const RoleSpeeds& speeds, RoleState& role, const LanePass& pass,
                 const LaneInstruction& in, LaneClock& c, const LaneClock* other);
  // c = max(c, other + delay) + duration
  void add_duration(const RoleSpeeds& speeds, const LaneInstruction& in, LaneClock& c,
                    const LaneClock* other);
  void add_scaled(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& line);
  // The bounds, after the duration has been added.
  static void later(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& duration);
  // c = max(c, host + line)
  void raise_by_line(const RoleSpeeds& speeds, const RoleState& role, const LaneLine& line,
                     LaneClock& c);
  // One op of compute on lanes with jitter or windows.
  void run_by_op(const RoleSpeeds& speeds, RoleState& role, const LaneInstruction& in, LaneClock& c,
                 const LaneClock* other);
  void run_join(uint32_t r, RoleState& role, const LaneInstruction& in, LaneClock& c,
                const LaneClock* other);

  // --- what is recorded

  StragglerWait& straggler_at(RoleState& role, LanePlace p);
  void book_wait(uint32_t r, RoleState& role, const LaneInstruction& in, const LaneClock& c,
                 const LaneClock& other);
  // Runs an instruction and records why its stream stood still, and what it took beyond its price.
  void run_recorded(uint32_t r, RoleState& role, const LanePass& pass, const LaneInstruction& in,
                    LaneClock& c, const LaneClock* other);
  // Both return when it begins on the recorded lane, of a chain only if it is a single op.
  int64_t record_join(uint32_t r, RoleState& role, const LaneInstruction& in, LaneClock& c);
  int64_t record_op(uint32_t r, RoleState& role, const LanePass& pass, const LaneInstruction& in,
                    LaneClock& c);
  void book_slowness(uint32_t r, const LanePass& pass);
  void book_post(uint32_t r, const RoleState& role, const LaneClock& stream, Axis axis,
                 RendezvousState& m);
  void book_join(uint32_t r, const RoleState& role, const Item& item, const RendezvousState& m);

  const OpGraph& graph_;
  int64_t n_ = 1;
  size_t size_ = 1;
  LaneGroups groups_;
  int64_t recorded_ = -1;
  std::unique_ptr<LaneRecorder> record_;
  std::vector<RoleState> roles_;
  std::vector<RendezvousState> rendezvous_;
  RoleQueue queue_;
  std::vector<RoleSpeeds> speeds_;
  JitterTable jitter_{};
  bool jitters_ = false;
  LaneProgram merged_, single_;
  std::vector<std::vector<uint32_t>> ends_;  // of rendezvous, where it matters
  std::vector<LaneClock> slots_;             // of the pass being run; passes never stop half-way
  std::vector<StragglerWait> slot_straggler_;
  std::vector<int64_t> begins_;             // of the op being run, on lanes with windows
  std::vector<std::vector<int64_t>> free_;  // vectors to be used again
};

LaneEngine::LaneEngine(const OpGraph& graph, const Prices& prices, const FoldedLanes& folded,
                       bool merge, int64_t record, bool ops)
    : graph_(graph),
      n_(folded.lanes.lanes()),
      size_(static_cast<size_t>(n_)),
      groups_(graph, prices, folded.lanes),
      recorded_(record),
      roles_(graph.roles.size()),
      rendezvous_(graph.rendezvous.size()),
      queue_(graph.roles.size()) {
  if (recorded_ >= 0) {
    record_ = std::make_unique<LaneRecorder>(graph, ops ? Record::all : Record::account);
  }
  jitters_ = folded.lanes.jitter.has_value();
  if (jitters_) jitter_ = jitter_table(folded.lanes.jitter->sigma);
  speeds_ = role_speeds(folded, roles_.size(), jitter_);
  LaneTraits traits = traits_of_lanes();
  traits.merge = merge;
  merged_ = compile_lanes(graph, prices, traits);
  const bool any_by_op =
      std::any_of(speeds_.begin(), speeds_.end(), [](const RoleSpeeds& s) { return s.by_op(); });
  traits.merge = false;
  if (any_by_op) single_ = compile_lanes(graph, prices, traits);
  find_ends();
  int32_t slots = 0;
  for (const LaneProgram* p : {&merged_, &single_}) {
    for (const LanePass& pass : p->passes) slots = std::max(slots, pass.slots);
  }
  slots_.resize(static_cast<size_t>(slots));
  slot_straggler_.resize(static_cast<size_t>(slots));
  for (size_t r = 0; r < roles_.size(); ++r) prepare_role(r);
}

void LaneEngine::run() {
  while (!queue_.empty()) advance(queue_.take());
  throw_if_stuck(graph_, roles_);
}

std::vector<int64_t> LaneEngine::ends(size_t r) const {
  std::vector<int64_t> end(size_, 0);
  for (const LaneClock& c : roles_[r].stream) {
    if (!c.t.empty()) kernels::raise(end.data(), c.t.data(), n_, 0);
  }
  return end;
}

LaneTraits LaneEngine::traits_of_lanes() const {
  LaneTraits traits{.fastest = INT32_MAX, .slowest = 1};
  for (const RoleSpeeds& s : speeds_) {
    traits.fastest = std::min(traits.fastest, s.fastest);
    traits.slowest = std::max(traits.slowest, s.slowest);
  }
  for (int axis = 0; axis < kAxes; ++axis) {
    traits.joins[static_cast<size_t>(axis)] = groups_.joins(static_cast<Axis>(axis));
  }
  return traits;
}

void LaneEngine::find_ends() {
  if (groups_.by_role()) ends_.resize(graph_.rendezvous.size());
  for (uint32_t r = 0; r < roles_.size(); ++r) {
    for (const Item& item : graph_.roles[r].items) {
      if (item.kind != ItemKind::post && item.kind != ItemKind::join) continue;
      const auto id = static_cast<size_t>(item.rendezvous);
      if (item.kind == ItemKind::join) ++rendezvous_[id].joins;
      if (ends_.empty()) continue;
      if (ends_[id].empty() || ends_[id].back() != r) ends_[id].push_back(r);
    }
  }
}

void LaneEngine::prepare_role(size_t r) {
  RoleState& role = roles_[r];
  uint32_t events = 0;
  std::array<bool, kStreams> used{};
  std::vector<bool> seen(graph_.passes.size());
  for (const Item& item : graph_.roles[r].items) {
    used[static_cast<size_t>(item.stream)] = true;
    if (item.kind == ItemKind::record || item.kind == ItemKind::wait) {
      events = std::max(events, item.event + 1);
      role.event_waits.resize(std::max(role.event_waits.size(), size_t{item.event} + 1));
      if (item.kind == ItemKind::wait) ++role.event_waits[item.event];
    }
    if (item.kind != ItemKind::pass || seen[static_cast<size_t>(item.pass)]) continue;
    seen[static_cast<size_t>(item.pass)] = true;
    for (const LaneInstruction& in : merged_.passes[static_cast<size_t>(item.pass)].code) {
      used[static_cast<size_t>(in.stream)] = true;
    }
  }
  for (size_t s = 0; s < used.size(); ++s) {
    if (used[s]) role.stream[s].t.assign(size_, 0);
  }
  role.host.t.assign(size_, 0);
  role.events.resize(events);
  role.event_straggler.resize(events);
}

void LaneEngine::advance(uint32_t r) {
  RoleState& role = roles_[r];
  const std::vector<Item>& items = graph_.roles[r].items;
  for (; role.item < items.size(); ++role.item) {
    const Item& item = items[role.item];
    const int64_t before = on_lane(role.stream[kCompute]);
    if (!execute(r, role, item)) return;
    if (record_) record_->item(r, item, before, on_lane(role.stream[kCompute]));
  }
}

int64_t LaneEngine::on_lane(const LaneClock& clock) const {
  if (!record_ || clock.t.empty()) return 0;
  return clock.t[static_cast<size_t>(recorded_)];
}

bool LaneEngine::execute(uint32_t r, RoleState& role, const Item& item) {
  LaneClock& stream = role.stream[static_cast<size_t>(item.stream)];
  switch (item.kind) {
    case ItemKind::pass: run_pass(r, role, item); return true;
    case ItemKind::post: post(r, role, item, stream); return true;
    case ItemKind::join: return join(r, role, item, stream);
    case ItemKind::record:
      if (role.event_waits[item.event] == 0) return true;
      copy(role.events[item.event], stream);
      role.event_straggler[item.event] = role.straggler[static_cast<size_t>(item.stream)];
      return true;
    case ItemKind::wait: wait(r, role, item, stream); return true;
    case ItemKind::sync: hold_host(role, stream); return true;
  }
  return true;
}

void LaneEngine::wait(uint32_t r, RoleState& role, const Item& item, LaneClock& stream) {
  LaneClock& event = role.events[item.event];
  if (!event.t.empty()) {
    if (record_ && item.stream == Stream::compute) {
      record_->event_wait(r, item, role.item, on_lane(stream), on_lane(event),
                          role.event_straggler[item.event]);
    }
    raise(stream, event, 0);
  }
  if (--role.event_waits[item.event] == 0) release(event);
}

void LaneEngine::post(uint32_t r, RoleState& role, const Item& item, const LaneClock& stream) {
  const auto id = static_cast<uint32_t>(item.rendezvous);
  const Rendezvous& rendezvous = graph_.rendezvous[id];
  role.host_offset += merged_.launches[static_cast<size_t>(rendezvous.launch)];
  const Work& work = graph_.works[static_cast<size_t>(rendezvous.work)];
  RendezvousState& m = rendezvous_[id];
  if (record_) book_post(r, role, stream, work.axis, m);
  if (m.posts == 0) {
    copy(m.clock, stream);
  } else {
    raise(m.clock, stream, 0);
  }
  raise_by_host(role, m.clock, 0);
  if (++m.posts < rendezvous.parties) return;
  complete(id, work, m);
}

void LaneEngine::complete(uint32_t id, const Work& work, RendezvousState& m) {
  const LaneGroups::Roles roles =
      ends_.empty() ? LaneGroups::Roles{} : LaneGroups::Roles(ends_[id]);
  if (record_) {
    groups_.synchronize(m.clock, work.axis);
    m.begin = on_lane(m.clock);
    groups_.add_price(m.clock, work, graph_.rendezvous[id].work, roles);
    record_->timeline.rendezvous[id] = {to_time(m.begin), to_time(on_lane(m.clock)), m.last_role,
                                        m.last_item};
  } else {
    groups_.synchronize_and_add(m.clock, nullptr, 0, false, work, graph_.rendezvous[id].work,
                                roles);
  }
  if (m.joins == 0) release(m.clock);
  queue_.wake(m.sleepers);
}

bool LaneEngine::join(uint32_t r, RoleState& role, const Item& item, LaneClock& stream) {
  const auto id = static_cast<uint32_t>(item.rendezvous);
  RendezvousState& m = rendezvous_[id];
  if (m.posts < graph_.rendezvous[id].parties) {
    queue_.sleep(r, m.sleepers);
    return false;
  }
  if (record_ && item.stream == Stream::compute) book_join(r, role, item, m);
  raise(stream, m.clock, 0);
  if (item.host_waits) hold_host(role, m.clock);
  if (--m.joins == 0) release(m.clock);
  return true;
}

void LaneEngine::raise(LaneClock& c, const LaneClock& other, int64_t by) {
  if (&c == &other) {  // a stream that waits for itself
    STEPCAST_CHECK(by == 0, "a stream that waits for its own future");
    return;
  }
  kernels::raise(c.t.data(), other.t.data(), n_, by);
  c.lo = std::max(c.lo, other.lo + by);
  c.hi = std::max(c.hi, other.hi + by);
  check_limit(c);
}

void LaneEngine::raise_by_host(const RoleState& role, LaneClock& c, int64_t lead) {
  const int64_t by = role.host_offset + lead;
  if (c.lo >= role.host.hi + by) return;
  if (jitters_) {
    // No lane draws the least or the largest factor again and again, so bounds that count with that
    // are soon far off, and looking is cheaper than a maximum that changes nothing.
    c.lo = kernels::smallest(c.t.data(), n_);
    if (c.lo >= role.host.hi + by) return;
  }
  if (role.host.lo == role.host.hi) {
    kernels::raise_to(c.t.data(), n_, role.host.lo + by);
  } else {
    kernels::raise(c.t.data(), role.host.t.data(), n_, by);
  }
  c.lo = std::max(c.lo, role.host.lo + by);
  c.hi = std::max(c.hi, role.host.hi + by);
  check_limit(c);
}

void LaneEngine::hold_host(RoleState& role, const LaneClock& until) {
  const int64_t by = std::exchange(role.host_offset, 0);
  kernels::add(role.host.t.data(), n_, by);
  role.host.lo += by;
  role.host.hi += by;
  raise(role.host, until, 0);
  if (jitters_) role.host.hi = kernels::largest(role.host.t.data(), n_);
}

void LaneEngine::copy(LaneClock& to, const LaneClock& from) {
  if (to.t.empty() && !free_.empty()) {
    to.t = std::move(free_.back());
    free_.pop_back();
  }
  to.t.assign(from.t.begin(), from.t.end());
  to.lo = from.lo;
  to.hi = from.hi;
}

void LaneEngine::release(LaneClock& clock) {
  if (!clock.t.empty()) free_.push_back(std::exchange(clock.t, {}));
}

LaneClock& LaneEngine::place(RoleState& role, LanePlace p) {
  const auto i = static_cast<size_t>(p);
  return i < kStreams ? role.stream[i] : slots_[i - kStreams];
}

void LaneEngine::run_pass(uint32_t r, RoleState& role, const Item& item) {
  const RoleSpeeds& speeds = speeds_[r];
  const bool by_op = speeds.by_op();
  const LanePass& pass = (by_op ? single_ : merged_).passes[static_cast<size_t>(item.pass)];
  for (const LaneInstruction& in : pass.code) {
    LaneClock& c = role.stream[static_cast<size_t>(in.stream)];
    const LaneClock* other = in.wait == kNoPlace ? nullptr : &place(role, in.wait);
    if (in.code == LaneCode::wait) {
      if (record_) book_wait(r, role, in, c, *other);
      raise(c, *other, in.delay);
      continue;
    }
    if (!role.started && in.stream == Stream::compute) {
      const Op& first = graph_.passes[static_cast<size_t>(item.pass)].ops[in.op];
      book_begin(role, in, merged_.launches[static_cast<size_t>(first.launch)], c, other);
    }
    if (record_) {
      run_recorded(r, role, pass, in, c, other);
    } else if (in.code == LaneCode::join) {
      run_join(r, role, in, c, other);
    } else if (by_op && in.duration.scaled != 0) {
      run_by_op(speeds, role, in, c, other);
    } else {
      run_chain(speeds, role, pass, in, c, other);
    }
    role.host_offset += in.launch;
    if (in.mark_end != kNoPlace) copy(place(role, in.mark_end), c);
  }
  if (record_ && !by_op) book_slowness(r, pass);
  role.instances += pass.device_ops;
}

void LaneEngine::book_begin(RoleState& role, const LaneInstruction& in, int64_t launch,
                            const LaneClock& c, const LaneClock* other) {
  role.started = true;
  LaneClock begin = c;
  if (other != nullptr) raise(begin, *other, in.delay);
  raise_by_host(role, begin, launch);
  if (in.code == LaneCode::join) groups_.synchronize(begin, axis_of(in));
  role.begin = std::move(begin.t);
}

Axis LaneEngine::axis_of(const LaneInstruction& in) const {
  return graph_.works[static_cast<size_t>(in.work)].axis;
}

void LaneEngine::get_ready(RoleState& role, const LaneInstruction& in, LaneClock& c,
                           const LaneClock* other) {
  if (other != nullptr) raise(c, *other, in.delay);
  raise_by_host(role, c, in.launch);
}

void LaneEngine::mark_start(RoleState& role, const LaneInstruction& in, const LaneClock& c) {
  if (in.mark_start != kNoPlace) copy(place(role, in.mark_start), c);
}

void LaneEngine::run_chain(const RoleSpeeds& speeds, RoleState& role, const LanePass& pass,
                           const LaneInstruction& in, LaneClock& c, const LaneClock* other) {
  const bool single = in.leads == 0;
  const int64_t lo =
      other == nullptr ? c.lo : std::max(c.lo, other->lo + in.delay);  // before the chain
  if (single && (in.mark_start != kNoPlace || lo < role.host.hi + role.host_offset + in.launch)) {
    get_ready(role, in, c, other);
    mark_start(role, in, c);
    add_duration(speeds, in, c, nullptr);
  } else {
    add_duration(speeds, in, c, other);
  }
  for (uint32_t i = 0; i < in.leads; ++i) {
    const LaneLine& line = pass.leads[in.first_lead + i];
    const LaneLine ahead{in.duration.constant - line.constant, in.duration.scaled - line.scaled};
    if (lo + ahead.at(speeds.fastest) < role.host.hi + role.host_offset) {
      raise_by_line(speeds, role, line, c);
    }
  }
}

void LaneEngine::add_duration(const RoleSpeeds& speeds, const LaneInstruction& in, LaneClock& c,
                              const LaneClock* other) {
  const bool same = speeds.same || in.duration.scaled == 0;
  const bool wide = !same && speeds.wide(in.duration.scaled);
  if (other != nullptr && wide) raise(c, *std::exchange(other, nullptr), in.delay);
  if (other != nullptr) {
    c.lo = std::max(c.lo, other->lo + in.delay);
    c.hi = std::max(c.hi, other->hi + in.delay);
  }
  const bool follows = other != nullptr && in.follows;
  if (follows) c.hi = other->hi + in.delay;
  if (same && follows) {
    kernels::set(c.t.data(), other->t.data(), n_, in.delay + in.duration.at(speeds.slowness[0]));
  } else if (same && other != nullptr) {
    kernels::raise_add(c.t.data(), other->t.data(), n_, in.delay,
                       in.duration.at(speeds.slowness[0]));
  } else if (same) {
    kernels::add(c.t.data(), n_, in.duration.at(speeds.slowness[0]));
  } else if (follows) {
    kernels::set_scaled(c.t.data(), other->t.data(), speeds.slowness_as_double.data(), n_,
                        in.duration.scaled, in.delay + in.duration.constant);
  } else if (other != nullptr) {
    kernels::raise_add_scaled(c.t.data(), other->t.data(), speeds.slowness_as_double.data(), n_,
                              in.delay, in.duration.scaled, in.duration.constant);
  } else {
    add_scaled(speeds, c, in.duration);
  }
  later(speeds, c, in.duration);
}

void LaneEngine::add_scaled(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& line) {
  const auto kernel = speeds.wide(line.scaled) ? kernels::add_scaled_wide : kernels::add_scaled;
  kernel(c.t.data(), speeds.slowness_as_double.data(), n_, line.scaled, line.constant);
}

void LaneEngine::later(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& duration) {
  c.lo += duration.at(speeds.fastest);
  c.hi += duration.at(speeds.slowest);
  check_limit(c);
}

void LaneEngine::raise_by_line(const RoleSpeeds& speeds, const RoleState& role,
                               const LaneLine& line, LaneClock& c) {
  if (speeds.same || line.scaled == 0) {
    raise_by_host(role, c, line.at(speeds.slowness[0]));
    return;
  }
  const auto kernel = speeds.wide(line.scaled) ? kernels::raise_scaled_wide : kernels::raise_scaled;
  kernel(c.t.data(), role.host.t.data(), speeds.slowness_as_double.data(), n_, line.scaled,
         role.host_offset + line.constant);
  c.lo = std::max(c.lo, role.host.lo + role.host_offset + line.at(speeds.fastest));
  c.hi = std::max(c.hi, role.host.hi + role.host_offset + line.at(speeds.slowest));
  check_limit(c);
}

void LaneEngine::run_by_op(const RoleSpeeds& speeds, RoleState& role, const LaneInstruction& in,
                           LaneClock& c, const LaneClock* other) {
  get_ready(role, in, c, other);
  mark_start(role, in, c);
  const bool jitters = !speeds.jitter_key.empty();
  const uint32_t key = jitter_instance_key(role.instances + in.op);
  begins_.clear();
  for (const LaneWindows& w : speeds.windows) begins_.push_back(c.t[static_cast<size_t>(w.lane)]);
  if (jitters) {
    kernels::add_jittered(c.t.data(), speeds.slowness_as_double.data(), speeds.jitter_key.data(),
                          jitter_.factor.data(), key, n_, in.duration.scaled,
                          speeds.same && speeds.slowness[0] == kNominal,
                          speeds.wide(in.duration.scaled));
  } else {
    add_scaled(speeds, c, in.duration);
  }
  for (size_t i = 0; i < begins_.size(); ++i) {
    const LaneWindows& w = speeds.windows[i];
    const auto lane = static_cast<size_t>(w.lane);
    if (begins_[i] >= w.last || c.t[lane] <= w.first) continue;
    const uint32_t factor =
        jitters ? jitter_.factor[jitter_index(speeds.jitter_key[lane], key)] : uint32_t{kNominal};
    c.t[lane] = end_of_compute(begins_[i], in.duration.scaled,
                               static_cast<Slowness>(speeds.slowness[lane]), factor, w.spans);
  }
  later(speeds, c, in.duration);
}

void LaneEngine::run_join(uint32_t r, RoleState& role, const LaneInstruction& in, LaneClock& c,
                          const LaneClock* other) {
  const Work& work = graph_.works[static_cast<size_t>(in.work)];
  const int64_t lo = other == nullptr ? c.lo : std::max(c.lo, other->lo + in.delay);
  const LaneGroups::Roles roles(&r, 1);
  if (in.mark_start == kNoPlace && lo >= role.host.hi + role.host_offset + in.launch) {
    groups_.synchronize_and_add(c, other, in.delay, in.follows, work, in.work, roles);
    return;
  }
  get_ready(role, in, c, other);
  groups_.synchronize(c, work.axis);
  mark_start(role, in, c);
  groups_.add_price(c, work, in.work, roles);
}

Timeline LaneEngine::take_timeline() {
  const auto lane = static_cast<size_t>(recorded_);
  for (uint32_t r = 0; r < roles_.size(); ++r) {
    const LaneClock& compute = roles_[r].stream[kCompute];
    int64_t busy = 0;
    for (const Item& item : graph_.roles[r].items) {
      if (item.kind != ItemKind::pass) continue;
      const LanePass& pass = merged_.passes[static_cast<size_t>(item.pass)];
      for (size_t s = 0; s < kSpends; ++s) busy += pass.scaled[s] + pass.fixed[s];
    }
    const int64_t begin = roles_[r].begin.empty() ? 0 : roles_[r].begin[lane];
    record_->finish_role(r, begin, compute.t.empty() ? 0 : compute.t[lane], ends(r)[lane], busy);
    record_->timeline.rank_ops += role_ops(r);
  }
  return std::move(record_->timeline);
}

StragglerWait& LaneEngine::straggler_at(RoleState& role, LanePlace p) {
  const auto i = static_cast<size_t>(p);
  return i < kStreams ? role.straggler[i] : slot_straggler_[i - kStreams];
}

void LaneEngine::book_wait(uint32_t r, RoleState& role, const LaneInstruction& in,
                           const LaneClock& c, const LaneClock& other) {
  if (in.stream != Stream::compute) return;
  const int64_t from = on_lane(c), until = on_lane(other);
  record_->book_wait(r, in.wait_spend, from, until, straggler_at(role, in.wait));
  // What a wait adds to the end of the other op is the host's (op_graph.h).
  record_->book_wait(r, Spend::launch, std::max(from, until), until + in.delay, {});
}

void LaneEngine::run_recorded(uint32_t r, RoleState& role, const LanePass& pass,
                              const LaneInstruction& in, LaneClock& c, const LaneClock* other) {
  if (other != nullptr) {
    book_wait(r, role, in, c, *other);
    raise(c, *other, in.delay);
  }
  const int64_t begin =
      in.code == LaneCode::join ? record_join(r, role, in, c) : record_op(r, role, pass, in, c);
  if (record_->has_ops()) record_->op(r, role.item, in.op, begin, on_lane(c));
  if (in.mark_end != kNoPlace) {
    straggler_at(role, in.mark_end) = role.straggler[static_cast<size_t>(in.stream)];
  }
}

int64_t LaneEngine::record_join(uint32_t r, RoleState& role, const LaneInstruction& in,
                                LaneClock& c) {
  const int64_t waited = on_lane(c);
  raise_by_host(role, c, in.launch);
  const int64_t ready = on_lane(c);
  groups_.synchronize(c, axis_of(in));
  const int64_t begin = on_lane(c);
  mark_start(role, in, c);
  groups_.add_price(c, graph_.works[static_cast<size_t>(in.work)], in.work,
                    LaneGroups::Roles(&r, 1));
  if (begin > ready) role.straggler[static_cast<size_t>(in.stream)] = {ready, begin};
  if (in.stream != Stream::compute) return begin;
  record_->book(r, Spend::launch, ready - waited);
  record_->book(r, Spend::straggler, begin - ready);
  record_->book(r, in.spend, on_lane(c) - begin - groups_.nominal(in.work));
  return begin;
}

int64_t LaneEngine::record_op(uint32_t r, RoleState& role, const LanePass& pass,
                              const LaneInstruction& in, LaneClock& c) {
  const RoleSpeeds& speeds = speeds_[r];
  const bool computes = in.stream == Stream::compute;
  const int64_t waited = on_lane(c);
  if (!speeds.by_op() || in.duration.scaled == 0) {
    run_chain(speeds, role, pass, in, c, nullptr);
    const int64_t slowness = speeds.slowness[static_cast<size_t>(recorded_)];
    const int64_t begin = on_lane(c) - in.duration.at(slowness);
    if (computes) record_->book(r, Spend::launch, begin - waited);
    return begin;
  }
  raise_by_host(role, c, in.launch);
  const int64_t begin = on_lane(c);
  run_by_op(speeds, role, in, c, nullptr);
  if (!computes) return begin;
  record_->book(r, Spend::launch, begin - waited);
  record_->book(r, in.spend, on_lane(c) - begin - in.duration.at(kNominal));
  return begin;
}

void LaneEngine::book_slowness(uint32_t r, const LanePass& pass) {
  const int64_t more = int64_t{speeds_[r].slowness[static_cast<size_t>(recorded_)]} - kNominal;
  for (size_t s = 0; s < kSpends; ++s) {
    record_->book(r, static_cast<Spend>(s), pass.scaled[s] * more);
  }
}

void LaneEngine::book_post(uint32_t r, const RoleState& role, const LaneClock& stream, Axis axis,
                           RendezvousState& m) {
  LaneClock own;
  copy(own, stream);
  raise_by_host(role, own, 0);
  m.posted.emplace_back(r, on_lane(own));
  groups_.synchronize(own, axis);
  const int64_t time = on_lane(own);
  release(own);
  if (m.posts == 0 || time > m.begin || (time == m.begin && r < m.last_role)) {
    m.begin = time;
    m.last_role = r;
    m.last_item = role.item;
  }
}

void LaneEngine::book_join(uint32_t r, const RoleState& role, const Item& item,
                           const RendezvousState& m) {
  const auto own = std::find_if(m.posted.begin(), m.posted.end(),
                                [&](const auto& post) { return post.first == r; });
  const bool waits_for_own_role = m.last_role == r && own != m.posted.end();
  record_->rendezvous_wait(
      r, item, role.item, on_lane(role.stream[kCompute]), on_lane(m.clock),
      waits_for_own_role ? StragglerWait{own->second, m.begin} : StragglerWait{});
}

// Results of the lanes run, for all lanes.
LaneResult spread(const LaneEngine& engine, const OpGraph& graph, const FoldedLanes& folded) {
  LaneResult out;
  out.lanes_run = folded.lanes.lanes();
  int64_t latest = -1;
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    const std::vector<int64_t> ends = engine.ends(r);
    const std::vector<int64_t>& begins = engine.begins(r);
    for (size_t i = 0; i < ends.size(); ++i) {
      const Time begin = begins.empty() ? Time{} : to_time(begins[i]);
      out.span = std::max(out.span, to_time(ends[i]) - begin);
      const bool earlier_lane = out.last_role == r && folded.original[i] < out.last_lane;
      if (ends[i] > latest || (ends[i] == latest && earlier_lane)) {
        latest = ends[i];
        out.last_role = r;
        out.last_lane = folded.original[i];
      }
    }
    std::vector<Time>& all = out.end.emplace_back();
    all.reserve(folded.of.size());
    for (const int64_t lane : folded.of) all.push_back(to_time(ends[static_cast<size_t>(lane)]));
    out.rank_ops += engine.role_ops(r) * std::ssize(folded.of);
  }
  out.makespan = to_time(std::max(latest, int64_t{0}));
  return out;
}

}  // namespace

LaneResult run_lanes(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                     const LaneOptions& options) {
  const FoldedLanes folded = fold_lanes(lanes, options.fold);
  LaneEngine engine(graph, prices, folded, options.merge, -1);
  engine.run();
  LaneResult result = spread(engine, graph, folded);
  if (options.record) {
    const int64_t wanted = options.lane < 0 ? result.last_lane : options.lane;
    const int64_t lane = folded.of[static_cast<size_t>(wanted)];
    LaneEngine recorder(graph, prices, folded, options.merge && !options.ops, lane, options.ops);
    recorder.run();
    result.timeline = recorder.take_timeline();
    result.timeline.makespan = result.makespan;
    result.timeline.span = result.span;
  }
  return result;
}

}  // namespace stepcast
