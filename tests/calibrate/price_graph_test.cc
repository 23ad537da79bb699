// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/price_graph.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibrate/price/roofline.h"
#include "tests/calibrate/works.h"
#include "topology/nccl/collectives.h"

namespace stepcast::price_graph_test {
namespace {

using test::a100_cluster;
using test::collective;
using test::gemm;
using test::kernel;

Work send(uint16_t from, uint16_t to, int64_t bytes) {
  Work w = collective(WorkKind::send_recv, Axis::pp, bytes);
  w.from = from;
  w.to = to;
  return w;
}

Prices price_all(std::vector<Work> works, const Cluster& cluster, const RankGrid& grid,
                 const CostTable* table) {
  OpGraph graph;
  graph.works = std::move(works);
  return price(graph, cluster, grid, table);
}

const RankGrid kGrid{.tp = 8, .pp = 2};

TEST(Price, WithoutATableIsTheRooflineAndTheCommunicationModel) {
  const Cluster c = a100_cluster(2);
  const Work w = gemm(2048, 4096, 4096);
  const Prices p =
      price_all({w, collective(WorkKind::all_reduce, Axis::tp, 1 << 25), send(0, 1, 1 << 25)}, c,
                kGrid, nullptr);
  ASSERT_EQ(p.by_work.size(), 3u);
  EXPECT_EQ(p.by_work[0].time, roofline_time(w, c.node.gpu));
  EXPECT_EQ(p.by_work[0].origin, Origin::roofline);
  EXPECT_EQ(p.by_work[0].basis, "data sheet of a100-sxm-80g");
  const GroupShape tp = worst_shape(c, kGrid, Axis::tp);
  EXPECT_EQ(p.by_work[1].time, collective_cost(c, WorkKind::all_reduce, {1 << 25}, tp).time);
  EXPECT_EQ(p.by_work[1].origin, Origin::roofline);
  EXPECT_EQ(p.by_work[2].time, transfer_cost(c, 0, 8, {1 << 25}).time);
  EXPECT_EQ(p.by_launch, std::vector<Time>{Time{}});
}

TEST(Price, OfACommunicationIsThatOfTheNodesOnWhichItsRanksLie) {
  Cluster c = a100_cluster(4);
  c.fabric.tiers = {{"rack", 16, 1}, {"spine", 32, 4}};
  OpGraph graph;
  Work both = collective(WorkKind::all_reduce, Axis::pp, 1 << 25);
  both.to = 1;
  graph.works = {send(0, 1, 1 << 25), both, collective(WorkKind::all_reduce, Axis::pp, 1 << 25)};
  const Prices near = price(graph, c, kGrid, nullptr, {{2, 3}, 8});
  const Prices far = price(graph, c, kGrid, nullptr, {{0, 3}, 8});
  EXPECT_EQ(near.by_work[0].time, transfer_cost(c, 16, 24, {1 << 25}).time);
  EXPECT_EQ(far.by_work[0].time, transfer_cost(c, 0, 24, {1 << 25}).time);
  for (size_t w = 0; w < graph.works.size(); ++w)
    EXPECT_LT(near.by_work[w].time, far.by_work[w].time) << w;
}

// All ranks of a ring wait for its slowest pair of neighbours: here the ones on different nodes.
TEST(Price, OfAShiftIsThatOfTheSlowestNeighbours) {
  const Cluster c = a100_cluster(2);
  const auto shift = [&](const RankGrid& grid, Axis axis) {
    return price_all({collective(WorkKind::shift, axis, 1 << 25)}, c, grid, nullptr)
        .by_work[0]
        .time;
  };
  const Time inside = transfer_cost(c, 0, 1, {1 << 25}).time;
  const Time between = transfer_cost(c, 7, 8, {1 << 25}).time;
  ASSERT_LT(inside, between);
  EXPECT_EQ(shift({.cp = 8, .dp = 2}, Axis::cp), inside);
  EXPECT_EQ(shift({.cp = 16}, Axis::cp), between);
  EXPECT_EQ(shift({.cp = 16, .cp_inner = 2}, Axis::cp_inner), inside);
  EXPECT_EQ(shift({.cp = 16, .cp_inner = 8}, Axis::cp_outer),
            transfer_cost(c, 0, 8, {1 << 25}).time);
  EXPECT_EQ(shift({.tp = 16}, Axis::cp), Time{});
}

TEST(Price, OfACommunicationSaysHowItRunsAndHowLongItsLatencyIs) {
  const Cluster c = a100_cluster(2);
  const Prices p = price_all({collective(WorkKind::all_to_all, Axis::tp, 1 << 25),
                              collective(WorkKind::all_gather, Axis::tp, 1 << 30)},
                             c, kGrid, shipped_table("a100-sxm-80g"));
  EXPECT_EQ(p.by_work[0].algorithm, Algorithm::pairwise);
  EXPECT_EQ(p.by_work[1].algorithm, Algorithm::ring);
  for (const Price& price : p.by_work) {
    EXPECT_GT(price.latency, Time{});
    EXPECT_LT(price.latency, price.time);
  }
}

TEST(Price, OfACopyToTheHostIsThatOfTheSlowerDirectionMeasured) {
  TableText text;
  text.gpu = "g";
  text.sources = {{"m", false, "measured here"}};
  text.copies = {{CopyKind::h2d, 1 << 20, 40, 0, 0},
                 {CopyKind::h2d, 1 << 28, 10000, 0, 0},
                 {CopyKind::d2h, 1 << 20, 45, 0, 0},
                 {CopyKind::d2h, 1 << 28, 9000, 0, 0},
                 {CopyKind::d2d, 1 << 20, 99, 0, 0}};
  const CostTable table = CostTable::of(text);
  Work w;
  w.kind = WorkKind::host_copy;
  const auto priced = [&](int64_t bytes) {
    w.bytes = {bytes};
    return price_all({w}, a100_cluster(1), {.tp = 8}, &table).by_work[0];
  };
  EXPECT_EQ(priced(1 << 20).time, Time{45'000'000});
  EXPECT_EQ(priced(1 << 20).origin, Origin::measured);
  EXPECT_EQ(priced(1 << 28).time, Time{10'000'000'000});
  EXPECT_EQ(priced(1 << 24).origin, Origin::interpolated);
  EXPECT_EQ(priced(1 << 30).origin, Origin::extrapolated);
  EXPECT_EQ(priced(1 << 20).basis, "table g: copies d2h");
}

TEST(Price, OfACopyToTheHostComesFromTheLinkWhereNoneWasMeasured) {
  Cluster c = a100_cluster(1);
  c.node.gpu.host_bandwidth = {31.5e9};
  Work w;
  w.kind = WorkKind::host_copy;
  w.bytes = {1 << 30};
  const Prices p = price_all({w}, c, {.tp = 8}, shipped_table("a100-sxm-80g"));
  EXPECT_EQ(p.by_work[0].time, roofline_time(w, c.node.gpu));
  EXPECT_EQ(p.by_work[0].origin, Origin::roofline);
}

TEST(Price, AsksTheTableFirst) {
  const Cluster c = a100_cluster(2);
  const CostTable* table = shipped_table("a100-sxm-80g");
  ASSERT_NE(table, nullptr);
  const Prices p = price_all({gemm(2048, 4096, 4096), kernel(Kernel::add, 1 << 28),
                              collective(WorkKind::all_reduce, Axis::tp, 1 << 25),
                              collective(WorkKind::broadcast, Axis::tp, 1 << 25)},
                             c, kGrid, table);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NE(p.by_work[i].origin, Origin::roofline) << i;
    EXPECT_EQ(p.by_work[i].basis.rfind("table a100-sxm-80g: ", 0), 0u) << p.by_work[i].basis;
  }
  EXPECT_EQ(p.by_work[2].origin, Origin::measured);
  EXPECT_EQ(p.by_work[3].origin, Origin::roofline);  // no broadcast was measured
}

TEST(Price, FallsBackWhereTheTableSaysNothing) {
  const Cluster c = a100_cluster(1);
  Work w = gemm(2048, 4096, 4096);
  w.dtype = DType::fp32;
  const Prices p = price_all({w}, c, {.tp = 8}, shipped_table("a100-sxm-80g"));
  EXPECT_EQ(p.by_work[0].time, roofline_time(w, c.node.gpu));
  EXPECT_EQ(p.by_work[0].origin, Origin::roofline);
}

// What the measured GPU takes, times what the data sheets differ.
TEST(Price, OfAGpuWithOtherRatesIsThatOfItsPresetScaled) {
  Cluster c = test::a100_cluster(1);
  c.node.gpu.name = "a100-sxm-80g";
  const CostTable* table = shipped_table("a100-sxm-80g");
  Cluster other = c;
  other.node.gpu.like = MeasuredGpu(c.node.gpu);
  other.node.gpu.name = "a100-sxm-80g changed";
  other.node.gpu.memory_bandwidth = c.node.gpu.memory_bandwidth * 2;
  const std::vector<Work> works{test::gemm(4096, 4096, 4096),
                                test::kernel(Kernel::add, int64_t{1} << 30)};
  const Prices measured = price_all(works, c, {}, table);
  const Prices scaled = price_all(works, other, {}, table);
  const Prices sheet = price_all(works, c, {}, nullptr),
               other_sheet = price_all(works, other, {}, nullptr);
  for (size_t i = 0; i < works.size(); ++i) {
    EXPECT_NEAR(to_seconds(scaled.by_work[i].time) / to_seconds(measured.by_work[i].time),
                to_seconds(other_sheet.by_work[i].time) / to_seconds(sheet.by_work[i].time), 1e-6);
    EXPECT_EQ(scaled.by_work[i].origin, Origin::extrapolated);
    EXPECT_LT(scaled.by_work[i].time, measured.by_work[i].time);
  }
  EXPECT_NE(scaled.by_work[0].basis.find("data sheet of a100-sxm-80g changed over that"),
            std::string::npos);
}

// A GPU that may draw more power than the one that was measured computes faster, and does not move
// bytes faster.
TEST(Price, OfAGpuLikeAnotherHasItsOwnTableFirst) {
  Cluster c = a100_cluster(1);
  c.node.gpu.arch = GpuArch::blackwell;
  c.node.gpu.name = "b300-sxm";
  c.node.gpu.memory_bandwidth = {8000e9};
  c.node.gpu.peak = {{DType::bf16, {2250e12}}};
  c.node.gpu.sms = 148;
  c.node.gpu.power = {1100};
  Gpu b200 = c.node.gpu;
  b200.name = "b200-sxm";
  b200.power = {1000};
  const CostTable* own = shipped_table("b300-sxm");
  const std::vector<Work> works{gemm(8192, 8192, 8192), kernel(Kernel::copy, int64_t{1} << 30)};
  const Prices sheet = price_all(works, c, {}, own);
  EXPECT_EQ(sheet.by_work[0].origin, Origin::roofline);
  c.node.gpu.like = MeasuredGpu(b200);
  const Prices like = price_all(works, c, {}, own);
  Cluster other = c;
  other.node.gpu = b200;
  const Prices measured = price_all(works, other, {}, shipped_table("b200-sxm"));
  EXPECT_EQ(like.by_work[0].origin, Origin::extrapolated);
  EXPECT_LT(like.by_work[0].time, measured.by_work[0].time);
  EXPECT_GT(to_seconds(like.by_work[0].time), 0.9 * to_seconds(measured.by_work[0].time));
  EXPECT_NE(like.by_work[0].basis.find("1100 W over the 1000 W of b200-sxm"), std::string::npos);
  EXPECT_EQ(like.by_work[1].time, sheet.by_work[1].time);  // of its own table
}

TEST(Price, OfNothingIsNothing) {
  const Cluster c = a100_cluster(2);
  const Prices p = price_all({Work{}, collective(WorkKind::all_reduce, Axis::tp, 0), send(0, 1, 0),
                              collective(WorkKind::all_gather, Axis::dp, 1 << 20)},
                             c, kGrid, shipped_table("a100-sxm-80g"));
  for (const Price& each : p.by_work) {
    EXPECT_EQ(each.time, Time{});
    EXPECT_EQ(each.origin, Origin::measured);
    EXPECT_FALSE(each.basis.empty());
  }
  EXPECT_EQ(p.by_work[3].basis, "nothing to send");  // one data-parallel rank
  EXPECT_TRUE(price_all({}, c, kGrid, nullptr).by_work.empty());
}

TEST(Price, SendsBetweenTheFirstRanksOfTheStages) {
  const Cluster c = a100_cluster(4);
  const RankGrid grid{.tp = 4, .pp = 8};  // two stages a node
  const Prices p =
      price_all({send(0, 1, 1 << 26), send(1, 2, 1 << 26), send(7, 0, 1 << 26)}, c, grid, nullptr);
  EXPECT_EQ(p.by_work[0].time, transfer_cost(c, 0, 4, {1 << 26}).time);
  EXPECT_EQ(p.by_work[1].time, transfer_cost(c, 4, 8, {1 << 26}).time);
  EXPECT_EQ(p.by_work[2].time, transfer_cost(c, 28, 0, {1 << 26}).time);
  EXPECT_LT(p.by_work[0].time, p.by_work[1].time);  // NVLink against the NIC
}

TEST(Price, KnowsTheGroupsOfEachAxis) {
  const Cluster c = a100_cluster(4);
  const RankGrid grid{.tp = 8, .dp = 2, .pp = 2};
  const Prices p = price_all({collective(WorkKind::all_reduce, Axis::tp, 1 << 26),
                              collective(WorkKind::all_reduce, Axis::dp, 1 << 26),
                              collective(WorkKind::all_reduce, Axis::embedding, 1 << 26),
                              collective(WorkKind::all_reduce, Axis::model, 8)},
                             c, grid, nullptr);
  EXPECT_LT(p.by_work[0].time, p.by_work[1].time);
  for (const Price& each : p.by_work) EXPECT_GT(each.time, Time{});
}

}  // namespace
}  // namespace stepcast::price_graph_test
