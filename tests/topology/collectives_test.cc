// SPDX-License-Identifier: Apache-2.0
#include "topology/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/check.h"
#include "tests/topology/clusters.h"
#include "topology/alternatives.h"

namespace stepcast {
namespace {

using test::dgx_a100;
using test::dgx_h100;
using test::grand_teton;
using ::testing::HasSubstr;
using enum WorkKind;

constexpr Bytes kGiB{int64_t{1} << 30};
constexpr std::array kKinds{all_reduce, all_gather, reduce_scatter, all_to_all, broadcast};

// All ranks of `nodes` nodes.
GroupShape full(int64_t nodes, int64_t per_node = 8) {
  GroupShape s;
  s.ranks = nodes * per_node;
  s.nodes = nodes;
  s.ranks_per_node = per_node;
  s.tier = nodes == 1 ? -1 : 0;
  return s;
}

double seconds(const Cluster& c, WorkKind kind, Bytes bytes, const GroupShape& s) {
  return to_seconds(collective_cost(c, kind, bytes, s).time);
}

// Bytes per second of a very large message, by its slope.
double slope(const Cluster& c, WorkKind kind, const GroupShape& s) {
  return kGiB.value * 64.0 / (seconds(c, kind, kGiB * 128, s) - seconds(c, kind, kGiB * 64, s));
}

TEST(CollectiveCost, LargeRingsReachTheBusBandwidth) {
  EXPECT_NEAR(slope(dgx_a100(1), all_reduce, full(1)) * 2 * 7 / 8, 240e9, 1e6);
  EXPECT_NEAR(slope(dgx_a100(1), all_gather, full(1)) * 7 / 8, 240e9, 1e6);
  EXPECT_NEAR(slope(dgx_a100(1), reduce_scatter, full(1)) * 7 / 8, 240e9, 1e6);
  EXPECT_NEAR(slope(dgx_a100(1), broadcast, full(1)), 240e9, 1e6);
  EXPECT_NEAR(slope(dgx_a100(4), all_reduce, full(4)) * 2 * 31 / 32, 192e9, 1e6);
  EXPECT_NEAR(slope(dgx_h100(4), all_gather, full(4)) * 31 / 32, 384e9, 1e6);
  EXPECT_NEAR(slope(dgx_h100(1), all_gather, full(1)) * 7 / 8, 360e9, 1e6);
  EXPECT_NEAR(slope(dgx_h100(1), all_reduce, full(1)), 0.61 * 450e9, 1e6) << "in the switch";
}

TEST(CollectiveCost, ChoosesAsNcclDoes) {
  const auto basis = [](const Cluster& c, int64_t bytes, const GroupShape& s) {
    return collective_cost(c, all_reduce, {bytes}, s).basis;
  };
  EXPECT_EQ(basis(dgx_a100(1), 8, full(1)), "ring LL, 8 ranks on 1 node");
  EXPECT_EQ(basis(dgx_a100(1), 1 << 30, full(1)), "ring Simple, 8 ranks on 1 node");
  EXPECT_EQ(basis(dgx_h100(1), 1 << 30, full(1)), "NVLS, 8 ranks on 1 node");
  EXPECT_THAT(basis(dgx_h100(1), 1 << 30, full(1, 4)), HasSubstr("ring Simple"));
  EXPECT_THAT(basis(dgx_h100(2), 1 << 30, full(2)), HasSubstr("NVLS tree"));
  EXPECT_THAT(basis(dgx_a100(64), 1 << 16, full(64)), HasSubstr("tree LL"));
  EXPECT_THAT(basis(dgx_a100(64), int64_t{1} << 32, full(64)), HasSubstr("ring"));
  GroupShape shared = full(4, 1);
  shared.sharing = 8;
  EXPECT_THAT(basis(dgx_a100(4), 1 << 20, shared), HasSubstr("NICs shared by 8 groups"));
}

TEST(CollectiveCost, SlopeOfTwoNodesOverSlowNicsIsThatOfATree) {
  Cluster p4 = dgx_a100(2);
  p4.node.nics = 4;
  p4.node.nic_bandwidth = {12.5e9};
  const auto cost = collective_cost(p4, all_reduce, kGiB, full(2));
  EXPECT_THAT(cost.basis, HasSubstr("tree"));
  // Measured on two p4de: 78 GB/s bus over a 50 GB/s wire (aws-samples).
  EXPECT_NEAR(slope(p4, all_reduce, full(2)) * 2 * 15 / 16, 78e9, 8e9);
}

TEST(CollectiveCost, GrowsWithTheMessage) {
  for (WorkKind kind : kKinds) {
    for (int64_t nodes : {1, 2, 16}) {
      Time last{};
      for (int64_t bytes = 0; bytes < kGiB.value * 4; bytes = bytes * 3 / 2 + 1) {
        const Time t = collective_cost(dgx_h100(16), kind, {bytes}, full(nodes)).time;
        ASSERT_GE(t, last) << name_of(kind) << " " << nodes << " nodes, " << bytes << " B";
        last = t;
      }
    }
  }
}

TEST(CollectiveCost, FasterPartsNeverCostMore) {
  const GroupShape s = full(4);
  for (WorkKind kind : kKinds) {
    for (int64_t bytes : {1 << 10, 1 << 20, 1 << 30}) {
      const Cluster base = dgx_h100(4);
      const Time t = collective_cost(base, kind, {bytes}, s).time;
      Cluster c = base;
      c.node.nic_bandwidth = base.node.nic_bandwidth * 2;
      EXPECT_LE(collective_cost(c, kind, {bytes}, s).time, t);
      c = base;
      c.node.intra_bandwidth = base.node.intra_bandwidth * 2;
      EXPECT_LE(collective_cost(c, kind, {bytes}, s).time, t);
      c = base;
      c.node.nic_latency = base.node.nic_latency / 2;
      EXPECT_LT(collective_cost(c, kind, {bytes}, s).time, t);
      c = base;
      c.node.intra_latency = base.node.intra_latency / 2;
      EXPECT_LE(collective_cost(c, kind, {bytes}, s).time, t);
    }
  }
}

TEST(CollectiveCost, ScalesWithBandwidthExceptForSoftware) {
  for (WorkKind kind : kKinds) {
    for (const GroupShape& s : {full(1), full(4), full(4, 1)}) {
      const Cluster slow = dgx_a100(4);
      Cluster fast = slow;
      fast.node.intra_bandwidth = slow.node.intra_bandwidth * 4;
      fast.node.nic_bandwidth = slow.node.nic_bandwidth * 4;
      fast.node.intra_latency = slow.node.intra_latency / 4;
      fast.node.nic_latency = slow.node.nic_latency / 4;
      fast.fabric.hop_latency = slow.fabric.hop_latency / 4;
      EXPECT_NEAR(slope(fast, kind, s) / slope(slow, kind, s), 4, 1e-3) << name_of(kind);
      EXPECT_GE(seconds(fast, kind, kGiB, s), seconds(slow, kind, kGiB, s) / 4);
    }
  }
}

TEST(CollectiveCost, GroupsThatShareNicsGetTheirPart) {
  GroupShape alone = full(4, 1);
  GroupShape shared = alone;
  shared.sharing = 8;
  EXPECT_EQ(slope(dgx_a100(4), all_gather, alone), slope(dgx_a100(4), all_gather, shared))
      << "a lone rank has no more than the NIC beside it";
  Cluster half = dgx_a100(4);
  half.node.nics = 4;
  EXPECT_NEAR(slope(half, all_gather, alone) / slope(half, all_gather, shared), 2, 1e-6);
  EXPECT_NEAR(slope(dgx_a100(4), all_gather, shared) * 3 / 4, 24e9, 1e6);
  GroupShape two = full(4, 2);
  two.sharing = 4;
  EXPECT_NEAR(slope(dgx_a100(4), all_gather, two) * 7 / 8, 48e9, 1e6);
}

TEST(CollectiveCost, OversubscriptionSlowsARingOnlyIfFewNodesLieBelow) {
  const Cluster c = grand_teton(768);
  GroupShape s = full(16, 1);
  s.tier = 2;
  s.block_nodes = {2, 8};  // 8 nodes a pod, 1:7 above: the one crossing hop fits
  GroupShape inside = s;
  inside.tier = 1;
  EXPECT_DOUBLE_EQ(slope(c, all_gather, s), slope(c, all_gather, inside));
  s.block_nodes = {1, 1};  // every hop crosses
  EXPECT_NEAR(slope(c, all_gather, inside) / slope(c, all_gather, s), 7, 1e-6);
  s.block_nodes = {1, 2};
  EXPECT_NEAR(slope(c, all_gather, inside) / slope(c, all_gather, s), 3.5, 1e-6);
}

TEST(CollectiveCost, OversubscriptionSlowsPairwiseExchangeByWhatCrosses) {
  const Cluster c = grand_teton(768);
  GroupShape s = full(16, 1);
  s.tier = 2;
  s.block_nodes = {2, 8};  // half of the peers are in the other pod
  GroupShape inside = s;
  inside.tier = 1;
  inside.block_nodes = {2};
  const double nic = 0.90 * 50e9;
  EXPECT_NEAR(slope(c, all_to_all, inside), nic * 16 / 15, 1e6);
  EXPECT_NEAR(slope(c, all_to_all, s), nic * 16 / (8 * 7), 1e6);
}

TEST(CollectiveCost, MeshAndPcieNodesAreSlower) {
  Cluster mesh = dgx_a100(1);
  mesh.node.intra = IntraKind::nvlink_mesh;
  mesh.node.gpus = 4;
  // Measured: 213 GB/s bus (openfabric-systems/simllm).
  EXPECT_NEAR(slope(mesh, all_reduce, full(1, 4)) * 2 * 3 / 4, 213e9, 1e6);
  EXPECT_NEAR(slope(mesh, all_gather, full(1, 2)) / 2, 71e9, 1e6) << "4 of 12 links";
  Cluster pcie = dgx_a100(1);
  pcie.node.intra = IntraKind::pcie;
  pcie.node.intra_bandwidth = {31.5e9};
  EXPECT_NEAR(slope(pcie, all_reduce, full(1)) * 2 * 7 / 8, 23.94e9, 1e6);
  for (const Alternative& a : alternatives(pcie, all_reduce, full(1))) {
    EXPECT_THAT(a.name, ::testing::Not(HasSubstr("LL128")));
  }
}

TEST(CollectiveCost, DgxOneMatchesItsMeasuredBusBandwidth) {
  Cluster c = dgx_a100(1);
  c.node.gpu.arch = GpuArch::volta;
  c.node.intra = IntraKind::nvlink_mesh;
  c.node.intra_bandwidth = {150e9};
  EXPECT_NEAR(slope(c, all_reduce, full(1)) * 2 * 7 / 8, 135.5e9, 1e9);
}

TEST(CollectiveCost, UnknownArchitectureHasNoInSwitchReduction) {
  Cluster c = dgx_h100(1);
  c.node.gpu.arch = GpuArch::other;
  EXPECT_THAT(collective_cost(c, all_reduce, kGiB, full(1)).basis, HasSubstr("ring"));
}

TEST(CollectiveCost, GroupOfOneIsFreeAndEmptyMessagesCostTheirLatency) {
  EXPECT_EQ(collective_cost(dgx_a100(1), all_reduce, kGiB, full(1, 1)).time, Time{});
  EXPECT_EQ(collective_cost(dgx_a100(1), all_reduce, {0}, full(1)).time,
            test::microseconds(6.6 + 14 * 0.6));
}

TEST(CollectiveCost, WrongCallsAreBugs) {
  const Cluster c = dgx_a100(2);
  EXPECT_THROW(collective_cost(c, send_recv, kGiB, full(2)), InternalError);
  EXPECT_THROW(collective_cost(c, gemm, kGiB, full(2)), InternalError);
  EXPECT_THROW(collective_cost(c, all_reduce, {-1}, full(2)), InternalError);
  Cluster no_nics = c;
  no_nics.node.nics = 0;
  EXPECT_THROW(collective_cost(no_nics, all_reduce, kGiB, full(2)), InternalError);
  Cluster no_links = c;
  no_links.node.intra_bandwidth = {};
  EXPECT_THROW(collective_cost(no_links, all_reduce, kGiB, full(1)), InternalError);
}

TEST(TransferCost, InsideANodeIsNvlink) {
  const Cluster c = dgx_a100(2);
  const auto cost = transfer_cost(c, 0, 5, {0});
  EXPECT_EQ(cost.time, test::microseconds(8.4 + 3.4));
  EXPECT_EQ(cost.basis, "send/recv inside a node");
  // Measured: 195 GB/s at 1 GiB (li-plus/playground).
  EXPECT_NEAR(kGiB.value / to_seconds(transfer_cost(c, 0, 5, kGiB).time), 195e9, 1e9);
}

TEST(TransferCost, BetweenNodesIsTheGpusShareOfTheNics) {
  const Cluster c = dgx_h100(64);
  // Measured: 35.6 GB/s at 40 MB between two nodes (microsoft/vidur).
  EXPECT_NEAR(kGiB.value / to_seconds(transfer_cost(c, 0, 8, kGiB).time), 35.6e9, 0.5e9);
  EXPECT_EQ(transfer_cost(c, 0, 8, {0}).time, test::microseconds(8.4 + 14 + 2 * 0.2));
  EXPECT_EQ(transfer_cost(c, 0, 256, {0}).basis, "send/recv between nodes, 3 switches");
  Cluster half = c;
  half.node.nics = 4;
  const auto by_bytes = [](const Cluster& cluster) {
    return transfer_cost(cluster, 0, 8, kGiB).time - transfer_cost(cluster, 0, 8, {0}).time;
  };
  EXPECT_NEAR(to_seconds(by_bytes(half)) / to_seconds(by_bytes(c)), 2, 1e-6);
}

TEST(TransferCost, IsDividedByTheOversubscriptionCrossed) {
  const Cluster c = grand_teton(768);
  const auto by_bytes = [&](int64_t to) {
    return to_seconds(transfer_cost(c, 0, to, kGiB).time - transfer_cost(c, 0, to, {0}).time);
  };
  EXPECT_NEAR(by_bytes(3072) / by_bytes(16), 7, 1e-6);
}

TEST(TransferCost, IsSymmetricGrowsAndIsFreeToOneself) {
  const Cluster c = grand_teton(768);
  for (int64_t to : {1, 8, 17, 5000}) {
    Time last{};
    for (int64_t bytes = 0; bytes < kGiB.value; bytes = bytes * 7 + 1) {
      const Time t = transfer_cost(c, 0, to, {bytes}).time;
      ASSERT_EQ(t, transfer_cost(c, to, 0, {bytes}).time);
      ASSERT_GE(t, last);
      last = t;
    }
  }
  EXPECT_EQ(transfer_cost(c, 4, 4, kGiB).time, Time{});
  EXPECT_THROW(transfer_cost(c, 0, 6144, kGiB), InternalError);
  EXPECT_THROW(transfer_cost(c, 0, 1, {-1}), InternalError);
}

}  // namespace
}  // namespace stepcast
