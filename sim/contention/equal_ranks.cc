// SPDX-License-Identifier: Apache-2.0
// Equal ranks under interference, one of each role.
//
// The rules are those of the contention engine (contention_compute.cc has an
// example of compute that is slowed).  What makes this case worth an engine of
// its own is how little there is to it: a collective has one member, so it
// begins when its rank gets there; a stream has at most one collective at a
// time; roles meet in rendezvous alone.  A role is therefore a small machine:
// one chain of compute, one collective a stream, the transfers that are on, and
// a few threads that follow the code of contention_program.h.  An example, a
// role between 0 and 10 us whose transfer to the next stage began at -3 us,
// with factors of 1.25:
//
//      0 us    a chain of 8 us alone begins beside the transfer, so its end is
//      put at 10 us, and
//              the transfer goes on at 1 / 1.25 of its pace
//      5 us    the transfer ends: 4 us of the chain are left, and its end is
//      put at 9 us 9 us    the chain has ended; a thread that waited for it
//      begins an all-gather
//
// What happens next in a role is the earliest of a handful of times, and the
// earliest of all roles comes next in the step.  No queue of events is needed,
// and nothing is ever void.
//
//     process()   everything that happens in one role at this moment
//     drain()     threads of the roles concerned go on as far as times are
//     known settle()    who is slowed after everything that happened at this
//     moment, and new ends
//
// All times are in 1/4096 ps; what is left of compute and communication is
// counted in the units of contention_compute.cc.
#include "sim/contention/equal_ranks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/contention/contention_program.h"
#include "sim/contention/equal_ranks_periods.h"
#include "sim/contention/equal_ranks_state.h"
#include "sim/contention/slowing.h"
#include "sim/lanes/lane_program.h"
#include "sim/lanes/lane_recorder.h"

namespace stepcast::contention {
namespace equal {
namespace {

// How long `left` units take at `rate` of them in 1/4096 ps, rounded up.
int64_t time_for(Units left, int64_t rate) {
  if (left <= 0) return 0;
  if (left < INT64_MAX / 2) return (static_cast<int64_t>(left) + rate - 1) / rate;
  const Units time = (left + rate - 1) / rate;
  return time > kLongestLaneTime ? kLongestLaneTime + 1 : static_cast<int64_t>(time);
}

// A collective of before a lone pass, which nothing in it can wait for.
constexpr StragglerWait kBeforeThePass{-1, -1, -1, -1};

class EqualRanks {
 public:
  EqualRanks(const OpGraph& graph, const Prices& prices, int64_t given, int64_t slow_compute,
             int64_t slow_communication, bool merge, bool record)
      : graph_(graph),
        prices_(prices),
        program_(compile_threads(graph, prices, {}, merge)),
        given_(given),
        slow_compute_(slow_compute),
        slow_communication_(slow_communication),
        first_meeting_(static_cast<uint32_t>(graph.roles.size() * kStreams)) {
    const size_t roles = graph.roles.size();
    roles_.resize(roles);
    next_.assign(roles, kNever);
    flights_.resize(first_meeting_ + graph.rendezvous.size());
    meetings_.resize(graph.rendezvous.size());
    for (uint32_t r = 0; r < roles; ++r) prepare(r);
    prepare_quiet();
    if (record) recorder_.emplace(graph, Record::account);
    periods_.emplace(Running{graph_, program_, roles_, next_, flights_, meetings_, now_,
                             shared_ops_, recorder_});
  }

  ContentionResult run() {
    run_all();
    return result();
  }

  LonePassEnd run_lone_pass(const LonePassBegin& begin, uint32_t aligned) {
    aligned_ = aligned;
    Role& role = roles_.front();
    role.host.front() = begin.host;
    role.exact = begin.over >= 0;
    if (role.exact) role.over = begin.over;
    role.straggler.fill(kBeforeThePass);
    run_all();
    LonePassEnd end;
    end.time = role.time;
    if (role.exact) end.over = static_cast<int64_t>(role.over);
    end.first_start = role.first_start;
    end.collectives = shared_ops_;
    end.launch_mattered = role.launch_mattered;
    end.host_forgotten = role.launch_mattered && role.last_late < last_aligned_;
    if (!recorder_) return end;
    for (uint32_t spend = 0; spend < kSpends; ++spend)
      if (const int64_t time = recorder_->booked(0)[spend]; time != 0)
        end.booked.emplace_back(static_cast<Spend>(spend), time);
    for (uint32_t stream = 0; stream < kStreams; ++stream)
      if (role.straggler[stream].begin != kBeforeThePass.begin)
        end.last_collective.emplace_back(stream, role.straggler[stream]);
    return end;
  }

 private:
  void run_all() {
    for (uint32_t r = 0; r < roles_.size(); ++r) queue(r);
    for (;;) {
      drain();
      settle();
      if (periods_->due()) leave_periods_out();
      int64_t next = kNever;
      for (const int64_t time : next_) next = std::min(next, time);
      if (next == kNever) break;
      now_ = next;
      const auto roles = static_cast<uint32_t>(next_.size());
      for (uint32_t r = 0; r < roles; ++r) {
        if (next_[r] == next) process(r);
      }
    }
    throw_deadlock();
  }

  void prepare(uint32_t r) {
    Role& role = roles_[r];
    const RoleThreads& threads = program_.roles[r];
    for (size_t code = 0; code <= kHost; ++code) {
      if (threads.items[code].empty()) continue;
      Walker w;
      w.code = static_cast<uint8_t>(code);
      if (code == kComputing) role.computes = static_cast<uint32_t>(role.walkers.size());
      role.walkers.push_back(w);
    }
    role.runnable = (1U << role.walkers.size()) - 1;
    role.beside.reserve(8);
    role.events.reserve(8);
    role.host.assign(threads.segments, 0);
    role.records.resize(threads.waits.size());
    role.items.assign(graph_.roles[r].items.size(), {kNotYet, kNotYet});
  }

  // ---- moments

  void leave_periods_out() {
    const std::vector<uint32_t> ended = periods_->look();
    if (recorder_)
      for (const uint32_t id : ended) book_meeting(id);
  }

  void queue(uint32_t r) {
    if (std::exchange(roles_[r].queued, true)) return;
    ready_.push_back(r);
  }

  void touch(uint32_t r) {
    if (std::exchange(roles_[r].dirty, true)) return;
    dirty_.push_back(r);
  }

  // The thread sleeps until then.
  static bool park(Role& role, Walker& w, Until until) {
    w.parked = until;
    role.parked[static_cast<size_t>(until)] |= 1U << (&w - role.walkers.data());
    return false;
  }
  static void wake(Role& role, Until until) {
    role.runnable |= role.parked[static_cast<size_t>(until)];
  }

  void touch_flight(uint32_t f) {
    if (std::exchange(flights_[f].dirty, true)) return;
    dirty_flights_.push_back(f);
  }

  void process(uint32_t r) {
    Role& role = roles_[r];
    for (size_t i = 0; i < role.events.size();) {
      const uint32_t f = role.events[i];
      if (flights_[f].event != now_) {
        ++i;
        continue;
      }
      if (flights_[f].state == Flight::State::to_begin) {
        for_parties(f, [&](uint32_t party) { --roles_[party].pending; });
        begin_flight(f);
      } else {
        end_flight(f);
      }
      if (flights_[f].state == Flight::State::on) {
        ++i;
      } else {
        role.events[i] = role.events.back();
        role.events.pop_back();
      }
    }
    if (role.event == now_) {
      role.event = kNever;
      role.runnable |= 1U << role.computes;
      if (role.runs) end_compute(r);
    }
    touch(r);
    queue(r);
  }

  void drain() {
    while (!ready_.empty()) {
      const uint32_t r = ready_.back();
      ready_.pop_back();
      Role& role = roles_[r];
      role.queued = false;
      while (role.runnable != 0) {
        const auto i = static_cast<uint32_t>(std::countr_zero(role.runnable));
        Walker& w = role.walkers[i];
        role.runnable &= role.runnable - 1;
        role.parked[static_cast<size_t>(w.parked)] &= ~(1U << i);
        walk(r, w);
      }
      touch(r);
    }
  }

  void settle() {
    for (const uint32_t r : dirty_) settle_role(r);
    for (const uint32_t f : dirty_flights_) settle_flight(f);
    for (const uint32_t r : dirty_) {
      Role& role = roles_[r];
      role.dirty = false;
      next_[r] = next_event(role);
    }
    dirty_.clear();
    dirty_flights_.clear();
  }

  int64_t next_event(const Role& role) const {
    int64_t next = role.event;
    for (const uint32_t f : role.events) next = std::min(next, flights_[f].event);
    return next;
  }

  void advance(Role& role) const {
    role.left -= Units{now_ - role.last} * (role.slow ? kNominal : slow_compute_);
    role.last = now_;
  }

  void settle_role(uint32_t r) {
    Role& role = roles_[r];
    settle_pace(
        role, !role.beside.empty(), [&](Role& of) { advance(of); },
        [&](uint32_t by) {
          for (const uint32_t f : role.beside) {
            flights_[f].busy += by;
            touch_flight(f);
          }
        });
    if (role.runs && role.restarted) {
      advance(role);
      if (quiet_) go_on_quietly(r);
      role.event = counted(role.last + time_for(role.left, role.slow ? kNominal : slow_compute_));
    }
    role.restarted = false;
  }

  void settle_flight(uint32_t f) {
    Flight& flight = flights_[f];
    flight.dirty = false;
    const bool slowed = flight.busy > 0;
    if (flight.state != Flight::State::on || (slowed == flight.slowed && !flight.fresh)) return;
    flight.left -= Units{now_ - flight.last} * (flight.slowed ? kNominal : slow_communication_);
    flight.last = now_;
    flight.slowed = slowed;
    flight.fresh = false;
    flight.event = counted(now_ + time_for(flight.left, slowed ? kNominal : slow_communication_));
    touch(owner(f));
  }

  static int64_t counted(int64_t time) {
    if (time > kLongestLaneTime) throw_step_too_long();
    return time;
  }

  // ---- communication

  bool is_meeting(uint32_t f) const { return f >= first_meeting_; }
  uint32_t meeting_of(uint32_t f) const { return f - first_meeting_; }
  // The role that has its begin and its end among its events.
  uint32_t owner(uint32_t f) const {
    return is_meeting(f) ? program_.rendezvous[meeting_of(f)].parties.front()
                         : static_cast<uint32_t>(f / kStreams);
  }
  template <class F>
  void for_parties(uint32_t f, const F& of) const {
    if (!is_meeting(f)) return of(static_cast<uint32_t>(f / kStreams));
    for (const uint32_t r : program_.rendezvous[meeting_of(f)].parties) of(r);
  }

  int64_t price_of(uint32_t work) const { return prices_.by_work[work].time.count(); }

  // All have come; it begins now or later.
  void decide(uint32_t f, uint32_t work, int64_t begin) {
    counted(begin);
    Flight& flight = flights_[f];
    flight = {};
    flight.begin = begin;
    flight.left = Units{price_of(work)} * kNominal * slow_communication_;
    for_parties(f, [&](uint32_t) { shared_ops_ += given_; });
    if (!is_meeting(f)) ++roles_[owner(f)].quiet.collectives;
    flight.state = Flight::State::to_begin;
    if (begin <= now_) {
      begin_flight(f);
      if (flight.state == Flight::State::ended) return;
    } else {
      flight.event = begin;
      for_parties(f, [&](uint32_t r) { ++roles_[r].pending; });
    }
    roles_[owner(f)].events.push_back(f);
    touch(owner(f));
  }

  void begin_flight(uint32_t f) {
    Flight& flight = flights_[f];
    flight.last = now_;
    if (flight.left == 0) return end_flight(f);
    flight.state = Flight::State::on;
    flight.event = kNever;  // settled at the end of this moment
    flight.fresh = true;
    for_parties(f, [&](uint32_t r) {
      if (is_meeting(f)) roles_[r].quiet.learns = false;
      roles_[r].beside.push_back(f);
      flight.busy += roles_[r].busy ? 1 : 0;
      touch(r);
    });
    touch_flight(f);
  }

  void end_flight(uint32_t f) {
    Flight& flight = flights_[f];
    const bool was_on = flight.state == Flight::State::on;
    flight.state = Flight::State::ended;
    flight.event = kNever;
    flight.end = now_;
    for_parties(f, [&](uint32_t r) {
      if (was_on) std::erase(roles_[r].beside, f);
      wake(roles_[r], is_meeting(f) ? Until::meeting : Until::flight);
      queue(r);
    });
    if (!is_meeting(f)) return;
    const uint32_t id = meeting_of(f);
    meetings_[id].end = now_;
    if (recorder_) book_meeting(id);
  }

  // ---- threads, item by item

  void walk(uint32_t r, Walker& w) {
    Role& role = roles_[r];
    const std::vector<uint32_t>& items = program_.roles[r].items[w.code];
    const bool booked = recorder_ && w.code == kComputing;
    for (;;) {
      if (w.pass != nullptr) {
        if (!run_pass(r, role, w)) return;
      } else {
        if (w.at == items.size()) return;
        if (booked) book_item(role, items[w.at], false);
        if (!execute(r, w, items[w.at])) return;
        if (w.pass != nullptr) continue;
      }
      role.quiet.learns = false;
      if (booked) book_item(role, items[w.at], true);
      ++w.at;
    }
  }

  // All of it, or what begins a pass.
  bool execute(uint32_t r, Walker& w, uint32_t item) {
    Role& role = roles_[r];
    const RoleThreads& threads = program_.roles[r];
    const Item& it = graph_.roles[r].items[item];
    const auto stream = static_cast<size_t>(it.stream);
    const uint32_t segment = threads.segment[item];
    const int64_t launched = threads.launched[item];
    switch (it.kind) {
      case ItemKind::pass:
        if (role.segments <= segment) return park(role, w, Until::host);
        w.pass = &program_.passes[static_cast<size_t>(it.pass)];
        w.launched = role.host[segment] + launched;
        w.visit = &enter(role, item, *w.pass);
        return true;
      case ItemKind::post: {
        if (role.segments <= segment) return park(role, w, Until::host);
        const int64_t time = no_earlier(role, role.time[stream], role.host[segment] + launched);
        post(r, item, static_cast<uint32_t>(it.rendezvous), time);
        return true;
      }
      case ItemKind::join: {
        const auto id = static_cast<uint32_t>(it.rendezvous);
        if (w.code == kHost) {
          if (role.segments <= segment) return park(role, w, Until::host);
          if (meetings_[id].end == kNotYet) return park(role, w, Until::meeting);
          know_host(role, segment + 1, std::max(role.host[segment] + launched, meetings_[id].end));
          ++meetings_[id].visits;
          return true;
        }
        if (meetings_[id].end == kNotYet) return park(role, w, Until::meeting);
        ++meetings_[id].visits;
        if (recorder_) book_join(r, item, id);
        if (meetings_[id].end < role.time[stream]) return true;
        role.time[stream] = meetings_[id].end;
        if (stream == kComputing) role.exact = false;
        return true;
      }
      case ItemKind::record: {
        EventRecord& record = role.records[threads.record[item]];
        record.time = role.time[stream];
        record.straggler = role.straggler[stream];
        wake(role, Until::record);
        return true;
      }
      case ItemKind::wait: {
        if (threads.record[item] == RoleThreads::kNone) return true;
        EventRecord& record = role.records[threads.record[item]];
        if (record.time == kNotYet) return park(role, w, Until::record);
        ++record.waited;
        if (recorder_ && stream == kComputing) {
          recorder_->event_wait(r, it, item, role.time[kComputing], record.time, record.straggler);
          periods_->stood(r, {item, role.time[kComputing], record.time, record.straggler});
        }
        raise(role, stream, record.time);
        return true;
      }
      case ItemKind::sync:
        if (role.segments <= segment) return park(role, w, Until::host);
        know_host(role, segment + 1, std::max(role.host[segment] + launched, role.time[stream]));
        return true;
    }
    return true;
  }

  // Than it is launched.
  static int64_t no_earlier(Role& role, int64_t time, int64_t launched) {
    if (launched <= time) return time;
    note_late(role, launched);
    return launched;
  }

  // The launch of an op that begins at `time` may have been what it waited for.
  static void note_late(Role& role, int64_t time) {
    role.launch_mattered = true;
    role.last_late = std::max(role.last_late, time);
  }

  static void know_host(Role& role, uint32_t segment, int64_t time) {
    role.host[segment] = time;
    role.segments = segment + 1;
    wake(role, Until::host);
  }

  // The stream goes on no earlier.
  static void raise(Role& role, size_t stream, int64_t until) {
    if (stream == kComputing && until >= role.time[stream]) role.exact = false;
    role.time[stream] = std::max(role.time[stream], until);
  }

  void post(uint32_t r, uint32_t item, uint32_t id, int64_t time) {
    Meeting& meeting = meetings_[id];
    ++meeting.visits;
    if (recorder_) {
      const bool earlier = time < meeting.last || (time == meeting.last && r >= meeting.last_role);
      if (!earlier) {
        meeting.last = time;
        meeting.last_role = r;
        meeting.last_item = item;
      }
    }
    meeting.begin = std::max(meeting.begin, time);
    if (++meeting.arrived < program_.rendezvous[id].posts.size()) return;
    decide(first_meeting_ + id, static_cast<uint32_t>(graph_.rendezvous[id].work), meeting.begin);
  }

  // ---- passes, instruction by instruction

  Visit& enter(Role& role, uint32_t item, const PassThreads& pass) const {
    Visit* free = nullptr;
    for (Visit& visit : role.visits) {
      if (visit.item == item) return visit;
      if (visit.item == Visit::kFree) free = &visit;
    }
    Visit& visit = free != nullptr ? *free : role.visits.emplace_back();
    visit.item = item;
    visit.threads = 0;
    for (const Walker& w : role.walkers) {
      if (w.code < kStreams && !pass.code[w.code].empty()) ++visit.threads;
    }
    visit.slots.assign(pass.slots, kNotYet);
    if (recorder_) visit.straggler.assign(pass.slots, {});
    return visit;
  }

  bool run_pass(uint32_t r, Role& role, Walker& w) {
    const std::vector<ThreadInstruction>& code = w.pass->code[w.code];
    const auto size = static_cast<uint32_t>(code.size());
    for (; w.pc < size; ++w.pc) {
      if (!run_instruction(r, role, w, code[w.pc], *w.pass, *w.visit, w.launched)) return false;
    }
    counted(role.time[w.code]);
    w.pc = 0;
    w.pass = nullptr;
    if (--w.visit->threads == 0) w.visit->item = Visit::kFree;
    return true;
  }

  // `launched`: when the host came to the pass.
  bool run_instruction(uint32_t r, Role& role, Walker& w, const ThreadInstruction& in,
                       const PassThreads& pass, Visit& visit, int64_t launched) {
    const size_t stream = in.stream;
    switch (in.code) {
      case ThreadCode::watch:
      case ThreadCode::wait: {
        const auto slot = static_cast<size_t>(in.end_slot);
        if (visit.slots[slot] == kNotYet) {
          w.slot = static_cast<uint32_t>(slot);
          return park(role, w, Until::slot);
        }
        const int64_t before = role.time[stream];
        if (in.ps != 0) role.quiet.learns = false;
        raise(role, stream, visit.slots[slot] + in.ps * kNominal);
        if (recorder_ && stream == kComputing) book_wait(r, in, pass, visit, before);
        return true;
      }
      case ThreadCode::compute:
        if (!run_compute(r, role, w, in, pass, visit, launched)) return false;
        break;
      case ThreadCode::fixed: run_fixed(role, in, pass, visit, launched); break;
      case ThreadCode::collective:
        if (!run_collective(r, role, w, in, pass, visit, launched)) return false;
        break;
    }
    // Of chains that went together: that of the last.
    const int32_t end_slot =
        in.code == ThreadCode::compute ? pass.code[kComputing][w.pc].end_slot : in.end_slot;
    if (end_slot >= 0) mark(role, visit, stream, end_slot, role.time[stream]);
    return true;
  }

  void mark(Role& role, Visit& visit, size_t stream, int32_t slot, int64_t time) {
    visit.slots[static_cast<size_t>(slot)] = time;
    if (role.quiet.learns) role.quiet.slots.push_back(static_cast<uint32_t>(slot));
    if (recorder_) visit.straggler[static_cast<size_t>(slot)] = role.straggler[stream];
    for (uint32_t rest = role.parked[static_cast<size_t>(Until::slot)]; rest != 0;
         rest &= rest - 1) {
      const Walker& w = role.walkers[static_cast<size_t>(std::countr_zero(rest))];
      if (w.slot == static_cast<uint32_t>(slot) && w.visit == &visit) role.runnable |= rest & -rest;
    }
  }

  // A chain of other ops than communication, on another stream than that of
  // compute.
  void run_fixed(Role& role, const ThreadInstruction& in, const PassThreads& pass, Visit& visit,
                 int64_t launched) {
    const ThreadOp* const ops = &pass.ops[in.first];
    int64_t& time = role.time[in.stream];
    note_launch(role, time, launched, ops[in.count - 1].launched);
    if (in.start_slot >= 0)
      mark(role, visit, in.stream, in.start_slot,
           no_earlier(role, time, launched + ops[0].launched));
    if (launched + ops[in.count - 1].launched <= time) {
      time += in.ps * kNominal;
      return;
    }
    for (uint32_t i = 0; i < in.count; ++i)
      time = std::max(time, launched + ops[i].launched) + ops[i].ps * kNominal;
    note_late(role, time);
  }

  bool run_collective(uint32_t r, Role& role, Walker& w, const ThreadInstruction& in,
                      const PassThreads& pass, Visit& visit, int64_t launched) {
    const auto f = static_cast<uint32_t>(r * kStreams + in.stream);
    int64_t& time = role.time[in.stream];
    const int64_t ready = no_earlier(role, time, launched + pass.ops[in.first].launched);
    if (w.state == 0) {
      w.state = 1;
      note_launch(role, time, launched, pass.ops[in.first].launched);
      decide(f, in.work, ready);
      if (pass.ops[in.first].index < aligned_) last_aligned_ = ready;
      if (in.start_slot >= 0) mark(role, visit, in.stream, in.start_slot, ready);
    }
    Flight& flight = flights_[f];
    if (flight.state != Flight::State::ended) return park(role, w, Until::flight);
    flight.state = Flight::State::none;
    w.state = 0;
    if (recorder_) {
      const int64_t alone = price_of(in.work) * kNominal;
      role.straggler[in.stream] = {ready, ready, ready + alone, flight.end};
      if (in.stream == kComputing) {
        recorder_->book(r, Spend::launch, ready - time);
        recorder_->book(r, Spend::contention, flight.end - ready - alone);
      }
    }
    time = flight.end;
    if (in.stream == kComputing) {
      if (role.first_start == kNotYet) role.first_start = ready;
      role.exact = false;
    }
    return true;
  }

  // ---- compute

  // The ops that run have ended.
  void end_compute(uint32_t r) {
    Role& role = roles_[r];
    advance(role);
    role.runs = false;
    role.exact = true;
    role.over = -role.left;
    role.walkers[role.computes].state = 2;
  }

  bool run_compute(uint32_t r, Role& role, Walker& w, const ThreadInstruction& in,
                   const PassThreads& pass, Visit& visit, int64_t launched) {
    if (role.runs) return park(role, w, Until::compute);
    int64_t& time = role.time[kComputing];
    uint32_t count = in.count;
    if (w.state == 2) {
      w.state = 0;
      time = now_;
      if (recorder_) recorder_->book(r, Spend::contention, now_ - role.begin - role.ps * kNominal);
      if (role.last_pc != w.pc) {
        w.pc = role.last_pc;
        w.ops = count = pass.code[kComputing][w.pc].count;
      }
    }
    while (w.ops < count) {
      const int64_t start = no_earlier(role, time, launched + pass.ops[in.first + w.ops].launched);
      if (start > now_) {
        role.event = counted(start);
        return park(role, w, Until::compute);
      }
      start_ops(r, role, w, in, pass, visit, launched, start);
      if (role.runs) return park(role, w, Until::compute);
    }
    w.ops = 0;
    return true;
  }

  // Starts the ops of the chain that nothing but their predecessors holds up.
  void start_ops(uint32_t r, Role& role, Walker& w, const ThreadInstruction& in,
                 const PassThreads& pass, Visit& visit, int64_t pass_launched, int64_t start) {
    int64_t& time = role.time[kComputing];
    const ThreadOp* const ops = &pass.ops[in.first];
    const auto launched = [&](uint32_t i) { return pass_launched + ops[i].launched; };
    const bool goes_on = role.exact && time == now_ && launched(w.ops) < now_;
    if (launched(w.ops) >= now_) note_late(role, now_);
    const Units over = goes_on ? role.over : 0;
    const int64_t late = std::max(ops[w.ops].launched, w.ops == 0 ? in.late : INT64_MIN);
    note_launch(role, start, pass_launched, late);
    if (w.ops == 0) {
      if (role.first_start == kNotYet) role.first_start = start;
      if (in.start_slot >= 0) mark(role, visit, kComputing, in.start_slot, start);
    }
    // A launch at this very moment counts as one that an op has to wait for.
    const int64_t before = over == 0 ? now_ + 1 : now_;
    if (recorder_) recorder_->book(r, Spend::launch, start - time);
    role.begin = start;
    role.first_op = w.ops;
    int64_t ps = 0;
    if (w.ops == 0 && (pass_launched + in.late < start || launched(in.count - 1) < before)) {
      ps = in.ps;
      w.ops = in.count;
    } else {
      note_late(role, now_);
      ps = ops[w.ops++].ps;
      for (; w.ops < in.count && launched(w.ops) < before; ++w.ops) ps += ops[w.ops].ps;
    }
    role.last_pc = w.pc;
    if (w.ops == in.count && in.end_slot < 0)
      ps += go_together(role, w, pass, visit, pass_launched, start + ps * kNominal);
    if (role.last_pc != w.pc) role.quiet.learns = false;
    role.fresh = over == 0;
    role.ps = ps;
    role.last = now_;
    role.left = Units{ps} * kNominal * slow_compute_ - over;
    if (role.left > 0) {
      role.runs = role.restarted = true;
      touch(r);
      return;
    }
    role.over = -role.left;
    role.exact = true;
    time = now_;
  }

  // Chains behind this one that begin where it ends for certain, since what
  // they wait for besides, and their launches, come before `end`, when it ends
  // at the earliest.  Returns their time.
  int64_t go_together(Role& role, const Walker& w, const PassThreads& pass, const Visit& visit,
                      int64_t launched, int64_t end) {
    const std::vector<ThreadInstruction>& code = pass.code[kComputing];
    int64_t more = 0;
    for (uint32_t pc = w.pc + 1; pc < code.size(); ++pc) {
      const ThreadInstruction& in = code[pc];
      const int64_t now = end + more * kNominal;
      if (in.code == ThreadCode::wait || in.code == ThreadCode::watch) {
        const int64_t slot = visit.slots[static_cast<size_t>(in.end_slot)];
        if (slot == kNotYet || slot + in.ps * kNominal >= now) break;
        continue;
      }
      if (in.code != ThreadCode::compute || in.start_slot >= 0) break;
      if (launched + std::max(pass.ops[in.first].launched, in.late) >= now) {
        note_late(role, now);
        break;
      }
      more += in.ps;
      role.last_pc = pc;
      if (in.end_slot >= 0) break;
    }
    return more;
  }

  // ---- stretches in which no other role interferes, learnt once and then only added
  //
  // A quiet point is the begin of a chain of compute at which nothing else runs on the role, and
  // all its other threads wait for that chain or for what follows it.  From there to the next one
  // of the pass everything follows from the time of the first by addition, if no transfer comes
  // between and no launch is late.  An example, in ms:
  //
  //     first microbatch    c0 begins at 10, a quiet point; the all-gather that waits for it takes
  //                         13 to 15; c1, which waits for that, begins at 15, the next quiet point.
  //                         Learnt: 5 later, slots and streams at +3 and +5, and what was booked
  //     second microbatch   c0 begins at 50, at a quiet point in the same place.  If nobody can
  //                         post to this role before 55, the role is put at c1, begun at 55, while
  //                         the clock still stands at 50
  //
  // Who can post to a role, and when at the earliest?  A role that is in a pass posts after it, and
  // what is left of the pass takes no less than its compute alone; a role that waits for a
  // rendezvous posts after whoever is to post that one.

  void prepare_quiet() {
    const auto posts_elsewhere = [](const Item& item) {
      return item.kind == ItemKind::post && item.stream != Stream::compute;
    };
    for (const RoleOps& role : graph_.roles) {
      if (std::ranges::any_of(role.items, posts_elsewhere)) quiet_ = false;
    }
    // Of a single pass nothing comes twice.
    if (graph_.roles.size() == 1 && graph_.roles.front().items.size() == 1) quiet_ = false;
    if (!quiet_) return;
    for (uint32_t r = 0; r < roles_.size(); ++r) {
      roles_[r].quiet.stretches = stretches_of_roles_like(r);
      find_peers(r);
    }
    for (size_t p = 0; p < graph_.passes.size(); ++p) {
      const std::vector<ThreadInstruction>& code = program_.passes[p].code[kComputing];
      const std::vector<int64_t> from = least_to_the_end(graph_.passes[p]);
      std::vector<int64_t>& rest = rest_.emplace_back(code.size() + 1);
      for (size_t pc = code.size(); pc-- > 0;) {
        const ThreadInstruction& in = code[pc];
        const bool waits = in.code == ThreadCode::wait || in.code == ThreadCode::watch;
        rest[pc] = waits ? rest[pc + 1] : from[program_.passes[p].ops[in.first].index];
      }
    }
  }

  // Roles with threads of the same streams do the same in the same pass.
  size_t stretches_of_roles_like(uint32_t role) {
    const auto threads = [&](uint32_t r) {
      uint32_t codes = 0;
      for (const Walker& w : roles_[r].walkers) codes |= 1U << w.code;
      return codes;
    };
    for (uint32_t r = 0; r < role; ++r)
      if (threads(r) == threads(role)) return roles_[r].quiet.stretches;
    stretches_.emplace_back(graph_.passes.size());
    return stretches_.size() - 1;
  }

  // By op of a pass: no less than what goes by from its begin to the end of the compute stream, in
  // ps, along the ops that follow on its stream or wait for it.
  std::vector<int64_t> least_to_the_end(const Pass& pass) const {
    constexpr int64_t kNoPath = INT64_MIN / 2;
    std::vector<int64_t> from_begin(pass.ops.size(), kNoPath), from_end = from_begin;
    std::array<int64_t, kStreams> next;  // on the stream: from the begin of the op that follows
    next.fill(kNoPath);
    next[kComputing] = 0;
    for (uint32_t i = static_cast<uint32_t>(pass.ops.size()); i-- > 0;) {
      const Op& op = pass.ops[i];
      int64_t& follows = next[static_cast<size_t>(op.stream)];
      from_end[i] = std::max(from_end[i], follows);
      from_begin[i] =
          std::max(from_begin[i], price_of(static_cast<uint32_t>(op.work)) + from_end[i]);
      follows = from_begin[i];
      for (const Wait& w : pass.waits.of(i)) {
        int64_t& before = (w.from_start ? from_begin : from_end)[w.on];
        before = std::max(before, w.delay.count() + from_begin[i]);
      }
    }
    return from_begin;
  }

  // The roles that may let something begin on role r while it is in a pass.
  void find_peers(uint32_t r) {
    std::vector<uint32_t> open;  // posted by r, not joined yet
    std::vector<bool> meets(meetings_.size()), posts(meetings_.size()), stays(meetings_.size());
    for (const Item& item : graph_.roles[r].items) {
      const auto id = static_cast<uint32_t>(item.rendezvous);
      if (item.kind == ItemKind::post) {
        meets[id] = posts[id] = true;
        open.push_back(id);
      } else if (item.kind == ItemKind::join) {
        meets[id] = true;
        std::erase(open, id);
      } else if (item.kind == ItemKind::pass) {
        for (const uint32_t i : open) stays[i] = true;
        open.clear();
      }
    }
    std::vector<uint32_t>& peers = roles_[r].quiet.peers;
    for (uint32_t id = 0; id < meetings_.size(); ++id) {
      if (!meets[id] || (posts[id] && !stays[id])) continue;
      for (const uint32_t p : program_.rendezvous[id].posts) {
        if (p != r && std::ranges::find(peers, p) == peers.end()) peers.push_back(p);
      }
    }
  }

  // Nobody posts to the role before this, whatever happens, as long as it is in its pass.  The
  // asker is none of those that others wait for, and where roles wait in a circle, another one lets
  // them go.
  int64_t earliest_post_to(uint32_t asker) {
    int64_t first = INT64_MAX;
    ++query_;
    roles_[asker].quiet.query = query_;
    stack_.clear();
    const auto ask = [&](uint32_t r) {
      if (std::exchange(roles_[r].quiet.query, query_) != query_) stack_.push_back(r);
    };
    for (const uint32_t r : roles_[asker].quiet.peers) ask(r);
    while (!stack_.empty() && first > now_) {
      const uint32_t r = stack_.back();
      stack_.pop_back();
      if (const std::optional<int64_t> own = earliest_post(r)) {
        first = std::min(first, *own);
        continue;
      }
      const Walker& w = roles_[r].walkers[roles_[r].computes];
      const Item& join = graph_.roles[r].items[program_.roles[r].items[kComputing][w.at]];
      for (const uint32_t p : program_.rendezvous[static_cast<size_t>(join.rendezvous)].posts)
        ask(p);
    }
    return first;
  }

  // No post of the role comes before this; nothing if it waits for others to post.
  std::optional<int64_t> earliest_post(uint32_t r) const {
    const Role& role = roles_[r];
    if (role.walkers.empty() || role.walkers[role.computes].code != kComputing) return now_;
    const Walker& w = role.walkers[role.computes];
    const std::vector<uint32_t>& items = program_.roles[r].items[kComputing];
    if (w.at == items.size()) return INT64_MAX;
    const Item& item = graph_.roles[r].items[items[w.at]];
    if (item.kind == ItemKind::pass) {
      const bool begun = role.runs ? role.first_op > 0 : w.ops > 0;
      const int64_t rest = rest_[static_cast<size_t>(item.pass)][w.pc + (begun ? 1 : 0)];
      return (role.runs ? role.begin : now_) + rest * kNominal;
    }
    if (item.kind != ItemKind::join) return now_;
    const auto id = static_cast<uint32_t>(item.rendezvous);
    const Meeting& meeting = meetings_[id];
    if (meeting.arrived < program_.rendezvous[id].posts.size()) return {};
    const auto work = static_cast<uint32_t>(graph_.rendezvous[id].work);
    return std::max(now_, meeting.begin + price_of(work) * kNominal);
  }

  // Where each other thread of the role stands in the pass; false if one is not waiting for what is
  // to come.
  bool find_parked(uint32_t r, uint32_t item, const PassThreads& pass, const Visit& visit) {
    pcs_.fill(kAway);
    for (const Walker& w : roles_[r].walkers) {
      if (w.code == kComputing || w.code >= kStreams) continue;
      const std::vector<ThreadInstruction>& code = pass.code[w.code];
      const std::vector<uint32_t>& items = program_.roles[r].items[w.code];
      if (code.empty() || w.at == items.size() || items[w.at] != item) continue;
      const ThreadInstruction& in = code[w.pc];
      if (in.code != ThreadCode::watch || visit.slots[static_cast<size_t>(in.end_slot)] != kNotYet)
        return false;
      pcs_[w.code] = w.pc;
    }
    return true;
  }

  // A chain of compute has begun at this moment.  If that is a quiet point: learns what led here
  // from the last one, and goes on as far as is known and certain.
  void go_on_quietly(uint32_t r) {
    Role& role = roles_[r];
    Quiet& quiet = role.quiet;
    if (role.begin != now_ || !role.fresh || !role.beside.empty() || !role.events.empty() ||
        role.pending > 0)
      return;
    Walker& w = role.walkers[role.computes];
    const uint32_t item = program_.roles[r].items[kComputing][w.at];
    const auto pass_id = static_cast<size_t>(graph_.roles[r].items[item].pass);
    const PassThreads& pass = program_.passes[pass_id];
    if (role.first_op != 0 || role.last_pc != w.pc || w.ops != pass.code[kComputing][w.pc].count)
      return;
    if (std::ranges::any_of(role.time, [&](int64_t t) { return t > now_; })) return;
    Visit& visit = *w.visit;
    if (!find_parked(r, item, pass, visit)) return;
    std::vector<Stretch>& stretches = stretches_[quiet.stretches][pass_id];
    if (stretches.empty()) stretches.resize(pass.code[kComputing].size());
    // Another role may have learnt it meanwhile.
    if (quiet.learns && quiet.item == item && !stretches[quiet.pc].known)
      learn(r, w, visit, stretches[quiet.pc]);
    const uint32_t first = w.pc;
    if (stretches[w.pc].known && stretches[w.pc].pcs == pcs_) {
      const int64_t launched =
          role.host[program_.roles[r].segment[item]] + program_.roles[r].launched[item];
      const int64_t until = earliest_post_to(r);
      while (stretches[w.pc].known && follow(r, pass, w, visit, stretches[w.pc], launched, until))
        continue;
      if (w.pc != first) {
        const ThreadInstruction& chain = pass.code[kComputing][w.pc];
        w.ops = chain.count;
        role.ps = chain.ps;
        role.last_pc = w.pc;
        role.last = role.begin;
        role.left = Units{chain.ps} * kNominal * slow_compute_;
      }
    }
    // Nothing is learnt twice.
    quiet.learns = !stretches[w.pc].known;
    if (quiet.learns) remember(r, w, item, pass);
  }

  // Something begins in a pass that the host came to at `launched`; `after`: its launch, since.
  static void note_launch(Role& role, int64_t begin, int64_t launched, int64_t after) {
    Quiet& quiet = role.quiet;
    if (!quiet.learns) return;
    if (launched + after >= begin) quiet.learns = false;
    quiet.slack = std::min(quiet.slack, begin - quiet.begin - after);
  }

  void remember(uint32_t r, const Walker& w, uint32_t item, const PassThreads& pass) {
    const Role& role = roles_[r];
    Quiet& quiet = roles_[r].quiet;
    quiet.item = item;
    quiet.pc = w.pc;
    quiet.begin = role.begin;
    quiet.slack = INT64_MAX;
    quiet.collectives = 0;
    quiet.slots.clear();
    find_parked(r, item, pass, *w.visit);
    quiet.pcs = pcs_;
    quiet.time = role.time;
    quiet.straggler = role.straggler;
    if (recorder_) quiet.booked = recorder_->booked(r);
  }

  static StragglerWait moved(const StragglerWait& wait, int64_t by) {
    return {wait.ready + by, wait.begin + by, wait.alone_end + by, wait.end + by};
  }

  // What has happened from the quiet point that is remembered to this one.
  void learn(uint32_t r, const Walker& w, const Visit& visit, Stretch& stretch) {
    const Role& role = roles_[r];
    const Quiet& quiet = role.quiet;
    const int64_t begin = quiet.begin;
    stretch.known = true;
    stretch.pcs = quiet.pcs;
    stretch.next = w.pc;
    stretch.next_pcs = pcs_;
    stretch.length = now_ - begin;
    stretch.slack = quiet.slack;
    stretch.collectives = quiet.collectives;
    stretch.slots.reserve(quiet.slots.size());
    stretch.time.reserve(kStreams);
    for (const uint32_t slot : quiet.slots) {
      stretch.slots.push_back({slot, visit.slots[slot] - begin,
                               recorder_ ? moved(visit.straggler[slot], -begin) : StragglerWait{}});
    }
    for (uint32_t s = 0; s < kStreams; ++s) {
      if (role.time[s] != quiet.time[s]) stretch.time.emplace_back(s, role.time[s] - begin);
    }
    if (!recorder_) return;
    const std::array<int64_t, kSpends>& booked = recorder_->booked(r);
    for (size_t s = 0; s < kSpends; ++s) {
      if (booked[s] != quiet.booked[s])
        stretch.booked.emplace_back(static_cast<Spend>(s), booked[s] - quiet.booked[s]);
    }
    for (uint32_t s = 0; s < kStreams; ++s) {
      const StragglerWait& wait = role.straggler[s];
      if (wait.ready == quiet.straggler[s].ready && wait.end == quiet.straggler[s].end) continue;
      stretch.straggler.emplace_back(s, moved(wait, -begin));
    }
  }

  // To the next quiet point, unless that is later than `until` or a launch would be late.
  bool follow(uint32_t r, const PassThreads& pass, Walker& compute, Visit& visit,
              const Stretch& stretch, int64_t launched, int64_t until) {
    Role& role = roles_[r];
    const int64_t begin = role.begin;
    if (begin + stretch.length > until) return false;
    if (stretch.slack != INT64_MAX && launched - begin >= stretch.slack) return false;
    for (Walker& w : role.walkers) {
      if (w.code == kComputing || w.code >= kStreams) continue;
      const uint32_t pc = stretch.next_pcs[w.code];
      if (pc == kAway) continue;
      w.pc = pc;
      w.slot = static_cast<uint32_t>(pass.code[w.code][pc].end_slot);
    }
    for (const Stretch::Slot& slot : stretch.slots) {
      visit.slots[slot.slot] = begin + slot.time;
      if (recorder_) visit.straggler[slot.slot] = moved(slot.straggler, begin);
    }
    for (const auto& [stream, time] : stretch.time) role.time[stream] = begin + time;
    shared_ops_ += stretch.collectives * given_;
    if (recorder_) {
      for (const auto& [spend, time] : stretch.booked) recorder_->book(r, spend, time);
      for (const auto& [stream, wait] : stretch.straggler)
        role.straggler[stream] = moved(wait, begin);
    }
    compute.pc = stretch.next;
    role.begin = begin + stretch.length;
    return true;
  }

  // ---- results

  void throw_deadlock() const {
    Deadlock deadlock;
    bool stuck = false;
    for (uint32_t r = 0; r < roles_.size(); ++r) {
      uint32_t first = UINT32_MAX;
      for (const Walker& w : roles_[r].walkers) {
        const std::vector<uint32_t>& items = program_.roles[r].items[w.code];
        if (w.at == items.size()) continue;
        stuck = true;
        if (graph_.roles[r].items[items[w.at]].kind == ItemKind::join)
          first = std::min(first, items[w.at]);
      }
      if (first != UINT32_MAX)
        deadlock.waiting.push_back({r, first, graph_.roles[r].items[first].rendezvous});
    }
    if (!deadlock.waiting.empty()) throw deadlock;
    STEPCAST_CHECK(!stuck, "equal ranks stand still");
  }

  ContentionResult result() {
    ContentionResult out;
    LaneResult& lanes = out.lanes;
    lanes.lanes_run = 1;
    int64_t last = kNotYet;
    for (uint32_t r = 0; r < roles_.size(); ++r) {
      const int64_t end = *std::ranges::max_element(roles_[r].time);
      lanes.end.emplace_back(static_cast<size_t>(given_), to_time(end));
      lanes.rank_ops += program_.roles[r].device_ops * given_;
      const int64_t first = roles_[r].first_start;
      lanes.span = std::max(lanes.span, to_time(end) - to_time(first == kNotYet ? 0 : first));
      if (end <= last) continue;
      last = end;
      lanes.last_role = r;
    }
    lanes.makespan = to_time(std::max<int64_t>(last, 0));
    out.shared_ops = shared_ops_;
    out.periods_left_out = periods_->left_out();
    if (recorder_) finish_record(lanes);
    return out;
  }

  // ---- the record

  static void book_item(Role& role, uint32_t item, bool ends) {
    auto& [begin, end] = role.items[item];
    if (begin == kNotYet) begin = role.time[kComputing];
    if (ends) end = role.time[kComputing];
  }

  void book_wait(uint32_t r, const ThreadInstruction& in, const PassThreads& pass,
                 const Visit& visit, int64_t before) {
    const auto slot = static_cast<size_t>(in.end_slot);
    const int64_t after = roles_[r].time[kComputing];
    const int64_t waited = std::clamp(after - in.ps * kNominal, before, std::max(before, after));
    recorder_->book_wait(r, pass.slot_spend[slot], before, waited, visit.straggler[slot]);
    recorder_->book_wait(r, Spend::launch, waited, after, {});
  }

  void book_join(uint32_t r, uint32_t item, uint32_t id) {
    const Item& it = graph_.roles[r].items[item];
    if (it.stream != Stream::compute) return;
    const int64_t begin = roles_[r].time[kComputing], end = meetings_[id].end;
    recorder_->rendezvous_wait(r, it, item, begin, end, {});
    periods_->stood(r, {item, begin, end, {}});
  }

  void book_meeting(uint32_t id) {
    const Meeting& meeting = meetings_[id];
    const auto work = static_cast<uint32_t>(graph_.rendezvous[id].work);
    const int64_t alone_end = meeting.begin + price_of(work) * kNominal;
    recorder_->timeline.rendezvous[id] = {to_time(meeting.begin), to_time(meeting.end),
                                          meeting.last_role, meeting.last_item,
                                          to_time(meeting.end - alone_end)};
  }

  void finish_record(LaneResult& lanes) {
    std::vector<int64_t> busy_of_pass;
    for (const PassThreads& pass : program_.passes) {
      int64_t busy = 0;
      for (const ThreadInstruction& in : pass.code[kComputing]) {
        if (in.code != ThreadCode::wait && in.code != ThreadCode::watch) busy += in.ps;
      }
      busy_of_pass.push_back(busy);
    }
    int64_t device_ops = 0;
    for (uint32_t r = 0; r < roles_.size(); ++r) {
      const Role& role = roles_[r];
      const std::vector<Item>& items = graph_.roles[r].items;
      int64_t at = 0, busy = 0;
      for (size_t i = 0; i < items.size(); ++i) {
        const auto& [begin, end] = role.items[i];
        recorder_->item(r, items[i], begin == kNotYet ? at : begin, end == kNotYet ? at : end);
        if (end != kNotYet) at = end;
        if (items[i].kind == ItemKind::pass)
          busy += busy_of_pass[static_cast<size_t>(items[i].pass)];
      }
      recorder_->finish_role(r, role.first_start == kNotYet ? 0 : role.first_start,
                             role.time[kComputing], *std::ranges::max_element(role.time), busy);
      device_ops += program_.roles[r].device_ops;
    }
    lanes.timeline = std::move(recorder_->timeline);
    lanes.timeline.rank_ops = device_ops;
    lanes.timeline.makespan = lanes.makespan;
    lanes.timeline.span = lanes.span;
  }

  const OpGraph& graph_;
  const Prices& prices_;
  const ContentionProgram program_;
  const int64_t given_;
  const int64_t slow_compute_, slow_communication_;
  std::vector<Role> roles_;
  std::vector<int64_t> next_;  // by role: its next event
  const uint32_t first_meeting_;
  std::vector<Flight> flights_;  // [role][stream], then by rendezvous
  std::vector<Meeting> meetings_;
  std::optional<LaneRecorder> recorder_;
  std::vector<uint32_t> ready_, dirty_, dirty_flights_;
  int64_t now_ = 0;
  int64_t shared_ops_ = 0;
  uint32_t aligned_ = 0;              // as of run_lone_pass()
  int64_t last_aligned_ = INT64_MIN;  // begin of the last collective of those ops
  std::optional<Periods> periods_;
  bool quiet_ = true;  // roles go on by themselves where they can
  // What is learnt of quiet stretches, by roles that share it, pass and pc.
  std::vector<std::vector<std::vector<Stretch>>> stretches_;
  std::vector<std::vector<int64_t>> rest_;  // [pass][pc]: at least, from there to its end, ps
  Places pcs_{};
  std::vector<uint32_t> stack_;
  uint32_t query_ = 0;  // numbers queries, so that none asks a role twice
};

}  // namespace
}  // namespace equal

bool are_equal(const FoldedLanes& folded) {
  const LaneSet& lanes = folded.lanes;
  const auto nominal = [](const auto& of_role) {
    return std::ranges::all_of(of_role, [](Slowness s) { return s == kNominal; });
  };
  return lanes.lanes() == 1 && !lanes.jitter && lanes.windows.empty() && lanes.class_ps.empty() &&
         std::ranges::all_of(lanes.slowness, nominal);
}

ContentionResult run_equal_ranks(const OpGraph& graph, const Prices& prices,
                                 const FoldedLanes& folded, int64_t slow_compute,
                                 int64_t slow_communication, bool merge, bool record) {
  return equal::EqualRanks(graph, prices, static_cast<int64_t>(folded.of.size()), slow_compute,
                           slow_communication, merge, record)
      .run();
}

LonePassEnd run_lone_pass(const OpGraph& graph, const Prices& prices, const LonePassBegin& begin,
                          int64_t slow_compute, int64_t slow_communication, bool merge,
                          uint32_t aligned, bool record) {
  return equal::EqualRanks(graph, prices, 1, slow_compute, slow_communication, merge, record)
      .run_lone_pass(begin, aligned);
}

}  // namespace stepcast::contention
