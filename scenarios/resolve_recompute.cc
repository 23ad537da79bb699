// SPDX-License-Identifier: Apache-2.0
// resolve_recompute: which activations are computed again in the backward pass.
#include <algorithm>
#include <string>

#include "scenarios/resolve_plan.h"

namespace stepcast {
namespace {

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

}  // namespace

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
    v.refuse("E127", "recompute.layers",
             "recompute.layers = " + std::to_string(plan.recompute_layers) +
                 ", but no stage has more than " + std::to_string(most) + " layers",
             "layers of each stage: at most " + std::to_string(most));
}

}  // namespace stepcast
