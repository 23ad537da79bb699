// SPDX-License-Identifier: Apache-2.0
// How the work is spread over the GPUs: tp, cp, pp, dp, vpp and the layers of each stage; the batch
// and the sequences that this splits.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "model/shard.h"
#include "model/stages.h"
#include "scenarios/document/number.h"
#include "schedules/schedule.h"
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

// The given size among `keys` that was said last: by --set, or else furthest down in the file.
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

// ------------------------------------------------------------------------------------------- batch

namespace {

constexpr int64_t kMostBatch = 1'000'000'000;  // sequences, and tokens of one: products fit 64 bits

bool in_range(const PlanInputs& in, KeyOf<int64_t> key) {
  const FieldValues& v = in.values;
  if (v.whole(key) <= kMostBatch) return true;
  v.refuse("E123", key, fmt::format("'{}' is too large: {}", key.path(), v.whole(key)),
           fmt::format("at most {}", kMostBatch));
  return false;
}

void check_global_batch(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const int64_t unit = plan.micro_batch * plan.dp;  // < 1e9 * 1e7
  if (plan.global_batch % unit == 0) return;
  // What --set says is what does not suit the file.
  const Key last = last_given(in, {"batch.global", "batch.micro"});
  const bool set = v.mark(last).source->kind == Source::Kind::set;
  // Orders in groups run whole groups of pp microbatches, whatever else they run.
  const ScheduleFamily* family =
      v.has("schedule.kind") ? find_schedule_family(v.text("schedule.kind")) : nullptr;
  const bool in_groups = plan.vpp > 1 && (family == nullptr || family->takes_group);
  const int64_t groups = in_groups && unit <= kMostBatch ? unit * plan.pp : unit;
  v.refuse(
      "E203", set ? last : Key("batch.global"),
      fmt::format("batch.global = {} is not a multiple of micro*dp = {}", plan.global_batch, unit),
      nearest_multiples(plan.global_batch, groups));
}

// Of the sequence whose length stands at `path`.
void check_sequence(const PlanInputs& in, const Plan& plan, Key key, int64_t tokens) {
  const FieldValues& v = in.values;
  const Transformer* m = in.model;
  const std::string shown = fmt::format("{} = {}", key.path(), tokens);
  const bool tp_fits = m == nullptr || divides(*m, plan.tp);
  if (plan.sp && v.has("parallel.tp") && tp_fits && tokens % plan.tp != 0)
    v.refuse(
        "E204", key,
        fmt::format("{} is not a multiple of tp = {}, over which sequence parallelism splits it",
                    shown, plan.tp),
        nearest_multiples(tokens, plan.tp) + "; or set parallel.sp to false");
  if (m != nullptr && m->positions == Positions::learned && m->max_positions > 0 &&
      tokens > m->max_positions)
    v.refuse("E211", key,
             fmt::format("{} exceeds the model's learned positions, max_position_embeddings = {}",
                         shown, m->max_positions),
             "set model.max_position_embeddings to train longer sequences");
}

// The sequence of an encoder whose output a decoder attends to.
void resolve_encoder(const PlanInputs& in, Plan& plan) {
  constexpr KeyOf<int64_t> kEncoderSeq = "batch.encoder_seq";
  FieldValues& v = in.values;
  if (in.model == nullptr || in.model->encoder_layers == 0) {
    if (in.model != nullptr && v.value(kEncoderSeq) != nullptr)
      in.warnings.push_back("batch.encoder_seq has no effect: the model has no encoder");
    return;
  }
  if (plan.cp > 1)
    v.refuse("E130", "parallel.cp",
             "context parallelism of an encoder and a decoder is not supported yet", "cp = 1 is");
  if (!v.has("batch.seq")) return;
  if (v.value(kEncoderSeq) == nullptr)
    v.derive<int64_t>(kEncoderSeq, plan.seq, "default: as long as batch.seq");
  if (!v.has(kEncoderSeq) || !in_range(in, kEncoderSeq)) return;
  plan.encoder_seq = v.whole(kEncoderSeq);
  if (v.value(kEncoderSeq) != nullptr) check_sequence(in, plan, kEncoderSeq, plan.encoder_seq);
}

// Most sequences are as long as a power of two, but K and M are powers of 1000.
void warn_thousands(const PlanInputs& in, KeyOf<int64_t> key) {
  const Value* written = in.values.value(key);
  if (written == nullptr || !in.values.has(key)) return;
  const std::string& text = written->text;
  const int64_t n = in.values.whole(key);
  if (n > kMostBatch || !(text.ends_with('K') || text.ends_with('M'))) return;
  const int64_t binary = text.ends_with('K') ? n * 1024 / 1000 : n * 1'048'576 / 1'000'000;
  in.warnings.push_back(fmt::format("{} = {} is {}; {}i is {}", key.path(), text, n, text, binary));
}

// Steps as large as nobody's are tokens taken for sequences.  The largest batches that were looked
// up are 65,536 sequences of 128 (BERT with LAMB, arXiv 1904.00962) and 128 M tokens (MiniMax-01,
// arXiv 2501.08313).
void warn_tokens_for_sequences(const PlanInputs& in, const Plan& plan) {
  constexpr int64_t kManySequences = 100'000, kManyTokens = 500'000'000;
  const int64_t n = plan.global_batch, tokens = n * plan.seq;  // <= kMostBatch^2
  if (n < kManySequences || tokens < kManyTokens) return;
  in.warnings.push_back(fmt::format(
      "batch.global counts sequences: {} of {} tokens are {:.0f} billion tokens a step; "
      "{} tokens are {} sequences",
      n, plan.seq, static_cast<double>(tokens) / 1e9, n, std::max<int64_t>(1, n / plan.seq)));
}

}  // namespace

void resolve_batch(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  const bool global = v.require("batch.global", "sequences of a step: batch: {global: 256, ...}");
  if (global && in_range(in, "batch.global")) {
    plan.global_batch = v.whole("batch.global");
    const bool dp_known = in.cluster != nullptr && v.has("parallel.dp");
    if (dp_known && v.has("batch.micro")) check_global_batch(in, plan);
  }
  if (v.require("batch.seq", "tokens of a sequence: batch: {seq: 4096, ...}") &&
      in_range(in, "batch.seq")) {
    plan.seq = v.whole("batch.seq");
    check_sequence(in, plan, "batch.seq", plan.seq);
    warn_tokens_for_sequences(in, plan);
  }
  resolve_encoder(in, plan);
  warn_thousands(in, "batch.seq");
  warn_thousands(in, "batch.encoder_seq");
}

namespace {

double wide(int64_t n) {
  return static_cast<double>(n);
}

// Numbers a token in the widest tensor of recurrent layers and of sparse attention, on a share of
// 1 / tp of the heads; `tokens` and `keys` on a rank.
double mixer_row(const Transformer& m, double tokens, double keys, double tp) {
  double row = 0;
  if (has_recurrent_layers(m)) {
    const Recurrence& r = m.recurrence;
    const double chunk = std::min({wide(r.chunk), tokens, std::max(1.0, keys)});
    const double chunks = (tokens + chunk - 1) / chunk;
    // Queries, keys and values of each head; products and states of chunks in fp32, with gradients.
    row = std::max({wide(recurrent_input_width(m, Mixer::gated_delta_net)),
                    wide(r.heads) * wide(2 * r.state + 2 * r.head_dim), 2 * wide(r.heads) * chunk,
                    4 * wide(r.values()) * wide(r.state) * chunks / tokens}) /
          tp;
  }
  row = std::max(row, wide(m.streams) * wide(m.hidden));
  if (m.index_topk > 0) {
    const double absorbed = wide(m.heads) * wide(m.kv_rank + m.qk_rope_dim) / tp;
    row = std::max({row, absorbed, 2 * std::min(wide(m.index_topk), keys),
                    wide(m.index_heads) * wide(m.index_dim + 1) + wide(m.index_dim),
                    wide(m.hidden + m.q_rank)});
  }
  return row;
}

// Bytes of the largest tensor on one GPU.  Experts get the same numbers of tokens.
double largest_tensor(const PlanInputs& in, const Plan& plan) {
  const Transformer& m = *in.model;
  const LayerShards shards(m, plan, std::max(plan.seq, plan.encoder_seq));
  const Shard& s = shards.own();
  const double tp = wide(plan.tp), tokens = std::max(1.0, wide(s.tokens)), keys = wide(s.keys);
  const int64_t of_expert = std::max((m.gated ? 2 : 1) * m.moe_ffn / plan.etp, expert_input(m));
  const double routed = wide(m.experts_per_token) * wide(plan.etp) * wide(of_expert) / tp;
  double row = std::max(
      {wide(s.hidden), routed, 2 * wide(m.shared_ffn) / tp, mixer_row(m, tokens, keys, tp)});
  int64_t heads = 0;
  for (size_t i = 0; i <= m.shapes.size(); ++i) {
    const Shard& of_layer = shards.of({.shape = static_cast<uint8_t>(i)});
    row = std::max({row, wide(of_layer.up), wide(of_layer.qkv)});
    heads = std::max(heads, of_layer.heads);
  }
  row *= s.element;
  constexpr double kFp32 = 4;
  if (plan.trains()) row = std::max(row, kFp32 * wide(s.logits()));
  if (in.values.is("kernels.attention", false)) row = std::max(row, kFp32 * wide(heads) * keys);
  return tokens * row;
}

}  // namespace

// The largest tensor of a microbatch has to be countable in bytes, on one GPU by its allocator.
void check_tensor_sizes(const PlanInputs& in, const Plan& plan) {
  if (in.model == nullptr || !in.values.has("batch.seq")) return;
  const auto seq = static_cast<double>(plan.seq);
  const Transformer& m = *in.model;
  int64_t multiple = 1;
  in.values.read("parallel.vocab_multiple", multiple);
  double row =
      std::max({wide(m.hidden), wide(m.vocab) + wide(multiple) * wide(plan.tp),
                wide(plan.ep) * wide(plan.etp) * wide(m.hidden),
                wide(m.experts_per_token) * wide(plan.etp) * wide(2 * m.moe_ffn + m.hidden),
                mixer_row(m, std::max(1.0, seq), seq, 1)});
  for (const LayerShape& s : all_shapes(m))
    row = std::max({row, 2 * wide(s.ffn), wide(s.heads) * seq,
                    wide(s.heads + 2 * s.kv_heads) * wide(std::max(s.head_dim, s.value_dim))});
  const double bytes =
      seq * wide(plan.micro_batch) * row * 4 * wide(std::max<int64_t>(1, m.layers));
  constexpr double kTebibyte = 1099511627776;
  const bool countable = bytes < 1e18;
  if (countable && largest_tensor(in, plan) < kTebibyte) return;
  in.values.refuse(
      "E123", "batch.seq",
      fmt::format(
          "a microbatch of {} x {} tokens needs {}", plan.micro_batch, plan.seq,
          countable ? "a tensor of 1 TiB or more on one GPU" : "more bytes than can be counted"),
      countable ? "take a smaller batch.seq, batch.micro or model, or split it: tp, cp"
                : "at most 10^18: take a smaller batch.seq, batch.micro or model");
}

// ----------------------------------------------------------------------------- context parallelism

namespace {

void resolve_inner(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (plan.cp_comm != CpComm::hierarchical) {
    if (v.value("parallel.cp_inner") != nullptr)
      in.warnings.push_back("parallel.cp_inner has no effect without parallel.cp_comm: a2a+p2p");
    return;
  }
  if (!v.require("parallel.cp_inner", "ranks that exchange heads: cp_comm: a2a+p2p, cp_inner: 2"))
    return;
  plan.cp_inner = v.whole("parallel.cp_inner");
  if (plan.cp % plan.cp_inner == 0) return;
  v.refuse("E210", "parallel.cp_inner",
           fmt::format("cp_inner = {} does not divide cp = {}", plan.cp_inner, plan.cp),
           "cp_inner can be " + divisors(plan.cp));
  plan.cp_inner = 1;
}

// Heads are exchanged for tokens: each rank needs a whole number of them.
void check_heads(const PlanInputs& in, const Plan& plan) {
  if (in.model == nullptr) return;
  const int64_t ranks = plan.cp_comm == CpComm::all_to_all     ? plan.cp
                        : plan.cp_comm == CpComm::hierarchical ? plan.cp_inner
                                                               : 1;
  const Transformer& m = *in.model;
  const bool latent = m.kv_rank > 0;
  const auto splits = [&](const LayerShape& s) {
    return s.heads % (plan.tp * ranks) == 0 && (latent || s.kv_heads % (plan.tp * ranks) == 0);
  };
  const std::vector<LayerShape> shapes = all_shapes(m);
  const auto whole = std::ranges::find_if_not(shapes, splits);
  if (ranks == 1 || whole == shapes.end()) return;
  const bool inner = plan.cp_comm == CpComm::hierarchical;
  const std::string what = whole->heads % (plan.tp * ranks) == 0
                               ? fmt::format("num_key_value_heads = {}", whole->kv_heads)
                               : fmt::format("num_attention_heads = {}", whole->heads);
  in.values.refuse(
      "E210", inner ? Key("parallel.cp_inner") : Key("parallel.cp"),
      fmt::format("tp * {} = {} does not divide {}, which an all-to-all spreads over these ranks",
                  inner ? "cp_inner" : "cp", plan.tp * ranks, what),
      "cp_comm: p2p or allgather split no heads");
}

bool has_windows(const Transformer& m, int64_t seq) {
  for (int64_t layer = 0; layer < m.layers; ++layer) {
    const int64_t window = layer_kind(m, layer).window;
    if (window > 0 && window < seq) return true;
    if (m.windows.empty()) break;
  }
  return false;
}

// The length of the sequences, and the kernels that know their parts.
void check_parts(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  if (v.has("batch.seq") && plan.seq % (2 * plan.cp) != 0)
    v.refuse("E204", "batch.seq",
             fmt::format("batch.seq = {} is not a multiple of 2 * cp = {}, the parts of a sequence "
                         "that ranks hold two of",
                         plan.seq, 2 * plan.cp),
             nearest_multiples(plan.seq, 2 * plan.cp));
  else if (v.has("batch.seq") && plan.sp && plan.seq % plan.tp == 0 &&
           plan.seq / plan.cp % plan.tp != 0)
    v.refuse("E204", "batch.seq",
             fmt::format("batch.seq = {} is not a multiple of tp * cp = {}, over which it is split",
                         plan.seq, plan.tp * plan.cp),
             nearest_multiples(plan.seq, plan.tp * plan.cp) + "; or set parallel.sp to false");
  if (v.is("kernels.attention", false))
    v.refuse("E127", "kernels.attention",
             fmt::format("unfused attention does not go with cp = {}", plan.cp),
             "kernels: {attention: flash}");
  const bool ring = plan.cp_comm == CpComm::p2p || plan.cp_comm == CpComm::hierarchical;
  if (in.model != nullptr && ring && has_windows(*in.model, plan.seq))
    v.refuse("E127", "parallel.cp_comm",
             "sliding windows do not go with keys and values that travel around a ring",
             "cp_comm: allgather or a2a, as in Transformer Engine");
}

}  // namespace

void resolve_context(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  v.read("parallel.cp_comm", plan.cp_comm);
  if (plan.cp == 1) {
    for (const Key key : Keys{"parallel.cp_comm", "parallel.cp_inner"})
      if (v.value(key) != nullptr) in.warnings.push_back(key.path() + " has no effect: cp = 1");
    plan.cp_comm = CpComm::p2p;
    return;
  }
  resolve_inner(in, plan);
  plan.grid.cp_inner = plan.cp_inner;
  check_heads(in, plan);
  check_parts(in, plan);
}

// ---------------------------------------------------------------------- other mixers

void check_mixers(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  if (in.model == nullptr) return;
  const bool recurs = has_recurrent_layers(*in.model);
  const bool compressed = !in.model->compressions.empty();
  const bool chosen = in.model->index_topk > 0 || compressed;
  if (!recurs && !chosen) return;
  const std::string what = recurs       ? "recurrent layers"
                           : compressed ? "attention to compressed keys"
                                        : "sparse attention with an indexer";
  const auto refuse = [&](Key key, const std::string& of, const std::string& help) {
    v.refuse("E130", key, fmt::format("not supported yet: {} of {}", of, what), help);
  };
  if (plan.cp > 1) refuse("parallel.cp", "sequences split over cp", "cp = 1; tp and pp split them");
  if (!plan.trains()) refuse("mode", "a forward alone", "mode: train");
  if (plan.recompute == Recompute::per_op)
    refuse("recompute.granularity", "recomputation per operator", "selective or full");
  const auto longest = std::ranges::max_element(in.model->compressions);
  if (compressed && v.has("batch.seq") && plan.seq < *longest)
    refuse("batch.seq", fmt::format("sequences of less than {} tokens", *longest),
           "a sequence has a compressed key at least");
  if (in.model->streams > 1 && plan.recompute == Recompute::full)
    in.warnings.push_back("Megatron-Core refuses several residual streams with recompute: full");
  if (in.model->streams > 1 && plan.pp > 1)
    in.warnings.push_back("Megatron-Core refuses several residual streams with pp > 1");
  double dropout = 0;
  v.read("kernels.dropout.hidden", dropout);
  if (in.model->streams > 1 && dropout > 0)
    refuse("kernels.dropout.hidden", "dropout", "kernels: {dropout: {hidden: 0}}");
  if (chosen && v.is("kernels.attention", false))
    refuse("kernels.attention", "unfused attention", "kernels: {attention: flash}");
  if (chosen && plan.recompute == Recompute::selective && plan.recompute_modules.mla_up_projection)
    refuse("recompute.modules", "mla_up_proj", "core_attn, or recompute: full");
}

}  // namespace stepcast
