// SPDX-License-Identifier: Apache-2.0
// The inner loops of the lanes engine: one arithmetic instruction on the times of all lanes.
//
// Times are in 1/4096 ps.  Vectors have one entry a lane and, unless said otherwise, do not
// overlap.  Everything is exact, products too.
#pragma once

#include <cstdint>

namespace stepcast::lane_kernels {

// t = max(t, other + by)
void raise(int64_t* t, const int64_t* other, int64_t n, int64_t by);
// t = max(t, by)
void raise_to(int64_t* t, int64_t n, int64_t by);
// t += by
void add(int64_t* t, int64_t n, int64_t by);
// t = other + by
void set(int64_t* t, const int64_t* other, int64_t n, int64_t by);
// t = max(t, other + delay) + by
void raise_add(int64_t* t, const int64_t* other, int64_t n, int64_t delay, int64_t by);
// Speeds of single lanes.  `slowness` holds whole numbers, and duration * slowness < 2^51 for each.
// t = other + duration * slowness + by
void set_scaled(int64_t* t, const int64_t* other, const double* slowness, int64_t n,
                int64_t duration, int64_t by);
// t += duration * slowness + by
void add_scaled(int64_t* t, const double* slowness, int64_t n, int64_t duration, int64_t by);
// t = max(t, other + delay) + duration * slowness + by
void raise_add_scaled(int64_t* t, const int64_t* other, const double* slowness, int64_t n,
                      int64_t delay, int64_t duration, int64_t by);
// t = max(t, other + duration * slowness + by)
void raise_scaled(int64_t* t, const int64_t* other, const double* slowness, int64_t n,
                  int64_t duration, int64_t by);
// The same for any product below 2^63, slower.
void add_scaled_wide(int64_t* t, const double* slowness, int64_t n, int64_t duration, int64_t by);
void raise_scaled_wide(int64_t* t, const int64_t* other, const double* slowness, int64_t n,
                       int64_t duration, int64_t by);
constexpr int64_t kWide = int64_t{1} << 51;

// t += by_class[of[lane]]
void add_by_class(int64_t* t, const uint8_t* of, const int64_t* by_class, int64_t n);

// The lanes as an array of outer x n x inner: all n of one group get the largest of them, plus by.
void group_max(int64_t* t, int64_t outer, int64_t n, int64_t inner, int64_t by);
// The same of `other`, and of max(t, other + delay).
void set_group_max(int64_t* t, const int64_t* other, int64_t outer, int64_t n, int64_t inner,
                   int64_t by);
void raise_group_max(int64_t* t, const int64_t* other, int64_t outer, int64_t n, int64_t inner,
                     int64_t delay, int64_t by);

// t += duration * (slowness * factor / 4096, rounded half up), with factor = table[hash(key of the
// lane, instance)]; see lane_speeds.h.  `nominal`: every slowness is 4096.  `wide`: the last
// product may be 2^51 or more.
void add_jittered(int64_t* t, const double* slowness, const uint32_t* key, const uint32_t* table,
                  uint32_t instance_key, int64_t n, int64_t duration, bool nominal, bool wide);

int64_t largest(const int64_t* t, int64_t n);
int64_t smallest(const int64_t* t, int64_t n);

}  // namespace stepcast::lane_kernels
