// SPDX-License-Identifier: Apache-2.0
// WaitGraph, and what check_graph refuses.
#include "sim/graph/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <utility>

#include "sim/check.h"
#include "tests/hand_graph.h"

namespace stepcast {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// --- waits --------------------------------------------------------------------------------------

TEST(WaitGraph, GivesTheWaitsOfEachOp) {
  const WaitGraph g(4,
                    {{.op = 3, .on = 1}, {.op = 2, .on = 0, .delay = Time{7}}, {.op = 3, .on = 0}});
  ASSERT_EQ(g.all().size(), 3U);
  EXPECT_EQ(g.all()[0].op, 2U);
  EXPECT_THAT(g.of(0), IsEmpty());
  ASSERT_EQ(g.of(2).size(), 1U);
  EXPECT_EQ(g.of(2)[0].delay, Time{7});
  ASSERT_EQ(g.of(3).size(), 2U);
  EXPECT_EQ(g.of(3)[0].on, 1U);  // in the order given
  EXPECT_EQ(g.of(3)[1].on, 0U);
}

TEST(WaitGraph, MayBeEmptyAndMoved) {
  WaitGraph g;
  EXPECT_THAT(g.all(), IsEmpty());
  EXPECT_THAT(g.find_cycle({}), IsEmpty());
  g = WaitGraph(2, {{.op = 1, .on = 0}});
  const WaitGraph moved = std::move(g);
  EXPECT_EQ(moved.all().size(), 1U);
}

TEST(WaitGraph, RefusesOpsThatDoNotExist) {
  EXPECT_THROW(WaitGraph(2, {{.op = 2, .on = 0}}), InternalError);
  EXPECT_THROW(WaitGraph(2, {{.op = 1, .on = 2}}), InternalError);
}

TEST(WaitGraph, FindsACircleOfWaits) {
  const WaitGraph g(4, {{.op = 1, .on = 2}, {.op = 2, .on = 3}, {.op = 3, .on = 1}});
  const std::array streams = {Stream::compute, Stream::tp, Stream::cp, Stream::dp};
  EXPECT_THAT(g.find_cycle(streams), UnorderedElementsAre(1, 2, 3));
}

TEST(WaitGraph, FindsACircleThroughTheOrderOfAStream) {
  const WaitGraph g(3, {{.op = 0, .on = 2}});
  const std::array one = {Stream::tp, Stream::compute, Stream::tp};
  EXPECT_THAT(g.find_cycle(one), UnorderedElementsAre(0, 2));
  const std::array two = {Stream::tp, Stream::compute, Stream::dp};
  EXPECT_THAT(g.find_cycle(two), IsEmpty());
}

TEST(WaitGraph, AnOpThatWaitsForItselfIsACircle) {
  const WaitGraph g(1, {{.op = 0, .on = 0}});
  EXPECT_THAT(g.find_cycle(std::array{Stream::compute}), ElementsAre(0));
}

// --- check_graph --------------------------------------------------------------------------------

// Two roles that exchange once, with a tensor that lives across two passes.
HandGraph sound_graph() {
  HandGraph g;
  const PassId f = g.pass({{1}, {1, Stream::tp}}, {{.op = 1, .on = 0}});
  const PassId b = g.pass_of(1);
  const uint32_t kept = g.tensor(10);
  g.allocate(f, 0, kept);
  g.free(b, 0, kept);
  const RendezvousId m = g.rendezvous(2, 1);
  for (const uint32_t r : {g.role(), g.role()}) {
    g.run(r, f, forward_of(0, 0));
    g.post(r, m);
    g.join(r, m);
    g.run(r, b, backward_of(0, 0));
  }
  return g;
}

TEST(CheckGraph, AcceptsASoundGraph) {
  EXPECT_NO_THROW(check_graph(sound_graph().graph));
  EXPECT_NO_THROW(check_graph(OpGraph{}));
}

TEST(CheckGraph, RefusesEachUnsoundOne) {
  using Break = std::function<void(HandGraph&)>;
  const std::vector<std::pair<const char*, Break>> breaks = {
      {"work of an op", [](HandGraph& g) { g.graph.passes[0].ops[0].work = WorkId{99}; }},
      {"label of an op", [](HandGraph& g) { g.graph.passes[0].ops[0].label = LabelId{9}; }},
      {"wait for a later op",
       [](HandGraph& g) { g.graph.passes[0].waits = WaitGraph(2, {{.op = 0, .on = 1}}); }},
      {"wait for itself",
       [](HandGraph& g) { g.graph.passes[0].waits = WaitGraph(2, {{.op = 1, .on = 1}}); }},
      {"tensor table", [](HandGraph& g) { g.graph.passes[0].tensors = TensorTableId{1}; }},
      {"tensor", [](HandGraph& g) { g.allocate(PassId{0}, 1, 7); }},
      {"op of a memory event", [](HandGraph& g) { g.graph.passes[0].memory[0].op = 2; }},
      {"order of memory events",
       [](HandGraph& g) {
         g.allocate(PassId{0}, 1, g.tensor(1));
         std::swap(g.graph.passes[0].memory[0], g.graph.passes[0].memory[1]);
       }},
      {"pass of an item", [](HandGraph& g) { g.graph.roles[0].items[0].pass = PassId{2}; }},
      {"rendezvous of a join",
       [](HandGraph& g) { g.graph.roles[0].items[2].rendezvous = RendezvousId{1}; }},
      {"rendezvous of a post",
       [](HandGraph& g) { g.graph.roles[0].items[1].rendezvous = RendezvousId{1}; }},
      {"a missing post",
       [](HandGraph& g) {
         auto& items = g.graph.roles[1].items;
         items.erase(items.begin() + 1);
       }},
      {"a post too many", [](HandGraph& g) { g.graph.rendezvous[0].parties = 1; }},
      {"two posts of one role",
       [](HandGraph& g) {
         g.post(0, RendezvousId{0});
         g.graph.rendezvous[0].parties = 3;
       }},
      {"a tensor never freed", [](HandGraph& g) { g.graph.roles[0].items.pop_back(); }},
      {"a tensor of another microbatch",
       [](HandGraph& g) { g.graph.roles[0].items[3].action.microbatch = 1; }},
      {"a tensor of another stage",
       [](HandGraph& g) { g.graph.roles[0].items[3].action.stage = 1; }},
      {"a tensor allocated twice", [](HandGraph& g) { g.allocate(PassId{0}, 1, 0); }},
      {"a tensor freed twice", [](HandGraph& g) { g.free(PassId{1}, 0, 0); }},
      {"an event of a second action that is not there",
       [](HandGraph& g) {
         for (MemoryEvent& e : g.graph.passes[0].memory) e.second = true;
       }},
      {"a pair of one microbatch",
       [](HandGraph& g) { g.graph.roles[0].items[0].has_second = true; }},
      {"a tensor table that is not there",
       [](HandGraph& g) { g.graph.passes[0].tensors = TensorTableId{7}; }},
      {"a tensor left behind by a pass without action",
       [](HandGraph& g) { g.graph.roles[0].items[0].has_action = false; }},
  };
  for (const auto& [what, damage] : breaks) {
    HandGraph g = sound_graph();
    damage(g);
    EXPECT_THROW(check_graph(g.graph), InternalError) << what;
  }
}

}  // namespace
}  // namespace stepcast
