// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "sim/check.h"
#include "sim/random.h"
#include "tests/hand_graph.h"

namespace stepcast::memory_test {
namespace {

using namespace literals;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

Bytes at(const MemoryTable& table, MemoryCategory c) {
  return table[static_cast<size_t>(c)];
}

// Forward leaves 100 B of activations and needs 30 B meanwhile; backward needs 50 B and frees all.
struct OneStage {
  HandGraph g;
  PassId forward = g.pass({{1}, {1}, {1}});
  PassId backward = g.pass({{1}, {1}});
  uint32_t role = g.role();

  OneStage() {
    const uint32_t kept = g.tensor(100);
    const uint32_t scratch = g.tensor(30, MemoryCategory::workspace);
    const uint32_t gradient = g.tensor(50, MemoryCategory::gradients);
    g.allocate(forward, 0, kept);
    g.allocate(forward, 1, scratch);
    g.free(forward, 1, scratch);
    g.allocate(backward, 0, gradient);
    g.free(backward, 1, gradient);
    g.free(backward, 1, kept);
  }

  RoleMemory trace() const {
    check_graph(g.graph);
    return trace_memory(g.graph)[role];
  }
};

// --- allocated ----------------------------------------------------------------------------------

TEST(Memory, ActivationsLiveFromForwardToBackward) {
  OneStage s;
  s.g.run(s.role, s.forward, forward_of(0, 0));
  s.g.run(s.role, s.backward, backward_of(0, 0));
  const RoleMemory m = s.trace();
  EXPECT_EQ(m.peak, 150_B);
  EXPECT_EQ(m.peak_item, 1U);
  EXPECT_EQ(m.peak_op, 0U);
  EXPECT_EQ(at(m.at_peak, MemoryCategory::activations), 100_B);
  EXPECT_EQ(at(m.at_peak, MemoryCategory::gradients), 50_B);
  EXPECT_EQ(at(m.at_peak, MemoryCategory::workspace), 0_B);
  EXPECT_EQ(m.start, 0_B);
  EXPECT_EQ(m.end, 0_B);
  EXPECT_EQ(m.peak_in_flight, 1);
  ASSERT_EQ(m.curve.size(), 2U);
  EXPECT_EQ(m.curve[0].allocated, 100_B);
  EXPECT_EQ(m.curve[1].allocated, 0_B);
}

TEST(Memory, MicrobatchesInFlightAddUp) {
  OneStage s;
  for (uint32_t m = 0; m < 3; ++m) s.g.run(s.role, s.forward, forward_of(0, m));
  for (uint32_t m = 0; m < 3; ++m) s.g.run(s.role, s.backward, backward_of(0, m));
  const RoleMemory m = s.trace();
  EXPECT_EQ(m.peak, 350_B);
  EXPECT_EQ(m.peak_item, 3U);
  EXPECT_EQ(m.peak_in_flight, 3);
}

TEST(Memory, OneForwardOneBackwardHoldsOneMicrobatch) {
  OneStage s;
  for (uint32_t m = 0; m < 3; ++m) {
    s.g.run(s.role, s.forward, forward_of(0, m));
    s.g.run(s.role, s.backward, backward_of(0, m));
  }
  const RoleMemory m = s.trace();
  EXPECT_EQ(m.peak, 150_B);
  EXPECT_EQ(m.peak_item, 1U);  // the first of equal ones
  EXPECT_EQ(m.peak_in_flight, 1);
}

TEST(Memory, APeakInTheMiddleOfAPassNamesItsOp) {
  HandGraph g;
  const PassId p = g.pass({{1}, {1}, {1}});
  const uint32_t small = g.tensor(10), large = g.tensor(1000);
  g.allocate(p, 0, small);
  g.free(p, 0, small);
  g.allocate(p, 1, large);
  g.free(p, 1, large);
  g.allocate(p, 2, small);
  g.free(p, 2, small);
  const uint32_t r = g.role();
  g.sync(r, Stream::compute);
  g.run(r, p);
  const RoleMemory m = trace_memory(g.graph)[0];
  EXPECT_EQ(m.peak, 1000_B);
  EXPECT_EQ(m.peak_item, 1U);
  EXPECT_EQ(m.peak_op, 1U);
  EXPECT_EQ(m.peak_in_flight, 0);
}

TEST(Memory, ASplitBackwardHoldsUntilTheWeightGradient) {
  HandGraph g;
  const PassId f = g.pass_of(1), i = g.pass_of(1), w = g.pass_of(1);
  const uint32_t for_input = g.tensor(100), for_weight = g.tensor(40);
  g.allocate(f, 0, for_input);
  g.allocate(f, 0, for_weight);
  g.free(i, 0, for_input);
  g.free(w, 0, for_weight);
  const uint32_t r = g.role();
  for (uint32_t m = 0; m < 2; ++m) {
    g.run(r, f, forward_of(0, m));
    g.run(r, i, Action{ActionKind::backward_input, 0, m});
  }
  for (uint32_t m = 0; m < 2; ++m) g.run(r, w, Action{ActionKind::backward_weight, 0, m});
  check_graph(g.graph);
  const RoleMemory m = trace_memory(g.graph)[0];
  EXPECT_EQ(m.peak, 180_B);
  EXPECT_EQ(m.peak_in_flight, 2);
  EXPECT_EQ(m.end, 0_B);
}

TEST(Memory, WhatIsHeldThroughTheStepIsAlwaysThere) {
  OneStage s;
  s.g.graph.roles[0].memory = {{MemoryCategory::parameters, 1000_B},
                               {MemoryCategory::optimizer_state, 3000_B},
                               {MemoryCategory::parameters, 500_B}};
  EXPECT_EQ(s.trace().peak, 4500_B);
  s.g.run(s.role, s.forward, forward_of(0, 0));
  s.g.run(s.role, s.backward, backward_of(0, 0));
  const RoleMemory m = s.trace();
  EXPECT_EQ(m.start, 4500_B);
  EXPECT_EQ(m.end, 4500_B);
  EXPECT_EQ(m.peak, 4650_B);
  EXPECT_EQ(at(m.at_peak, MemoryCategory::parameters), 1500_B);
  EXPECT_EQ(at(m.at_peak, MemoryCategory::optimizer_state), 3000_B);
}

TEST(Memory, RolesAreTracedApart) {
  OneStage s;
  const uint32_t other = s.g.role();
  for (const uint32_t r : {s.role, other}) {
    s.g.run(r, s.forward, forward_of(0, 0));
    if (r == other) s.g.run(r, s.forward, forward_of(0, 1));
  }
  const std::vector<RoleMemory> m = trace_memory(s.g.graph);
  ASSERT_EQ(m.size(), 2U);
  EXPECT_EQ(m[0].peak, 130_B);
  EXPECT_EQ(m[1].peak, 230_B);
}

TEST(Memory, ThePeakIsTakenApartByLabel) {
  OneStage s;
  s.g.graph.labels.push_back("mlp");
  s.g.graph.tensor_tables[0][2].label = LabelId{1};
  for (uint32_t m = 0; m < 2; ++m) s.g.run(s.role, s.forward, forward_of(0, m));
  for (uint32_t m = 0; m < 2; ++m) s.g.run(s.role, s.backward, backward_of(0, m));
  EXPECT_THAT(peak_by_label(s.g.graph, 0, s.trace()),
              ElementsAre(Pair(LabelId{0}, 200_B), Pair(LabelId{1}, 50_B)));
}

// --- reserved -----------------------------------------------------------------------------------

// F leaves 1 MiB, O copies it out, L brings it back, B frees it.
struct Offloading {
  HandGraph g;
  PassId forward = g.pass({{5}});
  PassId offload = g.pass({{9, Stream::copy}});
  PassId reload = g.pass({{9, Stream::copy}});
  PassId backward = g.pass({{5}});
  PassId other = g.pass({{5}});
  uint32_t role = g.role();

  Offloading() {
    const uint32_t kept = g.tensor(kMiB);
    g.graph.labels.emplace_back("scratch");
    const uint32_t scratch = g.tensor(3 * kMiB);
    g.graph.tensor_tables[0][scratch].label = LabelId{1};
    g.allocate(forward, 0, kept);
    g.free(offload, 0, kept);
    g.allocate(reload, 0, kept);
    g.free(backward, 0, kept);
    g.allocate(other, 0, scratch);
    g.free(other, 0, scratch);
  }

  void run(PassId pass, ActionKind kind, uint32_t microbatch) {
    g.run(role, pass, Action{kind, 0, microbatch});
  }

  RoleMemory memory() const {
    check_graph(g.graph);
    return trace_memory(g.graph).front();
  }
};

TEST(Memory, WhatIsCopiedToTheHostIsHeldBesideTheNextPassThatComputes) {
  Offloading o;
  o.run(o.forward, ActionKind::forward, 0);
  o.run(o.offload, ActionKind::offload, 0);
  o.g.run(o.role, o.other);
  o.g.run(o.role, o.other);
  o.run(o.reload, ActionKind::reload, 0);
  o.run(o.backward, ActionKind::backward, 0);
  const RoleMemory m = o.memory();
  EXPECT_EQ(m.end, m.start);
  EXPECT_EQ(m.peak, Bytes{4 * kMiB});
  EXPECT_EQ(m.peak_item, 2U);
  EXPECT_EQ(m.peak_in_flight, 1);
  std::vector<int64_t> curve;
  for (const MemoryPoint& p : m.curve) curve.push_back(p.allocated.value / kMiB);
  EXPECT_THAT(curve, ElementsAre(1, 1, 0, 0, 1, 0));
  EXPECT_THAT(peak_by_label(o.g.graph, o.role, m),
              ElementsAre(Pair(LabelId{1}, Bytes{3 * kMiB}), Pair(LabelId{0}, Bytes{kMiB})));
}

TEST(Memory, OffloadedMicrobatchesAreNotInFlight) {
  Offloading o;
  for (uint32_t i = 0; i < 3; ++i) {
    o.run(o.forward, ActionKind::forward, i);
    o.run(o.offload, ActionKind::offload, i);
  }
  for (uint32_t i = 0; i < 3; ++i) {
    o.run(o.reload, ActionKind::reload, i);
    o.run(o.backward, ActionKind::backward, i);
  }
  const RoleMemory m = o.memory();
  EXPECT_EQ(m.peak_in_flight, 1);
  // Two at a time: one leaves or comes while the other is made or used.
  EXPECT_EQ(m.peak, Bytes{2 * kMiB});
  EXPECT_EQ(m.end, m.start);
  EXPECT_GE(trace_reserved(o.g.graph, o.role, kEndlessRoom), m.peak);
}

TEST(Memory, ACopyNobodyComputesAfterIsFreedInTheEnd) {
  Offloading o;
  o.run(o.forward, ActionKind::forward, 0);
  o.run(o.offload, ActionKind::offload, 0);
  EXPECT_EQ(o.memory().end, o.memory().start);
}

TEST(CachingAllocator, RoundsRequestsTo512Bytes) {
  CachingAllocator a;
  a.allocate(1_B);
  EXPECT_EQ(a.allocated(), 512_B);
  a.allocate(512_B);
  EXPECT_EQ(a.allocated(), 1024_B);
  a.allocate(513_B);
  EXPECT_EQ(a.allocated(), 2048_B);
}

TEST(CachingAllocator, NothingTakesNothing) {
  CachingAllocator a;
  const CachingAllocator::Block b = a.allocate(0_B);
  EXPECT_EQ(b, CachingAllocator::kNone);
  a.free(b);
  EXPECT_EQ(a.reserved(), 0_B);
}

TEST(CachingAllocator, SmallRequestsShareSegmentsOf2MiB) {
  CachingAllocator a;
  a.allocate({kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{2 * kMiB}));
  a.allocate({kMiB - 512});
  EXPECT_EQ(a.reserved(), (Bytes{2 * kMiB}));
  a.allocate({512});  // exactly what is left
  EXPECT_EQ(a.reserved(), (Bytes{2 * kMiB}));
  a.allocate({512});
  EXPECT_EQ(a.reserved(), (Bytes{4 * kMiB}));
}

TEST(CachingAllocator, MiddleRequestsShareSegmentsOf20MiB) {
  CachingAllocator a;
  a.allocate({kMiB + 1});
  EXPECT_EQ(a.reserved(), (Bytes{20 * kMiB}));
  a.allocate({9 * kMiB});
  a.allocate({9 * kMiB - 512});
  EXPECT_EQ(a.reserved(), (Bytes{20 * kMiB}));
  a.allocate({2 * kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{40 * kMiB}));
}

TEST(CachingAllocator, LargeRequestsGetSegmentsRoundedTo2MiB) {
  CachingAllocator a;
  a.allocate({10 * kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{10 * kMiB}));
  a.allocate({10 * kMiB + 1});
  EXPECT_EQ(a.reserved(), (Bytes{22 * kMiB}));
  a.allocate({101 * kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{124 * kMiB}));
}

TEST(CachingAllocator, JustBelow10MiBComesFromA20MiBSegment) {
  CachingAllocator a;
  a.allocate({10 * kMiB - 512});
  EXPECT_EQ(a.reserved(), (Bytes{20 * kMiB}));
}

TEST(CachingAllocator, SmallRequestsDoNotUseLargeSegments) {
  CachingAllocator a;
  a.free(a.allocate({8 * kMiB}));
  a.allocate({kKiB});
  EXPECT_EQ(a.reserved(), (Bytes{22 * kMiB}));
}

TEST(CachingAllocator, ARestOfAtMost1MiBStaysWithALargeBlock) {
  CachingAllocator a;
  const CachingAllocator::Block b = a.allocate({19 * kMiB - 512});
  EXPECT_EQ(a.allocated(), (Bytes{19 * kMiB - 512}));  // 1 MiB + 512 B are split off
  a.free(b);
  // 10 MiB out of the remaining 11 MiB: the 1 MiB that would be left is not split off.
  const CachingAllocator::Block c = a.allocate({9 * kMiB}), d = a.allocate({10 * kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{20 * kMiB}));
  EXPECT_EQ(a.allocated(), (Bytes{20 * kMiB}));
  a.free(c);
  a.free(d);
}

TEST(CachingAllocator, FreedNeighboursMergeOnBothSides) {
  CachingAllocator a;
  const auto first = a.allocate({6 * kMiB}), middle = a.allocate({6 * kMiB}),
             last = a.allocate({6 * kMiB});
  ASSERT_EQ(a.reserved(), (Bytes{20 * kMiB}));
  a.free(first);
  a.free(last);
  a.free(middle);
  a.allocate({20 * kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{20 * kMiB}));
}

TEST(CachingAllocator, BlocksOfDifferentSegmentsDoNotMerge) {
  CachingAllocator a;
  const auto first = a.allocate({10 * kMiB}), second = a.allocate({10 * kMiB});
  a.free(first);
  a.free(second);
  a.allocate({20 * kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{40 * kMiB}));
}

TEST(CachingAllocator, TheSmallestBlockThatFitsServes) {
  CachingAllocator a;
  const auto large = a.allocate({40 * kMiB}), small = a.allocate({12 * kMiB});
  a.free(large);
  a.free(small);
  a.allocate({12 * kMiB});  // must not break up the 40 MiB
  a.allocate({40 * kMiB});
  EXPECT_EQ(a.reserved(), (Bytes{52 * kMiB}));
}

TEST(CachingAllocator, FragmentsAreNeverMoved) {
  CachingAllocator a;
  std::vector<CachingAllocator::Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(a.allocate({5 * kMiB}));
  ASSERT_EQ(a.reserved(), (Bytes{20 * kMiB}));
  a.free(blocks[0]);
  a.free(blocks[2]);
  a.allocate({8 * kMiB});  // 10 MiB are free, but not in one piece
  EXPECT_EQ(a.reserved(), (Bytes{40 * kMiB}));
}

TEST(CachingAllocator, SegmentsAreKept) {
  CachingAllocator a;
  a.free(a.allocate({100 * kMiB}));
  EXPECT_EQ(a.reserved(), (Bytes{100 * kMiB}));
  EXPECT_EQ(a.peak_reserved(), (Bytes{100 * kMiB}));
  EXPECT_EQ(a.allocated(), 0_B);
}

TEST(CachingAllocator, FreeSegmentsAreGivenBackWhenThereIsNoRoom) {
  CachingAllocator a({110 * kMiB});
  const auto kept = a.allocate({40 * kMiB});
  a.free(a.allocate({60 * kMiB}));
  a.allocate({64 * kMiB});  // too large for the free segment; both would be 164 MiB
  EXPECT_EQ(a.reserved(), (Bytes{104 * kMiB}));
  EXPECT_EQ(a.peak_reserved(), (Bytes{104 * kMiB}));
  a.free(kept);
}

// Sizes are of 32 bits, the largest that of the head of a list: no head may serve a request.
// No GPU has as much, and how the allocator rounds it is of no interest.
TEST(CachingAllocator, WhatIsTooLargeIsTakenForTheLargest) {
  constexpr int64_t kTooLarge = 2048 * int64_t{1024} * kMiB - kMiB;
  const uint32_t largest = request_of({kTooLarge - 1}).size;
  for (const int64_t bytes : {kTooLarge, kTooLarge + kMiB, std::numeric_limits<int64_t>::max()})
    EXPECT_EQ(request_of({bytes}).size, largest) << bytes;
  EXPECT_EQ(request_of({kTooLarge - 2 * kMiB}).size, (kTooLarge - 2 * kMiB) / 512);
}

// Addresses are of 32 bits: those of segments that are gone are used again after 2 TiB.
TEST(CachingAllocator, SegmentsAreGivenBackAsOftenAsIsAsked) {
  CachingAllocator a({300 * kMiB});
  const auto low = a.allocate({100 * kMiB}), kept = a.allocate({12 * kMiB});
  for (int i = 0; i < 25'000; ++i) {
    a.free(a.allocate({(150 + i % 2) * kMiB}));
    ASSERT_LE(a.reserved(), (Bytes{300 * kMiB}));
  }
  a.free(low);
  a.free(kept);
  a.free(a.allocate({12 * kMiB}));  // in the smallest that is large enough
  a.allocate({100 * kMiB});
  EXPECT_EQ(a.allocated(), (Bytes{100 * kMiB}));
  EXPECT_LE(a.peak_reserved(), (Bytes{300 * kMiB}));
}

TEST(CachingAllocator, SegmentsInUseAreNot) {
  CachingAllocator a({110 * kMiB});
  const auto part = a.allocate({20 * kMiB});
  const auto rest = a.allocate({60 * kMiB});
  a.free(part);
  const auto small = a.allocate({12 * kMiB});  // of the free 20 MiB: its segment stays
  a.allocate({40 * kMiB});
  EXPECT_EQ(a.peak_reserved(), (Bytes{120 * kMiB}));  // more than there is room for
  a.free(small);
  a.free(rest);
}

TEST(CachingAllocator, AnExpandableSegmentGrowsByWhatItsLastBlockLacks) {
  CachingAllocator a(kEndlessRoom, Segments::expandable);
  const auto first = a.allocate({30 * kMiB});  // two pages, of which 10 MiB are free
  EXPECT_EQ(a.reserved(), (Bytes{40 * kMiB}));
  const auto second = a.allocate({30 * kMiB});  // 10 MiB and one page more
  EXPECT_EQ(a.reserved(), (Bytes{60 * kMiB}));
  a.free(first);
  a.free(second);
  const auto all = a.allocate({60 * kMiB});  // neighbours, although asked for apart
  EXPECT_EQ(a.reserved(), (Bytes{60 * kMiB}));
  a.free(all);
}

TEST(CachingAllocator, AnExpandableSegmentGivesBackWhatIsFree) {
  CachingAllocator a({60 * kMiB}, Segments::expandable);
  const auto first = a.allocate({20 * kMiB});
  const auto second = a.allocate({40 * kMiB});
  a.free(first);
  a.allocate({20 * kMiB});  // in the gap
  EXPECT_EQ(a.peak_reserved(), (Bytes{60 * kMiB}));
  a.free(second);
  const auto small = a.allocate({5 * kMiB});
  a.allocate({60 * kMiB});  // does not fit anyway
  EXPECT_GT(a.peak_reserved(), (Bytes{60 * kMiB}));
  a.free(small);
}

// The smallest block that is large enough serves, of equal ones that of the lowest address, however
// many blocks are in a list: with a list for each size, for some of too many sizes, and for each
// power of two.
TEST(CachingAllocator, ListsDecideOnlyHowManyBlocksAreLookedAt) {
  CountedRandom random(7);
  for (const size_t sizes : {5U, 40U, 200U}) {
    for (const Segments segments : {Segments::fixed, Segments::expandable}) {
      std::vector<BlockRequest> requests;
      for (size_t i = 0; i < sizes; ++i)
        requests.push_back(
            request_of({1 + static_cast<int64_t>(random.below(i % 3 == 0 ? kMiB : 90 * kMiB))}));
      const SizeClasses of_these(requests), of_few({requests.data(), 2});
      const Bytes room{1500 * kMiB};
      CachingAllocator any(room, segments), these(room, segments, &of_these),
          few(room, segments, &of_few);
      std::vector<std::array<CachingAllocator::Block, 3>> live;
      for (int i = 0; i < 4000; ++i) {
        if (live.size() < 12 || (live.size() < 60 && random.below(2) == 0)) {
          const BlockRequest& r = requests[random.below(requests.size())];
          const Bytes bytes{int64_t{r.size} * 512};
          live.push_back({any.allocate(bytes), these.allocate(bytes), few.allocate(bytes)});
          const auto place = CachingAllocator::place_of(live.back()[0]);
          ASSERT_EQ(CachingAllocator::place_of(live.back()[1]), place) << i;
          ASSERT_EQ(CachingAllocator::place_of(live.back()[2]), place) << i;
        } else {
          const size_t at = random.below(live.size());
          any.free(live[at][0]);
          these.free(live[at][1]);
          few.free(live[at][2]);
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        }
        ASSERT_EQ(these.reserved(), any.reserved()) << i;
        ASSERT_EQ(few.reserved(), any.reserved()) << i;
      }
      EXPECT_EQ(these.lacked_room(), any.lacked_room());
      EXPECT_EQ(few.peak_reserved(), any.peak_reserved());
    }
  }
}

TEST(CachingAllocator, FreeingTwiceIsABug) {
  CachingAllocator a;
  const auto b = a.allocate({kKiB});
  a.allocate({kKiB});
  a.free(b);
  EXPECT_THROW(a.free(b), InternalError);
}

TEST(Reserved, FollowsThePassesOfARole) {
  HandGraph g;
  const PassId f = g.pass_of(1), b = g.pass_of(1);
  const uint32_t kept = g.tensor(12 * kMiB), scratch = g.tensor(30 * kMiB);
  g.allocate(f, 0, kept);
  g.allocate(b, 0, scratch);
  g.free(b, 0, scratch);
  g.free(b, 0, kept);
  const uint32_t r = g.role();
  g.graph.roles[r].memory = {{MemoryCategory::parameters, {64 * kMiB}}};
  EXPECT_EQ(trace_reserved(g.graph, r, kEndlessRoom), (Bytes{64 * kMiB}));
  g.run(r, f, forward_of(0, 0));
  g.run(r, f, forward_of(0, 1));
  g.run(r, b, backward_of(0, 0));
  g.run(r, b, backward_of(0, 1));  // its scratch is the block of the one before
  check_graph(g.graph);
  EXPECT_EQ(trace_reserved(g.graph, r, kEndlessRoom), (Bytes{(64 + 12 + 12 + 30) * kMiB}));
}

// Gradients of weights that autograd hands over: of two microbatches the first stays.
struct ByTensor {
  HandGraph g;
  PassId f, b, update;
  uint32_t role;

  ByTensor()
      : f(g.pass_of(1)),
        b(g.pass_of(1)),
        update(g.pass({{1, Stream::compute, Phase::optimizer}})),
        role(g.role()) {
    const uint32_t kept = g.tensor(12 * kMiB), gradient = g.tensor(30 * kMiB);
    g.graph.tensor_tables[0][gradient].becomes_gradient = true;
    g.allocate(f, 0, kept);
    g.allocate(b, 0, gradient);
    g.free(b, 0, gradient);
    g.free(b, 0, kept);
    g.graph.roles[role].memory = {{MemoryCategory::gradients, {30 * kMiB}, true}};
    for (uint32_t m = 0; m < 2; ++m) {
      g.run(role, f, forward_of(0, m));
      g.run(role, b, backward_of(0, m));
    }
    g.run(role, update);
  }
};

TEST(Reserved, TheFirstGradientOfAStepIsKeptAndOthersAreAddedToIt) {
  ByTensor t;
  check_graph(t.g.graph);
  EXPECT_EQ(trace_reserved(t.g.graph, t.role, kEndlessRoom), (Bytes{(12 + 30 + 30) * kMiB}));
  EXPECT_EQ(trace_memory(t.g.graph)[t.role].peak, (Bytes{(12 + 30 + 30) * kMiB}));
}

// The rest of the gradients, of norms and biases, is a buffer.
TEST(Reserved, OnlyGradientsThatTensorsHoldAreNotInTheBuffer) {
  ByTensor t;
  t.g.graph.roles[t.role].memory = {{MemoryCategory::gradients, {40 * kMiB}, true}};
  EXPECT_EQ(trace_reserved(t.g.graph, t.role, kEndlessRoom), (Bytes{(10 + 12 + 30 + 30) * kMiB}));
}

// A tied embedding and head have one gradient: the second is added to the first.
TEST(Reserved, TwoTensorsForTheSameParametersBecomeOneGradient) {
  ByTensor t;
  const uint32_t again = t.g.tensor(30 * kMiB);
  t.g.graph.tensor_tables[0][again].becomes_gradient = true;
  t.g.allocate(t.b, 0, again);
  t.g.free(t.b, 0, again);
  EXPECT_EQ(trace_reserved(t.g.graph, t.role, kEndlessRoom), (Bytes{(12 + 30 + 30) * kMiB}));
}

// In 0B0 with 1F0 beside it only stage 0 makes gradients; those of stage 1 are made later.
TEST(Reserved, AnOverlappedForwardHasNoGradients) {
  HandGraph g;
  const PassId f = g.pass_of(1), b = g.pass_of(1), pair = g.pass_of(1);
  const uint32_t gradient = g.tensor(30 * kMiB);
  g.graph.tensor_tables[0][gradient].becomes_gradient = true;
  for (const PassId pass : {b, pair}) {
    g.allocate(pass, 0, gradient);
    g.free(pass, 0, gradient);
  }
  const uint32_t r = g.role();
  g.graph.roles[r].memory = {{MemoryCategory::gradients, {60 * kMiB}, true}};
  g.run(r, f, forward_of(0, 0));
  g.run(r, pair, backward_of(0, 0));
  g.graph.roles[r].items.back().has_second = true;
  g.graph.roles[r].items.back().second = forward_of(1, 0);
  g.run(r, b, backward_of(1, 0));
  g.run(r, b, backward_of(1, 1));
  EXPECT_EQ(trace_reserved(g.graph, r, kEndlessRoom), (Bytes{(30 + 30 + 30) * kMiB}));
}

// The optimizer's copy of 20 MiB is free when the next step begins, whose 12 MiB split it, so that
// the next copy needs a segment of its own.
TEST(Reserved, TheSecondStepBeginsWithWhatTheFirstHasLeft) {
  HandGraph g;
  const PassId f = g.pass_of(1), b = g.pass_of(1);
  const PassId update = g.pass({{1, Stream::compute, Phase::optimizer}});
  const uint32_t kept = g.tensor(12 * kMiB), copy = g.tensor(20 * kMiB), late = g.tensor(12 * kMiB);
  g.allocate(f, 0, kept);
  g.allocate(b, 0, late);
  g.free(b, 0, kept);
  g.allocate(update, 0, copy);
  g.free(update, 0, copy);
  const uint32_t r = g.role();
  g.run(r, f, forward_of(0, 0));
  g.run(r, b, backward_of(0, 0));
  g.run(r, update);
  EXPECT_EQ(trace_reserved(g.graph, r, kEndlessRoom), (Bytes{(12 + 12 + 20) * kMiB}));
}

// What a collective has read is not free for the next microbatch, whose forward asks for a block of
// the same size a few launches later.
TEST(Reserved, BlocksThatLagBehindCollectivesAreNotReusedAtOnce) {
  for (const bool lags : {false, true}) {
    HandGraph g;
    const PassId f = g.pass_of(1);
    const uint32_t partial = g.tensor(12 * kMiB);
    g.graph.tensor_tables[0][partial].lags = lags;
    g.allocate(f, 0, partial);
    g.free(f, 0, partial);
    const uint32_t r = g.role();
    for (uint32_t m = 0; m < 3; ++m) g.run(r, f, forward_of(0, m));
    EXPECT_EQ(trace_reserved(g.graph, r, kEndlessRoom), (Bytes{(lags ? 3 : 1) * 12 * kMiB}));
  }
}

TEST(Reserved, TensorsOfTwoMicrobatchesAreDifferentBlocks) {
  HandGraph g;
  const PassId f = g.pass_of(1);
  g.allocate(f, 0, g.tensor(12 * kMiB));
  const uint32_t r = g.role();
  for (uint32_t m = 0; m < 3; ++m) g.run(r, f, forward_of(0, m));
  g.run(r, f, forward_of(1, 0));
  EXPECT_EQ(trace_reserved(g.graph, r, kEndlessRoom), (Bytes{4 * 12 * kMiB}));
}

}  // namespace
}  // namespace stepcast::memory_test
