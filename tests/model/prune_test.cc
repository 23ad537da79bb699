// SPDX-License-Identifier: Apache-2.0
#include "model/prune.h"

#include <gtest/gtest.h>

#include "sim/diagnostic.h"
#include "tests/model/sample.h"

namespace stepcast {
namespace {

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
}  // namespace stepcast
