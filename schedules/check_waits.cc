// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <utility>

#include "schedules/action_text.h"
#include "schedules/checker.h"
#include "schedules/vocabulary.h"

namespace stepcast {
namespace {

using Kind = ScheduleProblem::Kind;
using enum ActionKind;

// Where what an action needs from another stage is made, if it needs anything.  Needs within a
// stage are met by the order.
std::optional<ListPlace> needed_by(const Checker& c, const Action& a) {
  const bool ahead = a.kind == forward;
  if (!ahead && !is_backward(a.kind)) return std::nullopt;
  if (a.stage == (ahead ? 0 : c.stages - 1)) return std::nullopt;
  const size_t stage = ahead ? a.stage - size_t{1} : a.stage + size_t{1};
  return ListPlace{c.schedule.rank_of(stage, a.microbatch),
                   c.place(ahead ? forward : backward, c.index(stage, a.microbatch))};
}

uint32_t unit_length(const Checker& c, const ListPlace& p) {
  const std::vector<Action>& list = c.schedule.ranks[p.list];
  if (p.position == list.size()) return 0;
  return list[p.position].overlaps_next ? 2 : 1;
}

// What `a` still waits for of the actions of a shared vocabulary and those that these follow.
std::optional<ListPlace> awaited_vocabulary(const Checker& c, const Action& a,
                                            const std::vector<uint32_t>& next) {
  const std::optional<VocabularyNeed> need = vocabulary_need(c.stages, c.vocabulary, a);
  if (!need) return std::nullopt;
  for (size_t s = need->first; s <= need->last; ++s) {
    const ListPlace place{c.schedule.rank_of_stage[s],
                          c.place(need->kind, c.index(s, a.microbatch))};
    if (next[place.list] <= place.position) return place;
  }
  return std::nullopt;
}

// What the unit at `p` waits for when the ranks have come as far as `next`.
std::optional<ListPlace> awaited(const Checker& c, const ListPlace& p,
                                 const std::vector<uint32_t>& next) {
  for (uint32_t i = p.position; i < p.position + unit_length(c, p); ++i) {
    const Action& a = c.schedule.ranks[p.list][i];
    const std::optional<ListPlace> place = needed_by(c, a);
    if (place && next[place->list] <= place->position) return place;
    if (const auto vocabulary = awaited_vocabulary(c, a, next)) return vocabulary;
  }
  return std::nullopt;
}

void report_deadlock(Checker& c, const std::vector<uint32_t>& next, uint32_t stuck) {
  const auto awaits = [&](const ListPlace& p, const std::vector<uint32_t>& n) {
    return awaited(c, p, n);
  };
  const std::vector<uint32_t> circle = circle_from(stuck, next, awaits);
  const auto awaited_text = [&](uint32_t rank) {
    const ListPlace p = *awaited(c, {rank, next[rank]}, next);
    return quoted(c.schedule, c.schedule.ranks[p.list][p.position]);
  };
  const auto head = [&](uint32_t rank) { return quoted_unit(c.schedule, {rank, next[rank]}); };
  ScheduleProblem problem;
  problem.kind = Kind::deadlock;
  problem.message = "the schedule deadlocks";
  problem.rank = static_cast<uint16_t>(circle.front());
  problem.position = next[circle.front()];
  for (const uint32_t rank : circle)
    problem.cycle.push_back(c.rank_name(rank) + " at " + head(rank) + " waits for " +
                            awaited_text(rank));
  // Closes the circle: what the last one waits for stands behind what the first one is stuck at.
  problem.cycle.push_back(awaited_text(circle.back()) + " comes after " + head(circle.front()) +
                          " on " + c.rank_name(circle.front()));
  c.problems.push_back(std::move(problem));
}

struct Message {
  uint32_t from = 0;  // rank
  uint32_t sent = 0;  // place of the unit that makes it
  Action what, needed_by;
  uint32_t needed_at = 0;  // place of the unit that needs it
};

// The messages that the unit at `p` receives from other ranks, in the order they are sent in: they
// are asked for together.
void received_by(const Checker& c, const ListPlace& p, std::vector<Message>& messages) {
  messages.clear();
  for (uint32_t i = p.position; i < p.position + unit_length(c, p); ++i) {
    const Action& a = c.schedule.ranks[p.list][i];
    const std::optional<ListPlace> place = needed_by(c, a);
    if (!place || place->list == p.list) continue;
    const std::vector<Action>& from = c.schedule.ranks[place->list];
    uint32_t sent = place->position;
    // The second half of a pair leaves together with the first.
    if (sent > 0 && from[sent - 1].overlaps_next) --sent;
    messages.push_back({place->list, sent, from[place->position], a, p.position});
  }
  if (messages.size() == 2 && messages[1].sent < messages[0].sent)
    std::swap(messages[0], messages[1]);
}

void report_stall(Checker& c, uint32_t rank, const Message& first, const Message& second) {
  const auto name = [&](const Action& a) { return quoted(c.schedule, a); };
  const std::string here = c.rank_name(rank), there = c.rank_name(first.from);
  ScheduleProblem problem;
  problem.kind = Kind::stall;
  problem.rank = static_cast<uint16_t>(rank);
  problem.position = first.needed_at;
  problem.message = here + " needs " + name(first.what) + " before " + name(second.what) +
                    ", but " + there + " sends them the other way round";
  problem.cycle = {here + " at " + name(first.needed_by) + " waits for " + name(first.what),
                   there + " sends " + name(first.what) + " after " + name(second.what),
                   here + " receives " + name(second.what) + " for " + name(second.needed_by) +
                       ", after " + name(first.needed_by)};
  c.problems.push_back(std::move(problem));
}

// What `rank` needs from each other rank must have been sent in the same order.
void check_receives(Checker& c, uint32_t rank) {
  struct Sender {
    Message latest;
    bool told = false;
  };
  std::map<uint32_t, Sender> senders;
  std::vector<Message> messages;
  for (ListPlace p{rank, 0}; unit_length(c, p) > 0; p.position += unit_length(c, p)) {
    received_by(c, p, messages);
    for (const Message& m : messages) {
      Sender& sender = senders.try_emplace(m.from, Sender{m}).first->second;
      if (!sender.told && m.sent < sender.latest.sent && !c.full()) {
        sender.told = true;
        report_stall(c, rank, sender.latest, m);
      }
      sender.latest = m;
    }
  }
}

}  // namespace

void check_progress(Checker& c) {
  const std::vector<uint32_t> next = execute_in_order(
      c.schedule.ranks.size(), [&](const ListPlace& p) { return unit_length(c, p); },
      [&](const ListPlace& p, const std::vector<uint32_t>& n) { return awaited(c, p, n); });
  for (size_t r = 0; r < next.size(); ++r)
    if (next[r] < c.schedule.ranks[r].size()) {
      report_deadlock(c, next, static_cast<uint32_t>(r));
      return;
    }
}

// REQUIRES: the problems of place_actions and check_completeness are none.
std::vector<ScheduleProblem> check_rendezvous(const Schedule& schedule, size_t limit) {
  Checker c(schedule, limit);
  place_actions(c);
  for (size_t r = 0; r < schedule.ranks.size(); ++r) check_receives(c, static_cast<uint32_t>(r));
  return std::move(c.problems);
}

}  // namespace stepcast
