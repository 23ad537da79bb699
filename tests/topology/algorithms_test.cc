// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/diagnostic.h"
#include "tests/topology/clusters.h"

namespace stepcast::algorithms_test {
namespace {

using test::dgx_a100;
using test::dgx_b200;
using test::dgx_h100;
using test::full;
using test::nvl72;
using enum WorkKind;

const Candidate& candidate_of(const std::vector<Candidate>& all, Algorithm algorithm,
                              Protocol protocol = Protocol::simple) {
  for (const Candidate& a : all) {
    if (a.algorithm == algorithm && a.protocol == protocol) return a;
  }
  throw std::runtime_error("no such candidate");
}

// NCCL's bus bandwidth of a large message in GB/s: of rings 2(n-1)/n times what the message gets.
double own_bus(const Cluster& c, WorkKind kind, const GroupShape& s, Algorithm algorithm) {
  const auto n = static_cast<double>(s.ranks);
  const double factor = kind == all_reduce ? 2 * (n - 1) / n : kind == broadcast ? 1 : (n - 1) / n;
  return candidate_of(candidates(c, kind, s), algorithm).nccl_bandwidth * factor / 1e9;
}

// Names for people may be reworded, but keys of factors that were fitted stand in a file: where the
// two differ, this says so.
TEST(Algorithms, HaveTheNameThatTheFileOfFactorsHas) {
  for (int i = 0; i <= static_cast<int>(Algorithm::two_step); ++i) {
    const auto a = static_cast<Algorithm>(i);
    EXPECT_EQ(correction_class(a), a == Algorithm::none ? "" : name_of(a));
  }
}

// Bandwidths that NCCL prints for these machines.
TEST(Algorithms, OwnBandwidthsAreThoseOfNcclsSearch) {
  EXPECT_NEAR(own_bus(dgx_a100(1), all_reduce, full(1), Algorithm::ring), 240, 1);
  EXPECT_NEAR(own_bus(dgx_a100(1), all_gather, full(1), Algorithm::ring), 240, 1);
  EXPECT_NEAR(own_bus(dgx_a100(1), broadcast, full(1), Algorithm::ring), 240, 1);
  EXPECT_NEAR(own_bus(dgx_a100(4), all_reduce, full(4), Algorithm::ring), 192, 1);
  EXPECT_NEAR(own_bus(dgx_h100(1), all_reduce, full(1), Algorithm::ring), 360, 1);
  EXPECT_NEAR(own_bus(dgx_h100(4), all_gather, full(4), Algorithm::ring), 384, 1);
  EXPECT_NEAR(own_bus(dgx_h100(1), all_reduce, full(1), Algorithm::nvls), 476, 1);
  EXPECT_NEAR(own_bus(dgx_h100(2), all_reduce, full(2), Algorithm::nvls_tree), 462, 1);
  EXPECT_NEAR(own_bus(dgx_h100(4), all_reduce, full(4), Algorithm::nvls_tree), 364, 1);
  EXPECT_NEAR(own_bus(dgx_b200(1), all_reduce, full(1), Algorithm::ring), 720, 1);
  EXPECT_NEAR(own_bus(nvl72(1), all_reduce, full(1, 72), Algorithm::nvls), 918, 1);
}

TEST(Algorithms, ThreadBlocksAreThoseOfNcclsChannels) {
  const auto blocks = [](const Cluster& c, const GroupShape& s, Algorithm algorithm) {
    return candidate_of(candidates(c, all_reduce, s), algorithm).blocks;
  };
  EXPECT_EQ(blocks(dgx_a100(1), full(1), Algorithm::ring), 24);
  EXPECT_EQ(blocks(dgx_a100(2), full(2), Algorithm::ring), 16);
  EXPECT_EQ(blocks(dgx_h100(1), full(1), Algorithm::ring), 24);
  EXPECT_EQ(blocks(dgx_h100(2), full(2), Algorithm::ring), 16);
  EXPECT_EQ(blocks(dgx_h100(1), full(1), Algorithm::nvls), 16);
  EXPECT_EQ(blocks(dgx_b200(1), full(1), Algorithm::ring), 32);
  EXPECT_EQ(blocks(dgx_b200(1), full(1), Algorithm::nvls), 24);
  EXPECT_EQ(blocks(dgx_b200(2), full(2), Algorithm::nvls_tree), 32);
}

TEST(Algorithms, SmallMessagesStartFewerThreadBlocks) {
  const GroupShape s = full(1);
  const auto all = candidates(dgx_a100(1), all_reduce, s);
  const Candidate& simple = candidate_of(all, Algorithm::ring);
  EXPECT_EQ(blocks_in_use(simple, s, 1), 1);
  EXPECT_EQ(blocks_in_use(simple, s, 1 << 17), 4);  // 512 threads, 64 bytes each
  EXPECT_EQ(blocks_in_use(simple, s, 1 << 30), 24);
}

constexpr uint32_t kRing = 1U << static_cast<uint32_t>(Algorithm::ring);

// Software of NICs that cannot promise the order of stores leaves no LL, that of TCPX rings alone;
// inside a node nothing changes.
TEST(Algorithms, SoftwareOfTheNicsLeavesWhatItCanDo) {
  Cluster c = dgx_h100(2);
  const auto found = [&](const GroupShape& s, Algorithm algorithm, Protocol protocol) {
    return std::ranges::any_of(candidates(c, all_reduce, s), [&](const Candidate& a) {
      return a.algorithm == algorithm && a.protocol == protocol;
    });
  };
  EXPECT_TRUE(found(full(2), Algorithm::tree, Protocol::ll));
  c.node.nic_driver = NicDriver::efa_v1;
  EXPECT_FALSE(found(full(2), Algorithm::tree, Protocol::ll));
  EXPECT_FALSE(found(full(2), Algorithm::ring, Protocol::ll128));
  EXPECT_TRUE(found(full(2), Algorithm::tree, Protocol::simple));
  EXPECT_TRUE(found(full(1), Algorithm::tree, Protocol::ll));
  c.node.nic_driver = NicDriver::tcpxo;
  EXPECT_FALSE(found(full(2), Algorithm::tree, Protocol::ll));
  EXPECT_TRUE(found(full(2), Algorithm::tree, Protocol::ll128));
  c.node.nic_driver = NicDriver::tcpx;
  EXPECT_FALSE(found(full(2), Algorithm::tree, Protocol::simple));
  EXPECT_TRUE(found(full(2), Algorithm::ring, Protocol::simple));
}

TEST(Algorithms, AChoiceOfAlgorithmHoldsForAllReduces) {
  const NcclSetup rings{.algorithms = kRing};
  for (const Candidate& a : candidates(dgx_h100(2), all_reduce, full(2), rings))
    EXPECT_EQ(a.algorithm, Algorithm::ring);
  EXPECT_EQ(candidates(dgx_h100(2), all_gather, full(2, 1), rings).size(),
            candidates(dgx_h100(2), all_gather, full(2, 1)).size());
}

// Who sets the variables overrules what the NICs' software would set, as with protocols.
TEST(Algorithms, AStatedChoiceReplacesThatOfTheNicsSoftware) {
  Cluster c = dgx_h100(2);
  c.node.nic_driver = NicDriver::tcpx;
  const NcclSetup trees{.algorithms = 1U << static_cast<uint32_t>(Algorithm::tree)};
  for (const Candidate& a : candidates(c, all_reduce, full(2), trees)) {
    EXPECT_EQ(a.algorithm, Algorithm::tree);
    EXPECT_EQ(a.protocol, Protocol::simple);
  }
}

TEST(Algorithms, AChoiceThatLeavesNothingIsRefused) {
  const NcclSetup switches{.algorithms = 1U << static_cast<uint32_t>(Algorithm::nvls)};
  try {
    candidates(dgx_a100(2), all_reduce, full(2), switches);
    FAIL() << "NVLS on A100";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.front().message,
              "NCCL_ALGO and NCCL_PROTO leave no way to run all_reduce on 16 ranks of 2 nodes");
  }
}

// 16 NICs of 100 Gb/s beside 8 GPUs: 8 channels of 24 GB/s or 16 of 12, of one wire.
TEST(Algorithms, PortsThatAreNotMergedHaveChannelsOfTheirOwn) {
  Cluster c = dgx_a100(2);
  c.node.nics = 16;
  c.node.nic_bandwidth = {12.5e9};
  const auto ring = [&](const NcclSetup& setup) {
    return candidate_of(candidates(c, all_reduce, full(2), setup), Algorithm::ring);
  };
  const Candidate merged = ring({}), apart = ring({.merges_ports = false});
  EXPECT_EQ(merged.blocks, 16);
  EXPECT_EQ(apart.blocks, 32);
  EXPECT_DOUBLE_EQ(apart.wire, merged.wire);
}

// Hopper needs no flush (NCCL), so that a slow NIC costs a hop by Simple as much as one by LL.
TEST(Algorithms, AFlushIsPaidUpToAmpere) {
  for (const auto& [c, times] : {std::pair{dgx_a100(2), 2.0}, std::pair{dgx_h100(2), 1.0}}) {
    Cluster slow = c;
    slow.node.nic_latency += test::microseconds(10);
    const auto network = [](const Cluster& on) {
      return candidate_of(candidates(on, all_gather, full(2)), Algorithm::ring).network;
    };
    EXPECT_NEAR(network(slow) - network(c), times * 10e-6, 1e-9);
  }
}

TEST(Algorithms, NcclPicks) {
  const auto pick = [](const Cluster& c, const GroupShape& s, double bytes,
                       WorkKind kind = all_reduce) {
    const auto all = candidates(c, kind, s);
    const Candidate& a = nccl_choice(all, kind, bytes);
    return std::string(name_of(a.algorithm)) + " " + std::string(name_of(a.protocol));
  };
  constexpr double kLarge = 1 << 30;
  EXPECT_EQ(pick(dgx_a100(1), full(1), 8), "ring LL");
  // The example that algorithms.cc begins with.
  EXPECT_EQ(pick(dgx_a100(2), full(2), 1 << 30), "ring Simple");
  EXPECT_EQ(pick(dgx_a100(2), full(2), 1 << 16), "tree LL");
  const std::vector<Candidate> two = candidates(dgx_a100(2), all_reduce, full(2));
  const auto microseconds = [&](Algorithm algorithm, Protocol protocol, double bytes) {
    return 1e6 * nccl_seconds(candidate_of(two, algorithm, protocol), all_reduce, bytes);
  };
  EXPECT_NEAR(microseconds(Algorithm::ring, Protocol::simple, 1 << 30), 10'670, 5);
  EXPECT_NEAR(microseconds(Algorithm::tree, Protocol::simple, 1 << 30), 11'470, 5);
  EXPECT_NEAR(microseconds(Algorithm::tree, Protocol::ll, 1 << 16), 35, 0.5);
  EXPECT_NEAR(microseconds(Algorithm::ring, Protocol::ll, 1 << 16), 46, 0.6);
  EXPECT_EQ(pick(dgx_a100(1), full(1), kLarge), "ring Simple");
  EXPECT_EQ(pick(dgx_a100(64), full(64), 1 << 16), "tree LL");
  EXPECT_EQ(pick(dgx_a100(64), full(64), 64 * kLarge), "ring Simple");
  EXPECT_EQ(pick(dgx_h100(1), full(1), kLarge), "NVLS Simple");
  EXPECT_EQ(pick(dgx_h100(1), full(1, 4), kLarge), "ring Simple") << "NVLS pays from five GPUs on";
  EXPECT_EQ(pick(dgx_h100(1), full(1, 5), kLarge), "NVLS Simple");
  EXPECT_EQ(pick(dgx_h100(2), full(2), kLarge), "NVLS tree Simple");
  EXPECT_EQ(pick(dgx_h100(1), full(1), kLarge, all_gather), "ring Simple");
  EXPECT_EQ(pick(dgx_h100(16), full(16, 1), 1 << 20, reduce_scatter), "PAT Simple");
}

TEST(Algorithms, SwitchesOfTheNetworkReduceOnlyWhereTheyMay) {
  Cluster c = dgx_h100(8);
  const auto has = [&](Algorithm algorithm) {
    for (const Candidate& a : candidates(c, all_reduce, full(8))) {
      if (a.algorithm == algorithm) return true;
    }
    return false;
  };
  EXPECT_FALSE(has(Algorithm::collnet_direct));
  EXPECT_FALSE(has(Algorithm::nvls));
  c.fabric.sharp = true;
  EXPECT_TRUE(has(Algorithm::collnet_direct));
  EXPECT_TRUE(has(Algorithm::collnet_chain));
  EXPECT_TRUE(has(Algorithm::nvls));
  EXPECT_NEAR(own_bus(c, all_reduce, full(8), Algorithm::nvls), 384, 1);
}

TEST(Algorithms, TreesAreSlowerInTheMiddleOfTheirRange) {
  const auto all = candidates(dgx_a100(2), all_reduce, full(2));
  const Candidate& tree = candidate_of(all, Algorithm::tree);
  const double line = tree.nccl_latency + (1 << 18) / tree.nccl_bandwidth;
  EXPECT_GT(nccl_seconds(tree, all_reduce, 1 << 18), line);
  EXPECT_EQ(nccl_seconds(candidate_of(all, Algorithm::ring), all_gather, 8),
            candidate_of(all, Algorithm::ring).nccl_latency +
                8 / candidate_of(all, Algorithm::ring).nccl_bandwidth);
}

}  // namespace
}  // namespace stepcast::algorithms_test
