// SPDX-License-Identifier: Apache-2.0
// Kernels that do nothing, for as long as asked or for as short as can be.
#pragma once

#include <cuda_runtime_api.h>

namespace stepcast::measure {

// Holds the stream for about `us` microseconds.
void spin(double us, cudaStream_t stream);

// One launch of a kernel of one block that returns at once.
void launch_empty(cudaStream_t stream);

}  // namespace stepcast::measure
