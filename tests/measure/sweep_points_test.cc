// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/sweep_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "calibrate/table/table_text.h"

namespace stepcast::measure::sweep_points_test {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kPlan = R"(# stepcast calibration plan
# format: 1
# gpu: h100-sxm
gemm,bf16,tn,4096,4608,12288,1,0.5,interpolated
grouped_gemm,bf16,nt,2048,4096,512,8,0.2,roofline
attention,fwd,bf16,1,16,16,4096,4096,192/128,1,0.1,extrapolated
memory,rms_norm,134217728,0.05,measured
copy,h2d,1048576,0.01,roofline
collective,all_reduce,8,1,8,0,1048576,0.1,roofline
)";

std::vector<std::string> keys(const std::vector<SweepPoint>& points) {
  std::vector<std::string> out;
  for (const SweepPoint& p : points) out.push_back(p.key);
  return out;
}

TEST(SweepPoints, OfAPlanAreItsRowsWithWeightAndOrigin) {
  const auto points = planned_points(parse_plan_text(kPlan, "p"));
  EXPECT_THAT(keys(points),
              ElementsAre("gemm,bf16,tn,4096,4608,12288,1", "gemm,bf16,nt,2048,4096,512,8",
                          "attention,fwd,bf16,1,16,16,4096,4096,160,1", "memory,rms_norm,134217728",
                          "copy,h2d,1048576", "copy,d2h,1048576"));
  EXPECT_DOUBLE_EQ(points[0].weight, 0.5);
  EXPECT_EQ(points[0].origin, Origin::interpolated);
  EXPECT_EQ(points[1].work.kind, WorkKind::grouped_gemm);
  EXPECT_EQ(points[2].work.value_dim, 128);
}

TEST(SweepPoints, OfAGridWeighOneInAll) {
  for (const Grid grid : {Grid::small, Grid::full}) {
    double weight = 0;
    std::set<std::string> families;
    for (const SweepPoint& p : grid_points(grid)) {
      weight += p.weight;
      families.emplace(family_word(p.key));
    }
    EXPECT_NEAR(weight, 1, 1e-9);
    EXPECT_THAT(families, UnorderedElementsAre("gemm", "attention", "memory", "copy"));
  }
  EXPECT_TRUE(grid_points(Grid::none).empty());
}

TEST(SweepPoints, TheSmallGridIsMinutesAndTheFullOneMore) {
  const auto seconds = [](Grid grid) {
    double sum = 0;
    for (const SweepPoint& p : in_order(grid_points(grid))) sum += measuring_seconds(p);
    return sum;
  };
  EXPECT_LT(seconds(Grid::small), 5 * 60);
  EXPECT_GT(seconds(Grid::full), 5 * seconds(Grid::small));
}

TEST(SweepPoints, CoverLayoutsTypesAndEveryMemoryBoundKernel) {
  std::map<std::string, int> found;
  for (const SweepPoint& p : grid_points(Grid::small)) {
    const Work& w = p.work;
    if (w.kind == WorkKind::gemm)
      ++found[std::string(name_of(w.dtype)) + std::string(name_of(w.layout))];
    if (w.kind == WorkKind::grouped_gemm) ++found["grouped"];
    if (w.kind == WorkKind::memory_bound) ++found[std::string(name_of(w.kernel))];
  }
  for (const char* const what :
       {"bf16tn", "bf16nn", "bf16nt", "fp8tn", "fp16tn", "tf32tn", "fp32tn", "int8tn", "grouped"}) {
    EXPECT_GT(found[what], 0) << what;
  }
  for (int k = static_cast<int>(Kernel::none) + 1; k <= static_cast<int>(Kernel::quantize); ++k) {
    EXPECT_GE(found[std::string(name_of(static_cast<Kernel>(k)))], 4)
        << name_of(static_cast<Kernel>(k));
  }
}

TEST(SweepPoints, AreAllReadBackAsRowsOfATable) {
  std::string text = "# stepcast cost table\n# format: 2\n# gpu: g\n# source: here measured x\n";
  std::vector<SweepPoint> points = grid_points(Grid::full);
  for (const SweepPoint& p : single_points()) {
    if (p.key != "interference") points.push_back(p);
  }
  points = in_order(points);
  for (const SweepPoint& p : points) text += row_text(p, {{1.5}, 0.01, {}}, "here") + '\n';
  text += "interference,1.1,1.2,here\n";
  const TableText table = parse_table_text(text, "t", TableFile::edited);
  const size_t rows =
      table.gemms.size() + table.attentions.size() + table.memories.size() + table.copies.size();
  EXPECT_EQ(rows + 2, points.size());
  EXPECT_TRUE(table.launch_us && table.graph_launch_us && table.interference);
}

TEST(SweepPoints, GraphsAreLaunchedToo) {
  EXPECT_EQ(family_word("graph_launch"), "launch");
  EXPECT_EQ(family_word("gemm,bf16,tn,1,1,1,1"), "gemm");
}

}  // namespace
}  // namespace stepcast::measure::sweep_points_test
