// SPDX-License-Identifier: Apache-2.0
// Rows a second into a store, with a commit each 50,000, and out of it.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "scenarios/search/step_store.h"
#include "sim/random.h"

namespace stepcast {
namespace {

StepRow bench_row(uint64_t n) {
  StepRow row;
  row.key = {splitmix(n), splitmix(~n)};
  row.name = "llama3-70b";
  row.file = "scenarios/llama3-70b.yaml";
  row.settings =
      "parallel.tp=2 parallel.cp=1 parallel.pp=4 parallel.vpp=2 parallel.zero=1 batch.micro=1 "
      "recompute.granularity=none schedule.kind=interleaved-1f1b";
  row.gpu = "H100-SXM";
  row.recompute = "none";
  row.schedule = "interleaved-1f1b";
  row.step_time_ps = 13'000'000'000'000 + static_cast<int64_t>(n);
  row.peak_bytes = row.usable_bytes = 80'000'000'000;
  row.reserved_bytes = 60'000'000'000;
  row.tokens_per_gpu_s = 9000.5;
  row.mfu = 0.5;
  return row;
}

std::string bench_path() {
  return (std::filesystem::temp_directory_path() / "stepcast_bench.db").string();
}

constexpr int64_t kRows = 200'000;

void write_rows(const std::string& path) {
  for (const char* more : {"", "-wal", "-journal"}) std::filesystem::remove(path + more);
  StepStore store(path);
  for (int64_t n = 0; n < kRows; ++n) {
    store.keep(bench_row(static_cast<uint64_t>(n)));
    if (n % 50'000 == 0) store.commit();
  }
  store.close();
}

void store_keep(benchmark::State& state) {
  const std::string path = bench_path();
  for (auto _ : state) write_rows(path);
  state.SetItemsProcessed(state.iterations() * kRows);
  state.counters["bytes_a_row"] =
      static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(kRows);
  std::filesystem::remove(path);
}
BENCHMARK(store_keep)->UseRealTime()->Unit(benchmark::kMillisecond);

void store_read(benchmark::State& state) {
  const std::string path = bench_path();
  write_rows(path);
  for (auto _ : state) {
    int64_t rows = 0;
    read_steps(path, [&](const StepRow& row) { rows += row.tp; });
    benchmark::DoNotOptimize(rows);
  }
  state.SetItemsProcessed(state.iterations() * kRows);
  std::filesystem::remove(path);
}
BENCHMARK(store_read)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
