// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/pattern.h"

#include <bit>
#include <string>

#include "calibrate/measure/collectives/plan.h"
#include "sim/check.h"

namespace stepcast::measure {
namespace {

// Element i of rank's buffer: no two ranks and no two neighbours alike, 1 to 61.
int value_of(int64_t rank, int64_t i) {
  return static_cast<int>((rank * 17 + i * 7) % 61) + 1;
}

// The share of `rank` in a sum over `ranks`: one rank has the value, the others 0.
int share_of_sum(int64_t ranks, int64_t rank, int64_t i) {
  return (i + i / ranks) % ranks == rank ? value_of(0, i) : 0;
}

template <class Value>
std::vector<uint16_t> filled(int64_t count, Value value) {
  std::vector<uint16_t> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = bf16_of(value(i));
  return all;
}

}  // namespace

uint16_t bf16_of(int value) {
  STEPCAST_CHECK(value >= 0 && value <= 256, std::to_string(value));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
}

std::vector<uint16_t> check_input(WorkKind kind, int64_t ranks, int64_t rank, int64_t bytes) {
  const int64_t count = element_counts(kind, ranks, bytes).send;
  const bool sums = kind == WorkKind::all_reduce || kind == WorkKind::reduce_scatter;
  return filled(count,
                [&](int64_t i) { return sums ? share_of_sum(ranks, rank, i) : value_of(rank, i); });
}

std::vector<uint16_t> check_output(WorkKind kind, int64_t ranks, int64_t rank, int64_t bytes) {
  const int64_t count = element_counts(kind, ranks, bytes).receive;
  return filled(count, [&](int64_t i) {
    switch (kind) {
      case WorkKind::all_reduce: return value_of(0, i);
      case WorkKind::reduce_scatter: return value_of(0, rank * count + i);
      case WorkKind::broadcast: return value_of(0, i);
      case WorkKind::all_gather: return value_of(i / (count / ranks), i % (count / ranks));
      case WorkKind::all_to_all: {
        const int64_t part = count / ranks;
        return value_of(i / part, rank * part + i % part);
      }
      case WorkKind::send_recv: return value_of((rank + ranks - 1) % ranks, i);
      default: STEPCAST_CHECK(false, name_of(kind).data()); return 0;
    }
  });
}

}  // namespace stepcast::measure
