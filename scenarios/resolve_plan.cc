// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_plan.h"

#include <algorithm>
#include <array>

#include "model/low_precision.h"
#include "scenarios/resolve_mode.h"
#include "sim/check.h"

namespace stepcast {
namespace {

std::string str(int64_t n) {
  return std::to_string(n);
}

constexpr int64_t kMostBatch = 1'000'000'000;  // sequences, and tokens of one: products fit 64 bits

bool in_range(const PlanInputs& in, std::string_view path) {
  const FieldValues& v = in.values;
  if (v.whole(path) <= kMostBatch) return true;
  in.problems.add("E123", '\'' + std::string(path) + "' is too large: " + str(v.whole(path)),
                  v.mark(path), v.length(path), {}, "at most " + str(kMostBatch));
  return false;
}

void check_global_batch(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const int64_t unit = plan.micro_batch * plan.dp;  // < 1e9 * 1e7
  const int64_t global = plan.global_batch;
  if (global % unit == 0) return;
  const int64_t below = global / unit * unit, above = below + unit;
  in.problems.add("E203",
                  "batch.global = " + str(global) + " is not a multiple of micro*dp = " + str(unit),
                  v.mark("batch.global"), v.length("batch.global"), {},
                  below == 0 ? "the smallest is " + str(above)
                             : "the nearest are " + str(below) + " and " + str(above));
}

void check_sequence(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const bool tp_fits = in.model == nullptr || divides(*in.model, plan.tp);
  if (plan.sp && v.has("parallel.tp") && tp_fits && plan.seq % plan.tp != 0)
    in.problems.add("E204",
                    "batch.seq = " + str(plan.seq) + " is not a multiple of tp = " + str(plan.tp) +
                        ", over which sequence parallelism splits it",
                    v.mark("batch.seq"), v.length("batch.seq"), {}, "or set parallel.sp to false");
  const Transformer* m = in.model;
  if (m != nullptr && m->positions == Positions::learned && m->max_positions > 0 &&
      plan.seq > m->max_positions)
    in.problems.add("E211",
                    "batch.seq = " + str(plan.seq) + " exceeds the model's learned positions, " +
                        "max_position_embeddings = " + str(m->max_positions),
                    v.mark("batch.seq"), v.length("batch.seq"), {},
                    "set model.max_position_embeddings to train longer sequences");
}

void resolve_batch(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (v.has("batch.micro")) plan.micro_batch = v.whole("batch.micro");
  const bool global = v.require("batch.global", "sequences of a step: batch: {global: 256, ...}");
  if (global && in_range(in, "batch.global")) {
    plan.global_batch = v.whole("batch.global");
    const bool dp_known = in.cluster != nullptr && v.has("parallel.dp");
    if (dp_known && v.has("batch.micro")) check_global_batch(in, plan);
  }
  if (v.require("batch.seq", "tokens of a sequence: batch: {seq: 4096, ...}") &&
      in_range(in, "batch.seq")) {
    plan.seq = v.whole("batch.seq");
    check_sequence(in, plan);
  }
}

struct PrecisionPreset {
  std::string_view name, params, grads, reduce;
  bool master;
  std::string_view why;
  Scaling scaling = Scaling::none;
  std::string_view moments = "fp32";
};
constexpr std::array<PrecisionPreset, 10> kPrecisions{
    {{"bf16-mixed", "bf16", "fp32", "fp32", true, "gradients accumulate in fp32"},
     {"fp16-mixed", "fp16", "fp16", "fp16", true,
      "fp16 gradients without Megatron's --accumulate-allreduce-grads-in-fp32"},
     {"fp32", "fp32", "fp32", "fp32", false, "everything in fp32"},
     {"fp8-delayed", "bf16", "fp32", "fp32", true, "bf16 but for the GEMMs of linear layers",
      Scaling::delayed},
     {"fp8-tensorwise", "bf16", "fp32", "fp32", true, "bf16 but for the GEMMs of linear layers",
      Scaling::tensorwise},
     {"fp8-blockwise", "bf16", "fp32", "fp32", true, "bf16 but for the GEMMs of linear layers",
      Scaling::blockwise},
     {"fp8-deepseek", "bf16", "fp32", "fp32", true,
      "DeepSeek-V3 (arXiv 2412.19437) section 3.3: moments in bf16", Scaling::blockwise, "bf16"},
     {"mxfp8", "bf16", "fp32", "fp32", true, "bf16 but for the GEMMs of linear layers",
      Scaling::mxfp8},
     {"nvfp4", "bf16", "fp32", "fp32", true, "bf16 but for the GEMMs of linear layers",
      Scaling::nvfp4},
     {"int8", "bf16", "fp32", "fp32", true, "bf16 but for the GEMMs of linear layers",
      Scaling::int8}}};

// Low-precision GEMMs: which tensors and layers.
void resolve_scaling(const PlanInputs& in, Scaling scaling, Plan& plan) {
  FieldValues& v = in.values;
  Precision& p = plan.precision;
  p.scaling = scaling;
  if (scaling == Scaling::none) {
    for (const char* path : {"precision.fp8_params", "precision.first_last_bf16"}) {
      if (v.value(path) != nullptr && v.has(path) && v.flag(path))
        in.warnings.push_back(std::string(path) + " has no effect: GEMMs are not in low precision");
    }
    return;
  }
  if (v.text("precision.preset") == "fp8-deepseek" && !v.stated("precision.fp8_params"))
    v.derive("precision.fp8_params", true, "true",
             "preset fp8-deepseek: weights in fp8, their master copy in the optimizer");
  if (v.has("precision.fp8_params")) p.low_params = v.flag("precision.fp8_params");
  if (in.cluster != nullptr) p.low_transposes = in.cluster->node.gpu.arch != GpuArch::blackwell;
  if (!v.has("precision.first_last_bf16") || !v.flag("precision.first_last_bf16")) return;
  if (v.has("precision.first_bf16_layers"))
    p.wide_first_layers = v.whole("precision.first_bf16_layers");
  if (v.has("precision.last_bf16_layers"))
    p.wide_last_layers = v.whole("precision.last_bf16_layers");
  if (in.model == nullptr) return;
  assign_wide_layers(plan.stages, *in.model, p);
}

void resolve_precision(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (!v.has("precision.preset")) return;
  const std::string& name = v.text("precision.preset");
  const auto preset = std::find_if(kPrecisions.begin(), kPrecisions.end(),
                                   [&](const PrecisionPreset& p) { return p.name == name; });
  if (preset == kPrecisions.end()) return;  // known, not modelled: E130 has been said
  const std::string origin = "preset " + name + ": " + std::string(preset->why);
  const auto format = [&](const char* path, std::string_view fallback) {
    if (!v.stated(path)) v.derive(path, std::string(fallback), std::string(fallback), origin);
    return v.has(path) ? dtype_of(v.text(path)) : DType::bf16;
  };
  Precision& p = plan.precision;
  p.params = format("precision.params", preset->params);
  p.gradients = format("precision.grads", preset->grads);
  // What is reduced is the gradient buffer, unless it is said otherwise.
  p.reduce = format("precision.reduce",
                    v.stated("precision.grads") ? name_of(p.gradients) : preset->reduce);
  p.moments = format("precision.moments", preset->moments);
  const bool master = v.stated("precision.params") ? p.params != DType::fp32 : preset->master;
  if (!v.stated("precision.master"))
    v.derive("precision.master", master, master ? "true" : "false", origin);
  if (v.has("precision.master")) p.master = v.flag("precision.master");
  if (v.has("precision.own_grads")) p.own_gradients = v.flag("precision.own_grads");
  resolve_scaling(in, preset->scaling, plan);

  if (in.cluster == nullptr || in.cluster->node.gpu.peak.empty()) return;
  const Gpu& gpu = in.cluster->node.gpu;
  if (gpu.peak.count(p.params) == 0)
    in.problems.add(
        "E230", gpu.name + " has no " + std::string(name_of(p.params)) + " rate",
        v.mark(v.value("precision.params") != nullptr ? "precision.params" : "precision.preset"),
        v.length("precision.preset"), {},
        gpu.peak.count(DType::fp16) != 0 ? "precision: fp16-mixed works on it" : "");
  if (p.scaling == Scaling::none) return;
  const DType low = low_format(p).dtype;
  const bool scales =
      p.scaling != Scaling::mxfp8 || gpu.arch == GpuArch::blackwell || gpu.arch == GpuArch::other;
  if (gpu.peak.count(low) == 0 || !scales)
    in.problems.add("E230",
                    gpu.name + (scales ? " has no " + std::string(name_of(low)) + " rate"
                                       : std::string(" has no tensor cores for mxfp8")),
                    v.mark("precision.preset"), v.length("precision.preset"), {},
                    "precision: bf16-mixed works on it");
}

void resolve_modules(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (v.value("recompute.modules") == nullptr || !v.has("recompute.modules")) return;
  RecomputeModules& m = plan.recompute_modules;
  const std::pair<std::string_view, bool*> all[] = {{"core_attn", &m.core_attention},
                                                    {"layernorm", &m.norms},
                                                    {"mla_up_proj", &m.mla_up_projection},
                                                    {"mlp", &m.mlp},
                                                    {"moe", &m.moe},
                                                    {"moe_act", &m.moe_activation},
                                                    {"shared_experts", &m.shared_experts}};
  const std::vector<std::string>& words = v.texts("recompute.modules");
  for (const auto& [word, flag] : all)
    *flag = std::find(words.begin(), words.end(), word) != words.end();
  if (plan.recompute != Recompute::selective)
    in.warnings.push_back("recompute.modules has no effect without recompute: selective");
  if (in.model == nullptr) return;
  const bool experts = in.model->experts > 0;
  const auto without = [&](bool asked, const char* word, const char* what) {
    if (asked)
      in.warnings.push_back(std::string("recompute.modules: ") + word +
                            " has no effect: the model has no " + what);
  };
  without(m.mla_up_projection && in.model->kv_rank == 0, "mla_up_proj", "latent attention");
  without(m.moe && !experts, "moe", "experts");
  without(m.moe_activation && !experts, "moe_act", "experts");
  without(m.shared_experts && in.model->shared_ffn == 0, "shared_experts", "shared experts");
}

void resolve_recompute(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (v.has("recompute.granularity")) {
    const std::string& g = v.text("recompute.granularity");
    plan.recompute = g == "none"        ? Recompute::none
                     : g == "selective" ? Recompute::selective
                     : g == "per-op"    ? Recompute::per_op
                                        : Recompute::full;
  }
  resolve_modules(in, plan);
  if (v.has("recompute.distribute") && v.flag("recompute.distribute")) {
    plan.recompute_distribute = plan.recompute == Recompute::full && plan.tp > 1 && !plan.sp;
    if (!plan.recompute_distribute)
      in.warnings.push_back(
          "recompute.distribute has no effect: it needs recompute: full, tp > 1 and sp: false");
  }
  if (v.has("recompute.method"))
    plan.recompute_method =
        v.text("recompute.method") == "block" ? RecomputeMethod::block : RecomputeMethod::uniform;
  if (!v.has("recompute.layers")) return;
  plan.recompute_layers = v.whole("recompute.layers");
  int64_t most = 0;
  for (const StageContent& s : plan.stages) most = std::max(most, s.layers);
  if (plan.recompute == Recompute::full && most > 0 && plan.recompute_layers > most)
    in.problems.add("E127",
                    "recompute.layers = " + str(plan.recompute_layers) +
                        ", but no stage has more than " + str(most) + " layers",
                    v.mark("recompute.layers"), v.length("recompute.layers"));
}

void resolve_comm_sms(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (!v.has("overlap.comm_sms")) return;
  const int64_t taken = v.whole("overlap.comm_sms");
  if (taken == 0 || in.cluster == nullptr) return;
  const Gpu& gpu = in.cluster->node.gpu;
  if (taken < gpu.sms) {
    plan.overlap.comm_sms = static_cast<int>(taken);
    return;
  }
  in.problems.add("E127", gpu.name + " has " + std::to_string(gpu.sms) + " SMs",
                  v.mark("overlap.comm_sms"), v.length("overlap.comm_sms"), {},
                  "DeepSeek-V3 used 20 of 132");
}

void resolve_overlap(const FieldValues& v, Plan& plan) {
  const auto flag = [&](const char* path, bool& to) {
    if (v.has(path)) to = v.flag(path);
  };
  if (v.has("overlap.tp"))
    plan.overlap.tp = v.text("overlap.tp") == "none"        ? TpOverlap::none
                      : v.text("overlap.tp") == "bulk"      ? TpOverlap::bulk
                      : v.text("overlap.tp") == "pipelined" ? TpOverlap::pipelined
                                                            : TpOverlap::backward;
  flag("overlap.ep", plan.overlap.ep);
  flag("overlap.dp_grad", plan.overlap.dp_grad);
  flag("overlap.dp_param", plan.overlap.dp_param);
  flag("optimizer.clip", plan.clip_gradients);
  if (v.has("overlap.bucket")) plan.bucket_parameters = v.whole("overlap.bucket");
  Kernels& k = plan.kernels;
  if (v.has("kernels.attention")) k.flash_attention = v.text("kernels.attention") == "flash";
  if (v.has("kernels.flash_kernel")) {
    const std::string& kernel = v.text("kernels.flash_kernel");
    for (const AttentionKernel a :
         {AttentionKernel::flash1, AttentionKernel::flash1_triton, AttentionKernel::flash2}) {
      if (kernel == name_of(a)) k.fused_attention = a;
    }
  }
  flag("kernels.fused_bias", k.fused_bias);
  flag("kernels.fused_bias_dropout_add", k.fused_bias_dropout_add);
  flag("kernels.fused_activation", k.fused_activation);
  flag("kernels.fused_softmax", k.fused_softmax);
  flag("kernels.fused_cross_entropy", k.fused_cross_entropy);
  flag("kernels.gradient_accumulation_fusion", k.gradient_accumulation_fusion);
  flag("kernels.fused_norm", k.fused_norm);
  if (v.has("kernels.modules")) {
    const std::string& modules = v.text("kernels.modules");
    if (modules == "torch") k.modules = Modules::torch;
    if (modules == "megatron") k.modules = Modules::megatron;
  }
  if (v.has("kernels.host_waits")) {
    const std::string& waits = v.text("kernels.host_waits");
    if (waits == "forward") k.host_waits = HostWaits::forward;
    if (waits == "passes") k.host_waits = HostWaits::passes;
  }
  if (v.has("kernels.cuda_graph")) {
    const std::string& graph = v.text("kernels.cuda_graph");
    if (graph == "layer") k.cuda_graph = CudaGraph::layer;
    if (graph == "step") k.cuda_graph = CudaGraph::step;
  }
}

// What libraries keep for products, which depends on the GPU, and whose cross-entropy and Adam are
// called.
void resolve_libraries(const PlanInputs& in, Plan& plan) {
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  FieldValues& v = in.values;
  Kernels& k = plan.kernels;
  if (v.has("kernels.gradient_placeholders"))
    k.gradient_placeholders = v.flag("kernels.gradient_placeholders");
  if (v.has("optimizer.kernel")) {
    const std::string& kernel = v.text("optimizer.kernel");
    if (kernel == "foreach") plan.optimizer_kernel = OptimizerKernel::foreach;
    if (kernel == "flat") plan.optimizer_kernel = OptimizerKernel::flat;
  }
  if (v.has("kernels.loss")) {
    const std::string& loss = v.text("kernels.loss");
    if (loss == "in-place") k.loss = Loss::in_place;
    if (loss == "torch") k.loss = Loss::torch;
    if (loss == "torch-compiled") k.loss = Loss::torch_compiled;
    if (loss == "torch-gathered") k.loss = Loss::torch_gathered;
  }
  if (in.cluster == nullptr) return;
  const GpuArch arch = in.cluster->node.gpu.arch;
  const bool hopper = arch == GpuArch::hopper;
  if (!v.stated("kernels.blas_workspace"))
    v.derive("kernels.blas_workspace", hopper ? 32 * kMiB : (2 * 4096 + 8 * 16) * kKiB,
             hopper ? "32MiB" : "8320KiB",
             hopper ? "PyTorch on Hopper" : "PyTorch but on Hopper: ':4096:2:16:8'");
  if (v.has("kernels.blas_workspace")) k.blas_workspace = Bytes{v.whole("kernels.blas_workspace")};
  k.engine_workspace = Bytes{(hopper || arch == GpuArch::blackwell ? 32 : 4) * kMiB};
}

// Overlap that can do nothing is remarked on.
void check_overlap(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  for (const char* path : {"overlap.dp_grad", "overlap.dp_param"}) {
    if (v.value(path) == nullptr || !v.has(path) || !v.flag(path)) continue;
    if (plan.dp * plan.cp == 1) {
      in.warnings.push_back(std::string(path) + " has no effect: dp = 1");
    } else if (plan.zero == 0 && path == std::string_view("overlap.dp_param")) {
      in.warnings.push_back("overlap.dp_param has no effect without parallel.zero: 1");
    }
  }
}

}  // namespace

DType dtype_of(std::string_view word) {
  for (const DType t : {DType::fp32, DType::tf32, DType::fp16, DType::bf16, DType::fp8, DType::int8,
                        DType::fp4, DType::uint8})
    if (name_of(t) == word) return t;
  return DType::bf16;
}

int64_t padded_vocab(int64_t vocab, int64_t tp, int64_t multiple) {
  const int64_t unit = multiple * tp;
  return (vocab + unit - 1) / unit * unit;
}

namespace {

// The largest tensor of a microbatch has to be countable in bytes.
void check_tensor_sizes(const PlanInputs& in, const Plan& plan) {
  if (in.model == nullptr || !in.values.has("batch.seq")) return;
  const auto seq = static_cast<double>(plan.seq);
  const auto wide = [](int64_t n) { return static_cast<double>(n); };
  const Transformer& m = *in.model;
  const int64_t multiple =
      in.values.has("parallel.vocab_multiple") ? in.values.whole("parallel.vocab_multiple") : 1;
  const double row =
      std::max({wide(m.hidden), 2 * wide(m.ffn), wide(m.vocab) + wide(multiple) * wide(plan.tp),
                wide(m.heads) * seq, wide(m.heads + 2 * m.kv_heads) * wide(m.head_dim),
                wide(plan.ep) * wide(plan.etp) * wide(m.hidden),
                wide(m.experts_per_token) * wide(plan.etp) * wide(2 * m.moe_ffn + m.hidden)});
  const double bytes =
      seq * wide(plan.micro_batch) * row * 4 * wide(std::max<int64_t>(1, m.layers));
  if (bytes < 1e18) return;
  in.problems.add("E123",
                  "a microbatch of " + str(plan.micro_batch) + " x " + str(plan.seq) +
                      " tokens needs more bytes than can be counted",
                  in.values.mark("batch.seq"), in.values.length("batch.seq"));
}

}  // namespace

Plan resolve_plan(const PlanInputs& in) {
  Plan plan;
  resolve_mode(in, plan);
  resolve_layout(in, plan);
  resolve_batch(in, plan);
  resolve_encoder(in, plan);
  resolve_context(in, plan);
  resolve_precision(in, plan);
  resolve_exchange(in, plan);
  resolve_recompute(in, plan);
  resolve_sharding(in, plan);
  resolve_overlap(in.values, plan);
  resolve_libraries(in, plan);
  resolve_comm_sms(in, plan);
  check_overlap(in, plan);
  remark_overridden(in, plan);
  check_tensor_sizes(in, plan);
  check_mode(in, plan);
  return plan;
}

}  // namespace stepcast
