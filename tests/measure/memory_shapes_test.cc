// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/memory_shapes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/check.h"

namespace stepcast::measure::memory_shapes_test {
namespace {

TEST(MemoryShapes, EveryKernelHasOne) {
  for (int k = static_cast<int>(Kernel::none) + 1; k <= static_cast<int>(Kernel::quantize); ++k) {
    const MemoryShape shape = memory_shape(static_cast<Kernel>(k), 64 << 20);
    EXPECT_GT(shape.elements(), 0) << name_of(static_cast<Kernel>(k));
  }
}

TEST(MemoryShapes, MoveTheBytesThatWereAskedFor) {
  for (const MemoryKernel& k : memory_kernels()) {
    for (const int64_t bytes : {int64_t{1} << 20, int64_t{3'000'000}, int64_t{1} << 30}) {
      const MemoryShape shape = memory_shape(k.kernel, bytes);
      const double off = static_cast<double>(shape.elements() * k.bytes - bytes);
      // Tiled rows move in steps of a tile.
      const double allowed = k.kernel == Kernel::quantize || k.kernel == Kernel::transpose
                                 ? 0.01 * static_cast<double>(bytes) + 2.0 * 128 * 128
                                 : 0.01 * static_cast<double>(bytes);
      EXPECT_LE(std::abs(off), allowed) << name_of(k.kernel) << ' ' << bytes;
    }
  }
}

TEST(MemoryShapes, KeepTheGrainDownToTheSmallest) {
  for (const MemoryKernel& k : memory_kernels()) {
    for (const int64_t bytes : {int64_t{1}, int64_t{4096}, int64_t{100'000}, int64_t{1} << 26}) {
      const MemoryShape shape = memory_shape(k.kernel, bytes);
      EXPECT_GE(shape.rows, 1);
      EXPECT_EQ(shape.width % k.grain, 0) << name_of(k.kernel);
      EXPECT_EQ(shape.width % 8, 0);
      if (k.kernel == Kernel::quantize || k.kernel == Kernel::transpose) {
        EXPECT_EQ(shape.rows % k.grain, 0) << name_of(k.kernel);
      }
    }
  }
}

TEST(MemoryShapes, LargeOnesAreWide) {
  EXPECT_EQ(memory_shape(Kernel::rms_norm, 64 << 20).width, 4096);
  EXPECT_EQ(memory_shape(Kernel::cross_entropy, 256 << 20).width, kVocabulary);
}

TEST(MemoryShapes, NoKernelHasNoShape) {
  EXPECT_THROW(memory_shape(Kernel::none, 1), InternalError);
}

}  // namespace
}  // namespace stepcast::measure::memory_shapes_test
