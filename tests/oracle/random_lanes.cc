// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/random_lanes.h"

#include <algorithm>
#include <array>
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

void add_classes(LaneSet& lanes, const OpGraph& graph, Draws& draws) {
  const uint32_t classes = draws.between(1, 3);
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
  for (uint32_t n = draws.between(1, 4); n > 0; --n) {
    LaneWindow w;
    w.role = draws.below(static_cast<uint32_t>(roles));
    w.lane = draws.below(static_cast<uint32_t>(lanes.lanes()));
    w.from = Time{draws.below(120)};
    w.until = w.from + Time{draws.between(1, 150)};
    if (draws.chance(70)) w.slowness = random_slowness(draws);
    if (!lanes.class_ps.empty() && draws.chance(70)) {
      w.link_class =
          static_cast<uint8_t>(draws.between(0, static_cast<uint32_t>(lanes.class_ps.size())));
    }
    lanes.windows.push_back(w);
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

}  // namespace stepcast::oracle
