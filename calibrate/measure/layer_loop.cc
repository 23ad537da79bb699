// SPDX-License-Identifier: Apache-2.0
// How the two kinds of times are taken
//
// In the loop: all kernels of forward and backward are enqueued in their order on one stream, on
// tensors that stay where they are, so that each reads what its forerunner wrote.  Captured once as
// a CUDA graph, whose launches are timed by events around each: that is the loop's time, without
// the host.  Then the same once more without a graph but with an event after every kernel, held
// back until the host has enqueued the whole loop: the differences are the kernels' times.  The
// events cost each kernel about a microsecond, so the sum of these is a little above the loop's
// time.
//
// Alone: as rows of a cost table are measured (time_gemm, time_attention, time_memory): the same
// kernel again and again, on copies of its operands that no longer are in the cache.
//
// The gradient of the layer's output stays as it is: where a framework adds to it in place, the sum
// goes to a tensor of its own, so that numbers do not grow from loop to loop.
#include "calibrate/measure/layer_loop.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "calibrate/measure/families/attention.h"
#include "calibrate/measure/families/attention_graph.h"
#include "calibrate/measure/families/gemm.h"
#include "calibrate/measure/families/memory_timing.h"
#include "calibrate/measure/kernels/norms.h"
#include "calibrate/measure/kernels/pointwise.h"
#include "calibrate/measure/kernels/spin.h"
#include "calibrate/measure/timing.h"

namespace stepcast::measure {
namespace {

using Bf16 = __nv_bfloat16;

constexpr float kRotaryBase = 10000;  // Su et al. 2021, section 3.2.2
constexpr int kWarmUpLoops = 10;
constexpr double kHoldUs = 1000;  // the host takes a few microseconds for each of 26 kernels

AttentionShape attention_of(const LayerShape& s) {
  AttentionShape a;
  a.batch = s.micro;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.seq_q = a.seq_k = s.seq;
  a.qk_dim = a.v_dim = s.head_dim();
  a.causal = true;
  a.q_row = a.k_row = a.v_row = s.qkv_width();
  return a;
}

// The layer's tensors and kernels, ready to be launched.
class Layer {
 public:
  Layer(const LayerShape& shape, const Device& device, cudaStream_t stream)
      : s_(shape),
        works_(layer_works(shape)),
        stream_(stream),
        blas_(device),
        forward_(attention_of(shape), false),
        backward_(attention_of(shape), true) {
    const int64_t t = s_.tokens(), h = s_.hidden, attended = s_.heads * s_.head_dim();
    workspace_ = DeviceMemory(
        std::max<int64_t>({forward_.workspace_bytes(), backward_.workspace_bytes(), 256}));
    for (auto& [tensor, count] :
         std::initializer_list<std::pair<DeviceMemory*, int64_t>>{{&input_, t * h},
                                                                  {&normed1_, t * h},
                                                                  {&qkv_, t * s_.qkv_width()},
                                                                  {&context_, t * attended},
                                                                  {&branch_, t * h},
                                                                  {&residual_, t * h},
                                                                  {&normed2_, t * h},
                                                                  {&up_, t * s_.up_width()},
                                                                  {&activated_, t * s_.ffn},
                                                                  {&output_, t * h},
                                                                  {&d_output_, t * h},
                                                                  {&d_activated_, t * s_.ffn},
                                                                  {&d_up_, t * s_.up_width()},
                                                                  {&d_branch_, t * h},
                                                                  {&d_residual_, t * h},
                                                                  {&d_context_, t * attended},
                                                                  {&d_qkv_, t * s_.qkv_width()},
                                                                  {&d_input_, t * h}})
      *tensor = normal(count, 1);
    for (auto& [tensor, count] : std::initializer_list<std::pair<DeviceMemory*, int64_t>>{
             {&qkv_weight_, s_.qkv_width() * h},
             {&projection_weight_, h * attended},
             {&up_weight_, s_.up_width() * h},
             {&down_weight_, h * s_.ffn}})
      *tensor = normal(count, 0.02F);
    gain_ = normal(h, 1);
    rstd_ = DeviceMemory(2 * t * kWide);
    log_sum_exp_ = DeviceMemory(t * s_.heads * kWide);
    for (DeviceMemory* main :
         {&qkv_gradient_, &projection_gradient_, &up_gradient_, &down_gradient_, &gain_gradient_}) {
      const int64_t count = main == &qkv_gradient_          ? s_.qkv_width() * h
                            : main == &projection_gradient_ ? h * attended
                            : main == &up_gradient_         ? s_.up_width() * h
                            : main == &down_gradient_       ? h * s_.ffn
                                                            : h;
      *main = DeviceMemory(count * kWide);
      fill(main->as<float>(), 0, count, stream_);
    }
    rotary_ = DeviceMemory(s_.seq * s_.head_dim() / 2 * static_cast<int64_t>(sizeof(float2)));
    rotary_table(rotary_.as<float2>(), s_.seq, s_.head_dim(), kRotaryBase, stream_);
    for (size_t i = 0; i < works_.size(); ++i)
      if (works_[i].kind == WorkKind::gemm)
        products_.emplace(static_cast<LayerKernel>(i), Product(blas_, works_[i]));
    check_cuda(cudaStreamSynchronize(stream_), "the layer's tensors");
  }

  void launch(LayerKernel kernel) {
    const int64_t t = s_.tokens(), h = s_.hidden;
    float* const rstd1 = rstd_.as<float>();
    float* const rstd2 = rstd1 + t;
    switch (kernel) {
      case LayerKernel::norm1:
        return rms_norm(at(input_), at(gain_), at(normed1_), rstd1, t, h, stream_);
      case LayerKernel::qkv: return multiply(kernel, normed1_, qkv_weight_, qkv_);
      case LayerKernel::rotary: return turn(qkv_, false);
      case LayerKernel::attention: return forward_.run(operands(), workspace_.data(), stream_);
      case LayerKernel::projection: return multiply(kernel, context_, projection_weight_, branch_);
      case LayerKernel::residual1:
        return add(at(input_), at(branch_), at(residual_), t * h, stream_);
      case LayerKernel::norm2:
        return rms_norm(at(residual_), at(gain_), at(normed2_), rstd2, t, h, stream_);
      case LayerKernel::up: return multiply(kernel, normed2_, up_weight_, up_);
      case LayerKernel::activation:
        return s_.gated ? gated_silu(at(up_), at(activated_), t, s_.ffn, stream_)
                        : gelu(at(up_), nullptr, at(activated_), t, s_.ffn, stream_);
      case LayerKernel::down: return multiply(kernel, activated_, down_weight_, branch_);
      case LayerKernel::residual2:
        return add(at(residual_), at(branch_), at(output_), t * h, stream_);

      case LayerKernel::down_input_gradient:
        return multiply(kernel, d_output_, down_weight_, d_activated_);
      case LayerKernel::down_weight_gradient:
        return multiply(kernel, d_output_, activated_, down_gradient_);
      case LayerKernel::activation_backward:
        return s_.gated
                   ? gated_silu_backward(at(up_), at(d_activated_), at(d_up_), t, s_.ffn, stream_)
                   : gelu_backward(at(up_), nullptr, at(d_activated_), at(d_up_), t, s_.ffn,
                                   stream_);
      case LayerKernel::up_input_gradient: return multiply(kernel, d_up_, up_weight_, d_branch_);
      case LayerKernel::up_weight_gradient: return multiply(kernel, d_up_, normed2_, up_gradient_);
      case LayerKernel::norm2_backward:
        return rms_norm_backward(at(d_branch_), at(residual_), at(gain_), rstd2, at(d_branch_),
                                 gain_gradient_.as<float>(), t, h, stream_);
      case LayerKernel::residual2_backward:
        return add(at(d_output_), at(d_branch_), at(d_residual_), t * h, stream_);
      case LayerKernel::projection_input_gradient:
        return multiply(kernel, d_residual_, projection_weight_, d_context_);
      case LayerKernel::projection_weight_gradient:
        return multiply(kernel, d_residual_, context_, projection_gradient_);
      case LayerKernel::attention_backward:
        return backward_.run(operands(), workspace_.data(), stream_);
      case LayerKernel::rotary_backward: return turn(d_qkv_, true);
      case LayerKernel::qkv_input_gradient: return multiply(kernel, d_qkv_, qkv_weight_, d_branch_);
      case LayerKernel::qkv_weight_gradient:
        return multiply(kernel, d_qkv_, normed1_, qkv_gradient_);
      case LayerKernel::norm1_backward:
        return rms_norm_backward(at(d_branch_), at(input_), at(gain_), rstd1, at(d_branch_),
                                 gain_gradient_.as<float>(), t, h, stream_);
      case LayerKernel::residual1_backward:
        return add(at(d_residual_), at(d_branch_), at(d_input_), t * h, stream_);
    }
  }

  void launch_all() {
    for (int i = 0; i < kLayerKernels; ++i) launch(static_cast<LayerKernel>(i));
  }

  double alone(LayerKernel kernel, const Bench& bench) {
    const Work& work = works_[static_cast<size_t>(kernel)];
    switch (work.kind) {
      case WorkKind::gemm: return time_gemm(bench, blas_, work).us;
      case WorkKind::memory_bound: return time_memory(bench, work.kernel, work.bytes.value).us;
      default: return time_attention(bench, work).us;
    }
  }

 private:
  static constexpr int64_t kWide = sizeof(float);

  static Bf16* at(const DeviceMemory& memory) { return memory.as<Bf16>(); }

  DeviceMemory normal(int64_t count, float deviation) {
    DeviceMemory memory(count * static_cast<int64_t>(sizeof(Bf16)));
    fill_normal(memory.data(), DType::bf16, count, ++seed_, deviation, stream_);
    return memory;
  }
  void multiply(LayerKernel kernel, const DeviceMemory& m_side, const DeviceMemory& n_side,
                const DeviceMemory& out) {
    products_.at(kernel).run(m_side.data(), n_side.data(), out.data(), stream_);
  }
  void turn(const DeviceMemory& qkv, bool backward) {
    rotary(at(qkv), rotary_.as<float2>(), s_.tokens(), s_.qkv_width(), s_.heads + s_.kv_heads,
           s_.head_dim(), s_.seq, backward, stream_);
  }
  AttentionOperands operands() const {
    const int64_t keys = s_.heads * s_.head_dim(), values = keys + s_.kv_heads * s_.head_dim();
    AttentionOperands x;
    x.q = at(qkv_);
    x.k = at(qkv_) + keys;
    x.v = at(qkv_) + values;
    x.o = at(context_);
    x.stats = log_sum_exp_.as<float>();
    x.d_o = at(d_context_);
    x.dq = at(d_qkv_);
    x.dk = at(d_qkv_) + keys;
    x.dv = at(d_qkv_) + values;
    return x;
  }

  const LayerShape s_;
  const std::vector<Work> works_;
  cudaStream_t stream_;
  Blas blas_;
  FusedAttention forward_, backward_;
  std::map<LayerKernel, Product> products_;
  uint64_t seed_ = 0;

  DeviceMemory workspace_, rotary_, rstd_, log_sum_exp_, gain_, gain_gradient_;
  DeviceMemory input_, normed1_, qkv_, context_, branch_, residual_, normed2_, up_, activated_,
      output_;
  DeviceMemory d_output_, d_activated_, d_up_, d_branch_, d_residual_, d_context_, d_qkv_, d_input_;
  DeviceMemory qkv_weight_, projection_weight_, up_weight_, down_weight_;
  DeviceMemory qkv_gradient_, projection_gradient_, up_gradient_, down_gradient_;
};

// What was captured on a stream, launched as one.
class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<void()>& enqueue) : stream_(stream) {
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    try {
      enqueue();
    } catch (...) {  // the stream goes on by itself
      cudaStreamEndCapture(stream, &captured);
      if (captured != nullptr) cudaGraphDestroy(captured);
      cudaGetLastError();
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream, &captured), "capture");
    const cudaError_t status = cudaGraphInstantiate(&graph_, captured, 0);
    cudaGraphDestroy(captured);
    check_cuda(status, "graph");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(graph_); }
  void launch() const { check_cuda(cudaGraphLaunch(graph_, stream_), "graph"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

Timing time_loop(Layer& layer, cudaStream_t stream, int64_t loops) {
  const Graph graph(stream, [&] { layer.launch_all(); });
  for (int i = 0; i < kWarmUpLoops; ++i) graph.launch();
  std::vector<Event> events(static_cast<size_t>(loops) + 1);
  events[0].record(stream);
  for (size_t i = 1; i < events.size(); ++i) {
    graph.launch();
    events[i].record(stream);
  }
  events.back().wait();
  std::vector<double> times;
  for (size_t i = 1; i < events.size(); ++i)
    times.push_back(microseconds(events[i - 1], events[i]));
  return summarize(times);
}

std::vector<double> time_inside(Layer& layer, cudaStream_t stream, int64_t loops) {
  std::vector<std::vector<double>> times(kLayerKernels);
  std::vector<Event> events(kLayerKernels + 1);
  for (int64_t i = -kWarmUpLoops; i < loops; ++i) {
    spin(kHoldUs, stream);  // until the host has enqueued the whole loop
    events[0].record(stream);
    for (size_t k = 0; k < kLayerKernels; ++k) {
      layer.launch(static_cast<LayerKernel>(k));
      events[k + 1].record(stream);
    }
    events.back().wait();
    if (i < 0) continue;
    for (size_t k = 0; k < kLayerKernels; ++k)
      times[k].push_back(microseconds(events[k], events[k + 1]));
  }
  std::vector<double> medians;
  for (const std::vector<double>& one : times) medians.push_back(summarize(one).us);
  return medians;
}

}  // namespace

LayerTimes time_layer(const LayerRun& run, const Device& device,
                      const std::function<void(const std::string&)>& note) {
  const Stream stream;
  Layer layer(run.shape, device, stream.get());
  LayerTimes times;
  const Timing loop = time_loop(layer, stream.get(), run.loops);
  times.loop_us = loop.us;
  times.spread = loop.spread;
  times.inside_us = time_inside(layer, stream.get(), run.loops);
  const Bench bench{device, stream.get(), {}};
  for (size_t i = 0; i < kLayerKernels; ++i) {
    const auto kernel = static_cast<LayerKernel>(i);
    try {
      times.alone_us.push_back(layer.alone(kernel, bench));
    } catch (const Unsupported& e) {
      note(std::string(name_of(kernel)) + " alone: " + e.what());
      times.alone_us.push_back(0);
    }
  }
  return times;
}

int layer_command(std::span<const std::string> arguments) {
  const LayerRun run = parse_layer_run(arguments);
  if (run.help) {
    std::fputs(layer_usage().c_str(), stdout);
    return 0;
  }
  const Device device = open_device(run.device);
  std::printf("# %s, %s\n", device.name.c_str(), device.software.c_str());
  const LayerTimes times = time_layer(run, device, [](const std::string& text) {
    std::fprintf(stderr, "stepcast-measure: %s\n", text.c_str());
  });
  std::fputs(layer_text(run.shape, times).c_str(), stdout);
  return 0;
}

}  // namespace stepcast::measure
