// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_megatron.h"

#include <algorithm>
#include <array>
#include <utility>

#include "scenarios/frameworks/import_megatron_parts.h"
#include "scenarios/frameworks/python_list.h"

namespace stepcast {
namespace {

constexpr CostArgument kArguments[] = {
    // The model.
    {"num_layers", "model.num_hidden_layers"},
    {"encoder_num_layers", "model.num_hidden_layers"},
    {"decoder_num_layers", "model.num_decoder_layers"},
    {"relative_attention_num_buckets", "model.relative_attention_num_buckets"},
    {"hidden_size", "model.hidden_size"},
    {"num_attention_heads", "model.num_attention_heads"},
    {"ffn_hidden_size", "model.intermediate_size"},
    {"kv_channels", "model.head_dim"},
    {"group_query_attention", "model.num_key_value_heads"},
    {"num_query_groups", "model.num_key_value_heads"},
    {"swiglu", "model.gated_mlp", "gated_linear_unit"},
    {"squared_relu", "model.hidden_act"},
    {"quick_geglu", "model.gated_mlp"},
    {"activation_func", "model.hidden_act"},
    {"normalization", "model.normalization"},
    {"untie_embeddings_and_output_weights", "model.tie_word_embeddings", "",
     "share_embeddings_and_output_weights"},
    {"add_bias_linear", "model.attention_bias", "bias_linear"},
    {"add_qkv_bias", "model.qkv_bias"},
    {"qk_layernorm", "model.use_qk_norm"},
    {"qk_l2_norm", "model.use_qk_norm"},
    {"position_embedding_type", "model.position_embedding_type"},
    {"use_rotary_position_embeddings", "model.position_embedding_type"},
    {"add_position_embedding", "model.position_embedding_type", "position_embedding"},
    {"max_position_embeddings", "model.max_position_embeddings"},
    {"make_vocab_size_divisible_by", "model.vocab_size"},
    {"vocab_size", "model.vocab_size"},
    {"padded_vocab_size", "model.vocab_size"},
    {"tokenizer_type", "model.vocab_size"},
    {"merge_file", "model.vocab_size"},
    {"vocab_extra_ids", "model.vocab_size"},
    {"window_size", "model.sliding_window"},
    {"window_attn_skip_freq", "model.layer_types"},
    {"softmax_type", "model.attention_sinks"},
    {"multi_latent_attention", "model.kv_lora_rank"},
    {"q_lora_rank", "model.q_lora_rank"},
    {"kv_lora_rank", "model.kv_lora_rank"},
    {"qk_head_dim", "model.qk_nope_head_dim"},
    {"qk_pos_emb_head_dim", "model.qk_rope_head_dim"},
    {"v_head_dim", "model.v_head_dim"},
    {"mtp_num_layers", "model.num_nextn_predict_layers"},
    {"num_experts", "model.num_experts", "num_moe_experts"},
    {"moe_layer_freq", "model.mlp_only_layers"},
    {"moe_router_topk", "model.num_experts_per_tok"},
    {"moe_ffn_hidden_size", "model.moe_intermediate_size"},
    {"moe_shared_expert_intermediate_size", "model.shared_expert_intermediate_size"},
    {"moe_shared_expert_gate", "model.shared_expert_gate", "moe_use_shared_expert_gate"},
    {"moe_router_num_groups", "model.n_group"},
    {"moe_router_group_topk", "model.topk_group"},
    {"moe_router_enable_expert_bias", "model.router_bias"},
    {"is_hybrid_model", "model"},
    {"hybrid_override_pattern", "model"},
    {"hybrid_attention_ratio", "model"},
    {"heterogeneous_layers_config_path", "model"},
    {"heterogeneous_layers_config_encoded_json", "model"},

    // Experts at work.
    {"moe_token_dispatcher_type", "moe.dispatcher"},
    {"moe_flex_dispatcher_backend", "moe.dispatcher"},
    {"moe_enable_deepep", "moe.dispatcher"},
    {"moe_expert_capacity_factor", "moe.capacity_factor"},
    {"moe_pad_expert_input_to_capacity", "moe.pad_to_capacity"},
    {"moe_grouped_gemm", "moe.grouped_gemm"},
    {"moe_permute_fusion", "moe.permute_fusion"},
    {"moe_shared_expert_overlap", "moe.shared_overlap"},
    {"overlap_moe_expert_parallel_comm", "overlap.ep"},
    {"delay_wgrad_compute", "moe.delay_wgrad"},
    {"moe_router_force_load_balancing", "moe.routing"},

    {"moe_deepep_num_sms", "overlap.comm_sms", "moe_hybridep_num_sms", "", "20"},
    {"moe_latent_size", "model", "", "", "0"},

    // Layout.
    {"tensor_model_parallel_size", "parallel.tp"},
    {"pipeline_model_parallel_size", "parallel.pp"},
    {"context_parallel_size", "parallel.cp"},
    {"expert_model_parallel_size", "parallel.ep"},
    {"expert_tensor_parallel_size", "parallel.etp"},
    {"sequence_parallel", "parallel.sp"},
    {"num_layers_per_virtual_pipeline_stage", "parallel.vpp"},
    {"num_virtual_stages_per_pipeline_rank", "parallel.vpp"},
    {"virtual_pipeline_model_parallel_size", "parallel.vpp"},
    {"pipeline_model_parallel_layout", "parallel.layout"},
    {"decoder_first_pipeline_num_layers", "parallel.layout", "num_layers_in_first_pipeline_stage"},
    {"decoder_last_pipeline_num_layers", "parallel.layout", "num_layers_in_last_pipeline_stage"},
    {"account_for_embedding_in_pipeline_split", "parallel.layout"},
    {"account_for_loss_in_pipeline_split", "parallel.layout"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "schedule.group",
     "microbatch_group_size_per_vp_stage"},
    {"use_tp_pp_dp_mapping", "parallel.order"},
    {"cp_comm_type", "parallel.cp_comm"},
    {"hierarchical_context_parallel_sizes", "parallel.cp_inner"},
    {"world_size", "cluster.nodes"},
    {"data_parallel_size", "cluster.nodes"},
    {"nnodes", "cluster.nodes", "num_nodes"},
    {"nproc_per_node", "cluster.nodes", "num_gpus_per_node|gpus_per_node"},

    // Batch.
    {"micro_batch_size", "batch.micro"},
    {"global_batch_size", "batch.global"},
    {"seq_length", "batch.seq", "encoder_seq_length|sequence_length"},
    {"decoder_seq_length", "batch.encoder_seq"},
    {"rampup_batch_size", "batch.global"},
    {"step_batch_size_schedule", "batch.global"},

    // Sharding and the optimizer.
    {"use_distributed_optimizer", "parallel.zero"},
    {"num_distributed_optimizer_instances", "parallel.dp_replicate"},
    {"use_megatron_fsdp", "parallel.zero", "use_custom_fsdp"},
    {"use_torch_fsdp2", "parallel.zero"},
    {"torch_fsdp2_reshard_after_forward", "parallel.zero", "",
     "torch_fsdp2_no_reshard_after_forward"},
    {"data_parallel_sharding_strategy", "parallel.zero"},
    {"optimizer", "optimizer.kind"},
    {"clip_grad", "optimizer.clip"},
    {"optimizer_cpu_offload", "offload.optimizer"},
    {"optimizer_offload_fraction", "offload.optimizer"},

    {"suggested_communication_unit_size", "overlap.fsdp_prefetch", "", "", "0"},
    {"fsdp_double_buffer", "parallel.zero", "", "", "false"},
    {"enable_full_sharding_in_hsdp", "parallel.zero", "", "", "false"},
    {"outer_dp_sharding_strategy", "parallel.zero", "", "", "no_shard"},
    {"expert_outer_dp_sharding_strategy", "parallel.zero", "", "", "no_shard"},
    {"ddp_reduce_scatter_with_fp32_accumulation", "overlap.dp_grad", "", "", "false"},
    {"overlap_cpu_optimizer_d2h_h2d", "offload.optimizer", "", "", "false"},

    // Overlap.
    {"overlap_grad_reduce", "overlap.dp_grad"},
    {"overlap_param_gather", "overlap.dp_param"},
    {"overlap_param_gather_with_optimizer_step", "overlap.dp_param"},
    {"ddp_bucket_size", "overlap.bucket", "bucket_size"},
    {"ddp_num_buckets", "overlap.bucket"},
    {"tp_comm_overlap", "overlap.tp"},
    {"tp_comm_overlap_ag", "overlap.tp", "tp_comm_split_ag"},
    {"tp_comm_overlap_rs", "overlap.tp", "tp_comm_split_rs"},
    {"tp_comm_overlap_rs_dgrad", "overlap.tp"},
    {"tp_comm_bulk_dgrad", "overlap.tp"},
    {"tp_comm_bulk_wgrad", "overlap.tp"},
    {"overlap_p2p_comm", "overlap.pp_p2p", "overlap_p2p_communication"},
    {"overlap_p2p_comm_warmup_flush", "schedule.p2p", "overlap_p2p_communication_warmup_flush"},

    {"defer_embedding_wgrad_compute", "overlap.pp_p2p", "", "", "false"},
    {"scatter_gather_tensors_in_pipeline", "overlap.pp_p2p", "", "", "true"},
    {"use_ring_exchange_p2p", "overlap.pp_p2p", "", "", "false"},
    {"variable_seq_lengths", "batch.seq", "", "", "false"},
    {"nccl_ub", "overlap", "use_nccl_ub", "", "false"},
    {"use_sharp", "overlap", "", "", "false"},
    {"sharp_enabled_group", "overlap", "", "", "none"},

    // What is computed again, or moved away.
    {"recompute_activations", "recompute.granularity", "checkpoint_activations"},
    {"recompute_granularity", "recompute.granularity"},
    {"recompute_method", "recompute.method"},
    {"recompute_num_layers", "recompute.layers"},
    {"recompute_modules", "recompute.modules"},
    {"moe_layer_recompute", "recompute.modules"},
    {"distribute_saved_activations", "recompute.distribute"},
    {"cpu_offloading_num_layers", "offload.activation_layers"},
    {"fine_grained_activation_offloading", "offload.activations"},

    // Number formats.
    {"fp16", "precision.preset"},
    {"bf16", "precision.preset"},
    {"fp8", "precision.preset", "fp8_format"},
    {"fp8_recipe", "precision.preset"},
    {"fp4", "precision.preset", "fp4_format"},
    {"fp8_param_gather", "precision.fp8_params", "fp8_param"},
    {"first_last_layers_bf16", "precision.first_last_bf16"},
    {"accumulate_allreduce_grads_in_fp32", "precision.grads", "grad_reduce_in_fp32"},
    {"grad_reduce_in_bf16", "precision.reduce"},
    {"use_precision_aware_optimizer", "precision.moments"},
    {"main_grads_dtype", "precision.grads"},
    {"main_params_dtype", "precision.master"},
    {"exp_avg_dtype", "precision.moments"},
    {"exp_avg_sq_dtype", "precision.moments"},

    {"fp32_residual_connection", "precision", "", "", "false"},
    {"fp8_wgrad", "precision", "", "", "true"},
    {"fp4_param_gather", "precision", "fp4_param", "", "false"},
    {"reuse_grad_buf_for_mxfp8_param_ag", "precision", "", "", "false"},
    {"keep_fp8_transpose_cache", "precision", "", "", "false"},
    {"fp8_dot_product_attention", "precision", "", "", "false"},
    {"fp8_multi_head_attention", "precision", "", "", "false"},

    // Kernels.
    {"attention_backend", "kernels.attention"},
    {"use_flash_attn", "kernels.attention"},
    {"transformer_impl", "kernels.modules"},
    {"attention_dropout", "kernels.dropout"},
    {"hidden_dropout", "kernels.dropout"},
    {"gradient_accumulation_fusion", "kernels.gradient_accumulation_fusion"},
    {"bias_swiglu_fusion", "kernels.fused_activation"},
    {"bias_gelu_fusion", "kernels.fused_activation"},
    {"bias_activation_fusion", "kernels.fused_activation"},
    {"bias_dropout_fusion", "kernels.fused_bias_dropout_add"},
    {"masked_softmax_fusion", "kernels.fused_softmax"},
    {"apply_rope_fusion", "kernels.fused_rope", "rope_fusion"},
    {"cross_entropy_loss_fusion", "kernels.fused_cross_entropy"},
    {"cross_entropy_fusion_impl", "kernels.loss"},
    {"cuda_graph_impl", "kernels.cuda_graph"},
    {"cuda_graph_scope", "kernels.cuda_graph"},
    {"enable_cuda_graph", "kernels.cuda_graph"},
    {"external_cuda_graph", "kernels.cuda_graph"},

    {"deterministic_mode", "kernels", "", "", "false"},
    {"batch_invariant_mode", "kernels", "", "", "false"},
    {"use_fused_weighted_squared_relu", "kernels", "", "", "false"},
    {"cpu_offloading", "offload", "", "", "true|false"},
    {"cpu_offloading_activations", "offload", "", "", "true|false"},
    {"cpu_offloading_weights", "offload", "", "", "false"},
    {"offload_modules", "offload.activations", "", "", "none"},

    // The job.
    {"save", "job.checkpoint"},
    {"save_interval", "job.checkpoint", "persistent_save_interval"},
    {"async_save", "job.checkpoint"},
    {"non_persistent_save_interval", "job.checkpoint"},
    {"non_persistent_ckpt_type", "job.checkpoint"},
};

// How many GPUs ran, and which argument says so.  `dp` is the fewest replicas the sizes allow.
struct JobGpus {
  int64_t gpus = 0;
  std::string why;
  bool assumed = false;
};

JobGpus job_gpus(const ArgumentReader& a, const MegatronSizes& s) {
  const int64_t one = s.tp * s.cp * s.pp;
  if (a.given("world_size")) return {a.whole("world_size", one), a.why("world_size")};
  if (a.given("nnodes") || a.given("nproc_per_node")) {
    const int64_t each = a.whole("nproc_per_node", 8);
    return {a.whole("nnodes", 1) * each, a.why("nnodes") + ", " + a.why("nproc_per_node")};
  }
  if (a.given("data_parallel_size"))
    return {one * a.whole("data_parallel_size", 1), a.why("data_parallel_size")};
  // All experts need a place: tp * cp * dp = etp * ep * (a whole number).
  int64_t dp = 1;
  while (dp < s.ep * s.etp && s.tp * s.cp * dp % (s.ep * s.etp) != 0) ++dp;
  return {one * dp, "the fewest that the sizes allow (tp, cp, pp, ep)", true};
}

bool sensible(const ArgumentReader& a, const MegatronSizes& s) {
  constexpr int64_t kMost = 10'000'000;  // GPUs
  int64_t product = 1;
  for (const auto& [name, n] :
       {std::pair{"tensor_model_parallel_size", s.tp}, std::pair{"context_parallel_size", s.cp},
        std::pair{"pipeline_model_parallel_size", s.pp}}) {
    if (n < 1 || n > kMost || product > kMost / n) {
      a.problems().add("E332", "tp, cp and pp do not make a job of a sensible size", a.mark(name),
                       1, {}, "each is at least 1, their product at most 10,000,000 GPUs");
      return false;
    }
    product *= n;
  }
  if (s.ep >= 1 && s.etp >= 1 && s.ep <= kMost && s.etp <= kMost / s.ep) return true;
  a.problems().add("E332", "ep and etp do not make a job of a sensible size",
                   a.mark("expert_model_parallel_size"), 1, {},
                   "each is at least 1, their product at most 10,000,000 GPUs");
  return false;
}

// Without the number of experts all that is said about them would be dropped: an argument that
// somebody wrote is refused then, the defaults that Megatron prints of a dense model are not.
bool refuse_experts_without_number(const ArgumentReader& a) {
  if (a.given("num_experts")) return false;
  std::string_view dropped;
  if (python_whole(a.word("expert_model_parallel_size", "1")).value_or(1) > 1)
    dropped = "expert_model_parallel_size";
  for (const CostArgument& row : kArguments) {
    const bool of_experts = row.name.starts_with("moe_") && row.neutral.empty();
    if (dropped.empty() && of_experts && a.given(row.name) && a.why(row.name).starts_with("--"))
      dropped = row.name;
  }
  if (dropped.empty()) return false;
  std::string help = "state it; of a dense model leave the arguments of experts out";
  for (const UnknownArgument& u : a.unknown())
    if (argument_name(u.near) == "num_experts")
      help = "did you mean " + u.near + " by '" + u.written + "' in line " +
             std::to_string(u.mark.line) + '?';
  a.problems().add("E332",
                   '\'' + a.why(dropped) + "' needs --num-experts, which the file does not say",
                   a.mark(dropped), 1, {}, std::move(help));
  return true;
}

}  // namespace

std::span<const CostArgument> megatron_arguments() {
  return kArguments;
}

void draft_environment(const std::string& name, const std::string& value, ScenarioDraft& draft) {
  constexpr std::array<std::string_view, 5> kPrefixes{"NCCL_", "TORCH_NCCL_", "NVTE_",
                                                      "CUDA_DEVICE_MAX_", "NVLINK_"};
  if (std::none_of(kPrefixes.begin(), kPrefixes.end(),
                   [&](std::string_view prefix) { return name.starts_with(prefix); }))
    return;
  draft.set("env." + name, yaml_text(value), "");
  if (name == "NCCL_NVLS_ENABLE" && value == "0")
    draft.set("cluster.node.intra.sharp", false, name + " 0");
}

void draft_megatron(const ArgumentReader& a, const ImportCluster& cluster, ScenarioDraft& draft) {
  MegatronSizes sizes;
  sizes.tp = a.whole("tensor_model_parallel_size", 1);
  sizes.cp = a.whole("context_parallel_size", 1);
  sizes.pp = a.whole("pipeline_model_parallel_size", 1);
  const bool experts = a.given("num_experts");
  sizes.ep = experts ? a.whole("expert_model_parallel_size", 1) : 1;
  sizes.etp = experts ? a.whole("expert_tensor_parallel_size", sizes.tp) : 1;
  if (refuse_experts_without_number(a) || !sensible(a, sizes)) return;
  const JobGpus job = job_gpus(a, sizes);
  sizes.dp = std::max<int64_t>(1, job.gpus / (sizes.tp * sizes.cp * sizes.pp));

  draft.set_text("software", "megatron-core", "");
  draft_megatron_model(a, sizes, draft);
  draft_cluster(cluster, std::max<int64_t>(1, job.gpus), job.why, draft);
  if (job.assumed)
    draft.note("cluster.nodes: " + std::to_string(job.gpus) +
               (job.gpus == 1 ? " GPU is" : " GPUs are") + " assumed, " + job.why);
  draft_megatron_layout(a, sizes, draft);
  draft_megatron_run(a, sizes, draft);
  for (const std::string& why : a.left_out()) draft.note(why + ": not modelled, left out");
}

}  // namespace stepcast
