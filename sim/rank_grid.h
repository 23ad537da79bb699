// SPDX-License-Identifier: Apache-2.0
// The rank grid: how global ranks map to coordinates along the parallel axes, and the groups that
// follow.
//
// A rank is the mixed-radix number of its coordinates in the given order, innermost axis first;
// Megatron's default order is tp-cp-ep-dp-pp.  ep is inside dp (DESIGN: dp counts the ranks that ep
// uses), so it has no digit of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/work.h"

namespace stepcast {

struct Coordinates {
  int64_t tp = 0, cp = 0, dp = 0, pp = 0;
};

struct RankGrid {
  int64_t tp = 1, cp = 1, dp = 1, pp = 1;
  std::array<Axis, 4> order{Axis::tp, Axis::cp, Axis::dp, Axis::pp};  // innermost first

  int64_t world() const { return tp * cp * dp * pp; }
  int64_t size(Axis axis) const;  // tp, cp, dp, pp; embedding 2 (1 if pp = 1); model tp * pp
  int64_t rank(const Coordinates& c) const;
  Coordinates coordinates(int64_t rank) const;
  // Global ranks of the group along `axis` that contains `rank`, ascending.
  std::vector<int64_t> group(Axis axis, int64_t rank) const;
};

// "tp-cp-ep-dp-pp" (case-insensitive; every axis of tp, cp, dp, pp exactly once, ep may be named
// and is ignored). Throws std::invalid_argument with a sentence for the user.
std::array<Axis, 4> parse_order(std::string_view text);

}  // namespace stepcast
