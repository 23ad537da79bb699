// SPDX-License-Identifier: Apache-2.0
// The k-d tree is one array: the node in the middle of a range splits it along the axis in which
// the range is widest, smaller coordinates before it, larger ones behind it, and ranges of up to
// kLeaf nodes are not split.  Seven points on a line, with kLeaf = 1, stand as
//
//     1 2 3 [5] 8 9 12        5 splits 1 to 12, 2 splits 1 to 3, 9 splits 8 to 12
//
// A search for the two points nearest to 6 first sees 5, at a squared distance of 1, then the half
// that 6 lies in, where it finds 8, at 4.  The far half begins beyond 5, and 1 is less than 4, so a
// point there could still be nearer than 8: it is visited, 2 and 3 are 16 and 9 away, and what lies
// beyond 2 is further than that, so 1 is never looked at.
#include "calibrate/table/neighbors.h"

#include <algorithm>

#include "sim/check.h"
#include "sim/log_exp.h"

namespace stepcast {
namespace {

constexpr double kSmallest = 0.05;  // squared: keeps the weight of a hit finite, and noise in check
constexpr size_t kLeaf = 8;         // points that are looked at one by one

constexpr double kPriorWeight = 0.01;

double weight_of(const Near& n) {
  return 1 / ((n.distance + kSmallest) * (n.distance + kSmallest));
}

bool before(const Near& a, const Near& b) {
  return a.distance != b.distance ? a.distance < b.distance : a.index < b.index;
}

}  // namespace

struct NeighborIndex::Search {
  const Place& at;
  std::span<Near> out;
  uint32_t without = kNone;
  size_t count = 0;

  bool reaches(double squared) const {
    return count < out.size() || squared <= out[count - 1].distance;
  }

  void look_at(const Node& node) {
    if (node.index == without) return;
    Near found{0, node.index};
    for (size_t i = 0; i < at.size(); ++i) {
      found.distance += (node.at[i] - at[i]) * (node.at[i] - at[i]);
    }
    if (count == out.size()) {
      if (!before(found, out[count - 1])) return;
      --count;
    }
    size_t place = count++;
    for (; place > 0 && before(found, out[place - 1]); --place) out[place] = out[place - 1];
    out[place] = found;
  }
};

NeighborIndex::NeighborIndex(std::span<const Neighbor> points) {
  STEPCAST_CHECK(points.size() < kNone, "too many points");
  nodes_.reserve(points.size());
  for (const Neighbor& p : points) nodes_.push_back({p.at, static_cast<uint32_t>(nodes_.size())});
  build(0, nodes_.size());
}

void NeighborIndex::build(size_t low, size_t high) {
  if (high - low <= kLeaf) return;
  Place least = nodes_[low].at, most = least;
  for (size_t i = low; i < high; ++i) {
    for (size_t d = 0; d < least.size(); ++d) {
      least[d] = std::min(least[d], nodes_[i].at[d]);
      most[d] = std::max(most[d], nodes_[i].at[d]);
    }
  }
  size_t axis = 0;
  for (size_t d = 1; d < least.size(); ++d) {
    if (most[d] - least[d] > most[axis] - least[axis]) axis = d;
  }
  const size_t middle = low + (high - low) / 2;
  const auto node = [&](size_t i) { return nodes_.begin() + static_cast<std::ptrdiff_t>(i); };
  std::nth_element(node(low), node(middle), node(high), [&](const Node& a, const Node& b) {
    return a.at[axis] != b.at[axis] ? a.at[axis] < b.at[axis] : a.index < b.index;
  });
  nodes_[middle].axis = static_cast<uint8_t>(axis);
  build(low, middle);
  build(middle + 1, high);
}

void NeighborIndex::visit(size_t low, size_t high, Search& search) const {
  if (high - low <= kLeaf) {
    for (size_t i = low; i < high; ++i) search.look_at(nodes_[i]);
    return;
  }
  const size_t middle = low + (high - low) / 2;
  const Node& split = nodes_[middle];
  const double beyond = search.at[split.axis] - split.at[split.axis];
  search.look_at(split);
  if (beyond <= 0) {
    visit(low, middle, search);
    if (search.reaches(beyond * beyond)) visit(middle + 1, high, search);
  } else {
    visit(middle + 1, high, search);
    if (search.reaches(beyond * beyond)) visit(low, middle, search);
  }
}

size_t NeighborIndex::nearest(const Place& at, std::span<Near> out, uint32_t without) const {
  if (out.empty()) return 0;
  Search search{at, out, without};
  visit(0, nodes_.size(), search);
  return search.count;
}

Residual mean_residual(std::span<const Near> near, std::span<const Neighbor> points, double prior) {
  Residual result;
  double weights = kPriorWeight;
  double sum = kPriorWeight * prior;
  double derived = 0, measured = 0, in_training = 0;
  for (const Near& n : near) {
    const Neighbor& point = points[n.index];
    const double weight = weight_of(n);
    weights += weight;
    sum += weight * point.residual;
    (point.derived ? derived : measured) += weight;
    if (point.in_training) in_training += weight;
  }
  result.used = static_cast<int>(near.size());
  result.value = sum / weights;
  result.derived = derived > measured;
  result.in_training = in_training > (derived + measured) / 2;
  return result;
}

PriceFactor factor_of(const Residual& mean, std::span<const Near> near,
                      std::span<const Neighbor> points, double prior, std::string_view prior_name,
                      const std::function<PriceRow(uint32_t)>& row_of) {
  PriceFactor factor{"mean of the nearest rows", exact_exp2(mean.value), {}};
  double weights = kPriorWeight;
  for (const Near& n : near) weights += weight_of(n);
  for (const Near& n : near) {
    PriceRow& row = factor.rows.emplace_back(row_of(n.index));
    row.ratio = exact_exp2(points[n.index].residual);
    row.distance = n.distance;
    row.weight = weight_of(n) / weights;
  }
  std::ranges::stable_sort(factor.rows, std::ranges::greater{}, &PriceRow::weight);
  factor.rows.push_back({std::string(prior_name), 0, exact_exp2(prior), 0, kPriorWeight / weights});
  return factor;
}

}  // namespace stepcast
