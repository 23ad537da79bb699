// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/random_lanes.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

namespace stepcast::oracle {
namespace {

template <class T, size_t kSize>
T pick(Draws& draws, const std::array<T, kSize>& values) {
  return values[draws.below(static_cast<uint32_t>(kSize))];
}

std::vector<LaneDigit> random_digits(Draws& draws) {
  std::vector<LaneDigit> digits{{Axis::tp, draws.between(1, 3)},
                                {Axis::cp, draws.between(1, 2)},
                                {Axis::dp, draws.between(1, 3)}};
  for (size_t i = digits.size(); i > 1; --i) {
    std::swap(digits[i - 1], digits[draws.below(static_cast<uint32_t>(i))]);
  }
  if (draws.chance(10)) digits.push_back({Axis::dp, 2});
  if (draws.chance(20)) digits.erase(digits.begin());
  for (LaneDigit& d : digits) {
    d.expert = pick(draws, std::array{Axis::etp, Axis::ep, Axis::edp});
    if (d.axis != Axis::tp) d.sharded = pick(draws, std::array{Axis::shard, Axis::replica});
  }
  return digits;
}

Slowness random_slowness(Draws& draws) {
  return pick(draws, std::array<Slowness, 6>{4096, 4097, 5000, 8192, 3001, 40960});
}

// Each digit decides whether what is drawn depends on it.
std::vector<bool> random_digits_that_matter(const LaneSet& lanes, Draws& draws, uint32_t percent) {
  std::vector<bool> matter;
  for (size_t i = 0; i < lanes.digits.size(); ++i) matter.push_back(draws.chance(percent));
  return matter;
}

// The number of the lane in the digits that matter.
int64_t part_of(const LaneSet& lanes, int64_t lane, const std::vector<bool>& matter) {
  int64_t part = 0;
  for (size_t i = 0; i < lanes.digits.size(); ++i) {
    if (matter[i]) part = part * lanes.digits[i].size + lane % lanes.digits[i].size;
    lane /= lanes.digits[i].size;
  }
  return part;
}

void add_speeds(LaneSet& lanes, size_t roles, Draws& draws) {
  lanes.slowness.resize(roles);
  for (auto& role : lanes.slowness) {
    if (draws.chance(30)) continue;
    const std::vector<bool> matter = random_digits_that_matter(lanes, draws, 60);
    std::vector<Slowness> by_part;
    for (int64_t i = 0; i < lanes.lanes(); ++i) by_part.push_back(random_slowness(draws));
    for (int64_t i = 0; i < lanes.lanes(); ++i) {
      role.push_back(by_part[static_cast<size_t>(part_of(lanes, i, matter))]);
    }
  }
}

// Classes are bad in two respects, either to some degree, and numbered in any order.  Returns how
// many there are besides the sound one.
uint32_t add_joins(LaneSet& lanes, Draws& draws) {
  const uint32_t first = draws.between(1, 3), second = draws.between(0, 2);
  const uint32_t classes = (first + 1) * (second + 1);
  std::vector<uint8_t> number(classes);
  std::iota(number.begin(), number.end(), uint8_t{0});
  for (size_t i = classes - 1; i > 1; --i) {
    std::swap(number[i], number[1 + draws.below(static_cast<uint32_t>(i))]);
  }
  lanes.join.resize(size_t{classes} * classes);
  for (uint32_t a = 0; a < classes; ++a) {
    for (uint32_t b = 0; b < classes; ++b) {
      const uint32_t both = std::max(a / (second + 1), b / (second + 1)) * (second + 1) +
                            std::max(a % (second + 1), b % (second + 1));
      lanes.join[size_t{number[a]} * classes + number[b]] = number[both];
    }
  }
  return classes - 1;
}

void add_classes(LaneSet& lanes, const OpGraph& graph, Draws& draws) {
  const uint32_t classes = add_joins(lanes, draws);
  for (uint32_t c = 0; c < classes; ++c) {
    std::vector<int64_t>& ps = lanes.class_ps.emplace_back();
    for (size_t i = 0; i < graph.works.size(); ++i) {
      ps.push_back(pick(draws, std::array<int64_t, 7>{0, 1, 3, 7, 17, 29, 60}));
    }
  }
  for (size_t a = 0; a < lanes.group_class.size(); ++a) {
    if (draws.chance(40)) continue;
    std::vector<bool> matter = random_digits_that_matter(lanes, draws, 50);
    for (size_t i = 0; i < lanes.digits.size(); ++i) {
      if (covers(static_cast<Axis>(a), lanes.digits[i])) matter[i] = false;
    }
    lanes.group_class[a].resize(graph.roles.size());
    for (auto& role : lanes.group_class[a]) {
      std::vector<uint8_t> by_part;
      for (int64_t i = 0; i < lanes.lanes(); ++i) {
        by_part.push_back(static_cast<uint8_t>(draws.between(0, classes)));
      }
      for (int64_t i = 0; i < lanes.lanes(); ++i) {
        role.push_back(by_part[static_cast<size_t>(part_of(lanes, i, matter))]);
      }
    }
  }
}

void add_windows(LaneSet& lanes, size_t roles, Draws& draws) {
  lanes.window_lists.emplace_back();
  lanes.windows.assign(roles, std::vector<uint32_t>(static_cast<size_t>(lanes.lanes())));
  for (uint32_t n = draws.between(1, 4); n > 0; --n) {
    LaneWindow w;
    const uint32_t role = draws.below(static_cast<uint32_t>(roles));
    const uint32_t lane = draws.below(static_cast<uint32_t>(lanes.lanes()));
    w.from = Time{draws.below(120)};
    w.until = w.from + Time{draws.between(1, 150)};
    if (draws.chance(70)) w.slowness = random_slowness(draws);
    const auto classes = static_cast<uint32_t>(lanes.class_ps.size());
    for (uint8_t& of_axis : w.link_class)
      if (classes > 0 && draws.chance(50))
        of_axis = static_cast<uint8_t>(draws.between(0, classes));
    uint32_t& list = lanes.windows[role][lane];
    if (list == 0) {
      list = static_cast<uint32_t>(lanes.window_lists.size());
      lanes.window_lists.emplace_back();
    }
    lanes.window_lists[list].push_back(w);
    if (draws.chance(30)) lanes.windows[role][0] = list;  // some lanes share one
  }
}

}  // namespace

LaneSet random_lanes(const OpGraph& graph, Draws& draws, const LaneVariety& variety) {
  LaneSet lanes;
  lanes.digits = random_digits(draws);
  if (variety.speeds && draws.chance(80)) add_speeds(lanes, graph.roles.size(), draws);
  if (variety.classes && draws.chance(60)) add_classes(lanes, graph, draws);
  if (variety.windows && draws.chance(40)) add_windows(lanes, graph.roles.size(), draws);
  return lanes;
}

void use_other_groups(OpGraph& graph, Draws& draws) {
  for (Work& work : graph.works) {
    const bool in_passes = work.axis == Axis::tp || work.axis == Axis::cp ||
                           work.axis == Axis::ep || work.axis == Axis::dp;
    if (!is_communication(work.kind) || !in_passes || !draws.chance(40)) continue;
    work.axis = pick(
        draws, std::array{Axis::etp, Axis::ep, Axis::edp, Axis::data, Axis::shard, Axis::replica});
  }
}

}  // namespace stepcast::oracle
