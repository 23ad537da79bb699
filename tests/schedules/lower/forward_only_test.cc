// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stepcast::forward_only_test {
namespace {

Schedule of_family(const char* name, int64_t vpp) {
  return find_schedule_family(name)->generate({2, vpp, 4, 0, {}});
}

bool overlaps(const Schedule& s) {
  return std::any_of(s.ranks.begin(), s.ranks.end(), [](const std::vector<Action>& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& a) { return a.overlaps_next; });
  });
}

TEST(ForwardOnly, PairsLoseTheirBackward) {
  for (const char* name : {"dualpipev", "interleaved-1f1b-ep-overlap"}) {
    const Schedule pairs = of_family(name, 2);
    EXPECT_TRUE(overlaps(pairs)) << name;
    const Schedule forwards = forwards_of(pairs);
    EXPECT_FALSE(overlaps(forwards)) << name;
    for (const std::vector<Action>& list : forwards.ranks) EXPECT_EQ(list.size(), 8u) << name;
  }
  Schedule led_by_backward = of_family("1f1b", 1);
  led_by_backward.ranks[1] = {{ActionKind::forward, 1, 0},
                              {ActionKind::backward, 1, 0, true},
                              {ActionKind::forward, 1, 1},
                              {ActionKind::backward, 1, 1}};
  const Schedule forwards = forwards_of(led_by_backward);
  EXPECT_EQ(forwards.ranks[1].size(), 2u);
  EXPECT_FALSE(overlaps(forwards));
}

TEST(ForwardOnly, RunsWholeMicrobatchesInOneDirection) {
  EXPECT_EQ(forwards_of(of_family("zb-h1", 1)).ranks, forwards_of(of_family("1f1b", 1)).ranks);
  EXPECT_THROW(forwards_of(find_schedule_family("seq1f1b")->generate({2, 1, 4, 0, {}})),
               InputError);
}

}  // namespace
}  // namespace stepcast::forward_only_test
