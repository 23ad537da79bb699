// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/measure_point.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "calibrate/measure/families/attention.h"
#include "calibrate/measure/families/interference.h"
#include "calibrate/measure/families/launch_timing.h"
#include "calibrate/measure/families/memory_timing.h"
#include "sim/check.h"

namespace stepcast::measure {
namespace {

// Kernels of a graph whose replay is timed: about those of a layer's forward and backward pass.
constexpr int kGraphKernels = 50;

PointResult measured(const Timing& t) {
  return {{t.us}, t.spread, {}};
}

CopyKind copy_kind(std::string_view key) {
  for (const CopyKind kind : {CopyKind::h2d, CopyKind::d2h}) {
    if (key.starts_with("copy," + std::string(name_of(kind)))) return kind;
  }
  return CopyKind::d2d;
}

const char* variable(const char* name) {
  return std::getenv(name);
}

}  // namespace

PointMeasurer::PointMeasurer(const Device& device, int gpus)
    : device_(device),
      gpus_(gpus),
      bench_{device, stream_.get(), {}},
      blas_(device),
      nvml_(device),
      facts_(measure::collective_facts(variable)) {
  bench_.timing.while_busy = [this] { busy_ = nvml_.state(); };
  const std::string nothing = why_no_collectives(gpus);
  if (!nothing.empty()) remarks_.push_back(nothing);
}

Collectives& PointMeasurer::collectives() {
  if (!collectives_) {
    collectives_ = std::make_unique<Collectives>(gpus_, [](const std::string& what) {
      std::fprintf(stderr, "stepcast-measure: %s\n", what.c_str());
      std::_Exit(1);
    });
  }
  return *collectives_;
}

PointResult PointMeasurer::time_interference() {
  InterferenceFound found = why_no_collectives(gpus_).empty()
                                ? interference_with_collectives(collectives())
                                : interference_with_copies(device_);
  interference_is_derived_ = found.of_copies;
  if (!found.conditions.empty()) remarks_.push_back(found.conditions);
  check_cuda(cudaSetDevice(device_.index), "taking the GPU");
  return std::move(found.measured);
}

PointResult PointMeasurer::time(const SweepPoint& p) {
  const std::string_view family = family_of(p.key);
  if (family == "gemm") return measured(time_gemm(bench_, blas_, p.work));
  if (family == "attention") return measured(time_attention(bench_, p.work));
  if (family == "memory") return measured(time_memory(bench_, p.work.kernel, p.work.bytes.value));
  if (family == "copy") return measured(time_copy(bench_, copy_kind(p.key), p.work.bytes.value));
  if (family == "launch") return measured(time_launch(bench_));
  if (family == "graph_launch") return measured(time_graph_launch(bench_, kGraphKernels));
  if (family == "interference") return time_interference();
  STEPCAST_CHECK(family == "collective", p.key);
  PointResult m = collectives().measure(p);
  check_cuda(cudaSetDevice(device_.index), "taking the GPU");
  return m;
}

PointResult PointMeasurer::measure(const SweepPoint& point) {
  const DeviceState before = nvml_.state();
  busy_.reset();
  try {
    PointResult m = time(point);
    log_.add(before, busy_ ? *busy_ : nvml_.state());
    return m;
  } catch (const Unsupported& e) {
    static_cast<void>(cudaGetLastError());  // the next point would be blamed for it
    return {{}, 0, e.what()};
  } catch (const DeviceError& e) {
    // One call that failed need not end the run: errors that stick come back from the device.
    static_cast<void>(cudaGetLastError());
    if (cudaSetDevice(device_.index) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
      throw;
    }
    return {{}, 0, e.what()};
  }
}

std::string PointMeasurer::software() const {
  std::string text = device_.software;
  for (const std::string& part : {nvml_.driver().empty() ? "" : "driver " + nvml_.driver(),
                                  blas_.version(), facts_.software}) {
    if (!part.empty()) text += ", " + part;
  }
  return text;
}

std::vector<std::string> PointMeasurer::conditions() const {
  std::vector<std::string> lines = remarks_;
  const std::string clocks = log_.text();
  if (!clocks.empty()) lines.push_back(clocks);
  return lines;
}

}  // namespace stepcast::measure
