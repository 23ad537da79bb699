// SPDX-License-Identifier: Apache-2.0
#include "calibrate/runs/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/scenario.h"
#include "sim/diagnostic.h"
#include "tests/calibrate/runs/records_sample.h"

namespace stepcast::convert_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

RunConversion converted(const std::string& from = "", const std::string& to = "") {
  return convert_run(record_with(from, to), shipped_rules());
}
Scenario loaded(const std::string& from = "", const std::string& to = "") {
  return load_scenario_text(converted(from, to).scenario, "sample.yaml");
}
std::string skipped(const std::string& from, const std::string& to) {
  return converted(from, to).skipped.value_or("");
}

TEST(Convert, SizesAreTakenOver) {
  const Scenario s = loaded();
  EXPECT_EQ(s.name, "sample");
  EXPECT_EQ(s.model.layers, 48);
  EXPECT_EQ(s.model.hidden, 6144);
  EXPECT_EQ(s.model.heads, 64);
  EXPECT_EQ(s.model.ffn, 24576);
  EXPECT_EQ(s.model.vocab, 51200);
  EXPECT_FALSE(s.model.gated);
  EXPECT_EQ(s.cluster.node.gpu.name, "a100-sxm-80g");
  EXPECT_EQ(s.cluster.nodes, 8);
  EXPECT_EQ(s.plan.tp, 4);
  EXPECT_EQ(s.plan.pp, 4);
  EXPECT_EQ(s.plan.dp, 4);
  EXPECT_TRUE(s.plan.sp);
  EXPECT_EQ(s.plan.zero, 1);
  EXPECT_EQ(s.plan.global_batch, 128);
  EXPECT_EQ(s.plan.micro_batch, 2);
  EXPECT_EQ(s.plan.seq, 2048);
  EXPECT_EQ(s.plan.precision.params, DType::bf16);
  ASSERT_EQ(s.measured.size(), 1u);
  EXPECT_DOUBLE_EQ(s.measured[0].step_time_s.value(), 1.5);
}

TEST(Convert, WhatWasMeasuredDoesNotChangeTheScenario) {
  const auto without_measured = [](const std::string& text) {
    return text.substr(0, text.find("measured:"));
  };
  EXPECT_EQ(without_measured(converted().scenario),
            without_measured(converted("step_time_s: 1.5", "step_time_s: 15, mfu: 3").scenario));
}

TEST(Convert, VocabularyOfARuleStandsBeforeTheUsualOneButNotBeforeThatOfTheRecord) {
  std::vector<RunRule> rules = shipped_rules();
  for (const RunRule& rule :
       parse_run_rules("- {when: {software: Some-Framework}, set: {model.vocab_size: 32768}, "
                       "source: its script}",
                       "rules.yaml"))
    rules.push_back(rule);
  const auto vocabulary = [&](const RunRecord& record) {
    return load_scenario_text(convert_run(record, rules).scenario, "sample.yaml").model.vocab;
  };
  const RunRecord unprinted = record_with("vocab: 51200, ", "");
  EXPECT_EQ(vocabulary(unprinted), 32768);
  EXPECT_THAT(convert_run(unprinted, rules).assumed,
              Not(Contains(HasSubstr("vocabulary of GPT-2"))));
  EXPECT_EQ(vocabulary(record_with("", "")), 51200);
}

TEST(Convert, GuessesAreListed) {
  EXPECT_THAT(converted("micro: 2, global: 128, num_microbatches: 16", "global: 128").assumed,
              Contains(HasSubstr("batch.micro = 1")));
  EXPECT_THAT(converted("vocab: 51200, ", "").assumed, Contains(HasSubstr("vocabulary of GPT-2")));
  EXPECT_THAT(converted("sp: true, ", "").assumed, Contains(HasSubstr("sp with tp > 1")));
  EXPECT_THAT(converted("  recompute: {mode: none}\n", "").assumed,
              Contains(HasSubstr("no recomputation")));
  EXPECT_THAT(converted("schedule: 1f1b", "x: 1").assumed, Contains(HasSubstr("schedule 1f1b")));
  EXPECT_THAT(converted("zero: 1, ", "").assumed, Contains(HasSubstr("zero = 0")));
  EXPECT_THAT(converted("  software", "  assumed: {micro: 2, reason: why}\n  software").assumed,
              Contains("micro = 2 (record)"));
}

TEST(Convert, WhatIsNotUnderstoodIsListed) {
  EXPECT_THAT(converted("precision: bf16", "precision: int3").assumed,
              Contains("precision by default: 'int3' is not understood"));
  EXPECT_THAT(converted("  precision: bf16\n", "").assumed,
              Contains("precision by default: not printed"));
  EXPECT_THAT(converted().assumed, Not(Contains(HasSubstr("precision"))));
}

TEST(Convert, PrecisionInTheWordsOfSources) {
  const auto params = [](const char* words) {
    return loaded("precision: bf16", std::string("precision: ") + words).plan.precision.params;
  };
  EXPECT_EQ(params("fp16 mixed"), DType::fp16);
  EXPECT_EQ(params("16-bit mixed"), DType::fp16);
  EXPECT_EQ(params("bfloat16"), DType::bf16);
}

TEST(Convert, RecomputationIsAMappingOrAWord) {
  for (const char* written : {"recompute: {mode: full}", "recompute: full"})
    EXPECT_THAT(converted("recompute: {mode: none}", written).scenario,
                HasSubstr("granularity: full"))
        << written;
  EXPECT_THAT(converted("recompute: {mode: none}", "recompute: full").assumed,
              Not(Contains(HasSubstr("no recomputation"))));
}

TEST(Convert, OnlyWhatDatesMegatronLmSaysItsYear) {
  const auto software = [](const std::string& words, const std::string& title) {
    return loaded("software: Some-Framework",
                  "software: '" + words + "'\n  source: {title: '" + title + "'}")
        .software;
  };
  EXPECT_EQ(software("Megatron-LM", "Narayanan et al., SC21"), "megatron-lm-2021");
  EXPECT_EQ(software("Megatron-LM commit 6985e58938d40ad91ac07b0fddcfad8132e1447e", ""),
            "megatron-lm-2021");
  EXPECT_EQ(software("Megatron-LM, TE 1.11 (2024)", "a paper"), "megatron-core");
  EXPECT_THAT(converted("software: Some-Framework", "software: Megatron-LM").assumed,
              Contains(HasSubstr("the version is not printed")));
  // What a later rule knows is not listed.
  EXPECT_THAT(
      converted("software: Some-Framework", "software: 'Megatron-LM fork sail-sg/x'").assumed,
      Not(Contains(HasSubstr("the version is not printed"))));
}

TEST(Convert, PcieCardsAreThoseOfTheirGeneration) {
  const auto gpu = [](const char* words) {
    return loaded("gpu: A100-SXM4-80GB", std::string("gpu: ") + words).cluster.node.gpu.name;
  };
  EXPECT_EQ(gpu("A100-80GB-PCIe"), "a100-pcie-80g");
  EXPECT_EQ(gpu("H100 PCIe 80GB"), "h100-pcie");
  EXPECT_EQ(gpu("H100-80GB"), "h100-sxm");
}

TEST(Convert, WhatTheRecordAssumesIsUsed) {
  EXPECT_EQ(loaded("ffn: 24576, vocab: 51200, seq: 2048, gated_mlp: false}",
                   "gated_mlp: false}\n  assumed: {ffn: 4*hidden, vocab: 128k, seq: 2048 or so}")
                .model.vocab,
            128000);
}

TEST(Convert, RecordsThatContradictThemselvesAreNoScenarios) {
  EXPECT_THAT(skipped("global: 128", "global: 100"), HasSubstr("is not global = 100"));
  EXPECT_THAT(skipped("dp: 4", "dp: 8"), HasSubstr("= 128 on 64 GPUs"));
  EXPECT_THAT(skipped("gpu: A100-SXM4-80GB", "gpu: TPUv4"), HasSubstr("no cluster for GPU"));
  EXPECT_THAT(skipped("layers: 48, ", ""), HasSubstr("nothing says model.layers"));
}

TEST(Convert, NumbersThatAreNoSizesAreNamed) {
  EXPECT_THAT(skipped("tp: 4,", "tp: 0,"), HasSubstr("parallelism.tp = 0 is no size"));
  EXPECT_THAT(skipped("hidden: 6144", "hidden: -1"), HasSubstr("model.hidden = -1 is no size"));
  EXPECT_THAT(skipped("gpus_per_node: 8", "gpus_per_node: 0"), HasSubstr("gpus_per_node = 0 is"));
  EXPECT_THAT(skipped("seq: 2048", "seq: 4611686018427387904"), HasSubstr("is no size"));
  EXPECT_THAT(skipped("pp: 4, vpp: 1", "pp: 2000000, vpp: 2000000"), HasSubstr("on 64 GPUs"));
}

TEST(Convert, SchedulesByTheNamesOfTheirFamilies) {
  const auto schedule = [](const char* written) {
    return loaded("schedule: 1f1b", std::string("schedule: ") + written).schedule.name;
  };
  EXPECT_EQ(schedule("1f1b"), "1f1b");
  EXPECT_EQ(schedule("zb-h1 (as published)"), "zb-h1");
  EXPECT_EQ(schedule("1f1b (DeepSpeed pipeline engine)"), "1f1b");
  EXPECT_EQ(schedule("not stated (1F1B family)"), "1f1b");
  EXPECT_THROW(schedule("some-order"), InputError);
  EXPECT_THAT(converted("pp: 4, vpp: 1, dp: 4", "pp: 1, dp: 16").scenario,
              Not(HasSubstr("schedule")));
}

TEST(Convert, FullyShardedIsZeroThree) {
  EXPECT_THAT(converted("zero: 1", "fsdp: full shard").scenario, HasSubstr("zero: 3"));
  EXPECT_THAT(converted("zero: 1", "fsdp: false").scenario, Not(HasSubstr("zero: 3")));
  EXPECT_THAT(converted("dp: 4, zero: 1", "dp: 4, fsdp: shard 2").scenario,
              HasSubstr("dp_replicate: 2"));
}

TEST(Convert, HeadsThatCannotHaveRunBecomeTheNearestThatCan) {
  EXPECT_EQ(loaded("heads: 64, kv_heads: 64", "heads: 70, kv_heads: 70").model.heads, 64);
  EXPECT_EQ(loaded("heads: 64, kv_heads: 64, ", "").model.heads, 48);
  EXPECT_THAT(converted("heads: 64, kv_heads: 64", "heads: 70").assumed,
              Contains(HasSubstr("64 heads: 70 do not divide 6144")));
}

TEST(Convert, InterleavedSchedulesHaveTwoChunksAtLeast) {
  EXPECT_EQ(loaded("vpp: 1, dp: 4, zero: 1, schedule: 1f1b", "dp: 4, schedule: interleaved-1f1b")
                .plan.vpp,
            2);
  EXPECT_EQ(
      loaded("vpp: 1, dp: 4, zero: 1, schedule: 1f1b", "vpp: 3, dp: 4, schedule: interleaved-1f1b")
          .plan.vpp,
      3);
}

TEST(Convert, GatedMlpOfAGptIsWrittenOut) {
  const Scenario s = loaded("software: Some-Framework", "software: 'Megatron-Core main, 2026'");
  EXPECT_FALSE(s.model.gated);
  const RunConversion c =
      convert_run(parse_run_records(
                      replaced(replaced(sample_record(), "gated_mlp: false", "gated_mlp: true"),
                               "software: Some-Framework", "software: 'Megatron-Core main, 2026'"),
                      "sample.yaml")
                      .front(),
                  shipped_rules());
  const Scenario gated = load_scenario_text(c.scenario, "sample.yaml");
  EXPECT_TRUE(gated.model.gated);
  EXPECT_EQ(gated.model.norm, Norm::layer_norm);
}

TEST(Convert, UnevenStagesCountEmbeddingAndHead) {
  EXPECT_EQ(accounted_layout(6, 4), "Et|tt|tt|tL");
  EXPECT_EQ(accounted_layout(61, 32).value().substr(0, 6), "Et|tt|");
  // DeepSeek-V3 on 16 stages, arXiv 2412.19437 has 61 layers: 3 + 14 * 4 + 2.
  EXPECT_TRUE(accounted_layout(61, 16).value().ends_with("|tttt|ttL"));
  EXPECT_EQ(accounted_layout(1, 8), std::nullopt);
  EXPECT_THAT(loaded("layers: 48", "layers: 46").plan.stages.front().layers, 11);
}

TEST(Convert, HeadMovesLayersAway) {
  EXPECT_EQ(balanced_layout(8, 4, 0), "Ett|tt|tt|ttL");
  EXPECT_EQ(balanced_layout(8, 3, 2), "Ettt|ttt|ttL");
  EXPECT_EQ(balanced_layout(6, 3, 9), "Ettt|ttt|L");
}

TEST(Convert, DenseLayersBeforeExperts) {
  EXPECT_EQ(leading_dense("([0]*3+[1]*58)"), 3);
  EXPECT_EQ(leading_dense("1"), 0);
  EXPECT_EQ(leading_dense("2"), std::nullopt);
  EXPECT_EQ(leading_dense("[0,1,1]"), std::nullopt);
}

TEST(Convert, NetworkCardsInTheWordsOfSources) {
  const auto nics = [](const char* words) {
    const auto n = nics_in_words(words, 8, 200);
    return n ? std::pair(n->count, n->gbit) : std::pair(int64_t{0}, 0.0);
  };
  using Nics = std::pair<int64_t, double>;
  EXPECT_EQ(nics("NVLink (4 links per pair) in node, 4x Omni-Path 100 Gb/s links per node"),
            Nics(4, 100));
  EXPECT_EQ(nics("NVLink4 900 GB/s, 8x400 Gb/s InfiniBand"), Nics(8, 400));
  EXPECT_EQ(nics("8x 200 Gb/s HDR InfiniBand HCAs per node"), Nics(8, 200));
  EXPECT_EQ(nics("Storage: 1x DPU 100Gb/s, Compute: 8x NVIDIA ConnectX-7 IB NDR 400Gb/s"),
            Nics(8, 400));
  EXPECT_EQ(nics("1x Ethernet 100Gb/Sec, 8x NVIDIA Quantum-2 CX7 InfiniBand (400Gb/s)"),
            Nics(8, 400));
  EXPECT_EQ(nics("NVLink in node, RDMA 400 Gb/s per GPU"), Nics(8, 400));
  EXPECT_EQ(nics("NVLink in node; 400 Gb/s CX-7 RDMA per GPU"), Nics(8, 400));
  EXPECT_EQ(nics("800 Gb/s per node inter-node, NVLink in node"), Nics(4, 200));
  EXPECT_EQ(nics("2 Tb/s RoCE per node"), Nics(8, 250));
  EXPECT_EQ(nics("NVLink in node, InfiniBand between nodes"), Nics(0, 0));
}

}  // namespace
}  // namespace stepcast::convert_test
