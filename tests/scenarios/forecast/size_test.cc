// SPDX-License-Identifier: Apache-2.0
// `stepcast size`: the rules of thumb against the figures people quote, and the smallest layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/text/size.h"
#include "scenarios/forecast/size.h"
#include "sim/diagnostic.h"
#include "tests/temporary_folder.h"

namespace stepcast::size_test {
namespace {

using ::testing::HasSubstr;

ModelSize figures(const std::string& preset, std::vector<std::pair<std::string, std::string>> set,
                  double tokens = 0) {
  SizeOptions options;
  options.load.set = std::move(set);
  options.tokens = tokens;
  options.search = false;
  return size_model(preset, {}, options);
}

// Code of the problem that asking about `subject` meets.
std::string code_of(const std::string& subject, const SizeOptions& options = {}) {
  try {
    size_model(subject, {}, options);
  } catch (const InputError& e) {
    return e.diagnostics.front().code;
  }
  return "none";
}

// Brown et al.'s 175 billion parameters with fp16 parameters and gradients: 2.8 TB, 35 GPUs of
// 80 GB before a single activation.
TEST(RulesOfThumb, Gpt3NeedsTwoPointEightTerabytesOfStateOn35Gpus) {
  const double bytes = state_bytes(175e9, 2, 2);
  EXPECT_DOUBLE_EQ(bytes, 2.8e12);
  EXPECT_EQ(gpus_for(bytes, 80e9), 35);
  const ModelSize size = figures("gpt3-175b", {{"precision", "fp16-mixed"}});
  EXPECT_EQ(size.parameter_bytes + size.gradient_bytes + size.optimizer_bytes, 16);
  EXPECT_NEAR(state_bytes(static_cast<double>(size.parameters), 2, 2), 2.8e12, 0.01e12);
}

// Narayanan et al. 2021, section 5.1: 1,536 sequences of 2,048 tokens, everything recomputed.
TEST(RulesOfThumb, Gpt3Takes430ZettaFlopsFor95000Iterations) {
  const ModelSize size = figures("gpt3-175b", {{"batch.global", "1536"}, {"batch.seq", "2048"}});
  EXPECT_NEAR(size.recomputed_flops * 95'000, 430e21, 2e21);
  // Their equation 3: 96 B s l h^2 (1 + s/6h + V/16lh).
  const double b = 1536, s = 2048, l = 96, h = 12288, v = 51200;
  EXPECT_NEAR(size.recomputed_flops, 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)),
              1e9);
}

TEST(RulesOfThumb, SevenBillionWeightsTake28GigabytesAt4Bytes14At2And7At1) {
  const double n = static_cast<double>(figures("llama2-7b", {}).parameters);
  EXPECT_NEAR(n * 4, 28e9, 1.1e9);
  EXPECT_NEAR(n * 2, 14e9, 0.6e9);
  EXPECT_NEAR(n * 1, 7e9, 0.3e9);
  EXPECT_THAT(size_text(figures("llama2-7b", {})),
              HasSubstr("4 bytes: 26.95 GB, 2: 13.48 GB, 1: 6.738 GB, 0.5: 3.369 GB"));
}

// 7e9 * 18 * 1.25 / 24e9 = 6.56.
TEST(RulesOfThumb, Llama7bTrainsOnSevenCardsOf24Gigabytes) {
  EXPECT_EQ(gpus_for(training_bytes(7e9), 24e9), 7);
  const double n = static_cast<double>(figures("llama2-7b", {}).parameters);
  EXPECT_EQ(gpus_for(training_bytes(n), 24e9), 7);
}

// Dubey et al. 2024 (Llama 3), table 4: 405B on 15.6 T tokens at a utilization of 38 to 43 %; its
// model card says 30.84 million hours of H100, restarts and later stages included.
TEST(RulesOfThumb, Llama405bTakesAMillionGpuDays) {
  EXPECT_DOUBLE_EQ(gpu_days(86400e15, 0.5, 2e15), 1);
  const ModelSize size =
      figures("llama3-405b", {{"batch", "{global: 2048, micro: 1, seq: 8192}"}}, 15.6e12);
  const double steps = size.tokens / static_cast<double>(size.global_batch * size.seq);
  const double hours = 24 * gpu_days(size.flops * steps, 0.40, 989.4e12);
  EXPECT_GT(hours, 0.8 * 30.84e6);
  EXPECT_LT(hours, 30.84e6);
}

TEST(Size, CountsTheModelAsItIsWrittenNotAsItIsPadded) {
  EXPECT_EQ(figures("gpt2", {}).parameters, 124'439'808);
  EXPECT_EQ(figures("llama3-8b", {}).parameters, 8'030'261'248);
  EXPECT_EQ(figures("llama3-8b", {}).embedding_parameters, 2 * 128'256 * 4096);
}

// 2 x 32 layers x 8 heads x 128 x 2 bytes.
TEST(Size, KnowsWhatATokenLeavesInTheCache) {
  EXPECT_EQ(figures("llama3-8b", {}).cache_bytes_per_token, 131'072);
}

// Of DeepSeek-V4-Flash 21 layers have a vector of 512 numbers and one of 128 for their indexer for
// every 4 tokens, 20 one of 512 for every 128; windows stay as large as they are.
TEST(Size, KnowsWhatATokenLeavesInACacheOfCompressedKeys) {
  SizeOptions options;
  options.search = false;
  const ModelSize size =
      size_model(STEPCAST_TEST_DATA "/imports/corpus/deepseek-v4-flash.config.json", {}, options);
  EXPECT_EQ(size.parameters, 284'332'240'471);
  EXPECT_EQ(size.cache_bytes_per_token, 2 * (21 * (512 + 128) / 4 + 20 * 512 / 128));
}

TEST(Size, AssumesSequencesThatTheModelHasPositionsFor) {
  EXPECT_EQ(figures("llama3-8b", {}).seq, 4096);
  EXPECT_EQ(figures("gpt2", {}).seq, 1024);
  EXPECT_EQ(figures("gpt2", {}).global_batch, 4096);
  EXPECT_EQ(figures("gpt2", {{"batch.seq", "512"}}).seq, 512);
}

TEST(Size, FindsTheFewestGpusThatReallyFit) {
  SizeOptions options;
  options.gpu = "dgx-a100-80g";
  options.load.set = {{"batch", "{global: 64, micro: 1, seq: 2048}"}};
  const ModelSize size = size_model("gpt3-1.3b", {}, options);
  ASSERT_TRUE(size.training.has_value());
  EXPECT_EQ(size.training->gpus, 1);
  EXPECT_TRUE(size.training->result.fits);
  EXPECT_GT(size.training->result.utilization.mfu_full_attention, 0);
  const std::string text = size_text(size);
  EXPECT_THAT(text, HasSubstr("parallel={tp: 1, pp: 1, zero: 1}"));
  EXPECT_THAT(text, HasSubstr("18 N x 1.25"));
  const std::string json = size_json(size, "1.0");
  EXPECT_THAT(json, HasSubstr("\"parameters\": 1317654528"));
  EXPECT_THAT(json, HasSubstr("\"smallest_layout\": {\n    \"gpus\": 1"));
}

// States of 13e9 x 18 bytes alone fill three GPUs of 80 GB.
TEST(Size, NoSmallerClusterThanItsStatesNeed) {
  SizeOptions options;
  options.gpu = "a100-sxm-80g";
  options.load.set = {{"batch", "{global: 32, micro: 1, seq: 2048}"}};
  const ModelSize size = size_model("gpt3-13b", {}, options);
  ASSERT_TRUE(size.training.has_value());
  EXPECT_GE(size.training->gpus, gpus_for(18 * 12.86e9, 85e9));
  EXPECT_LE(size.training->gpus, 8);
}

TEST(Size, FewerBitsNeedFewerGpusToInfer) {
  SizeOptions options;
  options.most_gpus = 16;
  const ModelSize size = size_model("llama3-70b", {}, options);
  ASSERT_EQ(size.inference.size(), 3u);
  for (const SizedInference& i : size.inference) ASSERT_TRUE(i.layout.has_value()) << i.weights;
  EXPECT_EQ(size.inference[0].layout->gpus, 2);  // 141 GB
  EXPECT_EQ(size.inference[1].layout->gpus, 1);  // 73 GB: embedding and head stay in 16 bits
  EXPECT_EQ(size.inference[2].layout->gpus, 1);
  EXPECT_LT(size.inference[2].layout->result.step_time, size.inference[1].layout->result.step_time);
}

// 61 layers cannot be cut into equal stages: tensor parallelism goes beyond a node.
TEST(Size, InfersModelsOfAPrimeNumberOfLayersOnSeveralNodes) {
  SizeOptions options;
  options.most_gpus = 32;
  const ModelSize size = size_model("deepseek-v3", {}, options);
  ASSERT_EQ(size.inference.size(), 3u);
  const std::optional<SizedLayout>& bf16 = size.inference[0].layout;
  const std::optional<SizedLayout>& int8 = size.inference[1].layout;
  ASSERT_TRUE(bf16.has_value() && int8.has_value());
  EXPECT_EQ(bf16->gpus, 32);
  EXPECT_EQ(bf16->tp, 32);
  EXPECT_EQ(int8->gpus, 16);
}

TEST(Size, ReportStaysWithinEightyColumns) {
  SizeOptions options;
  options.tokens = 300e9;
  options.mfu = 0.45;
  options.gpu = "a100-sxm-80g";
  options.load.set = {{"batch", "{global: 96, micro: 1, seq: 2048}"}};
  const std::string text = size_text(size_model("gpt3-175b", {}, options));
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 80u) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(Size, SaysSoIfNothingFits) {
  SizeOptions options;
  options.most_gpus = 8;
  const ModelSize size = size_model("llama3-70b", {}, options);
  EXPECT_FALSE(size.training.has_value());
  EXPECT_EQ(size.most_gpus_tried, 8);
}

// Replicas would exchange gradients for months: only these layouts are left out.
TEST(Size, LeavesOutLayoutsWhoseStepTakesTooLong) {
  SizeOptions options;
  options.load.set = {{"cluster.node.gpu.memory", "10GiB"}, {"cluster.node.nics.bw", "20Kb/s"}};
  const ModelSize size = size_model("<stdin>",
                                    "model: llama3-8b\n"
                                    "cluster: dgx-h100 x 2\n"
                                    "batch: {global: 32, micro: 1, seq: 8192}\n",
                                    options);
  ASSERT_TRUE(size.training.has_value());
  EXPECT_EQ(size.training->gpus, 32);
  EXPECT_EQ(size.training->tp, 8);
  EXPECT_EQ(size.training->pp, 4);
}

TEST(Size, TakesAGpuByTheBeginningOfItsName) {
  SizeOptions options;
  options.search = false;
  options.gpu = "h200";
  EXPECT_EQ(size_model("llama3-8b", {}, options).gpu, "h200-sxm");
  options.gpu = "a100";
  EXPECT_THAT(size_model("llama3-8b", {}, options).gpu, ::testing::StartsWith("a100-sxm"));
}

TEST(Size, RefusesWhatItDoesNotKnow) {
  SizeOptions options;
  options.search = false;
  EXPECT_EQ(code_of("llama9-8b", options), "E101");  // neither a preset nor a file
  options.gpu = "h900";
  EXPECT_EQ(code_of("llama3-8b", options), "E006");
  options.gpu = "";
  options.load.set = {{"batch.seq", "-1"}};
  EXPECT_EQ(code_of("llama3-8b", options), "E122");
}

TEST(Size, ReadsAScenarioThatExtendsSeveralFiles) {
  const testing::TemporaryFolder folder;
  folder.write("base.yaml",
               "model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 64, seq: 4096}\n");
  folder.write("more.yaml", "recompute: full\n");
  const std::string top =
      folder.write("c2.yaml", "extends: [base.yaml, more.yaml]\nparallel: {tp: 2}\n");
  SizeOptions options;
  options.most_gpus = 8;
  const ModelSize size = size_model(top, {}, options);
  EXPECT_EQ(size.global_batch, 64);
  EXPECT_TRUE(size.training.has_value());
}

TEST(Size, SaysWhatIsWrongWithASubjectWhoseSectionsAreNumbers) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(code_of(folder.write("numbers.yaml", "cluster: 2\nbatch: 1\n")), "E126");
}

TEST(Size, TakesAConfigJson) {
  const testing::TemporaryFolder folder;
  SizeOptions options;
  options.search = false;
  const std::string config = folder.write(
      "config.json",
      R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000,
          "num_attention_heads": 32, "intermediate_size": 11008, "tie_word_embeddings": false})");
  EXPECT_EQ(size_model(config, {}, options).parameters, 6'738'415'616);  // Llama 2 7B
}

TEST(Size, ReadsAScenarioAndIgnoresItsLayout) {
  SizeOptions options;
  options.search = false;
  const std::string text =
      "model: gpt3-1.3b\n"
      "cluster: dgx-a100-80g x 7\n"
      "parallel: {tp: 4, pp: 5}\n"
      "schedule: zb-v\n"
      "batch: {global: 48, micro: 4, seq: 2048}\n";
  const ModelSize size = size_model("<stdin>", text, options);
  EXPECT_EQ(size.global_batch, 48);
  EXPECT_EQ(size.gpu, "a100-sxm-80g");
  EXPECT_EQ(size.parameters, 1'317'654'528);
}

TEST(Size, TrainsAndDecodesWhatAScenarioOfInferenceDescribes) {
  SizeOptions options;
  options.most_gpus = 16;
  const std::string text =
      "model: gpt3-1.3b\ncluster: dgx-h100 x 1\nmode: decode\n"
      "batch: {global: 64, micro: 64, seq: 2048}\n"
      "precision: {weights: int8, kv_cache: fp8}\n";
  const ModelSize size = size_model("<stdin>", text, options);
  EXPECT_TRUE(size.training.has_value());
  ASSERT_EQ(size.inference.size(), 3u);
  EXPECT_TRUE(size.inference.front().layout.has_value());
}

TEST(Size, DecodesAStudentWithoutItsTeacher) {
  SizeOptions options;
  options.most_gpus = 8;
  options.load.set = {{"distill", "gpt3-1.3b"}};
  const ModelSize size = size_model("gpt3-1.3b", {}, options);
  ASSERT_EQ(size.inference.size(), 3u);
  EXPECT_TRUE(size.inference.front().layout.has_value());
}

TEST(Size, SaysThatInferenceOfAnEncoderIsNotModelled) {
  SizeOptions options;
  options.most_gpus = 1;
  for (const char* model : {"t5-11b", "bert-large"}) {
    const ModelSize size = size_model(model, {}, options);
    EXPECT_TRUE(size.inference.empty()) << model;
    EXPECT_THAT(size_text(size), HasSubstr("not modelled")) << model;
  }
}

// T5-11B: 24 layers of a decoder, 128 heads of 128; a token of BERT leaves nothing.
TEST(Size, OnlyLayersOfADecoderHaveACache) {
  EXPECT_EQ(figures("t5-11b", {}).cache_bytes_per_token, 2.0 * 2 * 24 * 128 * 128);
  EXPECT_EQ(figures("bert-large", {}).cache_bytes_per_token, 0);
}

TEST(Metric, HasFourDigitsAndAPrefix) {
  EXPECT_EQ(metric(2.8e12, "B"), "2.800 TB");
  EXPECT_EQ(metric(428.6e21, "FLOP"), "428.6 ZFLOP");
  EXPECT_EQ(metric(8'030'261'248, ""), "8.030 B");
  EXPECT_EQ(metric(999'960, "B"), "1.000 MB");
  EXPECT_EQ(metric(512, "B"), "512 B");
  EXPECT_EQ(metric(0, "B"), "0 B");
}

}  // namespace
}  // namespace stepcast::size_test
