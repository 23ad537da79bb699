// SPDX-License-Identifier: Apache-2.0
// Equal lanes merged to one, and lanes put in the order that is best to compute with.
//
// Two slices of a digit that are equal in everything (speeds, classes and windows, in all roles
// and at all values of the other digits) can be exchanged without changing anything, so their
// lanes have equal times; and the latest of a group is the same with one of them as with all.  So
// one is kept.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/lanes.h"

namespace stepcast {

struct FoldedLanes {
  LaneSet lanes;                  // digits of size > 1 only, the largest innermost
  std::vector<int64_t> of;        // lane as given -> lane here
  std::vector<int64_t> original;  // lane here -> the first such lane as given
};

// With `fold` false, or with jitter, lanes are only put in order.  O(lanes * roles).
FoldedLanes fold_lanes(const LaneSet& lanes, bool fold);

}  // namespace stepcast
