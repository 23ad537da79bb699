// SPDX-License-Identifier: Apache-2.0
// The back-of-an-envelope memory of a 13B model on 8 GPUs of 80 GB, as engineers estimate it: 18
// bytes a parameter (6 + 12/d with ZeRO-1), activations of 40 s h bytes a layer, p - r microbatches
// in flight on stage r of 1F1B.  docs/memory.md sets the inventory's own answer beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "schedules/schedule.h"

namespace stepcast::rule_of_thumb_test {
namespace {

constexpr double kParameters = 13e9;
constexpr double kLayers = 40;
constexpr double kHidden = 5120;
constexpr double kSeq = 4096;
constexpr double kGpu = 80e9;

double state_bytes(double pp, double dp, bool zero1) {
  return (zero1 ? 6 + 12 / dp : 18.0) * kParameters / pp;
}

// Microbatches that each rank holds at most, from the schedule itself.
std::vector<int> in_flight(int64_t pp, int64_t microbatches) {
  const Schedule s =
      find_schedule_family("1f1b")->generate({.pp = pp, .vpp = 1, .microbatches = microbatches});
  std::vector<int> peaks;
  for (const std::vector<Action>& actions : s.ranks) {
    int held = 0;
    int peak = 0;
    for (const Action& a : actions) {
      held += a.kind == ActionKind::forward ? 1 : -1;
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<double> stage_bytes(int64_t pp, double dp, bool zero1) {
  std::vector<double> bytes;
  for (int held : in_flight(pp, 8)) {
    const double activations = 40 * kSeq * kHidden * kLayers / static_cast<double>(pp) * held;
    bytes.push_back(state_bytes(static_cast<double>(pp), dp, zero1) + activations);
  }
  return bytes;
}

TEST(RuleOfThumb, ThirteenBillionOnFourStagesWithZero1) {
  EXPECT_DOUBLE_EQ(state_bytes(4, 2, true), 39e9);
  EXPECT_EQ(in_flight(4, 4), (std::vector<int>{4, 3, 2, 1}));
  const std::vector<double> gb = stage_bytes(4, 2, true);
  const std::vector<double> quoted{73e9, 64e9, 56e9, 47.5e9};
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_NEAR(gb[r], quoted[r], 0.5e9) << "stage " << r + 1;
    EXPECT_LT(gb[r], kGpu);
  }
}

TEST(RuleOfThumb, EitherMeasureAloneDoesNotFit) {
  EXPECT_GT(stage_bytes(4, 2, false)[0], kGpu);  // pipeline alone: 58.5 GB of state
  EXPECT_GT(state_bytes(1, 8, true), kGpu);      // ZeRO-1 alone: 97.5 GB before any activation
}

}  // namespace
}  // namespace stepcast::rule_of_thumb_test
