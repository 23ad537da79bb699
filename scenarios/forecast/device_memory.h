// SPDX-License-Identifier: Apache-2.0
// What a GPU holds beside the caching allocator of PyTorch: the CUDA context, with the kernels that
// are loaded into it, the communicators of the groups that a rank is in, and DeepEP's buffers.
//
// PyTorch makes a communicator for a group when it communicates first: for the world (the barrier
// after init_process_group), for each axis along which more than one rank lies, for the model group
// (gradient norm) and for the ends of a tied embedding.
#pragma once

#include <vector>

#include "scenarios/scenario.h"
#include "sim/results/result.h"

namespace stepcast {

// Of the rank that is in most groups.  One line where the scenario states it
// (cluster.node.gpu.reserve).
std::vector<DeviceMemory> device_memory(const Scenario& scenario);
// Their sum.
Bytes device_reserve(const Scenario& scenario);

}  // namespace stepcast
