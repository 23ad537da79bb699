// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/pattern.h"

#include <gtest/gtest.h>

#include <bit>

#include "calibrate/measure/collectives/plan.h"

namespace stepcast::measure::collectives_pattern_test {
namespace {

float value_of(uint16_t bf16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16);
}

// The collective as its definition says, on the host: out[rank] of in[rank].
std::vector<std::vector<float>> reference(WorkKind kind, const std::vector<std::vector<float>>& in,
                                          size_t received) {
  const size_t ranks = in.size();
  std::vector<std::vector<float>> out(ranks, std::vector<float>(received));
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < received; ++i) {
      float& to = out[r][i];
      const size_t part = received / ranks;
      switch (kind) {
        case WorkKind::all_reduce:
          for (const auto& from : in) to += from[i];
          break;
        case WorkKind::reduce_scatter:
          for (const auto& from : in) to += from[r * received + i];
          break;
        case WorkKind::all_gather: to = in[i / part][i % part]; break;
        case WorkKind::all_to_all: to = in[i / part][r * part + i % part]; break;
        case WorkKind::broadcast: to = in[0][i]; break;
        default: to = in[(r + ranks - 1) % ranks][i]; break;
      }
    }
  }
  return out;
}

TEST(CollectivesPattern, WhatShouldArriveIsWhatTheCollectiveIsDefinedToDo) {
  for (const WorkKind kind : kMeasuredCollectives) {
    for (const int64_t ranks : {2, 3, 8}) {
      const int64_t bytes = measurable_bytes(kind, ranks, 1000);
      std::vector<std::vector<float>> in;
      for (int64_t r = 0; r < ranks; ++r) {
        in.emplace_back();
        for (const uint16_t v : check_input(kind, ranks, r, bytes))
          in.back().push_back(value_of(v));
        EXPECT_EQ(in.back().size(), static_cast<size_t>(element_counts(kind, ranks, bytes).send));
      }
      const auto received = static_cast<size_t>(element_counts(kind, ranks, bytes).receive);
      const auto out = reference(kind, in, received);
      for (int64_t r = 0; r < ranks; ++r) {
        std::vector<float> expected;
        for (const uint16_t v : check_output(kind, ranks, r, bytes)) {
          expected.push_back(value_of(v));
        }
        EXPECT_EQ(out[static_cast<size_t>(r)], expected) << name_of(kind) << " rank " << r;
      }
    }
  }
}

TEST(CollectivesPattern, ARankThatIsMissedOrCountedTwiceIsNoticed) {
  constexpr int64_t kRanks = 4, kBytes = 64;
  for (int64_t odd = 0; odd < kRanks; ++odd) {
    const auto share = check_input(WorkKind::all_reduce, kRanks, odd, kBytes);
    const auto expected = check_output(WorkKind::all_reduce, kRanks, 0, kBytes);
    bool noticed = false;
    for (size_t i = 0; i < share.size(); ++i) {
      noticed = noticed || (value_of(share[i]) != 0 && value_of(expected[i]) != 0);
    }
    EXPECT_TRUE(noticed) << odd;
  }
}

TEST(CollectivesPattern, WholeNumbersAreExact) {
  for (int v = 0; v <= 256; ++v) EXPECT_EQ(value_of(bf16_of(v)), static_cast<float>(v));
}

}  // namespace
}  // namespace stepcast::measure::collectives_pattern_test
