// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/gemm_prices.h"

#include <gtest/gtest.h>

namespace stepcast::waves_of_tiles_test {
namespace {

TEST(IdleShares, AreNoneWhereTilesFillWaves) {
  for (const double idle : idle_shares(256, 256 * 108, 1, 108)) EXPECT_NEAR(idle, 0, 1e-12);
}

TEST(IdleShares, CountTilesThatAreNotFull) {
  // 100 of 128 rows, or of 256: in one wave of tiles that are full in the other direction.
  const IdleShares idle = idle_shares(100, 256 * 108, 2, 108);
  EXPECT_NEAR(idle[0], 1 - 100.0 / 128, 1e-12);
  EXPECT_NEAR(idle[1], 1 - 100.0 / 128, 1e-12);
  EXPECT_NEAR(idle[2], 1 - 100.0 / 256, 1e-12);
  EXPECT_NEAR(idle[3], 1 - 100.0 / 128, 1e-12);
}

TEST(IdleShares, CountTheLastWave) {
  // 109 tiles of 128x128 on 108 multiprocessors.
  EXPECT_NEAR(idle_shares(128, 128 * 109, 1, 108)[0], 1 - 109.0 / 216, 1e-12);
  EXPECT_NEAR(idle_shares(128, 128 * 109, 1, 109)[0], 0, 1e-12);
}

TEST(IdleShares, OfTheLargestSizesAreShares) {
  constexpr int64_t kLargest = int64_t{1} << 50;
  for (const double idle : idle_shares(kLargest, kLargest, kLargest, 1)) EXPECT_NEAR(idle, 0, 1e-9);
  for (const double idle : idle_shares(kLargest, kLargest, 1, 132)) EXPECT_NEAR(idle, 0, 1e-9);
}

}  // namespace
}  // namespace stepcast::waves_of_tiles_test
