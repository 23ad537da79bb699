// SPDX-License-Identifier: Apache-2.0
// draft_megatron_run: number formats, recomputation, overlap, kernels, experts at work, the job.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/parts.h"
#include "scenarios/schema/keys.h"
#include "sim/saturating.h"

namespace stepcast {
namespace {

class RunDraft {
 public:
  RunDraft(const ArgumentReader& a, const MegatronSizes& sizes, ScenarioDraft& draft)
      : a_(a), s_(sizes), draft_(draft) {}

  void write() {
    write_precision();
    write_recompute();
    write_overlap();
    write_optimizer();
    write_offload();
    write_experts();
    write_kernels();
    write_graphs();
    write_job();
  }

 private:
  // Copies a flag if it was given.
  void copy_flag(const char* name, const char* path) {
    if (a_.given(name)) draft_.set(path, a_.flag(name), a_.origin(name));
  }
  void copy_if_on(const char* name, const char* path) {
    if (a_.flag(name)) draft_.set(path, true, a_.origin(name));
  }
  void left_out(const char* name) { draft_.left_out(a_.why(name)); }

  static std::string_view fp8_preset(std::string_view recipe) {
    struct Recipe {
      std::string_view recipe, preset;
    };
    constexpr std::array<Recipe, 4> kRecipes{{{"delayed", "fp8-delayed"},
                                              {"tensorwise", "fp8-tensorwise"},
                                              {"blockwise", "fp8-blockwise"},
                                              {"mxfp8", "mxfp8"}}};
    for (const Recipe& r : kRecipes)
      if (r.recipe == recipe) return r.preset;
    return {};
  }

  void write_precision() {
    const bool fp16 = a_.flag("fp16"), bf16 = a_.flag("bf16");
    std::string preset = bf16 ? "bf16-mixed" : fp16 ? "fp16-mixed" : "fp32";
    Origin why = a_.origin(bf16 ? "bf16" : "fp16", "neither fp16 nor bf16");
    if (!bf16 && !fp16) why = "neither fp16 nor bf16";
    if (a_.given("fp4")) {
      preset = "nvfp4";
      why = a_.origin("fp4");
      if (const std::string recipe = a_.word("fp4_recipe", "nvfp4"); recipe != "nvfp4")
        draft_.note(fmt::format("{}: its blocks of scales are not modelled, nvfp4's are taken",
                                a_.why("fp4_recipe")));
    } else if (a_.given("fp8")) {
      const std::string recipe = a_.word("fp8_recipe", "delayed");
      preset = std::string(fp8_preset(recipe));
      why = a_.origin("fp8");
      if (a_.given("fp8_recipe")) why.text += fmt::format(", {}", a_.why("fp8_recipe"));
      if (preset.empty())
        return a_.refuse("fp8_recipe", "is not known here",
                         "known: delayed, tensorwise, blockwise and mxfp8");
    }
    draft_.set("precision.preset", preset, why);
    // For bf16 Megatron accumulates in fp32 unless --grad-reduce-in-bf16 is given.
    const char* low = a_.flag("grad_reduce_in_bf16") ? "grad_reduce_in_bf16"
                      : bf16 && !a_.flag("accumulate_allreduce_grads_in_fp32", true)
                          ? "accumulate_allreduce_grads_in_fp32"
                          : nullptr;
    if (low != nullptr) {
      draft_.set("precision.grads", std::string("bf16"), a_.origin(low));
      draft_.set("precision.reduce", std::string("bf16"), a_.origin(low));
    } else if (fp16 && a_.flag("accumulate_allreduce_grads_in_fp32")) {
      draft_.set("precision.grads", std::string("fp32"),
                 a_.origin("accumulate_allreduce_grads_in_fp32"));
    }
    if (a_.flag("use_precision_aware_optimizer")) write_optimizer_formats();
    // What the profile of the software says of such recipes gives way to what the file says.
    if (a_.flag("fp8_param_gather") ||
        (a_.given("fp8_param_gather") && (a_.given("fp8") || a_.given("fp4"))))
      draft_.set("precision.fp8_params", a_.flag("fp8_param_gather"),
                 a_.origin("fp8_param_gather"));
    copy_if_on("first_last_layers_bf16", "precision.first_last_bf16");
  }

  void write_optimizer_formats() {
    const auto format = [&](const char* name) {
      std::string word = a_.word(name, "fp32");
      const size_t dot = word.rfind('.');  // torch.bfloat16
      if (dot != std::string::npos) word.erase(0, dot + 1);
      return word == "bfloat16"  ? "bf16"
             : word == "float32" ? "fp32"
             : word == "float16" ? "fp16"
                                 : word;
    };
    if (format("main_grads_dtype") != "fp32")
      draft_.set("precision.grads", std::string(format("main_grads_dtype")),
                 a_.origin("main_grads_dtype"));
    if (format("main_params_dtype") != "fp32") left_out("main_params_dtype");
    const std::string first = format("exp_avg_dtype"), second = format("exp_avg_sq_dtype");
    if (first != second)
      draft_.note(fmt::format("{}, {}: both moments have one format here, the first one's is taken",
                              a_.why("exp_avg_dtype"), a_.why("exp_avg_sq_dtype")));
    if (first != "fp32") draft_.set("precision.moments", first, a_.origin("exp_avg_dtype"));
  }

  void write_recompute() {
    std::string granularity = a_.word("recompute_granularity");
    Origin why = a_.origin("recompute_granularity");
    if (granularity.empty() && a_.flag("recompute_activations")) {
      granularity = "selective";
      why = a_.origin("recompute_activations");
    }
    if (granularity.empty() && !sign_of_version_2(a_).empty()) return write_checkpoints();
    std::vector<std::string> modules = a_.words("recompute_modules");
    if (a_.flag("moe_layer_recompute")) {
      if (granularity.empty()) {
        granularity = "selective";
        why = a_.origin("moe_layer_recompute");
      }
      if (std::find(modules.begin(), modules.end(), "moe") == modules.end())
        modules.push_back("moe");
    }
    if (granularity.empty() || granularity == "none") return;
    const bool first_layers = granularity == "full" && a_.word("recompute_method") == "block";
    if (first_layers && a_.whole("recompute_num_layers", 1) == 0)
      return draft_.set_text("recompute.granularity", "none", a_.origin("recompute_num_layers"));
    draft_.set_text("recompute.granularity", granularity, why);
    if (granularity == "full") {
      if (a_.given("recompute_method"))
        draft_.set_text("recompute.method", a_.word("recompute_method"),
                        a_.origin("recompute_method"));
      if (const auto n = a_.whole("recompute_num_layers")) {
        Origin origin = a_.origin("recompute_num_layers");
        // Megatron recomputes the first so many of a stage, all of them where it has fewer.
        const int64_t stages = s_.pp * s_.vpp,
                      all = s_.layers % stages == 0 ? s_.layers / stages : 0;
        const bool too_many = first_layers && all > 0 && *n > all;
        if (too_many) origin.text += ", of which a stage has no more";
        draft_.set("recompute.layers", too_many ? all : *n, origin);
      }
    } else if (!modules.empty()) {
      write_modules(modules);
    }
    copy_if_on("distribute_saved_activations", "recompute.distribute");
  }

  // Megatron-LM v2: layers are recomputed whole, in units of --checkpoint-num-layers.
  void write_checkpoints() {
    const bool method = a_.given("activations_checkpoint_method");
    if (!method && !a_.flag("checkpoint_activations")) return;
    draft_.set_text("recompute.granularity", "full",
                    a_.origin(method ? "activations_checkpoint_method" : "checkpoint_activations"));
    if (method)
      draft_.set_text("recompute.method", a_.word("activations_checkpoint_method"),
                      a_.origin("activations_checkpoint_method"));
    for (const char* layers : {"checkpoint_num_layers", "activations_checkpoint_num_layers"})
      if (const auto n = a_.whole(layers)) draft_.set("recompute.layers", *n, a_.origin(layers));
    copy_if_on("distribute_saved_activations", "recompute.distribute");
    copy_if_on("distribute_checkpointed_activations", "recompute.distribute");
  }

  void write_modules(const std::vector<std::string>& modules) {
    std::string list;
    for (const std::string& m : modules) {
      if (Key("recompute.modules").row().choices.find(m) == nullptr) {
        draft_.left_out(fmt::format("recompute module {}", m));
        continue;
      }
      list += (list.empty() ? "" : ", ") + m;
    }
    if (!list.empty())
      draft_.set(
          "recompute.modules", fmt::format("[{}]", list),
          a_.origin(a_.given("recompute_modules") ? "recompute_modules" : "moe_layer_recompute"));
  }

  void write_overlap() {
    copy_if_on("overlap_grad_reduce", "overlap.dp_grad");
    copy_if_on("overlap_param_gather", "overlap.dp_param");
    if (a_.flag("overlap_param_gather_with_optimizer_step"))
      left_out("overlap_param_gather_with_optimizer_step");
    if (a_.given("ddp_num_buckets"))
      left_out("ddp_num_buckets");
    else if (const auto bucket = a_.whole("ddp_bucket_size"))
      draft_.set("overlap.bucket", *bucket, a_.origin("ddp_bucket_size"));
    write_tensor_overlap();
  }

  // Transformer Engine overlaps in two forms: bulk beside another GEMM of the backward, and in
  // pieces (pipelined) where a collective runs beside its own GEMM.  Switched off, what is left is
  // the collective beside the weight gradient.
  void write_tensor_overlap() {
    if (!a_.given("tp_comm_overlap") || s_.tp < 2) return;
    if (!a_.flag("tp_comm_overlap"))
      return draft_.set_text("overlap.tp", "backward", a_.origin("tp_comm_overlap"));
    const bool pipelined = a_.flag("tp_comm_overlap_ag", true) ||
                           a_.flag("tp_comm_overlap_rs", true) ||
                           a_.flag("tp_comm_overlap_rs_dgrad");
    const bool bulk = a_.flag("tp_comm_bulk_dgrad", true) || a_.flag("tp_comm_bulk_wgrad", true);
    const char* way = pipelined ? "pipelined" : bulk ? "bulk" : "none";
    draft_.set_text("overlap.tp", way, a_.origin("tp_comm_overlap"));
  }

  void write_optimizer() {
    if (a_.given("optimizer")) {
      const std::string kind = a_.word("optimizer");
      draft_.set_text("optimizer.kind", kind == "dist_muon" ? "muon" : kind,
                      a_.origin("optimizer"));
    }
    if (a_.given("clip_grad") && a_.real("clip_grad").value_or(1) == 0)
      draft_.set("optimizer.clip", false, a_.origin("clip_grad"));
  }

  void write_offload() {
    const char* fraction = "optimizer_offload_fraction";
    const bool moves = a_.flag("optimizer_cpu_offload");
    if (moves && (!a_.given(fraction) || a_.real(fraction)))  // else it has been refused
      draft_.set("offload.optimizer", a_.given(fraction) ? a_.word(fraction) : std::string("1"),
                 a_.origin("optimizer_cpu_offload"));
    if (const int64_t layers = a_.whole("cpu_offloading_num_layers", 0); layers > 0)
      draft_.set("offload.activation_layers", layers, a_.origin("cpu_offloading_num_layers"));
    copy_if_on("fine_grained_activation_offloading", "offload.activations");
  }

  void write_experts() {
    if (a_.whole("num_experts", 0) < 2) return;
    const bool deepspeed = a_.flag("deepspeed");
    const std::string type =
        a_.word("moe_token_dispatcher_type", deepspeed ? "alltoall" : "allgather");
    Origin why = a_.origin("moe_token_dispatcher_type",
                           deepspeed ? "DeepSpeed's experts" : "Megatron's default");
    std::string dispatcher = type == "alltoall_seq" ? "alltoall" : type;
    if (type == "flex") {
      const std::string backend = a_.word("moe_flex_dispatcher_backend", "deepep");
      dispatcher = "deepep";
      if (a_.given("moe_flex_dispatcher_backend"))
        why.text += fmt::format(", {}", a_.why("moe_flex_dispatcher_backend"));
      if (a_.flag("moe_enable_deepep"))
        why.text += fmt::format(", {}", a_.why("moe_enable_deepep"));
      if (backend != "deepep")
        draft_.note(fmt::format("{}: costed as deepep", a_.why("moe_flex_dispatcher_backend")));
    }
    draft_.set_text("moe.dispatcher", dispatcher, why);
    if (!deepspeed || a_.flag("moe_token_dropping", true)) write_capacity(deepspeed);
    draft_.set("moe.grouped_gemm", a_.flag("moe_grouped_gemm"),
               a_.origin("moe_grouped_gemm", "Megatron's default"));
    draft_.set("moe.permute_fusion", a_.flag("moe_permute_fusion"),
               a_.origin("moe_permute_fusion", "Megatron's default"));
    copy_if_on("moe_router_fusion", "moe.router_fusion");
    copy_if_on("moe_shared_expert_overlap", "moe.shared_overlap");
    if (a_.flag("moe_router_force_load_balancing"))
      draft_.set_text("moe.routing", "balanced", a_.origin("moe_router_force_load_balancing"));
    copy_if_on("overlap_moe_expert_parallel_comm", "overlap.ep");
    if (a_.flag("delay_wgrad_compute")) left_out("delay_wgrad_compute");
  }

  void write_capacity(bool deepspeed) {
    if (const auto factor = a_.real("moe_expert_capacity_factor"); factor && *factor > 0)
      draft_.set("moe.capacity_factor", a_.word("moe_expert_capacity_factor"),
                 a_.origin("moe_expert_capacity_factor"));
    if (deepspeed && !a_.given("moe_expert_capacity_factor"))
      draft_.set("moe.capacity_factor", int64_t{1}, "DeepSpeed's default");
    if (deepspeed) draft_.set("moe.pad_to_capacity", true, "DeepSpeed's experts");
    copy_if_on("moe_pad_expert_input_to_capacity", "moe.pad_to_capacity");
  }

  void write_kernels() {
    const std::string backend = a_.word("attention_backend", "auto");
    const bool local = a_.word("transformer_impl", "transformer_engine") == "local";
    const bool flash = a_.flag("use_flash_attn");
    std::string name = backend.substr(backend.rfind('.') + 1);  // AttnBackend.auto
    if (name == "unfused" || name == "local")
      draft_.set_text("kernels.attention", "unfused", a_.origin("attention_backend"));
    else if (local && !flash && name != "flash")
      draft_.set_text("kernels.attention", "unfused", a_.origin("transformer_impl"));
    else if (flash || name == "flash" || name == "fused")
      draft_.set_text("kernels.attention", "flash",
                      a_.origin(flash ? "use_flash_attn" : "attention_backend"));
    if (a_.given("transformer_impl"))
      draft_.set_text("kernels.modules", local ? "megatron" : "transformer-engine",
                      a_.origin("transformer_impl"));
    write_dropout("attention_dropout", "kernels.dropout.attention");
    write_dropout("hidden_dropout", "kernels.dropout.hidden");
    copy_flag("gradient_accumulation_fusion", "kernels.gradient_accumulation_fusion");
    const bool gated = a_.flag("swiglu");
    copy_flag("bias_activation_fusion", "kernels.fused_activation");
    copy_flag(gated ? "bias_swiglu_fusion" : "bias_gelu_fusion", "kernels.fused_activation");
    copy_flag("bias_dropout_fusion", "kernels.fused_bias_dropout_add");
    copy_flag("masked_softmax_fusion", "kernels.fused_softmax");
    if (!a_.flag("apply_rope_fusion", true)) left_out("apply_rope_fusion");
    copy_flag("cross_entropy_loss_fusion", "kernels.fused_cross_entropy");
    if (a_.flag("cross_entropy_loss_fusion") && a_.word("cross_entropy_fusion_impl") == "te")
      draft_.set_text("kernels.loss", "in-place", a_.origin("cross_entropy_fusion_impl"));
    note_emptied_cache();
  }

  // Level 1: after the backward passes, 2: after the optimizer, too
  // (megatron/training/training.py, train_step()).
  void note_emptied_cache() {
    const char* name = "empty_unused_memory_level";
    if (a_.whole(name, 0) < 1) return;
    draft_.note(
        fmt::format("{}: Megatron gives PyTorch's cache back in each step; that less stays "
                    "reserved, and the time that allocating it again takes, are left out",
                    a_.why(name)));
  }

  void write_dropout(const char* name, const char* path) {
    if (a_.given(name))
      draft_.set(path, a_.word(name), a_.real(name) ? a_.origin(name) : Origin(""));
    else
      draft_.set(path, std::string("0.1"), "Megatron's default");
  }

  void write_graphs() {
    const std::string impl = a_.word("cuda_graph_impl", "none");
    const char* by = impl != "none"                   ? "cuda_graph_impl"
                     : a_.flag("enable_cuda_graph")   ? "enable_cuda_graph"
                     : a_.flag("external_cuda_graph") ? "external_cuda_graph"
                                                      : nullptr;
    if (by == nullptr) return;
    const bool step = impl == "full_iteration" || a_.word("cuda_graph_scope") == "full_iteration";
    draft_.set_text("kernels.cuda_graph", step ? "step" : "layer", a_.origin(by));
  }

  // A limit of the training, in tokens; without an argument of it, or of one that cannot be read,
  // none.
  struct Limit {
    int64_t tokens;
    Origin why;
  };
  std::optional<Limit> limit(const char* name, int64_t tokens_of_each, const std::string& each) {
    if (!a_.given(name) || tokens_of_each < 1) return {};
    const std::optional<int64_t> n = a_.count(name);
    if (n == 0) return {};
    if (!n || *n > std::numeric_limits<int64_t>::max() / tokens_of_each) {
      draft_.note(fmt::format("{}: not read as a number; job.tokens says how long the training is",
                              a_.why(name)));
      return {};
    }
    return Limit{*n * tokens_of_each, {a_.why(name) + each, a_.mark(name)}};
  }

  // --train-samples states how long it trains; --train-iters is often that of a trial, and by
  // itself no length of a training to reckon days and dollars with.  Megatron-DeepSpeed stops at
  // the first limit, also of tokens (megatron/training.py, train()).
  void write_tokens() {
    const bool decodes =
        (s_.encodes_and_decodes || s_.sees_images) && a_.given("decoder_seq_length");
    const char* of_tokens = decodes ? "decoder_seq_length" : "seq_length";
    const int64_t seq = a_.whole(of_tokens, 0);
    const std::string of_samples = fmt::format(" x {}", a_.why(of_tokens));
    std::optional<Limit> first = limit("train_tokens", 1, {});
    const auto ends_at = [&](std::optional<Limit> other) {
      if (other && (!first || other->tokens < first->tokens)) first = std::move(other);
    };
    ends_at(limit("train_samples", seq, of_samples));
    if (first && a_.given("train_tokens") && a_.given("global_batch_size"))
      ends_at(limit("train_iters", saturating_product(a_.whole("global_batch_size", 0), seq),
                    fmt::format(" x {}{}", a_.why("global_batch_size"), of_samples)));
    if (first) draft_.set("job.tokens", first->tokens, first->why);
  }

  void write_job() {
    write_tokens();
    std::string checkpoint;
    const auto add = [&](const char* key, const std::string& value) {
      checkpoint += fmt::format("{}{}: {}", checkpoint.empty() ? "{" : ", ", key, value);
    };
    if (a_.given("save") && a_.given("save_interval"))
      add("every", fmt::format("{} steps", a_.whole("save_interval", 0)));
    if (!checkpoint.empty() && a_.flag("async_save")) add("mode", "async");
    // Local checkpoints are lost with their node.
    if (a_.given("non_persistent_save_interval")) {
      add("memory_copies", "1");
      add("memory_every", fmt::format("{} steps", a_.whole("non_persistent_save_interval", 0)));
    }
    if (checkpoint.empty()) return;
    Origin origin =
        a_.origin(a_.given("save_interval") ? "save_interval" : "non_persistent_save_interval");
    draft_.set("job.checkpoint", checkpoint + '}', origin);
  }

  const ArgumentReader& a_;
  const MegatronSizes& s_;
  ScenarioDraft& draft_;
};

}  // namespace

void draft_megatron_run(const ArgumentReader& a, const MegatronSizes& sizes, ScenarioDraft& draft) {
  RunDraft(a, sizes, draft).write();
}

}  // namespace stepcast
