// SPDX-License-Identifier: Apache-2.0
// Prices of what only experts need: grouped products, waiting for the busiest rank, exchanges in
// two hops.
#include <gtest/gtest.h>

#include <vector>

#include "calibrate/price/price_graph.h"
#include "sim/graph/work.h"
#include "tests/calibrate/works.h"

namespace stepcast::expert_prices_test {
namespace {

using test::a100_cluster;
using test::collective;
using test::gemm;

Work grouped(int64_t groups, int64_t m, int64_t n, int64_t k, GemmLayout layout = GemmLayout::tn) {
  Work w = gemm(m, n, k, layout, groups);
  w.kind = WorkKind::grouped_gemm;
  return w;
}

std::vector<Price> price_all(std::vector<Work> works, const RankGrid& grid = {}) {
  OpGraph graph;
  graph.works = std::move(works);
  const Cluster cluster = a100_cluster(4);
  return price(graph, cluster, grid, shipped_table("a100-sxm-80g")).by_work;
}

TEST(GroupedGemm, IsTheMeasuredRowOfBatchedProducts) {
  const auto p =
      price_all({grouped(40, 616, 3072, 5120), gemm(616, 3072, 5120, GemmLayout::tn, 40)});
  EXPECT_EQ(p[0].time, p[1].time);
  EXPECT_EQ(p[0].basis, p[1].basis);
}

TEST(GroupedGemm, OfOneGroupIsAProduct) {
  const auto p = price_all({grouped(1, 4096, 4096, 4096), gemm(4096, 4096, 4096)});
  EXPECT_EQ(p[0].time, p[1].time);
}

// Far from any measured group: as one matrix, plus the other groups' weights.
TEST(GroupedGemm, WithoutRowsNearbyTakesLongerThanOneMatrixWithItsRows) {
  const auto p = price_all({grouped(2, 16384, 8192, 1024), gemm(2 * 16384, 8192, 1024)});
  EXPECT_GT(p[0].time, p[1].time);
  EXPECT_LT(p[0].time, p[1].time + p[1].time * 1 / 5);
  EXPECT_EQ(p[0].origin, Origin::extrapolated);
  EXPECT_NE(p[0].basis.find("in 2 groups"), std::string::npos);
}

TEST(GroupedGemm, GrowsWithRowsAndGroups) {
  for (const GemmLayout layout : {GemmLayout::tn, GemmLayout::nn, GemmLayout::nt}) {
    const auto p =
        price_all({grouped(8, 512, 4096, 2048, layout), grouped(8, 1024, 4096, 2048, layout),
                   grouped(16, 512, 4096, 2048, layout)});
    EXPECT_GT(p[1].time, p[0].time);
    EXPECT_GT(p[2].time, p[0].time);
  }
}

TEST(ExpertWait, IsWhatTheBusiestRankTakesLonger) {
  Work wait = grouped(8, 512, 4096, 2048);
  wait.kind = WorkKind::expert_wait;
  wait.flops = {};
  wait.busiest = 1024;
  const auto p = price_all({wait, grouped(8, 512, 4096, 2048), grouped(8, 1024, 4096, 2048)});
  EXPECT_EQ(p[0].time, p[2].time - p[1].time);
  Work weights = grouped(8, 4096, 2048, 512, GemmLayout::nt);
  weights.kind = WorkKind::expert_wait;
  weights.busiest = 1024;
  const auto q = price_all({weights, grouped(8, 4096, 2048, 512, GemmLayout::nt),
                            grouped(8, 4096, 2048, 1024, GemmLayout::nt)});
  EXPECT_EQ(q[0].time, q[2].time - q[1].time);
  Work kernel = test::kernel(Kernel::activation, 1 << 26);
  kernel.kind = WorkKind::expert_wait;
  kernel.busiest = 1 << 27;
  const auto r = price_all({kernel, test::kernel(Kernel::activation, 1 << 26),
                            test::kernel(Kernel::activation, 1 << 27)});
  EXPECT_EQ(r[0].time, r[2].time - r[1].time);
}

TEST(TwoHops, SendATokenOverTheNetworkOncePerNode) {
  const RankGrid grid{.dp = 32, .ep = 32};
  Work plain = collective(WorkKind::all_to_all, Axis::ep, 1 << 28);
  Work two = plain;
  two.m = 8;
  two.n = 256;
  Work limited = two;
  limited.k = 2;
  const auto p = price_all({plain, two, limited}, grid);
  EXPECT_LT(p[1].time, p[0].time);
  EXPECT_LT(p[2].time, p[1].time);
  EXPECT_EQ(p[1].algorithm, Algorithm::two_step);
  // 8 of 256 experts lie on 7.27 of 32 ranks and 3.61 of 4 nodes.
  EXPECT_NEAR(expected_destinations(32, 256, 8), 7.27, 0.01);
  EXPECT_NEAR(expected_destinations(4, 256, 8), 3.61, 0.01);
}

TEST(TwoHops, InsideANodeAreOne) {
  const RankGrid grid{.dp = 8, .ep = 8};
  Work two = collective(WorkKind::all_to_all, Axis::ep, 1 << 26);
  two.m = 8;
  two.n = 256;
  Work limited = two;
  limited.k = 1;
  const auto p = price_all({two, limited}, grid);
  EXPECT_EQ(p[0].time, p[1].time);
}

}  // namespace
}  // namespace stepcast::expert_prices_test
