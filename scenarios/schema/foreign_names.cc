// SPDX-License-Identifier: Apache-2.0
#include "scenarios/schema/keys.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "sim/text.h"

namespace stepcast {
namespace {

// What other tools call it, sorted as the tools' documents do.
constexpr ForeignName kForeign[] = {
    {"global_batch_size", "batch.global", "Megatron's --global-batch-size is batch.global here"},
    {"train_batch_size", "batch.global", "DeepSpeed's train_batch_size is batch.global here"},
    {"gbs", "batch.global", ""},
    {"objective", "search.objective", "what a search looks for is search.objective here"},
    {"constraints", "search.constraints", "what a search must keep is search.constraints here"},
    {"micro_batch_size", "batch.micro", "Megatron's --micro-batch-size is batch.micro here"},
    {"train_micro_batch_size_per_gpu", "batch.micro",
     "DeepSpeed's train_micro_batch_size_per_gpu is batch.micro here"},
    {"mbs", "batch.micro", ""},
    {"seq_length", "batch.seq", "Megatron's --seq-length is batch.seq here"},
    {"seq_len", "batch.seq", ""},
    {"global_batch", "batch.global", ""},
    {"micro_batch", "batch.micro", ""},
    {"sequence_length", "batch.seq", ""},
    {"max_seq_len", "batch.seq", ""},
    {"seqlen", "batch.seq", ""},
    {"decoder_seq_length", "batch.seq", "Megatron's --decoder-seq-length is batch.seq here"},
    {"tensor_model_parallel_size", "parallel.tp",
     "Megatron's --tensor-model-parallel-size is parallel.tp here"},
    {"tensor_parallel_degree", "parallel.tp",
     "torchtitan's tensor_parallel_degree is parallel.tp here"},
    {"pipeline_model_parallel_size", "parallel.pp",
     "Megatron's --pipeline-model-parallel-size is parallel.pp here"},
    {"pipeline_parallel_degree", "parallel.pp",
     "torchtitan's pipeline_parallel_degree is parallel.pp here"},
    {"virtual_pipeline_model_parallel_size", "parallel.vpp",
     "NeMo's virtual_pipeline_model_parallel_size is parallel.vpp here"},
    {"num_virtual_stages_per_pipeline_rank", "parallel.vpp",
     "Megatron's --num-virtual-stages-per-pipeline-rank is parallel.vpp here"},
    {"num_layers_per_virtual_pipeline_stage", "parallel.vpp",
     "Megatron's --num-layers-per-virtual-pipeline-stage counts layers; parallel.vpp is the number "
     "of such chunks on a rank"},
    {"context_parallel_size", "parallel.cp",
     "Megatron's --context-parallel-size is parallel.cp here"},
    {"expert_model_parallel_size", "parallel.ep",
     "Megatron's --expert-model-parallel-size is parallel.ep here"},
    {"expert_tensor_parallel_size", "parallel.etp",
     "Megatron's --expert-tensor-parallel-size is parallel.etp here"},
    {"data_parallel_size", "parallel.dp", ""},
    {"sequence_parallel", "parallel.sp", "Megatron's --sequence-parallel is parallel.sp here"},
    {"pipeline_model_parallel_layout", "parallel.layout",
     "Megatron's --pipeline-model-parallel-layout is parallel.layout here"},
    {"use_distributed_optimizer", "parallel.zero",
     "Megatron's --use-distributed-optimizer is parallel.zero: 1 here"},
    {"zero_stage", "parallel.zero", ""},
    {"overlap_grad_reduce", "overlap.dp_grad",
     "Megatron's --overlap-grad-reduce is overlap.dp_grad here"},
    {"overlap_param_gather", "overlap.dp_param",
     "Megatron's --overlap-param-gather is overlap.dp_param here"},
    {"tp_comm_overlap", "overlap.tp", "Megatron's --tp-comm-overlap is overlap.tp here"},
    {"overlap_p2p_communication", "overlap.pp_p2p", ""},
    {"ddp_bucket_size", "overlap.bucket", "Megatron's --ddp-bucket-size is overlap.bucket here"},
    {"recompute_granularity", "recompute.granularity",
     "Megatron's --recompute-granularity is recompute.granularity here"},
    {"recompute_method", "recompute.method",
     "Megatron's --recompute-method is recompute.method here"},
    {"recompute_num_layers", "recompute.layers",
     "Megatron's --recompute-num-layers is recompute.layers here"},
    {"recompute_modules", "recompute.modules",
     "Megatron's --recompute-modules is recompute.modules here"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "schedule.group",
     "Megatron's --microbatch-group-size-per-virtual-pipeline-stage is schedule.group here"},
    {"pipeline_parallel_schedule", "schedule.kind", ""},
    {"pipeline_parallel_schedule_csv", "schedule.file",
     "torchtitan's pipeline_parallel_schedule_csv is schedule.file here"},
    {"enable_optimizer_post_validation", "schedule.post_validation",
     "zero-bubble's --enable-optimizer-post-validation is schedule.post_validation here"},
    {"clip_grad", "optimizer.clip", "Megatron's --clip-grad is optimizer.clip here"},
    {"attention_backend", "kernels.attention",
     "Megatron's --attention-backend is kernels.attention here"},
    {"attention_dropout", "kernels.dropout.attention",
     "Megatron's --attention-dropout is kernels.dropout.attention here"},
    {"hidden_dropout", "kernels.dropout.hidden",
     "Megatron's --hidden-dropout is kernels.dropout.hidden here"},
    {"cross_entropy_loss_fusion", "kernels.fused_cross_entropy",
     "Megatron's --cross-entropy-loss-fusion is kernels.fused_cross_entropy here"},
    {"num_layers", "model.num_hidden_layers",
     "Megatron's --num-layers is model.num_hidden_layers here"},
    {"ffn_hidden_size", "model.intermediate_size",
     "Megatron's --ffn-hidden-size is model.intermediate_size here"},
    {"num_query_groups", "model.num_key_value_heads",
     "Megatron's --num-query-groups is model.num_key_value_heads here"},
    {"kv_channels", "model.head_dim", "Megatron's --kv-channels is model.head_dim here"},
    {"num_moe_experts", "model.num_experts",
     "Megatron-Core's num_moe_experts is model.num_experts here"},
    {"moe_ffn_hidden_size", "model.moe_intermediate_size",
     "Megatron's --moe-ffn-hidden-size is model.moe_intermediate_size here"},
    {"moe_router_topk", "model.num_experts_per_tok",
     "Megatron's --moe-router-topk is model.num_experts_per_tok here"},
    {"moe_shared_expert_intermediate_size", "model.shared_expert_intermediate_size",
     "Megatron's --moe-shared-expert-intermediate-size is model.shared_expert_intermediate_size "
     "here"},
    {"moe_token_dispatcher_type", "moe.dispatcher",
     "Megatron's --moe-token-dispatcher-type is moe.dispatcher here"},
    {"moe_flex_dispatcher_backend", "moe.dispatcher",
     "Megatron's --moe-flex-dispatcher-backend is moe.dispatcher here"},
    {"moe_expert_capacity_factor", "moe.capacity_factor",
     "Megatron's --moe-expert-capacity-factor is moe.capacity_factor here"},
    {"moe_pad_expert_input_to_capacity", "moe.pad_to_capacity",
     "Megatron's --moe-pad-expert-input-to-capacity is moe.pad_to_capacity here"},
    {"moe_grouped_gemm", "moe.grouped_gemm",
     "Megatron's --moe-grouped-gemm is moe.grouped_gemm here"},
    {"moe_permute_fusion", "moe.permute_fusion",
     "Megatron's --moe-permute-fusion is moe.permute_fusion here"},
    {"moe_shared_expert_overlap", "moe.shared_overlap",
     "Megatron's --moe-shared-expert-overlap is moe.shared_overlap here"},
    {"overlap_moe_expert_parallel_comm", "overlap.ep",
     "Megatron's --overlap-moe-expert-parallel-comm is overlap.ep here"},
    {"n_layers", "model.num_hidden_layers", ""},
    {"n_heads", "model.num_attention_heads", ""},
    {"num_heads", "model.num_attention_heads", ""},
    {"n_kv_heads", "model.num_key_value_heads", ""},
    {"num_kv_heads", "model.num_key_value_heads", ""},
    {"kv_heads", "model.num_key_value_heads", ""},
    {"dim", "model.hidden_size", ""},
    {"d_model", "model.hidden_size", ""},
    {"dtype", "precision.preset", ""},
    {"bandwidth", "cluster.node.nics.bw", ""},
};

// Ours are keys of the table, or of a config.json below `model`.
static_assert(std::all_of(std::begin(kForeign), std::end(kForeign), [](const ForeignName& f) {
  return f.path.starts_with("model.") || find_field(f.path) != nullptr;
}));

}  // namespace

const ForeignName* find_foreign_name(std::string_view key) {
  while (key.starts_with('-')) key.remove_prefix(1);
  std::string normal = lower_case(key);
  std::replace(normal.begin(), normal.end(), '-', '_');
  for (const ForeignName& f : kForeign)
    if (f.foreign == normal) return &f;
  return nullptr;
}

}  // namespace stepcast
