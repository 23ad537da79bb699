// SPDX-License-Identifier: Apache-2.0
// resolve_precision: number formats, by preset and one by one, and whether the GPU has them.
#include <algorithm>
#include <array>

#include "model/low_precision.h"
#include "scenarios/resolve_plan.h"

namespace stepcast {
namespace {

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
  if (in.cluster != nullptr)
    p.low_transposes = !architecture(in.cluster->node.gpu.arch).fp8_any_layout;
  if (!v.has("precision.first_last_bf16") || !v.flag("precision.first_last_bf16")) return;
  if (v.has("precision.first_bf16_layers"))
    p.wide_first_layers = v.whole("precision.first_bf16_layers");
  if (v.has("precision.last_bf16_layers"))
    p.wide_last_layers = v.whole("precision.last_bf16_layers");
  if (in.model == nullptr) return;
  assign_wide_layers(plan.stages, *in.model, p);
}

}  // namespace

DType dtype_of(std::string_view word) {
  for (const DType t : {DType::fp32, DType::tf32, DType::fp16, DType::bf16, DType::fp8, DType::int8,
                        DType::fp4, DType::uint8})
    if (name_of(t) == word) return t;
  return DType::bf16;
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
    v.refuse("E230",
             v.value("precision.params") != nullptr ? "precision.params" : "precision.preset",
             gpu.name + " has no " + std::string(name_of(p.params)) + " rate",
             gpu.peak.count(DType::fp16) != 0 ? "precision: fp16-mixed works on it"
                                              : "cluster.node.gpu.peak can state it");
  if (p.scaling == Scaling::none) return;
  const DType low = low_format(p).dtype;
  const bool scales = p.scaling != Scaling::mxfp8 || architecture(gpu.arch).mxfp8;
  if (gpu.peak.count(low) == 0 || !scales)
    v.refuse("E230", "precision.preset",
             gpu.name + (scales ? " has no " + std::string(name_of(low)) + " rate"
                                : std::string(" has no tensor cores for mxfp8")),
             "precision: bf16-mixed works on it");
}

}  // namespace stepcast
