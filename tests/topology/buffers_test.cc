// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl/buffers.h"

#include <gtest/gtest.h>

#include "tests/topology/clusters.h"

namespace stepcast::buffers_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

GroupShape inside(int64_t ranks) {
  return {.ranks = ranks, .nodes = 1, .ranks_per_node = ranks, .tier = -1};
}

// 24 channels, each with 10 MiB for what comes and 2 for what goes; trees have as many connections,
// but not between two GPUs, whose ring has them all.
TEST(Buffers, RingsAndTreesOfAmpere) {
  const Cluster a100 = test::dgx_a100(2);
  EXPECT_EQ(ring_buffers(a100, inside(2), {21800}).value, 24 * 12 * kMiB);
  EXPECT_EQ(ring_buffers(a100, inside(8), {21800}).value, 2 * 24 * 12 * kMiB);
  EXPECT_EQ(ring_buffers(a100, inside(8), {22200}).value, 24 * 12 * kMiB);
  EXPECT_EQ(ring_buffers(a100, inside(1), {21800}).value, 0);
}

TEST(Buffers, BetweenNodesBothEndsHoldThem) {
  const Cluster a100 = test::dgx_a100(2);
  GroupShape two{.ranks = 2, .nodes = 2, .ranks_per_node = 1};
  // One NIC: 2 channels, 10 MiB each way.
  EXPECT_EQ(ring_buffers(a100, two, {22200}).value, 2 * 20 * kMiB);
}

TEST(Buffers, SwitchesThatReduceHoldTheirsByVersion) {
  const Cluster h100 = test::dgx_h100(2);
  EXPECT_EQ(nvls_buffers(h100, inside(8), {21600}).value, 0);
  EXPECT_EQ(nvls_buffers(h100, inside(8), {21803}).value, 8 * 2 * 16 * 4 * kMiB);
  EXPECT_EQ(nvls_buffers(h100, inside(8), {22602}).value, 8 * 2 * 16 * kMiB);
  EXPECT_EQ(nvls_buffers(h100, inside(2), {22602}).value, 0);
  EXPECT_EQ(nvls_buffers(test::dgx_a100(2), inside(8), {22602}).value, 0);
}

// NVIDIA/nccl issue 1685: 32 channels to each of 7 peers.
TEST(Buffers, AnAllToAllOfEightHasThemForEachPeer) {
  EXPECT_EQ(exchange_buffers(test::dgx_h100(2), inside(8), 7, {22602}).value, 32 * 7 * 12 * kMiB);
}

// NVIDIA/nccl issue 964: two A100 take 544 MiB.
TEST(Buffers, ACommunicatorHasSlotsFromItsStart) {
  const Cluster a100 = test::dgx_a100(2);
  EXPECT_EQ((ring_buffers(a100, inside(2), {21803}) + slot_buffers(a100, inside(2), {21803})).value,
            544 * kMiB);
  EXPECT_EQ(slot_buffers(a100, inside(2), {21403}).value, 64 * kMiB);
  EXPECT_EQ(slot_buffers(a100, inside(2), {21003}).value, 0);
  EXPECT_EQ(slot_buffers(a100, inside(2), {22200}).value, 0);
  EXPECT_EQ(slot_buffers(a100, inside(1), {21803}).value, 0);
}

// 16 channels x 16 x 128 KiB, for each GPU of the node that sends by way of this one.
TEST(Buffers, AGpuHasSlotsForAllThatSendByWayOfIt) {
  Cluster a100 = test::dgx_a100(2);
  const GroupShape all{.ranks = 16, .nodes = 2, .ranks_per_node = 8};
  EXPECT_EQ(slot_buffers(a100, all, {21803}).value, 8 * 32 * kMiB);
  a100.fabric.pxn = false;
  EXPECT_EQ(slot_buffers(a100, all, {21803}).value, 32 * kMiB);
}

// To a rank beyond the node go two channels at most, and as many then to those of the node.
TEST(Buffers, GroupsOfSeveralNodesHaveFewChannelsForAPeer) {
  const Cluster a100 = test::dgx_a100(2);
  const GroupShape all{.ranks = 16, .nodes = 2, .ranks_per_node = 8};
  const int64_t come = 32 * kMiB, go = 8 * come;
  EXPECT_EQ(exchange_buffers(a100, all, 15, {21803}).value, 7 * 2 * 12 * kMiB + come);
  EXPECT_EQ(exchange_buffers(a100, all, 15, {21003}).value, 7 * 12 * kMiB + come + go);
  EXPECT_EQ(exchange_buffers(a100, all, 15, {22602}).value, 7 * 2 * 12 * kMiB + come + go);
}

}  // namespace
}  // namespace stepcast::buffers_test
