// SPDX-License-Identifier: Apache-2.0
// What the ranks send to check that a collective computes what it should.  Needs no GPU.
//
// All values are whole numbers up to 61, which bf16 holds exactly.  Of a sum over ranks each
// element has one rank that puts in its value and others that put in 0: the sum is exact in any
// order and for any number of ranks, and is wrong if a rank is missed or counted twice.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/work.h"

namespace stepcast::measure {

// A whole number up to 256 as bf16.
uint16_t bf16_of(int value);

// What `rank` of `ranks` puts into a collective of `bytes`, and what it should get; bf16.
// broadcast: from rank 0 (the others' buffers hold other values before).
// REQUIRES: one of kMeasuredCollectives (plan.h), a measurable size.
std::vector<uint16_t> check_input(WorkKind kind, int64_t ranks, int64_t rank, int64_t bytes);
std::vector<uint16_t> check_output(WorkKind kind, int64_t ranks, int64_t rank, int64_t bytes);

// Sizes that are checked: filling larger ones on the host takes longer than measuring them.
constexpr int64_t kLargestChecked = int64_t{1} << 20;

}  // namespace stepcast::measure
