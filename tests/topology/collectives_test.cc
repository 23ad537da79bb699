// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/check.h"
#include "tests/topology/clusters.h"
#include "topology/nccl/algorithms.h"
#include "topology/nccl/collective_time.h"

namespace stepcast::collectives_test {
namespace {

using test::dgx_a100;
using test::dgx_b200;
using test::dgx_h100;
using test::full;
using test::grand_teton;
using ::testing::HasSubstr;
using enum WorkKind;

constexpr Bytes kGiB{int64_t{1} << 30};
constexpr std::array kKinds{all_reduce, all_gather, reduce_scatter, all_to_all, broadcast};

double seconds(const Cluster& c, WorkKind kind, Bytes bytes, const GroupShape& s) {
  return to_seconds(collective_cost(c, kind, bytes, s).time);
}

// Bytes per second of a very large message, by its slope.
double slope(const Cluster& c, WorkKind kind, const GroupShape& s) {
  const Bytes half{kGiB.value << 19};  // so large that filling the pipeline no longer counts
  return static_cast<double>(half.value) /
         (seconds(c, kind, half * 2, s) - seconds(c, kind, half, s));
}

TEST(CollectiveCost, SaysHowItRuns) {
  const auto basis = [](const Cluster& c, int64_t bytes, const GroupShape& s) {
    return collective_cost(c, all_reduce, {bytes}, s).basis;
  };
  EXPECT_EQ(basis(dgx_a100(1), 8, full(1)),
            "tree LL (NCCL: ring LL), 1 channel, 8 ranks on 1 node");
  EXPECT_EQ(basis(dgx_a100(1), 1 << 30, full(1)), "ring Simple, 24 channels, 8 ranks on 1 node");
  EXPECT_EQ(basis(dgx_h100(1), 1 << 30, full(1)), "NVLS, 16 channels, 8 ranks on 1 node");
  GroupShape shared = full(4, 1);
  shared.sharing = 8;
  EXPECT_THAT(basis(dgx_a100(4), 1 << 20, shared), HasSubstr("NICs shared by 8 groups"));
  const CommunicationCost cost = collective_cost(dgx_h100(2), all_reduce, kGiB, full(2));
  EXPECT_EQ(cost.algorithm, Algorithm::nvls_tree);
  EXPECT_EQ(cost.blocks, 16);
  EXPECT_GT(cost.latency, Time{});
  EXPECT_LT(cost.latency, cost.time);
}

TEST(CollectiveCost, LargeMessagesReachWhatIsMeasured) {
  const auto bus = [](const Cluster& c, const GroupShape& s) {
    const auto n = static_cast<double>(s.ranks);
    return slope(c, all_reduce, s) * 2 * (n - 1) / n / 1e9;
  };
  EXPECT_NEAR(bus(dgx_a100(1), full(1)), 235, 12) << "microsoft/superbenchmark";
  EXPECT_NEAR(bus(dgx_a100(4), full(4)), 191, 10) << "NVIDIA/deepops";
  EXPECT_NEAR(bus(dgx_h100(1), full(1)), 480, 24) << "NVIDIA/dgxc-benchmarking";
  EXPECT_NEAR(bus(dgx_h100(2), full(2)), 475, 24) << "oracle-quickstart, nebius";
  // A known miss: 684 and 703 were measured (dstackai/dstack), a tenth less than the model says.
  EXPECT_GE(bus(dgx_b200(2), full(2)), 684);
  EXPECT_LE(bus(dgx_b200(2), full(2)), 1.10 * 703);
}

TEST(CollectiveCost, TheNodeWithFewestRanksHasFewestNics) {
  GroupShape even = full(2, 6);
  GroupShape uneven = even;  // 8 and 4
  uneven.ranks_per_node = 8;
  uneven.fewest_per_node = 4;
  EXPECT_NEAR(slope(dgx_a100(2), all_gather, even) / slope(dgx_a100(2), all_gather, uneven), 1.5,
              0.01);
}

TEST(Exchange, SmallMessagesGoByLl) {
  const auto protocol = [](int64_t bytes, const GroupShape& s) {
    const auto all = candidates(dgx_h100(2), all_to_all, s);
    return nccl_choice(all, all_to_all, static_cast<double>(bytes)).protocol;
  };
  const int64_t bound = 8 * (512 << 10);  // 32 channels to each of 8 peers, 16 KiB each
  EXPECT_EQ(protocol(0, full(1)), Protocol::ll);
  EXPECT_EQ(protocol(bound, full(1)), Protocol::ll);
  EXPECT_EQ(protocol(bound + 1, full(1)), Protocol::simple);
  EXPECT_EQ(protocol(1 << 10, full(2)), Protocol::ll);
  EXPECT_EQ(protocol(1 << 30, full(2)), Protocol::simple);
  const auto time = [](int64_t bytes) {
    return collective_cost(dgx_h100(1), all_to_all, {bytes}, full(1)).time;
  };
  EXPECT_GT(time(bound), time(bound + 1)) << "measured on GB300: 38 us for 4 MiB, 34 for 8";
}

TEST(ExpertExchange, CrossesTheNetworkOnceForANode) {
  const Cluster c = dgx_h100(8);
  const GroupShape s = full(8);
  const auto time = [&](double share) {
    return to_seconds(expert_exchange_cost(c, kGiB * 64, s, share).time);
  };
  EXPECT_EQ(expert_exchange_cost(c, kGiB, s, 0.5).algorithm, Algorithm::two_step);
  EXPECT_NEAR(time(1), seconds(c, all_to_all, kGiB * 64, s), 0.1 * time(1));
  EXPECT_NEAR(time(1) / time(0.5), 2, 0.05);
  EXPECT_GT(time(0.01), 0.12 * time(1)) << "NVLink carries all of it";
  EXPECT_THROW(expert_exchange_cost(c, kGiB, s, 0), InternalError);
  EXPECT_THROW(expert_exchange_cost(c, kGiB, s, 1.5), InternalError);
  const GroupShape inside = full(1);
  EXPECT_NEAR(to_seconds(expert_exchange_cost(c, kGiB * 64, inside, 0.5).time),
              seconds(c, all_to_all, kGiB * 64, inside), 0.01);
}

// Not the algorithm, whose name is NCCL's pick.
TEST(CollectiveCost, TakesTheLowestOfAllAlgorithms) {
  const Cluster c = dgx_h100(4);
  const GroupShape s = full(4);
  const auto all = candidates(c, all_reduce, s);
  for (double bytes = 1024; bytes < 1e10; bytes *= 3) {
    const double t =
        cheapest_seconds(all, factors_of(all, c, all_reduce, s, shipped_corrections()), bytes);
    bool reached = false;
    for (const Candidate& a : all) {
      const Factors f = shipped_corrections().factors(correction_classes(c, all_reduce, s, a));
      EXPECT_LE(t, corrected_seconds(a, f, bytes));
      reached = reached || t == corrected_seconds(a, f, bytes);
    }
    EXPECT_TRUE(reached);
  }
}

TEST(CollectiveCost, GrowsWithTheMessage) {
  constexpr int64_t kLastLl = 8 * (512 << 10);
  for (WorkKind kind : kKinds) {
    for (int64_t nodes : {1, 2, 16}) {
      Time last{};
      int64_t before = 0;
      for (int64_t bytes = 0; bytes < kGiB.value * 4; bytes = bytes * 3 / 2 + 1) {
        const Time t = collective_cost(dgx_h100(16), kind, {bytes}, full(nodes)).time;
        // Where NCCL goes over from LL to Simple, an exchange gets faster.
        const bool other_protocol =
            kind == all_to_all && nodes == 1 && before <= kLastLl && bytes > kLastLl;
        if (!other_protocol) {
          ASSERT_GE(t, last) << name_of(kind) << " " << nodes << " nodes, " << bytes << " B";
        }
        last = t;
        before = bytes;
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
      EXPECT_NEAR(slope(fast, kind, s) / slope(slow, kind, s), 4, 0.1) << name_of(kind);
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
  EXPECT_NEAR(slope(half, all_gather, alone) / slope(half, all_gather, shared), 2, 1e-4);
  EXPECT_NEAR(slope(dgx_a100(4), all_gather, shared) * 3 / 4, 24e9, 2e9);
  GroupShape two = full(4, 2);
  two.sharing = 4;
  EXPECT_NEAR(slope(dgx_a100(4), all_gather, two) * 7 / 8, 48e9, 4e9);
}

TEST(CollectiveCost, OversubscriptionSlowsARingOnlyIfFewNodesLieBelow) {
  const Cluster c = grand_teton(768);
  GroupShape s = full(16, 1);
  s.tier = 2;
  s.block_nodes = {2, 8};  // 8 nodes a pod, 1:7 above: the one crossing hop fits
  GroupShape inside = s;
  inside.tier = 1;
  EXPECT_NEAR(slope(c, all_gather, s) / slope(c, all_gather, inside), 1, 1e-4);
  s.block_nodes = {1, 1};  // every hop crosses
  EXPECT_NEAR(slope(c, all_gather, inside) / slope(c, all_gather, s), 7, 1e-3);
  s.block_nodes = {1, 2};
  EXPECT_NEAR(slope(c, all_gather, inside) / slope(c, all_gather, s), 3.5, 1e-3);
}

TEST(CollectiveCost, OversubscriptionSlowsPairwiseExchangeByWhatCrosses) {
  const Cluster c = grand_teton(768);
  GroupShape s = full(16, 1);
  s.tier = 2;
  s.block_nodes = {2, 8};  // half of the peers are in the other pod
  GroupShape inside = s;
  inside.tier = 1;
  inside.block_nodes = {2};
  const double nic = 0.96 * 50e9;
  EXPECT_NEAR(slope(c, all_to_all, inside) / (nic * 16 / 15), 1, 0.1);
  EXPECT_NEAR(slope(c, all_to_all, s) / (nic * 16 / (8 * 7)), 1, 0.1);
}

TEST(CollectiveCost, MeshAndPcieNodesAreSlower) {
  Cluster mesh = dgx_a100(1);
  mesh.node.intra = IntraKind::nvlink_mesh;
  mesh.node.gpus = 4;
  // Measured: 213 GB/s bus (openfabric-systems/simllm).
  EXPECT_NEAR(slope(mesh, all_reduce, full(1, 4)) * 2 * 3 / 4, 213e9, 27e9);
  EXPECT_NEAR(slope(mesh, all_gather, full(1, 2)) / 2, 66e9, 6e9) << "4 of 12 links";
  Cluster pcie = dgx_a100(1);
  pcie.node.intra = IntraKind::pcie;
  pcie.node.intra_bandwidth = {31.5e9};
  EXPECT_NEAR(slope(pcie, all_reduce, full(1)) * 2 * 7 / 8, 23.94e9, 1e9);
  for (const Candidate& a : candidates(pcie, all_reduce, full(1))) {
    EXPECT_NE(a.protocol, Protocol::ll128);
  }
}

TEST(CollectiveCost, GroupsOnBothSocketsOfAPcieNodeShareTheWayBetweenThem) {
  Cluster c = dgx_a100(1);
  c.node.intra = IntraKind::pcie;
  c.node.intra_bandwidth = {31.5e9};
  GroupShape pair{2, 1, 2, -1, 1, {}};
  const double alone = slope(c, all_reduce, pair);
  pair.crossing = 4;
  EXPECT_DOUBLE_EQ(slope(c, all_reduce, pair), alone) << "the path between sockets is not known";
  c.node.cpu_bandwidth = {16e9};
  EXPECT_NEAR(slope(c, all_reduce, pair), 4e9, 0.4e9);
  EXPECT_NEAR(slope(c, all_gather, pair) / 2, 4e9, 0.4e9) << "its own half crosses nothing";
  pair.crossing = 1;
  EXPECT_NEAR(slope(c, all_reduce, pair), 16e9, 1.5e9);
  pair.crossing = 0;
  EXPECT_DOUBLE_EQ(slope(c, all_reduce, pair), alone);
  GroupShape eight = full(1);
  const double exchanged = slope(c, all_to_all, eight);
  eight.crossing = 1;
  EXPECT_LT(slope(c, all_to_all, eight), exchanged);
}

TEST(CollectiveCost, DgxOneMatchesItsMeasuredBusBandwidth) {
  Cluster c = dgx_a100(1);
  c.node.gpu.arch = GpuArch::volta;
  c.node.intra = IntraKind::nvlink_mesh;
  c.node.intra_bandwidth = {150e9};
  EXPECT_NEAR(slope(c, all_reduce, full(1)) * 2 * 7 / 8, 135.5e9, 23e9);
}

TEST(CollectiveCost, LatencyOfNicsNeverMakesThemFaster) {
  Cluster c = dgx_h100(4);
  for (NicDriver driver : {NicDriver::verbs, NicDriver::gib, NicDriver::efa, NicDriver::tcpxo,
                           NicDriver::efa_v1, NicDriver::tcpx}) {
    c.node.nic_driver = driver;
    for (int64_t bytes : {1 << 12, 1 << 20, 1 << 26, 1 << 30}) {
      Time last{};
      for (double us = 1; us < 400; us *= 1.1) {
        c.node.nic_latency = test::microseconds(us);
        const Time t = collective_cost(c, all_reduce, {bytes}, full(4)).time;
        ASSERT_GE(t, last) << us << " us, " << bytes << " B";
        last = t;
      }
    }
  }
}

TEST(CollectiveCost, WiderNvlinkNeverCostsMore) {
  for (const Cluster& base : {dgx_a100(2), dgx_h100(2), dgx_b200(2)}) {
    for (int64_t nodes : {1, 2}) {
      for (int64_t bytes : {1 << 20, 1 << 26, 1 << 30}) {
        Time last = collective_cost(base, all_reduce, {bytes}, full(nodes)).time;
        Cluster c = base;
        for (int i = 0; i < 60; ++i) {
          c.node.intra_bandwidth = c.node.intra_bandwidth * 1.05;
          const Time t = collective_cost(c, all_reduce, {bytes}, full(nodes)).time;
          ASSERT_LE(t, last) << c.node.intra_bandwidth.value << " B/s, " << bytes << " B";
          last = t;
        }
      }
    }
  }
}

// Nothing happens where a server ends and a rack begins.
TEST(CollectiveCost, LargerDomainsHaveNoStep) {
  for (int64_t bytes : {1 << 20, 1 << 26, 1 << 30}) {
    double last = 0;
    for (int64_t gpus = 8; gpus <= 72; ++gpus) {
      Cluster c = dgx_b200(2);
      c.node.gpus = c.node.nics = gpus;
      const GroupShape s{.ranks = 2 * gpus, .nodes = 2, .ranks_per_node = gpus, .tier = 0};
      const double t = seconds(c, all_reduce, {bytes}, s);
      if (last > 0) {
        EXPECT_NEAR(t / last, 1, 0.2) << gpus << " GPUs, " << bytes << " B";
      }
      last = t;
    }
  }
}

TEST(CollectiveCost, UnknownArchitectureHasNoInSwitchReduction) {
  Cluster c = dgx_h100(1);
  c.node.gpu.arch = GpuArch::other;
  EXPECT_THAT(collective_cost(c, all_reduce, kGiB, full(1)).basis, HasSubstr("ring"));
}

TEST(CollectiveCost, GroupOfOneIsFreeAndEmptyMessagesCostTheirLatency) {
  EXPECT_EQ(collective_cost(dgx_a100(1), all_reduce, kGiB, full(1, 1)).time, Time{});
  const CommunicationCost empty = collective_cost(dgx_a100(1), all_reduce, {0}, full(1));
  EXPECT_EQ(empty.time, empty.latency);
  EXPECT_NEAR(to_seconds(empty.time), 20e-6, 8e-6);
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
}  // namespace stepcast::collectives_test
