// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/memory_shapes.h"

#include <algorithm>
#include <array>
#include <string>

#include "sim/check.h"

namespace stepcast::measure {
namespace {

// clang-format off
constexpr std::array kKernels{
    MemoryKernel{Kernel::embedding, 4, 4096},
    MemoryKernel{Kernel::embedding_backward, 6, 4096},
    MemoryKernel{Kernel::layer_norm, 4, 4096},
    MemoryKernel{Kernel::layer_norm_backward, 6, 4096},
    MemoryKernel{Kernel::rms_norm, 4, 4096},
    MemoryKernel{Kernel::rms_norm_backward, 6, 4096},
    MemoryKernel{Kernel::rotary, 4, 4096, kHeadDim},
    MemoryKernel{Kernel::rotary_backward, 4, 4096, kHeadDim},
    MemoryKernel{Kernel::bias_add, 4, 4096},
    MemoryKernel{Kernel::bias_backward, 2, 4096},
    MemoryKernel{Kernel::softmax, 4, 2048},
    MemoryKernel{Kernel::softmax_backward, 6, 2048},
    MemoryKernel{Kernel::dropout, 5, 4096},
    MemoryKernel{Kernel::dropout_backward, 5, 4096},
    MemoryKernel{Kernel::bias_dropout_add, 7, 4096},
    MemoryKernel{Kernel::bias_dropout_add_backward, 5, 4096},
    MemoryKernel{Kernel::activation, 6, 8192},
    MemoryKernel{Kernel::activation_backward, 10, 8192},
    MemoryKernel{Kernel::add, 6, 4096},
    MemoryKernel{Kernel::transpose, 4, 4096, 64},
    MemoryKernel{Kernel::cross_entropy, 6, kVocabulary},
    MemoryKernel{Kernel::cross_entropy_backward, 6, kVocabulary},
    MemoryKernel{Kernel::cast, 6, 4096},
    MemoryKernel{Kernel::fill, 4, 4096},
    MemoryKernel{Kernel::copy, 4, 4096},
    MemoryKernel{Kernel::scale, 8, 4096},
    MemoryKernel{Kernel::grad_norm, 4, 4096},
    MemoryKernel{Kernel::adam, 28, 4096},
    MemoryKernel{Kernel::router, 15, kExperts, kExperts},
    MemoryKernel{Kernel::router_backward, 14, kExperts, kExperts},
    MemoryKernel{Kernel::permute, 2 + 2 * kTokenCopies, 4096},
    MemoryKernel{Kernel::unpermute, 2 + 2 * kTokenCopies, 4096},
    MemoryKernel{Kernel::quantize, 4, 4096, 128},
};
// clang-format on

// Rows of these are tiled like their widths; heads and experts are widths alone.
bool tiles_rows(Kernel k) {
  return k == Kernel::transpose || k == Kernel::quantize;
}

}  // namespace

std::span<const MemoryKernel> memory_kernels() {
  return kKernels;
}

MemoryShape memory_shape(Kernel kernel, int64_t bytes) {
  const auto* found = std::find_if(kKernels.begin(), kKernels.end(),
                                   [&](const MemoryKernel& k) { return k.kernel == kernel; });
  STEPCAST_CHECK(found != kKernels.end() && bytes > 0, std::string(name_of(kernel)));
  const int64_t grain = tiles_rows(kernel) ? found->grain : 1;
  // Rounding to whole rows (or tiles of them) then moves the bytes by less than 1 %.
  constexpr int64_t kFewestRows = 64;
  const int64_t elements = bytes / found->bytes;
  int64_t width = found->width;
  while (width > std::max(found->grain, int64_t{64}) && elements < kFewestRows * grain * width) {
    width /= 2;
  }
  const int64_t least = width * grain;
  return {std::max<int64_t>(1, (elements + least / 2) / least) * grain, width};
}

}  // namespace stepcast::measure
