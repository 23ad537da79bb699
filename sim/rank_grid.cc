// SPDX-License-Identifier: Apache-2.0
#include "sim/rank_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

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

[[noreturn]] void fail_order(std::string_view text, const std::string& why) {
  refuse("rank order '" + std::string(text) + "': " + why +
         "; write each of tp, cp, dp, pp once, innermost first, as in "
         "'tp-cp-dp-pp'; ep may stand among them");
}

}  // namespace

bool covers(Axis group, const GridDigit& digit) {
  switch (group) {
    case Axis::model: return digit.axis == Axis::tp || digit.axis == Axis::pp;
    case Axis::etp:
    case Axis::ep:
    case Axis::edp: return digit.expert == group;
    case Axis::data: return digit.axis == Axis::cp || digit.axis == Axis::dp;
    case Axis::shard:
    case Axis::replica: return digit.sharded == group;
    case Axis::cp_inner:
    case Axis::cp_outer: return digit.context == group;
    default: return digit.axis == group;
  }
}

int64_t RankGrid::size(Axis axis) const {
  switch (axis) {
    case Axis::none: return 1;
    case Axis::embedding: return pp > 1 ? 2 : 1;
    case Axis::model: return tp * pp;
    case Axis::ep: return ep;
    case Axis::etp: return etp;
    case Axis::edp: return tp * cp * dp / (ep * etp);
    case Axis::data: return cp * dp;
    case Axis::shard: return cp * dp / replicas;
    case Axis::replica: return replicas;
    case Axis::cp_inner: return cp_inner;
    case Axis::cp_outer: return cp / cp_inner;
    default: return along(*this, axis);
  }
}

namespace {

// One of the views of the same numbers: axes of these sizes, innermost first.
class View {
 public:
  View(std::vector<std::pair<Axis, int64_t>> axes) : axes_(std::move(axes)) { skip(); }
  Axis axis() const { return at_ < axes_.size() ? axes_[at_].first : Axis::none; }
  int64_t left() const { return at_ < axes_.size() ? axes_[at_].second : 1; }
  void take(int64_t size) {
    axes_[at_].second /= size;
    skip();
  }

 private:
  void skip() {
    while (at_ < axes_.size() && axes_[at_].second == 1) ++at_;
  }

  std::vector<std::pair<Axis, int64_t>> axes_;
  size_t at_ = 0;
};

int64_t common_part(int64_t a, int64_t b) {
  const int64_t part = std::min(a, b);
  if (std::max(a, b) % part == 0) return part;
  refuse(fmt::format(
      "ep * etp, cp_inner, and the ranks that ZeRO shards over, must each be a multiple or a "
      "divisor of tp, of tp * cp and so on: {} and {} do not divide one another",
      a, b));
}

}  // namespace

std::vector<GridDigit> RankGrid::digits() const {
  View experts({{Axis::etp, etp}, {Axis::ep, ep}, {Axis::edp, size(Axis::edp)}});
  View shards({{Axis::shard, size(Axis::shard)}, {Axis::replica, replicas}});
  View contexts({{Axis::cp_inner, cp_inner}, {Axis::cp_outer, size(Axis::cp_outer)}});
  std::vector<GridDigit> digits;
  for (const Axis axis : order) {
    int64_t left = size(axis);
    if (axis == Axis::pp) {
      if (left > 1) digits.push_back({axis, left});
      continue;
    }
    const bool data = axis == Axis::cp || axis == Axis::dp;
    const bool context = axis == Axis::cp;
    while (left > 1) {
      int64_t part = common_part(left, experts.left());
      if (data) part = common_part(part, shards.left());
      if (context) part = common_part(part, contexts.left());
      STEPCAST_CHECK(part > 1, "etp * ep divides tp * cp * dp, and the replicas cp * dp");
      digits.push_back({axis, part, experts.axis(), data ? shards.axis() : Axis::none,
                        context ? contexts.axis() : Axis::none});
      experts.take(part);
      if (data) shards.take(part);
      if (context) contexts.take(part);
      left /= part;
    }
  }
  return digits;
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
  if (axis == Axis::embedding) {
    Coordinates c = coordinates(member);
    std::vector<int64_t> ends;
    for (int64_t i = 0; i < size(axis); ++i) {
      c.pp = i == 0 ? 0 : pp - 1;
      ends.push_back(rank(c));
    }
    return ends;
  }
  STEPCAST_CHECK(member >= 0 && member < world(), "a rank lies within the grid");
  // Outer digits are added later, so the ranks stay ascending.
  std::vector<int64_t> ranks{member};
  int64_t stride = 1;
  for (const GridDigit& d : digits()) {
    if (covers(axis, d)) {
      const int64_t first = ranks.front() / stride % d.size * stride;
      const size_t inner = ranks.size();
      for (size_t i = 0; i < inner; ++i) ranks[i] -= first;
      for (int64_t n = 1; n < d.size; ++n)
        for (size_t i = 0; i < inner; ++i) ranks.push_back(ranks[i] + n * stride);
    }
    stride *= d.size;
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
