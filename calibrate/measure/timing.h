// SPDX-License-Identifier: Apache-2.0
// How long a call takes on the GPU: CUDA events around batches of calls.
//
// Before each batch the stream is held by a kernel that spins until the host has enqueued the whole
// batch, so that the time is the device's and not that of the host that launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "calibrate/measure/device.h"
#include "calibrate/measure/timing_summary.h"

namespace stepcast::measure {

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

}  // namespace stepcast::measure
