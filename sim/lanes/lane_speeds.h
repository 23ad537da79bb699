// SPDX-License-Identifier: Apache-2.0
// How the lanes of a step differ in speed, in the forms that the engines need.  Internal to the
// engines of lanes and contention.
//
//   jitter      a random factor for each op instance on each rank
//   folding     equal lanes are merged, the rest put in the best order
//   windows     ops whose speed changes while they run
//   RoleSpeeds  all of it for the lanes of one role
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/lanes/lanes.h"

namespace stepcast {

// -------------------------------------------------------------------------------------------------
// Jitter: a random factor for each op instance on each rank, the same on every machine.
//
// Nothing is drawn in sequence: the factor is a function of (seed, rank, instance), so it depends
// neither on who runs first nor on which ranks run at all.  Log-normal with median 1: the hash
// picks one of 4096 equally likely quantiles.

struct JitterTable {
  static constexpr int kBits = 12;
  // exp(sigma * z) in 1/4096, z the normal quantiles at (i + 1/2) / 4096; rounded half up.
  std::array<uint32_t, size_t{1} << kBits> factor{};
};
// REQUIRES: 0 <= sigma <= 1.
JitterTable jitter_table(double sigma);

// What a rank (role * lanes + lane) and an op instance (counted over the passes of the role, in
// program order) bring to the hash.
uint32_t jitter_rank_key(uint64_t seed, uint64_t rank);
uint32_t jitter_instance_key(uint64_t instance);

// Index into JitterTable::factor.
constexpr uint32_t jitter_index(uint32_t rank_key, uint32_t instance_key) {
  uint32_t x = rank_key ^ instance_key;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x >> (32 - JitterTable::kBits);
}

// Slowness in 1/4096 times the factor, rounded half up.
constexpr uint32_t jittered(uint32_t slowness, uint32_t factor) {
  return static_cast<uint32_t>((uint64_t{slowness} * factor + 2048) >> 12);
}

// -------------------------------------------------------------------------------------------------
// Equal lanes merged to one, and lanes put in the order that is best to compute with.
//
// Two slices of a digit that are equal in everything (speeds, classes and windows, in all roles
// and at all values of the other digits) can be exchanged without changing anything, so their
// lanes have equal times; and the latest of a group is the same with one of them as with all.  So
// one is kept.

struct FoldedLanes {
  LaneSet lanes;                  // digits of size > 1 only, the largest innermost
  std::vector<int64_t> of;        // lane as given -> lane here
  std::vector<int64_t> original;  // lane here -> the first such lane as given
};

// With `fold` false, or with jitter, lanes are only put in order.  O(lanes * roles).
FoldedLanes fold_lanes(const LaneSet& lanes, bool fold);

// A number for each lane, equal where everything about the lanes is equal, jitter left aside.
std::vector<uint32_t> kinds_of_lanes(const LaneSet& lanes);
// The lanes `original` of those given, in this order; they have these digits.
LaneSet picked_lanes(const LaneSet& lanes, std::vector<LaneDigit> digits,
                     const std::vector<int64_t>& original);

// -------------------------------------------------------------------------------------------------
// Ops whose speed changes while they run, because a window (LaneWindow) begins or ends: one lane or
// one group at a time.

// A window of one lane, in 1/4096 ps.
struct LaneSpan {
  int64_t from = 0, until = 0;
  Slowness slowness = kNominal;
  uint8_t link_class = 0;  // of the groups of one axis
  bool operator==(const LaneSpan&) const = default;
};
LaneSpan span_of(const LaneWindow& window, Axis axis);

// When an op of compute ends that begins at `begin` and takes `ps` at slowness 1, on a lane of
// slowness `own` in these windows.  `factor`: its jitter, in 1/4096.
int64_t end_of_compute(int64_t begin, int64_t ps, Slowness own, uint32_t factor,
                       std::span<const LaneSpan> windows);

// When communication ends whose group has class `own` and takes prices[class]; `lanes` joins
// classes.
int64_t end_of_communication(int64_t begin, std::span<const int64_t> prices, uint8_t own,
                             std::span<const LaneSpan> windows, const LaneSet& lanes);

// -------------------------------------------------------------------------------------------------
// How fast the lanes of a role compute, in the forms that the engine needs.

// A lane whose compute changes speed.
struct LaneWindows {
  int64_t lane = 0;
  int64_t first = 0, last = 0;  // nothing changes before and after
  std::vector<LaneSpan> spans;
};

struct RoleSpeeds {
  std::vector<uint32_t> slowness;                   // by lane
  std::vector<double> slowness_as_double;           // the same
  bool same = true;                                 // on all lanes
  Slowness fastest = kNominal, slowest = kNominal;  // windows and jitter included
  std::vector<uint32_t> jitter_key;                 // by lane; empty: no jitter
  std::vector<LaneWindows> windows;

  // Ops have to be run one by one.
  bool by_op() const { return !jitter_key.empty() || !windows.empty(); }
  // An op of `duration` ps is too long for the fast loops (lane_kernels.h).
  bool wide(int64_t duration) const;
};

// Of each role.  Throws InputError if a lane is slower than can be counted.
std::vector<RoleSpeeds> role_speeds(const FoldedLanes& folded, size_t roles,
                                    const JitterTable& jitter);

}  // namespace stepcast
