// SPDX-License-Identifier: Apache-2.0
// The tables that ship: that they read, say what their headers claim, and how well they predict
// rows they have not seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "calibrate/price/collective_price.h"
#include "calibrate/table/cost_table.h"
#include "calibrate/table/table_text.h"
#include "tests/calibrate/works.h"

namespace stepcast::shipped_tables_test {
namespace {

using test::attention;
using test::gemm;
using test::kernel;
using test::us;

std::vector<std::string> all_tables() {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(STEPCAST_SOURCE_DIR "/calibrate/data/tables"))
    names.insert(entry.path().stem());
  return {names.begin(), names.end()};
}

// Tables that leave products or attention in 16 bits to the roofline, and those without a host's
// launches: what has been published of these GPUs is something else.
const std::set<std::string> kPartial{"b300-sxm", "gb200", "gb300", "h20-sxm"};
const std::set<std::string> kWithoutLaunches{"b300-sxm", "gb200", "gb300", "gh200", "h20-sxm"};

TableText text_of(const std::string& gpu) {
  return parse_table_text(shipped_table_text(gpu), gpu);
}

class EveryTable : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryTable, ReadsAndBearsTheNameOfItsFile) {
  const CostTable* table = shipped_table(GetParam());
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->name(), GetParam());
  EXPECT_EQ(shipped_table(GetParam()), table);  // parsed once
  EXPECT_EQ(text_of(GetParam()).gpu, GetParam());
  EXPECT_EQ(table->launch().has_value(), !kWithoutLaunches.contains(GetParam()));
}

TEST_P(EveryTable, CitesEverySource) {
  for (const TableSource& s : text_of(GetParam()).sources) {
    EXPECT_GE(s.text.size(), 20u) << s.key;
  }
}

TEST_P(EveryTable, PricesWhatADenseModelNeedsOrIsPartial) {
  const CostTable& table = *shipped_table(GetParam());
  int left_out = 0;
  const auto expect_between = [&](const Work& work, double least, double most) {
    const auto p = table.compute(work, {});
    if (!p) {
      ++left_out;
      return;
    }
    const double tflops = work.flops.value / us(p->time) * 1e-6;
    EXPECT_GT(tflops, least);
    EXPECT_LT(tflops, most);
  };
  for (const GemmLayout layout : {GemmLayout::tn, GemmLayout::nn, GemmLayout::nt})
    expect_between(gemm(2048, 6144, 12288, layout), 180, 1500);
  for (const bool backward : {false, true})
    expect_between(attention(backward, true, 4096, 32, 128, 1), 100, 1200);
  EXPECT_EQ(left_out > 0, kPartial.contains(GetParam()));
}

TEST_P(EveryTable, KernelTimesGrowWithBytes) {
  const CostTable& table = *shipped_table(GetParam());
  if (!table.compute(kernel(Kernel::add, 1 << 20), {})) return;  // left to the roofline
  for (const Kernel k : {Kernel::add, Kernel::softmax, Kernel::layer_norm, Kernel::adam}) {
    double last = 0;
    for (int64_t bytes = 1 << 12; bytes < int64_t{1} << 36; bytes += bytes / 3) {
      const double now = us(table.compute(kernel(k, bytes), {})->time);
      EXPECT_GE(now, last * 0.999) << name_of(k) << " " << bytes;
      last = now;
    }
    // 64 GiB at 1 to 8 TB/s.
    EXPECT_GT(last, 64e9 / 8e6);
    EXPECT_LT(last, 64e9 / 0.9e6);
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& table) {
  std::string name = table.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryTable, ::testing::ValuesIn(all_tables()), test_name);

TEST(ShippedTables, ThereIsNoneForAnUnknownGpu) {
  EXPECT_EQ(shipped_table("tpu-v5p"), nullptr);
  EXPECT_EQ(shipped_table(""), nullptr);
  EXPECT_EQ(shipped_table("../roofline"), nullptr);
  EXPECT_TRUE(shipped_table_text("tpu-v5p").empty());
}

TEST(ShippedTables, MayBeAskedForFromSeveralThreads) {
  std::vector<const CostTable*> seen(8);
  std::vector<std::jthread> threads;
  for (auto& place : seen) {
    threads.emplace_back([&place] { place = shipped_table("h800-sxm"); });
  }
  threads.clear();
  for (const CostTable* t : seen) EXPECT_EQ(t, seen[0]);
}

TEST(ShippedTables, AnswerTheCollectivesOfANodeOnlyOnItsLinks) {
  const Cluster c = test::a100_cluster(1);
  const GroupShape node{.ranks = 8, .nodes = 1, .ranks_per_node = 8, .tier = -1};
  const Bytes bytes{2048 * 12288 * 2};
  for (const WorkKind kind : {WorkKind::all_reduce, WorkKind::all_gather, WorkKind::reduce_scatter,
                              WorkKind::all_to_all}) {
    const auto p = measured_collective(*shipped_table("a100-sxm-80g"), kind, bytes, node, c);
    ASSERT_TRUE(p.has_value()) << name_of(kind);
    EXPECT_GT(us(p->time), 150);
    EXPECT_LT(us(p->time), 800);
    EXPECT_EQ(p->origin,
              kind == WorkKind::reduce_scatter ? Origin::extrapolated : Origin::interpolated);
    // The A800 has fewer NVLinks, and its table no collectives.
    EXPECT_FALSE(
        measured_collective(*shipped_table("a800-sxm-80g"), kind, bytes, node, c).has_value());
  }
}

TEST(ShippedTables, ProductsInEightAndFourBits) {
  const auto tflops = [](const char* gpu, DType dtype, int64_t side) {
    Work w = gemm(side, side, side);
    w.dtype = dtype;
    const auto p = shipped_table(gpu)->compute(w, {});
    return p ? w.flops.value / us(p->time) * 1e-6 : 0;
  };
  EXPECT_NEAR(tflops("gb200", DType::fp8, 8192), 2876.6, 1);  // rows
  EXPECT_NEAR(tflops("gb200", DType::fp4, 8192), 7535.6, 1);
  EXPECT_LT(tflops("b200-sxm", DType::fp8, 8192), tflops("gb200", DType::fp8, 8192));
  EXPECT_LT(tflops("gb200", DType::fp4, 1024), tflops("gb200", DType::fp8, 1024));
  EXPECT_EQ(tflops("gb200", DType::bf16, 8192), 0);  // left to the roofline
  EXPECT_EQ(tflops("h100-sxm", DType::fp4, 8192), 0);
}

TEST(ShippedTables, SharedDiesPriceAlikeButSaySo) {
  const Work w = gemm(4096, 4096, 4096);
  const auto own = shipped_table("h100-sxm")->compute(w, {});
  for (const char* gpu : {"h800-sxm", "h200-sxm"}) {
    const auto shared = shipped_table(gpu)->compute(w, {});
    EXPECT_EQ(shared->time, own->time);
    EXPECT_EQ(shared->origin, Origin::extrapolated);
  }
}

}  // namespace
}  // namespace stepcast::shipped_tables_test
