// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/steady_state.h"

#include <gtest/gtest.h>

#include <string>

namespace stepcast::steady_state_test {
namespace {

Item pass(ActionKind kind, uint32_t microbatch) {
  Item item;
  item.kind = ItemKind::pass;
  item.pass = PassId{kind == ActionKind::forward ? 0u : 1u};
  item.has_action = true;
  item.action = {kind, 0, microbatch};
  return item;
}

Item meeting(ItemKind kind, uint32_t id) {
  Item item;
  item.kind = kind;
  item.rendezvous = RendezvousId{id};
  return item;
}

// Two roles: one does F and sends, the other receives, does F and B.  Microbatch m is rendezvous m.
OpGraph two_roles(uint32_t microbatches) {
  OpGraph graph;
  graph.passes.resize(2);
  graph.rendezvous.resize(microbatches);
  graph.roles.resize(2);
  for (uint32_t m = 0; m < microbatches; ++m) {
    graph.roles[0].items.push_back(pass(ActionKind::forward, m));
    graph.roles[0].items.push_back(meeting(ItemKind::post, m));
    graph.roles[1].items.push_back(meeting(ItemKind::join, m));
    graph.roles[1].items.push_back(pass(ActionKind::forward, m));
    graph.roles[1].items.push_back(pass(ActionKind::backward, m));
  }
  return graph;
}

TEST(SteadyState, OfAPipelineIsOneMicrobatchLong) {
  const auto found = find_steady_state(two_roles(8));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->roles[0].length, 2u);
  EXPECT_EQ(found->roles[1].length, 3u);
  EXPECT_EQ(found->roles[0].begin, 0u);
  EXPECT_EQ(found->roles[1].end, 24u);
  EXPECT_EQ(found->later[3], 4u);
  EXPECT_EQ(found->earlier[4], 3u);
  EXPECT_EQ(found->later[7], SteadyState::kNone);
}

TEST(SteadyState, EndsWhereAnotherTransferIsMade) {
  OpGraph graph = two_roles(12);
  graph.rendezvous[10].work = WorkId{1};
  const auto found = find_steady_state(graph);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->roles[0].end, 21u);  // with F10, before its post
  EXPECT_EQ(found->roles[1].end, 30u);  // before the join of it
}

TEST(SteadyState, IsNoneWhereRolesDoNotAgreeWhatFollowsWhat) {
  OpGraph graph = two_roles(8);
  // The second role takes what is sent in another order.
  for (uint32_t m = 0; m + 1 < 8; m += 2)
    std::swap(graph.roles[1].items[3 * m].rendezvous, graph.roles[1].items[3 * m + 3].rendezvous);
  EXPECT_FALSE(find_steady_state(graph).has_value());
}

TEST(SteadyState, OfFewMicrobatchesIsNone) {
  EXPECT_FALSE(find_steady_state(two_roles(2)).has_value());
  EXPECT_FALSE(find_steady_state(OpGraph{}).has_value());
}

TEST(SteadyState, DoesNotHoldJoinsForWhichTheHostWaits) {
  OpGraph graph = two_roles(8);
  for (Item& item : graph.roles[1].items)
    if (item.kind == ItemKind::join) item.host_waits = true;
  EXPECT_FALSE(find_steady_state(graph).has_value());
}

}  // namespace
}  // namespace stepcast::steady_state_test
