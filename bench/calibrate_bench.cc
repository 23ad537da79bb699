// SPDX-License-Identifier: Apache-2.0
// Speed of cost tables: reading one of 10^5 rows with all that lookups need of it, and asking it.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "calibrate/table/write_table.h"

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

// Shapes all over the table, so that one lookup does not warm the caches for the next.
template <class Shape>
void lookup(benchmark::State& state, Shape shape) {
  const CostTable table = CostTable::of(large_table());
  Gpu gpu;
  gpu.sms = 132;
  std::vector<Work> works;
  for (int64_t i = 0; i < 4096; ++i) works.push_back(shape(i * 7919 % 60000));
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.lookup(works[next], gpu));
    next = (next + 1) % works.size();
  }
}

Work product(int64_t row, int64_t more_m, int64_t more_n) {
  Work w;
  w.kind = WorkKind::gemm;
  w.layout = static_cast<GemmLayout>(row % 3);
  w.m = 64 * (1 + row % 100) + more_m;
  w.n = 128 * (1 + row / 300 % 10) + more_n;
  w.k = 128 * (1 + row / 3000);
  w.flops = {2.0 * static_cast<double>(w.m) * static_cast<double>(w.n) * static_cast<double>(w.k)};
  return w;
}

Work causal_attention(int64_t row, int64_t more_m) {
  Work w;
  w.kind = WorkKind::attention_forward;
  w.causal = true;
  w.m = 1024 + 64 * (row % 10000) + more_m;
  w.n = 4096;
  w.k = 128;
  w.heads = 32;
  w.kv_heads = 8;
  w.flops = {2.0 * static_cast<double>(w.m) * 4096 * 128 * 32};
  return w;
}

Work addition(int64_t row, int64_t more) {
  Work w;
  w.kernel = Kernel::add;
  w.bytes = {1024 + 64 * (row % 10000) + more};
  return w;
}

// The goal of lookups is 200 ns.
BENCHMARK_CAPTURE(lookup, product_exact, [](int64_t i) { return product(i, 0, 0); });
BENCHMARK_CAPTURE(lookup, product_between_rows, [](int64_t i) { return product(i, 8, 0); });
BENCHMARK_CAPTURE(lookup, product_of_neighbors, [](int64_t i) { return product(i, 8, 40); });
BENCHMARK_CAPTURE(lookup, attention_exact, [](int64_t i) { return causal_attention(i, 0); });
BENCHMARK_CAPTURE(lookup, attention_of_neighbors, [](int64_t i) { return causal_attention(i, 8); });
BENCHMARK_CAPTURE(lookup, kernel_exact, [](int64_t i) { return addition(i, 0); });
BENCHMARK_CAPTURE(lookup, kernel_between_rows, [](int64_t i) { return addition(i, 8); });

}  // namespace
