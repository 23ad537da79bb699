// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepcast {
namespace {

using ::testing::ElementsAre;

TEST(WorkCounts, PassesCountForEachRankAndRendezvousOnce) {
  OpGraph graph;
  graph.works.resize(3);
  graph.passes.resize(1);
  graph.passes[0].ops = {{.work = WorkId{0}}, {.work = WorkId{1}}, {.work = WorkId{0}}};
  graph.rendezvous = {{.work = WorkId{2}, .parties = 2}};
  RoleOps role;
  role.ranks = 4;
  role.items = {{.kind = ItemKind::pass}, {.kind = ItemKind::pass}, {.kind = ItemKind::post}};
  RoleOps other;
  other.ranks = 4;
  other.items = {{.kind = ItemKind::post}, {.kind = ItemKind::join}};
  graph.roles = {role, other};
  EXPECT_THAT(work_counts(graph), ElementsAre(16, 8, 4));
}

}  // namespace
}  // namespace stepcast
