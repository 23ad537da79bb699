// SPDX-License-Identifier: Apache-2.0
#include "sim/contention/equal_ranks_periods.h"

#include <algorithm>
#include <utility>

#include "sim/diagnostic.h"
#include "sim/lanes/lane_program.h"

namespace stepcast::contention::equal {
namespace {

bool is_time(int64_t time) {
  return time != kNever && time != kNotYet;
}

void move(int64_t& time, int64_t by) {
  if (is_time(time)) time += by;
}

// Nobody has waited for it.
bool is_default(const StragglerWait& w) {
  return w.ready == 0 && w.begin == 0 && w.alone_end == 0 && w.end == 0;
}

void move(StragglerWait& w, int64_t by) {
  for (int64_t* time : {&w.ready, &w.begin, &w.alone_end, &w.end}) *time += by;
}

void move(Flight& f, int64_t by) {
  for (int64_t* time : {&f.event, &f.begin, &f.end, &f.last}) move(*time, by);
}

void move(Meeting& m, int64_t by) {
  for (int64_t* time : {&m.begin, &m.end, &m.last}) move(*time, by);
}

void put_units(Units units, std::vector<int64_t>& out) {
  out.push_back(static_cast<int64_t>(units >> 62));
  out.push_back(static_cast<int64_t>(units & ((Units{1} << 62) - 1)));
}

}  // namespace

Periods::Periods(const Running& step)
    : step_(step), first_meeting_(static_cast<uint32_t>(step.graph.roles.size() * kStreams)) {
  if (!find_windows()) return;
  number_rendezvous();
  stood_.resize(step_.roles.size());
  // The role that repeats itself for the fewest periods says when one has ended.
  int64_t fewest = INT64_MAX;
  for (uint32_t r = 0; r < steady_.roles.size(); ++r) {
    const SteadyState::Window& w = steady_.roles[r];
    const int64_t periods = (w.end - w.begin) / w.length;
    if (periods >= fewest) continue;
    fewest = periods;
    anchor_ = r;
  }
  anchor_walker_ = step_.roles[anchor_].computes;
  const std::vector<uint32_t>& list = step_.program.roles[anchor_].items[kComputing];
  next_at_ = static_cast<uint32_t>(std::ranges::lower_bound(list, steady_.roles[anchor_].begin) -
                                   list.begin());
}

bool Periods::find_windows() {
  std::optional<SteadyState> found = find_steady_state(step_.graph);
  if (!found) return false;
  steady_ = std::move(*found);
  for (uint32_t r = 0; r < step_.roles.size(); ++r)
    if (!find_advance(r) || !find_host(r)) return false;
  return true;
}

// False if the host waits for a rendezvous within the window, or no thread computes.
bool Periods::find_advance(uint32_t r) {
  const RoleThreads& threads = step_.program.roles[r];
  const SteadyState::Window& w = steady_.roles[r];
  Advance& advance = advances_.emplace_back();
  for (const Walker& walker : step_.roles[r].walkers) {
    const std::vector<uint32_t>& items = threads.items[walker.code];
    const auto from = std::ranges::lower_bound(items, w.begin);
    const auto until = std::ranges::lower_bound(items, w.begin + w.length);
    advance.walkers.push_back(static_cast<uint32_t>(until - from));
    if (from == until) continue;
    if (walker.code >= kStreams) return false;
    advance.moves[walker.code] = true;
  }
  // Events of one place in the period follow each other at one distance.
  std::optional<uint32_t> records;
  const std::vector<Item>& items = step_.graph.roles[r].items;
  for (uint32_t i = w.begin; i + w.length < w.end; ++i) {
    if (items[i].kind != ItemKind::record && items[i].kind != ItemKind::wait) continue;
    const uint32_t before = threads.record[i], after = threads.record[i + w.length];
    if (before == RoleThreads::kNone && after == before) continue;
    if (before == RoleThreads::kNone || after == RoleThreads::kNone || after < before ||
        after - before != records.value_or(after - before))
      return false;
    if (threads.waits[before] != threads.waits[after]) return false;
    records = after - before;
  }
  advance.records = records.value_or(0);
  return advance.moves[kComputing];
}

// Either the host waits for nothing in a window, or at the same places in each period.
bool Periods::find_host(uint32_t r) {
  const RoleThreads& threads = step_.program.roles[r];
  SteadyState::Window& w = steady_.roles[r];
  Advance& advance = advances_[r];
  advance.segments = threads.segment[w.begin + w.length] - threads.segment[w.begin];
  advance.launched = threads.launched[w.begin + w.length] - threads.launched[w.begin];
  if (advance.segments > 0) {
    // Up to its first wait launches are counted from before the window.
    advance.launched = 0;
    const uint32_t before = threads.segment[w.begin];
    while (threads.segment[w.begin] == before) ++w.begin;
  }
  for (uint32_t i = w.begin; i + w.length < w.end; ++i) {
    if (threads.segment[i + w.length] - threads.segment[i] != advance.segments) return false;
    if (threads.launched[i + w.length] - threads.launched[i] != advance.launched) return false;
  }
  return true;
}

void Periods::number_rendezvous() {
  numbers_.resize(steady_.later.size());
  for (uint32_t id = 0; id < numbers_.size(); ++id) {
    if (steady_.earlier[id] != SteadyState::kNone) continue;
    int64_t periods = 0;
    for (uint32_t at = id; at != SteadyState::kNone; at = steady_.later[at])
      numbers_[at] = {id, periods++};
  }
}

bool Periods::is_inside(uint32_t r, uint32_t item) const {
  return item >= steady_.roles[r].begin && item < steady_.roles[r].end;
}

bool Periods::is_inside() const {
  for (uint32_t r = 0; r < step_.roles.size(); ++r) {
    for (size_t i = 0; i < step_.roles[r].walkers.size(); ++i) {
      if (advances_[r].walkers[i] == 0) continue;
      const Walker& walker = step_.roles[r].walkers[i];
      const std::vector<uint32_t>& items = step_.program.roles[r].items[walker.code];
      if (walker.at >= items.size() || !is_inside(r, items[walker.at])) return false;
    }
  }
  return true;
}

// ------------------------------------------------------------------------------------------- state

void Periods::put_time(int64_t time, State& out) const {
  out.numbers.push_back(is_time(time) ? time - step_.now : time);
}

void Periods::put_wait(const StragglerWait& w, State& out) const {
  for (const int64_t time : {w.ready, w.begin, w.alone_end, w.end}) put_time(time, out);
}

Periods::State Periods::state(int64_t period) const {
  State out;
  out.period = period;
  out.now = step_.now;
  out.shared_ops = step_.shared_ops;
  out.numbers.reserve(last_ ? last_->numbers.size() : 1024);
  for (uint32_t r = 0; r < step_.roles.size(); ++r) {
    put_role(r, period, out);
    put_host(r, period, out);
    put_records(r, period, out);
    put_visits(r, period, out);
    out.compute_at.push_back(step_.roles[r].walkers[step_.roles[r].computes].at);
    if (step_.recorder) out.booked.push_back(step_.recorder->booked(r));
  }
  put_meetings(period, out);
  return out;
}

void Periods::put_role(uint32_t r, int64_t period, State& out) const {
  const Role& role = step_.roles[r];
  std::vector<int64_t>& n = out.numbers;
  for (size_t i = 0; i < role.walkers.size(); ++i) {
    const Walker& w = role.walkers[i];
    n.insert(n.end(),
             {w.at - period * advances_[r].walkers[i], w.state, static_cast<int64_t>(w.parked),
              w.parked == Until::slot ? w.slot : 0, w.pc, w.ops, w.pass != nullptr});
  }
  n.insert(n.end(), role.parked.begin(), role.parked.end());
  n.insert(n.end(), {role.pending, role.first_start == kNotYet, role.runs, role.busy, role.slow,
                     role.exact});
  put_time(role.event, out);
  put_units(role.exact ? role.over : 0, n);
  if (role.runs) {
    put_units(role.left, n);
    put_time(role.last, out);
    put_time(role.begin, out);
    n.insert(n.end(), {role.ps, role.first_op, role.last_pc, role.fresh});
  }
  for (uint32_t s = 0; s < kStreams; ++s) {
    if (advances_[r].moves[s]) {
      put_time(role.time[s], out);
    } else {
      n.push_back(role.time[s]);
    }
    put_flight(step_.flights[r * kStreams + s], out);
    if (!step_.recorder) continue;
    if (advances_[r].moves[s] && !is_default(role.straggler[s])) {
      put_wait(role.straggler[s], out);
    } else {
      n.push_back(role.straggler[s].end);
    }
  }
}

void Periods::put_flight(const Flight& flight, State& out) const {
  out.numbers.push_back(static_cast<int64_t>(flight.state));
  if (flight.state == Flight::State::none) return;
  put_time(flight.begin, out);
  if (flight.state == Flight::State::ended) return put_time(flight.end, out);
  put_time(flight.event, out);
  put_time(flight.state == Flight::State::on ? flight.last : kNever, out);
  put_units(flight.left, out.numbers);
  out.numbers.insert(out.numbers.end(), {flight.busy, flight.slowed});
}

// The first segment that a thread may still ask for.
uint32_t Periods::first_segment(uint32_t r) const {
  uint32_t first = step_.roles[r].segments;
  for (size_t i = 0; i < step_.roles[r].walkers.size(); ++i) {
    if (advances_[r].walkers[i] == 0) continue;
    const Walker& w = step_.roles[r].walkers[i];
    const RoleThreads& threads = step_.program.roles[r];
    first = std::min(first, threads.segment[threads.items[w.code][w.at]]);
  }
  return first;
}

// A host that waits takes part in the period.
void Periods::put_host(uint32_t r, int64_t period, State& out) const {
  const Role& role = step_.roles[r];
  const uint32_t segments = advances_[r].segments;
  out.numbers.push_back(role.segments - period * segments);
  if (segments == 0) return;
  for (uint32_t i = first_segment(r); i < role.segments; ++i) {
    out.numbers.push_back(i - period * segments);
    put_time(role.host[i], out);
  }
  for (size_t i = 0; i < role.walkers.size(); ++i)
    if (advances_[r].walkers[i] > 0 && role.walkers[i].pass != nullptr)
      put_time(role.walkers[i].launched, out);
}

bool Periods::is_open(uint32_t r, uint32_t record) const {
  const EventRecord& event = step_.roles[r].records[record];
  return event.time != kNotYet && event.waited < step_.program.roles[r].waits[record];
}

void Periods::put_records(uint32_t r, int64_t period, State& out) const {
  for (uint32_t i = 0; i < step_.roles[r].records.size(); ++i) {
    if (!is_open(r, i)) continue;
    const EventRecord& event = step_.roles[r].records[i];
    out.numbers.push_back(i - period * advances_[r].records);
    out.numbers.push_back(event.waited);
    if (advances_[r].records == 0) {
      // From before the windows, for what comes after them.
      out.numbers.push_back(event.time);
      continue;
    }
    put_time(event.time, out);
    if (!step_.recorder) continue;
    out.numbers.push_back(is_default(event.straggler));
    if (!is_default(event.straggler)) put_wait(event.straggler, out);
  }
}

// Executions of passes, in the order of the list.
void Periods::put_visits(uint32_t r, int64_t period, State& out) const {
  std::vector<const Visit*> visits;
  for (const Visit& visit : step_.roles[r].visits)
    if (visit.item != Visit::kFree) visits.push_back(&visit);
  std::ranges::sort(visits, {}, &Visit::item);
  for (const Visit* visit : visits) {
    out.numbers.push_back(visit->threads);
    if (!is_inside(r, visit->item)) {
      // Of a stream that has no part in the windows.
      out.numbers.push_back(visit->item);
      out.numbers.insert(out.numbers.end(), visit->slots.begin(), visit->slots.end());
      continue;
    }
    out.numbers.push_back(visit->item - period * steady_.roles[r].length);
    for (const int64_t slot : visit->slots) put_time(slot, out);
    if (!step_.recorder) continue;
    for (const StragglerWait& w : visit->straggler) {
      // Nothing is booked of what did not wait for others.
      if (w.ready == w.begin && w.alone_end == w.end) {
        out.numbers.push_back(0);
      } else {
        out.numbers.push_back(1);
        put_wait(w, out);
      }
    }
  }
}

// Posted to, and neither ended nor met by all.
bool Periods::is_open(uint32_t id) const {
  const Meeting& meeting = step_.meetings[id];
  return meeting.arrived > 0 &&
         (meeting.end == kNotYet || meeting.visits < step_.program.rendezvous[id].visits);
}

// In the order of their numbers; the flights of roles are these.
void Periods::put_meetings(int64_t period, State& out) const {
  std::vector<uint32_t> open;
  for (uint32_t id = 0; id < step_.meetings.size(); ++id)
    if (is_open(id)) open.push_back(id);
  std::ranges::sort(open, {}, [&](uint32_t id) { return numbers_[id]; });
  for (const uint32_t id : open) {
    const Meeting& m = step_.meetings[id];
    out.numbers.insert(out.numbers.end(),
                       {numbers_[id].first, numbers_[id].second - period, m.arrived, m.visits});
    put_time(m.begin, out);
    put_time(m.end, out);
    put_flight(step_.flights[first_meeting_ + id], out);
    if (!step_.recorder || m.last == kNotYet) continue;
    put_time(m.last, out);
    out.numbers.push_back(m.last_role);
    out.numbers.push_back(m.last_item - period * steady_.roles[m.last_role].length);
  }
}

// ---------------------------------------------------------------------------------------- skipping

std::vector<uint32_t> Periods::look() {
  next_at_ += advances_[anchor_].walkers[anchor_walker_];
  if (!is_inside()) {
    // Before the windows, or behind one of them.
    last_.reset();
    return {};
  }
  State now = state(last_ ? last_->period + 1 : 0);
  std::vector<uint32_t> ended;
  if (last_ && now.numbers == last_->numbers && hosts_keep_ahead(now.now - last_->now)) {
    const uint32_t periods = periods_left();
    next_at_ = kDone;
    if (periods > 0) ended = skip(*last_, periods);
  }
  last_ = std::move(now);
  for (std::vector<Standstill>& of_role : stood_) of_role.clear();
  for (Role& role : step_.roles) role.launch_mattered = false;
  return ended;
}

// Hosts that wait for nothing, in a period and all that follow.
bool Periods::hosts_keep_ahead(int64_t period) const {
  for (uint32_t r = 0; r < step_.roles.size(); ++r) {
    if (advances_[r].segments > 0) continue;
    if (step_.roles[r].launch_mattered || advances_[r].launched > period) return false;
  }
  return true;
}

uint32_t Periods::periods_left() const {
  uint32_t least = UINT32_MAX;
  for (uint32_t r = 0; r < step_.roles.size(); ++r) {
    const SteadyState::Window& w = steady_.roles[r];
    for (size_t i = 0; i < step_.roles[r].walkers.size(); ++i) {
      if (advances_[r].walkers[i] == 0) continue;
      const Walker& walker = step_.roles[r].walkers[i];
      const uint32_t item = step_.program.roles[r].items[walker.code][walker.at];
      least = std::min(least, (w.end - 1 - item) / w.length);
    }
  }
  return least;
}

uint32_t Periods::later(uint32_t id, uint32_t periods) const {
  for (; periods > 0 && id != SteadyState::kNone; --periods) id = steady_.later[id];
  return id;
}

bool Periods::all_of_later(uint32_t periods, const std::vector<uint32_t>& rendezvous) const {
  return std::ranges::all_of(rendezvous,
                             [&](uint32_t id) { return later(id, periods) != SteadyState::kNone; });
}

// From the state `before`, a period ago, to that of so many periods more.
std::vector<uint32_t> Periods::skip(const State& before, uint32_t periods) {
  const int64_t period = step_.now - before.now;
  std::vector<uint32_t> open, ended;
  for (uint32_t id = 0; id < step_.meetings.size(); ++id) {
    if (is_open(id)) open.push_back(id);
    if (step_.recorder && step_.meetings[id].end > before.now) ended.push_back(id);
  }
  if (!all_of_later(periods, open) || !all_of_later(periods, ended)) return {};
  if (period > (kLongestLaneTime - step_.now) / periods) throw_step_too_long();
  const int64_t time = periods * period;

  std::vector<std::pair<Meeting, Flight>> states;
  for (const uint32_t id : open) {
    states.emplace_back(step_.meetings[id], step_.flights[first_meeting_ + id]);
    move(states.back().first, time);
    move(states.back().second, time);
  }
  std::vector<uint32_t> left_out;
  for (const uint32_t id : ended) {
    Meeting meeting = step_.meetings[id];
    uint32_t at = id;
    for (uint32_t i = 0; i < periods; ++i) {
      at = steady_.later[at];
      move(meeting, period);
      meeting.last_item += steady_.roles[meeting.last_role].length;
      step_.meetings[at] = meeting;
      left_out.push_back(at);
    }
  }
  for (size_t i = 0; i < open.size(); ++i) {
    const uint32_t id = later(open[i], periods);
    step_.meetings[id] = states[i].first;
    if (step_.recorder && states[i].first.last_role != UINT32_MAX)
      step_.meetings[id].last_item += periods * steady_.roles[states[i].first.last_role].length;
    step_.flights[first_meeting_ + id] = states[i].second;
  }
  for (uint32_t r = 0; r < step_.roles.size(); ++r) {
    if (step_.recorder) record_role(r, before, periods, period);
    move_role(r, periods, time);
  }
  step_.shared_ops += periods * (step_.shared_ops - before.shared_ops);
  step_.now += time;
  left_out_ = periods;
  return left_out;
}

void Periods::move_role(uint32_t r, uint32_t periods, int64_t time) {
  Role& role = step_.roles[r];
  move_host(r, periods, time);
  move_records(r, periods, time);
  for (size_t i = 0; i < role.walkers.size(); ++i)
    role.walkers[i].at += periods * advances_[r].walkers[i];
  for (Visit& visit : role.visits) {
    if (visit.item == Visit::kFree || !is_inside(r, visit.item)) continue;
    visit.item += periods * steady_.roles[r].length;
    for (int64_t& slot : visit.slots) move(slot, time);
    for (StragglerWait& w : visit.straggler) move(w, time);
  }
  for (std::vector<uint32_t>* flights : {&role.beside, &role.events})
    for (uint32_t& f : *flights)
      if (f >= first_meeting_) f = first_meeting_ + later(f - first_meeting_, periods);
  for (uint32_t s = 0; s < kStreams; ++s) {
    if (!advances_[r].moves[s]) continue;
    role.time[s] += time;
    move(step_.flights[r * kStreams + s], time);
    if (!is_default(role.straggler[s])) move(role.straggler[s], time);
  }
  move(role.event, time);
  move(role.last, time);
  move(role.begin, time);
  move(step_.next[r], time);
  role.quiet.learns = false;
}

void Periods::move_host(uint32_t r, uint32_t periods, int64_t time) {
  Role& role = step_.roles[r];
  const Advance& advance = advances_[r];
  const bool waits = advance.segments > 0;
  for (size_t i = 0; i < role.walkers.size(); ++i) {
    if (advance.walkers[i] > 0 && role.walkers[i].pass != nullptr)
      role.walkers[i].launched += waits ? time : periods * advance.launched;
  }
  if (waits) {
    // The last one first: segments that are asked for may overlap those that they become.
    const uint32_t first = first_segment(r);
    for (uint32_t i = role.segments; i-- > first;)
      role.host[i + periods * advance.segments] = role.host[i] + time;
    role.segments += periods * advance.segments;
  }
}

// The last one first, as above.
void Periods::move_records(uint32_t r, uint32_t periods, int64_t time) {
  const uint32_t by = periods * advances_[r].records;
  if (by == 0) return;
  std::vector<EventRecord>& records = step_.roles[r].records;
  for (auto i = static_cast<uint32_t>(records.size()); i-- > 0;) {
    if (!is_open(r, i)) continue;
    EventRecord& event = records[i + by];
    event = std::exchange(records[i], {});
    event.time += time;
    if (!is_default(event.straggler)) move(event.straggler, time);
  }
}

// What was written down of the period, once more for each that is left out.
void Periods::record_role(uint32_t r, const State& before, uint32_t periods, int64_t period) {
  Role& role = step_.roles[r];
  const std::vector<Item>& items = step_.graph.roles[r].items;
  const std::array<int64_t, kSpends> booked = step_.recorder->booked(r);
  for (size_t s = 0; s < kSpends; ++s)
    step_.recorder->book(r, static_cast<Spend>(s), periods * (booked[s] - before.booked[r][s]));
  for (uint32_t i = 1; i <= periods; ++i) {
    for (Standstill stood : stood_[r]) {
      stood.item += i * steady_.roles[r].length;
      stood.begin += i * period;
      stood.end += i * period;
      if (!is_default(stood.straggler)) move(stood.straggler, i * period);
      const Item& item = items[stood.item];
      if (item.kind == ItemKind::join) {
        step_.recorder->rendezvous_wait(r, item, stood.item, stood.begin, stood.end, {});
      } else {
        step_.recorder->event_wait(r, item, stood.item, stood.begin, stood.end, stood.straggler);
      }
    }
  }
  const std::vector<uint32_t>& list = step_.program.roles[r].items[kComputing];
  const uint32_t at = role.walkers[role.computes].at;
  const uint32_t length = at - before.compute_at[r];
  int64_t begun = role.items[list[at]].first;
  for (uint32_t i = at; i < at + periods * length; ++i) {
    const auto& [begin, end] = role.items[list[i - length]];
    role.items[list[i]] = {begin + period, end + period};
  }
  move(begun, periods * period);
  role.items[list[at + periods * length]] = {begun, kNotYet};
}

}  // namespace stepcast::contention::equal
