// SPDX-License-Identifier: Apache-2.0
// A random factor for each op instance on each rank, the same on every machine.
//
// Nothing is drawn in sequence: the factor is a function of (seed, rank, instance), so it depends
// neither on who runs first nor on which ranks run at all.  Log-normal with median 1: the hash
// picks one of 4096 equally likely quantiles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stepcast {

struct JitterTable {
  static constexpr int kBits = 12;
  // exp(sigma * z) in 1/4096, z the normal quantiles at (i + 1/2) / 4096; rounded half up.
  std::array<uint32_t, size_t{1} << kBits> factor{};
};
// REQUIRES: 0 <= sigma <= 1.
JitterTable jitter_table(double sigma);

// What a rank (role * lanes + lane) and an op instance (counted over the passes of the role, in
// program order) bring to the hash.
uint32_t jitter_rank_key(uint64_t seed, uint64_t rank);
uint32_t jitter_instance_key(uint64_t instance);

// Index into JitterTable::factor.
constexpr uint32_t jitter_index(uint32_t rank_key, uint32_t instance_key) {
  uint32_t x = rank_key ^ instance_key;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x >> (32 - JitterTable::kBits);
}

// Slowness in 1/4096 times the factor, rounded half up.
constexpr uint32_t jittered(uint32_t slowness, uint32_t factor) {
  return static_cast<uint32_t>((uint64_t{slowness} * factor + 2048) >> 12);
}

}  // namespace stepcast
