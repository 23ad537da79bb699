// SPDX-License-Identifier: Apache-2.0
// Random numbers of a seed and an index, without state: the same on the device and the host.
#pragma once

#include <cmath>
#include <cstdint>

#include "calibrate/measure/kernels/both_sides.h"

namespace stepcast::measure {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
// generators"): neighbouring indices give unrelated bits.
STEPCAST_BOTH inline uint64_t mix(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Uniform in (0, 1), from 24 bits.
STEPCAST_BOTH inline float uniform(uint32_t bits) {
  return (static_cast<float>(bits >> 8) + 0.5f) * (1.0f / 16777216.0f);
}

// Normal with deviation 1: Box and Muller's transform of two uniform numbers.
STEPCAST_BOTH inline float normal(uint64_t seed, uint64_t index) {
  const uint64_t bits = mix(seed, index);
  const float radius = sqrtf(-2.0f * logf(uniform(static_cast<uint32_t>(bits))));
  return radius * cosf(6.2831853f * uniform(static_cast<uint32_t>(bits >> 32)));
}

}  // namespace stepcast::measure
