// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve/model_families.h"

#include <algorithm>
#include <array>
#include <iterator>

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

namespace {

// The keys that are read.  Those from `qkv_bias` on are ours: families have what they say without a
// key of their own.
constexpr std::string_view kVocabulary[] = {
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings", "hidden_act",
    "tie_word_embeddings", "attention_bias", "mlp_bias", "sliding_window", "use_sliding_window",
    "max_window_layers", "layer_types", "sliding_window_pattern", "parallel_attn", "num_experts",
    "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts",
    "shared_expert_intermediate_size", "first_k_dense_replace", "moe_layer_freq",
    "decoder_sparse_step", "mlp_only_layers", "n_group", "topk_group", "q_lora_rank",
    "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    "num_nextn_predict_layers", "num_decoder_layers", "type_vocab_size",
    "relative_attention_num_buckets", "feed_forward_proj",
    //
    "qkv_bias", "norm_bias", "use_qk_norm", "normalization", "gated_mlp", "position_embedding_type",
    "router_bias", "shared_expert_gate", "attention_sinks", "shared_input_norm", "bidirectional",
    "embedding_norm", "masked_head", "num_encoder_layers"};

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
    // loss and generation
    "do_sample", "is_decoder", "max_length", "output_attentions", "output_hidden_states",
    "return_dict", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "temperature", "top_k", "top_p", "torchscript",
    "use_bfloat16", "use_cache",
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

constexpr std::string_view kRefused[] = {"add_cross_attention", "is_encoder_decoder"};

template <class Range>
bool contains(const Range& words, std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

}  // namespace

ConfigKey find_config_key(const ModelFamily& family, std::string_view key) {
  for (const Alias& a : kAliases)
    if (a.from == key && (a.family.empty() || a.family == family.name)) return {KeyUse::read, a.to};
  if (contains(kVocabulary, key)) return {KeyUse::read, key};
  if (contains(kIgnored, key)) return {KeyUse::ignored, key};
  if (family.name == "t5" && key == "is_encoder_decoder") return {KeyUse::ignored, key};
  if (contains(kRefused, key)) return {KeyUse::refused, key};
  return {};
}

std::span<const std::string_view> config_vocabulary() {
  return kVocabulary;
}

}  // namespace stepcast
