// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve/model_families.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

namespace stepcast {

namespace {

// What most decoders of two generations have in common: of Llama's, and of GPT-2's.
constexpr std::string_view kGated = R"(
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)";
constexpr std::string_view kPlain = R"(
hidden_act: gelu
gated_mlp: false
normalization: layer_norm
position_embedding_type: learned
tie_word_embeddings: true
)";

// The classes' __init__ of transformers 4.57, src/transformers/models/*/configuration_*.py, and
// what their modeling_*.py build whatever the configuration says.  Written in the vocabulary.
constexpr std::array kModelTypes = {
    ModelFamily{"llama", R"(
vocab_size: 32000
hidden_size: 4096
intermediate_size: 11008
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 2048
)",
                kGated},
    ModelFamily{"mistral", R"(
vocab_size: 32000
hidden_size: 4096
intermediate_size: 14336
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 8
max_position_embeddings: 131072
sliding_window: 4096
)",
                kGated},
    ModelFamily{"qwen2", R"(
vocab_size: 151936
hidden_size: 4096
intermediate_size: 22016
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 32
max_position_embeddings: 32768
use_sliding_window: false
sliding_window: 4096
max_window_layers: 28
qkv_bias: true  # no key of theirs
)",
                kGated},
    ModelFamily{"qwen3", R"(
vocab_size: 151936
hidden_size: 4096
intermediate_size: 22016
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 32
head_dim: 128
max_position_embeddings: 32768
use_sliding_window: false
sliding_window: 4096
max_window_layers: 28
use_qk_norm: true  # no key of theirs
)",
                kGated},
    ModelFamily{"gpt2", R"(
vocab_size: 50257
hidden_size: 768
num_hidden_layers: 12
num_attention_heads: 12
max_position_embeddings: 1024
hidden_act: gelu_new
attention_bias: true
mlp_bias: true
)",
                kPlain},
    ModelFamily{"gpt_neox", R"(
vocab_size: 50432
hidden_size: 6144
intermediate_size: 24576
num_hidden_layers: 44
num_attention_heads: 64
max_position_embeddings: 2048
parallel_attn: true
position_embedding_type: rotary
attention_bias: true
mlp_bias: true
tie_word_embeddings: false
)",
                kPlain},
    ModelFamily{"mixtral", R"(
vocab_size: 32000
hidden_size: 4096
moe_intermediate_size: 14336
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 8
max_position_embeddings: 131072
num_experts: 8
num_experts_per_tok: 2
)",
                kGated},
    ModelFamily{"qwen2_moe", R"(
vocab_size: 151936
hidden_size: 2048
intermediate_size: 5632
num_hidden_layers: 24
num_attention_heads: 16
num_key_value_heads: 16
max_position_embeddings: 32768
use_sliding_window: false
sliding_window: 4096
max_window_layers: 28
num_experts: 60
num_experts_per_tok: 4
moe_intermediate_size: 1408
shared_expert_intermediate_size: 5632
shared_expert_gate: true  # no key of theirs
qkv_bias: true
)",
                kGated},
    ModelFamily{"qwen3_moe", R"(
vocab_size: 151936
hidden_size: 2048
intermediate_size: 6144
num_hidden_layers: 24
num_attention_heads: 32
num_key_value_heads: 4
max_position_embeddings: 32768
use_sliding_window: false
sliding_window: 4096
max_window_layers: 28
num_experts: 128
num_experts_per_tok: 8
moe_intermediate_size: 768
use_qk_norm: true  # no key of theirs
)",
                kGated},
    ModelFamily{"llama4_text", R"(
vocab_size: 202048
hidden_size: 5120
intermediate_size: 8192
intermediate_size_mlp: 16384
num_hidden_layers: 48
num_attention_heads: 40
num_key_value_heads: 8
head_dim: 128
max_position_embeddings: 131072
num_experts: 16
num_experts_per_tok: 1
interleave_moe_layer_step: 1
n_shared_experts: 1  # no key of theirs
use_qk_norm: true
qk_norm_weights: none  # no key of theirs
)",
                kGated},
    ModelFamily{"gemma4_text", R"(
vocab_size: 262144
hidden_size: 2304
intermediate_size: 9216
num_hidden_layers: 30
num_attention_heads: 8
num_key_value_heads: 4
head_dim: 256
global_head_dim: 512
attention_k_eq_v: false
enable_moe_block: false
max_position_embeddings: 131072
sliding_window: 512
sliding_window_pattern: 6  # where layer_types is not given
use_qk_norm: true  # no key of theirs
value_norm: true
branch_norms: true
hidden_act: gelu_pytorch_tanh
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"mimo_v2_flash", R"(
vocab_size: 152576
hidden_size: 4096
intermediate_size: 16384
num_hidden_layers: 48
num_attention_heads: 64
num_key_value_heads: 4
head_dim: 192
v_head_dim: 128
swa_num_key_value_heads: 8
sliding_window: 128
add_swa_attention_sink_bias: true
max_position_embeddings: 262144
num_experts: 256
num_experts_per_tok: 8
moe_intermediate_size: 2048
router_bias: true  # e_score_correction_bias, no key of theirs
)",
                kGated},
    ModelFamily{"nemotron-nas", R"(
vocab_size: 32000
hidden_size: 4096
num_hidden_layers: 32
num_attention_heads: 32
intermediate_size: 11008  # where block_configs does not say it
block_configs: null
max_position_embeddings: 2048
)",
                kGated},
    ModelFamily{"deepseek_v2", R"(
vocab_size: 32000
hidden_size: 4096
intermediate_size: 11008
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 2048
num_experts: 64
num_experts_per_tok: 6  # must be given: None
moe_intermediate_size: 1407
n_shared_experts: 2
first_k_dense_replace: 0
q_lora_rank: 1536
kv_lora_rank: 512
qk_nope_head_dim: 128
qk_rope_head_dim: 64
v_head_dim: 128
)",
                kGated},
    ModelFamily{"deepseek_v3", R"(
vocab_size: 129280
hidden_size: 7168
intermediate_size: 18432
num_hidden_layers: 61
num_attention_heads: 128
max_position_embeddings: 4096
num_experts: 256
num_experts_per_tok: 8
moe_intermediate_size: 2048
n_shared_experts: 1
n_group: 8
topk_group: 4
first_k_dense_replace: 3
router_bias: true  # e_score_correction_bias, no key of theirs
q_lora_rank: 1536
kv_lora_rank: 512
qk_nope_head_dim: 128
qk_rope_head_dim: 64
v_head_dim: 128
)",
                kGated},
    ModelFamily{"deepseek_v32", R"(
vocab_size: 129280
hidden_size: 7168
intermediate_size: 18432
num_hidden_layers: 61
num_attention_heads: 128
max_position_embeddings: 163840
num_experts: 256
num_experts_per_tok: 8
moe_intermediate_size: 2048
n_shared_experts: 1
n_group: 8
topk_group: 4
first_k_dense_replace: 3
router_bias: true  # e_score_correction_bias, no key of theirs
q_lora_rank: 1536
kv_lora_rank: 512
qk_nope_head_dim: 128
qk_rope_head_dim: 64
v_head_dim: 128
index_topk: 2048
index_n_heads: 64
index_head_dim: 128
)",
                kGated},
    ModelFamily{"deepseek_v4", R"(
vocab_size: 129280
hidden_size: 4096
num_hidden_layers: 43
num_attention_heads: 64
num_key_value_heads: 1
head_dim: 512
max_position_embeddings: 1048576
sliding_window: 128
compress_ratios: null  # where layer_types is not given either
compress_rates: null
q_lora_rank: 1024
qk_rope_head_dim: 64
o_groups: 8
o_lora_rank: 1024
index_topk: 512
index_n_heads: 64
index_head_dim: 128
hc_mult: 4
attention_sinks: true  # no key of theirs
num_experts: 256
num_experts_per_tok: 6
moe_intermediate_size: 2048
n_shared_experts: 1
num_hash_layers: 3
router_bias: true  # e_score_correction_bias, no key of theirs
)",
                kGated},
    ModelFamily{"glm_moe_dsa", R"(
vocab_size: 154880
hidden_size: 6144
intermediate_size: 12288
num_hidden_layers: 78
num_attention_heads: 64
max_position_embeddings: 202752
num_experts: 256
num_experts_per_tok: 8
moe_intermediate_size: 2048
n_shared_experts: 1
n_group: 1
topk_group: 1
first_k_dense_replace: 3
router_bias: true  # e_score_correction_bias, no key of theirs
q_lora_rank: 2048
kv_lora_rank: 512
qk_nope_head_dim: 192
qk_rope_head_dim: 64
v_head_dim: 256
index_topk: 2048
index_n_heads: 32
index_head_dim: 128
)",
                kGated},
    ModelFamily{"qwen3_next", R"(
vocab_size: 151936
hidden_size: 2048
intermediate_size: 5632
num_hidden_layers: 48
num_attention_heads: 16
num_key_value_heads: 2
head_dim: 256
max_position_embeddings: 32768
num_experts: 512
num_experts_per_tok: 10
moe_intermediate_size: 512
shared_expert_intermediate_size: 512
shared_expert_gate: true  # no key of theirs
linear_mixer: gated_delta_net  # no key of theirs
linear_num_value_heads: 32
linear_num_key_heads: 16
linear_value_head_dim: 128
linear_key_head_dim: 128
linear_conv_kernel_dim: 4
linear_chunk_size: 64  # no key of theirs: of flash-linear-attention
full_attention_interval: 4
attn_output_gate: true  # every layer has it, with the key or without
use_qk_norm: true  # no key of theirs
)",
                kGated},
    ModelFamily{"qwen3_5_text", R"(
vocab_size: 248320
hidden_size: 4096
intermediate_size: 12288
num_hidden_layers: 32
num_attention_heads: 16
num_key_value_heads: 4
head_dim: 256
max_position_embeddings: 32768
linear_mixer: gated_delta_net  # no key of theirs
linear_num_value_heads: 32
linear_num_key_heads: 16
linear_value_head_dim: 128
linear_key_head_dim: 128
linear_conv_kernel_dim: 4
linear_chunk_size: 64  # no key of theirs: of flash-linear-attention
full_attention_interval: 4
attn_output_gate: true  # every layer has it, with the key or without
use_qk_norm: true  # no key of theirs
)",
                kGated},
    ModelFamily{"qwen3_5_moe_text", R"(
vocab_size: 248320
hidden_size: 2048
num_hidden_layers: 40
num_attention_heads: 16
num_key_value_heads: 2
head_dim: 256
max_position_embeddings: 32768
num_experts: 256
num_experts_per_tok: 8
moe_intermediate_size: 512
shared_expert_intermediate_size: 512
shared_expert_gate: true  # no key of theirs
linear_mixer: gated_delta_net  # no key of theirs
linear_num_value_heads: 32
linear_num_key_heads: 16
linear_value_head_dim: 128
linear_key_head_dim: 128
linear_conv_kernel_dim: 4
linear_chunk_size: 64  # no key of theirs: of flash-linear-attention
full_attention_interval: 4
attn_output_gate: true  # every layer has it, with the key or without
use_qk_norm: true  # no key of theirs
)",
                kGated},
    // Layers of one branch each, a state space, attention, experts or an MLP.
    ModelFamily{"nemotron_h", R"(
vocab_size: 131072
hidden_size: 4096
intermediate_size: 21504
num_attention_heads: 32
num_key_value_heads: 8
head_dim: 128
max_position_embeddings: 4096
num_experts: 8
num_experts_per_tok: 2
moe_intermediate_size: 7688
shared_expert_intermediate_size: 7688
moe_latent_size: 0
router_bias: true  # e_score_correction_bias, no key of theirs
hybrid_override_pattern: null  # or this, as layers_block_type:
layer_types: [linear_attention, moe, full_attention, mlp]
one_branch_layers: true  # no key of theirs
linear_mixer: mamba2  # likewise
linear_num_value_heads: 128
linear_num_key_heads: 8
linear_value_head_dim: 64
linear_key_head_dim: 128
linear_conv_kernel_dim: 4
linear_conv_bias: true
linear_chunk_size: 128
hidden_act: relu2
gated_mlp: false
normalization: rms_norm
position_embedding_type: none
tie_word_embeddings: false
)"},
    ModelFamily{"bamba", R"(
vocab_size: 128000
hidden_size: 4096
intermediate_size: 14336
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 8
max_position_embeddings: 262144
attn_layer_indices: []
linear_mixer: mamba2  # no key of theirs
linear_num_value_heads: 128
linear_num_key_heads: 1
linear_value_head_dim: auto
linear_key_head_dim: 256
linear_conv_kernel_dim: 4
linear_conv_bias: true
linear_chunk_size: 256
)",
                kGated},
    // Without experts what it calls the shared expert is the MLP.
    ModelFamily{"granitemoehybrid", R"(
vocab_size: 32000
hidden_size: 4096
moe_intermediate_size: 11008
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 2048
num_experts: 8
num_experts_per_tok: 2
shared_expert_intermediate_size: 1024
attn_layer_indices: []  # where layer_types says nothing
linear_mixer: mamba2  # no key of theirs
linear_num_value_heads: 128
linear_num_key_heads: 1
linear_value_head_dim: auto
linear_key_head_dim: 256
linear_conv_kernel_dim: 4
linear_conv_bias: true
linear_chunk_size: 256
position_embedding_type: none
)",
                kGated},
    // Every second layer has a window of 128 tokens.
    ModelFamily{"gpt_oss", R"(
vocab_size: 201088
hidden_size: 2880
moe_intermediate_size: 2880
num_hidden_layers: 36
num_attention_heads: 64
num_key_value_heads: 8
head_dim: 64
max_position_embeddings: 131072
sliding_window: 128
sliding_window_pattern: 2
num_experts: 128
num_experts_per_tok: 4
attention_bias: true
mlp_bias: true         # of the experts; no key of theirs
router_bias: true      # likewise
attention_sinks: true  # likewise
)",
                kGated},
    ModelFamily{"gemma", R"(
vocab_size: 256000
hidden_size: 3072
intermediate_size: 24576
num_hidden_layers: 28
num_attention_heads: 16
num_key_value_heads: 16
head_dim: 256
max_position_embeddings: 8192
hidden_act: gelu  # hidden_activation
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"gemma2", R"(
vocab_size: 256000
hidden_size: 2304
intermediate_size: 9216
num_hidden_layers: 26
num_attention_heads: 8
num_key_value_heads: 4
head_dim: 256
max_position_embeddings: 8192
sliding_window: 4096
sliding_window_pattern: 2
branch_norms: true  # no key of theirs
hidden_act: gelu  # hidden_activation
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"gemma3_text", R"(
vocab_size: 262208
hidden_size: 2304
intermediate_size: 9216
num_hidden_layers: 26
num_attention_heads: 8
num_key_value_heads: 4
head_dim: 256
max_position_embeddings: 131072
sliding_window: 4096
sliding_window_pattern: 6
use_qk_norm: true   # no key of theirs
branch_norms: true  # likewise
hidden_act: gelu  # hidden_activation
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"phi3", R"(
vocab_size: 32064
hidden_size: 3072
intermediate_size: 8192
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 4096
)",
                kGated},
    // Norms follow attention and MLP, as many as if they came before.
    ModelFamily{"olmo2", R"(
vocab_size: 50304
hidden_size: 4096
intermediate_size: 11008
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 2048
use_qk_norm: true          # no key of theirs
qk_norm_weights: of_heads  # likewise
)",
                kGated},
    ModelFamily{"olmo3", R"(
vocab_size: 50304
hidden_size: 4096
intermediate_size: 11008
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 2048
use_qk_norm: true          # no key of theirs
qk_norm_weights: of_heads  # likewise
sliding_window: 4096
sliding_window_pattern: 4
)",
                kGated},
    ModelFamily{"olmoe", R"(
vocab_size: 50304
hidden_size: 2048
moe_intermediate_size: 2048
num_hidden_layers: 16
num_attention_heads: 16
max_position_embeddings: 4096
num_experts: 64
num_experts_per_tok: 8
use_qk_norm: true          # no key of theirs
qk_norm_weights: of_heads  # likewise
)",
                kGated},
    ModelFamily{"falcon", R"(
vocab_size: 65024
hidden_size: 4544
num_hidden_layers: 32
num_attention_heads: 71
max_position_embeddings: 2048
multi_query: true
new_decoder_architecture: false
parallel_attn: true
shared_input_norm: true  # not with new_decoder_architecture
position_embedding_type: rotary
)",
                kPlain},
    ModelFamily{"cohere", R"(
vocab_size: 256000
hidden_size: 8192
intermediate_size: 22528
num_hidden_layers: 40
num_attention_heads: 64
max_position_embeddings: 8192
parallel_attn: true      # no key of theirs
shared_input_norm: true  # likewise
norm_bias: false         # likewise
qk_norm_weights: of_heads  # of use_qk_norm
normalization: layer_norm
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"cohere2", R"(
vocab_size: 256000
hidden_size: 8192
intermediate_size: 22528
num_hidden_layers: 40
num_attention_heads: 64
max_position_embeddings: 8192
parallel_attn: true      # no key of theirs
shared_input_norm: true  # likewise
norm_bias: false         # likewise
sliding_window: 4096
sliding_window_pattern: 4
normalization: layer_norm
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"glm", R"(
vocab_size: 151552
hidden_size: 4096
intermediate_size: 13696
num_hidden_layers: 40
num_attention_heads: 32
num_key_value_heads: 2
head_dim: 128
max_position_embeddings: 131072
qkv_bias: true  # attention_bias
)",
                kGated},
    ModelFamily{"glm4", R"(
vocab_size: 151552
hidden_size: 4096
intermediate_size: 13696
num_hidden_layers: 40
num_attention_heads: 32
num_key_value_heads: 2
head_dim: 128
max_position_embeddings: 131072
branch_norms: true  # no key of theirs
)",
                kGated},
    ModelFamily{"glm4_moe", R"(
vocab_size: 151552
hidden_size: 4096
intermediate_size: 10944
num_hidden_layers: 46
num_attention_heads: 96
num_key_value_heads: 8
head_dim: 128
max_position_embeddings: 131072
num_experts: 128
num_experts_per_tok: 8
moe_intermediate_size: 1408
n_shared_experts: 1
first_k_dense_replace: 1
router_bias: true  # no key of theirs
)",
                kGated},
    ModelFamily{"starcoder2", R"(
vocab_size: 49152
hidden_size: 3072
intermediate_size: 12288
num_hidden_layers: 30
num_attention_heads: 24
num_key_value_heads: 2
max_position_embeddings: 4096
use_bias: true
position_embedding_type: rotary
)",
                kPlain},
    ModelFamily{"gpt_bigcode", R"(
vocab_size: 50257
hidden_size: 768
num_hidden_layers: 12
num_attention_heads: 12
max_position_embeddings: 1024
multi_query: true
attention_bias: true
mlp_bias: true
)",
                kPlain},
    ModelFamily{"stablelm", R"(
vocab_size: 50304
hidden_size: 2560
intermediate_size: 6912
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 32
max_position_embeddings: 4096
shared_input_norm: true  # of use_parallel_residual
normalization: layer_norm
)",
                kGated},
    ModelFamily{"nemotron", R"(
vocab_size: 256000
hidden_size: 6144
intermediate_size: 24576
num_hidden_layers: 32
num_attention_heads: 48
max_position_embeddings: 4096
hidden_act: relu2
gated_mlp: false
normalization: layer_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
    ModelFamily{"minimax_m2", R"(
vocab_size: 200064
hidden_size: 3072
moe_intermediate_size: 1536
num_hidden_layers: 62
num_attention_heads: 48
num_key_value_heads: 8
head_dim: 128
max_position_embeddings: 196608
num_experts: 256
num_experts_per_tok: 8
router_bias: true          # use_routing_bias
use_qk_norm: true
qk_norm_weights: of_heads  # no key of theirs
)",
                kGated},
    ModelFamily{"granitemoe", R"(
vocab_size: 32000
hidden_size: 4096
moe_intermediate_size: 11008
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 2048
num_experts: 8
num_experts_per_tok: 2
)",
                kGated},
    ModelFamily{"smollm3", R"(
vocab_size: 128256
hidden_size: 2048
intermediate_size: 11008
num_hidden_layers: 36
num_attention_heads: 16
num_key_value_heads: 4
max_position_embeddings: 32768
use_sliding_window: false
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"ernie4_5", R"(
vocab_size: 103424
hidden_size: 1024
intermediate_size: 3072
num_hidden_layers: 18
num_attention_heads: 16
num_key_value_heads: 2
head_dim: 128
max_position_embeddings: 131072
tie_word_embeddings: true
)",
                kGated},
    ModelFamily{"seed_oss", R"(
vocab_size: 155136
hidden_size: 4096
intermediate_size: 27648
num_hidden_layers: 64
num_attention_heads: 80
num_key_value_heads: 8
head_dim: 128
max_position_embeddings: 524288
qkv_bias: true  # attention_bias
)",
                kGated},
    ModelFamily{"arcee", R"(
vocab_size: 32000
hidden_size: 2560
intermediate_size: 18432
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 4096
hidden_act: relu2
gated_mlp: false
)",
                kGated},
    // Norms follow attention and MLP, as many as if they came before.
    ModelFamily{"exaone4", R"(
vocab_size: 102400
hidden_size: 4096
intermediate_size: 16384
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 32
max_position_embeddings: 2048
sliding_window: 4096
sliding_window_pattern: 4
use_qk_norm: true  # no key of theirs
)",
                kGated},
    ModelFamily{"hunyuan_v1_dense", R"(
vocab_size: 290943
hidden_size: 4096
intermediate_size: 11008
num_hidden_layers: 32
num_attention_heads: 32
max_position_embeddings: 2048
use_qk_norm: true  # no key of theirs
)",
                kGated},
    ModelFamily{"dots1", R"(
vocab_size: 152064
hidden_size: 4608
intermediate_size: 10944
num_hidden_layers: 62
num_attention_heads: 32
num_key_value_heads: 32
max_position_embeddings: 2048
sliding_window: 4096
max_window_layers: 62
moe_intermediate_size: 1408
first_k_dense_replace: 0
router_bias: true  # e_score_correction_bias, no key of theirs
use_qk_norm: true  # no key of theirs
)",
                kGated},
    ModelFamily{"glm4_moe_lite", R"(
vocab_size: 154880
hidden_size: 2048
intermediate_size: 10240
num_hidden_layers: 47
num_attention_heads: 20
max_position_embeddings: 202752
num_experts: 64
num_experts_per_tok: 4
moe_intermediate_size: 1536
n_shared_experts: 1
first_k_dense_replace: 1  # mlp_layer_types
router_bias: true  # e_score_correction_bias, no key of theirs
q_lora_rank: 768
kv_lora_rank: 512
qk_nope_head_dim: 192
qk_rope_head_dim: 64
v_head_dim: 256
)",
                kGated},
    // BertForPreTraining.  Norms follow the residual sums, as many as if they came before.
    ModelFamily{"bert", R"(
vocab_size: 30522
hidden_size: 768
intermediate_size: 3072
num_hidden_layers: 12
num_attention_heads: 12
max_position_embeddings: 512
type_vocab_size: 2
attention_bias: true
mlp_bias: true
bidirectional: true   # no key of theirs
embedding_norm: true  # likewise
masked_head: true     # likewise
)",
                kPlain},
    ModelFamily{"t5", R"(
vocab_size: 32128
hidden_size: 512
head_dim: 64
intermediate_size: 2048
num_encoder_layers: 6  # num_layers
num_attention_heads: 8
relative_attention_num_buckets: 32
feed_forward_proj: relu
normalization: rms_norm
position_embedding_type: none
tie_word_embeddings: true
)"},
};

constexpr std::array kBaseFamilies = {
    ModelFamily{"gpt", R"(
attention_bias: true
mlp_bias: true
)",
                kPlain},
    ModelFamily{"llama", R"(
)",
                kGated},
};

// Other model_types whose classes build the same from the same keys.
struct SameFamily {
  std::string_view name, as;
};
constexpr SameFamily kSameFamilies[] = {
    {"llama4", "llama4_text"},
    {"gemma3", "gemma3_text"},
    {"qwen2_vl", "qwen2"},
    {"qwen2_vl_text", "qwen2"},
    {"qwen2_5_vl", "qwen2"},
    {"qwen2_5_vl_text", "qwen2"},
    {"qwen2_5_omni_text", "qwen2"},
    {"qwen2_audio", "qwen2"},
    {"mimo", "qwen2"},
    {"qwen3_vl", "qwen3"},
    {"qwen3_vl_text", "qwen3"},
    {"qwen3_vl_moe", "qwen3_moe"},
    {"qwen3_vl_moe_text", "qwen3_moe"},
    {"qwen3_omni_moe_text", "qwen3_moe"},
    {"kimi_k2", "deepseek_v3"},
    {"kimi_k25", "deepseek_v3"},
    {"kimi_vl", "deepseek_v3"},
    {"moonshot", "deepseek_v3"},
    {"deepseek_ref", "deepseek_v4"},  // of SGLang's checkpoints
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"glm4v", "glm4"},
    {"glm4v_text", "glm4"},
    {"glm4v_moe", "glm4_moe"},
    {"glm4v_moe_text", "glm4_moe"},
    {"mllama_text_model", "llama"},
    {"granite", "llama"},
    {"internlm2", "llama"},
    {"internlm3", "llama"},
    {"baichuan", "llama"},
    {"yi", "llama"},
    {"aquila", "llama"},
    {"xverse", "llama"},
    {"mistral3", "mistral"},
    {"ministral", "mistral"},
    {"phi4_multimodal", "phi3"},
    {"phi4mm", "phi3"},
    {"phi3_v", "phi3"},
};

const ModelFamily* find_by_name(std::span<const ModelFamily> families, std::string_view name) {
  for (const ModelFamily& f : families)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace

const ModelFamily* find_model_type(std::string_view model_type) {
  for (const SameFamily& f : kSameFamilies)
    if (f.name == model_type) return find_by_name(kModelTypes, f.as);
  return find_by_name(kModelTypes, model_type);
}

std::span<const ModelFamily> model_types() {
  return kModelTypes;
}

const ModelFamily* find_base_family(std::string_view preset) {
  return find_by_name(kBaseFamilies, preset);
}

std::span<const ModelFamily> base_families() {
  return kBaseFamilies;
}

namespace {

// The keys that are read.  Those from `qkv_bias` on are ours: families have what they say without a
// key of their own.
constexpr std::string_view kVocabulary[] = {"vocab_size",
                                            "hidden_size",
                                            "intermediate_size",
                                            "num_hidden_layers",
                                            "num_attention_heads",
                                            "num_key_value_heads",
                                            "head_dim",
                                            "max_position_embeddings",
                                            "hidden_act",
                                            "tie_word_embeddings",
                                            "attention_bias",
                                            "mlp_bias",
                                            "sliding_window",
                                            "use_sliding_window",
                                            "max_window_layers",
                                            "layer_types",
                                            "sliding_window_pattern",
                                            "parallel_attn",
                                            "num_experts",
                                            "num_experts_per_tok",
                                            "moe_intermediate_size",
                                            "n_shared_experts",
                                            "shared_expert_intermediate_size",
                                            "first_k_dense_replace",
                                            "moe_layer_freq",
                                            "decoder_sparse_step",
                                            "mlp_only_layers",
                                            "n_group",
                                            "topk_group",
                                            "q_lora_rank",
                                            "kv_lora_rank",
                                            "qk_nope_head_dim",
                                            "qk_rope_head_dim",
                                            "v_head_dim",
                                            "num_nextn_predict_layers",
                                            "num_decoder_layers",
                                            "type_vocab_size",
                                            "multi_query",
                                            "new_decoder_architecture",
                                            "use_bias",
                                            "alibi",
                                            "relative_attention_num_buckets",
                                            "feed_forward_proj",  //
                                            "qkv_bias",
                                            "norm_bias",
                                            "use_qk_norm",
                                            "normalization",
                                            "gated_mlp",
                                            "position_embedding_type",
                                            "router_bias",
                                            "shared_expert_gate",
                                            "attention_sinks",
                                            "shared_input_norm",
                                            "qk_norm_weights",
                                            "branch_norms",
                                            "bidirectional",
                                            "embedding_norm",
                                            "masked_head",
                                            "num_encoder_layers"};

// Those of parts that few models have: suggested for a key only where none of the others comes
// close.
constexpr std::string_view kRareVocabulary[] = {
    "index_topk", "index_n_heads", "index_head_dim", "indexer_types", "index_topk_freq",
    "index_skip_topk_offset", "mlp_layer_types", "moe_latent_size", "hybrid_override_pattern",
    "attn_layer_indices", "mtp_layers_block_type", "mtp_hybrid_override_pattern",
    "attn_output_gate", "full_attention_interval", "linear_num_value_heads", "linear_num_key_heads",
    "linear_value_head_dim", "linear_key_head_dim", "linear_conv_kernel_dim",
    //
    "linear_mixer", "linear_conv_bias", "linear_bias", "linear_chunk_size", "one_branch_layers",
    "compress_ratios", "compress_rates", "o_groups", "o_lora_rank", "hc_mult", "num_hash_layers",
    "index_topk_pattern", "enable_moe_block", "mamba_expand", "value_norm", "block_configs",
    "global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "hybrid_layer_pattern",
    "swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim",
    "add_swa_attention_sink_bias"};

// Other names of the same; `family` empty: in every one.
struct Alias {
  std::string_view family, from, to;
};
constexpr Alias kAliases[] = {
    {"", "use_parallel_residual", "parallel_attn"},
    {"", "n_layer", "num_hidden_layers"},
    {"", "n_embd", "hidden_size"},
    {"", "n_head", "num_attention_heads"},
    {"", "n_inner", "intermediate_size"},
    {"", "n_positions", "max_position_embeddings"},
    {"", "activation_function", "hidden_act"},
    {"", "num_local_experts", "num_experts"},
    {"", "n_routed_experts", "num_experts"},
    {"", "num_experts_per_token", "num_experts_per_tok"},
    {"", "moe_num_experts", "num_experts"},
    {"", "moe_k", "num_experts_per_tok"},
    {"", "use_qkv_bias", "qkv_bias"},
    {"qwen3_5_text", "mtp_num_hidden_layers", "num_nextn_predict_layers"},
    {"qwen3_5_moe_text", "mtp_num_hidden_layers", "num_nextn_predict_layers"},
    {"nemotron_h", "layers_block_type", "layer_types"},
    {"nemotron_h", "attention_head_dim", "head_dim"},
    {"nemotron_h", "mlp_hidden_act", "hidden_act"},
    {"nemotron_h", "moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"},
    {"nemotron_h", "mamba_num_heads", "linear_num_value_heads"},
    {"nemotron_h", "mamba_head_dim", "linear_value_head_dim"},
    {"nemotron_h", "n_groups", "linear_num_key_heads"},
    {"nemotron_h", "ssm_state_size", "linear_key_head_dim"},
    {"nemotron_h", "conv_kernel", "linear_conv_kernel_dim"},
    {"nemotron_h", "use_conv_bias", "linear_conv_bias"},
    {"nemotron_h", "use_bias", "linear_bias"},
    {"nemotron_h", "chunk_size", "linear_chunk_size"},
    {"bamba", "mamba_n_heads", "linear_num_value_heads"},
    {"bamba", "mamba_d_head", "linear_value_head_dim"},
    {"bamba", "mamba_n_groups", "linear_num_key_heads"},
    {"bamba", "mamba_d_state", "linear_key_head_dim"},
    {"bamba", "mamba_d_conv", "linear_conv_kernel_dim"},
    {"bamba", "mamba_conv_bias", "linear_conv_bias"},
    {"bamba", "mamba_proj_bias", "linear_bias"},
    {"bamba", "mamba_chunk_size", "linear_chunk_size"},
    {"granitemoehybrid", "layers_block_type", "layer_types"},
    {"granitemoehybrid", "mamba_n_heads", "linear_num_value_heads"},
    {"granitemoehybrid", "mamba_d_head", "linear_value_head_dim"},
    {"granitemoehybrid", "mamba_n_groups", "linear_num_key_heads"},
    {"granitemoehybrid", "mamba_d_state", "linear_key_head_dim"},
    {"granitemoehybrid", "mamba_d_conv", "linear_conv_kernel_dim"},
    {"granitemoehybrid", "mamba_conv_bias", "linear_conv_bias"},
    {"granitemoehybrid", "mamba_proj_bias", "linear_bias"},
    {"granitemoehybrid", "mamba_chunk_size", "linear_chunk_size"},
    {"granitemoehybrid", "intermediate_size", "moe_intermediate_size"},
    {"granitemoehybrid", "shared_intermediate_size", "shared_expert_intermediate_size"},
    {"falcon", "num_kv_heads", "num_key_value_heads"},
    {"falcon", "ffn_hidden_size", "intermediate_size"},
    {"falcon", "bias", "use_bias"},
    {"llama", "bias", "attention_bias"},  // InternLM 2
    {"phi3", "num_key_value_head", "num_key_value_heads"},
    // They have no bias of the output projection.
    {"glm", "attention_bias", "qkv_bias"},
    {"glm4", "attention_bias", "qkv_bias"},
    {"glm4_moe", "attention_bias", "qkv_bias"},
    {"seed_oss", "attention_bias", "qkv_bias"},
    {"minimax_m2", "use_routing_bias", "router_bias"},
    {"mimo_v2_flash", "add_full_attention_sink_bias", "attention_sinks"},
    {"gemma4_text", "top_k_experts", "num_experts_per_tok"},
    {"gemma4_text", "expert_intermediate_size", "moe_intermediate_size"},
    {"minimax_m2", "intermediate_size", "moe_intermediate_size"},
    {"minimax_m2", "shared_intermediate_size", "shared_expert_intermediate_size"},
    {"olmoe", "intermediate_size", "moe_intermediate_size"},
    {"granitemoe", "intermediate_size", "moe_intermediate_size"},
    {"t5", "d_model", "hidden_size"},
    {"t5", "d_kv", "head_dim"},
    {"t5", "d_ff", "intermediate_size"},
    {"t5", "num_heads", "num_attention_heads"},
    {"t5", "num_layers", "num_encoder_layers"},
    // The width of one expert: these have no dense layers.
    {"mixtral", "intermediate_size", "moe_intermediate_size"},
    {"gpt_oss", "intermediate_size", "moe_intermediate_size"},
    // Here it is that of experts, routed and shared.
    {"llama4_text", "intermediate_size", "moe_intermediate_size"},
    {"llama4_text", "intermediate_size_mlp", "intermediate_size"},
    {"llama4_text", "interleave_moe_layer_step", "decoder_sparse_step"},
};

// Without effect on the cost of a training step.  Dropout is set under `kernels`: what the file of
// a trained model says about it is mostly for fine-tuning.
constexpr std::string_view kIgnored[] = {
    // names, versions, tokens, storage
    "_name_or_path", "name_or_path", "architectures", "auto_map", "bos_token_id",
    "decoder_start_token_id", "dtype", "eos_token_id", "finetuning_task", "id2label", "label2id",
    "pad_token_id", "problem_type", "quantization_config", "sep_token_id", "task_specific_params",
    "tokenizer_class", "torch_dtype", "transformers_version", "unsloth_fixed",
    // numerics and initialisation
    "initializer_range", "layer_norm_eps", "layer_norm_epsilon", "pretraining_tp", "rms_norm_eps",
    "swiglu_limit",
    // rotary embedding: the same work for any base, scaling or share of the head
    "initial_context_length", "partial_rotary_factor", "rope_interleave", "rope_parameters",
    "rope_scaling", "rope_theta", "rotary_emb_base", "rotary_pct",
    // dropout
    "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "classifier_dropout",
    "classifier_dropout_prob", "embd_pdrop", "hidden_dropout", "hidden_dropout_prob", "resid_pdrop",
    // inputs of other kinds, and what saves and loads
    "image_token_id", "image_token_index", "video_token_id", "audio_token_id",
    "vision_start_token_id", "vision_end_token_id", "vision_token_id", "boi_token_id",
    "eoi_token_id", "mm_tokens_per_image", "tokenizer_name", "pad_token", "unk_token_id",
    "mask_token_id", "model_name", "architecture", "base_model_name_or_path", "torch_dtype_str",
    "generation_config", "compression_config", "attn_implementation", "_attn_implementation",
    "_attn_implementation_autoset", "use_flash_attn", "use_flash_attention_2", "is_causal",
    "num_logits_to_keep", "use_kernels",
    // scalars that multiply a tensor in passing
    "logit_scale", "embedding_multiplier", "residual_multiplier", "attention_multiplier",
    "logits_scaling", "query_pre_attn_scalar", "clip_qkv", "qk_layernorm_eps", "norm_epsilon",
    "norm_eps", "layernorm_epsilon", "embedding_dropout", "residual_dropout", "initializer_std",
    "init_std", "use_gemma_norm", "rescale_prenorm_residual", "rope_local_base_freq", "rope_type",
    "rotary_dim", "rope_percent", "no_rope_layers", "no_rope_layer_interval", "use_rope",
    "cache_implementation", "original_max_position_embeddings", "rope_ratio", "use_mrope",
    "attn_temperature_tuning", "attn_scale", "floor_scale", "router_bias_update_rate",
    "moe_router_scaling_factor", "use_mtp", "n_hash_layers", "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32", "inference_runner", "validate_runner_input",
    "max_sequence_length", "max_batch_size", "pre_allocate_kv_cache", "use_dynamic_ntk",
    "use_logn_attn", "for_llm_init", "indexer_rope_interleave", "index_share_for_mtp_iteration",
    "moe_router_dtype", "mtp_use_dedicated_embeddings", "attn_type_list", "mamba_ssm_dtype",
    "mamba_ssm_cache_dtype", "use_mamba_kernels", "mamba_hidden_act", "mamba_proj_bias", "expand",
    "time_step_floor", "time_step_max", "time_step_min", "time_step_limit", "time_step_rank",
    "residual_in_fp32", "moe_shared_expert_overlap", "z_loss_coefficient", "normalization_function",
    "sliding_window_size", "partial_rotary_factors",
    // loss and generation
    "bad_words_ids", "begin_suppress_tokens", "chunk_size_feed_forward",
    "cross_attention_hidden_size", "diversity_penalty", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "prefix",
    "pruned_heads", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate",
    "suppress_tokens", "tf_legacy_loss", "tie_encoder_decoder", "typical_p", "do_sample",
    "is_decoder", "max_length", "output_attentions", "output_hidden_states", "return_dict",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj", "temperature", "top_k", "top_p", "torchscript", "use_bfloat16", "use_cache",
    // attention variants of the same work
    "gradient_checkpointing", "n_ctx", "n_special", "predict_special_tokens",
    "reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx", "scale_attn_weights",
    // router: where tokens go, not how many
    "aux_loss_alpha", "ep_size", "experts_per_token", "norm_topk_prob", "output_router_logits",
    "routed_scaling_factor", "router_aux_loss_coef", "router_jitter_noise", "scoring_func",
    "seq_aux", "topk_method",
    // BERT and T5
    "classifier_dropout_rate", "dense_act_fn", "directionality", "dropout_rate",
    "gradient_checkpointing_kwargs", "initializer_factor", "is_gated_act", "output_past",
    "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
    "pooler_type", "relative_attention_max_distance"};

// Names of a family that have no effect there: Gemma reads hidden_activation, which is a GELU.
struct KeyOfFamily {
  std::string_view family, key;
};
constexpr KeyOfFamily kIgnoredThere[] = {
    {"gemma", "hidden_act"},
    {"gemma", "hidden_activation"},
    {"gemma2", "hidden_act"},
    {"gemma2", "hidden_activation"},
    {"gemma3_text", "hidden_act"},
    {"gemma3_text", "hidden_activation"},
    {"gemma4_text", "hidden_act"},
    {"gemma4_text", "hidden_activation"},
    {"gemma4_text", "use_bidirectional_attention"},  // of images
    {"gemma4_text", "use_double_wide_mlp"},          // of layers that share keys and values
    {"gemma4_text", "vocab_size_per_layer_input"},
    {"mimo_v2_flash", "attention_chunk_size"},  // the window once more
    {"mimo_v2_flash", "attention_value_scale"},
    {"mimo_v2_flash", "swa_rope_theta"},
    {"deepseek_v3", "head_dim"},  // of the rotary part
    {"deepseek_v3", "qk_head_dim"},
    {"deepseek_v32", "head_dim"},
    {"deepseek_v32", "qk_head_dim"},
    {"glm_moe_dsa", "head_dim"},
    {"glm_moe_dsa", "qk_head_dim"},
    {"deepseek_v4", "attention_bias"},  // no linear layer has one
    {"deepseek_v4", "compress_rope_theta"},
    {"deepseek_v4", "expert_dtype"},
    {"deepseek_v4", "hc_eps"},
    {"deepseek_v4", "hc_sinkhorn_iters"},
    {"glm4_moe_lite", "head_dim"},
    {"granitemoehybrid", "normalization_function"},
    {"glm4_moe_lite", "qk_head_dim"},
    {"minimax_m2", "qk_norm_type"},
    {"t5", "is_encoder_decoder"},
};

// ... and that change the cost and are not modelled there: modules that predict from several
// residual streams.
constexpr KeyOfFamily kLeftOutThere[] = {{"deepseek_v4", "num_nextn_predict_layers"}};

// What changes the cost and is not modelled.
constexpr std::string_view kLeftOut[] = {
    "attention_chunk_size", "num_mtp_modules", "mtp_transformer_layers", "final_logit_softcapping",
    "attn_logit_softcapping", "vision_lora", "speech_lora",
    // refused where they are set (config_json.h)
    "add_cross_attention", "cross_attention_layers", "is_encoder_decoder", "ssm_state_size",
    "mamba_num_heads", "mamba_d_state", "state_size", "d_state", "ssm_cfg",
    "hybrid_override_pattern", "lru_width", "linear_num_value_heads", "linear_attn_config",
    "index_topk", "sparse_attention_config", "block_configs", "swa_num_key_value_heads",
    "global_head_dim", "hidden_size_per_layer_input", "lm_head_bias", "attention_out_bias",
    "num_kv_shared_layers", "attn_output_gate", "mla_use_output_gate", "qk_layernorm"};

template <class Range>
bool contains(const Range& words, std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

}  // namespace

ConfigKey find_config_key(const ModelFamily& family, std::string_view key) {
  for (const KeyOfFamily& k : kIgnoredThere)
    if (k.family == family.name && k.key == key) return {KeyUse::ignored, key};
  for (const KeyOfFamily& k : kLeftOutThere)
    if (k.family == family.name && k.key == key) return {KeyUse::left_out, key};
  for (const Alias& a : kAliases)
    if (a.from == key && (a.family.empty() || a.family == family.name)) return {KeyUse::read, a.to};
  if (contains(kVocabulary, key) || contains(kRareVocabulary, key)) return {KeyUse::read, key};
  if (contains(kIgnored, key)) return {KeyUse::ignored, key};
  if (contains(kLeftOut, key)) return {KeyUse::left_out, key};
  return {};
}

bool names_by_default(const ModelFamily& family, std::string_view key) {
  const std::string line = "\n" + std::string(key) + ':';
  for (const std::string_view text : {family.defaults, family.common})
    if (text.find(line) != std::string_view::npos) return true;
  return false;
}

std::span<const std::string_view> config_vocabulary() {
  return kVocabulary;
}

std::span<const std::string_view> rare_config_vocabulary() {
  return kRareVocabulary;
}

}  // namespace stepcast
