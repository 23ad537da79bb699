// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibrate/runs/run_record.h"
#include "tests/calibrate/runs/records_sample.h"
#include "tests/temporary_folder.h"

namespace stepcast::accuracy::recipes_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Recipe recipe(const char* id, double step_s, double best_s, int64_t faster) {
  Recipe r;
  r.id = id;
  r.source = "source";
  r.gpus = 64;
  r.layout = "TP 8 DP 8 MBS 1";
  r.measured_s = 5;
  r.step_s = step_s;
  r.layouts = 100;
  r.faster = faster;
  r.best_s = best_s;
  r.best = "TP 4 DP 16 MBS 1";
  return r;
}

TEST(Recipes, AreNearWhereTheBestIsHardlyFasterAndFirstWhereFewAre) {
  std::vector<Recipe> all{recipe("near", 10.5, 10, 20), recipe("first", 12, 10, 10),
                          recipe("both", 10, 10, 0), recipe("none", 20, 10, 99)};
  all.back().shares = RecipeShares{0.1, 0.2, 0.3};
  all.back().best_shares = RecipeShares{0.01, 0.02, 0};
  all.push_back(recipe("few", 10, 10, 0));
  all.back().layouts = 12;
  const std::string text = recipes_markdown(all);
  EXPECT_THAT(text, HasSubstr("| all | 5 | 5 | 3 | 3 | 2 |\n| of these, among 100 layouts and more "
                              "| 4 | 4 | 2 | 2 | 1 |\n"));
  EXPECT_THAT(text, HasSubstr("| near | 64 | TP 8 DP 8 MBS 1 | 5 | 10.5 | TP 4 DP 16 MBS 1 | 10 | "
                              "5.0 | 20 | 100 |\n"));
  EXPECT_THAT(text, HasSubstr("| none | 100.0 | 10.0 / 20.0 / 30.0 | 1.0 / 2.0 / 0.0 |\n"));
}

TEST(Recipes, WhereNothingFitsThereIsNoDistance) {
  Recipe r = recipe("alone", 10, 0, 0);
  r.best.clear();
  r.stopped = true;
  const std::string text = recipes_markdown({r});
  EXPECT_THAT(text, HasSubstr("| none in time | - | - | at least 0 | 100 |\n"));
  EXPECT_THAT(text, Not(HasSubstr("spends |")));
  EXPECT_THAT(text, HasSubstr("| all | 1 | 0 | 0 | 0 | 0 |\n"));
  r.stopped = false;
  EXPECT_THAT(recipes_markdown({r}), HasSubstr("| none fits | - | - | 0 | 100 |\n"));
}

TEST(Recipes, AreTheFastestOfRunsThatDifferInLayoutAlone) {
  // On 8 GPUs, and few layers, to be quick.
  std::string small = replaced(sample_record(), "gpus: 64, gpus_per_node: 8, nodes: 8",
                               "gpus: 8, gpus_per_node: 8, nodes: 1");
  small = replaced(small, "layers: 48, hidden: 6144", "layers: 8, hidden: 2048");
  small =
      replaced(small, "heads: 64, kv_heads: 64, ffn: 24576", "heads: 16, kv_heads: 16, ffn: 8192");
  small = replaced(small, "micro: 2, global: 128, num_microbatches: 16", "micro: 1, global: 16");
  const std::string slow = replaced(small, "tp: 4, sp: true, pp: 4, vpp: 1, dp: 4",
                                    "tp: 4, sp: true, pp: 2, vpp: 1, dp: 1");
  std::string fast = replaced(small, "tp: 4, sp: true, pp: 4, vpp: 1, dp: 4",
                              "tp: 2, sp: true, pp: 2, vpp: 1, dp: 2");
  fast = replaced(replaced(fast, "id: sample", "id: fast"), "step_time_s: 1.5", "step_time_s: 0.5");
  const std::vector<RunRecord> records =
      parse_run_records(slow + fast.substr(std::string("records:\n").size()), "study.yaml");
  const std::vector<Recipe> found = find_recipes(records, shipped_rules(), {}, 2, 60);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().id, "fast");
  EXPECT_EQ(found.front().measured_s, 0.5);
  EXPECT_GT(found.front().layouts, 0);
  EXPECT_GT(found.front().best_s, 0);
  EXPECT_FALSE(found.front().stopped);
}

TEST(Recipes, AreAlsoScenariosThatStateAMeasuredStep) {
  const stepcast::testing::TemporaryFolder folder;
  const std::string head = "model: llama3-8b\ncluster: dgx-h100 x 1\n";
  const std::string rest =
      "parallel: {tp: 8}\nbatch: {global: 8, seq: 8192}\n"
      "search: {where: \"pp == 1 and cp == 1\"}\n";
  const std::string stated =
      folder.write("stated.yaml", head + rest + "measured: {step_time: 2s, source: a paper}\n");
  const std::string silent = folder.write("silent.yaml", head + rest);
  const std::vector<Recipe> found = find_recipes({}, shipped_rules(), {stated, silent}, 2, 60);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().id, "stated");
  EXPECT_EQ(found.front().layout, "TP 8 MBS 1");
  EXPECT_EQ(found.front().measured_s, 2);
  EXPECT_GT(found.front().faster, 0);
}

}  // namespace
}  // namespace stepcast::accuracy::recipes_test
