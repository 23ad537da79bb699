// SPDX-License-Identifier: Apache-2.0
// What batched products of odd sizes cost beside those that cost tables measure.
//
// cuBLAS loads 16 bytes at a time, 8 values of 16 bits, where every row of the operands begins on
// such a boundary.  Where the contiguous dimension of one is no multiple of 8 (a head of 150
// values) it falls back to kernels of narrower loads (NVIDIA, Matrix Multiplication Background
// User's Guide, "Requirements to use Tensor Cores").  Single products mostly find a good kernel all
// the same; batched ones, as of unfused attention, were measured (alignment.csv).
#pragma once

#include "sim/work.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// On how many bytes, 16 at most, all rows of the operands and the result of a product of 16-bit
// values begin.  Their contiguous dimensions: k and n forward, n and k, m and n of a weight
// gradient.
int64_t bytes_aligned(const Work& product);

// Time over that of an aligned product of as much work; 1 where the work is no batched product of
// 16 bits, is aligned, or was measured at this alignment on no GPU of this generation.
double misalignment_ratio(const Work& work, GpuArch arch);

}  // namespace stepcast
