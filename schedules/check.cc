// SPDX-License-Identifier: Apache-2.0
#include "schedules/check.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kElsewhere = kNowhere - 1;  // there, but on a rank where it does not belong
constexpr size_t kKinds = 4;

// Position of the four possible actions of a stage and microbatch in the list of its rank.
using Positions = std::array<uint32_t, kKinds>;

struct Checker {
  const Schedule& schedule;
  size_t limit;
  size_t stages = 0, microbatches = 0;
  std::vector<Positions> positions;  // by stage, then microbatch
  std::vector<ScheduleProblem> problems;

  Positions& of(size_t stage, size_t microbatch) {
    return positions[stage * microbatches + microbatch];
  }
  uint32_t position(const Action& a) {
    return of(a.stage, a.microbatch)[static_cast<size_t>(a.kind)];
  }
  bool full() const { return problems.size() >= limit; }
  void add(ScheduleProblem::Kind kind, std::string message, size_t rank, uint32_t at) {
    if (!full())
      problems.push_back({kind, std::move(message), static_cast<uint16_t>(rank), at, {}});
  }
};

using Kind = ScheduleProblem::Kind;

std::string quoted(const Action& a) {
  return '`' + to_string(a) + '`';
}

std::string rank_name(const Schedule& schedule, size_t rank) {
  // Without chunks a rank is a stage, and that is what people call it.
  return (schedule.vpp == 1 ? "stage " : "rank ") + std::to_string(rank);
}

// Enters every action at its position; reports those that are outside the schedule, on the wrong
// rank or there twice.
void place_actions(Checker& c) {
  for (size_t r = 0; r < c.schedule.ranks.size() && !c.full(); ++r) {
    const std::vector<Action>& list = c.schedule.ranks[r];
    for (size_t i = 0; i < list.size(); ++i) {
      const Action& a = list[i];
      const auto at = static_cast<uint32_t>(i);
      if (a.stage >= c.stages || a.microbatch >= c.microbatches) {
        c.add(Kind::misplaced,
              quoted(a) + " on rank " + std::to_string(r) + ": the schedule has " +
                  std::to_string(c.stages) + " stages and " + std::to_string(c.microbatches) +
                  " microbatches, counted from 0",
              r, at);
        continue;
      }
      uint32_t& place = c.of(a.stage, a.microbatch)[static_cast<size_t>(a.kind)];
      const uint16_t right = c.schedule.rank_of(a.stage, a.microbatch);
      if (right != r) {
        c.add(Kind::misplaced,
              quoted(a) + " is on rank " + std::to_string(r) + ", but stage " +
                  std::to_string(a.stage) +
                  (c.schedule.is_bidirectional() ? " of microbatch " + std::to_string(a.microbatch)
                                                 : std::string()) +
                  " is on rank " + std::to_string(right),
              r, at);
        if (place == kNowhere) place = kElsewhere;
        continue;
      }
      if (place < kElsewhere)
        c.add(Kind::duplicate, quoted(a) + " appears twice on rank " + std::to_string(r), r, at);
      else
        place = at;
    }
  }
}

// One stage and microbatch: which actions are there, and in which order.
void check_one(Checker& c, uint16_t stage, uint32_t microbatch) {
  const auto [f, b, i, w] = c.of(stage, microbatch);
  const size_t rank = c.schedule.rank_of(stage, microbatch);
  const auto named = [&](ActionKind k) { return quoted({k, stage, microbatch}); };
  const std::string forward = named(ActionKind::forward), full = named(ActionKind::backward),
                    input = named(ActionKind::backward_input),
                    weight = named(ActionKind::backward_weight);
  const uint32_t back = b != kNowhere ? b : i;
  if (f == kNowhere) c.add(Kind::missing, forward + " is missing", rank, 0);
  if (b != kNowhere && (i != kNowhere || w != kNowhere)) {
    c.add(Kind::duplicate,
          full + " already contains " + (i != kNowhere ? input : weight) + ", which is there too",
          rank, i != kNowhere ? i : w);
    return;
  }
  if (back == kNowhere && w == kNowhere)
    c.add(Kind::missing, full + " is missing (or " + input + " and " + weight + ")", rank, 0);
  else if (back == kNowhere)
    c.add(Kind::missing, input + " is missing, but " + weight + " is there", rank, w);
  else if (b == kNowhere && w == kNowhere)
    c.add(Kind::missing, weight + " is missing, but " + input + " is there", rank, i);
  if (f < kElsewhere && back < f)
    c.add(Kind::order, (b != kNowhere ? full : input) + " comes before " + forward, rank, back);
  if (i < kElsewhere && w < i) c.add(Kind::order, weight + " comes before " + input, rank, w);
}

bool is_fine(const Positions& p) {
  const auto [f, b, i, w] = p;
  if (f == kNowhere) return false;
  if (b != kNowhere) return i == kNowhere && w == kNowhere && f < b;
  return i != kNowhere && w != kNowhere && f < i && i < w;
}

void check_completeness(Checker& c) {
  for (size_t s = 0; s < c.stages; ++s)
    for (size_t m = 0; m < c.microbatches; ++m) {
      if (is_fine(c.of(s, m))) continue;
      if (c.full()) return;
      check_one(c, static_cast<uint16_t>(s), static_cast<uint32_t>(m));
    }
}

// What an action needs from another stage, if anything.  Needs within a stage are met by the order.
std::optional<Action> needed_by(Checker& c, const Action& a) {
  if (a.kind == ActionKind::backward_weight) return std::nullopt;
  if (a.kind == ActionKind::forward) {
    if (a.stage == 0) return std::nullopt;
    return Action{ActionKind::forward, static_cast<uint16_t>(a.stage - 1), a.microbatch};
  }
  if (a.stage + 1u == c.stages) return std::nullopt;
  Action need{ActionKind::backward, static_cast<uint16_t>(a.stage + 1), a.microbatch};
  if (c.position(need) == kNowhere) need.kind = ActionKind::backward_input;
  return need;
}

// Executes the lists as far as they go.
struct Replay {
  struct Waiting {
    uint32_t rank = 0, position = 0;  // goes on when the other rank is past `position`
  };
  std::vector<uint32_t> next;                 // by rank: first action not executed
  std::vector<std::vector<Waiting>> waiting;  // by the rank that is waited for
};

// Runs `rank` until it must wait; adds the ranks that it lets go on to `ready`.
void advance(Checker& c, Replay& replay, uint32_t rank, std::vector<uint32_t>& ready) {
  const std::vector<Action>& list = c.schedule.ranks[rank];
  uint32_t& next = replay.next[rank];
  for (; next < list.size(); ++next) {
    const std::optional<Action> need = needed_by(c, list[next]);
    if (!need) continue;
    const uint32_t other = c.schedule.rank_of(need->stage, need->microbatch);
    const uint32_t position = c.position(*need);
    if (replay.next[other] > position) continue;
    replay.waiting[other].push_back({rank, position});
    break;
  }
  std::erase_if(replay.waiting[rank], [&](const Replay::Waiting& w) {
    if (next <= w.position) return false;
    ready.push_back(w.rank);
    return true;
  });
}

// The circle that `start` runs into when every stuck rank points at the rank it waits for.
std::vector<uint32_t> circle_from(Checker& c, const Replay& replay, uint32_t start) {
  std::vector<uint32_t> path;
  uint32_t rank = start;
  for (;;) {
    const auto seen = std::find(path.begin(), path.end(), rank);
    if (seen != path.end()) {
      path.erase(path.begin(), seen);
      break;
    }
    path.push_back(rank);
    const std::optional<Action> need = needed_by(c, c.schedule.ranks[rank][replay.next[rank]]);
    STEPCAST_CHECK(need.has_value(), "a stuck rank waits for something");
    rank = c.schedule.rank_of(need->stage, need->microbatch);
  }
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

void report_deadlock(Checker& c, const Replay& replay, uint32_t stuck) {
  const std::vector<uint32_t> circle = circle_from(c, replay, stuck);
  const auto head = [&](uint32_t rank) { return c.schedule.ranks[rank][replay.next[rank]]; };
  ScheduleProblem problem;
  problem.kind = Kind::deadlock;
  problem.message = "the schedule deadlocks";
  problem.rank = static_cast<uint16_t>(circle.front());
  problem.position = replay.next[circle.front()];
  for (const uint32_t rank : circle)
    problem.cycle.push_back(rank_name(c.schedule, rank) + " at " + quoted(head(rank)) +
                            " waits for " + quoted(*needed_by(c, head(rank))));
  // Closes the circle: what the last one waits for stands behind what the first one is stuck at.
  problem.cycle.push_back(quoted(*needed_by(c, head(circle.back()))) + " comes after " +
                          quoted(head(circle.front())) + " on " +
                          rank_name(c.schedule, circle.front()));
  c.problems.push_back(std::move(problem));
}

// REQUIRES: complete and in order.
void check_progress(Checker& c) {
  const size_t ranks = c.schedule.ranks.size();
  Replay replay{std::vector<uint32_t>(ranks, 0), std::vector<std::vector<Replay::Waiting>>(ranks)};
  std::vector<uint32_t> ready;
  for (size_t r = ranks; r-- > 0;) ready.push_back(static_cast<uint32_t>(r));
  while (!ready.empty()) {
    const uint32_t rank = ready.back();
    ready.pop_back();
    advance(c, replay, rank, ready);
  }
  for (size_t r = 0; r < ranks; ++r)
    if (replay.next[r] < c.schedule.ranks[r].size()) {
      report_deadlock(c, replay, static_cast<uint32_t>(r));
      return;
    }
}

}  // namespace

std::vector<ScheduleProblem> check_schedule(const Schedule& schedule, size_t limit) {
  STEPCAST_CHECK(schedule.microbatches >= 1 && !schedule.rank_of_stage.empty(), schedule.name);
  STEPCAST_CHECK(!schedule.is_bidirectional() ||
                     (schedule.reverse_rank_of_stage.size() == schedule.rank_of_stage.size() &&
                      schedule.reversed.size() == static_cast<size_t>(schedule.microbatches)),
                 schedule.name);
  Checker c{
      schedule, limit, schedule.rank_of_stage.size(), static_cast<size_t>(schedule.microbatches),
      {},       {}};
  size_t actions = 0;
  for (const std::vector<Action>& list : schedule.ranks) actions += list.size();
  // A list that lacks nearly everything, so that naming it one by one would take memory without
  // bound.
  if (c.microbatches > (4 * actions + 1'000'000) / c.stages) {
    c.add(Kind::missing,
          std::to_string(c.stages) + " stages and " + std::to_string(c.microbatches) +
              " microbatches need at least two actions each, but there are only " +
              std::to_string(actions) + " actions",
          0, 0);
    return std::move(c.problems);
  }
  Positions nowhere;
  nowhere.fill(kNowhere);
  c.positions.assign(c.stages * c.microbatches, nowhere);
  place_actions(c);
  check_completeness(c);
  if (c.problems.empty()) check_progress(c);
  return std::move(c.problems);
}

}  // namespace stepcast
