// SPDX-License-Identifier: Apache-2.0
// The rank grid: how global ranks map to coordinates along the parallel axes, and the groups that
// follow.
//
// A rank is the mixed-radix number of its coordinates in the given order, innermost axis first;
// Megatron's default order is tp-cp-ep-dp-pp.  dp counts the ranks that ep uses, so ep has no
// coordinate of its own: the ranks of a pipeline stage are numbered along tp, cp, dp in that order,
// and experts are spread over the same numbers along etp, ep, edp (Megatron-LM's parallel folding:
// Liu et al. 2025, arXiv 2504.14960, section 3.2).  ZeRO's shards lie along cp and dp, `replicas`
// of them outermost.
//
// All of this is one list of digits, each of which belongs to an axis of every view; a group holds
// the ranks that differ only in the digits that its axis covers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/work.h"

namespace stepcast {

struct Coordinates {
  int64_t tp = 0, cp = 0, dp = 0, pp = 0;
};

struct GridDigit {
  Axis axis = Axis::dp;  // tp, cp, dp or pp
  int64_t size = 1;
  Axis expert = Axis::none;   // etp, ep or edp; none: pp
  Axis sharded = Axis::none;  // shard or replica; none: tp, pp
  Axis context = Axis::none;  // cp_inner or cp_outer; none: not cp
};

// The groups of `group` hold ranks that differ in this digit.  `embedding` covers none: it is the
// two ends of pp.
bool covers(Axis group, const GridDigit& digit);

struct RankGrid {
  int64_t tp = 1, cp = 1, dp = 1, pp = 1;
  std::array<Axis, 4> order{Axis::tp, Axis::cp, Axis::dp, Axis::pp};  // innermost first
  int64_t ep = 1, etp = 1;
  int64_t replicas = 1;  // of what ZeRO shards
  int64_t cp_inner = 1;  // neighbours along cp that exchange heads

  int64_t world() const { return tp * cp * dp * pp; }
  // Ranks of a group; embedding 2 (1 if pp = 1).
  int64_t size(Axis axis) const;
  int64_t rank(const Coordinates& c) const;
  Coordinates coordinates(int64_t rank) const;
  // Innermost first, none of size 1.  Throws InputError if the views do not fit together: the
  // boundaries tp, tp*cp, ..., and etp, etp*ep, ... must divide one another, and cp_inner cp.
  std::vector<GridDigit> digits() const;
  // Global ranks of the group along `axis` that contains `rank`, ascending.
  std::vector<int64_t> group(Axis axis, int64_t rank) const;
  bool operator==(const RankGrid&) const = default;
};

// "tp-cp-ep-dp-pp" (case-insensitive; every axis of tp, cp, dp, pp exactly once, ep may be named
// and is ignored).  Throws InputError.
std::array<Axis, 4> parse_order(std::string_view text);

}  // namespace stepcast
