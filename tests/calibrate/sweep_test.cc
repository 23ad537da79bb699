// SPDX-License-Identifier: Apache-2.0
// With a measurer and a clock of the test's own.
#include "calibrate/plan/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "calibrate/table/table_text.h"

namespace stepcast::sweep_test {
namespace {

using ::testing::ElementsAre;

SweepPoint gemm_point(int64_t size, double weight = 1, Origin origin = Origin::roofline) {
  SweepPoint p;
  p.work.kind = WorkKind::gemm;
  p.work.m = p.work.n = p.work.k = size;
  p.work.flops = {2.0 * static_cast<double>(size * size * size)};
  p.key = row_key(p);
  p.weight = weight;
  p.origin = origin;
  return p;
}

std::vector<std::string> keys(const std::vector<SweepPoint>& points) {
  std::vector<std::string> out;
  for (const SweepPoint& p : points) out.push_back(p.key);
  return out;
}

// A device on which each point takes the seconds that are set for it.
struct FakeDevice {
  double now = 100, seconds_a_point = 1;
  int interrupt_after = -1;  // points
  std::vector<std::string> measured, written;
  std::vector<std::pair<int64_t, int64_t>> progress;

  SweepHooks hooks() {
    SweepHooks h;
    h.measure = [this](const SweepPoint& p) {
      now += seconds_a_point;
      measured.push_back(p.key);
      return PointResult{{12.5}, 0.01, {}};
    };
    h.finished = [this](const SweepPoint& p, const PointResult& m) {
      written.push_back(row_text(p, m, "here"));
    };
    h.seconds = [this] { return now; };
    h.interrupted = [this] {
      return interrupt_after >= 0 && std::ssize(measured) >= interrupt_after;
    };
    h.progress = [this](int64_t done, int64_t total, double) {
      progress.emplace_back(done, total);
    };
    return h;
  }
};

TEST(Sweep, KeysAreRowsOfATableUpToTheTime) {
  EXPECT_EQ(gemm_point(4096).key, "gemm,bf16,tn,4096,4096,4096,1");

  SweepPoint experts = gemm_point(512);
  experts.work.kind = WorkKind::grouped_gemm;
  experts.work.batch = 8;
  EXPECT_EQ(row_key(experts), "gemm,bf16,tn,512,512,512,8");

  SweepPoint attention;
  attention.work.kind = WorkKind::attention_backward;
  attention.work.causal = true;
  attention.work.heads = attention.work.kv_heads = 16;
  attention.work.m = attention.work.n = 4096;
  attention.work.k = 192;
  attention.work.value_dim = 128;
  EXPECT_EQ(row_key(attention), "attention,bwd,bf16,1,16,16,4096,4096,160,1");

  SweepPoint norm;
  norm.work.kernel = Kernel::rms_norm;
  norm.work.bytes = {1 << 20};
  EXPECT_EQ(row_key(norm), "memory,rms_norm,1048576");
  EXPECT_EQ(family_of(norm.key = row_key(norm)), "memory");
  EXPECT_EQ(family_of("launch"), "launch");
}

TEST(Sweep, RowsAreReadAsATable) {
  SweepPoint launch, copy;
  launch.key = "launch";
  copy.key = "copy,h2d,1048576";
  const PointResult m{{41.25}, 0.0123, {}};
  const std::string text =
      "# stepcast cost table\n# format: 2\n# gpu: g\n# source: here measured x\n" +
      row_text(gemm_point(256), m, "here") + '\n' + row_text(launch, m, "here") + '\n' +
      row_text(copy, m, "here") + '\n';
  const TableText table = parse_table_text(text, "t", TableFile::edited);
  ASSERT_EQ(table.gemms.size(), 1U);
  EXPECT_DOUBLE_EQ(table.gemms[0].us, 41.25);
  EXPECT_DOUBLE_EQ(table.gemms[0].spread, 0.0123);
  ASSERT_EQ(table.copies.size(), 1U);
  EXPECT_DOUBLE_EQ(table.launch_us.value(), 41.25);
}

TEST(Sweep, HeavyAndUncertainPointsComeFirst) {
  const auto order = in_order({gemm_point(512, 0.1), gemm_point(513, 0.4, Origin::measured),
                               gemm_point(514, 0.4), gemm_point(515, 0.4, Origin::interpolated),
                               gemm_point(516, 0.4, Origin::extrapolated)});
  EXPECT_THAT(keys(order),
              ElementsAre(gemm_point(514).key, gemm_point(516).key, gemm_point(512).key,
                          gemm_point(515).key, gemm_point(513).key));
}

TEST(Sweep, OfEqualWorthTheCheaperPointComesFirst) {
  const auto order = in_order({gemm_point(32768), gemm_point(512)});
  EXPECT_THAT(keys(order), ElementsAre(gemm_point(512).key, gemm_point(32768).key));
}

TEST(Sweep, OrderDoesNotDependOnTheOrderGiven) {
  const std::vector<SweepPoint> points{gemm_point(512), gemm_point(520), gemm_point(528)};
  EXPECT_EQ(keys(in_order(points)), keys(in_order({points[2], points[0], points[1]})));
}

TEST(Sweep, APointGivenTwiceIsMeasuredOnceAtItsGreaterWeight) {
  const auto order = in_order({gemm_point(512, 0.1, Origin::interpolated), gemm_point(512, 0.7)});
  ASSERT_EQ(order.size(), 1U);
  EXPECT_DOUBLE_EQ(order[0].weight, 0.7);
}

TEST(Sweep, AShapeOfThePlanKeepsItsOriginThoughTheGridHasItToo) {
  const SweepPoint grid = gemm_point(512, 0.05);
  const SweepPoint light = gemm_point(512, 0.01, Origin::measured);
  const SweepPoint heavy = gemm_point(512, 0.7, Origin::extrapolated);
  EXPECT_EQ(in_order({grid, light})[0].origin, Origin::measured);
  EXPECT_EQ(in_order({light, grid})[0].origin, Origin::measured);
  EXPECT_EQ(in_order({heavy, grid})[0].origin, Origin::extrapolated);
  // What is measured already does not go before what is not.
  EXPECT_THAT(keys(in_order({grid, light, gemm_point(520, 0.05, Origin::interpolated)})),
              ElementsAre(gemm_point(520).key, grid.key));
}

TEST(Sweep, LongerCallsTakeLongerToMeasureUpToALimit) {
  EXPECT_LT(measuring_seconds(gemm_point(512)), measuring_seconds(gemm_point(16384)));
  SweepPoint known = gemm_point(512);
  known.expected_us = 1e6;  // a call of one second: five samples and three calls to warm up
  EXPECT_NEAR(measuring_seconds(known), 8.07, 0.01);
}

TEST(Sweep, MeasuresAllPointsThatTheBudgetHolds) {
  FakeDevice device;
  const std::vector<SweepPoint> points{gemm_point(512), gemm_point(520), gemm_point(528)};
  const SweepReport report = run_sweep(points, 100, device.hooks());
  EXPECT_EQ(report.measured, 3);
  EXPECT_EQ(report.left, 0);
  EXPECT_DOUBLE_EQ(report.seconds, 3);
  EXPECT_EQ(device.measured, keys(points));
  EXPECT_THAT(device.written, ElementsAre("gemm,bf16,tn,512,512,512,1,12.5,here,0.01",
                                          "gemm,bf16,tn,520,520,520,1,12.5,here,0.01",
                                          "gemm,bf16,tn,528,528,528,1,12.5,here,0.01"));
  EXPECT_EQ(device.progress.back(), std::pair(int64_t{3}, int64_t{3}));
}

TEST(Sweep, StopsAtTheBudgetByWhatPointsHaveTaken) {
  FakeDevice device;
  device.seconds_a_point = 10;  // far more than estimated: learnt from the first
  std::vector<SweepPoint> points;
  for (int64_t i = 0; i < 20; ++i) points.push_back(gemm_point(512 + 8 * i));
  const SweepReport report = run_sweep(points, 35, device.hooks());
  EXPECT_EQ(report.measured, 3);
  EXPECT_EQ(report.left, 17);
  EXPECT_LE(report.seconds, 35);
}

TEST(Sweep, LeavesOutWhatIsTooLongAndTriesShorterOnes) {
  FakeDevice device;
  device.seconds_a_point = 0.1;
  SweepPoint huge = gemm_point(1024);
  huge.expected_us = 60e6;
  const SweepReport report = run_sweep({huge, gemm_point(512)}, 5, device.hooks());
  EXPECT_EQ(report.measured, 1);
  EXPECT_EQ(report.left, 1);
  EXPECT_THAT(device.measured, ElementsAre(gemm_point(512).key));
}

TEST(Sweep, AnInterruptionEndsItAfterThePoint) {
  FakeDevice device;
  device.interrupt_after = 2;
  const SweepReport report =
      run_sweep({gemm_point(512), gemm_point(520), gemm_point(528)}, 100, device.hooks());
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.measured, 2);
  EXPECT_EQ(report.left, 1);
  EXPECT_EQ(device.written.size(), 2U);
}

TEST(Sweep, SkippedPointsAreReportedAndNotWritten) {
  FakeDevice device;
  SweepHooks hooks = device.hooks();
  hooks.measure = [](const SweepPoint&) { return PointResult{{}, 0, "no fp8 on this GPU"}; };
  const SweepReport report = run_sweep({gemm_point(512)}, 100, hooks);
  EXPECT_EQ(report.measured, 0);
  EXPECT_THAT(report.skipped, ElementsAre(gemm_point(512).key + ": no fp8 on this GPU"));
  EXPECT_TRUE(device.written.empty());
}

TEST(Sweep, AFailureOfTheDeviceEndsIt) {
  FakeDevice device;
  SweepHooks hooks = device.hooks();
  hooks.measure = [](const SweepPoint&) -> PointResult { throw std::runtime_error("lost"); };
  EXPECT_THROW(run_sweep({gemm_point(512)}, 100, hooks), std::runtime_error);
}

TEST(Sweep, NothingToMeasureIsNoTrouble) {
  FakeDevice device;
  EXPECT_EQ(run_sweep({}, 0, device.hooks()).measured, 0);
}

}  // namespace
}  // namespace stepcast::sweep_test
