// SPDX-License-Identifier: Apache-2.0
// What the layers of the reference compute of single values, in double precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace stepcast::measure {

constexpr double kEpsilon = 1e-5;  // of the norms (Llama)
constexpr double kBase = 10000;    // of the rotary angles (Su et al. 2021)

inline double rotary_angle(int64_t position, int64_t i, int64_t dim) {
  return static_cast<double>(position) *
         std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
}

// The first half of a head's values turns with the second.
inline void rotate(double* head, int64_t position, int64_t dim, bool back) {
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double angle = rotary_angle(position, i, dim) * (back ? -1 : 1);
    const double x = head[i], y = head[i + dim / 2];
    head[i] = x * std::cos(angle) - y * std::sin(angle);
    head[i + dim / 2] = x * std::sin(angle) + y * std::cos(angle);
  }
}

inline double gelu(double x) {  // the tanh form, Hendrycks and Gimpel 2016
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}
inline double gelu_slope(double x) {
  const double c = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double silu(double x) {
  return x * sigmoid(x);
}

}  // namespace stepcast::measure
