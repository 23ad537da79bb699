// SPDX-License-Identifier: Apache-2.0
// The cluster as a graph: building it, and ways through it.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "scenarios/scenario.h"
#include "topology/cluster/build_graph.h"
#include "topology/cluster/routes.h"

namespace stepcast {
namespace {

Cluster dgx_h100(int64_t gpus) {
  const std::string nodes = std::to_string(gpus / 8);
  return load_scenario_text("model: gpt2\ncluster: dgx-h100 x " + nodes +
                                "\nbatch: {global: " + std::to_string(gpus) + ", seq: 1024}\n",
                            "bench.yaml")
      .cluster;
}

void build(benchmark::State& state) {
  const Cluster cluster = dgx_h100(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(cluster_graph(cluster));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(build)
    ->Name("topology/build")
    ->RangeMultiplier(4)
    ->Range(256, 65536)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

// One message from every GPU to the one `range(0)` further on.
void routes(benchmark::State& state) {
  constexpr int64_t kGpus = 16384;
  const ClusterGraph graph = cluster_graph(dgx_h100(kGpus));
  Router router(graph, {});
  int64_t from = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(router.route(from, (from + state.range(0)) % kGpus));
    from = (from + 1) % kGpus;
  }
}
BENCHMARK(routes)
    ->Name("topology/route/nvlink:1,leaf:8,spine:256,core:8192")
    ->Arg(1)
    ->Arg(8)
    ->Arg(256)
    ->Arg(8192);

}  // namespace
}  // namespace stepcast
