// SPDX-License-Identifier: Apache-2.0
// How long a call takes on the GPU: CUDA events around batches of calls.
//
// Before each batch the stream is held by a kernel that spins until the host has enqueued the whole
// batch, so that the time is the device's and not that of the host that launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>

#include "calibrate/measure/device.h"

namespace stepcast::measure {

struct TimingOptions {
  int samples = 20;             // batches that are timed
  double limit_seconds = 2;     // fewer samples (at least 5) if they would take longer
  double warmup_seconds = 0.1;  // at most, and until two batches in turn agree within 2 %
  double batch_us = 500;        // calls are batched until a batch takes this long
};

struct Timing {
  double us = 0;      // median over samples of the time of one call
  double spread = 0;  // interquartile range over median
  int samples = 0;
};

// Enqueues one execution on the stream it was made for; `call` counts up, to choose among copies of
// the operands (Operands::at).  It must not synchronise.
using Call = std::function<void(int64_t call)>;

// Throws DeviceError if a call fails.
Timing time_calls(cudaStream_t stream, const Call& call, const TimingOptions& options);

// What the families of measurements share.
struct Bench {
  Device device;
  cudaStream_t stream = nullptr;
  TimingOptions timing;
};

// Median and interquartile range over median.  REQUIRES: not empty.  CUDA-free (timing_summary.cc).
Timing summarize(std::span<const double> us_per_call);

}  // namespace stepcast::measure
