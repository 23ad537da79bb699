// SPDX-License-Identifier: Apache-2.0
// Where a role's list of passes repeats itself, from microbatch to microbatch.
//
// 1F1B with four microbatches in flight of 64 runs, on its first rank,
//
//     F0 F1 F2   F3 B0  F4 B1  F5 B2  ...  F63 B60   B61 B62 B63
//
// From F3 on each two passes are the two before them, one microbatch later: a repetition of length
// 2 and shift 1.  That of an interleaved schedule is pp * vpp forwards and as many backwards, pp
// microbatches later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "sim/graph/op_graph.h"

namespace stepcast {

// Each item from begin + length to end - 1 is that of `length` items before, with microbatches that
// are higher by `shift`.
struct Repetition {
  size_t begin = 0, end = 0;
  size_t length = 0;
  int64_t shift = 0;
};

// The repetition around the middle of the list, with the smallest length that there is; none if it
// does not last for three lengths.  O(items).
// REQUIRES: items of ItemKind::pass only.
std::optional<Repetition> find_repetition(std::span<const Item> passes);

}  // namespace stepcast
