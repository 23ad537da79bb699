// SPDX-License-Identifier: Apache-2.0
// Residuals of measured points, interpolated by inverse distance.
//
// A kernel's time is a smooth form times a residual that depends on which variant the library
// picks.  Nearby shapes pick alike, so the log2 residual of a new shape is the weighted mean of its
// nearest measured ones; far from all of them it fades into a given prior.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/graph/price.h"

namespace stepcast {

using Place = std::array<double, 4>;  // coordinates: log2 of sizes, scaled

struct Neighbor {
  Place at{};
  double residual = 0;       // log2(measured / smooth form)
  bool derived = false;      // carried over from other hardware or another op
  bool in_training = false;  // measured in a training step
};

// One of the nearest points.
struct Near {
  double distance = 0;  // squared
  uint32_t index = 0;   // in the order that the index was given the points
};

// A k-d tree.  Which points are nearest does not depend on how it is built: ties go to the earlier
// point.
class NeighborIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  NeighborIndex() = default;
  // REQUIRES: fewer than 2^32 - 1 points.
  explicit NeighborIndex(std::span<const Neighbor> points);

  // Fills `out` with the nearest points, nearest first, and returns how many there were; `without`
  // is left out.  O(log points) for points that are spread out.
  size_t nearest(const Place& at, std::span<Near> out, uint32_t without = kNone) const;

 private:
  struct Node {
    Place at{};
    uint32_t index = 0;
    uint8_t axis = 0;  // of the split here
  };
  struct Search;

  void build(size_t low, size_t high);
  void visit(size_t low, size_t high, Search& search) const;

  std::vector<Node> nodes_;  // the middle one of a range splits it; short ones are not split
};

struct Residual {
  double value = 0;          // log2
  int used = 0;              // neighbours that entered
  bool derived = false;      // derived ones carry more than half of the weight
  bool in_training = false;  // those that were measured in a training step do
};

// Mean over `near`, of weight 1/(d^2 + 0.05)^2, together with `prior` at weight 0.01, that
// of a point at distance 3.  `points` in the order of their index.
Residual mean_residual(std::span<const Near> near, std::span<const Neighbor> points, double prior);

// That mean as a factor of a price: the rows of `near`, heaviest first, whose text and time
// `row_of` gives by index, and `prior` under its name.
PriceFactor factor_of(const Residual& mean, std::span<const Near> near,
                      std::span<const Neighbor> points, double prior, std::string_view prior_name,
                      const std::function<PriceRow(uint32_t)>& row_of);

}  // namespace stepcast
