// SPDX-License-Identifier: Apache-2.0
// The shape in which a memory-bound kernel is measured.  Rows of a table state bytes alone, so one
// usual shape stands for a kernel: hidden size 4096, gated MLPs of 8192, 2048 keys, vocabularies of
// 32768, 128 experts of which a token takes 8; narrower where the bytes are few.
#pragma once

#include <cstdint>
#include <span>

#include "sim/graph/work.h"

namespace stepcast::measure {

// What one element moves, as the forecast counts it (model/): reads and writes of the large
// tensors, not of weights, statistics and indices.  An element of activations and their backward
// pass is one of the MLP's inner width; of permute, one of a token before it is copied.
struct MemoryKernel {
  Kernel kernel{};
  int64_t bytes = 0;  // an element
  int64_t width = 0;  // elements of a row
  int64_t grain = 8;  // rows and width are multiples of it (rows: only if above 8)
};

std::span<const MemoryKernel> memory_kernels();

struct MemoryShape {
  int64_t rows = 0, width = 0;
  int64_t elements() const { return rows * width; }
};

// Whole rows that come nearest to `bytes`, within 1 % where there are 1 MB or more.  REQUIRES: a
// kernel of memory_kernels(), bytes > 0.
MemoryShape memory_shape(Kernel kernel, int64_t bytes);

// Copies of a token that permute makes, and experts that the router chooses among, and takes.
constexpr int64_t kTokenCopies = 8;
constexpr int64_t kExperts = 128;
constexpr int64_t kVocabulary = 32768;
constexpr int64_t kHeadDim = 128;

}  // namespace stepcast::measure
