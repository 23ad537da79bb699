// SPDX-License-Identifier: Apache-2.0
// Layouts in words of other frameworks: what they cannot be told is not written.
#include "scenarios/frameworks/export_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/loading.h"

namespace stepcast::testing::export_layout_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ExportLayout, TorchtitanIsToldDegreesScheduleAndModules) {
  const auto text = torchtitan_layout(load_with({{"model.num_hidden_layers", "6"},
                                                 {"model.preset", "llama3-8b"},
                                                 {"parallel.zero", "3"},
                                                 {"parallel.layout", "Et*2|t*4L"},
                                                 {"recompute", "full"},
                                                 {"schedule", "1f1b"}}));
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("local_batch_size = 64\nglobal_batch_size = 256\n"));
  EXPECT_THAT(*text, HasSubstr("data_parallel_shard_degree = 4\n"));
  EXPECT_THAT(*text, HasSubstr("tensor_parallel_degree = 2\n"));
  EXPECT_THAT(*text, HasSubstr("pipeline_parallel_degree = 2\n"
                               "pipeline_parallel_schedule = \"1F1B\"\n"
                               "pipeline_parallel_microbatch_size = 1\n"
                               "module_fqns_per_model_part = [\n"
                               "  [\"tok_embeddings\", \"layers.0\", \"layers.1\"],\n"
                               "  [\"layers.2\", \"layers.3\", \"layers.4\", \"layers.5\", "
                               "\"norm\", \"output\"]\n]\n"));
  EXPECT_THAT(*text, HasSubstr("mode = \"full\"\n"));
}

TEST(ExportLayout, TorchtitanHasNoOptimizerShardsAloneAndNoSelectiveModules) {
  EXPECT_FALSE(torchtitan_layout(load_with({{"parallel.zero", "1"}})).has_value());
  EXPECT_FALSE(torchtitan_layout(load_with({{"parallel.zero", "3"}, {"recompute", "selective"}}))
                   .has_value());
  EXPECT_FALSE(
      torchtitan_layout(load_with({{"parallel.zero", "3"}, {"schedule", "zb-h1"}})).has_value());
  EXPECT_TRUE(torchtitan_layout(load_with({{"parallel.zero", "3"}})).has_value());
}

TEST(ExportLayout, NemoIsToldSizesAndUnevenStages) {
  const auto text = nemo_overrides(load_with({{"model.num_hidden_layers", "6"},
                                              {"model.preset", "llama3-8b"},
                                              {"parallel.layout", "Et*2|t*4L"},
                                              {"recompute", "selective"}}));
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("train.global_batch_size=256\ntrain.micro_batch_size=1\n"));
  EXPECT_THAT(*text, HasSubstr("model.tensor_model_parallel_size=2\n"));
  EXPECT_THAT(*text, HasSubstr("model.virtual_pipeline_model_parallel_size=null\n"));
  EXPECT_THAT(*text, HasSubstr("model.pipeline_model_parallel_layout=[[embedding,decoder,decoder],"
                               "[decoder,decoder,decoder,decoder,loss]]\n"));
  EXPECT_THAT(*text, HasSubstr("model.recompute_granularity=selective\n"));
  EXPECT_THAT(*text, Not(HasSubstr("expert")));
}

TEST(ExportLayout, NemoHasNeitherFullShardingNorOtherOrders) {
  EXPECT_FALSE(nemo_overrides(load_with({{"parallel.zero", "3"}})).has_value());
  EXPECT_FALSE(nemo_overrides(load_with({{"schedule", "gpipe"}})).has_value());
  const auto even = nemo_overrides(load_with({{"recompute", "full"}}));
  ASSERT_TRUE(even.has_value());
  EXPECT_THAT(*even, Not(HasSubstr("layout")));
  EXPECT_THAT(*even, HasSubstr("model.recompute_method="));
}

}  // namespace
}  // namespace stepcast::testing::export_layout_test
