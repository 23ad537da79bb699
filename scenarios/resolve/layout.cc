// SPDX-License-Identifier: Apache-2.0
// How the work is spread over the GPUs: tp, cp, pp, dp, vpp and the layers of each stage.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "model/stages.h"
#include "scenarios/document/number.h"
#include "sim/text.h"

namespace stepcast {

namespace {

__extension__ using Wide = __int128;

// Whether the sizes were readable: what cannot be computed from wrong ones is left out.
bool has_all(const FieldValues& v, Keys keys) {
  return std::all_of(keys.begin(), keys.end(), [&](Key k) { return v.has(k); });
}

bool kv_heads_fit(int64_t kv_heads, int64_t tp) {
  // With fewer key-value heads than ranks, each is replicated.
  return kv_heads <= 0 || kv_heads % tp == 0 || tp % kv_heads == 0;
}

// What tp must divide and does not, in words; empty if it divides everything.
std::string undivided(const Transformer& model, int64_t tp) {
  for (const LayerShape& s : all_shapes(model)) {
    if (s.heads % tp != 0) return fmt::format("num_attention_heads = {}", s.heads);
    if (!kv_heads_fit(s.kv_heads, tp)) return fmt::format("num_key_value_heads = {}", s.kv_heads);
  }
  if (!model.compressions.empty() && tp > 1)
    return "the one vector a token that is key and value of all heads (compress_ratios)";
  const Recurrence& r = model.recurrence;
  if (r.heads % tp != 0) return fmt::format("linear_num_value_heads = {}", r.heads);
  if (r.groups % tp != 0) return fmt::format("linear_num_key_heads = {}", r.groups);
  bool dense = model.experts == 0 || model.dense_layers > 0 || !model.expert_layers.empty();
  if (!model.bare.empty()) {
    dense = false;
    for (int64_t i = 0; i < model.layers && !dense; ++i)
      dense = layer_kind(model, i).mlp && !layer_kind(model, i).experts;
  }
  for (const LayerShape& s : all_shapes(model))
    if (dense && s.ffn % tp != 0) return fmt::format("intermediate_size = {}", s.ffn);
  if (model.hidden % tp != 0) return fmt::format("hidden_size = {}", model.hidden);
  return {};
}

void check_tp(const PlanInputs& in, int64_t tp) {
  if (in.model == nullptr) return;
  const FieldValues& v = in.values;
  const int64_t node = in.cluster != nullptr ? in.cluster->node.gpus : 8;
  if (const std::string what = undivided(*in.model, tp); !what.empty()) {
    std::string why = fmt::format("heads {}", in.model->heads);
    if (in.model->kv_heads != in.model->heads)
      why += fmt::format(", KV heads {}", in.model->kv_heads);
    why += fmt::format(", {} GPUs a node", node);
    v.refuse("E210", "parallel.tp", fmt::format("tp = {} does not divide {}", tp, what),
             "tp can be " + or_list(legal_tp(*in.model, node)) + " here (" + why + ")");
  } else if (in.cluster != nullptr && tp > node) {
    in.warnings.push_back(fmt::format("tp = {} spans {} nodes: its collectives leave the node", tp,
                                      (tp + node - 1) / node));
  }
}

// dp follows from the number of GPUs, or is checked against it.
void resolve_dp(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (in.cluster == nullptr || !has_all(v, {"parallel.tp", "parallel.cp", "parallel.pp"})) return;
  const Wide one = static_cast<Wide>(plan.tp) * plan.cp * plan.pp;
  const int64_t gpus = in.gpus;
  const auto model_gpus = static_cast<int64_t>(std::min<Wide>(one, int64_t{1} << 62));
  const std::string product = fmt::format("tp*pp*cp = {}", model_gpus);
  if (model_gpus > gpus || gpus % model_gpus != 0) {
    const Key at = last_given(in, {"parallel.tp", "parallel.cp", "parallel.pp"});
    v.refuse(
        "E201", at,
        fmt::format("{}{}{}", gpus,
                    model_gpus > gpus ? " GPUs are fewer than " : " GPUs are not a multiple of ",
                    product),
        "GPUs = tp * cp * pp * dp; tp*pp*cp can be " +
            (model_gpus > gpus ? fmt::format("at most {}", gpus)
                               : nearest_divisors(gpus, model_gpus)) +
            remark_on_one_node(in));
    return;
  }
  const int64_t dp = gpus / model_gpus;
  if (!v.given("parallel.dp")) {
    v.derive<int64_t>("parallel.dp", dp,
                      fmt::format("derived: {} / ({}*{}*{})", gpus, plan.tp, plan.pp, plan.cp));
  } else if (v.has("parallel.dp") && v.whole("parallel.dp") != dp) {
    const auto all = static_cast<Wide>(model_gpus) * v.whole("parallel.dp");
    const auto shown = static_cast<int64_t>(std::min<Wide>(all, int64_t{1} << 62));
    v.refuse("E201", "parallel.dp",
             fmt::format("tp*cp*pp*dp = {}, but the cluster has {} GPUs", shown, gpus),
             fmt::format("dp = {} fits, or leave dp out", dp) + remark_on_one_node(in));
  }
  plan.dp = dp;
}

// The layers spread over the stages as evenly as possible.  The stages with embedding and head are
// the first to have one fewer: "Et*11|(t*12|)*6t*11L".  REQUIRES: 1 < stages <= layers.
std::string layout_string(int64_t layers, int64_t stages) {
  const int64_t fewest = layers / stages, left = layers % stages;
  const int64_t inner = std::min(left, stages - 2);  // inner stages with one layer more
  const auto run = [](int64_t count, int64_t of) {
    return count == 0 ? "" : fmt::format("(t*{}|)*{}", of, count);
  };
  return fmt::format("Et*{}|{}{}t*{}L", fewest + (left > inner ? 1 : 0), run(inner, fewest + 1),
                     run(stages - 2 - inner, fewest), fewest);
}

// What splits layers that do not divide.
std::string uneven_splits(int64_t layers, Wide stages) {
  if (stages > layers) return "parallel.layout states any other split";
  return "parallel.split: products takes any number of layers, parallel.layout states a split: '" +
         layout_string(layers, static_cast<int64_t>(stages)) + '\'';
}

// Whether the layers divide by the only number of chunks that the schedule runs, if there is only
// one.  If they do not, that is the problem to report, and not what is wrong with other numbers.
bool suits_schedule(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const std::optional<int64_t> vpp = family_chunks(v).vpp;
  const int64_t layers = in.model->layers;
  if (!vpp || static_cast<Wide>(plan.pp) * *vpp > layers || layers % (plan.pp * *vpp) == 0)
    return true;
  v.refuse("E202", "schedule.kind",
           fmt::format(
               "{} layers are not a multiple of pp*vpp = {}*{}, and {} runs {} chunks on each rank",
               layers, plan.pp, *vpp, v.text("schedule.kind"), *vpp),
           (layers % *vpp == 0
                ? fmt::format("with vpp = {}, pp can be {}; ", *vpp, divisors(layers / *vpp))
                : "") +
               uneven_splits(layers, static_cast<Wide>(plan.pp) * *vpp));
  return false;
}

void resolve_even_stages(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (in.model == nullptr || !has_all(v, {"parallel.pp", "parallel.vpp"})) return;
  const int64_t layers = in.model->layers;
  const Wide stages = static_cast<Wide>(plan.pp) * plan.vpp;
  if (v.is("parallel.split", LayerSplit::products) && stages <= layers) {
    plan.stages = stages_by_products(*in.model, static_cast<int64_t>(stages));
    return;
  }
  if (v.is("parallel.split", LayerSplit::last) && stages <= layers) {
    plan.stages = last_stages_fullest(layers, static_cast<int64_t>(stages));
    return;
  }
  if (v.is("parallel.split", LayerSplit::modules) && stages <= layers) {
    plan.stages = stages_by_modules(layers, static_cast<int64_t>(stages));
    return;
  }
  if (!suits_schedule(in, plan)) return;
  if (stages <= layers && layers % static_cast<int64_t>(stages) == 0) {
    plan.stages = even_stages(layers, plan.pp, plan.vpp);
    return;
  }
  const bool pp_fits = plan.pp <= layers && layers % plan.pp == 0;
  const Key at =
      pp_fits || v.value("parallel.pp") == nullptr ? Key("parallel.vpp") : Key("parallel.pp");
  const std::string product = plan.vpp == 1 ? fmt::format("pp = {}", plan.pp)
                                            : fmt::format("pp*vpp = {}*{}", plan.pp, plan.vpp);
  const std::string help =
      pp_fits ? fmt::format("with pp = {}, vpp can be {}", plan.pp, divisors(layers / plan.pp))
              : "pp can be " + divisors(layers);
  v.refuse("E202", at, fmt::format("{} layers are not a multiple of {}", layers, product),
           help + "; " + uneven_splits(layers, stages));
}

void resolve_written_stages(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  const auto refuse = [&](const char* code, std::string message, std::string help = {}) {
    v.refuse(code, "parallel.layout", std::move(message), std::move(help));
  };
  std::vector<StageContent> stages;
  try {
    stages = parse_stage_layout(v.text("parallel.layout"));
  } catch (const InputError& e) {
    return refuse("E202", e.what());
  }
  const auto count = static_cast<int64_t>(stages.size());
  int64_t layers = 0, modules = 0;
  for (const StageContent& s : stages) {
    layers += s.layers;
    modules += s.predictions;
  }
  if (in.model != nullptr && layers != in.model->layers)
    return refuse("E202", fmt::format("the layout holds {} layers, the model has {}", layers,
                                      in.model->layers));
  if (in.model != nullptr && modules > 0 && modules != in.model->mtp_layers)
    return refuse("E202",
                  fmt::format("the layout holds {} prediction modules (m), the model has {}",
                              modules, in.model->mtp_layers),
                  "model.num_nextn_predict_layers says how many");
  if (!v.has("parallel.pp")) return;
  // Written orders may put stages anywhere, also more on one rank than on another.
  const bool anywhere = v.value("schedule.file") != nullptr || v.value("schedule.steps") != nullptr;
  if (count % plan.pp != 0 && !(anywhere && count > plan.pp))
    return refuse("E202", fmt::format("the layout's {} stages are not a multiple of pp = {}", count,
                                      plan.pp));
  const FamilyChunks chunks = family_chunks(v);
  if (chunks.vpp && !chunks.replicas && count != plan.pp * *chunks.vpp) {
    const std::string needed = std::to_string(plan.pp * *chunks.vpp);
    return refuse("E202",
                  fmt::format("the layout has {} stages, {} needs {} (pp * {}): write a layout of "
                              "{} stages, or use parallel.split: products instead",
                              count, v.text("schedule.kind"), needed, *chunks.vpp, needed));
  }
  // An odd pp is the schedule's own problem, and is reported as that.
  if (chunks.replicas && plan.pp % 2 == 0 && count != plan.pp)
    return refuse(
        "E202",
        fmt::format("the layout has {} stages, {} runs two replicas of a model of pp = {} stages",
                    count, v.text("schedule.kind"), plan.pp),
        fmt::format("write a layout of {} stages, each of which is on two ranks, or use "
                    "parallel.split: products instead",
                    plan.pp));
  const int64_t vpp = (count + plan.pp - 1) / plan.pp;
  if (v.value("parallel.vpp") != nullptr && v.has("parallel.vpp") && plan.vpp != vpp)
    return refuse("E202",
                  fmt::format("the layout's {} stages make vpp = {}, not {}", count, vpp, plan.vpp),
                  "leave vpp out, or make them agree");
  if (v.value("parallel.vpp") == nullptr)
    v.derive<int64_t>("parallel.vpp", vpp,
                      fmt::format("derived: {} stages of the layout / pp = {}", count, plan.pp));
  plan.vpp = vpp;
  plan.stages = std::move(stages);
}

// The number of chunks, where the schedule leaves no choice.
void resolve_vpp(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (!v.has("parallel.vpp")) return;
  const FamilyChunks chunks = family_chunks(v);
  if (chunks.vpp && v.value("parallel.vpp") == nullptr && v.value("parallel.layout") == nullptr)
    v.derive<int64_t>("parallel.vpp", *chunks.vpp,
                      fmt::format("derived: schedule {} runs {} chunks on each rank",
                                  v.text("schedule.kind"), *chunks.vpp));
  // With two replicas the stages are pp, and each is on two ranks.
  plan.vpp = chunks.replicas ? 1 : v.whole("parallel.vpp");
}

void resolve_sp(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (!v.stated("parallel.sp")) {
    plan.sp = plan.tp > 1 && plan.trains();
    v.derive<bool>("parallel.sp", plan.sp,
                   plan.sp        ? "default: Megatron recommends it with tp > 1"
                   : plan.tp == 1 ? "default: there is no tensor parallelism"
                                  : "default: inference engines sum whole tensors");
  } else if (v.has("parallel.sp")) {
    plan.sp = v.flag("parallel.sp") && plan.tp > 1;
    if (v.flag("parallel.sp") && !plan.sp && v.has("parallel.tp"))
      in.warnings.push_back("sp has no effect with tp = 1");
  }
  const KeyOf<bool> scatter = "schedule.scatter_gather";
  if (v.value(scatter) == nullptr || !v.has(scatter) || !v.flag(scatter)) return;
  if (plan.tp == 1 && v.has("parallel.tp"))
    in.warnings.push_back(scatter.path() + " has no effect with tp = 1");
  else if (plan.pp == 1 && v.has("parallel.pp"))
    in.warnings.push_back(scatter.path() + " has no effect with pp = 1");
  else if (plan.sp && v.has("parallel.tp"))
    in.warnings.push_back(scatter.path() +
                          " has no effect with sp: what is sent is a part already");
}

}  // namespace

Key last_given(const PlanInputs& in, Keys keys) {
  const FieldValues& v = in.values;
  const auto order = [&](Key key) {
    const Mark m = v.mark(key);
    const bool set = m.source->kind == Source::Kind::set;
    return std::tuple(set, set ? m.source->number : 0, m.line, m.column);
  };
  std::optional<Key> last;
  for (const Key key : keys)
    if (v.value(key) != nullptr && (!last || order(key) > order(*last))) last = key;
  if (last) return *last;
  return v.value("parallel") == nullptr ? Key("cluster") : Key("parallel");
}

std::string remark_on_one_node(const PlanInputs& in) {
  const FieldValues& v = in.values;
  if (in.cluster == nullptr || in.cluster->nodes != 1 || v.value("cluster.nodes") != nullptr ||
      !v.has("cluster.preset"))
    return {};
  const int64_t gpus = in.cluster->node.gpus;
  return fmt::format("; without a number of nodes the cluster is 1 node of {} {}: {} x 2 is two",
                     gpus, gpus == 1 ? "GPU" : "GPUs", v.text("cluster.preset"));
}

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
