// SPDX-License-Identifier: Apache-2.0
// The allocator's trace is cut short where it repeats itself: the figures are those of the whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "scenarios/forecast/step.h"
#include "sim/memory/memory.h"
#include "tests/random_cases.h"
#include "tests/scenarios/forecast/random_layouts.h"

namespace stepcast::reserved_test {
namespace {

// Room from less than is needed, where segments are given back again and again, to plenty.
TEST(Reserved, OfAShortenedTraceIsThatOfTheWhole) {
  stepcast::testing::RandomLayouts random(20231123);
  const uint64_t layouts = stepcast::testing::random_cases(200);
  uint64_t repeat = 0;
  for (uint64_t i = 0; i < layouts; ++i) {
    const Scenario s = random.next();
    const LoweredStep step = lower_step(s, s.schedule);
    const std::vector<RoleMemory> memory = trace_memory(step.graph);
    const auto role = static_cast<uint32_t>(random.below(memory.size()));
    const auto percent = static_cast<int64_t>(90 + random.below(40));
    const Bytes room{memory[role].peak.value / 100 * percent};
    const Segments segments = random.below(2) == 0 ? Segments::fixed : Segments::expandable;
    const Bytes whole = trace_reserved_in_full(step.graph, role, room, segments);
    ASSERT_EQ(trace_reserved(step.graph, role, room, segments), whole)
        << "layout " << i << ": " << s.schedule.name << ", role " << role << ", " << percent;
    repeat += s.plan.microbatches() >= 4 * s.plan.pp ? 1 : 0;
  }
  EXPECT_GT(repeat, layouts / 4);  // long enough for states to come again
}

}  // namespace
}  // namespace stepcast::reserved_test
