// SPDX-License-Identifier: Apache-2.0
// Megatron's arguments: which of them cost, and the forms in which they are kept but for scripts
// (script.cc).
//
// import_megatron_args reads a script or command line, the list that Megatron prints, YAML or JSON;
// import_megatron_log the list in a log, and what the log measured (run_log.h).  What the arguments
// become is in scenario.cc.
#include "scenarios/frameworks/megatron/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/script.h"
#include "scenarios/frameworks/run_log.h"
#include "sim/text.h"
#include "sim/units.h"

namespace stepcast {
namespace {

constexpr CostArgument kMegatron[] = {
    // The model.
    {"num_layers", "model.num_hidden_layers"},
    {"encoder_num_layers", "model.num_hidden_layers"},
    {"decoder_num_layers", "model.num_decoder_layers"},
    {"relative_attention_num_buckets", "model.relative_attention_num_buckets"},
    {"hidden_size", "model.hidden_size"},
    {"num_attention_heads", "model.num_attention_heads"},
    {"ffn_hidden_size", "model.intermediate_size", As::input(), "intermediate_size"},
    {"kv_channels", "model.head_dim"},
    {"group_query_attention", "model.num_key_value_heads"},
    {"num_query_groups", "model.num_key_value_heads"},
    // Of Megatron-DeepSpeed; epfLLM's.
    {"num_key_value_heads", "model.num_key_value_heads", As::input(), "num_attention_heads_kv"},
    {"attention_head_type", "model.num_key_value_heads"},  // BigCode's
    {"swiglu", "model.gated_mlp", As::input(), "gated_linear_unit"},
    {"glu_activation", "model.gated_mlp"},  // BigScience's
    // Megatron-LLaMA's; epfLLM's.
    {"RMSNorm", "model.normalization", As::input(), "use_rms_norm"},
    {"squared_relu", "model.hidden_act"},
    {"quick_geglu", "model.gated_mlp"},
    {"geglu", "model.gated_mlp"},  // Pai-Megatron-Patch's
    {"activation_func", "model.hidden_act"},
    {"normalization", "model.normalization"},
    {"untie_embeddings_and_output_weights", "model.tie_word_embeddings", As::input(),
     "no_tie_embed_logits", "share_embeddings_and_output_weights|tie_embed_logits"},
    {"add_bias_linear", "model.attention_bias", As::input(), "bias_linear"},
    {"add_qkv_bias", "model.qkv_bias"},
    {"bias_attn_fc", "model.attention_bias"},
    {"bias_linear_fc", "model.mlp_bias"},
    {"qk_layernorm", "model.use_qk_norm"},
    {"qk_l2_norm", "model.use_qk_norm"},
    {"position_embedding_type", "model.position_embedding_type"},
    {"use_rotary_position_embeddings", "model.position_embedding_type", As::input(),
     "use_llama2_rotary_position_embeddings"},
    {"use_alibi_mask", "model.position_embedding_type"},
    {"add_position_embedding", "model.position_embedding_type", As::input(), "position_embedding"},
    {"max_position_embeddings", "model.max_position_embeddings"},
    {"make_vocab_size_divisible_by", "model.vocab_size"},
    {"vocab_size", "model.vocab_size"},
    {"padded_vocab_size", "model.vocab_size", As::input(), "pad_vocab_size_to"},
    {"tokenizer_type", "model.vocab_size"},
    {"tokenizer_model", "model.vocab_size"},
    {"merge_file", "model.vocab_size"},
    {"vocab_file", "model.vocab_size"},
    {"vocab_extra_ids", "model.vocab_size"},
    {"window_size", "model.sliding_window"},
    {"sliding_window", "model.sliding_window"},
    {"window_attn_skip_freq", "model.layer_types"},
    {"softmax_type", "model.attention_sinks"},
    {"multi_latent_attention", "model.kv_lora_rank"},
    {"q_lora_rank", "model.q_lora_rank"},
    {"kv_lora_rank", "model.kv_lora_rank"},
    {"qk_head_dim", "model.qk_nope_head_dim", As::input(), "qk_nope_head_dim"},
    {"qk_pos_emb_head_dim", "model.qk_rope_head_dim", As::input(), "qk_rope_head_dim"},
    {"v_head_dim", "model.v_head_dim"},
    {"mtp_num_layers", "model.num_nextn_predict_layers"},
    {"num_experts", "model.num_experts", As::input(), "num_moe_experts"},
    {"moe_layer_freq", "model.mlp_only_layers"},
    {"moe_router_topk", "model.num_experts_per_tok", As::input(), "topk"},
    {"expert_interval", "model.mlp_only_layers"},  // Megatron-DeepSpeed
    {"mlp_type", "model"},
    {"moe_ffn_hidden_size", "model.moe_intermediate_size"},
    {"moe_shared_expert_intermediate_size", "model.shared_expert_intermediate_size"},
    {"moe_shared_expert_gate", "model.shared_expert_gate", As::input(),
     "moe_use_shared_expert_gate"},
    {"moe_router_num_groups", "model.n_group"},
    {"moe_router_group_topk", "model.topk_group"},
    {"moe_router_enable_expert_bias", "model.router_bias"},
    {"is_hybrid_model", "model.hybrid_override_pattern"},
    {"hybrid_layer_pattern", "model.hybrid_override_pattern", As::input(),
     "hybrid_override_pattern"},
    {"hybrid_attention_ratio", "model.hybrid_override_pattern"},
    {"hybrid_mlp_ratio", "model.hybrid_override_pattern"},
    {"spec", "model.hybrid_override_pattern"},
    {"mamba_head_dim", "model.mamba_head_dim"},
    {"mamba_num_heads", "model.mamba_num_heads"},
    {"mamba_num_groups", "model.n_groups"},
    {"mamba_state_dim", "model.ssm_state_size"},
    {"perform_rl_step", "model"},
    {"export_kd_teacher_load", "model"},
    {"flextron", "model"},
    {"num_layers_teacher", "model"},
    {"kd", "model"},
    {"freeze_LM", "model"},
    {"freeze_llm", "model"},
    {"tune_mm_mlp_adapter", "model"},
    {"bitfit", "model"},
    {"retro_add_retriever", "model"},
    {"transformer_type", "model"},
    {"no_train", "model"},
    {"skip_train", "model"},
    {"model_provider", "model"},
    {"llm_tp", "model"},
    {"encoder_tensor_model_parallel_size", "model"},
    {"encoder_pipeline_model_parallel_size", "model"},
    {"t5_swiglu", "model"},
    {"use_bnb_optimizer", "optimizer", As::left_out("false")},
    // Layers that mix tokens by a recurrence (megatron/core/models/gpt/
    // experimental_attention_variant_module_specs.py).
    {"experimental_attention_variant", "model.linear_mixer"},
    {"linear_attention_freq", "model.full_attention_interval"},
    {"linear_conv_kernel_dim", "model.linear_conv_kernel_dim"},
    {"linear_key_head_dim", "model.linear_key_head_dim"},
    {"linear_value_head_dim", "model.linear_value_head_dim"},
    {"linear_num_key_heads", "model.linear_num_key_heads"},
    {"linear_num_value_heads", "model.linear_num_value_heads"},
    {"attention_output_gate", "model.attn_output_gate"},
    {"embed_layernorm", "model", As::left_out("false")},
    {"use_checkpoint_args", "model", As::left_out("false")},
    {"language_model_type", "model", As::left_out("none|gpt")},
    {"img_h", "model", As::left_out("224")},  // an encoder of images; Megatron prints the default
    {"heterogeneous_layers_config_path", "model"},
    {"heterogeneous_layers_config_encoded_json", "model"},

    // How experts run.
    {"moe_token_dispatcher_type", "moe.dispatcher"},
    {"moe_flex_dispatcher_backend", "moe.dispatcher"},
    {"moe_enable_deepep", "moe.dispatcher"},
    {"moe_expert_capacity_factor", "moe.capacity_factor", As::input(), "moe_train_capacity_factor"},
    {"moe_pad_expert_input_to_capacity", "moe.pad_to_capacity"},
    {"moe_token_dropping", "moe.capacity_factor"},  // Megatron-DeepSpeed
    {"moe_grouped_gemm", "moe.grouped_gemm"},
    {"moe_permute_fusion", "moe.permute_fusion"},
    {"moe_router_fusion", "moe.router_fusion"},
    {"moe_shared_expert_overlap", "moe.shared_overlap"},
    {"overlap_moe_expert_parallel_comm", "overlap.ep"},
    {"delay_wgrad_compute", "moe.delay_wgrad"},
    {"moe_router_force_load_balancing", "moe.routing"},

    {"moe_deepep_num_sms", "overlap.comm_sms", As::left_out("20"), "moe_hybridep_num_sms"},
    {"moe_latent_size", "model.moe_latent_size"},

    // Layout.
    // Before there were pipelines (2020) tp was all of model parallelism.
    {"tensor_model_parallel_size", "parallel.tp", As::input(), "model_parallel_size"},
    {"pipeline_model_parallel_size", "parallel.pp"},
    {"pipe_parallel_size", "parallel.pp"},  // of 2020 and DeepSpeed's: 0 is none
    {"context_parallel_size", "parallel.cp"},
    {"ds_sequence_parallel_size", "parallel.cp"},  // DeepSpeed-Ulysses
    {"ds_sequence_parallel_fpdt", "parallel.cp", As::left_out("false")},
    {"expert_model_parallel_size", "parallel.ep", As::input(), "moe_expert_parallel_size"},
    {"expert_tensor_parallel_size", "parallel.etp"},
    {"enable_expert_tensor_parallelism", "parallel.etp"},  // Megatron-DeepSpeed
    {"sequence_parallel", "parallel.sp"},
    {"num_layers_per_virtual_pipeline_stage", "parallel.vpp"},
    {"num_virtual_stages_per_pipeline_rank", "parallel.vpp"},
    {"virtual_pipeline_model_parallel_size", "parallel.vpp"},
    {"pipeline_model_parallel_layout", "parallel.layout"},
    {"pipeline_model_parallel_split_rank", "parallel.layout"},
    {"decoder_first_pipeline_num_layers", "parallel.layout", As::input(),
     "num_layers_in_first_pipeline_stage"},
    {"decoder_last_pipeline_num_layers", "parallel.layout", As::input(),
     "num_layers_in_last_pipeline_stage"},
    {"pp_partition_method", "parallel.layout"},
    {"account_for_embedding_in_pipeline_split", "parallel.layout"},
    {"account_for_loss_in_pipeline_split", "parallel.layout"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "schedule.group", As::input(),
     "microbatch_group_size_per_vp_stage"},
    {"use_tp_pp_dp_mapping", "parallel.order"},
    {"cp_comm_type", "parallel.cp_comm"},
    {"hierarchical_context_parallel_sizes", "parallel.cp_inner"},
    {"world_size", "cluster.nodes"},
    {"data_parallel_size", "cluster.nodes"},
    {"nnodes", "cluster.nodes", As::input(), "num_nodes|nodes"},
    {"nproc_per_node", "cluster.nodes", As::input(), "num_gpus_per_node|gpus_per_node|num_gpus"},

    // Batch.
    {"micro_batch_size", "batch.micro", As::input(), "batch_size"},
    {"global_batch_size", "batch.global"},
    {"gas", "batch.global"},  // of DeepSpeed's pipeline in 2020
    {"seq_length", "batch.seq", As::input(), "encoder_seq_length|sequence_length"},
    {"decoder_seq_length", "batch.encoder_seq"},
    {"rampup_batch_size", "batch.global"},
    {"step_batch_size_schedule", "batch.global"},

    // Sharding and the optimizer.
    {"use_distributed_optimizer", "parallel.zero", As::input(), "overlapped_distributed_optimizer"},
    {"num_distributed_optimizer_instances", "parallel.dp_replicate"},
    {"use_megatron_fsdp", "parallel.zero", As::input(), "use_custom_fsdp"},
    {"use_torch_fsdp2", "parallel.zero"},
    {"torch_fsdp2_reshard_after_forward", "parallel.zero", As::input(), "",
     "torch_fsdp2_no_reshard_after_forward"},
    {"data_parallel_sharding_strategy", "parallel.zero"},
    {"zero_stage", "parallel.zero"},
    {"pipeline_parallel", "parallel.zero"},  // --no-pipeline-parallel
    {"optimizer", "optimizer.kind"},
    {"clip_grad", "optimizer.clip"},
    {"optimizer_cpu_offload", "offload.optimizer", As::input(), "cpu_optimizer"},
    {"optimizer_offload_fraction", "offload.optimizer"},

    {"suggested_communication_unit_size", "overlap.fsdp_prefetch", As::left_out("0")},
    {"fsdp_double_buffer", "parallel.zero", As::left_out("false")},
    {"enable_full_sharding_in_hsdp", "parallel.zero", As::left_out("false")},
    {"outer_dp_sharding_strategy", "parallel.zero", As::left_out("no_shard")},
    {"expert_outer_dp_sharding_strategy", "parallel.zero", As::left_out("no_shard")},
    {"ddp_reduce_scatter_with_fp32_accumulation", "overlap.dp_grad", As::left_out("false")},
    {"overlap_cpu_optimizer_d2h_h2d", "offload.optimizer", As::left_out("false")},

    // Overlap.
    {"overlap_grad_reduce", "overlap.dp_grad"},
    {"overlap_param_gather", "overlap.dp_param"},
    {"overlap_param_gather_with_optimizer_step", "overlap.dp_param"},
    {"ddp_bucket_size", "overlap.bucket", As::input(), "bucket_size"},
    {"ddp_num_buckets", "overlap.bucket"},
    {"tp_comm_overlap", "overlap.tp"},
    {"tp_comm_overlap_ag", "overlap.tp", As::input(), "tp_comm_split_ag"},
    {"tp_comm_overlap_rs", "overlap.tp", As::input(), "tp_comm_split_rs"},
    {"tp_comm_overlap_rs_dgrad", "overlap.tp"},
    {"tp_comm_bulk_dgrad", "overlap.tp"},
    {"tp_comm_bulk_wgrad", "overlap.tp"},
    {"overlap_p2p_comm", "overlap.pp_p2p", As::input(), "overlap_p2p_communication"},
    {"overlap_p2p_comm_warmup_flush", "schedule.p2p", As::input(),
     "overlap_p2p_communication_warmup_flush"},

    {"defer_embedding_wgrad_compute", "overlap.pp_p2p", As::left_out("false")},
    {"scatter_gather_tensors_in_pipeline", "schedule.scatter_gather", As::left_out("true")},
    {"use_ring_exchange_p2p", "overlap.pp_p2p", As::left_out("false")},
    {"variable_seq_lengths", "batch.seq", As::left_out("false")},
    {"nccl_ub", "overlap", As::left_out("false"), "use_nccl_ub"},
    {"use_sharp", "overlap", As::left_out("false")},
    {"sharp_enabled_group", "overlap", As::left_out("none")},

    // Recomputation and offload.
    {"recompute_activations", "recompute.granularity"},
    // Megatron-LM v2 (2021 and 2022): whole layers; v3.0 refuses them.
    {"checkpoint_activations", "recompute.granularity"},
    {"checkpoint_num_layers", "recompute.layers"},
    {"activations_checkpoint_method", "recompute.method"},
    {"activations_checkpoint_num_layers", "recompute.layers"},
    {"recompute_granularity", "recompute.granularity"},
    {"recompute_method", "recompute.method"},
    {"recompute_num_layers", "recompute.layers"},
    {"recompute_modules", "recompute.modules"},
    {"moe_layer_recompute", "recompute.modules"},
    {"distribute_saved_activations", "recompute.distribute"},
    {"distribute_checkpointed_activations", "recompute.distribute", As::input(),
     "partition_activations"},
    {"cpu_offloading_num_layers", "offload.activation_layers"},
    {"fine_grained_activation_offloading", "offload.activations"},

    // Number formats.
    {"fp16", "precision.preset"},
    {"bf16", "precision.preset"},
    {"fp8", "precision.preset", As::input(), "fp8_format"},
    {"fp8_recipe", "precision.preset"},
    {"fp4", "precision.preset", As::input(), "fp4_format"},
    {"fp4_recipe", "precision.preset"},
    {"fp8_param_gather", "precision.fp8_params", As::input(), "fp8_param"},
    {"first_last_layers_bf16", "precision.first_last_bf16"},
    {"accumulate_allreduce_grads_in_fp32", "precision.grads", As::input(), "grad_reduce_in_fp32"},
    {"grad_reduce_in_bf16", "precision.reduce"},
    {"use_precision_aware_optimizer", "precision.moments"},
    {"main_grads_dtype", "precision.grads"},
    {"main_params_dtype", "precision.master"},
    {"exp_avg_dtype", "precision.moments"},
    {"exp_avg_sq_dtype", "precision.moments"},

    {"fp32_residual_connection", "precision", As::left_out("false")},
    {"fp32_allreduce", "precision.reduce", As::left_out("false")},
    {"megatron_fsdp_main_grads_dtype", "precision.grads", As::left_out("fp32|auto")},
    {"megatron_fsdp_main_params_dtype", "precision.master", As::left_out("fp32|auto")},
    {"megatron_fsdp_grad_comm_dtype", "precision.reduce", As::left_out("fp32|auto")},
    {"fp8_wgrad", "precision", As::left_out("true")},
    {"fp4_param_gather", "precision", As::left_out("false"), "fp4_param"},
    {"reuse_grad_buf_for_mxfp8_param_ag", "precision", As::left_out("false")},
    {"keep_fp8_transpose_cache", "precision", As::left_out("false")},
    {"fp8_dot_product_attention", "precision", As::left_out("false")},
    {"fp8_multi_head_attention", "precision", As::left_out("false")},

    // Of which software the file is.
    {"DDP_impl", "software"},
    {"deepspeed", "software"},

    // Kernels.
    {"attention_backend", "kernels.attention"},
    {"use_flash_attn", "kernels.attention", As::input(),
     "use_flash_attn_v1|use_flash_attn_v2|use_flash_attn_triton|use_flash_attn_builder"},
    {"transformer_impl", "kernels.modules"},
    {"attention_dropout", "kernels.dropout"},
    {"hidden_dropout", "kernels.dropout"},
    {"gradient_accumulation_fusion", "kernels.gradient_accumulation_fusion"},
    {"bias_swiglu_fusion", "kernels.fused_activation"},
    {"bias_gelu_fusion", "kernels.fused_activation"},
    {"bias_activation_fusion", "kernels.fused_activation"},
    {"bias_dropout_fusion", "kernels.fused_bias_dropout_add"},
    {"masked_softmax_fusion", "kernels.fused_softmax"},
    {"apply_rope_fusion", "kernels.fused_rope", As::input(), "rope_fusion"},
    {"cross_entropy_loss_fusion", "kernels.fused_cross_entropy"},
    {"cross_entropy_fusion_impl", "kernels.loss"},
    {"empty_unused_memory_level", "kernels"},
    {"cuda_graph_impl", "kernels.cuda_graph"},
    {"cuda_graph_scope", "kernels.cuda_graph", As::input(), "cuda_graph_modules"},
    {"enable_cuda_graph", "kernels.cuda_graph"},
    {"external_cuda_graph", "kernels.cuda_graph"},

    {"deterministic_mode", "kernels", As::left_out("false")},
    {"batch_invariant_mode", "kernels", As::left_out("false")},
    {"use_fused_weighted_squared_relu", "kernels", As::left_out("false")},
    {"checkpoint_in_cpu", "offload", As::left_out("false")},
    {"memory_centric_tiled_linear", "kernels", As::left_out("false")},
    {"synchronize_each_layer", "kernels", As::left_out("false")},
    {"split_transformers", "model", As::left_out("false")},
    {"num_unique_layers", "model", As::left_out("none")},
    {"remote_device", "offload", As::left_out("none")},
    {"sync_tp_duplicated_parameters", "overlap", As::left_out("false")},
    {"enable_zbh1_pipeline", "schedule.kind"},
    // sail-sg's zero bubble.
    {"enable_zero_bubble", "schedule.kind"},
    {"zero_bubble_max_pending_backward", "schedule.params"},
    {"zero_bubble_v_schedule", "schedule.kind"},
    {"zero_bubble_v_schedule_mem_setup", "schedule.kind"},
    {"enable_1f1b_v", "schedule.kind"},
    {"interleave_group_size", "schedule.params"},
    {"num_seq_splits", "schedule.params"},
    {"cpu_offload", "offload.activations", As::left_out("false")},
    {"offload_chunk_num", "offload.activations", As::left_out("0")},
    {"cpu_offloading", "offload", As::left_out("true|false")},
    {"cpu_offloading_activations", "offload", As::left_out("true|false")},
    {"cpu_offloading_weights", "offload", As::left_out("false")},
    {"offload_modules", "offload.activations", As::left_out("none")},

    // The job.
    {"train_samples", "job.tokens"},
    {"train_tokens", "job.tokens"},  // Megatron-DeepSpeed
    {"train_iters", "job.tokens"},
    {"save", "job.checkpoint"},
    {"save_interval", "job.checkpoint", As::input(), "persistent_save_interval"},
    {"async_save", "job.checkpoint"},
    {"non_persistent_save_interval", "job.checkpoint"},
    {"non_persistent_ckpt_type", "job.checkpoint"},
};

// --- what Megatron prints

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "name ..... value"; a launcher may have put a prefix before it.
std::optional<Argument> printed_argument(std::string_view line, const SourceRef& source,
                                         int number) {
  const size_t dots = line.find(" ...");
  size_t begin = dots;
  if (dots == std::string_view::npos) return {};
  while (begin > 0 && is_name_char(line[begin - 1])) --begin;
  if (begin == dots) return {};
  size_t value = dots + 1;
  while (value < line.size() && line[value] == '.') ++value;
  if (value < line.size() && line[value] == ' ') ++value;
  Argument a;
  a.written = std::string(line.substr(begin, dots - begin));
  a.name = argument_name(a.written);
  std::string_view text = line.substr(value);
  while (text.ends_with(' ')) text.remove_suffix(1);
  a.value.kind = Value::Kind::scalar;
  a.value.mark = {source, number, static_cast<int>(value) + 1};
  a.value.text = std::string(text);
  a.listed = true;
  return a;
}

// The arguments of the first list "name ........ value" in the text.  Empty if there is none.
std::vector<Argument> read_printed_arguments(const SourceRef& source) {
  std::vector<Argument> all;
  LogLines lines{source->text};
  bool inside = false;
  while (const auto line = lines.next()) {
    if (line->find("--- end of arguments ---") != std::string_view::npos) break;
    if (line->find("--- arguments ---") != std::string_view::npos) {
      inside = true;
      all.clear();
      continue;
    }
    if (!inside && !all.empty()) {
      // A list without a heading ends at the first line of another form.
      if (auto a = printed_argument(*line, source, lines.number)) {
        all.push_back(std::move(*a));
        continue;
      }
      if (all.size() > 20) break;
      all.clear();
      continue;
    }
    if (auto a = printed_argument(*line, source, lines.number)) all.push_back(std::move(*a));
  }
  return all;
}

// --- the forms of arguments

bool is_mapping_text(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

// The arguments are keys of the file itself, or of a section with one of these names.
std::vector<Argument> mapped_arguments(const Value& file, MegatronEnvironment& environment) {
  const Value* arguments = &file;
  for (const char* key : {"MODEL_ARGS", "args", "arguments", "model_args"})
    if (const Value* v = file.find(key); v != nullptr && v->is_mapping()) arguments = v;
  for (const char* key : {"ENV_VARS", "env", "env_vars"})
    if (const Value* env = file.find(key); env != nullptr && env->is_mapping())
      for (const Member& m : env->members) environment.emplace_back(m.key, m.value.text);
  std::vector<Argument> all;
  for (const Member& m : arguments->members) {
    if (m.value.is_mapping()) continue;
    all.push_back({argument_name(m.key), m.key, m.value});
    if (all.back().value.mark.line == 0) all.back().value.mark = m.key_mark;
  }
  return all;
}

// Whether most lines are "name: value".
bool looks_like_yaml(std::string_view text) {
  size_t lines = 0, keys = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    ++lines;
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && line.find(' ', first) >= colon &&
        (colon + 1 == line.size() || line[colon + 1] == ' ' || line[colon + 1] == '\r'))
      ++keys;
  }
  return lines > 0 && keys * 2 >= lines;
}

void draft_all(const ImportSources& in, const std::vector<Argument>& arguments,
               const CalledProgram& program, const ImportCluster& cluster, ScenarioDraft& draft,
               ImportCounts& counts) {
  const ArgumentReader reader(megatron_arguments(), "megatron", arguments, in.problems);
  if (reader.used() == 0)
    return in.problems.add("E330", "there is no argument of Megatron in this file", {in.file, 1, 1},
                           1, {},
                           "read are a script or command line, the list that Megatron prints, and "
                           "YAML or JSON of names and values");
  counts.add(reader);
  draft_megatron(reader, program, in, cluster, draft);
  // Megatron-LM itself does not train them so.
  if (reader.flag("deepspeed") && reader.whole("num_experts", 0) > 1 &&
      reader.whole("tensor_model_parallel_size", 1) > 1 && !reader.flag("sequence_parallel"))
    refuse_unsplit_experts(in, reader.mark("num_experts"));
}

}  // namespace

std::span<const CostArgument> megatron_arguments() {
  return kMegatron;
}

void draft_environment(const std::string& name, const std::string& value, ScenarioDraft& draft) {
  // The second is the newer name.
  const bool allocator = name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF";
  constexpr std::array<std::string_view, 8> kPrefixes{"NCCL_",
                                                      "TORCH_NCCL_",
                                                      "NVTE_",
                                                      "CUDA_DEVICE_MAX_",
                                                      "CUDA_LAUNCH_BLOCKING",
                                                      "NVLINK_",
                                                      "PYTORCH_CUDA_ALLOC_CONF",
                                                      "PYTORCH_ALLOC_CONF"};
  if (std::none_of(kPrefixes.begin(), kPrefixes.end(),
                   [&](std::string_view prefix) { return name.starts_with(prefix); }))
    return;
  draft.set(fmt::format("env.{}", name), yaml_text(value), "");
  if (name == "NCCL_NVLS_ENABLE" && value == "0")
    draft.set("cluster.node.intra.sharp", false, fmt::format("{} 0", name));
  if (name == "CUDA_LAUNCH_BLOCKING" && value != "0" && !value.empty())
    draft.set_text("kernels.host_waits", "launches", fmt::format("{} {}", name, value));
  // "max_split_size_mb:512,expandable_segments:True"
  std::string settings = ',' + lower_case(value) + ',';
  std::erase(settings, ' ');
  for (const bool on : {true, false})
    if (allocator && settings.find(fmt::format(",expandable_segments:{},", on)) != settings.npos)
      draft.set("kernels.expandable_segments", on, name);
}

void import_megatron_args(const ImportSources& in, const ImportCluster& cluster,
                          ScenarioDraft& draft, ImportCounts& counts) {
  const std::string& text = in.file->text;
  MegatronEnvironment environment;
  CalledProgram program;
  std::vector<Argument> arguments = read_printed_arguments(in.file);
  if (arguments.empty()) {
    if (is_mapping_text(text) || looks_like_yaml(text)) {
      const Value file = read_mapping(in, in.file, "a file of arguments");
      if (in.problems.any()) return;
      // Megatron-LM's own tests say what they do with a model.
      if (const Value* mode = file.find("MODE"); mode != nullptr && mode->text == "inference")
        return in.problems.add("E336", "this file trains no model: its MODE is inference",
                               mode->mark, 1, {}, "import a file that trains");
      arguments = mapped_arguments(file, environment);
    } else {
      arguments = megatron_script_arguments(in, environment, program);
      if (in.problems.any()) return;
    }
  }
  draft_all(in, arguments, program, cluster, draft, counts);
  // The last value of a variable counts.
  std::map<std::string_view, std::string_view> last;
  for (const auto& [name, value] : environment) last[name] = value;
  for (const auto& [name, value] : environment)
    if (const auto v = last.find(name); v != last.end()) {
      draft_environment(name, std::string(v->second), draft);
      last.erase(v);
    }
}

void import_megatron_log(const ImportSources& in, const ImportCluster& cluster,
                         ScenarioDraft& draft, ImportCounts& counts) {
  const std::vector<Argument> arguments = read_printed_arguments(in.file);
  if (arguments.empty())
    return missing_configuration(in, "the list of arguments is not in this log",
                                 "Megatron prints it when it starts: lines 'num_layers ..... 32'");
  draft_all(in, arguments, {}, cluster, draft, counts);
  draft_measured(in, draft, counts);
}

}  // namespace stepcast
