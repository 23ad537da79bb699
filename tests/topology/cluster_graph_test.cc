// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/cluster_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/check.h"

namespace stepcast::cluster_graph_test {
namespace {

using ::testing::ElementsAre;

Device device(DeviceKind kind, const char* name) {
  return {.kind = kind, .name = name};
}

Link link(uint32_t a, uint32_t b, double bandwidth = 1e9) {
  return {.a = a, .b = b, .bandwidth = {bandwidth}, .back = {bandwidth}};
}

// g0 - s - g1, g0 - n - t - u - g1 with n a NIC; lone is alone.
ClusterGraph small() {
  return ClusterGraph(
      {device(DeviceKind::gpu, "g0"), device(DeviceKind::network_switch, "s"),
       device(DeviceKind::gpu, "g1"), device(DeviceKind::nic, "n"), device(DeviceKind::nic, "t"),
       device(DeviceKind::nic, "u"), device(DeviceKind::cpu, "lone")},
      {link(0, 1), link(1, 2), link(0, 3), link(3, 4), link(4, 5), link(5, 2)});
}

TEST(ClusterGraph, LinksHaveTwoDirections) {
  std::vector<Link> links{link(0, 1, 5e9)};
  links[0].back = {7e9};
  const ClusterGraph g({device(DeviceKind::gpu, "a"), device(DeviceKind::gpu, "b")}, links);
  EXPECT_THAT(g.leaving(0), ElementsAre(0u));
  EXPECT_THAT(g.leaving(1), ElementsAre(1u));
  EXPECT_EQ(g.to(0), 1u);
  EXPECT_EQ(g.to(1), 0u);
  EXPECT_EQ(g.bandwidth(0).value, 5e9);
  EXPECT_EQ(g.bandwidth(1).value, 7e9);
}

TEST(ClusterGraph, ListsWhatLeavesADeviceInOrder) {
  const ClusterGraph g = small();
  EXPECT_THAT(g.gpus(), ElementsAre(0u, 2u));
  EXPECT_THAT(g.leaving(0), ElementsAre(0u, 4u));
  EXPECT_THAT(g.leaving(2), ElementsAre(3u, 11u));
  EXPECT_THAT(g.leaving(6), ElementsAre());
}

TEST(ClusterGraph, ManyLinksAreShorterThanOneNetworkSwitch) {
  const ClusterGraph g = small();
  EXPECT_EQ(*g.shortest_path(0, 2), (std::vector<uint32_t>{4, 6, 8, 10}));
  EXPECT_EQ(*g.shortest_path(1, 0), (std::vector<uint32_t>{1}));
  EXPECT_EQ(*g.shortest_path(3, 3), std::vector<uint32_t>{});
  EXPECT_FALSE(g.shortest_path(0, 6));
  EXPECT_THROW(g.shortest_path(0, 7), InternalError);
}

TEST(ClusterGraph, WrongLinksAreBugs) {
  const std::vector<Device> two{device(DeviceKind::gpu, "a"), device(DeviceKind::gpu, "b")};
  EXPECT_THROW(ClusterGraph(two, {link(0, 2)}), InternalError);
  EXPECT_THROW(ClusterGraph(two, {link(1, 1)}), InternalError);
  EXPECT_THROW(ClusterGraph(two, {link(0, 1, 0)}), InternalError);
  EXPECT_NO_THROW(ClusterGraph({}, {}));
}

TEST(ClusterGraph, EveryKindHasAName) {
  EXPECT_EQ(name_of(DeviceKind::gpu), "GPU");
  EXPECT_EQ(name_of(DeviceKind::network_switch), "network switch");
  EXPECT_EQ(name_of(LinkKind::nvlink), "NVLink");
  EXPECT_EQ(name_of(LinkKind::network), "network");
}

}  // namespace
}  // namespace stepcast::cluster_graph_test
