// SPDX-License-Identifier: Apache-2.0
// resolve_layout: tp, cp, pp, dp, vpp, the layers of each stage, the placement of the ranks.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <tuple>

#include "scenarios/legal_numbers.h"
#include "scenarios/resolve_plan.h"
#include "scenarios/resolve_schedule.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

__extension__ using Wide = __int128;

// Whether the sizes were readable: what cannot be computed from wrong ones is left out.
bool has_all(const FieldValues& v, std::initializer_list<std::string_view> paths) {
  return std::all_of(paths.begin(), paths.end(), [&](std::string_view p) { return v.has(p); });
}

bool kv_heads_fit(const Transformer& model, int64_t tp) {
  // With fewer key-value heads than ranks, each is replicated.
  return model.kv_heads <= 0 || model.kv_heads % tp == 0 || tp % model.kv_heads == 0;
}

// What tp must divide and does not, in words; empty if it divides everything.
std::string undivided(const Transformer& model, int64_t tp) {
  if (model.heads % tp != 0) return "num_attention_heads = " + std::to_string(model.heads);
  if (!kv_heads_fit(model, tp)) return "num_key_value_heads = " + std::to_string(model.kv_heads);
  const bool dense = model.experts == 0 || model.dense_layers > 0 || !model.expert_layers.empty();
  if (dense && model.ffn % tp != 0) return "intermediate_size = " + std::to_string(model.ffn);
  if (model.hidden % tp != 0) return "hidden_size = " + std::to_string(model.hidden);
  return {};
}

void check_tp(const PlanInputs& in, int64_t tp) {
  if (in.model == nullptr) return;
  const FieldValues& v = in.values;
  const int64_t node = in.cluster != nullptr ? in.cluster->node.gpus : 8;
  if (const std::string what = undivided(*in.model, tp); !what.empty()) {
    std::string why = "heads " + std::to_string(in.model->heads);
    if (in.model->kv_heads != in.model->heads)
      why += ", KV heads " + std::to_string(in.model->kv_heads);
    why += ", " + std::to_string(node) + " GPUs a node";
    v.refuse("E210", "parallel.tp", "tp = " + std::to_string(tp) + " does not divide " + what,
             "tp can be " + or_list(legal_tp(*in.model, node)) + " here (" + why + ")");
  } else if (in.cluster != nullptr && tp > node) {
    in.warnings.push_back("tp = " + std::to_string(tp) + " spans " +
                          std::to_string((tp + node - 1) / node) +
                          " nodes: its collectives leave the node");
  }
}

// The given size among `paths` that was said last: by --set, or else furthest down in the file.
std::string_view last_given(const PlanInputs& in, std::initializer_list<std::string_view> paths) {
  const FieldValues& v = in.values;
  const auto order = [&](std::string_view path) {
    const Mark m = v.mark(path);
    const bool set = in.problems.source(m.source).name.starts_with("--set ");
    return std::tuple(set, set ? m.source : 0, m.line, m.column);
  };
  std::string_view last = "parallel";
  for (const std::string_view p : paths)
    if (v.value(p) != nullptr && (last == "parallel" || order(p) > order(last))) last = p;
  return last == "parallel" && v.value("parallel") == nullptr ? "cluster" : last;
}

// dp follows from the number of GPUs, or is checked against it.
void resolve_dp(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (in.cluster == nullptr || !has_all(v, {"parallel.tp", "parallel.cp", "parallel.pp"})) return;
  const Wide one = static_cast<Wide>(plan.tp) * plan.cp * plan.pp;
  const int64_t gpus = in.gpus;
  const auto model_gpus = static_cast<int64_t>(std::min<Wide>(one, int64_t{1} << 62));
  const std::string product = "tp*pp*cp = " + std::to_string(model_gpus);
  if (model_gpus > gpus || gpus % model_gpus != 0) {
    const std::string_view at = last_given(in, {"parallel.tp", "parallel.cp", "parallel.pp"});
    v.refuse("E201", at,
             std::to_string(gpus) +
                 (model_gpus > gpus ? " GPUs are fewer than " : " GPUs are not a multiple of ") +
                 product,
             "GPUs = tp * cp * pp * dp; tp*pp*cp can be " +
                 (model_gpus > gpus ? "at most " + std::to_string(gpus)
                                    : nearest_divisors(gpus, model_gpus)));
    return;
  }
  const int64_t dp = gpus / model_gpus;
  if (!v.given("parallel.dp")) {
    v.derive("parallel.dp", dp, std::to_string(dp),
             "derived: " + std::to_string(gpus) + " / (" + std::to_string(plan.tp) + '*' +
                 std::to_string(plan.pp) + '*' + std::to_string(plan.cp) + ')');
  } else if (v.has("parallel.dp") && v.whole("parallel.dp") != dp) {
    const auto all = static_cast<Wide>(model_gpus) * v.whole("parallel.dp");
    const auto shown = static_cast<int64_t>(std::min<Wide>(all, int64_t{1} << 62));
    v.refuse("E201", "parallel.dp",
             "tp*cp*pp*dp = " + std::to_string(shown) + ", but the cluster has " +
                 std::to_string(gpus) + " GPUs",
             "dp = " + std::to_string(dp) + " fits, or leave dp out");
  }
  plan.dp = dp;
}

// Layers dealt out as evenly as they go, the stages with embedding and head first to have fewer:
// "Et*11|(t*12|)*6t*11L".  REQUIRES: 1 < stages <= layers.
std::string layout_string(int64_t layers, int64_t stages) {
  const int64_t few = layers / stages, more = layers % stages;
  const int64_t inner = std::min(more, stages - 2);  // of the stages between, those with one more
  const auto run = [](int64_t count, int64_t of) {
    return count == 0 ? "" : "(t*" + std::to_string(of) + "|)*" + std::to_string(count);
  };
  return "Et*" + std::to_string(few + (more > inner ? 1 : 0)) + '|' + run(inner, few + 1) +
         run(stages - 2 - inner, few) + "t*" + std::to_string(few) + 'L';
}

// What splits layers that do not divide.
std::string uneven_splits(int64_t layers, Wide stages) {
  if (stages > layers) return "parallel.layout states any other split";
  return "parallel.split: products takes any number of layers, parallel.layout states a split: '" +
         layout_string(layers, static_cast<int64_t>(stages)) + '\'';
}

// Whether the layers divide by the only number of chunks that the schedule runs, if there is one:
// what is wrong with any other need not be said then.
bool suits_schedule(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const std::optional<int64_t> vpp = family_chunks(v).vpp;
  const int64_t layers = in.model->layers;
  if (!vpp || static_cast<Wide>(plan.pp) * *vpp > layers || layers % (plan.pp * *vpp) == 0)
    return true;
  v.refuse(
      "E202", "schedule.kind",
      std::to_string(layers) + " layers are not a multiple of pp*vpp = " + std::to_string(plan.pp) +
          '*' + std::to_string(*vpp) + ", and " + v.text("schedule.kind") + " runs " +
          std::to_string(*vpp) + " chunks on each rank",
      (layers % *vpp == 0
           ? "with vpp = " + std::to_string(*vpp) + ", pp can be " + divisors(layers / *vpp) + "; "
           : "") +
          uneven_splits(layers, static_cast<Wide>(plan.pp) * *vpp));
  return false;
}

void resolve_even_stages(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (in.model == nullptr || !has_all(v, {"parallel.pp", "parallel.vpp"})) return;
  const int64_t layers = in.model->layers;
  const Wide stages = static_cast<Wide>(plan.pp) * plan.vpp;
  if (v.has("parallel.split") && v.text("parallel.split") == "products" && stages <= layers) {
    plan.stages = stages_by_products(*in.model, static_cast<int64_t>(stages));
    return;
  }
  if (!suits_schedule(in, plan)) return;
  if (stages <= layers && layers % static_cast<int64_t>(stages) == 0) {
    plan.stages = even_stages(layers, plan.pp, plan.vpp);
    return;
  }
  const bool pp_fits = plan.pp <= layers && layers % plan.pp == 0;
  const std::string at =
      pp_fits || v.value("parallel.pp") == nullptr ? "parallel.vpp" : "parallel.pp";
  const std::string product =
      plan.vpp == 1 ? "pp = " + std::to_string(plan.pp)
                    : "pp*vpp = " + std::to_string(plan.pp) + '*' + std::to_string(plan.vpp);
  const std::string help = pp_fits ? "with pp = " + std::to_string(plan.pp) + ", vpp can be " +
                                         divisors(layers / plan.pp)
                                   : "pp can be " + divisors(layers);
  v.refuse("E202", at, std::to_string(layers) + " layers are not a multiple of " + product,
           help + "; " + uneven_splits(layers, stages));
}

void resolve_written_stages(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  const auto refuse = [&](const char* code, std::string message, std::string help = {}) {
    v.refuse(code, "parallel.layout", std::move(message), std::move(help));
  };
  std::vector<StageContent> stages;
  try {
    stages = parse_layout(v.text("parallel.layout"));
  } catch (const InputError& e) {
    return refuse("E202", e.diagnostics.front().message);
  }
  const auto count = static_cast<int64_t>(stages.size());
  int64_t layers = 0, modules = 0;
  for (const StageContent& s : stages) {
    layers += s.layers;
    modules += s.predictions;
  }
  if (in.model != nullptr && layers != in.model->layers)
    return refuse("E202", "the layout holds " + std::to_string(layers) + " layers, the model has " +
                              std::to_string(in.model->layers));
  if (in.model != nullptr && modules > 0 && modules != in.model->mtp_layers)
    return refuse("E202",
                  "the layout holds " + std::to_string(modules) +
                      " prediction modules (m), the model " + "has " +
                      std::to_string(in.model->mtp_layers),
                  "model.num_nextn_predict_layers says how many");
  if (!v.has("parallel.pp")) return;
  // Written orders may put stages anywhere, also more on one rank than on another.
  const bool anywhere = v.value("schedule.file") != nullptr || v.value("schedule.steps") != nullptr;
  if (count % plan.pp != 0 && !(anywhere && count > plan.pp))
    return refuse("E202", "the layout's " + std::to_string(count) +
                              " stages are not a multiple of pp = " + std::to_string(plan.pp));
  const FamilyChunks chunks = family_chunks(v);
  if (chunks.vpp && !chunks.replicas && count != plan.pp * *chunks.vpp) {
    const std::string needed = std::to_string(plan.pp * *chunks.vpp);
    return refuse("E202", "the layout has " + std::to_string(count) + " stages, " +
                              v.text("schedule.kind") + " needs " + needed + " (pp * " +
                              std::to_string(*chunks.vpp) + "): write a layout of " + needed +
                              " stages, or use parallel.split: products instead");
  }
  const int64_t vpp = (count + plan.pp - 1) / plan.pp;
  if (v.value("parallel.vpp") != nullptr && v.has("parallel.vpp") && plan.vpp != vpp)
    return refuse("E202",
                  "the layout's " + std::to_string(count) + " stages make vpp = " +
                      std::to_string(vpp) + ", not " + std::to_string(plan.vpp),
                  "leave vpp out, or make them agree");
  if (v.value("parallel.vpp") == nullptr)
    v.derive("parallel.vpp", vpp, std::to_string(vpp),
             "derived: " + std::to_string(count) +
                 " stages of the layout / pp = " + std::to_string(plan.pp));
  plan.vpp = vpp;
  plan.stages = std::move(stages);
}

// The number of chunks, where the schedule leaves no choice.
void resolve_vpp(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (!v.has("parallel.vpp")) return;
  const FamilyChunks chunks = family_chunks(v);
  if (chunks.vpp && v.value("parallel.vpp") == nullptr && v.value("parallel.layout") == nullptr)
    v.derive("parallel.vpp", *chunks.vpp, std::to_string(*chunks.vpp),
             "derived: schedule " + v.text("schedule.kind") + " runs " +
                 std::to_string(*chunks.vpp) + " chunks on each rank");
  // With two replicas the stages are pp, and each is on two ranks.
  plan.vpp = chunks.replicas ? 1 : v.whole("parallel.vpp");
}

void resolve_sp(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (!v.stated("parallel.sp")) {
    plan.sp = plan.tp > 1 && plan.trains();
    v.derive("parallel.sp", plan.sp, plan.sp ? "true" : "false",
             plan.sp        ? "default: Megatron recommends it with tp > 1"
             : plan.tp == 1 ? "default: there is no tensor parallelism"
                            : "default: inference engines sum whole tensors");
  } else if (v.has("parallel.sp")) {
    plan.sp = v.flag("parallel.sp") && plan.tp > 1;
    if (v.flag("parallel.sp") && !plan.sp && v.has("parallel.tp"))
      in.warnings.push_back("sp has no effect with tp = 1");
  }
}

}  // namespace

bool divides(const Transformer& model, int64_t tp) {
  return undivided(model, tp).empty();
}

std::vector<std::string> legal_tp(const Transformer& model, int64_t most) {
  std::vector<std::string> legal;
  for (int64_t tp = 1; tp <= std::min(most, model.heads); ++tp)
    if (divides(model, tp)) legal.push_back(std::to_string(tp));
  return legal;
}

void resolve_layout(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  const auto size = [&](std::string_view path, int64_t& to) {
    if (v.has(path)) to = v.whole(path);
  };
  size("parallel.tp", plan.tp);
  size("parallel.cp", plan.cp);
  size("parallel.ep", plan.ep);
  size("parallel.pp", plan.pp);
  resolve_vpp(in, plan);
  if (v.has("parallel.tp")) check_tp(in, plan.tp);
  resolve_dp(in, plan);
  if (v.has("parallel.layout")) {
    resolve_written_stages(in, plan);
  } else if (!v.given("parallel.layout")) {
    resolve_even_stages(in, plan);
  }
  resolve_sp(in, plan);
  plan.grid.tp = plan.tp;
  plan.grid.cp = plan.cp;
  plan.grid.dp = plan.dp;
  plan.grid.pp = plan.pp;
  if (v.has("parallel.order")) {
    try {
      plan.grid.order = parse_order(v.text("parallel.order"));
    } catch (const InputError& e) {
      v.refuse("E125", "parallel.order", e.what());
    }
  }
  resolve_experts(in, plan);
  int64_t layers = 0;
  for (const StageContent& stage : plan.stages) layers += stage.layers;
  if (in.model == nullptr || layers != in.model->layers) return;
  assign_layers(plan.stages, *in.model);
  if (plan.trains()) return;
  for (StageContent& stage : plan.stages) stage.predictions = stage.predicted = 0;
}

}  // namespace stepcast
