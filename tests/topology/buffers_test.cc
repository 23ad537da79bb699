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
  EXPECT_EQ(exchange_buffers(7, false).value, 32 * 7 * 12 * kMiB);
  EXPECT_EQ(exchange_buffers(0, true).value, 128 * kMiB);
}

}  // namespace
}  // namespace stepcast::buffers_test
