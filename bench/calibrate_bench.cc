// SPDX-License-Identifier: Apache-2.0
// Speed of cost tables: reading one of 10^5 rows with all that lookups need of it.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "calibrate/cost_table.h"
#include "calibrate/write_table.h"

namespace {

using namespace stepcast;

// 60,000 products on a grid of shapes, 20,000 collectives, 10,000 kernels, 10,000 attentions.
TableText large_table() {
  TableText t;
  t.gpu = "benchmark";
  t.sources = {{"one", false, "made up"}, {"other", true, "made up"}};
  const auto us = [](int64_t i) { return 3.17 + 0.137 * static_cast<double>(i); };
  for (int64_t i = 0; i < 60000; ++i) {
    t.gemms.push_back({DType::bf16, static_cast<GemmLayout>(i % 3), 64 * (1 + i % 100),
                       128 * (1 + i / 300 % 10), 128 * (1 + i / 3000), 1, us(i),
                       static_cast<uint16_t>(i % 2), 0.012});
  }
  for (int64_t i = 0; i < 20000; ++i)
    t.collectives.push_back({WorkKind::all_reduce, 8, 1, 8, 0, 1024 + 64 * i, us(i), 0, 0});
  for (int64_t i = 0; i < 10000; ++i) {
    t.memories.push_back({Kernel::add, 1024 + 64 * i, us(i), 0, 0});
    t.attentions.push_back(
        {false, DType::bf16, true, 32, 8, 1024 + 64 * i, 4096, 128, 1, us(i), 0, 0});
  }
  t.fits = {{WorkKind::gemm, DType::bf16, 5.3, 230, 1695, 1, 0, 0, 0, FitFlag::none},
            {WorkKind::attention_forward, DType::bf16, 10, 160, 0, 1, 0, 0, 0, FitFlag::none}};
  return t;
}

// Text to table: the goal is 50 ms.
void load_table(benchmark::State& state) {
  const std::string text = write_table(large_table());
  for (auto _ : state) benchmark::DoNotOptimize(CostTable::parse(text, "benchmark.csv"));
  state.SetItemsProcessed(state.iterations() * 100000);
}
BENCHMARK(load_table)->Unit(benchmark::kMillisecond);

// Of that, reading and checking the rows alone.
void read_table(benchmark::State& state) {
  const std::string text = write_table(large_table());
  for (auto _ : state) benchmark::DoNotOptimize(parse_table_text(text, "benchmark.csv"));
  state.SetItemsProcessed(state.iterations() * 100000);
}
BENCHMARK(read_table)->Unit(benchmark::kMillisecond);

}  // namespace
