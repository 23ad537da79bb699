// SPDX-License-Identifier: Apache-2.0
#include "scenarios/config_keys.h"

#include <algorithm>
#include <iterator>

namespace stepcast {
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
