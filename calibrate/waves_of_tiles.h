// SPDX-License-Identifier: Apache-2.0
// How a matrix product's output falls into tiles and waves.
//
// Each multiprocessor computes one tile of the output at a time; tiles that the shape does not fill
// and multiprocessors that the last wave leaves without a tile are idle (NVIDIA, Matrix
// Multiplication Background User's Guide, "Tile Quantization" and "Wave Quantization", which also
// lists the tile sizes).  Which size the library picks is not known, so a shape is described by
// what each of several would leave idle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stepcast {

// For tiles of 128x128, 128x256, 256x128 and 64x128: share of the multiprocessors' time that is
// idle, 0 to 1.  REQUIRES: all > 0.
using IdleShares = std::array<double, 4>;

inline IdleShares idle_shares(int64_t m, int64_t n, int64_t batch, int64_t sms) {
  constexpr std::array<std::array<int64_t, 2>, 4> kTiles{
      {{128, 128}, {128, 256}, {256, 128}, {64, 128}}};
  constexpr double kManyWaves = 0x1p40;  // of which the last one is nothing
  const double used = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(batch);
  IdleShares idle{};
  for (size_t i = 0; i < kTiles.size(); ++i) {
    const auto [rows, columns] = kTiles[i];
    // As doubles: whole up to 2^53, and sizes that a file may name have products beyond int64_t.
    const double tiles = static_cast<double>((m + rows - 1) / rows) *
                         static_cast<double>((n + columns - 1) / columns) *
                         static_cast<double>(batch);
    const double full = tiles / static_cast<double>(sms);
    double waves = full;
    if (full < kManyWaves) {
      waves = static_cast<double>(static_cast<int64_t>(full));
      if (waves * static_cast<double>(sms) < tiles) ++waves;
    }
    idle[i] = 1 - used / (waves * static_cast<double>(sms) * static_cast<double>(rows * columns));
  }
  return idle;
}

}  // namespace stepcast
