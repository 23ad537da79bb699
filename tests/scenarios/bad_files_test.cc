// SPDX-License-Identifier: Apache-2.0
// The broken scenarios of tests/data/scenarios/bad, each with exactly what must be said about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/loading.h"

namespace stepcast::bad_files_test {
namespace {

using ::testing::ElementsAre;
using testing::Failure;

const std::string kFolder = STEPCAST_TEST_DATA "/scenarios/bad/";

Failure load_bad(const std::string& name) {
  return testing::failure_of([&] { load_scenario(kFolder + name); });
}

TEST(BadFiles, UnknownKey) {
  const Failure f = load_bad("unknown-key.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E102 5:3 unknown key 'global_batch_size' in 'batch'"));
  EXPECT_EQ(f.all[0].label, "did you mean 'global'?");
  EXPECT_EQ(f.all[0].note, "Megatron's --global-batch-size is batch.global here");
  EXPECT_EQ(f.all[0].length, 17);
  EXPECT_EQ(f.all[0].source_line, "  global_batch_size: 256");
  EXPECT_EQ(f.all[0].file, kFolder + "unknown-key.yaml");
  EXPECT_EQ(f.exit_status, 2);
}

TEST(BadFiles, Divisibility) {
  const Failure f = load_bad("divisibility.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E210 3:16 tp = 3 does not divide num_attention_heads = 32",
                                   "E201 3:23 16 GPUs are not a multiple of tp*pp*cp = 6"));
  EXPECT_EQ(f.all[0].help, "tp can be 1, 2, 4 or 8 here (heads 32, KV heads 8, 8 GPUs a node)");
}

TEST(BadFiles, Units) {
  const Failure f = load_bad("units.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E120 5:31 'bw' needs a unit"));
  EXPECT_EQ(f.all[0].help, "write 400Gb/s (bits) or 400GB/s (bytes); they differ by 8");
}

TEST(BadFiles, NotANumber) {
  EXPECT_THAT(load_bad("nan.yaml").lines,
              ElementsAre("E121 2:74 'bw' must be a finite number above 0, not NaN",
                          "E122 2:89 'latency' must not be negative"));
}

TEST(BadFiles, Topology) {
  EXPECT_THAT(load_bad("topology.yaml").lines,
              ElementsAre("E221 4:74 there are two nodes or switches 'n0'",
                          "E221 8:20 a link from 's0' to itself",
                          "E221 9:20 there is no node or switch 's1'",
                          "E121 10:28 'bw' must be above 0, not 0",
                          "E122 11:46 'latency' must not be negative"));
}

TEST(BadFiles, Tiers) {
  const Failure f = load_bad("tiers.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E221 9:16 tier 'unit' would contain itself",
                                   "E221 10:28 tier 'core' has 512 GPUs, no more than the "
                                   "tier inside it"));
  EXPECT_EQ(f.all[1].help, "tiers are listed innermost first");
}

TEST(BadFiles, DuplicateKey) {
  const Failure f = load_bad("duplicate-key.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E103 5:1 'parallel' is given twice"));
  EXPECT_EQ(f.all[0].help, "first given at 3:1");
}

TEST(BadFiles, Deadlock) {
  const Failure f = load_bad("deadlock.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E401 6:3 the schedule deadlocks"));
  EXPECT_EQ(f.all[0].help,
            "stage 0 at `0B0` waits for `1B0`; stage 1 at `1F1` waits for `0F1`; "
            "`0F1` comes after `0B0` on stage 0");
  EXPECT_EQ(f.exit_status, 4);
}

TEST(BadFiles, ExtendsCycle) {
  const Failure f = load_bad("extends-cycle.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E110 1:10 'extends' forms a cycle"));
  EXPECT_EQ(f.all[0].help, "extends-cycle.yaml -> extends-cycle.yaml");
}

TEST(BadFiles, Disconnected) {
  const Failure f = load_bad("disconnected.yaml");
  EXPECT_THAT(f.lines, ElementsAre("E220 4:52 node n1 is not connected to n0"));
  EXPECT_EQ(f.all[0].help, "pp stage 0 -> 1 needs a path");
}

}  // namespace
}  // namespace stepcast::bad_files_test
