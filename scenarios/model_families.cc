// SPDX-License-Identifier: Apache-2.0
#include "scenarios/model_families.h"

#include <array>

namespace stepcast {
namespace {

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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
    ModelFamily{"mistral", R"(
vocab_size: 32000
hidden_size: 4096
intermediate_size: 14336
num_hidden_layers: 32
num_attention_heads: 32
num_key_value_heads: 8
max_position_embeddings: 131072
sliding_window: 4096
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
    ModelFamily{"gpt2", R"(
vocab_size: 50257
hidden_size: 768
num_hidden_layers: 12
num_attention_heads: 12
max_position_embeddings: 1024
hidden_act: gelu_new
gated_mlp: false
normalization: layer_norm
position_embedding_type: learned
attention_bias: true
mlp_bias: true
tie_word_embeddings: true
)"},
    ModelFamily{"gpt_neox", R"(
vocab_size: 50432
hidden_size: 6144
intermediate_size: 24576
num_hidden_layers: 44
num_attention_heads: 64
max_position_embeddings: 2048
parallel_attn: true
hidden_act: gelu
gated_mlp: false
normalization: layer_norm
position_embedding_type: rotary
attention_bias: true
mlp_bias: true
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
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
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
    // BertForPreTraining.  Norms follow the residual sums, as many as if they came before.
    ModelFamily{"bert", R"(
vocab_size: 30522
hidden_size: 768
intermediate_size: 3072
num_hidden_layers: 12
num_attention_heads: 12
max_position_embeddings: 512
type_vocab_size: 2
hidden_act: gelu
gated_mlp: false
normalization: layer_norm
position_embedding_type: learned
attention_bias: true
mlp_bias: true
bidirectional: true   # no key of theirs
embedding_norm: true  # likewise
masked_head: true     # likewise
tie_word_embeddings: true
)"},
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
hidden_act: gelu
gated_mlp: false
normalization: layer_norm
position_embedding_type: learned
attention_bias: true
mlp_bias: true
tie_word_embeddings: true
)"},
    ModelFamily{"llama", R"(
hidden_act: silu
gated_mlp: true
normalization: rms_norm
position_embedding_type: rotary
tie_word_embeddings: false
)"},
};

const ModelFamily* find_by_name(std::span<const ModelFamily> families, std::string_view name) {
  for (const ModelFamily& f : families)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace

const ModelFamily* find_model_type(std::string_view model_type) {
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

}  // namespace stepcast
