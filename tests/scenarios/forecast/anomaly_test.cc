// SPDX-License-Identifier: Apache-2.0
// Which of two scenarios has the faster links.
#include "scenarios/forecast/anomaly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/loading.h"

namespace stepcast::testing::anomaly_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Anomaly, FasterLinksAreTheOnlyDifference) {
  const Scenario base = load(kMinimal);
  const auto faster = [&](const Sets& sets) { return has_faster_links(load_with(sets), base); };
  EXPECT_TRUE(faster({{"cluster.node.nics.bw", "800Gb/s"}}));
  EXPECT_TRUE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"name", "other"}}));
  // What a scenario is called, and the sections of other commands, change no step.
  EXPECT_TRUE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"schema", "1"}}));
  EXPECT_TRUE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"env", "{image: x}"}}));
  EXPECT_TRUE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"job", "{tokens: 15T}"}}));
  EXPECT_TRUE(faster({{"cluster.node.intra.latency", "1ns"}}));
  EXPECT_FALSE(faster({}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "100Gb/s"}}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"cluster.node.intra.bw", "1GB/s"}}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"batch.global", "512"}}));
  EXPECT_FALSE(faster({{"cluster.node.nics.bw", "800Gb/s"}, {"schedule", "gpipe"}}));
}

TEST(Anomaly, IsOneOnlyWhereAnOrderOrSharesMayChange) {
  const auto note = [](const Sets& sets, bool shares_links = false) {
    Sets faster = sets;
    faster.push_back({"cluster.node.nics.bw", "800Gb/s"});
    return anomaly_note(load_with(faster), "fast", load_with(sets), "base", shares_links);
  };
  EXPECT_THAT(note({}), StartsWith("'fast' has faster links than 'base' and a longer step; "));
  EXPECT_THAT(note({}), HasSubstr("no order changed and no link is shared"));
  EXPECT_THAT(note({}), Not(HasSubstr("anomaly")));
  EXPECT_THAT(note({{"schedule", "auto"}}), HasSubstr("another one: a scheduling anomaly"));
  EXPECT_THAT(note({{"contention.links", "on"}}, true),
              HasSubstr("where links are shared, what ends sooner may get in the way"));
  EXPECT_THAT(note({{"contention.links", "on"}}, true), HasSubstr("a scheduling anomaly"));
}

TEST(Anomaly, WhereAutoLeftSharedLinksOutTheyAreNoReason) {
  const Scenario slow = load_with({{"contention.links", "auto"}});
  const Scenario fast =
      load_with({{"contention.links", "auto"}, {"cluster.node.nics.bw", "800Gb/s"}});
  EXPECT_THAT(anomaly_note(fast, "fast", slow, "base", false), HasSubstr("no link is shared"));
}

}  // namespace
}  // namespace stepcast::testing::anomaly_test
