// SPDX-License-Identifier: Apache-2.0
// Recurrent layers, layers of one branch and attention to chosen keys, as scenarios say them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "scenarios/forecast/step.h"
#include "scenarios/scenario.h"
#include "tests/scenarios/loading.h"
#include "tests/temporary_folder.h"

namespace stepcast::scenario_mixers_test {
namespace {

using testing::failure;
using ::testing::HasSubstr;
using testing::load;
using testing::TemporaryFolder;

constexpr const char* kDelta =
    "model: {model_type: qwen3_5_text, hidden_size: 1024, intermediate_size: 2048, "
    "num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: 8, head_dim: 128, "
    "linear_num_value_heads: 16";  // of 16 heads of keys
constexpr const char* kHybrid =
    "model: {model_type: nemotron_h, hidden_size: 1024, intermediate_size: 2048, "
    "num_attention_heads: 8, num_key_value_heads: 2, mamba_num_heads: 16, n_groups: 8, "
    "n_routed_experts: 8, moe_intermediate_size: 512, moe_shared_expert_intermediate_size: 1024";
constexpr const char* kChosen =
    "model: {model_type: deepseek_v32, hidden_size: 1024, intermediate_size: 2048, "
    "num_hidden_layers: 4, num_attention_heads: 8, n_routed_experts: 8, moe_intermediate_size: "
    "512, "
    "num_experts_per_tok: 2, first_k_dense_replace: 1, n_group: 1, topk_group: 1";

std::string text_of(const std::string& model, const std::string& more = "",
                    const std::string& rest = "") {
  return model + more + "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n" + rest;
}

std::string problem(const std::string& text) {
  const testing::Failure f = failure(text);
  return f.codes + ": " + (f.all.empty() ? "" : f.all.front().message);
}

// Two layers of 8 heads, `blocks` one after the other.
std::string blocks(const std::string& list, const std::string& rest = "") {
  return "model: {model_type: nemotron-nas, hidden_size: 1024, num_hidden_layers: 2, "
         "num_attention_heads: 8, block_configs: " +
         list + "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n" + rest;
}

std::string gemma4(const std::string& more, const std::string& rest = "") {
  return "model: {model_type: gemma4_text, num_hidden_layers: 6, " + more +
         "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n" + rest;
}

std::string mimo(const std::string& more, const std::string& rest = "") {
  return "model: {model_type: mimo_v2_flash, num_hidden_layers: 4, num_experts: 8, " + more +
         "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n" + rest;
}

TEST(Shapes, OfBlocksAreTheirGroupsAndWidths) {
  const Transformer t = load(blocks("[{attention: {n_heads_in_group: 4}, ffn: {ffn_mult: 2.625}}, "
                                    "{attention: {no_op: true}, ffn: {ffn_mult: 1.0}}]"))
                            .model;
  EXPECT_EQ(t.kv_heads, 2);
  EXPECT_EQ(t.ffn, 1792);
  EXPECT_EQ(t.mixers, (std::vector<Mixer>{Mixer::attention, Mixer::none}));
  EXPECT_EQ(layer_shape(t, layer_kind(t, 0)), own_shape(t));
  EXPECT_EQ(layer_shape(t, layer_kind(t, 1)).ffn, 768);  // 682 in multiples of 256
}

TEST(Shapes, OfGemma4DifferWhereThereIsNoWindow) {
  const Transformer t = load(gemma4("attention_k_eq_v: true, num_global_key_value_heads: 2")).model;
  EXPECT_EQ(t.shape_of, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(t.windows.back(), 0);
  EXPECT_EQ(t.shapes.at(0), (LayerShape{8, 2, 512, 512, false, true, 9216}));
  // Without it they have keys and values like the others, of another width.
  EXPECT_EQ(load(gemma4("num_global_key_value_heads: 2")).model.shapes.at(0),
            (LayerShape{8, 4, 512, 512, false, false, 9216}));
}

TEST(Shapes, OfMimoDifferWhereThereIsAWindow) {
  const Transformer t =
      load(mimo("hybrid_layer_pattern: [0, 1, 1, 0], moe_layer_freq: [0, 1, 1, 1]")).model;
  EXPECT_EQ(t.windows, (std::vector<int64_t>{0, 128, 128, 0}));
  EXPECT_EQ(t.shape_of, (std::vector<uint8_t>{0, 1, 1, 0}));
  EXPECT_EQ(t.shapes.at(0), (LayerShape{64, 8, 192, 128, true, false, 16384}));
  EXPECT_EQ(own_shape(t), (LayerShape{64, 4, 192, 128, false, false, 16384}));
  EXPECT_EQ(t.dense_layers, 1);
}

TEST(Shapes, AreSplitByWhatDividesTheHeadsOfAllLayers) {
  const std::string keys = "attention_k_eq_v: true, num_global_key_value_heads: 2";
  EXPECT_EQ(load(gemma4(keys, "parallel: {tp: 4}\n")).plan.tp, 4);
  EXPECT_THAT(problem(gemma4("num_attention_heads: 12", "parallel: {tp: 8}\n")),
              HasSubstr("does not divide num_attention_heads = 12"));
  // Three heads of layers without a window.
  EXPECT_THAT(problem(gemma4("num_attention_heads: 12, attention_k_eq_v: true, "
                             "num_global_key_value_heads: 3",
                             "parallel: {tp: 2}\n")),
              HasSubstr("does not divide num_key_value_heads = 3"));
}

TEST(Shapes, ThatCannotBeAreRefused) {
  const std::string good = "{attention: {n_heads_in_group: 8}, ffn: {ffn_mult: 2}}";
  EXPECT_EQ(problem(blocks("3")), "E127: 'block_configs' must be a list of mappings, one a layer");
  EXPECT_EQ(problem(blocks("[" + good + "]")),
            "E127: 'block_configs' must be a list of mappings, one a layer");
  EXPECT_EQ(problem(blocks("[x, " + good + "]")),
            "E127 E127: each of 'block_configs' must have a mapping 'attention'");
  EXPECT_EQ(problem(blocks("[" + good + ", {attention: {}, ffn: {ffn_mult: 2}}]")),
            "E127: a layer in 'block_configs' does not say its n_heads_in_group");
  EXPECT_EQ(
      problem(blocks("[" + good + ", {attention: {n_heads_in_group: 3}, ffn: {ffn_mult: 2}}]")),
      "E127: n_heads_in_group = 3 does not divide num_attention_heads = 8");
  EXPECT_EQ(problem(blocks("[" + good +
                           ", {attention: {replace_with_linear: true}, ffn: {ffn_mult: 2}}]")),
            "E130: not supported yet: replace_with_linear of a layer in block_configs");
  EXPECT_EQ(problem(blocks("[" + good + ", {attention: {no_op: true}, ffn: {no_op: true}}]")),
            "E130: not supported yet: a layer that does nothing");
  EXPECT_THAT(problem(blocks("[" + good + ", {attention: {no_op: true}, ffn: {ffn_mult: wide}}]")),
              HasSubstr("ffn_mult"));
  EXPECT_EQ(problem(blocks("[" + good + ", {attention: {no_op: true}, ffn: {ffn_mult: 1e9}}]")),
            "E123: 'ffn_mult' must be above 0, at most 1024");
  EXPECT_EQ(problem(gemma4("attention_k_eq_v: true, num_global_key_value_heads: 3")),
            "E127: 3 key-value heads of some layers do not divide their 8 heads");
  EXPECT_EQ(problem(mimo("hybrid_layer_pattern: 3")),
            "E107: 'hybrid_layer_pattern' must be a list of 0 and 1");
  const testing::Failure cut = failure(mimo("hybrid_layer_pattern: [0, 1]"));
  ASSERT_EQ(cut.all.size(), 1u);
  EXPECT_EQ(cut.all[0].message, "hybrid_layer_pattern names 2 of the 4 layers");
  EXPECT_GT(cut.all[0].column, 60);
  const std::string llama = "model: {preset: llama3-8b, ", rest =
                                                               "}\ncluster: dgx-h100 x 1\n"
                                                               "batch: {global: 8, seq: 4096}\n";
  EXPECT_THAT(problem(llama + "attention_k_eq_v: true" + rest),
              HasSubstr("E127: attention_k_eq_v says nothing"));
  EXPECT_THAT(problem(llama + "value_norm: true" + rest), HasSubstr("E127: value_norm is of"));
  EXPECT_THAT(problem(mimo("hybrid_layer_pattern: [0, 2, 0, 1]")),
              HasSubstr("hybrid_layer_pattern"));
  EXPECT_EQ(problem(mimo("moe_layer_freq: [0, 1]")),
            "E127: moe_layer_freq names 2 of the 4 layers");
  EXPECT_THAT(problem(mimo("moe_layer_freq: [0, 1, x, 1]")), HasSubstr("moe_layer_freq"));
  EXPECT_EQ(problem(gemma4("enable_moe_block: true")), "E126: the model needs num_experts");
  EXPECT_EQ(problem(llama + "enable_moe_block: true" + rest),
            "E130: not supported yet: an MLP beside the experts, each with norms of its own "
            "(enable_moe_block = true)");
}

// A model of three layers.
std::string deepseek4(const std::string& more, const std::string& rest = "") {
  return "model: {model_type: deepseek_v4, num_hidden_layers: 3, compress_ratios: [0, 4, 128, 0]" +
         more + "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n" + rest;
}

TEST(CompressedKeys, AreOfSoManyTokensInEachLayer) {
  const Transformer t = load(deepseek4("")).model;
  EXPECT_EQ(t.compressions, (std::vector<int64_t>{0, 4, 128}));
  EXPECT_EQ(t.streams, 4);
  EXPECT_EQ(t.hashed_layers, 3);
  EXPECT_TRUE(layer_kind(t, 1).indexes);
  EXPECT_FALSE(layer_kind(t, 2).indexes);
  EXPECT_EQ(layer_kind(t, 2).window, 128);
}

// transformers' configuration_deepseek_v4.py: all of 128 tokens, every second from the fourth on
// of 4.
TEST(CompressedKeys, AreThoseOfTheClassWhereNothingIsSaid) {
  const Transformer t =
      load(
          "model: {model_type: deepseek_v4, num_hidden_layers: 6}\ncluster: dgx-h100 x 1\n"
          "batch: {global: 8, seq: 4096}\n")
          .model;
  EXPECT_EQ(t.compressions, (std::vector<int64_t>{128, 128, 128, 4, 128, 4}));
}

// As transformers' class writes its files.
TEST(CompressedKeys, MayBeSaidInWords) {
  const std::string model = "model: {model_type: deepseek_v4, num_hidden_layers: 3, layer_types: ",
                    rest = "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n";
  const Transformer t = load(model +
                             "[sliding_attention, heavily_compressed_attention, "
                             "compressed_sparse_attention], mlp_layer_types: [hash_moe, moe, moe]" +
                             rest)
                            .model;
  EXPECT_EQ(t.compressions, (std::vector<int64_t>{0, 128, 4}));
  EXPECT_EQ(t.hashed_layers, 1);
  EXPECT_EQ(problem(model + "[full_attention, sliding_attention, sliding_attention]" + rest),
            "E130: layers of type 'full_attention' are not supported yet");
  EXPECT_EQ(problem(model + "[sliding_attention]" + rest),
            "E127: layer_types names 1 of the 3 layers");
  EXPECT_THAT(problem(model +
                      "[sliding_attention, sliding_attention, sliding_attention], "
                      "mlp_layer_types: [moe, hash_moe, moe]" +
                      rest),
              HasSubstr("E125: 'mlp_layer_types' cannot have 'hash_moe'"));
}

TEST(CompressedKeys, ThatCannotBeAreRefused) {
  const auto ratios = [](const std::string& list) {
    return problem("model: {model_type: deepseek_v4, num_hidden_layers: 3, compress_ratios: " +
                   list + "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n");
  };
  EXPECT_EQ(ratios("3"), "E107: 'compress_ratios' must be a list, of one for each layer");
  EXPECT_EQ(ratios("[0, 16, 0]"), "E130: not supported yet: compressed keys of 16 tokens");
  EXPECT_EQ(problem(deepseek4(", compress_rates: {compressed_sparse_attention: 8}")),
            "E130: not supported yet: compressed keys of 8 tokens");
  EXPECT_EQ(ratios("[0, 4]"), "E127: compress_ratios names 2 of the 3 layers");
  EXPECT_THAT(ratios("[0, x, 4]"), HasSubstr("compress_ratios"));
  EXPECT_EQ(problem(deepseek4(", num_key_value_heads: 8")),
            "E127: num_key_value_heads = 8: all heads share compressed keys");
  EXPECT_EQ(problem(deepseek4(", o_groups: 7")),
            "E127: o_groups = 7 does not divide num_attention_heads = 64");
  EXPECT_EQ(problem(deepseek4(", kv_lora_rank: 512")),
            "E127: compressed keys are not of latent attention: kv_lora_rank goes without");
  EXPECT_THAT(problem(deepseek4(", use_qk_norm: true")), HasSubstr("E130"));
  EXPECT_THAT(problem(deepseek4(", hc_mult: 0")), HasSubstr("hc_mult"));
  for (const char* streams : {"4", "1"})
    EXPECT_EQ(problem(deepseek4(", num_nextn_predict_layers: 1, hc_mult: " + std::string(streams))),
              "E130: not supported yet: multi-token prediction of models with compressed keys");
  EXPECT_EQ(failure("model: {model_type: deepseek_v4}\ncluster: dgx-h100 x 1\n"
                    "batch: {global: 8, seq: 64}\n")
                .all.front()
                .message,
            "not supported yet: sequences of less than 128 tokens of attention to compressed keys");
  for (const char* key : {"o_lora_rank: 64", "hc_mult: 4", "compress_ratios: [4]", "o_groups: 8",
                          "num_hash_layers: 3", "compress_rates: {sliding_attention: 0}"})
    EXPECT_THAT(problem("model: {preset: llama3-8b, " + std::string(key) +
                        "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n"),
                HasSubstr("E130: not supported yet"));
}

TEST(CompressedKeys, NeedAWindowInEveryLayer) {
  for (const char* key : {"use_sliding_window: false", "max_window_layers: 1",
                          "sliding_window_pattern: 2", "sliding_window_pattern: 1"})
    EXPECT_EQ(problem(deepseek4(", " + std::string(key))),
              "E130: not supported yet: compressed keys in layers without a window")
        << key;
  EXPECT_EQ(load(deepseek4(", max_window_layers: 0")).model.sliding_window, 128);
}

TEST(CompressedKeys, RefuseWhatOtherAttentionIsDescribedBy) {
  for (const char* key : {"indexer_types: [full, full, full]", "index_topk_freq: 2",
                          "index_topk_pattern: FFF", "v_head_dim: 128", "qk_nope_head_dim: 128"}) {
    const std::string text(key);
    EXPECT_EQ(problem(deepseek4(", " + text)), "E127: " + text.substr(0, text.find(':')) +
                                                   " is not of attention to compressed keys");
  }
  EXPECT_EQ(load(deepseek4(", v_head_dim: 512, qk_nope_head_dim: 448")).model.compressions.size(),
            3u);
  EXPECT_EQ(problem(deepseek4(", compress_rates: 3")),
            "E107: 'compress_rates' must be a mapping from types of layers to numbers");
  EXPECT_EQ(problem(deepseek4(", compress_rates: {foo: 8}")),
            "E125: 'compress_rates' cannot have 'foo'");
  EXPECT_EQ(problem(deepseek4(", attention_sinks: false")),
            "E130: not supported yet: compressed keys without attention sinks");
}

// What an import says of a file, the scenario that names the file says, too.
TEST(CompressedKeys, OfAFileLosePredictionModulesAloud) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"model_type": "deepseek_v4", "num_hidden_layers": 3,
    "num_nextn_predict_layers": 1})");
  const auto warnings = [&](const std::string& more) {
    return load_scenario(folder.write("run.yaml", "model: {hf: config.json" + more +
                                                      "}\ncluster: dgx-h100 x 1\n"
                                                      "batch: {global: 8, seq: 4096}\n"))
        .warnings;
  };
  EXPECT_THAT(warnings(""), ::testing::Contains(HasSubstr("num_nextn_predict_layers")));
  EXPECT_THAT(warnings(", num_nextn_predict_layers: 0"), ::testing::IsEmpty());
}

TEST(CompressedKeys, AreTrainedWithoutWhatMegatronCoreRefuses) {
  const auto warnings = [](const std::string& rest) { return load(deepseek4("", rest)).warnings; };
  EXPECT_THAT(warnings(""), ::testing::IsEmpty());
  EXPECT_THAT(warnings("recompute: full\n"),
              ::testing::Contains(HasSubstr("Megatron-Core refuses several residual streams")));
  EXPECT_THAT(load("model: {model_type: deepseek_v4, num_hidden_layers: 4}\n"
                   "cluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\nparallel: {pp: 2}\n")
                  .warnings,
              ::testing::Contains(HasSubstr("Megatron-Core refuses several residual streams")));
}

TEST(CompressedKeys, AreWholeOnEveryRank) {
  EXPECT_THAT(problem(deepseek4("", "parallel: {tp: 2}\n")),
              HasSubstr("tp = 2 does not divide the one vector a token"));
  for (const auto& [rest, of] : {std::pair{"parallel: {cp: 2}\n", "sequences split over cp"},
                                 {"mode: prefill\n", "a forward alone"},
                                 {"mode: decode\n", "a forward alone"},
                                 {"recompute: per-op\n", "recomputation per operator"},
                                 {"kernels: {attention: unfused}\n", "unfused attention"},
                                 {"kernels: {dropout: {hidden: 0.1}}\n", "dropout"}}) {
    std::string messages;
    for (const auto& d : failure(deepseek4("", rest)).all) messages += d.message + '\n';
    EXPECT_THAT(messages, HasSubstr("not supported yet: " + std::string(of) +
                                    " of attention to compressed keys\n"))
        << rest;
  }
  EXPECT_THAT(
      failure(deepseek4("", "parallel: {pp: 2, split: products}\nschedule: {kind: seq1f1b}\n"))
          .codes,
      HasSubstr("E130"));
}

TEST(Experts, OfGemma4StandBesideTheMlp) {
  const std::string sizes =
      ", num_experts: 16, top_k_experts: 2, moe_intermediate_size: 512, intermediate_size: 1024";
  const Transformer with = load(gemma4("enable_moe_block: true" + sizes)).model;
  EXPECT_TRUE(with.expert_norms);
  EXPECT_EQ(with.experts, 16);
  EXPECT_EQ(with.shared_ffn, 1024);
  const Transformer without = load(gemma4("enable_moe_block: false" + sizes)).model;
  EXPECT_FALSE(without.expert_norms);
  EXPECT_EQ(without.experts, 0);
  EXPECT_EQ(without.ffn, 1024);
}

TEST(Experts, OfOtherFamiliesStayWithoutAnMlpBesideThem) {
  EXPECT_EQ(load("model: {preset: qwen3-30b-a3b, enable_moe_block: false}\ncluster: dgx-h100 x 1\n"
                 "batch: {global: 8, seq: 4096}\n")
                .model.experts,
            128);
}

TEST(Experts, BesideAnMlpHaveNoLatentAndNoOtherSharedOnes) {
  const std::string sizes =
      "enable_moe_block: true, num_experts: 16, top_k_experts: 2, moe_intermediate_size: 512";
  EXPECT_EQ(problem(gemma4(sizes + ", moe_latent_size: 256")),
            "E130: not supported yet: moe_latent_size beside enable_moe_block");
  EXPECT_EQ(problem(gemma4(sizes + ", shared_expert_gate: true")),
            "E130: not supported yet: shared_expert_gate beside enable_moe_block");
  EXPECT_EQ(problem(gemma4(sizes + ", n_shared_experts: 2")),
            "E130: not supported yet: n_shared_experts beside enable_moe_block");
  EXPECT_EQ(problem(gemma4(sizes + ", shared_expert_intermediate_size: 512")),
            "E130: not supported yet: shared_expert_intermediate_size beside enable_moe_block");
  EXPECT_EQ(load(gemma4(sizes + ", n_shared_experts: 0")).model.shared_ffn, 9216);
}

TEST(Mixers, AreNamedByWordsAnIntervalOrAPattern) {
  using enum Mixer;
  const auto mixers = [](const std::string& model, const std::string& more) {
    return load(text_of(model, more)).model.mixers;
  };
  const std::vector<Mixer> every_fourth{gated_delta_net, gated_delta_net, gated_delta_net,
                                        attention,       gated_delta_net, gated_delta_net,
                                        gated_delta_net, attention};
  EXPECT_EQ(mixers(kDelta, ""), every_fourth);
  EXPECT_EQ(mixers(kDelta, ", full_attention_interval: 7").at(6), attention);
  EXPECT_EQ(mixers(kHybrid, ", hybrid_override_pattern: 'M*-E'"),
            (std::vector<Mixer>{mamba2, attention, none, none}));
  EXPECT_EQ(mixers(kHybrid, ", layers_block_type: [mamba, attention, mlp, moe]"),
            (std::vector<Mixer>{mamba2, attention, none, none}));
}

TEST(Mixers, OfAPatternHaveExpertsWhereItSays) {
  const Transformer with = load(text_of(kHybrid, ", hybrid_override_pattern: 'ME-E'")).model;
  EXPECT_EQ(with.layers, 4);
  EXPECT_EQ(with.expert_layers, (std::vector<uint8_t>{0, 1, 0, 1}));
  const Transformer without = load(text_of(kHybrid, ", hybrid_override_pattern: 'M-*-'")).model;
  EXPECT_EQ(without.experts, 0);
}

TEST(Mixers, WithWrongPatternsAreRefused) {
  EXPECT_EQ(problem(text_of(kHybrid, ", hybrid_override_pattern: 'M-', num_hidden_layers: 3")),
            "E127: hybrid_override_pattern names 2 of the 3 layers");
  EXPECT_EQ(problem(text_of(kHybrid, ", hybrid_override_pattern: 'MX'")),
            "E130: layers of type 'X' are not supported yet");
  EXPECT_EQ(problem(text_of(kDelta, ", layer_types: [linear_attention]")),
            "E127: layer_types names 1 of the 8 layers");
  EXPECT_THAT(problem(text_of(kDelta, ", layer_types: linear_attention")), HasSubstr("E107"));
  EXPECT_EQ(problem("model: {preset: llama3.2-1b, layer_types: [linear_attention]}\n"
                    "cluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}"),
            "E130: not supported yet: linear attention (layers of type 'linear_attention')");
  EXPECT_EQ(
      problem(text_of(kHybrid,
                      ", hybrid_override_pattern: 'ME', num_nextn_predict_layers: 1, "
                      "mtp_hybrid_override_pattern: 'ME'")),
      "E130: not supported yet: prediction modules of other layers than attention and experts");
}

TEST(Mixers, WithListsOfOtherThingsAreRefused) {
  EXPECT_THAT(problem(text_of(kChosen, ", mlp_layer_types: [dense, sparse, x, sparse]")),
              HasSubstr("E125: 'mlp_layer_types' cannot have 'x'"));
  EXPECT_THAT(problem(text_of(kChosen, ", mlp_layer_types: [dense]")), HasSubstr("E127"));
  EXPECT_THAT(problem("model: {model_type: bamba, attn_layer_indices: 3}\ncluster: dgx-h100 x 1\n"
                      "batch: {global: 8, seq: 4096}"),
              HasSubstr("E107"));
  EXPECT_EQ(
      problem(text_of(kHybrid, ", hybrid_override_pattern: '" + std::string(100'001, 'M') + "'")),
      "E123: more than 100000 layers are named");
}

TEST(Mixers, WithWrongSizesAreRefused) {
  EXPECT_THAT(problem(text_of(kDelta, ", linear_key_head_dim: 0")), HasSubstr("E121"));
  EXPECT_THAT(problem(text_of(kDelta, ", linear_chunk_size: -1")), HasSubstr("E1"));
  EXPECT_EQ(problem(text_of(kDelta, ", linear_num_key_heads: 3")),
            "E127: linear_num_key_heads = 3 does not divide linear_num_value_heads = 16");
  EXPECT_THAT(problem(text_of(kDelta, ", linear_mixer: rwkv")), HasSubstr("E125"));
  EXPECT_EQ(problem(text_of(kChosen, ", q_lora_rank: 0")),
            "E127: an indexer reads the latent of queries: index_topk needs q_lora_rank");
  EXPECT_EQ(problem(text_of(kChosen, ", indexer_types: [full, shared]")),
            "E127: indexer_types names 2 of the 4 layers");
  EXPECT_EQ(problem(text_of(kChosen, ", indexer_types: [shared, full, full, full]")),
            "E127: the first layer has no choice of keys to share");
}

TEST(Mixers, AreSplitOverTpByHeadsAndGroups) {
  EXPECT_EQ(failure(text_of(kDelta, "", "parallel: {tp: 8}")).codes, "");
  EXPECT_EQ(problem(text_of(kDelta, ", linear_num_key_heads: 2", "parallel: {tp: 4}")),
            "E210: tp = 4 does not divide linear_num_key_heads = 2");
}

TEST(Mixers, RefuseWhatDoesNotGoWithThem) {
  for (const std::string& model : {text_of(kDelta), text_of(kChosen)}) {
    for (const char* rest : {"parallel: {cp: 2}", "mode: prefill", "recompute: per-op"})
      EXPECT_THAT(failure(model + rest).codes, HasSubstr("E130")) << model << rest;
    EXPECT_THAT(failure(model + "parallel: {pp: 2}\nschedule: {kind: seq1f1b}").codes,
                HasSubstr("E130"));
  }
  EXPECT_THAT(problem(text_of(kChosen, "", "kernels: {attention: unfused}")),
              HasSubstr("not supported yet: unfused attention"));
}

// Of a teacher, too.
TEST(Mixers, RefuseWhatDoesNotGoWithThemInATeacher) {
  const std::string student =
      "model: llama3.2-1b\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n"
      "distill: {teacher: {model_type: qwen3_5_text, vocab_size: 128256, hidden_size: 1024, "
      "num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: 8}}\n";
  EXPECT_EQ(failure(student).codes, "");
  for (const char* rest :
       {"parallel: {cp: 2}", "recompute: per-op", "parallel: {pp: 2}\nschedule: {kind: seq1f1b}"})
    EXPECT_THAT(failure(student + rest).codes, HasSubstr("E130")) << rest;
}

// One layer in the middle, or many whose parameters together do not fit 64 bits.
TEST(Mixers, BeyondCountingAreRefused) {
  const std::string huge =
      "model: {model_type: nemotron_h, hidden_size: 1048576, num_attention_heads: 8, "
      "num_key_value_heads: 8, head_dim: 128, mamba_num_heads: 65536, mamba_head_dim: 65536, "
      "n_groups: 65536, ssm_state_size: 65536, hybrid_override_pattern: '";
  for (const std::string& pattern : {std::string("*M*"), std::string(1000, 'M')})
    EXPECT_EQ(problem(text_of(huge + pattern + "'")),
              "E123: the model has more than 10^15 parameters");
  EXPECT_EQ(failure("model: {model_type: nemotron_h, mamba_num_heads: 8192, mamba_head_dim: 64, "
                    "ssm_state_size: 65536, hybrid_override_pattern: 'M*M-'}\n"
                    "cluster: dgx-h100 x 1\nbatch: {global: 8, seq: 8192}")
                .codes,
            "E123");
  EXPECT_EQ(failure("model: {preset: llama3-8b, num_hidden_layers: 1, intermediate_size: 16777216}"
                    "\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 131072}")
                .codes,
            "E123");
}

TEST(Mixers, WordsOfLayersMatterOnlyWhereLayersDiffer) {
  const auto llama = [](const std::string& more) {
    return "model: {preset: llama3.2-1b, num_hidden_layers: 2, " + more +
           "}\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}";
  };
  for (const char* types : {"[chunked_attention, full_attention]", "[odd, full_attention]"})
    EXPECT_TRUE(load(llama("layer_types: " + std::string(types))).model.windows.empty());
  EXPECT_EQ(load(llama("sliding_window: 64, layer_types: [chunked_attention, sliding_attention]"))
                .model.windows,
            (std::vector<int64_t>{0, 64}));
  EXPECT_EQ(problem(llama("sliding_window: 64, layer_types: [odd, full_attention]")),
            "E130: layers of type 'odd' are not supported yet");
}

TEST(Mixers, ShareIndexersByAPattern) {
  const auto indexers = [](const std::string& more) {
    return load(text_of(kChosen, more)).model.indexers;
  };
  EXPECT_EQ(indexers(", index_topk_pattern: FSFS, index_topk_freq: 4"),
            (std::vector<uint8_t>{1, 0, 1, 0}));
  EXPECT_TRUE(indexers(", index_topk_pattern: null").empty());
  for (const char* more :
       {", index_topk_pattern: SFFF", ", index_topk_freq: 4, index_skip_topk_offset: 0"})
    EXPECT_EQ(problem(text_of(kChosen, more)),
              "E127: the first layer has no choice of keys to share");
  EXPECT_THAT(problem(text_of(kChosen, ", index_topk_pattern: FSXS")), HasSubstr("E125"));
  EXPECT_EQ(problem(text_of(kChosen, ", index_topk_pattern: FS")),
            "E127: index_topk_pattern names 2 of the 4 layers");
  EXPECT_EQ(problem(text_of(kChosen, ", kv_lora_rank: 0")),
            "E127: an indexer chooses keys of latent attention: index_topk needs kv_lora_rank");
}

TEST(Mixers, OfGraniteAreMambaUnlessItSaysOtherwise) {
  const std::string granite =
      "model: {model_type: granitemoehybrid, num_hidden_layers: 2, hidden_size: 2048, "
      "num_attention_heads: 16, mamba_n_heads: 64";
  const Transformer none = load(text_of(granite)).model;
  EXPECT_EQ(none.mixers, (std::vector<Mixer>{Mixer::mamba2, Mixer::mamba2}));
  EXPECT_EQ(none.recurrence.head_dim, 64);
  EXPECT_EQ(load(text_of(granite, ", layers_block_type: [mamba, attention]")).model.mixers,
            (std::vector<Mixer>{Mixer::mamba2, Mixer::attention}));
  EXPECT_EQ(load(text_of(granite, ", mamba_d_head: auto, mamba_expand: 4")).model.recurrence,
            load(text_of(granite, ", mamba_d_head: 128")).model.recurrence);
  EXPECT_EQ(problem("model: {model_type: bamba, mamba_n_heads: 127}\ncluster: dgx-h100 x 1\n"
                    "batch: {global: 8, seq: 4096}"),
            "E127: linear_num_value_heads = 127 does not divide mamba_expand * hidden_size = 8192");
}

TEST(Mixers, WithListsThatDoNotFitAreRefused) {
  EXPECT_THAT(problem("model: {model_type: nemotron_h, n_routed_experts: 0, "
                      "hybrid_override_pattern: 'ME'}\ncluster: dgx-h100 x 1\n"
                      "batch: {global: 8, seq: 4096}"),
              HasSubstr("E127: layers are named that have experts"));
  EXPECT_THAT(problem("model: {model_type: bamba, attn_layer_indices: [32]}\n"
                      "cluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}"),
              HasSubstr("E127: attn_layer_indices has layer 32 of 32"));
  for (const char* more :
       {"mtp_layers_block_type: attention", "mtp_hybrid_override_pattern: ['*', E]"})
    EXPECT_THAT(
        problem(text_of(kHybrid, ", hybrid_override_pattern: 'ME', num_nextn_predict_layers: 1, " +
                                     std::string(more))),
        HasSubstr("E107"));
}

TEST(Mixers, GatesHaveABiasWhereQueriesHaveOne) {
  const auto count = [](const std::string& more) {
    return parameters(load(text_of(kDelta, more)).model);
  };
  const std::string bias = ", attention_bias: true", ungated = ", attn_output_gate: false";
  // Two layers attend, with 8 heads of 128.
  EXPECT_EQ(count(bias) - count("") - (count(bias + ungated) - count(ungated)), 2 * 8 * 128);
}

// A recurrence takes as long for twice the tokens in one sequence as for two sequences.
TEST(Mixers, OfARecurrenceCostNoMoreInLongSequences) {
  const auto flops = [](const std::string& batch) {
    const Scenario s = load(std::string(kDelta) +
                            ", full_attention_interval: 100}\n"
                            "cluster: dgx-h100 x 1\nparallel: {dp: 8}\nbatch: " +
                            batch);
    return forward_matmul_flops(s.model, static_cast<double>(s.plan.global_batch),
                                static_cast<double>(s.plan.seq), true);
  };
  EXPECT_DOUBLE_EQ(flops("{global: 16, seq: 4096}"), flops("{global: 8, seq: 8192}"));
}

TEST(Mixers, AreInTheIdentityOfAScenario) {
  const auto hash = [](const std::string& more) { return load(text_of(kHybrid, more)).hash; };
  EXPECT_NE(hash(", hybrid_override_pattern: 'M-*-'"), hash(", hybrid_override_pattern: '*-M-'"));
  EXPECT_NE(hash(", hybrid_override_pattern: 'M-*-'"),
            hash(", hybrid_override_pattern: 'M-*-', ssm_state_size: 64"));
}

TEST(Mixers, AreExplained) {
  EXPECT_EQ(testing::setting(load(text_of(kHybrid, ", hybrid_override_pattern: 'M-*-M-'")),
                             "model.mixers"),
            "2 x mamba2, 1 x attention, 3 x none (derived: of the layers' types)");
}

}  // namespace
}  // namespace stepcast::scenario_mixers_test
