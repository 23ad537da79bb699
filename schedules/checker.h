// SPDX-License-Identifier: Apache-2.0
// Inside of check.h; not for others: a schedule with the place of every action, and what was found
// wrong so far.
//
//   check.cc        places: all actions are there, once, on their rank, in order
//   check_waits.cc  what they wait for: deadlocks, and messages that meet in the wrong order
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/plan.h"
#include "schedules/check.h"
#include "schedules/in_order.h"

namespace stepcast {

inline bool is_backward(ActionKind k) {
  return k == ActionKind::backward || k == ActionKind::backward_input;
}

// Full backwards and input gradients exclude each other and are found in the same place.
inline size_t slot_of(ActionKind k) {
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
  // How people call a rank: a stage, if that is the same thing.
  std::string rank_name(size_t rank) const {
    return (schedule.stages_are_ranks() ? "stage " : "rank ") + std::to_string(rank);
  }
  bool full() const { return problems.size() >= limit; }
  void add(ScheduleProblem::Kind kind, std::string message, size_t rank, uint32_t at) {
    if (!full())
      problems.push_back({kind, std::move(message), static_cast<uint16_t>(rank), at, {}});
  }
};

// Enters every action at its place; reports those that are outside the schedule, on the wrong rank
// or there twice, and pairs that are none.
void place_actions(Checker& c);

// Executes the lists in order as far as they go, and reports a circle.  REQUIRES: all actions have
// their place and are in order.
void check_progress(Checker& c);

// An action, the action or pair at a place, in back quotes.
std::string quoted(const Schedule& schedule, const Action& a);
std::string quoted_unit(const Schedule& schedule, const ListPlace& p);

}  // namespace stepcast
