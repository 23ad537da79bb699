// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/launch_timing.h"

#include <chrono>
#include <optional>
#include <vector>

#include "calibrate/measure/kernels/spin.h"

namespace stepcast::measure {
namespace {

using Clock = std::chrono::steady_clock;

// Host time of `calls` of `launch`, microseconds each, with an idle device before and after; as
// many samples as the options ask for.  The launch queue holds 1024, so the host never waits.
template <class Launch>
Timing host_time(const Bench& bench, int calls, const Launch& launch) {
  std::vector<double> samples;
  for (int i = -1; i < bench.timing.samples; ++i) {  // one to warm up
    check_cuda(cudaStreamSynchronize(bench.stream), "an idle stream");
    const Clock::time_point begin = Clock::now();
    for (int call = 0; call < calls; ++call) launch();
    const std::chrono::duration<double, std::micro> us = Clock::now() - begin;
    if (i >= 0) samples.push_back(us.count() / calls);
  }
  check_cuda(cudaStreamSynchronize(bench.stream), "launches");
  return summarize(samples);
}

// A CUDA graph of empty kernels in a row.
class EmptyGraph {
 public:
  EmptyGraph(cudaStream_t stream, int kernels) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a graph");
    for (int i = 0; i < kernels; ++i) launch_empty(stream);
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph), "a graph");
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "a graph");
  }
  EmptyGraph(const EmptyGraph&) = delete;
  EmptyGraph& operator=(const EmptyGraph&) = delete;
  ~EmptyGraph() { cudaGraphExecDestroy(graph_); }

  void launch(cudaStream_t stream) const {
    check_cuda(cudaGraphLaunch(graph_, stream), "launching a graph");
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

Timing time_launch(const Bench& bench) {
  constexpr int kCalls = 200;
  return host_time(bench, kCalls, [&] { launch_empty(bench.stream); });
}

Timing time_graph_launch(const Bench& bench, int kernels) {
  constexpr int kCalls = 20;
  const EmptyGraph graph(bench.stream, kernels);
  return host_time(bench, kCalls, [&] { graph.launch(bench.stream); });
}

Timing time_copy(const Bench& bench, CopyKind kind, int64_t bytes) {
  const Operands device(bytes * (kind == CopyKind::d2d ? 2 : 1), bench.device);
  fill_normal(device.data(), DType::bf16, device.copies() * device.bytes() / 2, 1, 1, bench.stream);
  std::optional<HostMemory> host;
  if (kind != CopyKind::d2d) host.emplace(bytes);
  const auto call = [&](int64_t i) {
    void* const here = device.at(i);
    void* const other = host ? host->data() : static_cast<char*>(here) + bytes;
    const cudaMemcpyKind way = kind == CopyKind::h2d   ? cudaMemcpyHostToDevice
                               : kind == CopyKind::d2h ? cudaMemcpyDeviceToHost
                                                       : cudaMemcpyDeviceToDevice;
    void* const to = kind == CopyKind::h2d ? here : other;
    const void* const from = kind == CopyKind::h2d ? other : here;
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), way, bench.stream), "a copy");
  };
  return time_calls(bench.stream, call, bench.timing);
}

}  // namespace stepcast::measure
