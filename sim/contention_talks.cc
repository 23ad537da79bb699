// SPDX-License-Identifier: Apache-2.0
// Collectives and transfers of the contention engine: who has arrived, when they begin and end.
#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/contention_engine.h"
#include "sim/lane_program.h"

namespace stepcast::contention {
namespace {

Wide ceil_ratio(Wide a, Wide b) {
  return (a + b - 1) / b;
}

}  // namespace

template <class F>
void Engine::for_ranks(const Row& row, uint32_t group, const F& f) const {
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  const uint32_t* const lanes = &groups.lanes[size_t{group} * groups.size];
  const auto of_role = [&](uint32_t role) {
    for (uint32_t i = 0; i < groups.size; ++i) f(role, lanes[i]);
  };
  if (!row.is_rendezvous) return of_role(row.source / kStreams);
  for (const uint32_t role : program_.meetings[row.source].parties) of_role(role);
}

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

size_t Engine::class_of(uint32_t role, uint32_t work, uint32_t lane) const {
  const auto& classes = lanes_.group_class[static_cast<size_t>(graph_.works[work].axis)];
  return classes.empty() || classes[role].empty() ? 0 : classes[role][lane];
}

int64_t Engine::price_of(const Row& row, uint32_t group) const {
  if (lanes_.class_ps.empty()) return price_in(0, row.work);
  size_t highest = 0;
  for_ranks(row, group, [&](uint32_t role, uint32_t lane) {
    highest = std::max(highest, class_of(role, row.work, lane));
  });
  return price_in(highest, row.work);
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
  const int64_t price = price_of(row, group);
  const uint32_t pattern = pattern_of(row, group);
  const int64_t bytes = graph_.works[row.work].bytes.value;
  const int64_t latency = pattern == Traffic::kPrivate ? 0 : traffic_.latency[row.work].count();
  const bool flows = pattern != Traffic::kPrivate && bytes > 0 && latency < price;
  if (flows || coupled_) {
    const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
    const size_t roles = row.is_rendezvous ? program_.meetings[row.source].parties.size() : 1;
    shared_ops_ += static_cast<int64_t>(roles) * groups.size;
  } else {
    end_meeting(row, group, begin + price * kOne);
    return;
  }
  uint32_t id = static_cast<uint32_t>(talks_.size());
  if (free_talks_.empty()) {
    talks_.emplace_back();
  } else {
    id = free_talks_.back();
    free_talks_.pop_back();
  }
  Talk& talk = talks_[id];
  const uint32_t version = talk.version + 1;  // events of its predecessor are void
  talk = {};
  talk.on = true;
  talk.version = version;
  talk.row = row.id;
  talk.group = group;
  talk.flows = flows;
  talk.latency = latency * kOne;
  talk.left = Wide{price} * kOne * slow_talk_;
  if (flows) {
    talk.uses = &traffic_.patterns[pattern];
    talk.cap =
        static_cast<int64_t>(ceil_ratio(Wide{bytes} * 1'000'000'000'000, Wide{price} - latency));
  }
  if (!coupled_) {
    push(begin + talk.latency, EventKind::move, id, version);
  } else if (begin > now_) {
    push(begin, EventKind::begin, id, version);
  } else {
    begin_talk(id);
  }
  if (!row.is_rendezvous) wake(row.meetings[group].first_waiter);  // they may mark its begin
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
  const int64_t cap = talk.slowed ? slowed_cap(talk) : talk.cap;
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
