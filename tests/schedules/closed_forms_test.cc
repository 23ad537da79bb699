// SPDX-License-Identifier: Apache-2.0
// Closed forms of the bubble and of the activations in flight, for every small pipeline, of the
// families with whole backwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "schedules/schedule.h"
#include "sim/memory/memory.h"
#include "tests/schedules/vectors.h"

namespace stepcast::closed_forms_test {
namespace {

using testing::evaluate;

Schedule generate(std::string_view name, const ScheduleParams& params) {
  return generate_schedule(*find_schedule_family(name), params);
}

// Three cost sets without latency: forward, input gradient, weight gradient, in ns.
const int64_t kCosts[][3] = {{1, 1, 1}, {10, 12, 7}, {5, 3, 9}};

UnitCosts unit_costs(const int64_t (&c)[3]) {
  UnitCosts costs;
  costs.times.forward = Time{c[0] * 1000};
  costs.times.backward_input = Time{c[1] * 1000};
  costs.times.backward_weight = Time{c[2] * 1000};
  return costs;
}

double chunk_time(const int64_t (&c)[3]) {
  return static_cast<double>(c[0] + c[1] + c[2]);
}

void expect_each_once(const Schedule& s) {
  std::set<std::string> seen;
  size_t actions = 0;
  for (const auto& rank : s.ranks)
    for (const Action& a : rank) {
      seen.insert(to_string(a));
      ++actions;
    }
  const size_t wanted = 2 * s.rank_of_stage.size() * static_cast<size_t>(s.microbatches);
  EXPECT_EQ(actions, wanted);
  EXPECT_EQ(seen.size(), wanted);
  EXPECT_EQ(testing::faults_of(s), "");
}

int peak(const Schedule& s, size_t rank) {
  std::vector<Time> durations;
  return trace_memory(lower_unit(s, {}, durations)).at(rank).peak_in_flight;
}

int peak(const Schedule& s) {
  int most = 0;
  for (size_t r = 0; r < s.ranks.size(); ++r) most = std::max(most, peak(s, r));
  return most;
}

// The makespan beyond the work of a rank.
double bubble(const Schedule& s, const int64_t (&c)[3]) {
  return evaluate(s, unit_costs(c)).makespan -
         static_cast<double>(s.vpp * s.microbatches) * chunk_time(c);
}

TEST(ClosedForm, OneChunkARankTakesMicrobatchesPlusRanksMinusOnePeriods) {
  for (const std::string name : {"gpipe", "1f1b", "eager-1f1b"})
    for (int64_t p = 1; p <= 4; ++p)
      for (int64_t m = 1; m <= 6; ++m) {
        SCOPED_TRACE(name + " p=" + std::to_string(p) + " m=" + std::to_string(m));
        const Schedule s = generate(name, {p, 1, m, 0});
        expect_each_once(s);
        for (const auto& c : kCosts)
          EXPECT_EQ(evaluate(s, unit_costs(c)).makespan,
                    static_cast<double>(m + p - 1) * chunk_time(c));
        for (int64_t r = 0; r < p; ++r) {
          const int64_t lead = name == "gpipe" ? m : name == "1f1b" ? p - r : 2 * (p - r) - 1;
          EXPECT_EQ(peak(s, static_cast<size_t>(r)), std::min(lead, m));
        }
      }
}

TEST(ClosedForm, InterleavedHasTheBubbleOfOneChunkForEveryLegalGroup) {
  int legal = 0;
  for (int64_t p = 1; p <= 4; ++p)
    for (int64_t v = 2; v <= 3; ++v)
      for (int64_t m = p; m <= 6; ++m)
        for (int64_t n = p; n <= m; ++n) {
          if (m % n != 0 && m % n < p) continue;
          SCOPED_TRACE("p=" + std::to_string(p) + " v=" + std::to_string(v) +
                       " m=" + std::to_string(m) + " N=" + std::to_string(n));
          const Schedule s = generate("interleaved-1f1b", {p, v, m, n});
          expect_each_once(s);
          for (const auto& c : kCosts)
            EXPECT_EQ(evaluate(s, unit_costs(c)).makespan,
                      static_cast<double>(v * m + p - 1) * chunk_time(c));
          for (int64_t r = 0; r < p; ++r)
            EXPECT_EQ(peak(s, static_cast<size_t>(r)),
                      std::min(v * m, 2 * (p - 1 - r) + (v - 1) * n + 1));
          ++legal;
        }
  EXPECT_GT(legal, 60);
}

TEST(ClosedForm, FlexPaysForRoundsSmallerThanThePipeline) {
  for (int64_t p = 1; p <= 4; ++p)
    for (int64_t v = 2; v <= 3; ++v)
      for (int64_t m = 1; m <= 6; ++m) {
        const int64_t rounds = std::max<int64_t>(1, m / p);
        if (m % rounds != 0) continue;
        SCOPED_TRACE("p=" + std::to_string(p) + " v=" + std::to_string(v) +
                     " m=" + std::to_string(m));
        const Schedule s = generate("interleaved-1f1b-flex", {p, v, m, 0});
        expect_each_once(s);
        const int64_t extra = std::max<int64_t>(0, p - m / rounds) * (v - 1);
        for (const auto& c : kCosts)
          EXPECT_EQ(evaluate(s, unit_costs(c)).makespan,
                    static_cast<double>(v * m + p - 1 + extra) * chunk_time(c));
      }
}

// One forward more of warm-up, so that a steady step is a pair; if a pair takes the sum of its
// halves, the time is that of interleaved 1F1B.
TEST(ClosedForm, OverlappedStepsTakeTheTimeOfInterleavedAndHoldOneMore) {
  for (int64_t p = 1; p <= 4; ++p)
    for (int64_t v = p == 1 ? 1 : 2; v <= 3; ++v)
      for (int64_t m = p; m <= 6; ++m)
        for (int64_t n = p; n <= m; ++n) {
          if (m % n != 0 && m % n < p) continue;
          SCOPED_TRACE("p=" + std::to_string(p) + " v=" + std::to_string(v) +
                       " m=" + std::to_string(m) + " n=" + std::to_string(n));
          const Schedule s = generate("interleaved-1f1b-ep-overlap", {p, v, m, n});
          expect_each_once(s);
          for (const auto& c : kCosts)
            EXPECT_EQ(evaluate(s, unit_costs(c)).makespan,
                      static_cast<double>(v * m + p - 1) * chunk_time(c));
          for (int64_t r = 0; r < p; ++r) {
            const int64_t lead = 2 * (p - 1 - r) + (v - 1) * n + 1;
            EXPECT_EQ(peak(s, static_cast<size_t>(r)), std::min(v * m, lead + 1));
            const auto& list = s.ranks[static_cast<size_t>(r)];
            EXPECT_EQ(std::count_if(list.begin(), list.end(),
                                    [](const Action& a) { return a.overlaps_next; }),
                      std::max<int64_t>(0, v * m - lead));
          }
        }
}

TEST(ClosedForm, PiecesOfASequenceShortenTheBubble) {
  for (int64_t p = 1; p <= 4; ++p)
    for (int64_t m = 1; m <= 6; ++m)
      for (int64_t k = 1; k <= 4; ++k) {
        SCOPED_TRACE("p=" + std::to_string(p) + " m=" + std::to_string(m) +
                     " k=" + std::to_string(k));
        const Schedule s = generate("seq1f1b", {p, 1, m, 0, {{"seq_splits", std::to_string(k)}}});
        EXPECT_EQ(testing::faults_of(s), "");
        EXPECT_EQ(s.microbatches, m);
        EXPECT_EQ(s.pieces(), m * k);
        for (const auto& c : kCosts)
          EXPECT_EQ(evaluate(s, unit_costs(c)).makespan,
                    static_cast<double>(m * k + p - 1) * chunk_time(c));
        for (int64_t r = 0; r < p; ++r)
          EXPECT_EQ(peak(s, static_cast<size_t>(r)), std::min(m * k, p - r - 1 + k));
      }
}

TEST(ClosedForm, BreadthFirstHasTheBubbleOfOneChunkAndHoldsEverything) {
  for (const char* name : {"looped-bfs", "breadth-first"})
    for (int64_t p = 1; p <= 4; ++p)
      for (int64_t v = 1; v <= 3; ++v)
        for (int64_t m = 1; m <= 6; ++m) {
          SCOPED_TRACE(std::string(name) + " p=" + std::to_string(p) + " v=" + std::to_string(v) +
                       " m=" + std::to_string(m));
          const Schedule s = generate(name, {p, v, m, 0});
          EXPECT_EQ(testing::faults_of(s), "");
          EXPECT_EQ(peak(s), v * m);
          const int64_t extra = std::max<int64_t>(0, p - m) * (v - 1);
          EXPECT_EQ(bubble(s, kCosts[1]), static_cast<double>((p - 1 + extra) * 29));
        }
}

TEST(ClosedForm, DepthFirstRoundsHoldOnlyTheirOwnMicrobatches) {
  const Schedule s = generate("breadth-first", {4, 2, 12, 4});
  EXPECT_EQ(testing::faults_of(s), "");
  EXPECT_EQ(peak(s), 8);
  EXPECT_TRUE(testing::rows_of(s).at(0).starts_with("0F0,0F3,0F6,0F9,"));
  EXPECT_EQ(bubble(s, kCosts[1]), 3 * 3 * 29);  // every round fills and drains
  EXPECT_THROW(generate("breadth-first", {4, 2, 12, 5}), InputError);
}

TEST(ClosedForm, EagerHidesLatencyThatOneForwardOneBackwardPays) {
  for (int64_t p = 2; p <= 4; ++p) {
    const int64_t m = 4 * p;
    const Schedule eager = generate("eager-1f1b", {p, 1, m, 0});
    const Schedule plain = generate("1f1b", {p, 1, m, 0});
    EXPECT_EQ(testing::faults_of(eager), "");
    EXPECT_EQ(peak(eager), 2 * p - 1);
    EXPECT_EQ(bubble(eager, kCosts[1]), static_cast<double>((p - 1) * 29));
    // Each of the 2(p-1) hops of a round trip is paid once instead of once a round.
    UnitCosts costs = testing::costs_named("uneven", p);
    const double late_eager = evaluate(eager, costs).makespan;
    const double late_plain = evaluate(plain, costs).makespan;
    costs.hop = Time{0};
    EXPECT_EQ(late_eager - evaluate(eager, costs).makespan, static_cast<double>(2 * (p - 1)));
    EXPECT_GT(late_plain - evaluate(plain, costs).makespan, static_cast<double>(2 * (p - 1)));
  }
}

// Waves meet without conflict if forward and backward take the same time and p divides m.
TEST(ClosedForm, WavesHaveTheBubbleOfOneChunkForEqualPasses) {
  for (int64_t p = 1; p <= 6; ++p)
    for (int64_t v = 2; v <= 6; v += 2)
      for (int64_t m = 1; m <= 3 * p; ++m) {
        SCOPED_TRACE("p=" + std::to_string(p) + " v=" + std::to_string(v) +
                     " m=" + std::to_string(m));
        const Schedule s = generate("hanayo", {p, v, m, 0});
        expect_each_once(s);
        if (m % p == 0) {
          EXPECT_EQ(evaluate(s, unit_costs({2, 1, 1})).makespan,
                    static_cast<double>((v * m + p - 1) * 4));
        }
        for (size_t r = 0; r < s.ranks.size(); ++r) EXPECT_LE(peak(s, r), v * p);
      }
}

// The same work cut into v chunks: the bubble is 1/v of that of 1F1B.
TEST(ClosedForm, InterleavingDividesTheBubbleByTheNumberOfChunks) {
  for (int64_t p = 2; p <= 4; ++p)
    for (int64_t v = 2; v <= 3; ++v) {
      const int64_t m = 2 * p;
      const int64_t whole[3] = {6 * 2, 6 * 3, 6 * 1};
      const int64_t part[3] = {whole[0] / v, whole[1] / v, whole[2] / v};
      const double work = static_cast<double>(m) * chunk_time(whole);
      const double plain =
          evaluate(generate("1f1b", {p, 1, m, 0}), unit_costs(whole)).makespan - work;
      const double cut =
          evaluate(generate("interleaved-1f1b", {p, v, m, 0}), unit_costs(part)).makespan - work;
      EXPECT_GT(cut, 0);
      EXPECT_EQ(cut * static_cast<double>(v), plain);
    }
}

// With latency c a hop and p dividing m, free-running sends: c [2(p-1)m/p + 2(p-2)] more.
TEST(ClosedForm, OneForwardOneBackwardPaysLatencyOnEveryRoundTrip) {
  for (int64_t p = 2; p <= 6; ++p)
    for (int64_t k = 1; k <= 4; ++k) {
      const int64_t m = k * p;
      UnitCosts costs = unit_costs(kCosts[1]);
      const Schedule s = generate("1f1b", {p, 1, m, 0});
      const double free = evaluate(s, costs).makespan;
      costs.hop = Time{1000};
      EXPECT_EQ(evaluate(s, costs).makespan - free,
                static_cast<double>(2 * (p - 1) * k + 2 * (p - 2)))
          << "p=" << p << " m=" << m;
    }
}

// Latency 2(vp-1)c once, however many microbatches.
TEST(ClosedForm, InterleavedPaysLatencyOnce) {
  for (int64_t p = 2; p <= 4; ++p)
    for (int64_t v = 2; v <= 3; ++v)
      for (int64_t k = 1; k <= 3; ++k) {
        UnitCosts costs = unit_costs(kCosts[1]);
        const Schedule s = generate("interleaved-1f1b", {p, v, k * p, 0});
        const double free = evaluate(s, costs).makespan;
        costs.hop = Time{1000};
        EXPECT_EQ(evaluate(s, costs).makespan - free, static_cast<double>(2 * (v * p - 1)))
            << "p=" << p << " v=" << v << " m=" << k * p;
      }
}

TEST(ClosedForm, ChimeraPaysOnlyForUnequalForwardAndBackward) {
  for (int64_t p = 2; p <= 6; p += 2)
    for (int64_t m = p; m <= 3 * p; m += p) {
      SCOPED_TRACE("p=" + std::to_string(p) + " m=" + std::to_string(m));
      const Schedule s = generate("chimera", {p, 2, m, 0});
      expect_each_once(s);
      for (const auto& c : kCosts) {
        const int64_t f = c[0], b = c[1] + c[2];
        const int64_t bubble = (p - 2) * (std::max(b, f) + (m / p - 1) * std::abs(b - f));
        EXPECT_EQ(evaluate(s, unit_costs(c)).makespan, static_cast<double>(m * (f + b) + bubble));
      }
      for (size_t r = 0; r < s.ranks.size(); ++r) EXPECT_LE(peak(s, r), p);
    }
}

TEST(ClosedForm, FasterPartsNeverMakeAFixedOrderSlower) {
  const Schedule s = generate("interleaved-1f1b", {4, 2, 8, 0});
  UnitCosts costs = unit_costs(kCosts[1]);
  costs.hop = Time{3000};
  costs.slow_rank = 2;
  double last = 0;
  for (const double factor : {0.5, 1.0, 1.25, 1.5, 2.0, 4.0}) {
    costs.slow_factor = factor;
    const double now = evaluate(s, costs).makespan;
    EXPECT_GE(now, last) << factor;
    last = now;
  }
}

}  // namespace
}  // namespace stepcast::closed_forms_test
