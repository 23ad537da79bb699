// SPDX-License-Identifier: Apache-2.0
// Residuals of measured points, interpolated by inverse distance.
//
// A kernel's time is a smooth form times a residual that depends on which variant the library
// picks.  Nearby shapes pick alike, so the log2 residual of a new shape is the weighted mean of its
// nearest measured ones; far from all of them it fades into a given prior.
#pragma once

#include <array>
#include <span>

namespace stepcast {

struct Neighbor {
  std::array<double, 4> at{};  // coordinates, log2 of sizes
  double residual = 0;         // log2(measured / smooth form)
  bool derived = false;        // carried over from other hardware or another op
};

struct Residual {
  double value = 0;      // log2
  int used = 0;          // neighbours that entered
  bool derived = false;  // one of them was derived
  double nearest = 0;    // distance of the nearest, in octaves
};

enum class Falloff { square, fourth };  // weight against distance

// Mean over the (up to 8) nearest points, of weight 1/(d^2 + 0.02) or its square, together with
// `prior` at weight 0.1 of a point one octave away.  Ties go to the earlier point.  O(points).
Residual nearest_residual(std::span<const Neighbor> points, const std::array<double, 4>& at,
                          Falloff falloff, double prior);

}  // namespace stepcast
