// SPDX-License-Identifier: Apache-2.0
// Small random op graphs for property tests, the same for a seed on every machine.
//
// A graph is grown along one global order of things to do: each step appends one item to one role,
// and a rendezvous may be joined only after all its posts stand in that order.  So the order itself
// is a way to run the step, and no graph deadlocks.
#pragma once

#include <cstdint>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast::oracle {

// A counter-based generator: the i-th number depends on (seed, i) alone (SplitMix64: Steele, Lea,
// Flood, Fast splittable pseudorandom number generators, 2014).
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint64_t next();
  // Uniform in [0, n) but for a bias of n / 2^32.  REQUIRES: 0 < n < 2^32.
  uint32_t below(uint32_t n);
  // Uniform in [low, high], both included.
  uint32_t between(uint32_t low, uint32_t high);
  bool chance(uint32_t percent) { return below(100) < percent; }

 private:
  uint64_t seed_ = 0;
  uint64_t count_ = 0;
};

struct RandomCase {
  OpGraph graph;
  Prices prices;  // 0 to 40 ps, many equal
};

// 1 to 4 roles; forward, backward and weight-gradient passes shared by the roles, whose tensors
// live across them; every item kind; eager sends, transfers and collectives across roles.  About
// 100 op instances.  Satisfies check_graph, does not deadlock.
RandomCase random_case(uint64_t seed);

}  // namespace stepcast::oracle
