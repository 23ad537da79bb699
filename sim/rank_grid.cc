// SPDX-License-Identifier: Apache-2.0
#include "sim/rank_grid.h"

#include <algorithm>
#include <stdexcept>

#include "sim/check.h"

namespace stepcast {
namespace {

// The coordinate of `c` along one of the four axes of the grid.
template <class C>
auto& along(C& c, Axis axis) {
  switch (axis) {
    case Axis::tp: return c.tp;
    case Axis::cp: return c.cp;
    case Axis::dp: return c.dp;
    default:
      STEPCAST_CHECK(axis == Axis::pp, "the grid has the axes tp, cp, dp and pp");
      return c.pp;
  }
}

std::string lower_case(std::string_view text) {
  std::string s(text);
  for (char& ch : s) {
    if (ch >= 'A' && ch <= 'Z') ch = static_cast<char>(ch - 'A' + 'a');
  }
  return s;
}

[[noreturn]] void fail_order(std::string_view text, const std::string& why) {
  throw std::invalid_argument("rank order '" + std::string(text) + "': " + why +
                              "; write each of tp, cp, dp, pp once, innermost first, as in "
                              "'tp-cp-ep-dp-pp'");
}

}  // namespace

int64_t RankGrid::size(Axis axis) const {
  switch (axis) {
    case Axis::none: return 1;
    case Axis::embedding: return pp > 1 ? 2 : 1;
    case Axis::model: return tp * pp;
    case Axis::ep: STEPCAST_CHECK(false, "ep has no digit of its own in the rank grid"); return 1;
    default: return along(*this, axis);
  }
}

int64_t RankGrid::rank(const Coordinates& c) const {
  int64_t result = 0;
  for (size_t i = order.size(); i-- > 0;) result = result * size(order[i]) + along(c, order[i]);
  return result;
}

Coordinates RankGrid::coordinates(int64_t rank) const {
  STEPCAST_CHECK(rank >= 0 && rank < world(), "a rank lies within the grid");
  Coordinates c;
  for (Axis axis : order) {
    along(c, axis) = rank % size(axis);
    rank /= size(axis);
  }
  return c;
}

std::vector<int64_t> RankGrid::group(Axis axis, int64_t member) const {
  Coordinates c = coordinates(member);
  std::vector<int64_t> ranks;
  ranks.reserve(static_cast<size_t>(size(axis)));
  if (axis == Axis::none) {
    ranks.push_back(member);
  } else if (axis == Axis::embedding) {
    for (int64_t i = 0; i < size(axis); ++i) {
      c.pp = i == 0 ? 0 : pp - 1;
      ranks.push_back(rank(c));
    }
  } else if (axis == Axis::model) {
    for (c.pp = 0; c.pp < pp; ++c.pp) {
      for (c.tp = 0; c.tp < tp; ++c.tp) ranks.push_back(rank(c));
    }
    std::sort(ranks.begin(), ranks.end());  // tp need not be inside pp
  } else {
    for (int64_t i = 0; i < size(axis); ++i) {
      along(c, axis) = i;
      ranks.push_back(rank(c));
    }
  }
  return ranks;
}

std::array<Axis, 4> parse_order(std::string_view text) {
  std::array<Axis, 4> order{};
  size_t found = 0;
  bool has_ep = false;
  const std::string lower = lower_case(text);
  for (size_t begin = 0; begin <= lower.size();) {
    const size_t end = std::min(lower.find('-', begin), lower.size());
    const std::string name = lower.substr(begin, end - begin);
    begin = end + 1;
    Axis axis = Axis::none;
    if (name == "ep") {
      if (has_ep) fail_order(text, "ep appears twice");
      has_ep = true;
      continue;
    }
    for (Axis a : {Axis::tp, Axis::cp, Axis::dp, Axis::pp}) {
      if (name == name_of(a)) axis = a;
    }
    if (axis == Axis::none) fail_order(text, "'" + name + "' is no axis");
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(found);
    if (std::find(order.begin(), last, axis) != last) fail_order(text, name + " appears twice");
    order[found++] = axis;
  }
  for (Axis a : {Axis::tp, Axis::cp, Axis::dp, Axis::pp}) {
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(found);
    if (std::find(order.begin(), last, a) == last) {
      fail_order(text, std::string(name_of(a)) + " is missing");
    }
  }
  return order;
}

}  // namespace stepcast
