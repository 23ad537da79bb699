// SPDX-License-Identifier: Apache-2.0
// Communication of the contention engine: a collective or transfer from the first arrival to its
// end.
//
// An example: an all-reduce of 10 MB in a tp group of two ranks, priced at 120 us, of which 20 us
// are latency.  One rank reaches it at 10 us, the other at 12 us.
//
//     the first arrival   opens an occurrence of the collective, with an entry for each group of
//                         lanes, among them this tp group; the thread that arrived sleeps
//     the last arrival    makes the begin known: 12 us, the latest of them (complete)
//
// If nobody else uses its links and nothing slows it, its end is known at once: 12 + 120 us, and
// the threads go on.  On shared links it becomes a Transfer, whose end is decided while it runs:
//
//     12 us + 20 us       the latency has passed, and a flow of 10 MB starts (start_moving); its
//                         cap is what it would do alone, 10 MB / 100 us = 100 GB/s
//     132 us or later     the flow network says that the flow has ended (end_transfer); it is later
//                         if other flows took part of the links
//
// With interference, communication on private links is a Transfer as well.  It has no flow; what is
// left of its price is counted in units, as the progress of compute is (contention_compute.cc).
//
// An occurrence counts the visits that are still to come: of each lane, and of each group's end.
// After the last one it is used again for another collective.

#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/contention/contention_engine.h"
#include "sim/lanes/lane_program.h"

namespace stepcast::contention {
// --- occurrences of collectives and rendezvous ---------------------------------------------------

uint32_t Engine::new_occurrence(uint32_t work, uint32_t needed, int64_t visits,
                                uint32_t first_group, uint32_t groups) {
  uint32_t id = static_cast<uint32_t>(occurrences_.size());
  if (free_occurrences_.empty()) {
    occurrences_.emplace_back();
  } else {
    id = free_occurrences_.back();
    free_occurrences_.pop_back();
  }
  Occurrence& occurrence = occurrences_[id];
  occurrence.groups.assign(groups, Arrivals{});
  occurrence.first_group = first_group;
  occurrence.id = id;
  occurrence.work = work;
  occurrence.needed = needed;
  // Of each lane, and each group's end counts too.
  const Groups& all = groups_[static_cast<size_t>(graph_.works[work].axis)];
  if (groups == all.count() && run_lanes_.empty()) {
    occurrence.left = visits * width_ + groups;
    return id;
  }
  occurrence.left = 0;
  for (uint32_t g = first_group; g < first_group + groups; ++g) {
    const int64_t lanes = runs_of(all.lanes_of(g));
    occurrence.left += visits * lanes + (lanes > 0 ? 1 : 0);
  }
  return id;
}

Occurrence& Engine::occurrence_of_rendezvous(uint32_t id) {
  uint32_t& occurrence = rendezvous_occurrence_[id];
  if (occurrence == kNone) {
    const RendezvousPlan& plan = program_.rendezvous[id];
    const auto work = static_cast<uint32_t>(graph_.rendezvous[id].work);
    const Groups& groups = groups_[static_cast<size_t>(graph_.works[work].axis)];
    occurrence = new_occurrence(work, static_cast<uint32_t>(plan.posts.size()), plan.visits, 0,
                                groups.count());
    occurrences_[occurrence].is_rendezvous = true;
    occurrences_[occurrence].source = id;
  }
  return occurrences_[occurrence];
}

// The next one of the thread.  A tp group under interference counts its own, for it may leave out
// some that others do not.
Occurrence& Engine::occurrence_of_collective(const Block& block, const Thread& th,
                                             const ThreadInstruction& in, uint32_t group) {
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[in.work].axis)];
  const bool of_one = coupled_ && scopes_[in.work] != Scope::outside;
  const auto roles = static_cast<uint32_t>(graph_.roles.size());
  const uint32_t of_role =
      of_one ? roles + block.role * width_ + groups.lanes_of(group).front() : block.role;
  const uint32_t source = of_role * kStreams + in.stream;
  Sequence& s = sequences_[source];
  const uint32_t sequence = of_one ? th.tp_sequence : th.sequence;
  while (s.first + s.occurrences.size() <= sequence) s.occurrences.push_back(kNone);
  uint32_t& occurrence = s.occurrences[sequence - s.first];
  if (occurrence == kNone) {
    occurrence = of_one ? new_occurrence(in.work, 1, 1, group, 1)
                        : new_occurrence(in.work, 1, 1, 0, groups.count());
    occurrences_[occurrence].is_rendezvous = false;
    occurrences_[occurrence].source = source;
    occurrences_[occurrence].sequence = sequence;
    occurrences_[occurrence].role = block.role;
  }
  return occurrences_[occurrence];
}

// When all lanes have left, the occurrence is free to be used again.
void Engine::visit(Occurrence& occurrence, int64_t visits) {
  occurrence.left -= visits;
  if (occurrence.left > 0) return;
  if (occurrence.is_rendezvous) {
    rendezvous_occurrence_[occurrence.source] = kNone;
  } else {
    Sequence& s = sequences_[occurrence.source];
    *std::ranges::find(s.occurrences, occurrence.id) = kFreed;
    const auto live = std::ranges::find_if(s.occurrences, [](uint32_t o) { return o != kFreed; });
    s.first += static_cast<uint32_t>(live - s.occurrences.begin());
    s.occurrences.erase(s.occurrences.begin(), live);
  }
  free_occurrences_.push_back(occurrence.id);
}

void Engine::arrive(Occurrence& occurrence, uint32_t group, int64_t time) {
  Arrivals& arrivals = occurrence.of(group);
  arrivals.begin = std::max(arrivals.begin, time);
  ++arrivals.arrived;
  if (is_complete(occurrence, group)) complete(occurrence, group);
}

// --- prices -------------------------------------------------------------------------------------

int64_t Engine::price_in(size_t link_class, uint32_t work) const {
  return link_class == 0 ? prices_.by_work[work].time.count()
                         : lanes_.class_ps[link_class - 1][work];
}

uint8_t Engine::class_of(uint32_t role, uint32_t work, uint32_t lane) const {
  const auto& classes = lanes_.group_class[static_cast<size_t>(graph_.works[work].axis)];
  return classes.empty() || classes[role].empty() ? uint8_t{0} : classes[role][lane];
}

uint8_t Engine::class_of(const Occurrence& occurrence, uint32_t group) const {
  uint8_t joined = 0;
  if (lanes_.class_ps.empty()) return joined;
  for_ranks(occurrence, group, [&](uint32_t role, uint32_t lane) {
    joined = lanes_.joined(joined, class_of(role, occurrence.work, lane));
  });
  return joined;
}

// Outside windows.
int64_t Engine::price_of(const Occurrence& occurrence, uint32_t group) const {
  return price_in(class_of(occurrence, group), occurrence.work);
}

uint32_t Engine::pattern_of(const Occurrence& occurrence, uint32_t group) const {
  if (occurrence.work >= traffic_.pattern_of.size() ||
      traffic_.pattern_of[occurrence.work].empty()) {
    return Traffic::kPrivate;
  }
  const uint32_t role =
      occurrence.is_rendezvous ? program_.rendezvous[occurrence.source].sender : occurrence.role;
  return traffic_.pattern_of[occurrence.work]
                            [size_t{role} * width_ + groups_of(occurrence).lanes_of(group).front()];
}

// --- from the last arrival to the end -----------------------------------------------------------

// All have arrived, the begin is known.
void Engine::complete(Occurrence& occurrence, uint32_t group) {
  if (known_ != nullptr && reaches_beyond_block(occurrence)) return find_again(occurrence, group);
  const int64_t begin = occurrence.of(group).begin;
  if (begin > kLongestLaneTime) throw_step_too_long();
  Transfer transfer;
  transfer.occurrence = occurrence.id;
  transfer.group = group;
  transfer.link_class = class_of(occurrence, group);
  transfer.spans = link_spans(occurrence, group);
  transfer.price = price_at(transfer, begin);
  const uint32_t pattern = pattern_of(occurrence, group);
  if (pattern != Traffic::kPrivate) {
    const Time latency = traffic_.latency[occurrence.work];
    transfer.flows =
        graph_.works[occurrence.work].bytes.value > 0 && latency.count() < transfer.price;
    transfer.latency = transfer.flows ? latency.count() * kNominal : 0;
    transfer.pattern = pattern;
    transfer.uses = &traffic_.patterns[pattern];
  }
  if (transfer.flows || coupled_) return begin_decided(occurrence, group, std::move(transfer));
  end_arrivals(occurrence, group,
               priced_end(begin, occurrence.work, transfer.link_class, transfer.spans));
}

// All ranks of it that are run again have arrived: it begins and ends as it did.
void Engine::find_again(Occurrence& occurrence, uint32_t group) {
  Arrivals& arrivals = occurrence.of(group);
  int64_t end = kUnknown;
  if (occurrence.is_rendezvous) {
    const uint32_t id = occurrence.source;
    end = known_->ends[id][group];
    if (!known_->begins[id].empty()) {
      arrivals.begin = known_->begins[id][group];
      const RendezvousRecord& last = known_->last[id][group];
      const bool is_recorded = groups_of(occurrence).of[static_cast<size_t>(recorded_)] == group;
      if (is_recorded) see_post(rendezvous_records_[id], last.last_role, last.last_item, last.last);
    }
  } else {
    const MeetingTimes::Times& times =
        known_->collectives[occurrence.source][occurrence.sequence][group];
    arrivals.begin = times.begin;
    end = times.end;
  }
  if (!coupled_) return end_arrivals(occurrence, group, end);
  Transfer transfer;
  transfer.occurrence = occurrence.id;
  transfer.group = group;
  transfer.known_end = end;
  begin_decided(occurrence, group, std::move(transfer));
}

// Communication whose end is decided while it runs.
void Engine::begin_decided(const Occurrence& occurrence, uint32_t group, Transfer transfer) {
  for_ranks(occurrence, group, [&](uint32_t, uint32_t lane) { shared_ops_ += stands_for_[lane]; });
  uint32_t id = static_cast<uint32_t>(transfers_.size());
  if (free_transfers_.empty()) {
    transfers_.emplace_back();
  } else {
    id = free_transfers_.back();
    free_transfers_.pop_back();
  }
  transfer.on = true;
  transfer.version = transfers_[id].version + 1;  // events of its predecessor are void
  transfer.left = Wide{transfer.price} * kNominal * slow_communication_;
  if (transfer.flows) set_cap(transfer);
  transfers_[id] = std::move(transfer);
  const int64_t begin = occurrence.of(group).begin;
  if (!coupled_) {
    push(begin + transfers_[id].latency, EventKind::move, id, transfers_[id].version);
  } else if (begin > now_) {
    push(begin, EventKind::begin, id, transfers_[id].version);
  } else {
    begin_transfer(id);
  }
  // They may mark its begin.
  if (!occurrence.is_rendezvous) wake(occurrences_[occurrence.id].of(group).first_waiter);
}

// What its flow does alone.  Rounded down: it does not end before its price.
void Engine::set_cap(Transfer& transfer) const {
  const uint32_t work = occurrences_[transfer.occurrence].work;
  const Wide bytes = Wide{graph_.works[work].bytes.value} * 1'000'000'000'000;
  const int64_t moving = std::max<int64_t>(1, transfer.price - traffic_.latency[work].count());
  transfer.cap = std::max<int64_t>(1, static_cast<int64_t>(bytes / moving));
  transfer.most_cap = std::max(transfer.most_cap, transfer.cap);
}

// Interference: from now on it runs beside the compute of its ranks.
void Engine::begin_transfer(uint32_t id) {
  Transfer& transfer = transfers_[id];
  const Occurrence& occurrence = occurrences_[transfer.occurrence];
  transfer.last = now_;
  const bool is_known = transfer.known_end != kUnknown;
  if (is_known ? transfer.known_end == now_ : !transfer.flows && transfer.left == 0)
    return end_transfer(id);
  transfer.listed = true;
  for_ranks(occurrence, transfer.group, [&](uint32_t role, uint32_t lane) {
    const uint32_t rank = role * width_ + lane;
    ranks_[rank].transfers.push_back(id);
    transfer.busy += ranks_[rank].busy ? 1 : 0;
    mark_dirty(rank);
  });
  if (is_known) return push(transfer.known_end, EventKind::transfer_end, id, transfer.version);
  transfer.restarted = true;
  mark_transfer_dirty(id);
  if (!transfer.flows) return;
  if (transfer.latency == 0) return start_moving(id);
  push(now_ + transfer.latency, EventKind::move, id, transfer.version);
}

void Engine::start_moving(uint32_t id) {
  Transfer& transfer = transfers_[id];
  const int64_t bytes = graph_.works[occurrences_[transfer.occurrence].work].bytes.value;
  // A window may have begun or ended during its latency.
  if (const int64_t price = price_at(transfer, now_); price != transfer.price) {
    transfer.price = price;
    set_cap(transfer);
  }
  const int64_t cap = transfer.slowed ? slowed_cap(transfer) : transfer.cap;
  push_next_window(id, now_);
  transfer.flow = network_.start(now_, bytes * kNominal, cap, *transfer.uses, id);
  transfer.moving = true;
  transfer.begin = now_;
  flow_events_ += flows_of(id);
}

int64_t Engine::slowed_cap(const Transfer& transfer) const {
  return std::max<int64_t>(
      1, static_cast<int64_t>(Wide{transfer.cap} * kNominal / slow_communication_));
}

void Engine::end_transfer(uint32_t id) {
  Transfer& transfer = transfers_[id];
  Occurrence& occurrence = occurrences_[transfer.occurrence];
  const uint32_t group = transfer.group;
  transfer.on = false;
  if (transfer.listed) {
    for_ranks(occurrence, group, [&](uint32_t role, uint32_t lane) {
      const uint32_t rank = role * width_ + lane;
      std::erase(ranks_[rank].transfers, id);
      mark_dirty(rank);
    });
  }
  if (noted_ != nullptr && transfer.moving) {
    noted_->push_back({transfer.pattern, transfer.begin, now_, transfer.most_cap});
  }
  free_transfers_.push_back(id);
  end_arrivals(occurrence, group, now_);
}

void Engine::end_arrivals(Occurrence& occurrence, uint32_t group, int64_t time) {
  occurrence.of(group).end = time;
  if (recorded_ >= 0 && occurrence.is_rendezvous) book_rendezvous(occurrence, group);
  if (kept_ != nullptr && reaches_beyond_block(occurrence)) keep_end(occurrence, group);
  wake(occurrence.of(group).first_waiter);
  visit(occurrence, 1);
}

void Engine::keep_end(const Occurrence& occurrence, uint32_t group) {
  const Arrivals& arrivals = occurrence.of(group);
  if (occurrence.is_rendezvous) {
    const uint32_t id = occurrence.source;
    kept_->ends[id][group] = arrivals.end;
    if (!kept_->begins[id].empty()) kept_->begins[id][group] = arrivals.begin;
    return;
  }
  std::vector<std::vector<MeetingTimes::Times>>& of_stream = kept_->collectives[occurrence.source];
  if (of_stream.size() <= occurrence.sequence) of_stream.resize(occurrence.sequence + 1);
  of_stream[occurrence.sequence].resize(occurrence.groups.size());
  of_stream[occurrence.sequence][group] = {arrivals.begin, arrivals.end};
}

// -------------------------------------------------------------------------------------------------
// Windows and jitter in the contention engine: how fast an op goes at a moment, and what becomes of
// the ops that are running when that changes.

void Engine::prepare_windows() {
  if (lanes_.jitter) {
    jitter_ = jitter_table(lanes_.jitter->sigma);
    for (uint64_t rank = 0; rank < slowness_.size(); ++rank) {
      rank_keys_.push_back(jitter_rank_key(lanes_.jitter->seed, rank));
    }
  }
  if (lanes_.windows.empty()) return;
  spans_.resize(slowness_.size());
  for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
    for (uint32_t lane = 0; lane < width_; ++lane) {
      std::vector<LaneSpan>& spans = spans_[role * width_ + lane];
      for (const LaneWindow& w : lanes_.windows_of(role, lane)) {
        if (w.slowness != kNominal) spans.push_back(span_of(w, Axis::none));
      }
      if (!coupled_) continue;
      for (const LaneSpan& span : spans) {
        for (const int64_t edge : {span.from, span.until}) {
          if (edge <= kLongestLaneTime) push(edge, EventKind::window, role * width_ + lane);
        }
      }
    }
  }
}

bool Engine::is_uneven(uint32_t rank) const {
  return jitter_.has_value() || (!spans_.empty() && !spans_[rank].empty());
}

// Of an op of the pass, in 1/4096.
uint32_t Engine::factor_of(const Place& at, uint32_t rank, const ThreadOp& op) const {
  if (!jitter_) return kNominal;
  const uint32_t key = jitter_instance_key(at.first_instance + op.index);
  return jitter_->factor[jitter_index(rank_keys_[rank], key)];
}

int64_t Engine::end_of_op(const Place& at, uint32_t rank, const ThreadOp& op, int64_t begin) const {
  const std::span<const LaneSpan> spans =
      spans_.empty() ? std::span<const LaneSpan>() : std::span<const LaneSpan>(spans_[rank]);
  return end_of_compute(begin, op.ps, slowness_[rank], factor_of(at, rank, op), spans);
}

// How slow the rank is at this moment, jitter left aside.
uint32_t Engine::slowness_now(uint32_t rank) const {
  const auto own = static_cast<uint32_t>(slowness_[rank]);
  if (spans_.empty()) return own;
  Slowness most = 0;
  for (const LaneSpan& w : spans_[rank]) {
    if (w.from <= now_ && now_ < w.until) most = std::max(most, w.slowness);
  }
  return most == 0 ? own : jittered(own, static_cast<uint32_t>(most));
}

// Interference: a window of the rank begins or ends.
void Engine::change_window(uint32_t id) {
  Rank& rank = ranks_[id];
  if (!rank.runs) return;
  advance_progress(rank);
  const int64_t pace = jittered(slowness_now(id), rank.factor);
  rank.target =
      rank.progress + rescaled(rank.target - rank.progress, rank.pace, pace, slow_compute_);
  rank.pace = pace;
  rank.restarted = true;
  mark_dirty(id);
}

// What is left in units of which `alone` pass in 1/4096 ps: whole 1/4096 ps of it, at another pace.
Wide Engine::rescaled(Wide left, int64_t from, int64_t to, int64_t alone) {
  if (left <= 0 || from == to) return left;
  return left * to / (Wide{from} * alone) * alone;
}

// --- communication ------------------------------------------------------------------------------

// Windows in which the links of a group have another class.
std::vector<LaneSpan> Engine::link_spans(const Occurrence& occurrence, uint32_t group) const {
  std::vector<LaneSpan> spans;
  if (lanes_.windows.empty()) return spans;
  const Axis axis = graph_.works[occurrence.work].axis;
  for_ranks(occurrence, group,
            [&](uint32_t role, uint32_t lane) { add_link_spans(axis, role, lane, spans); });
  return spans;
}

void Engine::add_link_spans(Axis axis, uint32_t role, uint32_t lane,
                            std::vector<LaneSpan>& spans) const {
  for (const LaneWindow& w : lanes_.windows_of(role, lane)) {
    if (w.link_class[static_cast<size_t>(axis)] > 0) spans.push_back(span_of(w, axis));
  }
}

// Of communication that begins at `begin`, on private links beside nothing.
int64_t Engine::priced_end(int64_t begin, uint32_t work, uint8_t own,
                           std::span<const LaneSpan> spans) {
  if (spans.empty()) return begin + price_in(own, work) * kNominal;
  prices_by_class_.clear();
  for (size_t c = 0; c <= lanes_.class_ps.size(); ++c) {
    prices_by_class_.push_back(price_in(c, work) * kNominal);
  }
  return end_of_communication(begin, prices_by_class_, own, spans, lanes_);
}

int64_t Engine::price_at(const Transfer& transfer, int64_t time) const {
  uint8_t link_class = transfer.link_class;
  for (const LaneSpan& w : transfer.spans) {
    if (w.from <= time && time < w.until) link_class = lanes_.joined(link_class, w.link_class);
  }
  return price_in(link_class, occurrences_[transfer.occurrence].work);
}

// An event at the next moment after `time` at which a window of its ranks begins or ends.
void Engine::push_next_window(uint32_t id, int64_t time) {
  int64_t next = INT64_MAX;
  for (const LaneSpan& w : transfers_[id].spans) {
    if (w.from > time) next = std::min(next, w.from);
    if (w.until > time) next = std::min(next, w.until);
  }
  if (next <= kLongestLaneTime) push(next, EventKind::price, id, transfers_[id].version);
}

void Engine::change_price(uint32_t id) {
  Transfer& transfer = transfers_[id];
  push_next_window(id, now_);
  const int64_t price = price_at(transfer, now_);
  if (price == transfer.price) return;
  const int64_t before = transfer.price;
  transfer.price = price;
  if (transfer.flows) {
    set_cap(transfer);
    if (transfer.moving)
      network_.set_cap(now_, transfer.flow, transfer.slowed ? slowed_cap(transfer) : transfer.cap);
    return;
  }
  transfer.left -= (transfer.slowed ? kNominal : slow_communication_) * Wide{now_ - transfer.last};
  transfer.last = now_;
  transfer.left = rescaled(transfer.left, before, price, slow_communication_);
  transfer.restarted = true;
  mark_transfer_dirty(id);
}

}  // namespace stepcast::contention
