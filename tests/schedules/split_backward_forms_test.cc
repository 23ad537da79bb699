// SPDX-License-Identifier: Apache-2.0
// Closed forms of the families whose backward is split, and of those that trade memory for latency.
#include <gtest/gtest.h>

#include <algorithm>

#include "schedules/schedule.h"
#include "sim/memory/memory.h"
#include "tests/schedules/vectors.h"

namespace stepcast::split_backward_forms_test {
namespace {

using testing::evaluate;
using testing::Makespan;

struct Costs {
  int64_t f, i, w;  // ns
};

// Every order of forward, input and weight gradient, and equal times.
constexpr Costs kCosts[] = {{1, 1, 1},   {10, 12, 7}, {10, 7, 12}, {7, 10, 12},
                            {7, 12, 10}, {12, 7, 10}, {12, 10, 7}, {5, 5, 30}};

Schedule generate(std::string_view name, const ScheduleParams& params) {
  return generate_schedule(*find_schedule_family(name), params);
}

// Makespan and span beyond the work of a rank.
Makespan excess(const Schedule& s, const Costs& c) {
  UnitCosts costs;
  costs.times.forward = Time{c.f * 1000};
  costs.times.backward_input = Time{c.i * 1000};
  costs.times.backward_weight = Time{c.w * 1000};
  const Makespan m = evaluate(s, costs);
  const auto work = static_cast<double>(s.vpp * s.microbatches * (c.f + c.i + c.w));
  return {m.makespan - work, m.span - work};
}

int peak(const Schedule& s) {
  std::vector<Time> durations;
  int most = 0;
  for (const RoleMemory& m : trace_memory(lower_unit(s, {}, durations)))
    most = std::max(most, m.peak_in_flight);
  return most;
}

std::string trace(std::string_view name, int64_t p, int64_t v, int64_t m) {
  return std::string(name) + " p=" + std::to_string(p) + " v=" + std::to_string(v) +
         " m=" + std::to_string(m);
}

TEST(ClosedForm, ZeroBubbleH1SavesTheWeightGradientAtTheMemoryOf1F1B) {
  for (int64_t p = 1; p <= 5; ++p)
    for (int64_t m = 2 * p; m <= 2 * p + 4; ++m) {
      SCOPED_TRACE(trace("zb-h1", p, 1, m));
      const Schedule s = generate("zb-h1", {p, 1, m, 0});
      EXPECT_EQ(testing::faults_of(s), "");
      EXPECT_EQ(peak(s), p);
      for (const Costs& c : kCosts)
        EXPECT_EQ(excess(s, c).makespan,
                  static_cast<double>((p - 1) * std::max({c.f + c.i - c.w, c.f, c.i})));
    }
}

TEST(ClosedForm, ZeroBubbleH1QuickstartTakesTheTimeOfH1) {
  for (int64_t p = 1; p <= 5; ++p)
    for (int64_t m = 1; m <= 2 * p + 3; ++m) {
      SCOPED_TRACE(trace("zb-h1-quickstart", p, 1, m));
      const Schedule s = generate("zb-h1-quickstart", {p, 1, m, 0});
      EXPECT_EQ(testing::faults_of(s), "");
      if (m >= 2 * p) {
        const Schedule h1 = generate("zb-h1", {p, 1, m, 0});
        EXPECT_EQ(excess(s, {1, 1, 1}).makespan, excess(h1, {1, 1, 1}).makespan);
        EXPECT_EQ(excess(s, {10, 12, 7}).makespan, excess(h1, {10, 12, 7}).makespan);
      }
      for (const Action& a : s.ranks[0]) EXPECT_LE(a.kind, ActionKind::backward) << to_string(a);
    }
}

TEST(ClosedForm, ZeroBubbleH2HasNoBubbleWithinTheSpanForEqualTimes) {
  for (int64_t p = 1; p <= 5; ++p)
    for (int64_t m = 2 * p; m <= 2 * p + 4; ++m) {
      SCOPED_TRACE(trace("zb-h2", p, 1, m));
      const Schedule s = generate("zb-h2", {p, 1, m, 0});
      EXPECT_EQ(testing::faults_of(s), "");
      EXPECT_EQ(peak(s), 2 * p - 1);
      EXPECT_EQ(excess(s, {1, 1, 1}).span, 0);
      EXPECT_EQ(excess(s, {1, 1, 1}).makespan, static_cast<double>(p - 1));
      const Costs c{10, 12, 7};
      EXPECT_EQ(
          excess(s, c).span,
          static_cast<double>((p - 1) * std::max({int64_t{0}, c.f + c.i - 2 * c.w, c.i - c.f})));
    }
}

TEST(ClosedForm, InterleavedZeroBubbleDividesTheBubbleOfH1) {
  for (int64_t p = 1; p <= 4; ++p)
    for (int64_t v = 1; v <= 3; ++v)
      for (int64_t m = p; m <= 3 * p; m += p) {
        SCOPED_TRACE(trace("interleaved-zero-bubble", p, v, m));
        const Schedule s = generate("interleaved-zero-bubble", {p, v, m, 0});
        EXPECT_EQ(testing::faults_of(s), "");
        EXPECT_EQ(peak(s), v * p);
        for (const Costs& c : kCosts)
          EXPECT_EQ(excess(s, c).makespan,
                    static_cast<double>((p - 1) * std::max({c.f + c.i - c.w, c.f, c.i})))
              << c.f << ' ' << c.i << ' ' << c.w;
      }
}

TEST(ClosedForm, ZeroBubbleVFillsTheSpanForEqualTimes) {
  for (int64_t p = 1; p <= 5; ++p)
    for (int64_t m = 1; m <= 2 * p + 3; ++m) {
      SCOPED_TRACE(trace("zb-v", p, 2, m));
      const Schedule s = generate("zb-v", {p, 2, m, 0});
      EXPECT_EQ(testing::faults_of(s), "");
      EXPECT_LE(peak(s), 2 * p);
      if (m < 2 * p - 1) continue;
      EXPECT_EQ(excess(s, {1, 1, 1}).span, 0);
      EXPECT_EQ(excess(s, {1, 1, 1}).makespan, static_cast<double>(p - 1));
      // For tW <= tF <= tI.
      EXPECT_EQ(excess(s, {10, 12, 7}).span, static_cast<double>(2 * (p - 1) * (12 - 7)));
    }
}

// Exact for tF = tI >= tW; for other times the form is near.
TEST(ClosedForm, DualPipesFillAllButAFewSlotsWithOverlappedUnits) {
  for (int64_t p = 1; p <= 6; ++p)
    for (int64_t m = 2 * p; m <= 2 * p + 4; ++m) {
      SCOPED_TRACE(trace("dualpipev", p, 2, m));
      const Schedule s = generate("dualpipev", {p, 2, m, 0});
      EXPECT_EQ(testing::faults_of(s), "");
      EXPECT_EQ(peak(s), 2 * p + 1);
      for (const Costs& c : {Costs{1, 1, 1}, Costs{10, 10, 7}, Costs{12, 12, 1}})
        EXPECT_EQ(excess(s, c).makespan,
                  static_cast<double>((p - 1) * (c.f + 2 * (c.i + c.w) - 3 * c.w)));
      if (p % 2 != 0 || m % 2 != 0) continue;
      SCOPED_TRACE(trace("dualpipe", p, 2, m));
      const Schedule both = generate("dualpipe", {p, 2, m, 0});
      EXPECT_EQ(testing::faults_of(both), "");
      EXPECT_EQ(peak(both), p + 1);
      // A rank runs each microbatch once, in one of its two stages.
      for (const Costs& c : {Costs{1, 1, 1}, Costs{10, 10, 7}, Costs{12, 12, 1}})
        EXPECT_EQ(excess(both, c).makespan + static_cast<double>(m * (c.f + c.i + c.w)),
                  static_cast<double>((p / 2 - 1) * (c.f + 2 * (c.i + c.w) - 3 * c.w)));
    }
}

TEST(ClosedForm, GroupsOfHalfThePipelineHalveTheMemoryOfInterleaving) {
  for (int64_t p = 2; p <= 8; p += 2)
    for (int64_t v = 1; v <= 4; ++v)
      for (int64_t m = p; m <= 3 * p; m += p) {
        SCOPED_TRACE(trace("group-interleaved", p, v, m));
        const Schedule s = generate("group-interleaved", {p, v, m, 0});
        EXPECT_EQ(testing::faults_of(s), "");
        EXPECT_EQ(peak(s), (v + 1) * p / 2);
        EXPECT_EQ(excess(s, {2, 2, 2}).makespan, static_cast<double>((v + 3) * p - 4));
      }
}

TEST(ClosedForm, SmallerGroupsNeverHoldMore) {
  for (int64_t p = 2; p <= 8; ++p)
    for (int64_t v = 2; v <= 4; ++v) {
      int last = 0;
      for (int64_t g = (p + 1) / 2; g <= p; ++g) {
        const Schedule s = generate("group-interleaved", {p, v, 3 * p + 1, g});
        SCOPED_TRACE(trace("group-interleaved", p, v, 3 * p + 1));
        EXPECT_EQ(testing::faults_of(s), "");
        EXPECT_GE(peak(s), last) << g;
        last = peak(s);
      }
    }
}

}  // namespace
}  // namespace stepcast::split_backward_forms_test
