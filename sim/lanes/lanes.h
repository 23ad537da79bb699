// SPDX-License-Identifier: Apache-2.0
// All ranks of a job one by one, each with its own speed: the lanes engine.
//
// All ranks of a role run the same program; a rank is a lane.  The lanes of a role advance
// together: its items are walked once, and every instruction acts on a vector of times.  Semantics
// are those of op_graph.h, with what a single lane a role leaves out:
//
//   * an op of compute (whose work is no communication) takes `slowness` times its price on its
//     lane;
//   * a collective of a pass (Work::axis) starts on all lanes of its group when the last of them is
//     ready, and ends on all of them together; groups are the lanes that differ only in the digits
//     that the axis covers;
//   * a rendezvous of axis pp or embedding joins equal lanes of different roles, one of axis model
//     all tp lanes of each.
//
// Times are exact: a lane counts in 1/4096 ps and slowness is a whole number of 1/4096, so a chain
// of ops may be merged to one instruction, and equal lanes to one lane, without changing a digit.
// With all lanes equal the times are those of `run`.  docs/engine.md has the theory.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "sim/diagnostic.h"
#include "sim/engine/run.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/rank_grid.h"

namespace stepcast {

constexpr int kLaneFractionBits = 12;
using Slowness = int32_t;  // in 1/4096: 4096 = as priced, 8192 = half the speed
constexpr Slowness kNominal = 1 << kLaneFractionBits;

// Lane indices are mixed-radix numbers, innermost digit first; no digit is of pp.  All roles have
// the same digits.
using LaneDigit = GridDigit;

// For a while, [from, until), a lane computes slower, or the groups it is in communicate as in
// another class.  A lane's slowness is its own times the largest of its windows (in 1/4096, rounded
// half up); the class of a group is the join (LaneSet::joined) of its own and those of the windows
// of all its lanes.  What is left of an op at a moment when that changes takes new / old times as
// long, rounded down to 1/4096 ps (slowness by slowness; price in one class by price in the other).
struct LaneWindow {
  Time from{}, until{};
  Slowness slowness = kNominal;             // of compute; nominal: no change
  std::array<uint8_t, kAxes> link_class{};  // of communication, by axis of the group; 0: no change
  auto operator<=>(const LaneWindow&) const = default;
};

// Every op of compute on every lane takes a factor of its own, log-normal with median 1, drawn from
// a hash of (seed, rank, op instance): lane_speeds.h.  Its slowness is then the product, in 1/4096.
struct Jitter {
  double sigma = 0;  // of the logarithm; 0..1
  uint64_t seed = 0;
};

// How the lanes of a program differ.
struct LaneSet {
  std::vector<LaneDigit> digits;
  std::vector<std::vector<Slowness>> slowness;  // [role][lane]; empty: all nominal
  // Prices of groups and pairs that lie on other links than most: class c has class_ps[c-1][work].
  std::vector<std::vector<int64_t>> class_ps;
  // [axis][role][lane]: class of the group of that axis that the lane is in; of several roles, the
  // join of theirs.  Empty: class 0.  Lanes of one role and group have one class.
  std::array<std::vector<std::vector<uint8_t>>, kAxes> group_class;
  // [a * (class_ps.size() + 1) + b]: the class that is as bad as both in every respect.
  // Commutative, associative, idempotent, and 0 changes nothing.  Empty: the higher of the two.
  std::vector<uint8_t> join;
  std::vector<std::vector<LaneWindow>> window_lists;
  std::vector<std::vector<uint32_t>> windows;  // [role][lane]: its list; empty: no windows
  std::optional<Jitter> jitter;

  uint8_t joined(uint8_t a, uint8_t b) const {
    return join.empty() ? std::max(a, b) : join[a * (class_ps.size() + 1) + b];
  }
  std::span<const LaneWindow> windows_of(uint32_t role, int64_t lane) const {
    if (role >= windows.size() || windows[role].empty()) return {};
    return window_lists[windows[role][static_cast<size_t>(lane)]];
  }

  int64_t lanes() const {
    int64_t n = 1;
    for (const LaneDigit& d : digits) n *= d.size;
    return n;
  }
};

struct LaneOptions {
  bool fold = true;     // merge equal lanes beforehand; exact
  bool merge = true;    // merge chains of ops; exact
  bool record = false;  // account and critical path of one lane ...
  int64_t lane = -1;    // ... this one; -1: the one that ends last
  bool ops = false;     // with `record`: also start and end of every op of it
  // The contention engine throws TooManyTurns rather than take more: about 20 million a second, and
  // some million where thousands of lanes differ.
  int64_t most_turns = INT64_MAX;
};

// The step is longer than lanes can count: 2^50 ps, 19 minutes.
struct TooLongForLanes : InputError {
  using InputError::InputError;
};

struct TooManyTurns : std::exception {
  Time reached;  // of the step, with those that were allowed
  explicit TooManyTurns(Time until) : reached(until) {}
  const char* what() const noexcept override { return "more turns than were allowed"; }
};

// Times are rounded half up to picoseconds.
struct LaneResult {
  Time makespan{}, span{};             // as of Timeline, over all lanes
  std::vector<std::vector<Time>> end;  // [role][lane], all lanes also if folded
  int64_t rank_ops = 0;                // device ops of all lanes, folded or not
  int64_t lanes_run = 0;               // of one role, after folding
  uint32_t last_role = 0;              // of the rank that ends last (ties: lowest role, then lane)
  int64_t last_lane = 0;
  // LaneOptions::record: what `run` records, of one lane in every role.  Time that a lane waits in
  // a collective for slower lanes of its group is booked as Spend::straggler.
  Timeline timeline;
};

// REQUIRES: what check_graph(graph) checks; prices.by_work.size() == graph.works.size(); every role
// has lanes.lanes() ranks; lanes.slowness positive.  Throws Deadlock as `run` does, and InputError
// if the step is longer than 2^50 ps (19 minutes).
// Memory: a few vectors of one entry a lane for each role and live event, whatever the ops.
LaneResult run_lanes(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                     const LaneOptions& options = {});

}  // namespace stepcast
