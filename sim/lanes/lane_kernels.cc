// SPDX-License-Identifier: Apache-2.0
// Loops that compilers turn into vector code, compiled for several instruction sets where the
// compiler can choose among them when the program starts (sanitizers run before that is set up).
//
// Times are 64-bit integers, slowness is a double that holds a whole number.  Their product is
// taken by the floating-point units and is still exact: with slowness 4096 and a duration of 1000,
// 4096000 + 2^52 is a double whose bit pattern is that of 2^52 plus the integer 4096000.  That
// holds for products below 2^51; longer ones take the `wide` loops, which multiply integers.

#include "sim/lanes/lane_kernels.h"

#include <algorithm>
#include <array>
#include <bit>

#include "sim/lanes/lane_speeds.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STEPCAST_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define STEPCAST_CLONES
#endif

namespace stepcast::lane_kernels {
namespace {

// Four lanes at once.  (Of eight, compilers make poor code where a register holds four.)
using Block [[gnu::vector_size(32), gnu::aligned(8), gnu::may_alias]] = int64_t;
constexpr int64_t kBlock = 4;

constexpr int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// For a whole number x < 2^51, the bits of the double x + 2^52 are those of 2^52 plus x.  So vector
// units that can neither multiply nor convert 64-bit integers get an exact product.
constexpr double kShift = 4503599627370496.0;
constexpr auto kShiftBits = std::bit_cast<int64_t>(kShift);
inline int64_t shifted_product(double a, double b) {
  return std::bit_cast<int64_t>(a * b + kShift);
}

// Any duration below 2^50, slowness below 2^31, as long as the product is below 2^63.
constexpr int64_t wide_product(double slowness, int64_t duration) {
  return static_cast<int64_t>(slowness) * duration;
}

}  // namespace

STEPCAST_CLONES
void raise(int64_t* __restrict t, const int64_t* __restrict other, int64_t n, int64_t by) {
  for (int64_t i = 0; i < n; ++i) t[i] = larger(t[i], other[i] + by);
}

STEPCAST_CLONES
void raise_to(int64_t* t, int64_t n, int64_t by) {
  for (int64_t i = 0; i < n; ++i) t[i] = larger(t[i], by);
}

STEPCAST_CLONES
void add(int64_t* t, int64_t n, int64_t by) {
  for (int64_t i = 0; i < n; ++i) t[i] += by;
}

STEPCAST_CLONES
void set(int64_t* __restrict t, const int64_t* __restrict other, int64_t n, int64_t by) {
  for (int64_t i = 0; i < n; ++i) t[i] = other[i] + by;
}

STEPCAST_CLONES
void raise_add(int64_t* __restrict t, const int64_t* __restrict other, int64_t n, int64_t delay,
               int64_t by) {
  for (int64_t i = 0; i < n; ++i) t[i] = larger(t[i], other[i] + delay) + by;
}

STEPCAST_CLONES
void set_scaled(int64_t* __restrict t, const int64_t* __restrict other,
                const double* __restrict slowness, int64_t n, int64_t duration, int64_t by) {
  const auto d = static_cast<double>(duration);
  const int64_t rest = by - kShiftBits;
  for (int64_t i = 0; i < n; ++i) t[i] = other[i] + shifted_product(slowness[i], d) + rest;
}

STEPCAST_CLONES
void add_scaled(int64_t* __restrict t, const double* __restrict slowness, int64_t n,
                int64_t duration, int64_t by) {
  const auto d = static_cast<double>(duration);
  const int64_t rest = by - kShiftBits;
  for (int64_t i = 0; i < n; ++i) t[i] += shifted_product(slowness[i], d) + rest;
}

STEPCAST_CLONES
void raise_add_scaled(int64_t* __restrict t, const int64_t* __restrict other,
                      const double* __restrict slowness, int64_t n, int64_t delay, int64_t duration,
                      int64_t by) {
  const auto d = static_cast<double>(duration);
  const int64_t rest = by - kShiftBits;
  for (int64_t i = 0; i < n; ++i)
    t[i] = larger(t[i], other[i] + delay) + shifted_product(slowness[i], d) + rest;
}

STEPCAST_CLONES
void raise_scaled(int64_t* __restrict t, const int64_t* __restrict other,
                  const double* __restrict slowness, int64_t n, int64_t duration, int64_t by) {
  const auto d = static_cast<double>(duration);
  const int64_t rest = by - kShiftBits;
  for (int64_t i = 0; i < n; ++i)
    t[i] = larger(t[i], other[i] + shifted_product(slowness[i], d) + rest);
}

void add_scaled_wide(int64_t* t, const double* slowness, int64_t n, int64_t duration, int64_t by) {
  for (int64_t i = 0; i < n; ++i) t[i] += wide_product(slowness[i], duration) + by;
}

void raise_scaled_wide(int64_t* t, const int64_t* other, const double* slowness, int64_t n,
                       int64_t duration, int64_t by) {
  for (int64_t i = 0; i < n; ++i)
    t[i] = larger(t[i], other[i] + wide_product(slowness[i], duration) + by);
}

void add_by_class(int64_t* t, const uint8_t* of, const int64_t* by_class, int64_t n) {
  for (int64_t i = 0; i < n; ++i) t[i] += by_class[of[i]];
}

STEPCAST_CLONES
void set_group_max(int64_t* t, const int64_t* other, int64_t outer, int64_t n, int64_t inner,
                   int64_t by) {
  const int64_t size = n * inner;
  for (int64_t o = 0; o < outer; ++o, t += size, other += size) {
    if (inner == 1) {
      int64_t most = other[0];
      for (int64_t k = 1; k < n; ++k) most = larger(most, other[k]);
      for (int64_t k = 0; k < n; ++k) t[k] = most + by;
      continue;
    }
    int64_t i = 0;
    for (; i + kBlock <= inner; i += kBlock) {
      Block most = *reinterpret_cast<const Block*>(other + i);
      for (int64_t k = 1; k < n; ++k) {
        const Block next = *reinterpret_cast<const Block*>(other + k * inner + i);
        most = most > next ? most : next;
      }
      most += by;
      for (int64_t k = 0; k < n; ++k) *reinterpret_cast<Block*>(t + k * inner + i) = most;
    }
    for (; i < inner; ++i) {
      int64_t most = other[i];
      for (int64_t k = 1; k < n; ++k) most = larger(most, other[k * inner + i]);
      for (int64_t k = 0; k < n; ++k) t[k * inner + i] = most + by;
    }
  }
}

void group_max(int64_t* t, int64_t outer, int64_t n, int64_t inner, int64_t by) {
  set_group_max(t, t, outer, n, inner, by);
}

STEPCAST_CLONES
void raise_group_max(int64_t* __restrict t, const int64_t* __restrict other, int64_t outer,
                     int64_t n, int64_t inner, int64_t delay, int64_t by) {
  const int64_t size = n * inner;
  for (int64_t o = 0; o < outer; ++o, t += size, other += size) {
    int64_t i = 0;
    for (; i + kBlock <= inner; i += kBlock) {
      Block most = *reinterpret_cast<const Block*>(t + i);
      Block most_other = *reinterpret_cast<const Block*>(other + i);
      for (int64_t k = 1; k < n; ++k) {
        const Block next = *reinterpret_cast<const Block*>(t + k * inner + i);
        const Block next_other = *reinterpret_cast<const Block*>(other + k * inner + i);
        most = most > next ? most : next;
        most_other = most_other > next_other ? most_other : next_other;
      }
      most_other += delay;
      most = (most > most_other ? most : most_other) + by;
      for (int64_t k = 0; k < n; ++k) *reinterpret_cast<Block*>(t + k * inner + i) = most;
    }
    for (; i < inner; ++i) {
      int64_t most = larger(t[i], other[i] + delay);
      for (int64_t k = 1; k < n; ++k)
        most = larger(most, larger(t[k * inner + i], other[k * inner + i] + delay));
      for (int64_t k = 0; k < n; ++k) t[k * inner + i] = most + by;
    }
  }
}

namespace {

STEPCAST_CLONES
void draw(uint32_t* __restrict index, const uint32_t* __restrict key, uint32_t instance_key,
          int64_t n) {
  for (int64_t i = 0; i < n; ++i) index[i] = jitter_index(key[i], instance_key);
}

// slowness * factor / 4096, rounded half up to a whole number: the product has 12 bits behind the
// point, so that half a unit of the 13th turns ties upwards.
inline double jittered_slowness(double slowness, uint32_t factor) {
  const double exact = slowness * static_cast<double>(static_cast<int32_t>(factor)) * 0x1p-12;
  return exact + 0x1p-13 + kShift - kShift;
}

STEPCAST_CLONES
void add_drawn(int64_t* __restrict t, const double* __restrict slowness,
               const uint32_t* __restrict factor, int64_t n, int64_t duration) {
  const auto d = static_cast<double>(duration);
  for (int64_t i = 0; i < n; ++i)
    t[i] += shifted_product(jittered_slowness(slowness[i], factor[i]), d) - kShiftBits;
}

// On lanes that are as fast as priced, the factor is the slowness.
STEPCAST_CLONES
void add_drawn_nominal(int64_t* __restrict t, const uint32_t* __restrict factor, int64_t n,
                       int64_t duration) {
  const auto d = static_cast<double>(duration);
  for (int64_t i = 0; i < n; ++i) {
    const auto slowness = static_cast<double>(static_cast<int32_t>(factor[i]));
    t[i] += shifted_product(slowness, d) - kShiftBits;
  }
}

void add_drawn_wide(int64_t* t, const double* slowness, const uint32_t* factor, int64_t n,
                    int64_t duration) {
  for (int64_t i = 0; i < n; ++i)
    t[i] += wide_product(jittered_slowness(slowness[i], factor[i]), duration);
}

}  // namespace

void add_jittered(int64_t* t, const double* slowness, const uint32_t* key, const uint32_t* table,
                  uint32_t instance_key, int64_t n, int64_t duration, bool nominal, bool wide) {
  constexpr int64_t kChunk = 256;
  std::array<uint32_t, kChunk> drawn;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    draw(drawn.data(), key + begin, instance_key, count);
    // One by one: loads of four or eight places at once are slower than this on many machines.
    for (int64_t i = 0; i < count; ++i)
      drawn[static_cast<size_t>(i)] = table[drawn[static_cast<size_t>(i)]];
    if (nominal && !wide) {
      add_drawn_nominal(t + begin, drawn.data(), count, duration);
      continue;
    }
    const auto add_all = wide ? add_drawn_wide : add_drawn;
    add_all(t + begin, slowness + begin, drawn.data(), count, duration);
  }
}

STEPCAST_CLONES
int64_t largest(const int64_t* t, int64_t n) {
  int64_t most = t[0];
  for (int64_t i = 1; i < n; ++i) most = larger(most, t[i]);
  return most;
}

STEPCAST_CLONES
int64_t smallest(const int64_t* t, int64_t n) {
  int64_t least = t[0];
  for (int64_t i = 1; i < n; ++i) least = t[i] < least ? t[i] : least;
  return least;
}

}  // namespace stepcast::lane_kernels
