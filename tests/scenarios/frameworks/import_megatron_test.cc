// SPDX-License-Identifier: Apache-2.0
// Megatron's arguments: what each row of the table becomes.
#include "scenarios/frameworks/megatron/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::import_megatron_test {
namespace {

using ::testing::ElementsAre;
using testing::expect_beginnings_read_or_refused;
using testing::Failure;
using ::testing::HasSubstr;
using testing::import_failure;
using testing::import_sample;
using testing::imported;
using ::testing::Not;
using testing::notes;
using testing::request;
using testing::unknown;
using testing::value_of;

const std::string kSmall =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
    "--micro-batch-size 2 --global-batch-size 64 --vocab-size 50257 --bf16 --attention-dropout 0 "
    "--hidden-dropout 0 ";
const std::string kExperts = "--num-experts 8 --moe-ffn-hidden-size 512 ";

ImportedRun with(const std::string& arguments) {
  return imported("megatron-args", "pretrain_gpt.py " + kSmall + arguments);
}

// What each argument sets: INTERFACE's rows, one after the other.
struct Row {
  const char* arguments;
  const char* path;
  const char* value;
};

class MegatronArgument : public ::testing::TestWithParam<Row> {};

TEST_P(MegatronArgument, BecomesAValueOfTheScenario) {
  const Row& row = GetParam();
  ImportRequest r = request("megatron-args", "train.py " + kSmall + row.arguments);
  r.cluster = {"dgx-b200", "", false};  // has rates of all formats
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, row.path), row.value) << run.scenario;
  EXPECT_EQ(unknown(run), "");
}

INSTANTIATE_TEST_SUITE_P(
    Model, MegatronArgument,
    ::testing::Values(
        Row{"", "model.num_hidden_layers", "24"}, Row{"", "model.hidden_size", "1024"},
        Row{"", "model.num_attention_heads", "16"},
        Row{"--ffn-hidden-size 3000", "model.intermediate_size", "3000"},
        Row{"", "model.intermediate_size", "4096"},          // 4 h
        Row{"--swiglu", "model.intermediate_size", "2688"},  // 8/3 h in multiples of 64
        Row{"--kv-channels 128", "model.head_dim", "128"},
        Row{"", "model.num_key_value_heads", "16"},
        Row{"--num-query-groups 4", "model.num_key_value_heads", "16"},
        Row{"--group-query-attention --num-query-groups 4", "model.num_key_value_heads", "4"},
        Row{"--group-query-attention", "model.num_key_value_heads", "1"},
        Row{"", "model.gated_mlp", "false"}, Row{"--swiglu", "model.gated_mlp", "true"},
        Row{"", "model.hidden_act", "gelu"}, Row{"--swiglu", "model.hidden_act", "silu"},
        Row{"--squared-relu", "model.hidden_act", "relu2"},
        Row{"--quick-geglu", "model.hidden_act", "quick_gelu"},
        Row{"", "model.normalization", "LayerNorm"},
        Row{"--normalization RMSNorm", "model.normalization", "RMSNorm"},
        Row{"", "model.tie_word_embeddings", "true"},
        Row{"--untie-embeddings-and-output-weights", "model.tie_word_embeddings", "false"},
        Row{"", "model.attention_bias", "true"}, Row{"", "model.mlp_bias", "true"},
        Row{"--disable-bias-linear", "model.attention_bias", "false"},
        Row{"--disable-bias-linear", "model.mlp_bias", "false"},
        Row{"--add-qkv-bias", "model.qkv_bias", "true"},
        Row{"--qk-layernorm", "model.use_qk_norm", "true"},
        Row{"--qk-l2-norm", "model.use_qk_norm", "true"},
        Row{"", "model.position_embedding_type", "learned_absolute"},
        Row{"--position-embedding-type rope", "model.position_embedding_type", "rope"},
        Row{"--use-rotary-position-embeddings", "model.position_embedding_type", "rope"},
        Row{"--no-position-embedding", "model.position_embedding_type", "none"},
        Row{"--max-position-embeddings 4096", "model.max_position_embeddings", "4096"},
        Row{"", "model.max_position_embeddings", "2048"},  // of --seq-length
        Row{"", "model.vocab_size", "50257"},
        Row{"--padded-vocab-size 50304", "model.vocab_size", "50304"},
        Row{"--tokenizer-type NullTokenizer", "model.vocab_size", "50258"},
        Row{"--make-vocab-size-divisible-by 3232 --tensor-model-parallel-size 2",
            "model.vocab_size", "51712"},
        Row{"--window-size 127,0", "model.sliding_window", "128"},
        Row{"--window-size 127,0 --window-attn-skip-freq 12", "model.layer_types",
            "[sliding_attention, sliding_attention, sliding_attention, sliding_attention, "
            "sliding_attention, sliding_attention, sliding_attention, sliding_attention, "
            "sliding_attention, sliding_attention, sliding_attention, full_attention, "
            "sliding_attention, sliding_attention, sliding_attention, sliding_attention, "
            "sliding_attention, sliding_attention, sliding_attention, sliding_attention, "
            "sliding_attention, sliding_attention, sliding_attention, full_attention]"},
        Row{"--softmax-type learnable", "model.attention_sinks", "true"},
        Row{"--decoder-num-layers 12", "model.num_decoder_layers", "12"},
        Row{"--decoder-num-layers 12", "model.num_encoder_layers", "24"},
        Row{"--decoder-num-layers 12", "model.num_hidden_layers", ""},
        Row{"--decoder-num-layers 24 --decoder-seq-length 128", "batch.encoder_seq", "2048"},
        Row{"--decoder-num-layers 24 --decoder-seq-length 128", "batch.seq", "128"},
        Row{"--position-embedding-type relative", "model.relative_attention_num_buckets", "32"},
        Row{"--relative-attention-num-buckets 32", "model.relative_attention_num_buckets", ""}));

INSTANTIATE_TEST_SUITE_P(
    LatentAttention, MegatronArgument,
    ::testing::Values(
        Row{"--multi-latent-attention", "model.kv_lora_rank", "32"},
        Row{"--multi-latent-attention", "model.q_lora_rank", "0"},
        Row{"--multi-latent-attention", "model.qk_nope_head_dim", "128"},
        Row{"--multi-latent-attention", "model.qk_rope_head_dim", "64"},
        Row{"--multi-latent-attention", "model.v_head_dim", "128"},
        Row{"--multi-latent-attention --q-lora-rank 1536", "model.q_lora_rank", "1536"},
        Row{"--multi-latent-attention --kv-lora-rank 512", "model.kv_lora_rank", "512"},
        Row{"--multi-latent-attention --qk-head-dim 96", "model.qk_nope_head_dim", "96"},
        Row{"--multi-latent-attention --qk-pos-emb-head-dim 32", "model.qk_rope_head_dim", "32"},
        Row{"--multi-latent-attention --v-head-dim 96", "model.v_head_dim", "96"},
        Row{"--kv-lora-rank 512", "model.kv_lora_rank", ""},
        Row{"--multi-latent-attention --qk-layernorm", "model.use_qk_norm", ""},
        Row{"--mtp-num-layers 1", "model.num_nextn_predict_layers", "1"}));

INSTANTIATE_TEST_SUITE_P(
    Experts, MegatronArgument,
    ::testing::Values(
        Row{"--num-experts 8", "model.num_experts", "8"},
        Row{"--num-experts 8", "model.moe_intermediate_size", "4096"},
        Row{"--num-experts 8", "model.num_experts_per_tok", "2"},
        Row{"--num-experts 8 --moe-router-topk 4", "model.num_experts_per_tok", "4"},
        Row{"--num-experts 8 --moe-ffn-hidden-size 512", "model.moe_intermediate_size", "512"},
        Row{"--num-experts 8 --moe-shared-expert-intermediate-size 256",
            "model.shared_expert_intermediate_size", "256"},
        Row{"--num-experts 8 --moe-shared-expert-gate", "model.shared_expert_gate", "true"},
        Row{"--num-experts 8 --moe-router-num-groups 4", "model.n_group", "4"},
        Row{"--num-experts 8 --moe-router-group-topk 2", "model.topk_group", "2"},
        Row{"--num-experts 8 --moe-router-enable-expert-bias", "model.router_bias", "true"},
        Row{"--num-experts 8 --moe-layer-freq '([0]*3+[1]*21)'", "model.first_k_dense_replace",
            "3"},
        Row{"--num-experts 8 --moe-layer-freq \"[1]*2+[0]*2+[1]*20\"", "model.mlp_only_layers",
            "[2, 3]"},
        Row{"--num-experts 8 --moe-layer-freq 2", "model.mlp_only_layers",
            "[1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23]"},
        Row{"--num-experts 8 --moe-layer-freq 1", "model.mlp_only_layers", ""},
        Row{"--num-experts 8", "moe.dispatcher", "allgather"},
        Row{"--num-experts 8 --moe-token-dispatcher-type alltoall", "moe.dispatcher", "alltoall"},
        Row{"--num-experts 8 --moe-token-dispatcher-type flex", "moe.dispatcher", "deepep"},
        Row{"--num-experts 8 --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend "
            "hybridep",
            "moe.dispatcher", "deepep"},
        Row{"--num-experts 8 --moe-token-dispatcher-type flex --moe-enable-deepep",
            "moe.dispatcher", "deepep"},
        Row{"--num-experts 8 --moe-expert-capacity-factor 1.5", "moe.capacity_factor", "1.5"},
        Row{"--num-experts 8 --moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity",
            "moe.pad_to_capacity", "true"},
        Row{"--num-experts 8", "moe.grouped_gemm", "false"},
        Row{"--num-experts 8 --moe-grouped-gemm", "moe.grouped_gemm", "true"},
        Row{"--num-experts 8 --moe-permute-fusion", "moe.permute_fusion", "true"},
        Row{"--num-experts 8 --moe-shared-expert-overlap", "moe.shared_overlap", "true"},
        Row{"--num-experts 8 --moe-router-force-load-balancing", "moe.routing", "balanced"},
        Row{"--num-experts 8 --overlap-moe-expert-parallel-comm", "overlap.ep", "true"}));

INSTANTIATE_TEST_SUITE_P(
    Layout, MegatronArgument,
    ::testing::Values(
        Row{"--tensor-model-parallel-size 4", "parallel.tp", "4"},
        Row{"--pipeline-model-parallel-size 4", "parallel.pp", "4"},
        Row{"--context-parallel-size 2", "parallel.cp", "2"},
        Row{"--num-experts 8 --expert-model-parallel-size 8", "parallel.ep", "8"},
        Row{"--num-experts 8 --expert-model-parallel-size 8 --tensor-model-parallel-size 2 "
            "--sequence-parallel",
            "parallel.etp", "2"},
        Row{"--num-experts 8 --expert-tensor-parallel-size 1 --tensor-model-parallel-size 2 "
            "--sequence-parallel",
            "parallel.etp", "1"},
        Row{"--tensor-model-parallel-size 4", "parallel.sp", "false"},
        Row{"--tensor-model-parallel-size 4 --sequence-parallel", "parallel.sp", "true"},
        Row{"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
            "parallel.vpp", "2"},
        Row{"--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 3",
            "parallel.vpp", "3"},
        Row{"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*11|t*13L'",
            "parallel.layout", "\"Et*11|t*13L\""},
        Row{"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*11\\|t*13L'",
            "parallel.layout", "\"Et*11|t*13L\""},
        Row{"--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 3",
            "parallel.layout", "\"Et*3|t*7|t*7|t*7L\""},
        Row{"--pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 3",
            "parallel.layout", "\"Et*7|t*7|t*7|t*3L\""},
        Row{"--pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
            "--account-for-loss-in-pipeline-split",
            "parallel.layout", "\"Et*12|t*12L\""},
        Row{"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3 "
            "--microbatch-group-size-per-virtual-pipeline-stage 8",
            "schedule.group", "8"},
        Row{"--pipeline-model-parallel-size 4", "schedule.kind", "\"1f1b\""},
        Row{"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
            "schedule.kind", "interleaved"},
        Row{"--use-tp-pp-dp-mapping", "parallel.order", "tp-cp-pp-dp"},
        Row{"--context-parallel-size 2 --cp-comm-type a2a", "parallel.cp_comm", "a2a"},
        Row{"--nnodes 4 --nproc_per_node 8", "cluster.nodes", "4"},
        Row{"--nproc_per_node 4", "cluster.node", "{gpus: 4}"}));

INSTANTIATE_TEST_SUITE_P(
    Run, MegatronArgument,
    ::testing::Values(
        Row{"", "batch.micro", "2"}, Row{"", "batch.global", "64"}, Row{"", "batch.seq", "2048"},
        Row{"--use-distributed-optimizer", "parallel.zero", "1"},
        Row{"--use-distributed-optimizer --num-distributed-optimizer-instances 2",
            "parallel.dp_replicate", "2"},
        Row{"--use-megatron-fsdp", "parallel.zero", "3"},
        Row{"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "parallel.zero",
            "2"},
        Row{"--use-torch-fsdp2", "parallel.zero", "3"},
        Row{"--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", "parallel.zero", "3"},
        Row{"--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward",
            "parallel.reshard_after_forward", "false"},
        Row{"--use-megatron-fsdp", "parallel.fsdp", "megatron"},
        Row{"--optimizer adam", "optimizer.kind", "adam"},
        Row{"--optimizer dist_muon", "optimizer.kind", "muon"},
        Row{"--clip-grad 0.0", "optimizer.clip", "false"},
        Row{"--clip-grad 1.0", "optimizer.clip", ""},
        Row{"--optimizer-cpu-offload", "offload.optimizer", "1"},
        Row{"--optimizer-cpu-offload --optimizer-offload-fraction 0.5", "offload.optimizer", "0.5"},
        Row{"--overlap-grad-reduce", "overlap.dp_grad", "true"},
        Row{"--overlap-param-gather", "overlap.dp_param", "true"},
        Row{"--ddp-bucket-size 1000", "overlap.bucket", "1000"},
        Row{"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
            "overlap.pp_p2p", "true"},
        Row{"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3 "
            "--no-overlap-p2p-communication",
            "overlap.pp_p2p", "false"},
        Row{"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3 "
            "--overlap-p2p-communication-warmup-flush",
            "schedule.p2p", "megatron-overlap-flush"},
        Row{"--recompute-activations", "recompute.granularity", "selective"},
        Row{"--recompute-granularity full --recompute-method block --recompute-num-layers 2",
            "recompute.method", "block"},
        Row{"--recompute-granularity full --recompute-method block --recompute-num-layers 2",
            "recompute.layers", "2"},
        Row{"--recompute-granularity selective --recompute-modules moe_act layernorm",
            "recompute.modules", "[moe_act, layernorm]"},
        Row{"--cpu-offloading-num-layers 3", "offload.activation_layers", "3"},
        Row{"", "precision.preset", "bf16-mixed"},
        Row{"--grad-reduce-in-bf16", "precision.reduce", "bf16"},
        Row{"--fp8-format hybrid", "precision.preset", "fp8-delayed"},
        Row{"--fp8-format hybrid --fp8-recipe tensorwise", "precision.preset", "fp8-tensorwise"},
        Row{"--fp8-format e4m3 --fp8-recipe blockwise", "precision.preset", "fp8-blockwise"},
        Row{"--fp8-format e4m3 --fp8-recipe mxfp8", "precision.preset", "mxfp8"},
        Row{"--fp4-format e2m1", "precision.preset", "nvfp4"},
        Row{"--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
            "precision.moments", "bf16"},
        Row{"--use-precision-aware-optimizer --main-grads-dtype bf16", "precision.grads", "bf16"},
        Row{"--attention-backend unfused", "kernels.attention", "unfused"},
        Row{"--attention-backend fused", "kernels.attention", "flash"},
        Row{"--transformer-impl local", "kernels.attention", "unfused"},
        Row{"--transformer-impl local --use-flash-attn", "kernels.attention", "flash"},
        Row{"--attention-dropout 0.1", "kernels.dropout", "{attention: 0.1, hidden: 0}"},
        Row{"--no-gradient-accumulation-fusion", "kernels.gradient_accumulation_fusion", "false"},
        Row{"--no-bias-gelu-fusion", "kernels.fused_activation", "false"},
        Row{"--swiglu --no-bias-swiglu-fusion", "kernels.fused_activation", "false"},
        Row{"--no-bias-dropout-fusion", "kernels.fused_bias_dropout_add", "false"},
        Row{"--no-masked-softmax-fusion", "kernels.fused_softmax", "false"},
        Row{"--cross-entropy-loss-fusion", "kernels.fused_cross_entropy", "true"},
        Row{"--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", "kernels.loss",
            "in-place"},
        Row{"--save ckpt --save-interval 500 --async-save", "job.checkpoint",
            "{every: 500 steps, mode: async}"},
        Row{"--non-persistent-save-interval 50 --non-persistent-ckpt-type local", "job.checkpoint",
            "{memory_copies: 1, memory_every: 50 steps}"}));

// --- layers of one branch

const std::string kHybrid =
    "--hidden-size 1024 --num-attention-heads 16 --seq-length 2048 --position-embedding-type none "
    "--micro-batch-size 2 --global-batch-size 64 --vocab-size 50257 --bf16 ";

ImportedRun hybrid(const std::string& arguments) {
  return imported("megatron-args", "pretrain_mamba.py " + kHybrid + arguments);
}

Failure hybrid_failure(const std::string& arguments) {
  return import_failure("megatron-args", "pretrain_mamba.py " + kHybrid + arguments);
}

// The corpus has the same model as a config.json.
TEST(ImportMegatronHybrid, HasTheParametersOfTheConfigJsonOfTheSameModel) {
  const ImportedRun run = imported(
      "megatron-args",
      "pretrain_mamba.py --num-layers 7 --hidden-size 2688 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 2 --kv-channels 128 --ffn-hidden-size 1856 "
      "--hybrid-layer-pattern MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME "
      "--mamba-num-heads 64 --num-experts 128 --moe-router-topk 6 --moe-router-enable-expert-bias "
      "--moe-shared-expert-intermediate-size 3712 --squared-relu --disable-bias-linear "
      "--normalization RMSNorm --untie-embeddings-and-output-weights --seq-length 4096 "
      "--position-embedding-type none --vocab-size 131072 --bf16 --micro-batch-size 1 "
      "--global-batch-size 8 --spec megatron.core.models.hybrid.hybrid_layer_specs "
      "hybrid_stack_spec --nproc_per_node 8");
  EXPECT_EQ(run.parameters, 31'577'940'288);
  EXPECT_EQ(value_of(run, "model.num_hidden_layers"), "52");  // the pattern counts
  EXPECT_EQ(unknown(run), "");
}

TEST(ImportMegatronHybrid, APatternSaysTheStagesAndThePredictionModules) {
  const ImportedRun run =
      hybrid("--hybrid-layer-pattern 'M-M*-|M-M|M-M-|M*-/*-/*-' --pipeline-model-parallel-size 2");
  EXPECT_EQ(value_of(run, "model.hybrid_override_pattern"), "\"M-M*-M-MM-M-M*-\"");
  EXPECT_EQ(value_of(run, "parallel.layout"), "\"Et*5|t*3|t*4|t*3L\"");
  EXPECT_EQ(value_of(run, "schedule.kind"), "interleaved");
  EXPECT_EQ(value_of(run, "model.num_nextn_predict_layers"), "2");
  EXPECT_EQ(value_of(run, "model.mtp_hybrid_override_pattern"), "\"*-\"");
  EXPECT_EQ(value_of(run, "model.mamba_num_heads"), "32");  // 2 x 1024 / 64
}

// The older names: the pattern of the 800M model of Megatron-LM's examples, which newer versions
// write out.
TEST(ImportMegatronHybrid, SharesOfLayersAreSpreadAsMegatronDoes) {
  const std::string layers = "--num-layers 48 --is-hybrid-model ";
  EXPECT_EQ(value_of(hybrid(layers + "--hybrid-attention-ratio 0.08 --hybrid-mlp-ratio 0.5"),
                     "model.hybrid_override_pattern"),
            "\"M-M-M--M-*M-M-M-M--*M-M-M-M-*M--M-M-M-*M-M--M-M-\"");
  EXPECT_EQ(value_of(hybrid("--num-layers 4 --is-hybrid-model"), "model.hybrid_override_pattern"),
            "MMMM");
  EXPECT_EQ(value_of(hybrid("--num-layers 4 --hybrid-override-pattern M*M-"),
                     "model.hybrid_override_pattern"),
            "\"M*M-\"");
}

TEST(ImportMegatronHybrid, WhatCannotBeIsRefusedByName) {
  const auto message = [](const std::string& arguments) {
    return hybrid_failure(arguments).all.at(0).message;
  };
  EXPECT_THAT(message("--hybrid-layer-pattern MGM*"), HasSubstr("gated delta rule"));
  EXPECT_THAT(message("--hybrid-layer-pattern M+M-"), HasSubstr("latent attention"));
  EXPECT_THAT(message("--hybrid-layer-pattern MXM"), HasSubstr("letters M, *, E and -"));
  EXPECT_THAT(message("--hybrid-layer-pattern '||'"), HasSubstr("at least 1 layer"));
  EXPECT_THAT(message("--hybrid-layer-pattern M*M*/M*/MM"), HasSubstr("the same layers"));
  EXPECT_THAT(message("--hybrid-layer-pattern 'M*|M*|M*' --pipeline-model-parallel-size 2"),
              HasSubstr("has 3 stages, which 2 ranks"));
  EXPECT_THAT(message("--num-layers 4 --hybrid-attention-ratio 0.6 --hybrid-mlp-ratio 0.6"),
              HasSubstr("more than all layers"));
  EXPECT_THAT(message("--hybrid-override-pattern M-M- --spec my_model.layers my_spec"),
              HasSubstr("layers of my_model.layers"));
  EXPECT_THAT(message("--hybrid-override-pattern M-M- --num-experts 8"), HasSubstr("without E"));
}

TEST(ImportMegatron, TrainingOfAnotherKindIsRefusedByName) {
  const auto lines = [](const std::string& arguments) {
    return import_failure("megatron-args", "pretrain_gpt.py " + kSmall + arguments).lines;
  };
  EXPECT_THAT(lines("--perform-rl-step"), ElementsAre(HasSubstr("preferences or rewards")));
  EXPECT_EQ(unknown(with("--rl-partial-rollouts")), "");
  const std::string test =
      "MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 64\n"
      "  --num-attention-heads: 4\n  --seq-length: 128\n";
  EXPECT_EQ(import_failure("megatron-args", test + "MODE: inference\n").codes, "E336");
  EXPECT_GT(imported("megatron-args", test + "MODE: pretraining\n").parameters, 0);
}

TEST(ImportMegatron, TheBatchOfAScheduleOfBatchesIsItsLast) {
  const std::string small =
      "train --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
      "--micro-batch-size 2 --vocab-size 1000 --nproc_per_node 4 --step-batch-size-schedule ";
  EXPECT_EQ(value_of(imported("megatron-args", small + "'0:16 2.4B:32 12B:64 '"), "batch.global"),
            "64");
  EXPECT_EQ(value_of(imported("megatron-args", small + "8"), "batch.global"), "8");
  for (const char* broken : {"'0:16 1B:'", "'0:16 1B:0'", "x", "':'"})
    EXPECT_EQ(import_failure("megatron-args", small + broken).codes, "E331") << broken;
}

TEST(ImportMegatron, NumberFormatsOfBlackwellAssumeIt) {
  const auto assumed = [](const std::string& arguments) {
    return value_of(with(arguments), "cluster.preset");
  };
  EXPECT_EQ(assumed("--fp8-format e4m3 --fp8-recipe mxfp8"), "dgx-b200");
  EXPECT_EQ(assumed("--fp4-format e2m1"), "dgx-b200");
  EXPECT_THAT(notes(with("--fp4-format e2m1 --fp4-recipe mxfp4")),
              HasSubstr("--fp4-recipe mxfp4: its blocks of scales are not modelled"));
  EXPECT_THAT(notes(with("--fp4-format e2m1 --fp4-recipe nvfp4")), Not(HasSubstr("blocks of")));
  EXPECT_EQ(assumed("--fp8-format hybrid"), "dgx-h100");
}

TEST(ImportMegatron, ARecipeWithoutItsFormatAssumesNothing) {
  EXPECT_EQ(value_of(with("--bf16 --fp8-recipe mxfp8"), "cluster.preset"), "dgx-h100");
}

TEST(ImportMegatron, ArgumentsThatAreOffRefuseNothing) {
  EXPECT_GT(with("--perform-rl-step 0 --llm-tp 1 --num-layers-teacher 0 --kd false").parameters, 0);
  EXPECT_THAT(notes(with("--model-provider gpt")), Not(HasSubstr("model-provider")));
  EXPECT_EQ(value_of(with("--RMSNorm --normalization LayerNorm"), "model.normalization"),
            "RMSNorm");
}

// As Megatron prints them: one a line, all there are.
ImportedRun listed(const std::string& lines) {
  return imported("megatron-args",
                  "------------------------ arguments ------------------------\n"
                  "  num_layers ...................................... 24\n"
                  "  hidden_size ..................................... 1024\n"
                  "  num_attention_heads ............................. 16\n"
                  "  seq_length ...................................... 2048\n"
                  "  micro_batch_size ................................ 2\n"
                  "  global_batch_size ............................... 64\n"
                  "  padded_vocab_size ............................... 50304\n"
                  "  hybrid_attention_ratio .......................... 0.0\n"
                  "  hybrid_mlp_ratio ................................ 0.0\n"
                  "  spec ............................................ None\n" +
                      lines + "-------------------- end of arguments ---------------------\n");
}

TEST(ImportMegatron, WhatIsOffUnderOneNameOfAListErasesNothingUnderAnother) {
  const auto list = [](const std::string& name, const std::string& value) {
    return "  " + name + " .......................... " + value + "\n";
  };
  const ImportedRun run = listed(
      list("use_flash_attn", "True") + list("use_flash_attn_builder", "False") +
      list("use_flash_attn_triton", "False") + list("use_flash_attn_v1", "True") +
      list("use_flash_attn_v2", "False") + list("transformer_impl", "local") +
      list("checkpoint_activations", "True") + list("distribute_checkpointed_activations", "True") +
      list("partition_activations", "False") + list("overlapped_distributed_optimizer", "False") +
      list("use_distributed_optimizer", "True") + list("tensor_model_parallel_size", "2") +
      list("world_size", "16"));
  EXPECT_EQ(value_of(run, "kernels.attention"), "flash");
  EXPECT_EQ(value_of(run, "recompute.distribute"), "true");
  EXPECT_EQ(value_of(run, "parallel.zero"), "1");
  EXPECT_EQ(value_of(run, "model.preset"), "gpt");  // shares of 0 are those of every list
  EXPECT_EQ(value_of(listed(list("use_distributed_optimizer", "True") +
                            list("overlapped_distributed_optimizer", "False")),
                     "parallel.zero"),
            "1");
  // On a command line the last counts.
  EXPECT_EQ(
      value_of(with("--group-query-attention --num-query-groups 4 --no-group-query-attention"),
               "model.num_key_value_heads"),
      "16");
}

TEST(ImportMegatron, ANumberOfExpertsMayBePrintedAsAList) {
  const std::string name = "  num_experts ............................... ";
  EXPECT_EQ(value_of(listed(name + "[1]\n"), "model.num_experts"), "");
  EXPECT_EQ(value_of(listed(name + "[8]\n"), "model.num_experts"), "8");
}

TEST(ImportMegatronHybrid, TheSpecificationOrSharesOfNothingAreStateSpacesOnly) {
  for (const char* written :
       {"--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec",
        "--hybrid-attention-ratio 0.0 --hybrid-mlp-ratio 0.0",
        "--spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec "
        "--hybrid-attention-ratio 0.0"})
    EXPECT_EQ(
        value_of(hybrid(std::string("--num-layers 4 ") + written), "model.hybrid_override_pattern"),
        "MMMM")
        << written;
}

// --- names of Megatron-DeepSpeed's versions

TEST(ImportMegatronDeepSpeed, NoPipelineIsOneOfOneStage) {
  EXPECT_EQ(value_of(with("--deepspeed --pipe-parallel-size 0"), "parallel.pp"), "1");
  EXPECT_EQ(import_failure("megatron-args",
                           "pretrain_gpt.py " + kSmall + "--pipeline-model-parallel-size 0")
                .codes,
            "E332");
}

TEST(ImportMegatronDeepSpeed, ExpertsAreSplitOnlyWhereTheFileSaysSo) {
  const std::string experts =
      "--deepspeed --num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel "
      "--nproc_per_node 8 ";
  EXPECT_EQ(value_of(with(experts), "parallel.etp"), "1");
  const ImportedRun split = with(experts + "--enable-expert-tensor-parallelism");
  EXPECT_EQ(value_of(split, "parallel.etp"), "2");
  EXPECT_EQ(unknown(split), "");
}

TEST(ImportMegatronDeepSpeed, WithoutDroppingThereIsNoCapacity) {
  const std::string experts = "--deepspeed --num-experts 8 --moe-train-capacity-factor 2 ";
  EXPECT_EQ(value_of(with(experts), "moe.capacity_factor"), "2");
  const ImportedRun run = with(experts + "--disable-moe-token-dropping");
  EXPECT_EQ(value_of(run, "moe.capacity_factor"), "");
  EXPECT_EQ(value_of(run, "moe.pad_to_capacity"), "");
  EXPECT_EQ(unknown(run), "");
}

TEST(ImportMegatronDeepSpeed, EverySecondLayerHasExpertsAndEachTokenOne) {
  const std::string experts = "--deepspeed --num-experts 8 --moe-expert-parallel-size 4 ";
  const ImportedRun run = with(experts + "--num-layers 4 --nproc_per_node 8");
  EXPECT_EQ(value_of(run, "model.mlp_only_layers"), "[0, 2]");
  EXPECT_EQ(value_of(run, "model.num_experts_per_tok"), "1");
  EXPECT_EQ(value_of(run, "parallel.ep"), "4");
  EXPECT_EQ(value_of(run, "moe.dispatcher"), "alltoall");
  EXPECT_EQ(value_of(run, "moe.capacity_factor"), "1");
  EXPECT_EQ(unknown(run), "");
  const ImportedRun all = with(experts + "--expert-interval 1 --topk 2");
  EXPECT_EQ(value_of(all, "model.mlp_only_layers"), "");
  EXPECT_EQ(value_of(all, "model.num_experts_per_tok"), "2");
  EXPECT_EQ(value_of(with("--num-experts 8"), "model.mlp_only_layers"), "");
  const auto lines = [&](const std::string& more) {
    return import_failure("megatron-args", "pretrain_gpt.py " + kSmall + more).lines;
  };
  EXPECT_THAT(lines("--deepspeed --num-experts 8 8 16 16"),
              ElementsAre(HasSubstr("different numbers of experts")));
  EXPECT_THAT(lines(experts + "--mlp-type residual"),
              ElementsAre(HasSubstr("an MLP beside the experts")));
  EXPECT_THAT(lines(experts + "--expert-interval 0"), ElementsAre(HasSubstr("at least 1")));
}

TEST(ImportMegatronDeepSpeed, SequencesSplitByUlyssesAreContextParallelism) {
  const ImportedRun run =
      with("--deepspeed --ds-sequence-parallel-size 4 --use-flash-attn-v2 --nproc_per_node 8");
  EXPECT_EQ(value_of(run, "parallel.cp"), "4");
  EXPECT_EQ(value_of(run, "parallel.cp_comm"), "a2a");
}

TEST(ImportMegatronDeepSpeed, AStageThatOnlyDeepSpeedsFileSaysIsAskedFor) {
  EXPECT_THAT(notes(with("--deepspeed")), HasSubstr("-s parallel.zero=N states it"));
  EXPECT_THAT(notes(with("--deepspeed --zero-stage 0")), Not(HasSubstr("parallel.zero=N")));
}

// A log of 2020: four replicas' worth of GPUs, of which the pipeline takes all.
TEST(ImportMegatronDeepSpeed, ThePipelineAndTheBatchOf2020HaveOtherNames) {
  const ImportedRun run = imported(
      "megatron-args",
      "pretrain_gpt2.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
      "--batch-size 4 --vocab-size 1000 --fp16 --deepspeed --model-parallel-size 2 "
      "--pipe-parallel-size 4 --gas 16 --checkpoint-activations --partition-activations "
      "--cpu-optimizer --world-size 16");
  EXPECT_EQ(value_of(run, "parallel.pp"), "4");
  EXPECT_EQ(value_of(run, "batch.global"), "128");  // 4 x 16 x 2 replicas
  EXPECT_EQ(value_of(run, "recompute.distribute"), "true");
  EXPECT_EQ(value_of(run, "offload.optimizer"), "1");
  EXPECT_EQ(unknown(run), "");
}

TEST(ImportMegatronDeepSpeed, ModelsOfForksHaveNamesOfTheirOwn) {
  EXPECT_EQ(value_of(with("--num-key-value-heads 4"), "model.num_key_value_heads"), "4");
  EXPECT_EQ(value_of(with("--attention-head-type multiquery"), "model.num_key_value_heads"), "1");
  EXPECT_EQ(value_of(with("--attention-head-type multihead"), "model.num_key_value_heads"), "16");
  const ImportedRun geglu = with("--glu-activation geglu");
  EXPECT_EQ(value_of(geglu, "model.gated_mlp"), "true");
  EXPECT_EQ(value_of(geglu, "model.hidden_act"), "gelu");
  EXPECT_EQ(value_of(geglu, "model.intermediate_size"), "4096");
  EXPECT_THAT(
      import_failure("megatron-args", "pretrain_gpt.py " + kSmall + "--glu-activation reglu").lines,
      ElementsAre(HasSubstr("a gated MLP with reglu")));
  EXPECT_EQ(value_of(with("--RMSNorm"), "model.normalization"), "RMSNorm");
  EXPECT_EQ(value_of(with("--overlapped-distributed-optimizer"), "parallel.zero"), "1");
  EXPECT_THAT(notes(with("--embed-layernorm")), HasSubstr("--embed-layernorm: not modelled"));
  EXPECT_EQ(value_of(with("--deepspeed --pipeline-model-parallel-size 4 --enable-zbh1-pipeline"),
                     "schedule.kind"),
            "zb-h1");
}

// It is in a checkpoint, and the scenario may say it.
TEST(ImportMegatron, TheTeacherIsAskedFor) {
  for (const std::string argument :
       {"--export-kd-teacher-load x", "--kd", "--num-layers-teacher 24"}) {
    ImportRequest r = request("megatron-args", "pretrain_gpt.py " + kSmall + argument);
    const auto open = testing::failure_of([&] { import_run(r); });
    EXPECT_THAT(open.lines, ElementsAre(HasSubstr("does not say what model the teacher is")));
    EXPECT_THAT(open.all.front().help, HasSubstr("-s distill=PRESET states it"));
    r.set = {{"distill", "{teacher: {preset: gpt3-1.3b, vocab_size: 50257}}"}};
    EXPECT_EQ(value_of(import_run(r), "distill.teacher.preset"), "gpt3-1.3b") << argument;
  }
}

TEST(ImportMegatronDeepSpeed, FrozenPartsAreRefusedByName) {
  for (const std::string argument :
       {"--freeze-LM", "--llm-tp 2", "--experimental-attention-variant gated_delta_net"})
    EXPECT_THAT(import_failure("megatron-args", "pretrain_gpt.py " + kSmall + argument).lines,
                ElementsAre(HasSubstr("not supported yet: ")))
        << argument;
}

TEST(ImportMegatron, DefaultsAreMegatronsAndNotOurs) {
  const ImportedRun run =
      imported("megatron-args",
               "train --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
               "--micro-batch-size 2 --vocab-size 1000 --nproc_per_node 4");
  EXPECT_EQ(value_of(run, "precision.preset"), "fp32");
  EXPECT_EQ(value_of(run, "kernels.dropout"), "{attention: 0.1, hidden: 0.1}");
  EXPECT_EQ(value_of(run, "batch.global"), "8");  // one microbatch a replica
  EXPECT_THAT(run.scenario, HasSubstr("# Megatron's default"));
}

TEST(ImportMegatron, TokenizersWithOneVocabularyAreKnown) {
  const auto vocab = [](const std::string& arguments) {
    return value_of(imported("megatron-args",
                             "train --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                             "--seq-length 128 " +
                                 arguments),
                    "model.vocab_size");
  };
  EXPECT_EQ(vocab("--tokenizer-type GPT2BPETokenizer"), "50257");
  EXPECT_EQ(vocab("--vocab-file vocab.json --merge-file merges.txt"), "50257");
  EXPECT_EQ(vocab("--vocab-file $3 --merge-file $4"), "50257");  // whatever it is called
  EXPECT_EQ(vocab("--tokenizer-type BertWordPieceLowerCase --vocab-extra-ids 100"), "30622");
  EXPECT_EQ(vocab("--tokenizer-type HuggingFaceTokenizer"), "128256");  // assumed, and said to be
}

TEST(ImportMegatron, TokenizersOfKnownModelsSayHowLargeTheVocabularyIs) {
  const auto all = [](const std::string& tokenizer) {
    return imported("megatron-args",
                    "pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                    "--seq-length 128 --micro-batch-size 1 --global-batch-size 8 " +
                        tokenizer);
  };
  const auto run = [&](const std::string& tokenizer) {
    return all("--tokenizer-type HuggingFaceTokenizer --tokenizer-model " + tokenizer);
  };
  for (const auto& [tokenizer, words] :
       {std::pair{"meta-llama/Llama-2-70b-hf", "32000"},
        std::pair{"/models/llama-2-7b-hf/tokenizer.model", "32000"},
        std::pair{"/fsx/deepspeed/Llama2-7b-hf", "32000"},
        std::pair{"/models/llama2/tokenizer.model", "32000"},
        std::pair{"/models/llama_30b", "32000"}, std::pair{"/models/llama-30b-hf", "32000"},
        std::pair{"/models/Llama-33b", "32000"}, std::pair{"/models/llama-7b-hf", "32000"},
        std::pair{"/models/Llama3.1-8B", "128256"},
        std::pair{"${MODELS}/Meta-Llama-3.1-8B", "128256"}, std::pair{"Qwen/Qwen2.5-72B", "151665"},
        std::pair{"Qwen/Qwen2-7B-Instruct", "151646"}, std::pair{"/models/Qwen2-72B/", "151646"},
        std::pair{"/data/nemotron_2_256k.model", "256000"}}) {
    EXPECT_EQ(value_of(run(tokenizer), "model.vocab_size"), words) << tokenizer;
    EXPECT_THAT(notes(run(tokenizer)), Not(HasSubstr("model.vocab_size"))) << tokenizer;
  }
  // More rows than tokens are said to be assumed, as is what is not known.
  EXPECT_EQ(value_of(run("deepseek-ai/DeepSeek-V3"), "model.vocab_size"), "129280");
  EXPECT_THAT(notes(run("deepseek-ai/DeepSeek-V3")), HasSubstr("129280 is assumed"));
  EXPECT_EQ(value_of(run("THUDM/glm-4-9b"), "model.vocab_size"), "151552");
  for (const char* qwen3 : {"/models/Qwen3_8B", "/models/qwen3-30b-a3b", "/models/Qwen3-0.6B",
                            "/models/Qwen3-Coder-480B", "/models/Qwen-3-8B", "/models/Qwen3"})
    EXPECT_EQ(value_of(run(qwen3), "model.vocab_size"), "151936") << qwen3;
  for (const char* other :
       {"someone/Llama-2-7b-hf", "someone/Llama2-7b-hf", "Qwen/Qwen3.5-35B-A3B",
        "/data/tokenizer.model", "$TOKENIZER", "Qwen/Qwen2-Audio-7B", "/models/llama-2-ko-7b",
        "/data/qwen2-7b/tok/gpt2", "/models/Qwen2-7B/tok/vocab.json", "/models/Qwen3_5-9B",
        "/models/Qwen3-5-9B", "/models/qwen-32b", "/models/Llama-27b", "/models/qwen-3b"})
    EXPECT_THAT(notes(run(other)), HasSubstr("128256 is assumed")) << other;
  EXPECT_THAT(notes(run("someone/some-9b")),
              HasSubstr("someone/some-9b: how large its vocabulary is, is not known"));
  EXPECT_EQ(value_of(all("--tokenizer-type Llama2Tokenizer --tokenizer-model /x/tokenizer.model"),
                     "model.vocab_size"),
            "32000");
  EXPECT_EQ(value_of(all("--tokenizer-model meta-llama/Llama-2-7b-hf --vocab-size 5000"),
                     "model.vocab_size"),
            "5000");
}

TEST(ImportMegatron, OptionsOfSrunAreNotMegatrons) {
  const std::string sizes =
      " --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
      "--micro-batch-size 1 --global-batch-size 16 --vocab-size 1000 --mock 1\n";
  const ImportedRun run =
      imported("megatron-args",
               "ARGS=(--container-image x.sqsh --container-mounts /a,/b)\n"
               "srun -l \"${ARGS[@]}\" --nodes=2 torchrun --nproc-per-node 8 --odd 1 "
               "pretrain_gpt.py" +
                   sizes);
  EXPECT_THAT(unknown(run), Not(HasSubstr("--container")));
  EXPECT_THAT(unknown(run), HasSubstr("--odd"));
  EXPECT_THAT(unknown(run), HasSubstr("--mock"));
  EXPECT_EQ(run.gpus, 16);
}

// Gated delta nets with every third layer attending (Megatron-LM's GDN, Qwen3-Next's layers).
TEST(ImportMegatron, LayersMayBeGatedDeltaNets) {
  const std::string delta =
      "--experimental-attention-variant gated_delta_net --linear-attention-freq 3 "
      "--linear-key-head-dim 64 --linear-value-head-dim 32 --linear-num-key-heads 4 "
      "--linear-num-value-heads 8 ";
  const std::string gate = "--attention-output-gate ";
  const std::string plain = "--normalization RMSNorm --swiglu --disable-bias-linear ";
  const ImportedRun run = with(plain + delta + gate + "--position-embedding-type rope");
  EXPECT_EQ(unknown(run), "");
  EXPECT_EQ(value_of(run, "model.linear_conv_kernel_dim"), "4");
  EXPECT_THAT(value_of(run, "model.layer_types"),
              HasSubstr("[linear_attention, linear_attention, full_attention, linear_attention"));
  // Of 24 layers 8 attend, with a gate as wide as the queries; the others project to queries, keys,
  // values, a gate, two numbers a head, and back, behind a convolution, with a norm of a head.
  const int64_t h = 1024, qk = 4 * 64, v = 8 * 32, mlp = 3 * h * 2688, vocabulary = 50304;
  const int64_t attends = 5 * h * h;
  const int64_t recurs = h * (2 * qk + 2 * v + 2 * 8) + v * h + 4 * (2 * qk + v) + 2 * 8 + 32;
  const int64_t expected = vocabulary * h + h + 8 * attends + 16 * recurs + 24 * (mlp + 2 * h);
  EXPECT_EQ(run.parameters, expected);
  EXPECT_EQ(value_of(with(plain + delta + gate + "--linear-attention-freq '[1]*23+[0]'"),
                     "model.layer_types")
                .find("full"),
            value_of(with(plain + delta + gate + "--linear-attention-freq 24"), "model.layer_types")
                .find("full"));
  const std::string experts =
      plain + delta + gate + "--num-experts 8 --moe-ffn-hidden-size 512 --qk-layernorm ";
  EXPECT_EQ(value_of(with(experts), "model.shared_expert_gate"), "false");
  EXPECT_EQ(with(experts + "--moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate")
                .parameters,
            with(experts).parameters + 24 * (3 * 64 * h + h));
  EXPECT_EQ(import_failure("megatron-args", "pretrain_gpt.py " + kSmall + delta).codes, "E130");
  EXPECT_EQ(import_failure("megatron-args", "pretrain_gpt.py " + kSmall + gate).codes, "E130");
  EXPECT_EQ(import_failure("megatron-args", "pretrain_gpt.py " + kSmall + gate +
                                                "--experimental-attention-variant gdn")
                .codes,
            "E332");
  EXPECT_EQ(import_failure("megatron-args",
                           "pretrain_gpt.py " + kSmall + "--experimental-attention-variant dsa")
                .codes,
            "E130");
}

// A variable that is set in one branch alone may stand behind any flag.
TEST(ImportMegatron, WhatNothingSetsIsNoValueOfAFlag) {
  for (const char* flag :
       {"--swiglu", "--qk-l2-norm", "--use-torch-fsdp2", "--grad-reduce-in-bf16", "--geglu"}) {
    const ImportedRun run =
        imported("megatron-args", "if [ \"$1\" = x ]; then M=--moe; fi\npretrain_gpt.py " + kSmall +
                                      flag + " $M --lr 1\n");
    EXPECT_EQ(run.scenario.substr(run.scenario.find("schema:")),
              with(flag).scenario.substr(with(flag).scenario.find("schema:")))
        << flag;
  }
  EXPECT_EQ(
      import_failure("megatron-args", "pretrain_gpt.py " + kSmall + "--kv-channels $M\n").codes,
      "E332");
}

TEST(ImportMegatron, SizesThatTheFileDoesNotSayMayBeStated) {
  ImportRequest r = request("megatron-args",
                            "pretrain_gpt.py --num-layers 24 --num-attention-heads 16 "
                            "--micro-batch-size 1 --vocab-size 1000 --use-checkpoint-args");
  const auto missing = testing::failure_of([&] { import_run(r); });
  ASSERT_EQ(missing.codes, "E332 E332");
  EXPECT_THAT(missing.all.front().help, HasSubstr("-s batch.seq=N"));
  EXPECT_THAT(missing.all.back().message, HasSubstr("the file does not say --hidden-size"));
  EXPECT_THAT(missing.all.back().help, HasSubstr("-s model.hidden_size=N"));
  r.set = {{"model.hidden_size", "1024"}};
  EXPECT_THAT(testing::failure_of([&] { import_run(r); }).all.front().help,
              HasSubstr("-s batch.seq=N"));
  r.set.emplace_back("batch.seq", "2048");
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, "model.hidden_size"), "1024");
  EXPECT_EQ(value_of(run, "batch.seq"), "2048");
}

TEST(ImportMegatron, TheShareOfTheOptimizerThatIsMovedIsANumber) {
  EXPECT_THAT(
      import_failure(
          "megatron-args",
          "pretrain_gpt.py " + kSmall + "--optimizer-cpu-offload --optimizer-offload-fraction none")
          .lines,
      ElementsAre(HasSubstr("'--optimizer-offload-fraction' must be a number, not 'none'")));
}

TEST(ImportMegatron, SrunSaysHowManyGpusThereAreHoweverItIsWritten) {
  const std::string program =
      " python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 128 --micro-batch-size 1 --global-batch-size 64 --vocab-size 1000\n";
  for (const char* srun :
       {"srun --nodes=4 --gres=gpu:8", "srun -N4 --gres=gpu:8", "srun -N 4 --gres gpu:h100:8",
        "srun --unbuffered -N 4 -l --gpus-per-node=h100:8", "time /usr/bin/srun -l -N4 --mpi=pmix",
        "srun --nodes 4 --container-env python3-env --unbuffered --gres gpu:8 --overlap",
        "srun -N4 --gres=gpu:8,nvme:1 -J python --container-name python",
        // A task of srun's is a process of Megatron's.
        "srun -N4 --ntasks-per-node=8", "srun -n32", "srun -N 4 -n 32 --gpus-per-task=1",
        "srun -N 4 -G 32", "srun -G h100:32 --ntasks 1",
        "srun -N4 --ntasks-per-node=1 --gres=gpu:8",
        "#SBATCH -N 4\n#SBATCH --ntasks-per-node 8  # a GPU each\nsrun",
        "#SBATCH --nodes=4 --gpus-per-node=h100:8\nsrun",
        "#SBATCH -N4\n#SBATCH --gres=gpu:a100:8\n",
        "#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\nsrun --nodes=4"}) {
    const ImportedRun run = imported("megatron-args", srun + program);
    EXPECT_EQ(run.gpus, 32) << srun;
    EXPECT_EQ(unknown(run), "") << srun;
  }
  EXPECT_EQ(imported("megatron-args", "srun -N 2 --gres=gpu:4" + program).gpus, 8);
  // A launcher starts the processes of a node, as one task.
  const std::string launched = " torchrun --nproc-per-node 8" + program.substr(7);
  EXPECT_EQ(imported("megatron-args", "srun -N 4 -n 4" + launched).gpus, 32);
  EXPECT_EQ(imported("megatron-args", "#SBATCH -G 64\nsrun -N 4 -n 4" + launched).gpus, 32);
  EXPECT_EQ(imported("megatron-args", "srun -N 4 --ntasks-per-node=2" + launched).gpus, 32);
  // No shell fills in what a comment leaves open.
  EXPECT_EQ(imported("megatron-args", "#SBATCH --nodes=<N> --gres=gpu:8\nsrun -N 2" + program).gpus,
            16);
  // What follows the program is not srun's.
  EXPECT_THAT(unknown(imported("megatron-args", "srun -N2 torchrun --gres=gpu:8" + program)),
              HasSubstr("--gres"));
}

TEST(ImportMegatron, SlurmsTotalsOverWhatANodeHasAreItsNodes) {
  const std::string sizes =
      " pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 128 --micro-batch-size 1 --global-batch-size 64 --vocab-size 1000\n";
  for (const char* asked :
       {"#SBATCH -n 64\n#SBATCH --ntasks-per-node=8\nsrun python",
        "#SBATCH -G 64\n#SBATCH --gpus-per-node=8\nsrun python",
        "#SBATCH -n 64\n#SBATCH --gres=gpu:8\nsrun python", "srun -n 64 --gres=gpu:8 python",
        "#SBATCH -n 8\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:8\nsrun torchrun",
        "#SBATCH -n 8\n#SBATCH --ntasks-per-node=1\nsrun torchrun --nproc-per-node 8"}) {
    const ImportedRun run = imported("megatron-args", asked + sizes);
    EXPECT_EQ(run.gpus, 64) << asked;
    EXPECT_EQ(value_of(run, "cluster.nodes"), "8") << asked;
  }
  EXPECT_THAT(imported("megatron-args", "srun -n 64 --ntasks-per-node=8 python" + sizes).scenario,
              HasSubstr("64 GPUs: --ntasks 64 / --ntasks-per-node 8 = 8, --ntasks-per-node 8"));
  // Fewer processes than the nodes have GPUs.
  EXPECT_EQ(imported("megatron-args", "srun -N 4 -n 16 --gres=gpu:8 python" + sizes).gpus, 16);
  EXPECT_EQ(imported("megatron-args", "srun -n 4 --gres=gpu:8 python" + sizes).gpus, 4);
  // A total that is no multiple.
  EXPECT_EQ(import_failure("megatron-args", "srun -n 12 --gres=gpu:8 python" + sizes).codes,
            "E203");  // 64 sequences on 12 replicas
  EXPECT_EQ(imported("megatron-args", "srun -N 3 -G 16 python" + sizes).gpus, 16);
}

// A job has the GPUs that its file says: where they fill no whole nodes of the preset, nodes have
// fewer.
TEST(ImportMegatron, GpusThatFillNoWholeNodesAreNodesOfFewer) {
  const auto cluster_of = [](const std::string& asked, const std::string& preset = "dgx-h100") {
    ImportRequest r = request("megatron-args",
                              asked +
                                  " python pretrain_gpt.py --num-layers 2 --hidden-size 64 "
                                  "--num-attention-heads 4 --seq-length 128 --micro-batch-size 1 "
                                  "--global-batch-size 1152 --vocab-size 1000\n");
    r.cluster.preset = preset;
    const ImportedRun run = import_run(r);
    const Scenario s = load_scenario_text(run.scenario, "imported.yaml");
    return std::tuple(run.gpus, s.cluster.nodes, s.cluster.node.gpus, s.cluster.node.nics);
  };
  EXPECT_EQ(cluster_of("srun -N 4 --ntasks-per-node=8"), std::tuple(32, 4, 8, 8));
  EXPECT_EQ(cluster_of("srun -N 4 --ntasks-per-node=4"), std::tuple(16, 4, 4, 4));
  EXPECT_EQ(cluster_of("srun -N 2 --ntasks-per-node=4"), std::tuple(8, 2, 4, 4));
  EXPECT_EQ(cluster_of("srun -N 2 -n 12"), std::tuple(12, 2, 6, 6));
  EXPECT_EQ(cluster_of("srun -n 12"), std::tuple(12, 2, 6, 6));
  EXPECT_EQ(cluster_of("srun -N 1 -n 6"), std::tuple(6, 1, 6, 8));
  // A file's node is a host of a rack: 32 of 4 GPUs are two racks of 64 GPUs, 2 half of one.
  EXPECT_EQ(cluster_of("srun -N 18 --ntasks-per-node=4", "gb200-nvl72"), std::tuple(72, 1, 72, 72));
  EXPECT_EQ(cluster_of("srun -N 32 --ntasks-per-node=4", "gb200-nvl72"),
            std::tuple(128, 2, 64, 64));
  EXPECT_EQ(cluster_of("srun -N 2 --ntasks-per-node=4", "gb200-nvl72"), std::tuple(8, 1, 8, 8));
  EXPECT_EQ(cluster_of("srun -N 32 --ntasks-per-node=3", "gb200-nvl72"), std::tuple(96, 2, 48, 48));
}

TEST(ImportMegatron, GpusThatNoNodesMakeUpAreSaidToBeMore) {
  ImportRequest r = request(
      "megatron-args",
      "srun -n 13 python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 128 --micro-batch-size 1 --global-batch-size 208 --vocab-size 1000\n");
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, "cluster.nodes"), "2");
  EXPECT_THAT(run.scenario, HasSubstr("13 GPUs fill no whole nodes of 8: 16 are taken"));
}

// Of tasks so many a node are the most that it takes, and the total decides.
TEST(ImportMegatron, SlurmsTotalDecidesBesideNodesAndWhatTheyTake) {
  const std::string sizes =
      " pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 128 --micro-batch-size 1 --global-batch-size 5760 --vocab-size 1000\n";
  for (const auto& [asked, gpus] :
       {std::pair{"srun -N 4 -n 16 --ntasks-per-node=8 --gres=gpu:8 python", 16},
        {"srun -N 4 -n 10 --gres=gpu:8 python", 10},
        {"srun -N 2 -n 12 --ntasks-per-node=8 python", 12},
        {"#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n"
         "srun -n 16 python",
         16},
        {"#SBATCH --nodes=4-8\n#SBATCH -n 64\n#SBATCH --ntasks-per-node=8\nsrun python", 64},
        {"#SBATCH -N 2-4\n#SBATCH -G 32\n#SBATCH --gpus-per-node=8\nsrun python", 32}})
    EXPECT_THAT(imported("megatron-args", asked + sizes).scenario,
                HasSubstr(fmt::format("# {} GPUs: ", gpus)))
        << asked;
  // More than can be counted is refused, and reckoned with by nobody.
  const std::string huge =
      "srun -N 9000000000000000000 -n 16 --ntasks-per-node=9000000000000000000";
  EXPECT_NE(import_failure("megatron-args", huge + " python" + sizes).codes, "");
}

TEST(ImportMegatron, SlurmsRangesOfNodesCountWithTheirLeast) {
  const std::string program =
      " python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 128 --micro-batch-size 1 --global-batch-size 64 --vocab-size 1000\n";
  for (const char* asked : {"#SBATCH --nodes=4-8\n#SBATCH --ntasks-per-node=8\nsrun",
                            "srun --nodes=4-8", "srun -N4-8 --gres=gpu:8"})
    EXPECT_EQ(imported("megatron-args", asked + program).gpus, 32) << asked;
  const std::string called = "torchrun --nnodes $SLURM_NNODES --nproc_per_node 8" +
                             program.substr(std::string(" python").size());
  ImportRequest r = request("megatron-args", "sbatch --nodes=4-8 job.sh\n");
  r.files = [&](std::string_view) { return std::optional(called); };
  EXPECT_EQ(import_run(r).gpus, 32);
  for (const char* nodes : {"0", "-4", "0-4", "2*2", "few"}) {
    const ImportedRun run = imported(
        "megatron-args", fmt::format("#SBATCH --nodes={}\n#SBATCH -G 16\nsrun", nodes) + program);
    EXPECT_EQ(run.gpus, 16) << nodes;
    EXPECT_THAT(notes(run), HasSubstr(fmt::format("--nodes {} is not understood", nodes)));
  }
}

// https://slurm.schedmd.com/sbatch.html: --gres, --gpus-per-node, --gpus-per-task.
TEST(ImportMegatron, SlurmsWaysToSayTheGpusOfANodeAreReadOrNoted) {
  const auto run = [](const std::string& asked, const char* launcher = "python") {
    return imported("megatron-args",
                    fmt::format("#SBATCH --nodes=4\n#SBATCH {}\nsrun {}", asked, launcher) +
                        " pretrain_gpt.py --num-layers 2 --hidden-size 64 "
                        "--num-attention-heads 4 --seq-length 128 --micro-batch-size 1 "
                        "--global-batch-size 64 --vocab-size 1000\n");
  };
  for (const char* four :
       {"--gpus-per-node=4(S:0-1)", "--gres=gpu:4(S:0-1)", "--gres=gpu:a100:4(S:0,1),nvme:1",
        "--gres=gpu:v100:3,gpu:t4:1", "--gres=gres:gpu:4", "--gpus-per-node=a100:2,t4:2",
        "--ntasks-per-node=1 --gpus-per-task=4", "--gpus-per-task=a100:4",
        "--ntasks-per-node=4 --gpus-per-task=1", "-n 4 --gpus-per-task=4", "-n 16",
        "--ntasks-per-node=1 --tres-per-task=cpu:8,gres/gpu:4"})
    EXPECT_EQ(run(four).gpus, 16) << four;
  for (const char* four : {"--ntasks-per-node=2 --gpus-per-task=2", "-n 8 --gpus-per-task=2"})
    EXPECT_EQ(run(four, "torchrun").gpus, 16) << four;
  for (const char* one : {"--gres=gpu", "--gres=gpu:a100", "--gres=nvme:1,gpu"})
    EXPECT_EQ(run(one).gpus, 4) << one;
  for (const char* odd :
       {"--gres=gpu:0", "--gres=gpu:<N>", "--gpus-per-node=many", "--gpus-per-node=-4",
        "--gpus-per-socket=4", "--gpus-per-task={{gpus}}", "--gpus=99999999999999999999"}) {
    const std::string written(odd);
    const size_t equals = written.find('=');
    EXPECT_THAT(notes(run(odd)),
                HasSubstr(fmt::format("{} {} is not understood", written.substr(0, equals),
                                      written.substr(equals + 1))));
  }
  // What is said better later, and what is no GPU, gives no note.
  EXPECT_THAT(notes(run("--gres=gpu:<N> --gpus-per-node=<N>", "--gres=gpu:4 python")),
              Not(HasSubstr("not understood")));
  EXPECT_THAT(notes(run("--gres=nvme:1 --cpus-per-gpu=x --gpu-bind=closest")),
              Not(HasSubstr("not understood")));
}

TEST(ImportMegatron, MoreLayersToRecomputeThanAStageHasAreAllOfThem) {
  const std::string block = "--recompute-granularity full --recompute-method block ";
  EXPECT_EQ(value_of(with(block + "--recompute-num-layers 9999"), "recompute.layers"),
            value_of(with(""), "model.num_hidden_layers"));
  EXPECT_EQ(value_of(with(block + "--recompute-num-layers 1"), "recompute.layers"), "1");
  EXPECT_EQ(value_of(with(block + "--recompute-num-layers 0"), "recompute.granularity"), "none");
}

TEST(ImportMegatron, ActivationsByNameMayBeGated) {
  EXPECT_EQ(value_of(with("--activation-func swiglu"), "model.gated_mlp"), "true");
  EXPECT_EQ(value_of(with("--activation-func swiglu"), "model.hidden_act"), "silu");
}

TEST(ImportMegatron, CommentsSayWhichArgumentAValueCameFrom) {
  const ImportedRun run = with("--tensor-model-parallel-size 2 --sequence-parallel");
  EXPECT_THAT(run.scenario, HasSubstr("tp: 2  # --tensor-model-parallel-size 2\n"));
  EXPECT_THAT(run.scenario, HasSubstr("sp: true  # --sequence-parallel\n"));
}

TEST(ImportMegatron, WhatIsNotModelledIsSaidAndNotDropped) {
  for (const char* argument :
       {"--fp32-residual-connection", "--overlap-param-gather-with-optimizer-step",
        "--ddp-num-buckets 4", "--no-rope-fusion", "--defer-embedding-wgrad-compute",
        "--use-nccl-ub", "--use-sharp", "--delay-wgrad-compute --num-experts 8",
        "--moe-deepep-num-sms 24", "--deterministic-mode", "--no-fp8-wgrad",
        "--fine-grained-activation-offloading"})
    EXPECT_THAT(notes(with(argument)), HasSubstr("not modelled, left out")) << argument;
  // Values at which they do nothing.
  for (const char* argument : {"--moe-deepep-num-sms 20", "--use-sharp False"})
    EXPECT_THAT(notes(with(argument)), Not(HasSubstr("left out"))) << argument;
}

TEST(ImportMegatron, WhatTheFileDoesNotSayIsAssumedAloud) {
  const ImportedRun run = with("");
  EXPECT_THAT(notes(run), HasSubstr("cluster.preset: dgx-h100 is assumed"));
  EXPECT_THAT(notes(run), HasSubstr("1 GPU is assumed"));
  EXPECT_THAT(notes(with("--nnodes 1 --nproc_per_node 8")), Not(HasSubstr("cluster.nodes")));
  EXPECT_THAT(notes(with("--rampup-batch-size 16 16 1000")), HasSubstr("full batch"));
  EXPECT_THAT(notes(with("--step-batch-size-schedule 0:16")), HasSubstr("full batch"));
}

TEST(ImportMegatron, ShardingOfMegatronFsdp) {
  const auto zero = [](const std::string& strategy) {
    return value_of(with("--use-megatron-fsdp --data-parallel-sharding-strategy " + strategy),
                    "parallel.zero");
  };
  EXPECT_EQ(zero("no_shard"), "0");
  EXPECT_EQ(zero("optim"), "1");
  EXPECT_EQ(zero("optim_grads"), "2");
  EXPECT_EQ(zero("optim_grads_params"), "3");
  EXPECT_EQ(value_of(with("--use-megatron-fsdp"), "parallel.fsdp"), "megatron");
}

TEST(ImportMegatron, EveryArgumentIsUsedIgnoredOrUnknown) {
  const ImportedRun run = with("--lr 1e-4 --log-interval 10 --wandb-project x --frobnicate 3");
  EXPECT_EQ(run.used, 10);
  EXPECT_EQ(run.ignored, 3);
  EXPECT_EQ(unknown(run).substr(0, 13), "--frobnicate@");
}

TEST(ImportMegatron, NamesWithoutEffectAreNoneOfThoseThatCost) {
  for (const CostArgument& a : megatron_arguments())
    EXPECT_FALSE(without_effect("megatron", a.name)) << a.name;
  EXPECT_TRUE(without_effect("megatron", "wandb_project"));  // by a pattern
  EXPECT_TRUE(without_effect("megatron", "lr"));
  EXPECT_FALSE(without_effect("megatron", "l"));
}

// Whatever a release of Megatron takes is used or known to be without effect.
TEST(ImportMegatron, NoArgumentOfAReleaseIsUnknown) {
  std::istringstream lines(import_sample("megatron_names.txt"));
  std::vector<Argument> all;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    for (std::string name; words >> name;) {
      Value v;
      v.kind = Value::Kind::scalar;
      v.text = "1";
      all.push_back({argument_name("--" + name), "--" + name, v});
    }
  }
  EXPECT_GT(all.size(), 400U);
  Problems problems;
  const ArgumentReader reader(megatron_arguments(), "megatron", all, problems);
  for (const UnknownArgument& u : reader.unknown()) ADD_FAILURE() << u.written;
}

TEST(ImportMegatron, NamesOfTheTableAreThereOnce) {
  std::vector<std::string> names;
  for (const CostArgument& a : megatron_arguments()) {
    names.emplace_back(a.name);
    for (std::string_view rest : {a.also, a.inverse})
      for (size_t at = 0; at < rest.size();) {
        const size_t end = std::min(rest.find('|', at), rest.size());
        names.emplace_back(rest.substr(at, end - at));
        at = end + 1;
      }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

constexpr const char* kBranches = R"(SIZE=$1
NAMES=(--hidden-size 64 --num-attention-heads 4)
if [ $SIZE = 7B ]; then
  LAYERS=32
elif [[ $SIZE == 13B && -z "$NOTHING" ]]; then
  LAYERS=$(( 8 * 5 ))
  EXTRA=" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
else
  LAYERS=$(( ${MORE:-50} - 2 ))
fi
torchrun --nnodes ${WORLD_SIZE} pretrain_gpt.py ${NAMES[@]} --num-layers $LAYERS $EXTRA \
  --seq-length 64 --micro-batch-size 1 "--vocab-size 1000" "--fp8-format hybrid"
)";

// The branch that holds is read; its values come after the file on the command line.
TEST(ImportMegatron, OfAnIfTheBranchThatHoldsIsRead) {
  const auto with = [](std::vector<std::string> given) {
    ImportRequest r = request("megatron-args", kBranches);
    r.given = std::move(given);
    return import_run(r);
  };
  EXPECT_EQ(value_of(with({"7B"}), "model.num_hidden_layers"), "32");
  EXPECT_EQ(value_of(with({"7B"}), "recompute"), "");
  EXPECT_EQ(value_of(with({"13B"}), "model.num_hidden_layers"), "40");
  EXPECT_EQ(value_of(with({"13B"}), "recompute.granularity"), "full");
  EXPECT_EQ(value_of(with({"70B"}), "model.num_hidden_layers"), "48");
  EXPECT_EQ(value_of(with({"70B", "MORE=22"}), "model.num_hidden_layers"), "20");
  EXPECT_EQ(value_of(with({"SIZE=7B"}), "model.num_hidden_layers"), "32");
  EXPECT_EQ(value_of(with({"7B"}), "precision.preset"), "fp8-delayed");  // a pair in quotes
}

TEST(ImportMegatron, WhatAScriptLeavesOpenIsAskedForByName) {
  const auto f = import_failure("megatron-args", kBranches);
  EXPECT_EQ(f.codes, "E332");
  EXPECT_THAT(f.lines, ElementsAre(HasSubstr("the script does not say SIZE ($1), which")));
  ImportRequest r = request("megatron-args", kBranches);
  r.given = {"7B"};
  EXPECT_THAT(notes(import_run(r)), HasSubstr("--nnodes $WORLD_SIZE is not known"));
}

// One node's GPUs were taken for all, and were fewer than the sizes need.
TEST(ImportMegatron, WhereTheNodesAreOpenTheGpusOfANodeDoNotSayTheJob) {
  const std::string line =
      "torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --tensor-model-parallel-size 8 "
      "--pipeline-model-parallel-size 4 --num-layers 8 --hidden-size 64 --num-attention-heads 8 "
      "--seq-length 64 --micro-batch-size 1 --vocab-size 1000\n";
  const auto open = imported("megatron-args", line);
  EXPECT_EQ(value_of(open, "cluster.nodes"), "4");
  EXPECT_THAT(notes(open), HasSubstr("--nnodes $NNODES is not known"));
  EXPECT_THAT(notes(open), HasSubstr("32 GPUs are assumed"));
  EXPECT_EQ(value_of(imported("megatron-args", "#SBATCH --nodes=8\n" + line), "cluster.nodes"),
            "8");
  ImportRequest r = request("megatron-args", line);
  r.given = {"NNODES=16"};
  EXPECT_EQ(value_of(import_run(r), "cluster.nodes"), "16");
}

TEST(ImportMegatron, ALineWithoutItsBackslashIsNotLostSilently) {
  const std::string head = "torchrun pretrain_gpt.py \\\n";
  const std::string sizes =
      "  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
      "--vocab-size 50257";
  const std::string batch = "  --micro-batch-size 2 --global-batch-size 64 --bf16\n";
  const auto said = [&](const std::string& script) {
    const ImportedRun run = imported("megatron-args", script);
    return notes(run) + value_of(run, "batch.micro");
  };
  const std::string whole = said(head + sizes + " \\\n" + batch);
  EXPECT_THAT(whole, Not(HasSubstr("begins with an option")));
  EXPECT_THAT(whole, ::testing::EndsWith("2"));
  const std::string cut = said(head + sizes + '\n' + batch);
  EXPECT_THAT(cut, HasSubstr("line 3 begins with an option"));
  EXPECT_THAT(cut, HasSubstr("is a backslash missing at the end of line 2?"));
  EXPECT_THAT(cut, ::testing::EndsWith("1"));
  EXPECT_THAT(said(head + sizes + " \\\n  # --fp16 \\\n" + batch),
              HasSubstr("line 3 is a comment, which ends the command"));
  EXPECT_THAT(said(head + sizes + " \\ \n" + batch),
              HasSubstr("blanks follow the backslash of line 2"));
  EXPECT_THAT(said(head + sizes + " \\\n\n" + batch),
              HasSubstr("line 3 is empty, which ends the command"));
  // The command ended where its backslash is missing, whatever stands between.
  EXPECT_THAT(said(head + sizes + "\n  # --fp16 \\\n" + batch),
              AllOf(HasSubstr("line 4 begins"), HasSubstr("at the end of line 2?")));
  EXPECT_THAT(said(head + sizes + "\n  --fp16 \\\n  --lr 1\n" + batch),
              AllOf(HasSubstr("line 3 begins"), HasSubstr("at the end of line 2?"),
                    HasSubstr("line 5 begins"), HasSubstr("at the end of line 4?")));
  // Of a text that is all arguments every line counts.
  EXPECT_THAT(said(sizes + '\n' + batch), Not(HasSubstr("begins with an option")));
}

TEST(ImportMegatron, VariablesThatNothingReadsAreNamed) {
  ImportRequest r = request("megatron-args",
                            "TP=2\nPP=1\nxPP=$XPP\ntorchrun pretrain_gpt.py --num-layers 2 "
                            "--hidden-size 64 --num-attention-heads 4 --seq-length 64 "
                            "--micro-batch-size 1 --vocab-size 1000 "
                            "--tensor-model-parallel-size ${TP}\n");
  r.given = {"TP=4", "PP=2", "TQ=4"};
  EXPECT_THAT(notes(import_run(r)),
              HasSubstr("PP, TQ are given, and nothing in the script reads them"));
  r.given = {"TP=4"};
  EXPECT_THAT(notes(import_run(r)), Not(HasSubstr("given, and")));
}

TEST(ImportMegatron, AScriptReadsWordsWhereItHasTheirNumbersOrAllOfThem) {
  for (const char* text : {"a $1", "${2:-3}", "\"$@\"", "if [ $# -lt 1 ]", "shift", "${@:2}"})
    EXPECT_TRUE(reads_words(text)) << text;
  for (const char* text : {"", "a $TP ${X}", "$$", "$0", "$"})
    EXPECT_FALSE(reads_words(text)) << text;
}

TEST(ImportMegatron, OnlyOptionsOfMegatronsAreLost) {
  const std::string sizes =
      "torchrun pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
      "--seq-length 2048 --vocab-size 50257 --micro-batch-size 2\n";
  const auto said = [&](const std::string& more) {
    return notes(imported("megatron-args", sizes + more));
  };
  EXPECT_THAT(said("--frobnicate 3\n"), Not(HasSubstr("begins with an option")));
  EXPECT_THAT(said("--frobnicate 3 --bf16\n"), HasSubstr("line 2 begins with an option"));
  // The file of a redirection may stand on the next line.
  EXPECT_THAT(said("srun --container-image <path to docker image> \\\n --lr 1 \\\n --bf16\n"),
              Not(HasSubstr("begins with an option")));
  EXPECT_THAT(said("score --hypothesis=<PATH> \\\n --lr 1 \\\n --bf16\n"),
              Not(HasSubstr("begins with an option")));
}

TEST(ImportMegatron, OfManyLostLinesTheFirstAreNamed) {
  std::string script =
      "torchrun pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
      "--seq-length 2048 --vocab-size 50257 --micro-batch-size 2\n";
  for (int i = 0; i < 20'000; ++i) script += "--swiglu\n";
  const std::string said = notes(imported("megatron-args", script));
  EXPECT_THAT(said, HasSubstr("line 2 begins with an option"));
  EXPECT_THAT(said, HasSubstr("line 11 begins with an option"));
  EXPECT_THAT(said, Not(HasSubstr("line 12 begins with an option")));
  EXPECT_THAT(said, HasSubstr("19990 more lines begin with an option"));
}

TEST(ImportMegatron, WhatWasAssumedIsSaidWithARefusalToo) {
  const std::string sizes =
      "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
      "--vocab-size 50257";
  const Failure f = import_failure(
      "megatron-args", "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py " + sizes +
                           " --pipeline-model-parallel-size 8 "
                           "--num-layers-per-virtual-pipeline-stage 1\n--global-batch-size 64\n");
  ASSERT_FALSE(f.all.empty());
  EXPECT_THAT(f.all.back().note, HasSubstr("batch.micro: 1 is assumed"));
  EXPECT_THAT(f.all.back().note, HasSubstr("line 2 begins with an option"));
}

TEST(ImportMegatron, TheAllocatorsSettingsAreRead) {
  const auto segments = [](const std::string& name, const std::string& value) {
    const ImportedRun run = imported(
        "megatron-args", "export " + name + '=' + value + "\npretrain_gpt.py " + kSmall + '\n');
    EXPECT_NE(value_of(run, "env." + name), "") << run.scenario;
    return value_of(run, "kernels.expandable_segments");
  };
  EXPECT_EQ(segments("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"), "true");
  EXPECT_EQ(segments("PYTORCH_ALLOC_CONF", "max_split_size_mb:512,expandable_segments:True"),
            "true");
  EXPECT_EQ(segments("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False"), "false");
  EXPECT_EQ(segments("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512"), "");
}

TEST(ImportMegatron, TheHostWaitsAfterEachLaunchThatBlocks) {
  const auto waits = [](const std::string& before, const std::string& on_the_line = {}) {
    const ImportedRun run = imported(
        "megatron-args", before + "\n" + on_the_line + "torchrun pretrain_gpt.py " + kSmall + '\n');
    EXPECT_EQ(unknown(run), "");
    return value_of(run, "kernels.host_waits");
  };
  EXPECT_EQ(waits("export CUDA_LAUNCH_BLOCKING=1"), "launches");
  EXPECT_EQ(waits("", "CUDA_LAUNCH_BLOCKING=1 "), "launches");
  EXPECT_EQ(waits("", "env CUDA_LAUNCH_BLOCKING=1 "), "launches");
  EXPECT_EQ(waits("export CUDA_LAUNCH_BLOCKING=0"), "");
  EXPECT_EQ(waits("#export CUDA_LAUNCH_BLOCKING=1"), "");
  EXPECT_EQ(waits("export CUDA_LAUNCH_BLOCKING=1\nunset CUDA_LAUNCH_BLOCKING"), "");
  EXPECT_EQ(waits("export CUDA_LAUNCH_BLOCKING=1\nexport CUDA_LAUNCH_BLOCKING=0"), "");
}

TEST(ImportMegatron, FilesOfMergesAreGpt2sWhereTheyAreCalledSo) {
  std::string sizes = kSmall;
  sizes.erase(sizes.find("--vocab-size 50257 "), std::string("--vocab-size 50257 ").size());
  const auto run = [&](const std::string& files) {
    return imported("megatron-args", "pretrain_gpt.py " + sizes + files + '\n');
  };
  const std::string type = "--tokenizer-type GPT2BPETokenizer ";
  for (const std::string& own : {type + "--merge-file /data/bpe/merges.txt",
                                 std::string("--merge-file $DATA/bpe/merges.txt")}) {
    const ImportedRun assumed = run(own);
    EXPECT_EQ(value_of(assumed, "model.vocab_size"), "50257");
    EXPECT_THAT(notes(assumed), HasSubstr("model.vocab_size: 50257 is assumed: --merge-file"));
  }
  for (const std::string& known :
       {type, type + "--merge-file a/gpt2-merges.txt",
        std::string("--vocab-file gpt2-vocab.json --merge-file merges.txt")}) {
    const ImportedRun said = run(known);
    EXPECT_EQ(value_of(said, "model.vocab_size"), "50257");
    EXPECT_THAT(notes(said), Not(HasSubstr("model.vocab_size")));
  }
}

TEST(ImportMegatron, EmptyingTheCacheIsNotLostInSilence) {
  for (const char* level : {"0", "$OPEN"})
    EXPECT_THAT(notes(with(std::string("--empty-unused-memory-level ") + level)),
                Not(HasSubstr("cache")));
  for (const char* level : {"1", "2"})
    EXPECT_THAT(notes(with(std::string("--empty-unused-memory-level ") + level)),
                HasSubstr(fmt::format("--empty-unused-memory-level {}: Megatron gives PyTorch's "
                                      "cache back in each step",
                                      level)));
}

TEST(ImportMegatron, SamplesToTrainOnAreTokens) {
  EXPECT_EQ(value_of(with("--train-samples 1000"), "job.tokens"), "2048000");
  EXPECT_EQ(value_of(with("--train-samples 0"), "job.tokens"), "");
  // That of a trial is no length of a training.
  EXPECT_EQ(value_of(with("--train-iters 50"), "job.tokens"), "");
  EXPECT_EQ(value_of(with("--train-samples $UNKNOWN"), "job.tokens"), "");
  EXPECT_EQ(value_of(with("--train-samples 146_484_375"), "job.tokens"), "300000000000");
  EXPECT_EQ(value_of(with("--train-samples 1953125000"), "job.tokens"), "4000000000000");
  for (const std::string unread :
       {"_1", "1_", "1__0", "1e9", "-1", "many", "1000000000000000001", "1000000000000000000"}) {
    const ImportedRun run = with("--train-samples=" + unread);
    EXPECT_EQ(value_of(run, "job.tokens"), "") << unread;
    EXPECT_THAT(notes(run), HasSubstr("--train-samples " + unread + ": not read")) << unread;
  }
}

TEST(ImportMegatron, TheFirstLimitEndsATrainingOfMegatronDeepSpeed) {
  const auto tokens = [](const std::string& limits) {
    return value_of(with(limits + " --global-batch-size 64"), "job.tokens");
  };
  EXPECT_EQ(tokens("--train-tokens 300000000000"), "300000000000");
  EXPECT_EQ(tokens("--train-tokens 300000000 --train-samples 439453125"), "300000000");
  EXPECT_EQ(tokens("--train-tokens 300000000 --train-samples 1000"), "2048000");
  EXPECT_EQ(tokens("--train-tokens 300000000000 --train-iters 6866455"), "300000000000");
  EXPECT_EQ(tokens("--train-tokens 300000000000 --train-iters 50"), "6553600");
  for (const char* none : {"--train-tokens 0", "--train-tokens $OPEN", "--train-iters $OPEN"})
    EXPECT_EQ(tokens(none), "") << none;
  const ImportedRun unread = with("--train-tokens 3e11 --train-samples 1000");
  EXPECT_THAT(notes(unread), HasSubstr("--train-tokens 3e11: not read"));
  EXPECT_EQ(value_of(unread, "job.tokens"), "2048000");
}

TEST(ImportMegatron, OfACaseThePatternThatFitsIsRead) {
  const std::string script = R"(case $1 in
  small|tiny) LAYERS=2 ;;
  big*) LAYERS=4
    ;;
  *) LAYERS=6 ;;
esac
python pretrain_gpt.py --num-layers $LAYERS --hidden-size 64 --num-attention-heads 4 \
  --seq-length 64 --micro-batch-size 1 --vocab-size 1000
)";
  const auto layers = [&](const char* word) {
    ImportRequest r = request("megatron-args", script);
    r.given = {word};
    return value_of(import_run(r), "model.num_hidden_layers");
  };
  EXPECT_EQ(layers("tiny"), "2");
  EXPECT_EQ(layers("small"), "2");
  EXPECT_EQ(layers("bigger"), "4");
  EXPECT_EQ(layers("other"), "6");
  EXPECT_EQ(import_failure("megatron-args", script).codes, "E332");
}

// Were minutes, or a crash.
TEST(ImportMegatron, LongAndDeepScriptsEnd) {
  std::string long_one, deep, values;
  for (int i = 0; i < 100'000; ++i)
    long_one += "if [ $A = 1 ]; then B" + std::to_string(i) + "=1; fi\n";
  for (int i = 0; i < 20'000; ++i) deep += "if [ $A = 1 ]; then\n";
  for (int i = 0; i < 20'000; ++i) values += "${A:-";
  for (const std::string& text : {long_one, deep, "python x.py --num-layers " + values}) {
    try {
      imported("megatron-args", text);
    } catch (const InputError& e) {
      EXPECT_FALSE(e.diagnostics.empty());
    }
  }
}

// A script that sets NL, and how many layers that gives; else what it fails with.
std::string layers_after(const std::string& script) {
  const std::string rest =
      "\npython pretrain_gpt.py --num-layers $NL --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 64 --micro-batch-size 1 --vocab-size 1000\n";
  try {
    return value_of(import_run(request("megatron-args", script + rest)), "model.num_hidden_layers");
  } catch (const InputError& e) {
    return e.diagnostics.front().code;
  }
}

TEST(ImportMegatron, WhatAnUnknownBranchMaySetStaysOpen) {
  EXPECT_EQ(layers_after("NL=24; if [ $A = 1 ]; then NL=32; else echo hi; fi"), "E332");
  EXPECT_EQ(layers_after("NL=24; if [ $A = 1 ]; then NL=32; else NL=24; fi"), "E332");
  EXPECT_EQ(layers_after("NL=24; if [ $A = 1 ]; then if [ $B = 1 ]; then NL=32; fi; fi"), "E332");
  EXPECT_EQ(layers_after("NL=24; if [ $A = 1 ]; then NL=32; else NL=32; fi"), "32");
}

TEST(ImportMegatron, CasesEndWhereTheyEnd) {
  EXPECT_EQ(layers_after("NL=1\ncase $X in\nesac;;"), "1");
  EXPECT_EQ(layers_after("SIZE=7B; case $SIZE in\n 7B) NL=16; if [ 1 = 1 ]; then echo; fi;;\n"
                         " 13B) NL=40;;\nesac"),
            "16");
  EXPECT_EQ(layers_after("SIZE=7B; NL=1; case $SIZE in 7B) NL=16;; 13B) NL=40;; esac"), "16");
}

TEST(ImportMegatron, DeepAndOddScriptsEnd) {
  std::string nots = "NL=4; if";
  for (int i = 0; i < 49'000; ++i) nots += " !";
  EXPECT_EQ(layers_after(nots + " [ 1 = 1 ]; then NL=5; fi"), "5");
  EXPECT_NE(layers_after("NL=4\n\\\rX"), "");
  EXPECT_EQ(layers_after("NL=$(( (0-9*1000000000*1000000000-223372036*1000000000-854775807-1) / "
                         "(0-1) ))"),
            "E332");
}

TEST(ImportMegatron, WrongValuesAreRefusedWhereTheyStand) {
  const auto lines = [](const std::string& arguments) {
    return import_failure("megatron-args", "train \\\n" + arguments + " \\\n" + kSmall).lines;
  };
  EXPECT_THAT(lines("--tensor-model-parallel-size two"),
              ElementsAre("E331 2:30 '--tensor-model-parallel-size' must be a whole number, not "
                          "'two'"));
  EXPECT_THAT(lines("--tensor-model-parallel-size $TP"),
              ElementsAre("E332 2:30 the script does not say TP, which "
                          "--tensor-model-parallel-size $TP hangs on"));
  EXPECT_THAT(lines("--num-experts 8 --moe-layer-freq [0,1]"),
              ElementsAre(HasSubstr("for each of the 24 layers")));
  EXPECT_THAT(lines("--fp8-format hybrid --fp8-recipe custom"),
              ElementsAre(HasSubstr("'--fp8-recipe' is not known here")));
  EXPECT_THAT(lines("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E|x|L'"),
              ElementsAre(HasSubstr("cannot be read")));
  EXPECT_THAT(lines("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5"),
              ElementsAre(HasSubstr("does not divide")));
  EXPECT_THAT(lines("--tensor-model-parallel-size 0"),
              ElementsAre(HasSubstr("E332 2:30 tp, cp and pp do not make")));
  EXPECT_THAT(lines("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 0"),
              ElementsAre(HasSubstr("E332 2:63 tp, cp and pp do not make")));
  EXPECT_THAT(lines("--pipeline-model-parallel-size 7 --account-for-loss-in-pipeline-split"),
              ElementsAre(HasSubstr("E332 2:32 '--account-for-loss-in-pipeline-split' leaves 25")));
}

// Were internal errors, or overflows.
TEST(ImportMegatron, SizesOfNoJobAreRefused) {
  const std::string sizes = "--hidden-size 64 --num-attention-heads 4 --seq-length 64 ";
  EXPECT_THAT(import_failure("megatron-args", sizes + "--encoder-num-layers 200000").lines,
              ElementsAre(HasSubstr("'--encoder-num-layers' must be at most 100000")));
  EXPECT_THAT(import_failure("megatron-args", sizes + "--num-layers 2 --nnodes 1000000000 "
                                                      "--nproc_per_node 1000000000")
                  .lines,
              ElementsAre(HasSubstr("the job is of no sensible size")));
  EXPECT_THAT(import_failure("megatron-args", sizes + "--num-layers 2*1000000000").lines,
              ElementsAre(HasSubstr("'--num-layers' must be at most 10^9")));
}

TEST(ImportMegatron, ExpertsWithoutTheirNumberAreNotDropped) {
  const auto refused = [](const std::string& arguments) {
    return import_failure("megatron-args", "train " + kSmall + "\\\n" + arguments);
  };
  const Failure typo = refused("--num-expert 8 --moe-grouped-gemm --expert-model-parallel-size 8");
  EXPECT_THAT(typo.lines, ElementsAre("E332 2:64 '--expert-model-parallel-size 8' needs "
                                      "--num-experts, which the file does not say"));
  EXPECT_EQ(typo.all[0].help, "did you mean --num-experts by '--num-expert' in line 2?");
  const Failure none = refused("--moe-router-topk 2");
  EXPECT_THAT(none.lines, ElementsAre("E332 2:19 '--moe-router-topk 2' needs --num-experts, which "
                                      "the file does not say"));
  EXPECT_THAT(none.all[0].help, HasSubstr("of a dense model leave"));
  EXPECT_EQ(import_failure("megatron-args",
                           "num_layers: 4\nhidden_size: 64\nseq_length: 64\n"
                           "num_attention_heads: 4\nnum_experts: null\n"
                           "expert_model_parallel_size: 2\n")
                .codes,
            "E332");
  // What a list of all arguments says of a dense model.
  EXPECT_EQ(value_of(imported("megatron-args",
                              "num_layers: 4\nhidden_size: 64\nseq_length: 64\n"
                              "num_attention_heads: 4\nnum_experts: null\nmoe_router_topk: 2\n"
                              "moe_token_dispatcher_type: allgather\n"
                              "expert_model_parallel_size: 1\n"),
                     "moe.dispatcher"),
            "");
  // Several scripts of a dense model share this one.
  EXPECT_EQ(unknown(with("--expert-model-parallel-size 1 --expert-tensor-parallel-size 1 "
                         "--moe-router-load-balancing-type aux_loss")),
            "");
}

// --checkpoint-activations and its successor are of 2021 and early 2022: whole layers, and the
// software of then.
TEST(ImportMegatron, ArgumentsOfVersion2AreOfItsSoftware) {
  const ImportedRun old = with("--checkpoint-activations --checkpoint-num-layers 2");
  EXPECT_EQ(value_of(old, "software"), "megatron-lm-2021");
  EXPECT_EQ(value_of(old, "recompute.granularity"), "full");
  EXPECT_EQ(value_of(old, "recompute.layers"), "2");
  const ImportedRun later = with(
      "--activations-checkpoint-method block "
      "--activations-checkpoint-num-layers 3");
  EXPECT_EQ(value_of(later, "software"), "megatron-lm-2021");
  EXPECT_EQ(value_of(later, "recompute.method"), "block");
  EXPECT_EQ(value_of(later, "recompute.layers"), "3");
  const ImportedRun now = with("--recompute-activations");
  EXPECT_EQ(value_of(now, "software"), "megatron-core");
  EXPECT_EQ(value_of(now, "recompute.granularity"), "selective");
}

// The profile that a file gets by arguments which later versions do not have, said aloud.
TEST(ImportMegatron, FilesOfOldVersionsNameTheirSoftware) {
  const std::pair<const char*, const char*> rows[] = {
      {"--DDP-impl local", "megatron-lm-2021"},
      {"--distribute-checkpointed-activations --checkpoint-activations", "megatron-lm-2021"},
      {"--DDP-impl local --recompute-activations", "megatron-lm-2022"},
      {"--DDP-impl local --use-flash-attn", "megatron-lm-2023"},
      {"--DDP-impl local --transformer-impl local", "megatron-lm-2023"},
      {"--DDP-impl local --transformer-impl transformer_engine", "megatron-core"},
      {"--deepspeed --zero-stage 1 --checkpoint-activations", "megatron-deepspeed-2022"},
      {"--transformer-impl local", "megatron-core"},
      {"--use-flash-attn", "megatron-core"},
  };
  for (const auto& [arguments, software] : rows) {
    const ImportedRun run = with(arguments);
    EXPECT_EQ(value_of(run, "software"), software) << arguments;
    EXPECT_EQ(unknown(run), "") << arguments;
    const bool now = std::string_view(software) == "megatron-core";
    EXPECT_EQ(value_of(run, "cluster.preset"), now ? "dgx-h100" : "dgx-a100-80g") << arguments;
    const std::string said = std::string("software: ") + software + " is assumed: ";
    EXPECT_EQ(notes(run).find(said) != std::string::npos, !now) << arguments;
  }
  EXPECT_THAT(notes(with("--DDP-impl local")),
              HasSubstr("is assumed: Megatron-LM had --DDP-impl local until August 2023\n"));
  EXPECT_EQ(value_of(with("--deepspeed --zero-stage 1"), "parallel.zero"), "1");
  EXPECT_EQ(value_of(with("--zero-stage 1"), "parallel.zero"), "");
  // DeepSpeed's pipeline splits the states of the optimizer in bf16, whatever the stage.
  EXPECT_EQ(value_of(with("--deepspeed --zero-stage 0 --bf16"), "parallel.zero"), "1");
  EXPECT_EQ(
      value_of(with("--deepspeed --zero-stage 0 --bf16 --no-pipeline-parallel"), "parallel.zero"),
      "0");
  // The user's cluster stays.
  ImportRequest r =
      testing::request("megatron-args", "pretrain_gpt.py " + kSmall + "--DDP-impl local");
  r.cluster = {"dgx-b200", "", false};
  EXPECT_EQ(value_of(import_run(r), "cluster.preset"), "dgx-b200");
}

// A list of all arguments names those of its version, set or not.
TEST(ImportMegatron, ListsOfOldVersionsNameTheirSoftware) {
  const std::string list =
      "num_layers: 4\nhidden_size: 64\nseq_length: 64\nnum_attention_heads: 4\nbf16: true\n";
  const ImportedRun old =
      imported("megatron-args", list + "activations_checkpoint_method: null\nDDP_impl: local\n");
  EXPECT_EQ(value_of(old, "software"), "megatron-lm-2021");
  EXPECT_EQ(value_of(old, "recompute.granularity"), "");
  EXPECT_THAT(notes(old), HasSubstr("Megatron-LM had activations_checkpoint_method until v3.0"));
  EXPECT_EQ(value_of(imported("megatron-args", list + "DDP_impl: local\ntransformer_impl: local\n"
                                                      "recompute_granularity: null\n"),
                     "software"),
            "megatron-lm-2023");
  EXPECT_EQ(
      value_of(imported("megatron-args", list + "DDP_impl: local\nrecompute_granularity: null\n"),
               "software"),
      "megatron-lm-2022");
  EXPECT_EQ(value_of(imported("megatron-args", list + "recompute_granularity: null\n"), "software"),
            "megatron-core");
}

TEST(ImportMegatron, UnknownArgumentsSuggestKnownOnes) {
  const ImportedRun run = with("--overlap-grad-reduc --frobnicate 3");
  ASSERT_EQ(run.unknown.size(), 2U);
  EXPECT_EQ(run.unknown[0].near, "--overlap-grad-reduce");
  EXPECT_EQ(run.unknown[1].near, "");
  EXPECT_THAT(run.scenario, HasSubstr("--overlap-grad-reduc in line 1; did you mean "
                                      "--overlap-grad-reduce?\n"));
  // Not what is there already.
  EXPECT_EQ(with("--num-layer 3").unknown[0].near, "");
}

TEST(ImportMegatron, WhatIsImportedLoadsWithoutAWarning) {
  const ImportedRun run = imported(
      "megatron-args", "export NCCL_IB_TIMEOUT=22\ntrain " + kSmall +
                           "--nnodes 1 --nproc_per_node 8 --save ckpt --save-interval 500");
  EXPECT_EQ(value_of(run, "env.NCCL_IB_TIMEOUT"), "\"22\"");
  EXPECT_THAT(testing::load(run.scenario).warnings, ElementsAre());
}

TEST(ImportMegatron, WhatIsNoTextInALogStaysOutOfTheScenario) {
  const ImportedRun run = imported("megatron-args",
                                   "--num-layers 4 --hidden-size 64 --num-attention-heads 4 "
                                   "--seq-length 8 --fo\xcfo 1 --b\x1b[31mar \xe2\x80 --ba\rz 2\n");
  EXPECT_EQ(value_of(run, "model.num_hidden_layers"), "4");  // so it is YAML
  EXPECT_THAT(run.scenario, HasSubstr("--fo\\xcfo"));
}

TEST(ImportMegatron, OnlyOneWayToStateChunks) {
  EXPECT_EQ(import_failure("megatron-args", kSmall + "--pipeline-model-parallel-size 2 "
                                                     "--num-layers-per-virtual-pipeline-stage 6 "
                                                     "--num-virtual-stages-per-pipeline-rank 2")
                .codes,
            "E332");
}

TEST(ImportMegatron, WhatMegatronAsksForIsAskedFor) {
  EXPECT_THAT(import_failure("megatron-args", "--bf16").lines,
              ElementsAre("E332 0:0 the file does not say --num-layers",
                          "E332 0:0 the file does not say --hidden-size",
                          "E332 0:0 the file does not say --num-attention-heads",
                          "E332 0:0 the file does not say --seq-length"));
  EXPECT_EQ(import_failure("megatron-args", "hello world").codes, "E330");
  EXPECT_EQ(import_failure("megatron-args", "").codes, "E330");
  EXPECT_EQ(import_failure("megatron-args", "{\"num_layers\": 3").codes, "E100");
}

TEST(ImportMegatron, AScriptLoadsAsAScenario) {
  const ImportedRun run = imported("megatron-args", import_sample("llama3_70b.args"));
  EXPECT_EQ(unknown(run), "--frobnicate@48:18 ");
  const Scenario s = testing::load(run.scenario);
  EXPECT_EQ(s.model.layers, 80);
  EXPECT_EQ(s.model.kv_heads, 8);
  EXPECT_EQ(s.model.vocab, 129024);  // 128256, padded to a multiple of 128 x 8
  EXPECT_EQ(s.plan.tp, 8);
  EXPECT_EQ(s.plan.pp, 4);
  EXPECT_EQ(s.plan.vpp, 4);
  EXPECT_EQ(s.plan.dp, 2);
  EXPECT_EQ(s.plan.zero, 1);
  EXPECT_TRUE(s.plan.sp);
  EXPECT_TRUE(s.plan.overlap.dp_grad);
  EXPECT_EQ(s.plan.recompute, Recompute::selective);
  EXPECT_EQ(s.plan.global_batch, 128);
  EXPECT_EQ(value_of(run, "env.CUDA_DEVICE_MAX_CONNECTIONS"), "\"1\"");
  EXPECT_FALSE(s.cluster.node.sharp);  // NCCL_NVLS_ENABLE=0
}

TEST(ImportMegatron, YamlOfArgumentsWithExperts) {
  const ImportedRun run = imported("megatron-args", import_sample("deepseek_v3.yaml"));
  EXPECT_EQ(unknown(run), "");
  EXPECT_EQ(value_of(run, "model.first_k_dense_replace"), "3");
  EXPECT_EQ(value_of(run, "model.vocab_size"), "129280");
  EXPECT_EQ(value_of(run, "parallel.ep"), "64");
  EXPECT_EQ(value_of(run, "recompute.modules"), "[moe_act, layernorm, mla_up_proj]");
  EXPECT_EQ(value_of(run, "cluster.nodes"), "128");  // 16 stages of 64 ranks
  EXPECT_EQ(value_of(run, "precision.preset"), "fp8-blockwise");
}

TEST(ImportMegatron, JsonIsTheSameAsALine) {
  const ImportedRun json = imported(
      "megatron-args",
      R"({"num_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "seq_length": 2048,
          "micro_batch_size": 2, "global_batch_size": 64, "vocab_size": 50257, "bf16": true,
          "attention_dropout": 0, "hidden_dropout": 0, "add_bias_linear": false, "fp8": null,
          "recompute_modules": ["core_attn"], "cp_comm_type": ["p2p"]})");
  EXPECT_EQ(value_of(json, "model.mlp_bias"), "false");
  EXPECT_EQ(value_of(json, "precision.preset"), "bf16-mixed");
  EXPECT_EQ(value_of(json, "model.num_hidden_layers"), "24");
}

// --- megatron-log ---

TEST(ImportLog, ArgumentsAndMeasuredIterations) {
  const ImportedRun run = imported("megatron-log", import_sample("train.log"));
  EXPECT_EQ(unknown(run), "");
  // The first of five is warm-up; the others have the last batch size: 4.0, 4.1, 4.2, 6.0 s.
  EXPECT_EQ(value_of(run, "measured.step_time"), "4150000us");
  EXPECT_EQ(value_of(run, "measured.peak_memory"), "32212779008B");  // 30720.5 MiB
  EXPECT_EQ(run.measured, "4 of 5 iterations (median 4.15 s, IQR 0.58)");
  const Scenario s = testing::load(run.scenario);
  EXPECT_EQ(s.plan.dp, 2);
  EXPECT_EQ(s.plan.zero, 1);
  EXPECT_EQ(s.model.attention_dropout, 0.1);
  ASSERT_EQ(s.measured.size(), 1U);
  EXPECT_NEAR(s.measured[0].step_time_s.value_or(0), 4.15, 1e-9);
}

TEST(ImportLog, ALauncherMayPutSomethingBeforeEachLine) {
  std::string text;
  std::istringstream lines(import_sample("train.log"));
  for (std::string line; std::getline(lines, line);) text += "[default0]:" + line + "\r\n";
  const ImportedRun run = imported("megatron-log", text);
  EXPECT_EQ(value_of(run, "measured.step_time"), "4150000us");
  EXPECT_EQ(value_of(run, "model.num_hidden_layers"), "40");
}

TEST(ImportLog, WithoutIterationsNothingIsMeasured) {
  const std::string text = import_sample("train.log");
  const ImportedRun run = imported("megatron-log", text.substr(0, text.find("> setting")));
  EXPECT_EQ(value_of(run, "measured"), "");
  EXPECT_THAT(notes(run), HasSubstr("nothing is measured"));
}

TEST(ImportLog, WhatCannotBeReadHasItsPlace) {
  EXPECT_EQ(import_failure("megatron-log", "hello\n").codes, "E330");
  std::string text = import_sample("train.log");
  const size_t at = text.find("4100.0");
  text.replace(at, 6, "41nan0");
  EXPECT_THAT(import_failure("megatron-log", text).lines,
              ElementsAre(HasSubstr("E331 62:120 this is no number")));
}

TEST(ImportLog, EveryBeginningOfALogIsReadOrRefused) {
  expect_beginnings_read_or_refused("megatron-log", import_sample("train.log"), 97);
}

}  // namespace
}  // namespace stepcast::import_megatron_test
