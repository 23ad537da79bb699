// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <gtest/gtest.h>

#include <array>

#include "sim/check.h"
#include "sim/diagnostic.h"
#include "tests/model/sample.h"

namespace stepcast::transformer_test {
namespace {

using sample::gpt;
using sample::llama;

Transformer deepseek_v3() {
  Transformer t = llama(61, 7168, 128, 128, 18432, 129280);
  t.experts = 256;
  t.experts_per_token = 8;
  t.moe_ffn = 2048;
  t.shared_ffn = 2048;
  t.dense_layers = 3;
  t.router_bias = true;
  t.q_rank = 1536;
  t.kv_rank = 512;
  t.qk_nope_dim = 128;
  t.qk_rope_dim = 64;
  t.v_dim = 128;
  return t;
}

TEST(Parameters, OfGpt2EqualItsCheckpoints) {
  EXPECT_EQ(parameters(gpt(12, 768, 12, 50257, 1024)), 124'439'808);
  EXPECT_EQ(parameters(gpt(48, 1600, 25, 50257, 1024)), 1'557'611'200);
}

TEST(Parameters, OfGpt3WithMegatronsVocabulary) {
  EXPECT_EQ(parameters(gpt(96, 12288, 96, 51200, 2048)), 174'615'846'912);
}

TEST(Parameters, OfGptEqualNarayanansFormula) {
  // Narayanan et al. 2021, eq. 2: 12 L h^2 (1 + 13/12h + (V+s)/12Lh), which leaves out the final
  // norm's 2h.
  const int64_t l = 40, h = 5120, v = 51200, s = 2048;
  EXPECT_EQ(parameters(gpt(l, h, 40, v, s)), 12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h);
}

TEST(Parameters, OfMpt13bEqualTheBenchmarkTables) {
  EXPECT_EQ(parameters(gpt(40, 5120, 40, 50368, 2048)), 12'853'954'560);
}

TEST(Parameters, OfLlamaEqualItsCheckpoints) {
  EXPECT_EQ(parameters(llama(32, 4096, 32, 32, 11008, 32000)), 6'738'415'616);
  EXPECT_EQ(parameters(llama(32, 4096, 32, 8, 14336, 128256)), 8'030'261'248);
  EXPECT_EQ(parameters(llama(80, 8192, 64, 8, 28672, 128256)), 70'553'706'496);
  EXPECT_EQ(parameters(llama(126, 16384, 128, 8, 53248, 128256)), 405'853'388'800);
}

TEST(Parameters, OfDeepSeekV3EqualItsCheckpointWithoutMtp) {
  EXPECT_EQ(parameters(deepseek_v3()), 671'026'419'200);
  EXPECT_EQ(active_parameters(deepseek_v3()), 37'552'297'472);
}

TEST(Parameters, AllMeetEveryTokenOfADenseModel) {
  const Transformer t = llama(32, 4096, 32, 8, 14336, 128256);
  EXPECT_EQ(active_parameters(t), parameters(t));
}

TEST(Parameters, CountATiedHeadOnce) {
  Transformer t = llama(2, 64, 4, 2, 128, 1000);
  const int64_t untied = parameters(t);
  t.tied = true;
  EXPECT_EQ(untied - parameters(t), 64 * 1000);
}

TEST(Parameters, OfPositionsAreThereOnlyIfLearned) {
  Transformer t = gpt(2, 64, 4, 1000, 512);
  const int64_t learned = parameters(t);
  t.positions = Positions::rotary;
  EXPECT_EQ(learned - parameters(t), 512 * 64);
  const int64_t rotary = parameters(t);
  t.positions = Positions::none;
  EXPECT_EQ(parameters(t), rotary);
}

TEST(Parameters, OfEachBiasAreCounted) {
  const Transformer all = gpt(1, 64, 4, 1000, 512);
  const auto without = [&](auto field) {
    Transformer t = all;
    t.*field = false;
    return parameters(all) - parameters(t);
  };
  EXPECT_EQ(without(&Transformer::attention_bias), 3 * 64);
  EXPECT_EQ(without(&Transformer::attention_output_bias), 64);
  EXPECT_EQ(without(&Transformer::mlp_bias), 4 * 64 + 64);
  EXPECT_EQ(without(&Transformer::norm_bias), 3 * 64);  // two in the layer and the final one
}

TEST(Parameters, OfRmsNormsHaveNoBias) {
  Transformer t = llama(1, 64, 4, 4, 128, 1000);
  const int64_t with = parameters(t);
  t.norm_bias = false;
  EXPECT_EQ(parameters(t), with);
}

TEST(Parameters, OfQueryKeyNormsAndSinks) {
  Transformer t = llama(3, 64, 4, 2, 128, 1000);
  const int64_t plain = parameters(t);
  t.qk_norm = true;
  EXPECT_EQ(parameters(t) - plain, 3 * 2 * 16);
  t.qk_norm = false;
  t.attention_sinks = true;
  EXPECT_EQ(parameters(t) - plain, 3 * 4);
}

TEST(Parameters, FollowHeadDimNotHidden) {
  Transformer t = llama(1, 64, 4, 2, 128, 1000);
  const int64_t narrow = parameters(t);
  t.head_dim = 32;  // as Mistral-Nemo: heads * head_dim is not hidden
  EXPECT_EQ(parameters(t) - narrow, 64 * (4 * 16 + 2 * 2 * 16) + 4 * 16 * 64);
}

TEST(Parameters, OfLatentAttentionWithoutQueryRank) {
  Transformer t = deepseek_v3();
  const int64_t low_rank = 7168 * 1536 + 1536 + 1536 * 128 * 192;
  const int64_t with = layer_parameters(t, 0);
  t.q_rank = 0;
  EXPECT_EQ(layer_parameters(t, 0) - with, 7168 * 128 * 192 - low_rank);
}

TEST(LayerParameters, DifferBetweenDenseLayersAndExperts) {
  const Transformer t = deepseek_v3();
  const int64_t expert = 3 * 7168 * 2048;
  EXPECT_EQ(layer_parameters(t, 2), layer_parameters(t, 0));
  EXPECT_EQ(layer_parameters(t, 3), layer_parameters(t, 60));
  EXPECT_EQ(layer_parameters(t, 3) - layer_parameters(t, 2),
            257 * expert + 7168 * 256 + 256 - 3 * 7168 * 18432);
}

TEST(LayerParameters, AddUpToTheModel) {
  for (const Transformer& t : {deepseek_v3(), llama(5, 64, 4, 2, 128, 1000)}) {
    int64_t sum = 2 * t.vocab * t.hidden + t.hidden;
    for (int64_t i = 0; i < t.layers; ++i) sum += layer_parameters(t, i);
    EXPECT_EQ(sum, parameters(t));
  }
}

TEST(LayerParameters, OfNoLayerAreABug) {
  const Transformer t = llama(2, 64, 4, 2, 128, 1000);
  EXPECT_THROW(layer_parameters(t, 2), InternalError);
  EXPECT_THROW(layer_parameters(t, -1), InternalError);
}

// Relative 1e-14: the closed forms divide, the counts do not.
void expect_equal(double a, double b) {
  EXPECT_NEAR(a, b, 1e-14 * b);
}

TEST(Flops, OfAStepEqualKorthikantisFormula) {
  for (const auto& [l, h, a] : {std::array<int64_t, 3>{48, 6144, 64},
                                {96, 12288, 96},
                                {105, 20480, 128},
                                {128, 25600, 160}}) {
    const Transformer t = gpt(l, h, a, 51200, 2048);
    const double b = 64, s = 2048, v = 51200;
    const auto ld = static_cast<double>(l), hd = static_cast<double>(h);
    expect_equal(3 * forward_matmul_flops(t, b, s, false),
                 72 * b * s * ld * hd * hd * (1 + s / (6 * hd) + v / (12 * ld * hd)));
  }
}

TEST(Flops, WithFullRecomputeEqualNarayanansFormula) {
  const Transformer t = gpt(96, 12288, 96, 51200, 2048);
  const double b = 1536, s = 2048, v = 51200, l = 96, h = 12288;
  const double forward = forward_matmul_flops(t, b, s, false);
  const double head = head_matmul_flops(t, b, s);
  expect_equal(4 * (forward - head) + 3 * head,
               96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)));
}

TEST(Flops, OfTheHeadAreTwoPerWeightAndToken) {
  const Transformer t = gpt(2, 64, 4, 1000, 512);
  EXPECT_DOUBLE_EQ(head_matmul_flops(t, 3, 128), 2.0 * 3 * 128 * 64 * 1000);
}

TEST(Flops, OfCausalAttentionAreHalfOfFullAttention) {
  const Transformer t = llama(2, 64, 4, 2, 128, 1000);
  const double attention = 2.0 * 2 * 2 * 4 * 16 * 256 * 256;  // 2 products, 2 layers, 4 heads of 16
  EXPECT_DOUBLE_EQ(forward_matmul_flops(t, 1, 256, false) - forward_matmul_flops(t, 1, 256, true),
                   attention / 2);
}

TEST(Flops, OfASlidingWindowGrowLinearlyBeyondIt) {
  Transformer t = llama(2, 64, 4, 2, 128, 1000);
  const double full = forward_matmul_flops(t, 1, 256, true);
  t.sliding_window = 4096;  // longer than the sequence: no difference
  EXPECT_DOUBLE_EQ(forward_matmul_flops(t, 1, 256, true), full);
  t.sliding_window = 64;
  const double pair = 2.0 * 2 * 2 * 4 * 16;
  EXPECT_DOUBLE_EQ(full - forward_matmul_flops(t, 1, 256, true),
                   pair * (256.0 * 256 / 2 - (256.0 * 64 - 64.0 * 64 / 2)));
  EXPECT_DOUBLE_EQ(forward_matmul_flops(t, 1, 513, true) - forward_matmul_flops(t, 1, 512, true),
                   forward_matmul_flops(t, 1, 257, true) - forward_matmul_flops(t, 1, 256, true));
}

TEST(Flops, OfExpertsAreThoseThatATokenMeets) {
  Transformer t = llama(4, 64, 4, 2, 128, 1000);
  t.experts = 16;
  t.experts_per_token = 2;
  t.moe_ffn = 32;
  t.dense_layers = 4;
  const double dense = forward_matmul_flops(t, 1, 256, true);
  t.dense_layers = 3;
  t.shared_ffn = 48;
  t.shared_gate = true;
  const double weights = 64 * 16 + 2 * 3 * 64 * 32 + 3 * 64 * 48 + 64 - 3 * 64 * 128;
  EXPECT_DOUBLE_EQ(forward_matmul_flops(t, 1, 256, true) - dense, 2 * 256 * weights);
}

TEST(Flops, OfLatentAttentionUseItsOwnHeadWidths) {
  Transformer t = deepseek_v3();
  const double full = forward_matmul_flops(t, 1, 4096, false);
  const double causal = forward_matmul_flops(t, 1, 4096, true);
  EXPECT_DOUBLE_EQ(full - causal, 61.0 * 2 * 128 * (192 + 128) * 4096 * 4096 / 2);
}

// -------------------------------------------------------------------------------------------------
Transformer llama() {
  return sample::llama(32, 4096, 32, 8, 14336, 128256);
}

TEST(Prune, NothingLeavesTheModelAsItIs) {
  EXPECT_EQ(parameters(pruned(llama(), {})), parameters(llama()));
}

// Minitron's Llama-3.1 8B to 4B: 16 of 32 layers (depth), or width 3,072 with MLPs of 9,216
// (Sreenivas et al. 2024, arXiv 2408.11796, table 1).
TEST(Prune, GivesThePublishedShapesOfLlamaMinitron) {
  EXPECT_EQ(pruned(llama(), {.layers = 0.5}).layers, 16);
  const Transformer width = pruned(llama(), {.ffn = 1 - 9216.0 / 14336, .hidden = 0.25});
  EXPECT_EQ(width.hidden, 3072);
  EXPECT_EQ(width.ffn, 9216);
  EXPECT_EQ(width.heads, 32);
  EXPECT_EQ(width.head_dim, 128);
}

TEST(Prune, LayersTakeTheirParametersAlong) {
  const Transformer t = llama();
  EXPECT_EQ(parameters(t) - parameters(pruned(t, {.layers = 0.25})), 8 * layer_parameters(t, 0));
}

TEST(Prune, HeadsGoWithTheirGroup) {
  const Transformer t = pruned(llama(), {.heads = 0.25});
  EXPECT_EQ(t.kv_heads, 6);
  EXPECT_EQ(t.heads, 24);
}

TEST(Prune, WidthsAreMultiplesOf128) {
  EXPECT_EQ(pruned(llama(), {.ffn = 0.1}).ffn, 12928);  // 12,902.4
  Transformer small = llama();
  small.ffn = 100;
  EXPECT_EQ(pruned(small, {.ffn = 0.1}).ffn, 90);
  small.hidden = 896;
  EXPECT_EQ(pruned(small, {.hidden = 0.3}).hidden, 640);  // 627.2
}

TEST(Prune, SomethingIsAlwaysLeft) {
  const Transformer t = pruned(llama(), {.layers = 0.999, .heads = 0.999});
  EXPECT_EQ(t.layers, 1);
  EXPECT_EQ(t.kv_heads, 1);
}

TEST(Prune, KindsOfTheLayersThatStayAreKept) {
  Transformer t = llama();
  for (int i = 0; i < 32; ++i) t.windows.push_back(i % 2 == 0 ? 128 : 0);
  const Transformer half = pruned(t, {.layers = 0.5});
  ASSERT_EQ(half.windows.size(), 16u);
  EXPECT_EQ(layer_kind(half, 14).window, 128);
}

TEST(Prune, RefusesFewerExpertsThanATokenHas) {
  Transformer t = llama();
  t.experts = 8;
  t.experts_per_token = 2;
  t.moe_ffn = 14336;
  EXPECT_EQ(pruned(t, {.experts = 0.5}).experts, 4);
  EXPECT_THROW(pruned(t, {.experts = 0.9}), InputError);
  EXPECT_THROW(pruned(llama(), {.experts = 0.5}), InputError);  // has none
}

TEST(Prune, RefusesLayersOfAnEncoderAndADecoder) {
  Transformer t = llama();
  t.encoder_layers = 12;
  EXPECT_THROW(pruned(t, {.layers = 0.5}), InputError);
}

}  // namespace
}  // namespace stepcast::transformer_test
