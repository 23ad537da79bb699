// SPDX-License-Identifier: Apache-2.0
// What scenarios say about ZeRO, FSDP, hybrid sharding and offloading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/loading.h"

namespace stepcast::testing::sharding_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(ShardingKeys, StagesOfZero) {
  for (const int stage : {0, 1, 2, 3})
    EXPECT_EQ(load_with({{"parallel.zero", std::to_string(stage)}}).plan.zero, stage);
}

TEST(ShardingKeys, FullShardingReducesGradientsBesideTheBackward) {
  const Scenario s = load_with({{"parallel.zero", "3"}});
  EXPECT_TRUE(s.plan.overlap.dp_grad);
  EXPECT_THAT(setting(s, "overlap.dp_grad"), HasSubstr("unit by unit"));
  EXPECT_FALSE(
      load_with({{"parallel.zero", "3"}, {"overlap.dp_grad", "false"}}).plan.overlap.dp_grad);
  EXPECT_FALSE(load_with({{"parallel.zero", "2"}}).plan.overlap.dp_grad);
}

TEST(ShardingKeys, UnitsAsTheFrameworksHaveThem) {
  const auto sharding = [](const char* kind) {
    return load_with({{"parallel.zero", "3"}, {"parallel.fsdp", kind}}).plan.sharding;
  };
  EXPECT_TRUE(sharding("fsdp2").copied_out);
  EXPECT_TRUE(sharding("fsdp2").wide);
  EXPECT_FALSE(sharding("fsdp1").copied_out);
  EXPECT_TRUE(sharding("fsdp1").wide);
  EXPECT_TRUE(sharding("deepspeed").copied_out);
  EXPECT_FALSE(sharding("deepspeed").wide);
  EXPECT_FALSE(sharding("deepspeed").in_lists);
  EXPECT_TRUE(sharding("deepspeed-2021").in_lists);
  EXPECT_TRUE(sharding("deepspeed-2021").copied_out);
  EXPECT_FALSE(sharding("deepspeed-2021").wide);
  EXPECT_FALSE(sharding("megatron").copied_out);
  const Sharding units = load_with({{"parallel.zero", "3"},
                                    {"parallel.fsdp_unit", "2"},
                                    {"parallel.reshard_after_forward", "false"},
                                    {"overlap.fsdp_prefetch", "0"}})
                             .plan.sharding;
  EXPECT_EQ(units.unit_layers, 2);
  EXPECT_FALSE(units.reshard_after_forward);
  EXPECT_EQ(units.prefetch, 0);
}

TEST(ShardingKeys, GathersWithoutEndAreRefused) {
  EXPECT_EQ(load_with({{"overlap.gather_bucket", "0"}}).plan.gather_bucket, 0);
  EXPECT_EQ(load_with({{"overlap.gather_bucket", "10000000"}}).plan.gather_bucket, 10'000'000);
  EXPECT_EQ(failure_with({{"parallel.zero", "1"}, {"overlap.gather_bucket", "1"}}).codes, "E123");
  EXPECT_EQ(load_with({{"overlap.gather_bucket", "1"}}).plan.zero, 0);  // gathers nothing
}

TEST(ShardingKeys, HowTheFirstStageExchanges) {
  const auto exchange = [](const char* kind) {
    return load_with({{"parallel.zero", "1"}, {"parallel.zero_exchange", kind}}).plan.zero_exchange;
  };
  EXPECT_EQ(load_with({{"parallel.zero", "1"}}).plan.zero_exchange, ZeroExchange::scatter);
  EXPECT_EQ(exchange("scatter"), ZeroExchange::scatter);
  EXPECT_EQ(exchange("all-reduce"), ZeroExchange::all_reduce);
  EXPECT_EQ(exchange("broadcast"), ZeroExchange::broadcast);
  EXPECT_EQ(failure_with({{"parallel.zero", "1"}, {"parallel.zero_exchange", "gather"}}).codes,
            "E125");
  EXPECT_THAT(load_with({{"parallel.zero_exchange", "broadcast"}}).warnings,
              Contains(HasSubstr("parallel.zero_exchange has no effect")));
}

TEST(ShardingKeys, WhenTheSecondStageReduces) {
  EXPECT_EQ(load_with({{"parallel.zero", "2"}}).plan.zero_reduce, ZeroReduce::backward);
  EXPECT_EQ(load_with({{"parallel.zero", "2"}, {"parallel.zero_reduce", "round"}}).plan.zero_reduce,
            ZeroReduce::round);
  EXPECT_THAT(load_with({{"parallel.zero", "1"}, {"parallel.zero_reduce", "round"}}).warnings,
              Contains(HasSubstr("parallel.zero_reduce has no effect")));
}

// What nanotron's documentation shows of Llama-3-8B on 8 ranks: five layers, then four.
TEST(StageSplit, StagesGetEqualSharesOfProducts) {
  const auto layers = [](const char* pp) {
    std::vector<int64_t> out;
    for (const StageContent& s :
         load_with({{"parallel.split", "products"}, {"parallel.pp", pp}}).plan.stages)
      out.push_back(s.layers);
    return out;
  };
  EXPECT_EQ(layers("8"), (std::vector<int64_t>{5, 4, 4, 5, 4, 4, 4, 2}));
  EXPECT_EQ(layers("2"), (std::vector<int64_t>{18, 14}));
  EXPECT_EQ(load_with({{"parallel.split", "even"}}).plan.stages[0].layers, 16);
  EXPECT_EQ(failure_with({{"parallel.split", "fair"}}).codes, "E125");
  const Scenario written =
      load_with({{"parallel.split", "products"}, {"parallel.layout", "Et*20|t*12L"}});
  EXPECT_EQ(written.plan.stages[0].layers, 20);
}

TEST(ShardingKeys, KeysOfFullShardingAloneAreRemarkedOn) {
  EXPECT_THAT(load_with({{"overlap.fsdp_prefetch", "2"}}).warnings,
              Contains(HasSubstr("overlap.fsdp_prefetch has no effect")));
  EXPECT_THAT(load_with({{"parallel.dp_replicate", "2"}}).warnings,
              Contains(HasSubstr("parallel.dp_replicate has no effect")));
}

TEST(ShardingKeys, CopiesDivideTheReplicas) {
  const Scenario s = load_with({{"parallel.zero", "3"}, {"parallel.dp_replicate", "2"}});
  EXPECT_EQ(s.plan.dp_replicate, 2);
  EXPECT_EQ(s.plan.grid.size(Axis::shard), 2);
  EXPECT_EQ(failure_with({{"parallel.zero", "3"}, {"parallel.dp_replicate", "3"}}).codes, "E201");
}

TEST(ShardingKeys, Offloading) {
  const Scenario s = load_with({{"parallel.zero", "3"},
                                {"parallel.fsdp", "deepspeed"},
                                {"offload.optimizer", "0.5"},
                                {"offload.parameters", "true"},
                                {"offload.activation_layers", "4"}});
  EXPECT_EQ(s.plan.offload.optimizer, 0.5);
  EXPECT_TRUE(s.plan.offload.parameters);
  EXPECT_EQ(s.plan.offload.activation_layers, 4);
  EXPECT_EQ(failure_with({{"offload.parameters", "true"}}).codes, "E127");
}

// Its shards are the optimizer's own parameters, which updates them where they are.
TEST(ShardingKeys, PyTorchsOptimizerIsWhereItsParametersAre) {
  const Scenario s = load_with({{"parallel.zero", "3"}, {"offload.parameters", "true"}});
  EXPECT_EQ(s.plan.offload.optimizer, 1);
  EXPECT_THAT(setting(s, "offload.optimizer"), HasSubstr("derived"));
  EXPECT_EQ(
      failure_with(
          {{"parallel.zero", "3"}, {"offload.parameters", "true"}, {"offload.optimizer", "0.5"}})
          .codes,
      "E127");
  EXPECT_EQ(
      load_with(
          {{"parallel.zero", "3"}, {"parallel.fsdp", "megatron"}, {"offload.parameters", "true"}})
          .plan.offload.optimizer,
      0);
}

TEST(ShardingKeys, CompressedGradients) {
  EXPECT_EQ(load_with({{"precision.gradient_ratio", "0.25"}}).plan.precision.gradient_ratio, 0.25);
  EXPECT_EQ(failure_with({{"precision.gradient_ratio", "0"}}).codes, "E121");
}

TEST(ShardingKeys, TensorParallelOverlap) {
  const auto overlap = [](const char* kind) {
    return load_with({{"overlap.tp", kind}}).plan.overlap.tp;
  };
  EXPECT_EQ(overlap("none"), TpOverlap::none);
  EXPECT_EQ(overlap("backward"), TpOverlap::backward);
  EXPECT_EQ(overlap("bulk"), TpOverlap::bulk);
  EXPECT_EQ(overlap("pipelined"), TpOverlap::pipelined);
}

}  // namespace
}  // namespace stepcast::testing::sharding_test
