// SPDX-License-Identifier: Apache-2.0
// Collectives and transfers of the contention engine: who has arrived, when they begin and end.
#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/contention_engine.h"
#include "sim/lane_program.h"

namespace stepcast::contention {
// --- rows ---------------------------------------------------------------------------------------

uint32_t Engine::new_row(uint32_t work, uint32_t needed, int64_t visits) {
  uint32_t id = static_cast<uint32_t>(rows_.size());
  if (free_rows_.empty()) {
    rows_.emplace_back();
  } else {
    id = free_rows_.back();
    free_rows_.pop_back();
  }
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[work].axis)];
  Row& row = rows_[id];
  row.meetings.assign(groups.count, Meeting{});
  row.id = id;
  row.work = work;
  row.needed = needed * groups.size;
  row.left = visits * width_ + groups.count;  // each group's end counts too
  return id;
}

Row& Engine::row_of_rendezvous(uint32_t id) {
  uint32_t& row = rendezvous_row_[id];
  if (row == kNone) {
    const MeetingPlan& plan = program_.meetings[id];
    row = new_row(static_cast<uint32_t>(graph_.rendezvous[id].work),
                  static_cast<uint32_t>(plan.posts.size()), plan.visits);
    rows_[row].is_rendezvous = true;
    rows_[row].source = id;
  }
  return rows_[row];
}

Row& Engine::row_of_collective(uint32_t source, uint32_t sequence, uint32_t work) {
  Sequence& s = sequences_[source];
  while (s.first + s.rows.size() <= sequence) s.rows.push_back(kNone);
  uint32_t& row = s.rows[sequence - s.first];
  if (row == kNone) {
    row = new_row(work, 1, 1);
    rows_[row].is_rendezvous = false;
    rows_[row].source = source;
  }
  return rows_[row];
}

// Everybody has left: the row is free.
void Engine::visit(Row& row, int64_t visits) {
  row.left -= visits;
  if (row.left > 0) return;
  if (row.is_rendezvous) {
    rendezvous_row_[row.source] = kNone;
  } else {
    Sequence& s = sequences_[row.source];
    *std::ranges::find(s.rows, row.id) = kFreed;
    while (!s.rows.empty() && s.rows.front() == kFreed) {
      s.rows.pop_front();
      ++s.first;
    }
  }
  free_rows_.push_back(row.id);
}

void Engine::arrive(Row& row, uint32_t group, int64_t time) {
  Meeting& m = row.meetings[group];
  m.begin = std::max(m.begin, time);
  if (++m.arrived == row.needed) complete(row, group);
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

uint8_t Engine::class_of(const Row& row, uint32_t group) const {
  uint8_t joined = 0;
  if (lanes_.class_ps.empty()) return joined;
  for_ranks(row, group, [&](uint32_t role, uint32_t lane) {
    joined = lanes_.joined(joined, class_of(role, row.work, lane));
  });
  return joined;
}

// Outside windows.
int64_t Engine::price_of(const Row& row, uint32_t group) const {
  return price_in(class_of(row, group), row.work);
}

uint32_t Engine::pattern_of(const Row& row, uint32_t group) const {
  if (row.work >= traffic_.pattern_of.size() || traffic_.pattern_of[row.work].empty()) {
    return Traffic::kPrivate;
  }
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  const uint32_t role = row.is_rendezvous ? program_.meetings[row.source].sender
                                          : static_cast<uint32_t>(row.source / kStreams);
  return traffic_
      .pattern_of[row.work][size_t{role} * width_ + groups.lanes[size_t{group} * groups.size]];
}

// --- from the last arrival to the end -----------------------------------------------------------

// All have arrived, the begin is known.
void Engine::complete(Row& row, uint32_t group) {
  const int64_t begin = row.meetings[group].begin;
  if (begin > kLongestLaneTime) throw_step_too_long();
  Talk talk;
  talk.row = row.id;
  talk.group = group;
  talk.link_class = class_of(row, group);
  talk.spans = link_spans(row, group);
  talk.price = price_at(talk, begin);
  const uint32_t pattern = pattern_of(row, group);
  if (pattern != Traffic::kPrivate) {
    const Time latency = traffic_.latency[row.work];
    talk.flows = graph_.works[row.work].bytes.value > 0 && latency.count() < talk.price;
    talk.latency = talk.flows ? latency.count() * kOne : 0;
    talk.uses = &traffic_.patterns[pattern];
  }
  if (talk.flows || coupled_) return begin_decided(row, group, std::move(talk));
  end_meeting(row, group, priced_end(begin, row.work, talk.link_class, talk.spans));
}

// Communication whose end is decided while it runs.
void Engine::begin_decided(const Row& row, uint32_t group, Talk talk) {
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  const size_t roles = row.is_rendezvous ? program_.meetings[row.source].parties.size() : 1;
  shared_ops_ += static_cast<int64_t>(roles) * groups.size;
  uint32_t id = static_cast<uint32_t>(talks_.size());
  if (free_talks_.empty()) {
    talks_.emplace_back();
  } else {
    id = free_talks_.back();
    free_talks_.pop_back();
  }
  talk.on = true;
  talk.version = talks_[id].version + 1;  // events of its predecessor are void
  talk.left = Wide{talk.price} * kOne * slow_talk_;
  if (talk.flows) set_cap(talk);
  talks_[id] = std::move(talk);
  const int64_t begin = row.meetings[group].begin;
  if (!coupled_) {
    push(begin + talks_[id].latency, EventKind::move, id, talks_[id].version);
  } else if (begin > now_) {
    push(begin, EventKind::begin, id, talks_[id].version);
  } else {
    begin_talk(id);
  }
  // They may mark its begin.
  if (!row.is_rendezvous) wake(rows_[row.id].meetings[group].first_waiter);
}

// What its flow does alone.  Rounded down: it does not end before its price.
void Engine::set_cap(Talk& talk) const {
  const uint32_t work = rows_[talk.row].work;
  const Wide bytes = Wide{graph_.works[work].bytes.value} * 1'000'000'000'000;
  const int64_t moving = std::max<int64_t>(1, talk.price - traffic_.latency[work].count());
  talk.cap = std::max<int64_t>(1, static_cast<int64_t>(bytes / moving));
}

// Interference: from now on it runs beside the compute of its ranks.
void Engine::begin_talk(uint32_t id) {
  Talk& talk = talks_[id];
  const Row& row = rows_[talk.row];
  talk.last = now_;
  if (!talk.flows && talk.left == 0) return end_talk(id);
  talk.listed = true;
  for_ranks(row, talk.group, [&](uint32_t role, uint32_t lane) {
    const uint32_t rank = role * width_ + lane;
    ranks_[rank].talks.push_back(id);
    talk.busy += ranks_[rank].busy ? 1 : 0;
    mark_dirty(rank);
  });
  talk.restarted = true;
  mark_talk_dirty(id);
  if (!talk.flows) return;
  if (talk.latency == 0) return start_moving(id);
  push(now_ + talk.latency, EventKind::move, id, talk.version);
}

void Engine::start_moving(uint32_t id) {
  Talk& talk = talks_[id];
  const int64_t bytes = graph_.works[rows_[talk.row].work].bytes.value;
  // A window may have begun or ended during its latency.
  if (const int64_t price = price_at(talk, now_); price != talk.price) {
    talk.price = price;
    set_cap(talk);
  }
  const int64_t cap = talk.slowed ? slowed_cap(talk) : talk.cap;
  push_next_window(id, now_);
  talk.flow = network_.start(now_, bytes * kOne, cap, *talk.uses, id);
  talk.moving = true;
  ++flow_events_;
}

int64_t Engine::slowed_cap(const Talk& talk) const {
  return std::max<int64_t>(1, static_cast<int64_t>(Wide{talk.cap} * kOne / slow_talk_));
}

void Engine::end_talk(uint32_t id) {
  Talk& talk = talks_[id];
  Row& row = rows_[talk.row];
  const uint32_t group = talk.group;
  talk.on = false;
  if (talk.listed) {
    for_ranks(row, group, [&](uint32_t role, uint32_t lane) {
      const uint32_t rank = role * width_ + lane;
      std::erase(ranks_[rank].talks, id);
      mark_dirty(rank);
    });
  }
  free_talks_.push_back(id);
  end_meeting(row, group, now_);
}

void Engine::end_meeting(Row& row, uint32_t group, int64_t time) {
  row.meetings[group].end = time;
  if (recorded_ >= 0 && row.is_rendezvous) note_rendezvous(row, group);
  wake(row.meetings[group].first_waiter);
  visit(row, 1);
}

}  // namespace stepcast::contention
