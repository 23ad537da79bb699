// SPDX-License-Identifier: Apache-2.0
// Kernels on a GPU that may draw less power than it is rated for.
//
// A GPU lowers its clock until it stays below its limit.  Tensor cores at work draw more than
// anything else, so arithmetic gets slower; the memory's clock stays, and kernels that wait for
// memory, and collectives, take as long as before.  (Measured, with openfabric-systems/simllm's
// A100: products follow the clock, kernels bound by memory do not.)
#pragma once

#include "sim/graph/work.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// Rate of arithmetic at `limit` over that at `rating` (data/power_limit.csv); 1 from the rating on.
// REQUIRES: both > 0.
double rate_at_limit(Power limit, Power rating);

// Time of a work at the GPU's limit over that at `measured_at`, by the data sheet's roofline: 1 of
// a kernel that memory bounds, and of a GPU without a limit.
double slower_at_limit(const Work& work, const Gpu& gpu, Power measured_at);

}  // namespace stepcast
