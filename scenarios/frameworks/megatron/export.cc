// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/megatron/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "scenarios/frameworks/megatron/export_layout.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

// The shortest text that reads back as the same number.
std::string number(double x) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), x).ptr};
}

// Keys that the arguments say beside those of said_by_megatron(), or that have a note of their own.
constexpr std::array<std::string_view, 26> kSaidByArguments{"parallel.zero_exchange",
                                                            "parallel.vocab_multiple",
                                                            "parallel.cp_inner",
                                                            "schedule.p2p",
                                                            "overlap.pp_p2p",
                                                            "recompute",
                                                            "precision.own_grads",
                                                            "precision.reduce",
                                                            "optimizer.clip",
                                                            "kernels.attention",
                                                            "kernels.dropout",
                                                            "kernels.fused_bias_dropout_add",
                                                            "kernels.fused_activation",
                                                            "kernels.fused_softmax",
                                                            "kernels.fused_cross_entropy",
                                                            "kernels.loss",
                                                            "kernels.gradient_accumulation_fusion",
                                                            "kernels.modules",
                                                            "moe.dispatcher",
                                                            "moe.capacity_factor",
                                                            "moe.pad_to_capacity",
                                                            "moe.grouped_gemm",
                                                            "moe.permute_fusion",
                                                            "moe.router_fusion",
                                                            "moe.shared_overlap",
                                                            "offload"};

class ArgumentWriter {
 public:
  explicit ArgumentWriter(const Scenario& s) : s_(s), m_(s.model), p_(s.plan) {}

  ExportedArguments write() {
    write_model();
    write_attention();
    write_experts();
    write_layout();
    write_stages();
    write_batch();
    write_recompute();
    write_precision();
    write_overlap();
    write_kernels();
    write_schedule();
    const int64_t per_node = std::max<int64_t>(1, s_.cluster.node.gpus);
    const int64_t world = p_.tp * p_.cp * p_.pp * p_.dp;
    std::vector<std::string_view> said = said_by_megatron(kSaidByArguments);
    // How stages exchange tensors is an argument of interleaved orders alone.
    if (p_.vpp < 2)
      std::erase_if(said, [](std::string_view key) {
        return key == "schedule.p2p" || key == "overlap.pp_p2p";
      });
    // Its kind has a note of its own, and only PyTorch's keeps parameters gathered.
    if (p_.zero == 3) said.emplace_back("parallel.fsdp");
    if (uses_torch_fsdp()) said.emplace_back("parallel.reshard_after_forward");
    // Without a capacity nothing is padded to it.
    if (!p_.moe.pad_to_capacity) std::erase(said, "moe.pad_to_capacity");
    for (const std::string& stated : stated_beside(s_, said)) note(stated + " is not written");
    std::string text = "#!/bin/bash\n";
    for (const std::string& n : result_.notes) text += "# " + n + '\n';
    // validate_args() asks for one connection beside tensor or context parallelism, and refuses it
    // beside FSDP.
    text += p_.zero < 2 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n\n" : "\n";
    text += fmt::format("torchrun --nproc_per_node {} --nnodes {} pretrain_gpt.py",
                        std::min(per_node, world), (world + per_node - 1) / per_node);
    for (const std::string& line : lines_) text += " \\\n  " + line;
    result_.text = text + '\n';
    return std::move(result_);
  }

 private:
  void add(const std::string& line) { lines_.push_back(line); }
  void add(const char* name, int64_t value) { add(fmt::format("{} {}", name, value)); }
  void flag(bool on, const char* name) {
    if (on) add(name);
  }
  void note(std::string text) { result_.notes.push_back(std::move(text)); }
  void other_model(std::string_view why) {
    note(fmt::format("the model that these arguments train is not quite the scenario's: {}", why));
  }

  void write_model() {
    add("--num-layers", m_.layers);
    add("--hidden-size", m_.hidden);
    add("--ffn-hidden-size", m_.ffn);
    flag(m_.gated && m_.activation == Activation::silu, "--swiglu");
    if (m_.gated && m_.activation == Activation::gelu) {
      add("--quick-geglu");
      note("a gated GELU is written as --quick-geglu");
    }
    flag(!m_.gated && m_.activation == Activation::relu, "--squared-relu");
    if (m_.gated && m_.activation == Activation::relu) other_model("Megatron has no gated ReLU");
    if (m_.norm == Norm::rms_norm) add("--normalization RMSNorm");
    flag(!m_.tied, "--untie-embeddings-and-output-weights");
    flag(!m_.mlp_bias, "--disable-bias-linear");
    if (m_.attention_output_bias != m_.mlp_bias)
      other_model("Megatron has biases in all linear layers or in none of them but the QKV one");
    if (m_.attention_bias && !m_.mlp_bias) add("--add-qkv-bias");
    add(m_.positions == Positions::learned  ? "--position-embedding-type learned_absolute"
        : m_.positions == Positions::rotary ? "--position-embedding-type rope"
                                            : "--position-embedding-type none");
    add("--max-position-embeddings", std::max(m_.max_positions, p_.seq));
    // The vocabulary is padded already, and the null tokenizer adds one.
    add("--tokenizer-type NullTokenizer");
    add("--vocab-size", m_.vocab - 1);
    constexpr int64_t kMultiple = 128;  // Megatron's default
    if (m_.vocab % (kMultiple * p_.tp) != 0) add("--make-vocab-size-divisible-by 1");
    add("--mock-data --train-iters 50 --lr 1e-4 --log-interval 1");
    if (m_.parallel_block) other_model("Megatron has no attention beside the MLP");
    if (p_.teacher) note("distill is not written: these arguments train without the teacher");
  }

  void write_attention() {
    add("--num-attention-heads", m_.heads);
    flag(m_.qk_norm, m_.qk_norm_weights == QkNormWeights::none ? "--qk-l2-norm" : "--qk-layernorm");
    if (m_.qk_norm && m_.qk_norm_weights == QkNormWeights::of_heads)
      other_model("Megatron's norms of queries and keys share their weights between heads");
    if (m_.value_norm) other_model("Megatron has no norm of values");
    if (m_.branch_norms) other_model("Megatron has no norm at the end of attention and MLP");
    if (m_.attention_sinks) add("--softmax-type learnable");
    if (m_.kv_rank > 0) {
      add("--multi-latent-attention");
      if (m_.q_rank > 0) add("--q-lora-rank", m_.q_rank);
      add("--kv-lora-rank", m_.kv_rank);
      add("--qk-head-dim", m_.qk_nope_dim);
      add("--qk-pos-emb-head-dim", m_.qk_rope_dim);
      add("--v-head-dim", m_.v_dim);
    } else {
      add("--kv-channels", m_.head_dim);
      if (m_.kv_heads != m_.heads) {
        add("--group-query-attention");
        add("--num-query-groups", m_.kv_heads);
      }
    }
    write_windows();
  }

  void write_windows() {
    int64_t window = m_.sliding_window;
    for (const int64_t w : m_.windows) window = std::max(window, w);
    if (window == 0) return;
    // Megatron counts only the tokens before a query.
    add(fmt::format("--window-size {},0", window - 1));
    if (m_.windows.empty()) return;
    std::string pattern;
    for (const int64_t w : m_.windows) {
      pattern += (pattern.empty() ? "[" : ",") + std::string(w > 0 ? "1" : "0");
      if (w > 0 && w != window) other_model("windows of several sizes: Megatron has one");
    }
    add("--window-attn-skip-freq '" + pattern + "]'");
  }

  void write_experts() {
    if (m_.mtp_layers > 0) add("--mtp-num-layers", m_.mtp_layers);
    if (m_.experts == 0) return;
    add("--num-experts", m_.experts);
    add("--moe-router-topk", m_.experts_per_token);
    add("--moe-ffn-hidden-size", m_.moe_ffn);
    if (m_.shared_ffn > 0) add("--moe-shared-expert-intermediate-size", m_.shared_ffn);
    flag(m_.shared_gate, "--moe-shared-expert-gate");
    if (m_.expert_norms) other_model("Megatron has no norms of the experts' own");
    flag(m_.router_bias, "--moe-router-enable-expert-bias");
    if (m_.router_groups > 0) add("--moe-router-num-groups", m_.router_groups);
    if (m_.router_top_groups > 0) add("--moe-router-group-topk", m_.router_top_groups);
    std::string pattern;
    bool all = true;
    for (int64_t i = 0; i < m_.layers; ++i) {
      const bool experts = layer_kind(m_, i).experts;
      all = all && experts;
      pattern += (pattern.empty() ? "[" : ",") + std::string(experts ? "1" : "0");
    }
    if (!all) add("--moe-layer-freq '" + pattern + "]'");
    const MoeRun& r = p_.moe;
    add(r.dispatcher == Dispatcher::all_gather   ? "--moe-token-dispatcher-type allgather"
        : r.dispatcher == Dispatcher::all_to_all ? "--moe-token-dispatcher-type alltoall"
                                                 : "--moe-token-dispatcher-type flex");
    if (r.dispatcher == Dispatcher::deepep) add("--moe-flex-dispatcher-backend deepep");
    if (r.capacity_factor > 0) add("--moe-expert-capacity-factor " + number(r.capacity_factor));
    flag(r.pad_to_capacity, "--moe-pad-expert-input-to-capacity");
    flag(r.grouped_gemm, "--moe-grouped-gemm");
    flag(r.permute_fusion, "--moe-permute-fusion");
    flag(r.router_fusion, "--moe-router-fusion");
    flag(r.shared_overlap, "--moe-shared-expert-overlap");
    flag(p_.overlap.ep, "--overlap-moe-expert-parallel-comm");
    if (r.routing.kind != Routing::Kind::balanced)
      note("how uneven the routing is follows from the data in Megatron");
  }

  void write_layout() {
    if (p_.tp > 1) add("--tensor-model-parallel-size", p_.tp);
    if (p_.cp > 1) {
      constexpr std::array<const char*, 4> kWays{"p2p", "all_gather", "a2a", "a2a+p2p"};
      add("--context-parallel-size", p_.cp);
      add(std::string("--cp-comm-type ") + kWays[static_cast<size_t>(p_.cp_comm)]);
      if (p_.cp_comm == CpComm::hierarchical && p_.cp_inner > 0)
        add(fmt::format("--hierarchical-context-parallel-sizes {} {}", p_.cp_inner,
                        p_.cp / p_.cp_inner));
    }
    if (m_.experts > 0) {
      if (p_.ep > 1) add("--expert-model-parallel-size", p_.ep);
      add("--expert-tensor-parallel-size", p_.etp);
    }
    flag(p_.sp, "--sequence-parallel");
    write_sharding();
    if (p_.dp_replicate > 1) add("--num-distributed-optimizer-instances", p_.dp_replicate);
    if (p_.offload.optimizer > 0) {
      add("--optimizer-cpu-offload");
      add("--optimizer-offload-fraction " + number(p_.offload.optimizer));
    }
    if (p_.offload.parameters) note("Megatron keeps parameters on the GPU");
    if (p_.offload.activation_layers > 0)
      add("--cpu-offloading-num-layers", p_.offload.activation_layers);
  }

  // PyTorch's FSDP2, of which Megatron-LM's validate_args() (megatron/training/arguments.py)
  // refuses what stands here.
  bool uses_torch_fsdp() const {
    return p_.zero == 3 && p_.sharding.fsdp2() && p_.pp == 1 && p_.ep == 1 &&
           p_.dp_replicate == 1 && !m_.tied && p_.offload.optimizer == 0 &&
           p_.precision.params != DType::fp16 && p_.precision.moments == DType::fp32 &&
           !p_.precision.low_params && !p_.kernels.gradient_accumulation_fusion;
  }

  void write_sharding() {
    if (p_.zero == 1 && p_.zero_exchange != ZeroExchange::scatter)
      note(
          "Megatron's distributed optimizer scatters gradients; parallel.zero_exchange is not "
          "written");
    if (uses_torch_fsdp()) {
      add("--use-torch-fsdp2");
      return flag(!p_.sharding.reshard_after_forward, "--torch-fsdp2-no-reshard-after-forward");
    }
    flag(p_.zero > 0, "--use-distributed-optimizer");
    if (p_.zero < 2) return;
    add("--use-megatron-fsdp");
    add(p_.zero == 2 ? "--data-parallel-sharding-strategy optim_grads"
                     : "--data-parallel-sharding-strategy optim_grads_params");
    // validate_args() refuses other formats beside it.
    add("--ckpt-format fsdp_dtensor");
    if (p_.zero == 3 && (p_.sharding.copied_out || p_.sharding.wide))
      note("Megatron runs this with a sharding of its own, which parallel.fsdp megatron forecasts");
  }

  void write_stages() {
    if (p_.pp < 2) return;
    add("--pipeline-model-parallel-size", p_.pp);
    const std::vector<StageContent>& stages = p_.stages;
    bool even = true;
    std::string layout;
    for (size_t i = 0; i < stages.size(); ++i) {
      const StageContent& s = stages[i];
      even = even && s.layers == stages.front().layers && s.embedding == (i == 0) &&
             s.head == (i + 1 == stages.size()) && (s.predictions == 0 || s.head);
      layout += i > 0 ? "|" : "";
      layout += s.embedding ? "E" : "";
      if (s.layers > 0) layout += fmt::format("t*{}", s.layers);
      layout += std::string(static_cast<size_t>(s.predictions), 'm');
      layout += s.head ? "L" : "";
    }
    if (!even) return add("--pipeline-model-parallel-layout '" + layout + '\'');
    if (p_.vpp > 1) add("--num-layers-per-virtual-pipeline-stage", stages.front().layers);
  }

  void write_batch() {
    add("--seq-length", p_.seq);
    add("--micro-batch-size", p_.micro_batch);
    add("--global-batch-size", p_.global_batch);
  }

  void write_recompute() {
    if (p_.recompute == Recompute::none) return;
    if (p_.recompute == Recompute::per_op)
      return note(
          "Megatron recomputes whole layers or modules; recompute.granularity per-op is not "
          "written");
    if (p_.recompute == Recompute::full) {
      add("--recompute-granularity full");
      add(p_.recompute_method == RecomputeMethod::uniform ? "--recompute-method uniform"
                                                          : "--recompute-method block");
      flag(p_.recompute_distribute, "--distribute-saved-activations");
      return add("--recompute-num-layers", p_.recompute_layers);
    }
    const RecomputeModules& r = p_.recompute_modules;
    std::string modules;
    const auto module = [&](bool on, const char* name) {
      if (on) modules += std::string(" ") + name;
    };
    module(r.core_attention, "core_attn");
    module(r.norms, "layernorm");
    module(r.mla_up_projection, "mla_up_proj");
    module(r.mlp, "mlp");
    module(r.moe, "moe");
    module(r.moe_activation, "moe_act");
    module(r.shared_experts, "shared_experts");
    add("--recompute-granularity selective");
    add("--recompute-modules" + modules);
  }

  void write_precision() {
    const Precision& p = p_.precision;
    flag(p.params == DType::bf16, "--bf16");
    flag(p.params == DType::fp16, "--fp16");
    if (p.params == DType::bf16 && p.gradients == DType::bf16) add("--grad-reduce-in-bf16");
    if (p.params == DType::fp16 && p.gradients == DType::fp32)
      add("--accumulate-allreduce-grads-in-fp32");
    if (p.reduce != p.gradients)
      note(
          fmt::format("Megatron reduces gradients in their own format; precision.reduce {} is not "
                      "written",
                      name_of(p.reduce)));
    if (p.gradients != DType::fp32 && p.gradients != p.params)
      note("Megatron keeps gradients in fp32 or in the format of the parameters");
    // validate_args() refuses an optimizer on the host without it.
    flag(p.moments != DType::fp32 || p_.offload.optimizer > 0, "--use-precision-aware-optimizer");
    if (p.moments != DType::fp32) {
      add("--exp-avg-dtype " + std::string(name_of(p.moments)));
      add("--exp-avg-sq-dtype " + std::string(name_of(p.moments)));
    }
    switch (p.scaling) {
      case Scaling::none: break;
      case Scaling::delayed: add("--fp8-format hybrid"), add("--fp8-recipe delayed"); break;
      case Scaling::tensorwise: add("--fp8-format hybrid"), add("--fp8-recipe tensorwise"); break;
      case Scaling::blockwise: add("--fp8-format e4m3"), add("--fp8-recipe blockwise"); break;
      case Scaling::mxfp8: add("--fp8-format e4m3"), add("--fp8-recipe mxfp8"); break;
      case Scaling::nvfp4: add("--fp4-format e2m1"); break;
      case Scaling::int8: note("Megatron trains with no int8 GEMMs"); break;
    }
    if (p.scaling != Scaling::none && p.low_params) add("--fp8-param-gather");
    if (p.wide_first_layers > 0 || p.wide_last_layers > 0) {
      add("--first-last-layers-bf16");
      add("--num-layers-at-start-in-bf16", p.wide_first_layers);
      add("--num-layers-at-end-in-bf16", p.wide_last_layers);
    }
  }

  void write_overlap() {
    // Megatron-FSDP reduces beside the backward whatever it is told, as PyTorch's does
    // (megatron/core/distributed/fsdp/src/megatron_fsdp/megatron_fsdp.py); validate_args() refuses
    // to gather beside the forward without that, and without sharding.
    const bool reduces = p_.overlap.dp_grad || p_.zero > 1;
    if (reduces && !p_.overlap.dp_grad)
      note(std::string(uses_torch_fsdp() ? "PyTorch's FSDP2" : "Megatron's FSDP") +
           " reduces beside the backward; overlap.dp_grad false is not written");
    if (!uses_torch_fsdp()) {
      flag(reduces, "--overlap-grad-reduce");
      flag(reduces && p_.overlap.dp_param && p_.zero > 0, "--overlap-param-gather");
    }
    if (p_.zero == 1 && p_.overlap.dp_param && !reduces)
      note(
          "Megatron gathers parameters beside the forward only where it reduces gradients beside "
          "the backward; overlap.dp_param is not written");
    if (p_.bucket_parameters > 0) add("--ddp-bucket-size", p_.bucket_parameters);
    // Megatron-LM's validate_args() refuses it without sequence parallelism.
    const bool overlaps = p_.tp > 1 && p_.sp;
    if (!overlaps && p_.tp > 1 && p_.overlap.tp == TpOverlap::pipelined)
      note(
          "Megatron overlaps tensor parallelism beside sequence parallelism alone; overlap.tp is "
          "not written");
    if (overlaps && p_.overlap.tp == TpOverlap::pipelined) add("--tp-comm-overlap");
    if (overlaps && p_.overlap.tp == TpOverlap::bulk) {
      add("--tp-comm-overlap");
      add("--disable-tp-comm-overlap-ag");
      add("--disable-tp-comm-overlap-rs");
    }
    if (p_.overlap.tp == TpOverlap::none && p_.tp > 1)
      note("Megatron's backward collectives run beside GEMMs; overlap.tp none is not written");
    if (!p_.clip_gradients) add("--clip-grad 0.0");
  }

  void write_kernels() {
    const Kernels& k = p_.kernels;
    add("--attention-dropout " + number(m_.attention_dropout));
    add("--hidden-dropout " + number(m_.hidden_dropout));
    add(k.flash_attention ? "--attention-backend flash" : "--attention-backend unfused");
    flag(!k.gradient_accumulation_fusion, "--no-gradient-accumulation-fusion");
    flag(!k.fused_activation, m_.gated ? "--no-bias-swiglu-fusion" : "--no-bias-gelu-fusion");
    flag(!k.fused_bias_dropout_add, "--no-bias-dropout-fusion");
    flag(!k.fused_softmax, "--no-masked-softmax-fusion");
    const bool in_place = k.loss == Loss::in_place;
    flag(k.fused_cross_entropy || in_place, "--cross-entropy-loss-fusion");
    flag(in_place, "--cross-entropy-fusion-impl te");
    if (k.loss != Loss::megatron && !in_place)
      note("Megatron has a cross-entropy of its own over the shards of the vocabulary");
    if (k.fused_bias) note("Megatron adds biases in kernels of their own");
    if (k.modules != Modules::transformer_engine && p_.cp > 1)
      note(
          "Megatron has context parallelism with Transformer Engine alone; kernels.modules is not "
          "written");
    else if (k.modules != Modules::transformer_engine)
      add("--transformer-impl local");
    if (k.modules == Modules::torch) note("Megatron has modules of its own beside PyTorch's");
    if (k.host_waits != HostWaits::none)
      note("where the host waits follows from the version; kernels.host_waits is not written");
    if (k.flash_attention && k.fused_attention != AttentionKernel::table)
      note("the version of flash-attn is the one installed; kernels.flash_kernel is not written");
    const bool operators = !k.fused_norm || !k.fused_rotary || k.softmax_fp32;
    if (operators || k.context_copies || k.held_logits > 0)
      note(
          "what PyTorch's operators keep is another program's: kernels.fused_norm, fused_rotary, "
          "softmax_fp32, context_copies and held_logits are not written");
    if (p_.precision.own_gradients)
      note("Megatron adds gradients to the main ones at once; precision.own_grads is not written");
  }

  void write_schedule() {
    if (p_.pp < 2) return;
    const std::string& name = s_.schedule.name;
    if (name != "1f1b" && !name.starts_with("interleaved"))
      return note("Megatron-LM has no schedule " + name + ": 1F1B is what these arguments run");
    if (p_.vpp < 2) return;
    flag(s_.p2p == P2pStyle::megatron, "--no-overlap-p2p-communication");
    flag(s_.p2p == P2pStyle::megatron_overlap_flush, "--overlap-p2p-communication-warmup-flush");
  }

  const Scenario& s_;
  const Transformer& m_;
  const Plan& p_;
  std::vector<std::string> lines_;
  ExportedArguments result_;
};

}  // namespace

std::string why_not_megatron(const Scenario& s) {
  const Transformer& m = s.model;
  if (!s.plan.trains()) return "a forward alone: pretrain_gpt.py trains";
  if (m.encoder_layers > 0) return "an encoder and a decoder: pretrain_gpt.py trains decoders";
  if (m.bidirectional) return "attention to both sides: pretrain_gpt.py trains decoders";
  if (!m.compressions.empty())
    return "attention to compressed keys, with several residual streams: Megatron's arguments have "
           "none";
  if (!m.mixers.empty()) return "recurrent layers, or layers of one branch: they are not written";
  if (m.index_topk > 0) return "attention to the keys that an indexer chooses: it is not written";
  if (m.attention_gate) return "a gate behind attention: it is not written";
  if (m.moe_latent > 0) return "experts of a narrower width of their own: it is not written";
  if (!m.shapes.empty() || m.shared_values)
    return "layers of several sizes, or without a projection of values: Megatron's arguments have "
           "one size for all";
  if (m.kv_rank == 0 && own_shape(m).value_dim != m.head_dim)
    return "values narrower than keys (v_head_dim): Megatron's are as wide";
  return {};
}

ExportedArguments export_megatron(const Scenario& scenario) {
  if (const std::string why = why_not_megatron(scenario); !why.empty())
    throw file_error("E130", "not supported yet: Megatron's arguments for " + why, scenario.file,
                     scenario.plan.trains()
                         ? "what they would train is another model, of another step"
                         : "mode: training has them");
  return ArgumentWriter(scenario).write();
}

}  // namespace stepcast
