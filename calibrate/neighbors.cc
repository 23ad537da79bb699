// SPDX-License-Identifier: Apache-2.0
#include "calibrate/neighbors.h"

#include <cmath>
#include <cstddef>

namespace stepcast {
namespace {

constexpr size_t kNearest = 8;
constexpr double kPriorWeight = 0.1;
constexpr double kSmallest = 0.02;  // squared octaves: keeps the weight of a hit finite

struct Candidate {
  double distance = 0;  // squared
  const Neighbor* point = nullptr;
};

}  // namespace

Residual nearest_residual(std::span<const Neighbor> points, const std::array<double, 4>& at,
                          Falloff falloff, double prior) {
  std::array<Candidate, kNearest> best;
  size_t count = 0;
  for (const Neighbor& p : points) {
    double d = 0;
    for (size_t i = 0; i < at.size(); ++i) d += (p.at[i] - at[i]) * (p.at[i] - at[i]);
    if (count == kNearest && d >= best[count - 1].distance) continue;
    size_t place = count < kNearest ? count++ : count - 1;
    for (; place > 0 && best[place - 1].distance > d; --place) best[place] = best[place - 1];
    best[place] = {d, &p};
  }
  Residual result;
  result.used = static_cast<int>(count);
  double weights = kPriorWeight;
  double sum = kPriorWeight * prior;
  for (size_t i = 0; i < count; ++i) {
    double weight = 1 / (best[i].distance + kSmallest);
    if (falloff == Falloff::fourth) weight *= weight;
    weights += weight;
    sum += weight * best[i].point->residual;
    result.derived = result.derived || best[i].point->derived;
  }
  result.value = sum / weights;
  if (count > 0) result.nearest = std::sqrt(best[0].distance);
  return result;
}

}  // namespace stepcast
