// SPDX-License-Identifier: Apache-2.0
// Encoders, encoders with a decoder and multi-token prediction, as scenarios and config.json say
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/scenario.h"
#include "tests/scenarios/loading.h"

namespace stepcast::architectures_test {
namespace {

using testing::failure;
using testing::load;

// One DGX H100.
std::string text_of(const std::string& model, const std::string& rest) {
  return "model: " + model + "\ncluster: dgx-h100 x 1\n" + rest;
}

Scenario scenario_of(const std::string& model, const std::string& rest) {
  return load(text_of(model, rest));
}

std::string code_of(const std::string& text) {
  return failure(text).codes;
}

// ------------------------------------------------------------------------- multi-token prediction
// The checkpoint on Hugging Face holds the model, its module (model.layers.61: 11.6 B) and second
// copies of embedding and head: 3,918,786,560 values in bf16, 680,571,043,840 in fp8 and the 59 x
// 256 correction biases of the routers in fp32.  The model card's 685B are 671B + 14B.
TEST(DeepSeekV3, WithItsPredictionModuleHasTheParametersOfItsCheckpoint) {
  const Transformer t = scenario_of("{preset: deepseek-v3, num_nextn_predict_layers: 1}",
                                    "batch: {global: 8, seq: 4096}\nparallel: {dp: 8}")
                            .model;
  EXPECT_EQ(parameters(t), 671'026'419'200);
  EXPECT_EQ(prediction_parameters(t), 11'610'068'224);
  EXPECT_EQ(parameters(t) + prediction_parameters(t) + 2 * 129'280 * 7'168,
            3'918'786'560 + 680'571'043'840 + 59 * 256);
}

constexpr const char* kBatch = "batch: {global: 8, seq: 512}\n";

TEST(Prediction, IsSetByTheConfigsKeyAndPlacedByTheLayout) {
  const std::string model = "{preset: llama3.2-1b, num_nextn_predict_layers: 1}";
  const Scenario beside = scenario_of(model, std::string(kBatch) + "parallel: {pp: 2}");
  EXPECT_EQ(beside.plan.stages.back().predictions, 1);
  const Scenario apart =
      scenario_of(model, std::string(kBatch) + "parallel: {pp: 4, layout: 'E(t*8|)*2m|L'}");
  EXPECT_EQ(apart.plan.stages[2].predictions, 1);
  EXPECT_EQ(apart.plan.stages[3].predicted, 1);
}

TEST(Prediction, ModulesOfTheLayoutMustBeTheModels) {
  const std::string rest = std::string(kBatch) + "parallel: {pp: 2, layout: 'Et*8|t*8mL'}";
  EXPECT_EQ(code_of(text_of("llama3.2-1b", rest)), "E202");
  EXPECT_EQ(code_of(text_of("{preset: llama3.2-1b, num_nextn_predict_layers: 2}", rest)), "E202");
  EXPECT_EQ(code_of(text_of("{preset: llama3.2-1b, num_nextn_predict_layers: 17}", kBatch)),
            "E123");
}

// ---------------------------------------------------------------------------------------- encoders
TEST(EncoderSequence, IsAsLongAsTheDecodersUnlessItIsSaid) {
  EXPECT_EQ(scenario_of("t5-small", kBatch).plan.encoder_seq, 512);
  const Scenario s = scenario_of("t5-small", "batch: {global: 8, seq: 128, encoder_seq: 512}");
  EXPECT_EQ(s.plan.encoder_seq, 512);
  EXPECT_EQ(s.plan.seq, 128);
}

TEST(EncoderSequence, IsCheckedAsTheOther) {
  const std::string tp = "parallel: {tp: 4}\n";
  EXPECT_EQ(code_of(text_of("t5-small", tp + "batch: {global: 8, seq: 128, encoder_seq: 510}")),
            "E204");
  EXPECT_EQ(code_of(text_of("{preset: t5-small, position_embedding_type: learned, "
                            "max_position_embeddings: 512}",
                            "batch: {global: 8, seq: 128, encoder_seq: 1024}")),
            "E211");
  EXPECT_EQ(code_of(text_of("t5-small", "parallel: {cp: 2}\n" + std::string(kBatch))), "E130");
}

TEST(EncoderSequence, HasNoEffectWithoutAnEncoder) {
  const Scenario s = load(text_of("llama3.2-1b", "batch: {global: 8, seq: 128, encoder_seq: 512}"));
  EXPECT_THAT(s.warnings,
              ::testing::Contains(::testing::HasSubstr("batch.encoder_seq has no effect")));
}

TEST(Encoders, AreNotCutIntoPieces) {
  const std::string rest = "parallel: {pp: 2}\nschedule: {kind: seq1f1b}\n" + std::string(kBatch);
  EXPECT_EQ(code_of(text_of("t5-small", rest)), "E127");
  EXPECT_EQ(code_of(text_of("bert-base", rest)), "E127");
  EXPECT_EQ(code_of(text_of("llama3.2-1b", rest)), "");
}

// transformers: google-t5/t5-small, google/flan-t5-small (T5 1.1), without what has no effect.
TEST(ConfigJson, OfT5IsReadInItsOwnWords) {
  const Transformer small =
      scenario_of(
          "{model_type: t5, d_ff: 2048, d_kv: 64, d_model: 512, is_encoder_decoder: true, "
          "num_heads: 8, num_layers: 6, relative_attention_num_buckets: 32, vocab_size: 32128, "
          "n_positions: 512, dropout_rate: 0.1}",
          kBatch)
          .model;
  EXPECT_EQ(parameters(small), 60'506'624);
  const Transformer flan =
      scenario_of(
          "{model_type: t5, d_ff: 1024, d_kv: 64, d_model: 512, is_encoder_decoder: true, "
          "num_heads: 6, num_layers: 8, num_decoder_layers: 8, feed_forward_proj: gated-gelu, "
          "tie_word_embeddings: false, relative_attention_num_buckets: 32, vocab_size: 32128}",
          kBatch)
          .model;
  EXPECT_TRUE(flan.gated);
  EXPECT_EQ(parameters(flan), 76'961'152);
  EXPECT_EQ(code_of(text_of("{model_type: t5, feed_forward_proj: gated-tan}", kBatch)), "E125");
}

TEST(ConfigJson, OfBertIsAnEncoder) {
  const Transformer t = scenario_of("{model_type: bert, type_vocab_size: 2}", kBatch).model;
  EXPECT_TRUE(t.bidirectional);
  // The vocabulary is padded by 70 words, each a row and a bias of the logits.
  EXPECT_EQ(parameters(t), 110'106'428 + 70 * (768 + 1));
}

}  // namespace
}  // namespace stepcast::architectures_test
