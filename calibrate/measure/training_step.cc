// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/import/device_names.h"
#include "calibrate/measure/timing_summary.h"
#include "calibrate/measure/training_step_device.h"
#include "calibrate/measure/training_step_stack.h"

namespace stepcast::measure {
namespace {

constexpr int64_t kWarmUpSteps = 2;  // the second is captured

int64_t free_bytes() {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "free memory");
  return static_cast<int64_t>(free);
}

// Forward and backward of all microbatches, launched at once.
class Passes {
 public:
  explicit Passes(cudaStream_t stream) : stream_(stream) {}
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;
  ~Passes() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }

  void capture(const std::function<void()>& launch) {
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    try {
      launch();
    } catch (...) {  // the stream goes on by itself
      cudaStreamEndCapture(stream_, &captured);
      if (captured != nullptr) cudaGraphDestroy(captured);
      cudaGetLastError();
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream_, &captured), "capture");
    const cudaError_t status = cudaGraphInstantiate(&graph_, captured, 0);
    cudaGraphDestroy(captured);
    check_cuda(status, "graph");
  }
  void launch() const { check_cuda(cudaGraphLaunch(graph_, stream_), "graph"); }

 private:
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

// Forward and backward of attention, of whatever stands in memory.  Throws Unsupported where cuDNN
// refuses kernels that it has compiled.
void try_attention(DeviceBackend& b, const TrainingStep& s) {
  KeptLayer k;
  k.qkv = b.allocate(s.tokens() * s.qkv_width(), DType::bf16);
  core_attention(b, s, k);
  Tensor d_context = b.allocate(k.context.count, DType::bf16);
  Tensor d_qkv = core_attention_backward(b, s, k, d_context);
  b.free(d_qkv);
}

// With attention as asked; where that was left to us, fused if cuDNN compiles and runs its kernels.
// Both are tried apart from the step's memory: a lack of that, of which attention that is not fused
// needs more, is no lack of a kernel.
std::unique_ptr<DeviceBackend> make_backend(TrainingRun& run, const Device& device,
                                            cudaStream_t stream,
                                            const std::function<void(const std::string&)>& note) {
  bool& fused = run.shape.fused_attention;
  fused = run.attention != AttentionChoice::unfused;
  const auto backend = [&] { return std::make_unique<DeviceBackend>(run.shape, device, stream); };
  if (run.attention != AttentionChoice::automatic) return backend();
  const auto works = [&](const std::function<void()>& attempt) {
    try {
      attempt();
      return true;
    } catch (const Unsupported& e) {
      note(std::string("no fused attention: ") + e.what());
      return false;
    }
  };
  fused = works([&] {
    for (const bool backward : {false, true}) FusedAttention(attention_shape(run.shape), backward);
  });
  std::unique_ptr<DeviceBackend> b = backend();
  if (!fused || works([&] { try_attention(*b, run.shape); })) return b;
  static_cast<void>(cudaGetLastError());  // the refused launch may have left it
  fused = false;
  b.reset();  // its memory first
  return backend();
}

struct Batch {
  Tensor tokens, targets;
};

}  // namespace

StepMeasurement measure_training_step(TrainingRun& run, const Device& device,
                                      const std::function<void(const std::string&)>& note) {
  const Stream stream;
  const int64_t free_before = free_bytes();
  const std::unique_ptr<DeviceBackend> backend = make_backend(run, device, stream.get(), note);
  DeviceBackend& b = *backend;
  const TrainingStep& s = run.shape;
  b.learning_rate =
      static_cast<float>(run.learning_rate > 0 ? run.learning_rate : usual_learning_rate(s));
  const ParameterMap map = map_parameters(s);
  std::vector<Batch> batches;
  for (int64_t i = 0; i < s.microbatches; ++i) {
    const Microbatch words = fixed_microbatch(s, i);
    batches.push_back({b.upload(words.tokens), b.upload(words.targets)});
  }
  const auto launch_passes = [&] {
    for (const Batch& batch : batches) run_microbatch(b, s, map, batch.tokens, batch.targets);
  };

  StepMeasurement m;
  m.device = device.name;
  m.software = device.software;
  m.cuda_graph = true;
  Passes passes(stream.get());
  Event begin, end;
  std::vector<double> times;
  for (int64_t step = 0; step < kWarmUpSteps + run.steps; ++step) {
    if (step == 1) passes.capture(launch_passes);
    b.zero_loss();
    begin.record(stream.get());
    b.zero_gradients();
    if (step == 0) {
      launch_passes();
    } else {
      passes.launch();
    }
    update_parameters(b);
    end.record(stream.get());
    end.wait();
    m.last_loss = b.loss() / static_cast<double>(s.microbatches);
    if (step == 0) m.first_loss = m.last_loss;
    if (step >= kWarmUpSteps) times.push_back(microseconds(begin, end));
  }
  const Timing summary = summarize(times);
  m.step_s = summary.us * 1e-6;
  m.spread = summary.spread;
  m.steps = run.steps;
  m.peak_bytes = std::max<int64_t>(0, free_before - free_bytes());
  return m;
}

namespace {

void write_scenario(const TrainingRun& run, const StepMeasurement& m) {
  std::ofstream file(run.scenario_out);
  file << scenario_text(run.shape, m);
  file.close();
  if (!file) throw std::runtime_error("cannot write '" + run.scenario_out + "'");
  std::printf("written      %s: stepcast check puts the forecast beside it\n",
              run.scenario_out.c_str());
}

int train(TrainingRun& run) {
  const Device device = open_device(run.device);
  const std::string gpu = run.gpu.empty() ? std::string(gpu_of_device(device.name)) : run.gpu;
  if (!run.scenario_out.empty() && gpu.empty())
    throw std::invalid_argument("no preset of a GPU is known for '" + device.name +
                                "': --gpu names it for the scenario");
  std::printf("device       %s, %s\n", device.name.c_str(), device.software.c_str());
  StepMeasurement m = measure_training_step(
      run, device, [](const std::string& text) { std::printf("note         %s\n", text.c_str()); });
  m.gpu = gpu;
  m.calibration = run.calibration;
  std::printf("attention    %s\n%s", run.shape.fused_attention ? "fused" : "not fused",
              measurement_text(run.shape, m).c_str());
  if (!run.scenario_out.empty()) write_scenario(run, m);
  return has_learned(m) ? 0 : 1;
}

}  // namespace

int run_training_step(std::span<const std::string> arguments) {
  const auto fail = [](const std::exception& e, int status) {
    std::fprintf(stderr, "stepcast-measure training-step: %s\n", e.what());
    return status;
  };
  TrainingRun run;
  try {
    run = parse_training_run(arguments);
    if (run.help) {
      std::fputs(training_step_usage().c_str(), stdout);
      return 0;
    }
    open_device(run.device);
  } catch (const std::exception& e) {
    return fail(e, 2);
  }
  try {
    return train(run);
  } catch (const std::invalid_argument& e) {
    return fail(e, 2);
  } catch (const std::exception& e) {
    return fail(e, 1);
  }
}

}  // namespace stepcast::measure
