// SPDX-License-Identifier: Apache-2.0
// Number formats, by preset and one by one, and whether the GPU has them.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/low_precision.h"
#include "model/stages.h"
#include "sim/check.h"

namespace stepcast {

namespace {

// What a preset stands for; its name is in the row of precision.preset.
struct PresetFormats {
  PrecisionPreset preset;
  DType params, grads, reduce;
  bool master;
  std::string_view why;
  Scaling scaling = Scaling::none;
  DType moments = DType::fp32;
};
constexpr PresetFormats low_precision(PrecisionPreset preset, Scaling scaling) {
  return {preset,      DType::bf16, DType::fp32,
          DType::fp32, true,        "bf16 but for the GEMMs of linear layers",
          scaling};
}
constexpr std::array<PresetFormats, 10> kPrecisions{
    {{PrecisionPreset::bf16_mixed, DType::bf16, DType::fp32, DType::fp32, true,
      "gradients accumulate in fp32"},
     {PrecisionPreset::fp16_mixed, DType::fp16, DType::fp16, DType::fp16, true,
      "fp16 gradients without Megatron's --accumulate-allreduce-grads-in-fp32"},
     {PrecisionPreset::fp32, DType::fp32, DType::fp32, DType::fp32, false, "everything in fp32"},
     low_precision(PrecisionPreset::fp8_delayed, Scaling::delayed),
     low_precision(PrecisionPreset::fp8_tensorwise, Scaling::tensorwise),
     low_precision(PrecisionPreset::fp8_blockwise, Scaling::blockwise),
     {PrecisionPreset::fp8_deepseek, DType::bf16, DType::fp32, DType::fp32, true,
      "DeepSeek-V3 (arXiv 2412.19437) section 3.3: moments in bf16", Scaling::blockwise,
      DType::bf16},
     low_precision(PrecisionPreset::mxfp8, Scaling::mxfp8),
     low_precision(PrecisionPreset::nvfp4, Scaling::nvfp4),
     low_precision(PrecisionPreset::int8, Scaling::int8)}};

// Low-precision GEMMs: which tensors and layers.
void resolve_scaling(const PlanInputs& in, Scaling scaling, Plan& plan) {
  FieldValues& v = in.values;
  Precision& p = plan.precision;
  p.scaling = scaling;
  if (scaling == Scaling::none) {
    for (const KeyOf<bool> key :
         {KeyOf<bool>("precision.fp8_params"), KeyOf<bool>("precision.first_last_bf16")})
      if (v.value(key) != nullptr && v.is(key, true))
        in.warnings.push_back(key.path() + " has no effect: GEMMs are not in low precision");
    if (v.value("precision.attention_output") != nullptr)
      in.warnings.push_back(
          "precision.attention_output has no effect: GEMMs are not in low precision");
    return;
  }
  if (v.has("precision.attention_output"))
    p.attention_output = v.get<KeptFormat>("precision.attention_output");
  if (v.is("precision.preset", PrecisionPreset::fp8_deepseek) && !v.stated("precision.fp8_params"))
    v.derive<bool>("precision.fp8_params", true,
                   "preset fp8-deepseek: weights in fp8, their master copy in the optimizer");
  v.read("precision.fp8_params", p.low_params);
  if (in.cluster != nullptr)
    p.low_transposes = !architecture(in.cluster->node.gpu.arch).fp8_any_layout;
  if (!v.is("precision.first_last_bf16", true)) return;
  v.read("precision.first_bf16_layers", p.wide_first_layers);
  v.read("precision.last_bf16_layers", p.wide_last_layers);
  if (in.model == nullptr) return;
  assign_wide_layers(plan.stages, *in.model, p);
}

}  // namespace

void resolve_precision(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (!v.has("precision.preset")) return;
  const auto chosen = v.get<PrecisionPreset>("precision.preset");
  const auto preset = std::ranges::find(kPrecisions, chosen, &PresetFormats::preset);
  STEPCAST_CHECK(preset != kPrecisions.end(), v.text("precision.preset"));
  const std::string origin = fmt::format("preset {}: {}", v.text("precision.preset"), preset->why);
  const auto format = [&](KeyOf<DType> key, DType fallback) {
    if (!v.stated(key)) v.derive<DType>(key, fallback, origin);
    return v.has(key) ? v.get<DType>(key) : DType::bf16;
  };
  Precision& p = plan.precision;
  p.params = format("precision.params", preset->params);
  p.gradients = format("precision.grads", preset->grads);
  // What is reduced is the gradient buffer, unless it is said otherwise.
  p.reduce = format("precision.reduce", v.stated("precision.grads") ? p.gradients : preset->reduce);
  p.moments = format("precision.moments", preset->moments);
  const bool master = v.stated("precision.params") ? p.params != DType::fp32 : preset->master;
  if (!v.stated("precision.master")) v.derive<bool>("precision.master", master, origin);
  v.read("precision.master", p.master);
  resolve_scaling(in, preset->scaling, plan);

  if (in.cluster == nullptr || in.cluster->node.gpu.peak.empty()) return;
  const Gpu& gpu = in.cluster->node.gpu;
  if (v.has("precision.params") && gpu.peak.count(p.params) == 0)
    v.refuse(
        "E230",
        v.value("precision.params") != nullptr ? Key("precision.params") : Key("precision.preset"),
        fmt::format("{} has no {} rate", gpu.name, name_of(p.params)),
        gpu.peak.count(DType::fp16) != 0 ? "precision: fp16-mixed works on it"
                                         : "cluster.node.gpu.peak can state it");
  if (p.scaling == Scaling::none) return;
  const DType low = low_format(p).dtype;
  const bool scales = p.scaling != Scaling::mxfp8 || architecture(gpu.arch).mxfp8;
  if (gpu.peak.count(low) == 0 || !scales)
    v.refuse("E230", "precision.preset",
             scales ? fmt::format("{} has no {} rate", gpu.name, name_of(low))
                    : fmt::format("{} has no tensor cores for mxfp8", gpu.name),
             "precision: bf16-mixed works on it");
}

}  // namespace stepcast
