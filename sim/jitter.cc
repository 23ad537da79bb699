// SPDX-License-Identifier: Apache-2.0
#include "sim/jitter.h"

#include "sim/check.h"
#include "sim/log_exp.h"

namespace stepcast {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
constexpr double kInverseRootTwoPi = 0.3989422804014326779;

double density(double z) {
  return kInverseRootTwoPi * exact_exp2(-0.5 * z * z * kLog2E);
}

// The normal distribution function less one half, for z >= 0: density times the series
// z + z^3/3 + z^5/(3 5) + ... (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.11).
double above_median(double z) {
  double term = z;
  double sum = z;
  for (int k = 3; term > 1e-18 * sum; k += 2) {
    term *= z * z / k;
    sum += term;
  }
  return density(z) * sum;
}

// SplitMix64's finalizer: every bit of the result depends on every bit of x.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

JitterTable jitter_table(double sigma) {
  STEPCAST_CHECK(sigma >= 0 && sigma <= 1, "the spread of jitter lies between 0 and 1");
  JitterTable table;
  const size_t half = table.factor.size() / 2;
  const auto count = static_cast<double>(table.factor.size());
  const auto fixed = [](double x) { return static_cast<uint32_t>(x * 4096 + 0.5); };
  double z = 0;
  for (size_t i = 0; i < half; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / count;
    // Newton from the neighbouring quantile, which lies below: the function is concave here, so
    // all steps go up until rounding stops them.
    for (double step = 1; step > 1e-12; z += step) step = (p - above_median(z)) / density(z);
    table.factor[half + i] = fixed(exact_exp2(sigma * z * kLog2E));
    table.factor[half - 1 - i] = fixed(exact_exp2(-sigma * z * kLog2E));
  }
  return table;
}

uint32_t jitter_rank_key(uint64_t seed, uint64_t rank) {
  return static_cast<uint32_t>(mix(mix(seed + 0x9e3779b97f4a7c15ULL) + rank) >> 32);
}

uint32_t jitter_instance_key(uint64_t instance) {
  return static_cast<uint32_t>(mix(instance * 0x9e3779b97f4a7c15ULL) >> 32);
}

}  // namespace stepcast
