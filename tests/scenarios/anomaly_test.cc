// SPDX-License-Identifier: Apache-2.0
// Which of two scenarios has the faster links.
#include "scenarios/anomaly.h"

#include <gtest/gtest.h>

#include "tests/scenarios/loading.h"

namespace stepcast::testing {
namespace {

TEST(Anomaly, FasterLinksAreTheOnlyDifference) {
  const Scenario base = load(kMinimal);
  const auto faster = [&](const Sets& sets) { return has_faster_links(load_with(sets), base); };
  EXPECT_TRUE(faster({{"cluster.node.nics.bw", "800Gb/s"}}));
  EXPECT_TRUE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"name", "other"}}));
  EXPECT_TRUE(faster({{"cluster.node.intra.latency", "1ns"}}));
  EXPECT_FALSE(faster({}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "100Gb/s"}}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"cluster.node.intra.bw", "1GB/s"}}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"batch.global", "512"}}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"schedule", "gpipe"}}));
}

}  // namespace
}  // namespace stepcast::testing
