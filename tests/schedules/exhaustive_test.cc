// SPDX-License-Identifier: Apache-2.0
// Every registered family with every small size: what it generates is complete and free of
// deadlock, and what it refuses it refuses with a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedules/check.h"
#include "schedules/schedule.h"
#include "sim/memory/memory.h"
#include "tests/schedules/vectors.h"

namespace stepcast::exhaustive_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kMostRanks = 4, kMostMicrobatches = 6, kMostChunks = 3;

void expect_sentence(const std::string& why) {
  EXPECT_GT(std::count(why.begin(), why.end(), ' '), 4) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  EXPECT_THAT(why, AnyOf(HasSubstr("must be"), HasSubstr("needs"), HasSubstr("would"),
                         HasSubstr("legal"), HasSubstr("must divide")));
}

// Sizes, and a time and memory that no order can go below or above.
void expect_plausible(const Schedule& s, const ScheduleParams& params) {
  EXPECT_EQ(s.pp, params.pp);
  EXPECT_EQ(s.vpp, params.vpp);
  EXPECT_EQ(s.microbatches, params.microbatches);
  ASSERT_EQ(s.ranks.size(), static_cast<size_t>(params.pp));
  const UnitCosts costs = testing::costs_named("unit", s.pp);
  std::vector<Time> durations;
  int64_t work = 0;  // of the busiest rank
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    int64_t of_rank = 0;
    for (const Action& a : s.ranks[r]) {
      if (a.kind >= ActionKind::vocabulary_forward) continue;  // take no time among these costs
      of_rank += a.kind == ActionKind::backward ? 2 : 1;
    }
    work = std::max(work, of_rank);
  }
  EXPECT_GE(testing::evaluate(s, costs).makespan, static_cast<double>(work));
  for (const RoleMemory& memory : trace_memory(lower_unit(s, costs, durations))) {
    EXPECT_EQ(memory.end.value, 0);
    EXPECT_LE(memory.peak_in_flight, s.vpp * s.pieces());
  }
}

TEST(EveryFamily, IsCompleteAndFreeOfDeadlockOrRefusesWithASentence) {
  for (const ScheduleFamily& family : schedule_families()) {
    int legal = 0;
    for (int64_t p = 1; p <= kMostRanks; ++p)
      for (int64_t v = 1; v <= kMostChunks; ++v)
        for (int64_t m = 1; m <= kMostMicrobatches; ++m) {
          const ScheduleParams params{p, v, m, 0};
          SCOPED_TRACE(std::string(family.name) + " p=" + std::to_string(p) +
                       " v=" + std::to_string(v) + " m=" + std::to_string(m));
          if (const auto wrong = check_params(family, params)) {
            expect_sentence(wrong->message);
            continue;
          }
          const Schedule s = generate_schedule(family, params);
          ++legal;
          const std::vector<ScheduleProblem> problems = check_schedule(s);
          ASSERT_TRUE(problems.empty()) << problems.front().message;
          expect_plausible(s, params);
        }
    EXPECT_GE(legal, 2) << family.name;  // dualpipe: p = 2, m = 4 and 6
  }
}

}  // namespace
}  // namespace stepcast::exhaustive_test
