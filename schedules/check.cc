// SPDX-License-Identifier: Apache-2.0
#include "schedules/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "model/plan.h"
#include "schedules/formats/action_text.h"
#include "schedules/in_order.h"
#include "schedules/lower/vocabulary.h"
#include "sim/check.h"

namespace stepcast {
namespace {

using Kind = ScheduleProblem::Kind;
using enum ActionKind;

// An action, and the action or pair at a place, in back quotes.
std::string quoted(const Schedule& schedule, const Action& a) {
  return '`' + to_string(a, schedule.seq_splits) + '`';
}

std::string quoted_unit(const Schedule& schedule, const ListPlace& p) {
  return '`' + unit_text(schedule.ranks[p.list], p.position, schedule.seq_splits) + '`';
}

// Full backwards and input gradients exclude each other and are found in the same place.
size_t slot_of(ActionKind k) {
  return static_cast<size_t>(k == ActionKind::backward_input ? ActionKind::backward : k);
}

struct Checker {
  // Of `all`, which outlives this, with at most `most` problems.  REQUIRES: sizes and placement
  // that go together.
  Checker(const Schedule& all, size_t most);

  const Schedule& schedule;
  const size_t limit;
  size_t stages = 0, pieces = 0;
  VocabularySplit vocabulary = VocabularySplit::none;
  // By stage, then piece: which kinds there are, and their places in the list of the rank.  Most
  // schedules have two of the kinds, so that the places of a kind come with its first action.
  std::vector<uint16_t> there;
  std::array<std::vector<uint32_t>, kActionKinds> places;
  std::vector<ScheduleProblem> problems;

  size_t index(size_t stage, size_t piece) const { return stage * pieces + piece; }
  uint32_t place(ActionKind k, size_t at) const { return places[slot_of(k)][at]; }
  uint16_t rank_of(const Action& a) const { return schedule.rank_of(a.stage, a.microbatch); }
  // What a rank is called: a stage, if that is the same thing.
  std::string rank_name(size_t rank) const {
    return fmt::format("{} {}", schedule.stages_are_ranks() ? "stage" : "rank", rank);
  }
  bool full() const { return problems.size() >= limit; }
  void add(ScheduleProblem::Kind kind, std::string message, size_t rank, uint32_t at) {
    if (!full())
      problems.push_back({kind, std::move(message), static_cast<uint16_t>(rank), at, {}});
  }
};

Checker::Checker(const Schedule& all, size_t most)
    : schedule(all),
      limit(most),
      stages(all.rank_of_stage.size()),
      pieces(static_cast<size_t>(all.pieces())) {
  STEPCAST_CHECK(all.microbatches >= 1 && all.seq_splits >= 1 && !all.rank_of_stage.empty(),
                 all.name);
  STEPCAST_CHECK(
      !all.is_bidirectional() || (all.reverse_rank_of_stage.size() == all.rank_of_stage.size() &&
                                  all.reversed.size() == static_cast<size_t>(all.pieces())),
      all.name);
  vocabulary = vocabulary_split(all);
  const bool one_stage_a_rank = !all.is_bidirectional() && stages == all.ranks.size();
  if (vocabulary != VocabularySplit::none && (!one_stage_a_rank || all.seq_splits > 1)) {
    add(Kind::misplaced,
        "S, T, E and G are of a vocabulary that ranks share which have one stage each and whole "
        "microbatches",
        0, ScheduleProblem::kNoPosition);
    vocabulary = VocabularySplit::none;
  }
}

constexpr uint16_t bit(ActionKind k) {
  return static_cast<uint16_t>(1U << static_cast<unsigned>(k));
}
constexpr uint16_t kMisplaced = 0x8000;  // one of the actions is on a rank where it does not belong
constexpr uint16_t kWholeBackward = bit(forward) | bit(backward);
constexpr uint16_t kSplitBackward = bit(forward) | bit(backward_input) | bit(backward_weight);
constexpr std::array kVocabularyKinds = {embedding_forward, vocabulary_forward, vocabulary_backward,
                                         embedding_backward};
constexpr uint16_t kVocabulary = bit(vocabulary_forward) | bit(vocabulary_backward) |
                                 bit(embedding_forward) | bit(embedding_backward);

void report_outside(Checker& c, const Action& a, size_t rank, uint32_t at) {
  c.add(Kind::misplaced,
        fmt::format("{} on rank {}: the schedule has {} stages and {} microbatches, counted from 0",
                    quoted(c.schedule, a), rank, c.stages, c.schedule.microbatches),
        rank, at);
}

void report_wrong_rank(Checker& c, const Action& a, size_t rank, uint32_t at) {
  c.add(Kind::misplaced,
        fmt::format(
            "{} is on rank {}, but stage {}{} is on rank {}", quoted(c.schedule, a), rank, a.stage,
            c.schedule.is_bidirectional() ? fmt::format(" of microbatch {}", a.microbatch) : "",
            c.rank_of(a)),
        rank, at);
}

// A pair at `at`: a forward and, behind it, a backward.
void check_pair(Checker& c, size_t rank, uint32_t at) {
  const std::vector<Action>& list = c.schedule.ranks[rank];
  const auto microbatch = [&](const Action& a) { return a.microbatch / c.schedule.seq_splits; };
  if (at + 1 < list.size() && list[at].kind == forward && is_backward(list[at + 1].kind) &&
      !list[at + 1].overlaps_next && microbatch(list[at]) != microbatch(list[at + 1]))
    return;
  c.add(Kind::pair,
        quoted_unit(c.schedule, {static_cast<uint32_t>(rank), at}) +
            " is not a forward and a backward of different microbatches, the forward first",
        rank, at);
}

// One stage and piece, looked at closely because something is wrong with it.
struct Suspect {
  Checker& c;
  uint16_t stage = 0;
  uint32_t piece = 0;

  size_t rank() const { return c.schedule.rank_of(stage, piece); }
  size_t index() const { return c.index(stage, piece); }
  bool has(ActionKind k) const { return (c.there[index()] & bit(k)) != 0; }
  std::string named(ActionKind k) const { return quoted(c.schedule, {k, stage, piece}); }
  // Where it stands; kNoPosition if it does not, or not on the right rank.
  uint32_t where(ActionKind k) const {
    const std::vector<Action>& list = c.schedule.ranks[rank()];
    const auto found = std::find_if(list.begin(), list.end(), [&](const Action& a) {
      return a.kind == k && a.stage == stage && a.microbatch == piece;
    });
    return found == list.end() ? ScheduleProblem::kNoPosition
                               : static_cast<uint32_t>(found - list.begin());
  }
  void missing(const std::string& message, ActionKind needed_by) const {
    c.add(Kind::missing, message, rank(), where(needed_by));
  }
  // `later` must stand behind `earlier`, if both are there.
  void in_order(ActionKind earlier, ActionKind later) const {
    if (!has(earlier) || !has(later)) return;
    const uint32_t at = where(later), before = where(earlier);
    if (before != ScheduleProblem::kNoPosition && at < before)
      c.add(Kind::order, named(later) + " comes before " + named(earlier), rank(), at);
  }
};

void report_incomplete(const Suspect& s) {
  const std::string full = s.named(backward), input = s.named(backward_input),
                    weight = s.named(backward_weight);
  const bool f = s.has(forward), b = s.has(backward), i = s.has(backward_input),
             w = s.has(backward_weight);
  if (!f) s.missing(s.named(forward) + " is missing", b ? backward : backward_input);
  if (b && (i || w)) {
    const ActionKind part = i ? backward_input : backward_weight;
    s.c.add(Kind::duplicate, full + " already contains " + s.named(part) + ", which is there too",
            s.rank(), s.where(part));
  } else if (!b && !i && !w) {
    s.missing(full + " is missing (or " + input + " and " + weight + ")", forward);
  } else if (!b && !i) {
    s.missing(input + " is missing, but " + weight + " is there", backward_weight);
  } else if (!b && !w) {
    s.missing(weight + " is missing, but " + input + " is there", backward_input);
  }
  for (const ActionKind k : kVocabularyKinds)
    if (s.c.vocabulary != VocabularySplit::none && !s.has(k))
      s.missing(
          s.named(k) + " is missing, but there are others of a vocabulary that the ranks share",
          forward);
  if (s.has(offload) && !s.has(reload))
    s.missing(s.named(reload) + " is missing, but " + s.named(offload) + " is there", offload);
  if (s.has(reload) && !s.has(offload))
    s.missing(s.named(offload) + " is missing, but " + s.named(reload) + " is there", reload);
}

void report_order(const Suspect& s) {
  const ActionKind back = s.has(backward) ? backward : backward_input;
  s.in_order(forward, back);
  s.in_order(backward_input, backward_weight);
  s.in_order(forward, offload);
  s.in_order(offload, reload);
  s.in_order(forward, recompute);
  s.in_order(reload, recompute);
  s.in_order(reload, back);
  s.in_order(recompute, back);
  s.in_order(vocabulary_forward, vocabulary_backward);
  s.in_order(embedding_forward, embedding_backward);
}

// The split before this one of the same microbatch: F after it, B or I before it.
void report_splits(const Suspect& s) {
  const Suspect before{s.c, s.stage, s.piece - 1};
  const auto back = [](const Suspect& x) { return x.has(backward) ? backward : backward_input; };
  const uint32_t f = s.where(forward), b = before.where(back(before));
  if (f < before.where(forward) && before.where(forward) != ScheduleProblem::kNoPosition)
    s.c.add(Kind::order, s.named(forward) + " comes before " + before.named(forward), s.rank(), f);
  if (b < s.where(back(s)) && s.where(back(s)) != ScheduleProblem::kNoPosition)
    s.c.add(Kind::order,
            before.named(back(before)) + " comes before " + s.named(back(s)) +
                ": backward takes the splits of a microbatch from the last to the first",
            s.rank(), b);
}

bool extras_are_fine(const Checker& c, size_t at, uint16_t there) {
  uint32_t previous = c.place(forward, at);
  if (((there & bit(offload)) == 0) != ((there & bit(reload)) == 0)) return false;
  for (const ActionKind k : {offload, reload, recompute, backward}) {
    if (k != backward && (there & bit(k)) == 0) continue;
    if (c.place(k, at) <= previous) return false;
    previous = c.place(k, at);
  }
  return true;
}

bool vocabulary_is_fine(const Checker& c, size_t at, uint16_t there) {
  if (c.vocabulary == VocabularySplit::none) return true;
  return (there & kVocabulary) == kVocabulary &&
         c.place(vocabulary_forward, at) < c.place(vocabulary_backward, at) &&
         c.place(embedding_forward, at) < c.place(embedding_backward, at);
}

bool is_fine(const Checker& c, size_t at) {
  constexpr uint16_t kExtras = bit(recompute) | bit(offload) | bit(reload);
  const uint16_t there = c.there[at],
                 essential = there & static_cast<uint16_t>(~(kExtras | kVocabulary));
  if (!vocabulary_is_fine(c, at, there)) return false;
  if (essential == kSplitBackward) {
    if (c.place(backward_weight, at) <= c.place(backward, at)) return false;
  } else if (essential != kWholeBackward) {
    return false;
  }
  return (there & kExtras) == 0 ? c.place(forward, at) < c.place(backward, at)
                                : extras_are_fine(c, at, there);
}

// REQUIRES: both splits are fine by themselves.
bool splits_are_fine(const Checker& c, size_t earlier, size_t later) {
  return c.place(forward, earlier) < c.place(forward, later) &&
         c.place(backward, later) < c.place(backward, earlier);
}

// Enters every action at its place; reports those that are outside the schedule, on the wrong rank
// or there twice, and pairs that are none.
void place_actions(Checker& c) {
  c.there.assign(c.stages * c.pieces, 0);
  for (size_t r = 0; r < c.schedule.ranks.size() && !c.full(); ++r) {
    const std::vector<Action>& list = c.schedule.ranks[r];
    for (size_t i = 0; i < list.size(); ++i) {
      const Action& a = list[i];
      const auto at = static_cast<uint32_t>(i);
      if (a.overlaps_next) check_pair(c, r, at);
      if (a.stage >= c.stages || a.microbatch >= c.pieces) {
        report_outside(c, a, r, at);
        continue;
      }
      const size_t index = c.index(a.stage, a.microbatch);
      if (c.rank_of(a) != r) {
        report_wrong_rank(c, a, r, at);
        c.there[index] |= bit(a.kind);
        c.there[index] |= kMisplaced;
        continue;
      }
      std::vector<uint32_t>& places = c.places[slot_of(a.kind)];
      if (places.empty()) places.resize(c.there.size());
      if ((c.there[index] & bit(a.kind)) != 0 && (c.there[index] & kMisplaced) == 0) {
        c.add(Kind::duplicate, fmt::format("{} appears twice on rank {}", quoted(c.schedule, a), r),
              r, at);
        continue;
      }
      places[index] = at;
      c.there[index] |= bit(a.kind);
    }
  }
}

void check_completeness(Checker& c) {
  const auto splits = static_cast<size_t>(c.schedule.seq_splits);
  for (size_t s = 0; s < c.stages; ++s)
    for (size_t p = 0; p < c.pieces; ++p) {
      const size_t at = c.index(s, p);
      const Suspect suspect{c, static_cast<uint16_t>(s), static_cast<uint32_t>(p)};
      if (!is_fine(c, at)) {
        if (c.full()) return;
        report_incomplete(suspect);
        report_order(suspect);
      } else if (p % splits != 0 && is_fine(c, at - 1) && !splits_are_fine(c, at - 1, at)) {
        if (c.full()) return;
        report_splits(suspect);
      }
    }
}

// Where the input that an action needs from another stage is made, if it needs one.  Needs within a
// stage are a matter of the order of the list.
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
  const std::vector<uint32_t> cycle = cycle_from(stuck, next, awaits);
  const auto awaited_text = [&](uint32_t rank) {
    const ListPlace p = *awaited(c, {rank, next[rank]}, next);
    return quoted(c.schedule, c.schedule.ranks[p.list][p.position]);
  };
  const auto head = [&](uint32_t rank) { return quoted_unit(c.schedule, {rank, next[rank]}); };
  ScheduleProblem problem;
  problem.kind = Kind::deadlock;
  problem.message = "the schedule deadlocks";
  problem.rank = static_cast<uint16_t>(cycle.front());
  problem.position = next[cycle.front()];
  for (const uint32_t rank : cycle)
    problem.cycle.push_back(c.rank_name(rank) + " at " + head(rank) + " waits for " +
                            awaited_text(rank));
  // Closes the cycle: what the last one waits for stands behind what the first one is stuck at.
  problem.cycle.push_back(awaited_text(cycle.back()) + " comes after " + head(cycle.front()) +
                          " on " + c.rank_name(cycle.front()));
  c.problems.push_back(std::move(problem));
}

// Executes the lists in order as far as they go, and reports a cycle of waits.  REQUIRES: all
// actions have their place and are in order.
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

std::vector<ScheduleProblem> check_schedule(const Schedule& schedule, size_t limit) {
  Checker c(schedule, std::max<size_t>(limit, 1));
  size_t actions = 0;
  for (const std::vector<Action>& list : schedule.ranks) actions += list.size();
  // A list that lacks nearly everything, so that naming it one by one would take memory without
  // bound.
  if (c.pieces > (4 * actions + 1'000'000) / c.stages) {
    c.add(Kind::missing,
          fmt::format("{} stages and {} microbatches need at least two actions each, but there are "
                      "only {} actions",
                      c.stages, c.schedule.microbatches, actions),
          0, ScheduleProblem::kNoPosition);
    return std::move(c.problems);
  }
  place_actions(c);
  check_completeness(c);
  if (c.problems.empty()) check_progress(c);
  return std::move(c.problems);
}

// REQUIRES: the problems of place_actions and check_completeness are none.
std::vector<ScheduleProblem> check_rendezvous(const Schedule& schedule, size_t limit) {
  Checker c(schedule, limit);
  place_actions(c);
  for (size_t r = 0; r < schedule.ranks.size(); ++r) check_receives(c, static_cast<uint32_t>(r));
  return std::move(c.problems);
}

}  // namespace stepcast
