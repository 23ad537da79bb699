// SPDX-License-Identifier: Apache-2.0
// Shipped tables that answer for some families only.
#include "calibrate/price/collective_price.h"
#include "calibrate/table/cost_table.h"
#include "calibrate/table/table_text.h"
#include "tests/calibrate/works.h"

namespace stepcast::partial_tables_test {
namespace {

double us_of(const std::optional<Price>& p) {
  return p ? test::us(p->time) : -1;
}

// A rack of NVLink, as gb300-nvl72.
Cluster rack(int64_t racks) {
  Cluster c = test::a100_cluster(racks);
  c.node.gpu.arch = GpuArch::blackwell;
  c.node.intra_latency = Time{900'000};
  c.node.gpus = 72;
  c.node.nics = 72;
  c.node.intra = IntraKind::nvswitch;
  c.node.intra_bandwidth = {900e9};
  c.node.sharp = true;
  c.node.nic_bandwidth = {100e9};
  return c;
}

TEST(PartialTables, AnswerWhatWasMeasuredAndLeaveTheRestToTheRoofline) {
  for (const char* gpu : {"gb300", "b300-sxm", "h20-sxm"}) {
    const CostTable* table = shipped_table(gpu);
    ASSERT_NE(table, nullptr) << gpu;
    EXPECT_FALSE(table->compute(test::gemm(4096, 4096, 4096), {}).has_value()) << gpu;
    EXPECT_FALSE(table->interference().has_value()) << gpu;
  }
  EXPECT_FALSE(
      shipped_table("h20-sxm")->compute(test::kernel(Kernel::rms_norm, 1 << 24), {}).has_value());
}

TEST(PartialTables, BlackwellPermutesAndConvertsSlowerThanItAdds) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  for (const char* gpu : {"b200-sxm", "gb200", "b300-sxm", "gb300"}) {
    const CostTable* table = shipped_table(gpu);
    ASSERT_NE(table, nullptr) << gpu;
    const auto time = [&](Kernel k) { return us_of(table->compute(test::kernel(k, kBytes), {})); };
    EXPECT_NEAR(time(Kernel::permute), 249.6, 0.1) << gpu;
    EXPECT_NEAR(time(Kernel::unpermute), 244.7, 0.1) << gpu;
    EXPECT_LT(time(Kernel::add), time(Kernel::quantize)) << gpu;
    EXPECT_LT(time(Kernel::quantize), time(Kernel::permute)) << gpu;
  }
}

TEST(PartialTables, CollectivesOfARack) {
  const CostTable* table = shipped_table("gb300");
  ASSERT_NE(table, nullptr);
  const Cluster c = rack(2);
  const auto price = [&](WorkKind kind, int64_t bytes, const GroupShape& shape) {
    return measured_collective(*table, kind, Bytes{bytes}, shape, c);
  };
  const GroupShape in_rack{.ranks = 64, .nodes = 1, .ranks_per_node = 64, .tier = -1};
  EXPECT_NEAR(us_of(price(WorkKind::all_reduce, 524288, in_rack)), 66.27, 0.01);
  EXPECT_TRUE(price(WorkKind::all_to_all, 1 << 26, in_rack).has_value());
  // The sweeps begin at 512 KiB: below, the model goes on from there.
  EXPECT_EQ(price(WorkKind::all_reduce, 4096, in_rack)->origin, Origin::extrapolated);
  EXPECT_LT(us_of(price(WorkKind::all_reduce, 4096, in_rack)), 66.27);
  EXPECT_FALSE(price(WorkKind::all_gather, 1 << 26, in_rack).has_value());
}

TEST(PartialTables, AttentionOfTheH20) {
  const CostTable* table = shipped_table("h20-sxm");
  ASSERT_NE(table, nullptr);
  const auto forward = table->compute(test::attention(false, true, 2048, 16, 128, 2), {});
  ASSERT_TRUE(forward.has_value());
  EXPECT_NEAR(us_of(forward), 318.74, 1);
  EXPECT_FALSE(table->compute(test::attention(true, true, 2048, 16, 128, 2), {}).has_value());
}

TEST(PartialTables, TheGh200HasTheDieOfTheH100) {
  const CostTable* table = shipped_table("gh200");
  ASSERT_NE(table, nullptr);
  const Work w = test::gemm(4096, 4096, 4096);
  const auto own = table->compute(w, {});
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->origin, Origin::extrapolated);
  EXPECT_EQ(own->time, shipped_table("h100-sxm")->compute(w, {})->time);
  // Copies are its own: 4 GiB read and written at 3451 GB/s.
  EXPECT_NEAR(us_of(table->compute(test::kernel(Kernel::copy, int64_t{8} << 30), {})), 2489, 1);
  EXPECT_TRUE(table->interference().has_value());
}

}  // namespace
}  // namespace stepcast::partial_tables_test
