// SPDX-License-Identifier: Apache-2.0
// A record is converted section by section, model before cluster before layout, since later ones
// look at what earlier ones found.  Rules come first: what one sets by a word of the record
// ("TE 1.11") stands unless the record prints a size for the same key.  Of
//
//   hardware: {gpu: H100-80GB, gpus: 16}           rule: H100 is cluster.preset: dgx-h100
//   parallelism: {tp: 8, pp: 1, dp: 2}
//   batch: {global: 128, num_microbatches: 64}     micro is not printed: 1, and 1 * 64 * 2 = 128
//
// comes `cluster: {preset: dgx-h100, nodes: 2}`, `parallel: {tp: 8, pp: 1, dp: 2}`, `batch:
// {global: 128, micro: 1, seq: ...}`, and "batch.micro = 1: not printed" under `assumed`.  Where
// products do not agree (tp * cp * pp * dp and the GPUs), the record contradicts itself and is no
// scenario.
#include "calibrate/runs/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <stdexcept>

namespace stepcast {
namespace {

// The keys that were found so far, by dotted path.
class ScenarioKeys {
 public:
  // A mapping is laid over what is there, null deletes the key.
  void set(std::string_view path, Value value) { merge(root_, below(path, std::move(value))); }
  void set(std::string_view path, std::string_view text) {
    Value v;
    v.kind = Value::Kind::scalar;
    v.text = std::string(text);
    set(path, std::move(v));
  }
  void set(std::string_view path, const char* text) { set(path, std::string_view(text)); }
  void set(std::string_view path, int64_t number) { set(path, std::to_string(number)); }
  void set(std::string_view path, bool flag) { set(path, flag ? "true" : "false"); }
  bool has(std::string_view path) const { return find_at(root_, path) != nullptr; }
  std::string text(std::string_view path) const { return text_at(root_, path); }
  void erase_section(std::string_view name) {
    std::erase_if(root_.members, [&](const Member& m) { return m.key == name; });
  }

  // A line for each section.
  std::string yaml() const {
    std::string text;
    for (const Member& m : root_.members) text += fmt::format("{}: {}\n", m.key, to_flow(m.value));
    return text;
  }

 private:
  static Value mapping() {
    Value v;
    v.kind = Value::Kind::mapping;
    return v;
  }
  // `value` in the mappings that the path names: {a: {b: value}} of "a.b".
  static Value below(std::string_view path, Value value) {
    const size_t dot = path.find('.');
    Value outer = mapping();
    if (dot != path.npos) value = below(path.substr(dot + 1), std::move(value));
    outer.members.push_back({std::string(path.substr(0, dot)), {}, std::move(value)});
    return outer;
  }

  Value root_ = mapping();
};

// Ends a conversion; its text is the reason.
struct NoScenario : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Converter {
 public:
  Converter(const RunRecord& record, const std::vector<RunRule>& rules, RunConversion& to)
      : record_(record), r_(record.value), rules_(rules), to_(to) {}

  void run() {
    note_assumed();
    s_.set("name", record_.id);
    apply_rules();
    write_model();
    write_experts();
    write_cluster();
    write_schedule();
    write_parallel();
    write_batch();
    write_stages();
    write_recompute();
    write_measured();
    to_.scenario = s_.yaml();
  }

 private:
  void assume(const std::string& what) { to_.assumed.push_back(what); }

  // What the record itself says is not printed by its source.
  void note_assumed() {
    const Value* assumed = find_at(r_, "assumed");
    if (assumed == nullptr) return;
    for (const Member& m : assumed->members)
      if (m.key != "reason") assume(fmt::format("{} = {} (record)", m.key, m.value.text));
  }

  void apply_rules() {
    std::map<std::string, const RunRule*> last;  // that sets a key
    std::vector<const RunRule*> applied;
    for (const RunRule& rule : rules_) {
      if (!applies(rule, record_)) continue;
      if (!rule.skip.empty()) throw NoScenario(rule.skip);
      applied.push_back(&rule);
      for (const auto& [path, value] : rule.set) {
        s_.set(path, value);
        last[path] = &rule;
      }
    }
    for (const RunRule* rule : applied) {  // what a later rule knows is not assumed
      const bool holds = std::any_of(rule->set.begin(), rule->set.end(),
                                     [&](const auto& s) { return last[s.first] == rule; });
      if (!rule->assumed.empty() && holds) assume(rule->assumed);
    }
    if (!s_.has("precision")) note_precision();
  }

  void note_precision() {
    const std::string words = text_at(r_, "precision");
    assume(words.empty() ? "precision by default: not printed"
                         : fmt::format("precision by default: '{}' is not understood", words));
  }

  // A size that is printed, or assumed by the record.  Three of them can be multiplied.
  std::optional<int64_t> size(const std::string& section, const std::string& key) const {
    constexpr int64_t kMost = 2'000'000;
    auto n = whole_at(r_, section + '.' + key);
    if (!n) n = leading_whole(text_at(r_, "assumed." + key));
    if (n && (*n < 1 || *n > kMost))
      throw NoScenario(fmt::format("{}.{} = {} is no size", section, key, *n));
    return n;
  }
  int64_t needed(const std::string& section, const std::string& key) const {
    const auto n = size(section, key);
    if (!n) throw NoScenario(fmt::format("nothing says {}.{}", section, key));
    return *n;
  }
  int64_t parallel(const std::string& key) const { return size("parallelism", key).value_or(1); }
  void copy(const std::string& from, const std::string& to) {
    if (const auto n = whole_at(r_, from)) s_.set(to, *n);
  }

  void write_model() {
    const bool gated = true_at(r_, "model.gated_mlp");
    if (!s_.has("model.preset")) s_.set("model.preset", gated ? "llama" : "gpt");
    const int64_t hidden = needed("model", "hidden");
    s_.set("model.num_hidden_layers", needed("model", "layers"));
    s_.set("model.hidden_size", hidden);
    write_heads(hidden);
    if (gated && s_.text("model.preset") == "gpt") {
      s_.set("model.gated_mlp", true);
      s_.set("model.hidden_act", "silu");
    }
    if (const auto ffn = whole_at(r_, "model.ffn")) {
      s_.set("model.intermediate_size", *ffn);
    } else if (text_at(r_, "assumed.ffn") == "4*hidden") {
      s_.set("model.intermediate_size", 4 * hidden);
    } else if (const auto n = leading_whole(text_at(r_, "assumed.ffn"))) {
      s_.set("model.intermediate_size", *n);
    }
    write_vocabulary();
    s_.set("model.max_position_embeddings", needed("model", "seq"));
    if (find_at(r_, "model.tied_embeddings") != nullptr)
      s_.set("model.tie_word_embeddings", true_at(r_, "model.tied_embeddings"));
    if (true_at(r_, "model.parallel_block")) s_.set("model.parallel_attn", true);
    if (true_at(r_, "model.mtp")) s_.set("model.num_nextn_predict_layers", int64_t{1});
    copy("model.mtp_layers", "model.num_nextn_predict_layers");
    write_latent_attention();
  }

  // Heads must divide the width, and tp the heads: of numbers that cannot have run, the nearest
  // that can is taken.
  void write_heads(int64_t hidden) {
    constexpr int64_t kUsualHeadDim = 128;
    const auto printed = size("model", "heads");
    const int64_t wanted = printed.value_or(std::max<int64_t>(1, hidden / kUsualHeadDim));
    int64_t heads = wanted;
    if (whole_at(r_, "model.head_dim").value_or(0) == 0 && find_at(r_, "model.mla") == nullptr)
      heads = nearest_heads(hidden, wanted);
    s_.set("model.num_attention_heads", heads);
    copy("model.head_dim", "model.head_dim");
    if (heads == wanted) copy("model.kv_heads", "model.num_key_value_heads");
    if (!printed) assume(fmt::format("{} heads: not printed", heads));
    if (printed && heads != wanted)
      assume(fmt::format("{} heads: {} do not divide {}", heads, wanted, hidden));
  }

  int64_t nearest_heads(int64_t hidden, int64_t wanted) const {
    const int64_t tp = parallel("tp");
    const auto fits = [&](int64_t n) { return n > 0 && hidden % n == 0 && n % tp == 0; };
    for (int64_t away = 0; away <= hidden; ++away) {
      if (fits(wanted + away)) return wanted + away;
      if (fits(wanted - away)) return wanted - away;
    }
    return wanted;
  }

  void write_vocabulary() {
    constexpr int64_t kGpt2 = 50257;  // Radford et al. 2019, the vocabulary of Megatron-LM's data
    const std::string assumed = text_at(r_, "assumed.vocab");
    if (const auto n = size("model", "vocab")) return s_.set("model.vocab_size", *n);
    if (s_.has("model.vocab_size")) return;  // a rule knows
    s_.set("model.vocab_size", kGpt2);
    if (assumed.empty()) assume(fmt::format("vocabulary of GPT-2, {}: not printed", kGpt2));
  }

  void write_latent_attention() {
    if (find_at(r_, "model.mla") == nullptr) return;
    copy("model.mla.q_lora_rank", "model.q_lora_rank");
    copy("model.mla.kv_lora_rank", "model.kv_lora_rank");
    copy("model.mla.qk_nope_head_dim", "model.qk_nope_head_dim");
    copy("model.mla.qk_rope_head_dim", "model.qk_rope_head_dim");
    copy("model.mla.v_head_dim", "model.v_head_dim");
    // Megatron's names.
    copy("model.mla.qk_head_dim", "model.qk_nope_head_dim");
    copy("model.mla.qk_pos_emb_head_dim", "model.qk_rope_head_dim");
  }

  void write_experts() {
    const int64_t experts = whole_at(r_, "model.moe.experts").value_or(0);
    if (experts == 0) return;
    s_.set("model.num_experts", experts);
    copy("model.moe.topk", "model.num_experts_per_tok");
    copy("model.moe.moe_ffn", "model.moe_intermediate_size");
    if (const auto width = whole_at(r_, "model.moe.shared_expert_ffn")) {
      s_.set("model.shared_expert_intermediate_size", *width);
    } else {
      copy("model.moe.shared_experts", "model.n_shared_experts");
    }
    copy("model.moe.dense_layers", "model.first_k_dense_replace");
    if (const std::string freq = text_at(r_, "model.moe.layer_freq"); !freq.empty()) {
      const auto dense = leading_dense(freq);
      if (!dense) throw NoScenario(fmt::format("moe.layer_freq '{}' is not understood", freq));
      s_.set("model.first_k_dense_replace", *dense);
    }
    s_.set("parallel.ep", parallel("ep"));
    if (const auto etp = whole_at(r_, "parallelism.etp")) s_.set("parallel.etp", *etp);
  }

  // Machines of a whole NVLink rack: the most GPUs of one that a job can use evenly.
  static int64_t rack_share(int64_t gpus, int64_t tray) {
    constexpr int64_t kRack = 72;
    for (int64_t n = kRack; n > tray; n -= tray)
      if (gpus % n == 0) return n;
    return tray;
  }

  void write_cluster() {
    if (!s_.has("cluster.preset"))
      throw NoScenario(fmt::format("no cluster for GPU '{}'", text_at(r_, "hardware.gpu")));
    const int64_t gpus = needed("hardware", "gpus");
    const int64_t host = size("hardware", "gpus_per_node").value_or(8);
    const bool rack = s_.text("cluster.preset").find("nvl72") != std::string::npos;
    const int64_t node = rack ? rack_share(gpus, host) : std::min(gpus, host);
    if (gpus % node != 0)
      throw NoScenario(fmt::format("{} GPUs are no whole number of nodes", gpus));
    s_.set("cluster.nodes", gpus / node);
    write_nics(node, host);
    if (!rack && node == host) return;
    s_.set("cluster.node.gpus", node);
    if (rack) s_.set("cluster.node.hosts", node / host);
    if (!s_.has("cluster.node.nics.count")) s_.set("cluster.node.nics.count", node);
    Value none;
    none.kind = Value::Kind::sequence;
    s_.set("cluster.fabric.tiers", none);
    if (rack) return;
    s_.set("cluster.node.pcie.switches", int64_t{0});  // whatever share of the node's there is
  }

  // Cards of `node` GPUs, whose machines have `host` each.
  void write_nics(int64_t node, int64_t host) {
    const std::string words = text_at(r_, "hardware.interconnect");
    const bool ampere = text_at(r_, "hardware.gpu").find("A100") != std::string::npos;
    const auto nics = nics_in_words(words, host, ampere ? 200 : 400);
    if (!nics) {
      if (needed("hardware", "gpus") > node) assume("network as the preset's: not printed");
      return;
    }
    const int64_t count = std::max<int64_t>(1, nics->count * node / host);
    s_.set("cluster.node.nics.count", count);
    if (!s_.has("cluster.node.nics.bw"))  // else by a rule
      s_.set("cluster.node.nics.bw", fmt::format("{}Gb/s", static_cast<int64_t>(nics->gbit)));
  }

  // Names of families are taken over, without what stands in brackets behind them.
  void write_schedule() {
    const std::string words = text_at(r_, "parallelism.schedule");
    if (parallel("pp") == 1) return s_.erase_section("schedule");
    if (s_.has("schedule.kind")) return;  // by a rule
    if (!words.empty() && words != "none" && !words.starts_with("not stated"))
      return s_.set("schedule.kind", words.substr(0, words.find(" (")));
    s_.set("schedule.kind", parallel("vpp") > 1 ? "interleaved" : "1f1b");
    assume(fmt::format("schedule {}: not printed", s_.text("schedule.kind")));
  }

  void write_parallel() {
    const int64_t tp = parallel("tp"), pp = parallel("pp"), cp = parallel("cp");
    const int64_t dp = parallel("dp"), gpus = needed("hardware", "gpus");
    if (tp * pp * cp > gpus)
      throw NoScenario(fmt::format("tp * cp * pp = {} on {} GPUs", tp * pp * cp, gpus));
    if (tp * pp * cp * dp != gpus)
      throw NoScenario(fmt::format("tp * cp * pp * dp = {} on {} GPUs", tp * pp * cp * dp, gpus));
    s_.set("parallel.tp", tp);
    if (cp > 1) s_.set("parallel.cp", cp);
    s_.set("parallel.pp", pp);
    s_.set("parallel.dp", dp);
    if (const int64_t n = chunks(); n > 1) s_.set("parallel.vpp", n);
    if (chunks() != parallel("vpp")) assume(fmt::format("vpp = {}: not printed", chunks()));
    write_sequence_parallel(tp);
    const std::string fsdp = text_at(r_, "parallelism.fsdp");
    if (const auto zero = whole_at(r_, "parallelism.zero")) {
      s_.set("parallel.zero", *zero);
    } else if (!fsdp.empty() && fsdp != "false") {
      s_.set("parallel.zero", int64_t{3});
    }
    if (!s_.has("parallel.zero")) assume("zero = 0: not printed");
    // "sharding group 8", "shard 8", "8 ranks": what is sharded over so many, and replicated else.
    for (const char* key : {"parallelism.fsdp", "parallelism.zero1_group"}) {
      std::string words = text_at(r_, key);
      for (const char* prefix : {"sharding group ", "shard "})
        if (words.starts_with(prefix)) words = words.substr(std::string(prefix).size());
      const auto group = leading_whole(words);
      if (group && *group > 0 && dp % *group == 0 && dp > *group)
        s_.set("parallel.dp_replicate", dp / *group);
    }
  }

  // Model chunks of a pipeline rank.  An interleaved schedule has two at least: the fewest that
  // divide the layers.
  int64_t chunks() const {
    const int64_t pp = parallel("pp"), layers = needed("model", "layers");
    const bool interleaved = s_.text("schedule.kind").starts_with("interleaved");
    if (size("parallelism", "vpp") || !interleaved) return parallel("vpp");
    for (int64_t n = 2; pp * n <= layers; ++n)
      if (layers % (pp * n) == 0) return n;
    return 2;
  }

  void write_sequence_parallel(int64_t tp) {
    if (tp == 1) return;
    if (find_at(r_, "parallelism.sp") != nullptr)
      return s_.set("parallel.sp", true_at(r_, "parallelism.sp"));
    if (find_at(r_, "assumed.sp") != nullptr)
      return s_.set("parallel.sp", true_at(r_, "assumed.sp"));
    if (!s_.has("parallel.sp")) assume("sp with tp > 1: not printed");
  }

  void write_batch() {
    const auto global = size("batch", "global"), microbatches = size("batch", "num_microbatches");
    auto micro = size("batch", "micro");
    if (!micro) micro = size("batch", "local");
    if (!micro) {
      micro = 1;
      assume("batch.micro = 1: not printed");
    }
    const int64_t dp = parallel("dp");
    const int64_t made = *micro * dp * microbatches.value_or(1);
    if (global && microbatches && *global != made)
      throw NoScenario(
          fmt::format("micro * num_microbatches * dp = {} is not global = {}", made, *global));
    if (!global && !microbatches) assume("one microbatch a step: not printed");
    s_.set("batch.global", global.value_or(made));
    s_.set("batch.micro", *micro);
    s_.set("batch.seq", needed("model", "seq"));
  }

  void write_stages() {
    const int64_t pp = parallel("pp"), vpp = chunks(), layers = needed("model", "layers");
    if (pp == 1) return;
    if (s_.has("parallel.layout") || s_.has("parallel.split")) return;  // by a rule
    const int64_t stages = pp * vpp;
    if (text_at(r_, "parallelism.vocab_method") == "Redis") {
      // Work of head and layer by the closed form of their FLOPs (Narayanan et al. 2021, eq. 2).
      const auto h = static_cast<double>(needed("model", "hidden"));
      const auto seq = static_cast<double>(needed("model", "seq"));
      const double head = 6 * h * static_cast<double>(needed("model", "vocab"));
      s_.set("parallel.layout",
             balanced_layout(layers, stages, head / (72 * h * h + 12 * seq * h)));
      return;
    }
    const std::string notes = text_at(r_, "notes") + text_at(r_, "model.layer_split");
    const bool accounted = notes.find("embedding counted as a layer") != std::string::npos ||
                           notes.find("hold one layer less") != std::string::npos ||
                           notes.find("ASYM_PP") != std::string::npos;
    if (layers % stages == 0 && !accounted) return;
    const auto layout = stages > layers + 2 ? std::nullopt : accounted_layout(layers, stages);
    if (!layout) throw NoScenario(fmt::format("{} layers on {} stages", layers, stages));
    if (!accounted) assume("embedding and head count as a layer each: split not printed");
    s_.set("parallel.layout", *layout);
  }

  void write_recompute() {
    if (s_.has("recompute.granularity")) return;  // a rule's word for the record's
    std::string mode = text_at(r_, "recompute.mode");
    if (mode.empty()) mode = text_at(r_, "recompute");  // recompute: full
    if (!mode.empty()) return s_.set("recompute.granularity", mode);
    const std::string assumed = text_at(r_, "assumed.recompute");
    if (!assumed.empty()) return s_.set("recompute.granularity", assumed);
    assume("no recomputation: not printed");
  }

  // For `measured:`, what the source prints or what follows without the model's FLOPs.
  void write_measured() {
    if (const auto t = number_at(r_, "measured.step_time_s"))
      s_.set("measured.step_time", text_at(r_, "measured.step_time_s") + "s");
    else if (find_at(r_, "derived.step_time_s") != nullptr)
      s_.set("measured.step_time", text_at(r_, "derived.step_time_s") + "s");
    if (find_at(r_, "measured.peak_memory_gb") != nullptr)
      s_.set("measured.peak_memory", text_at(r_, "measured.peak_memory_gb") + "GB");
    if (find_at(r_, "measured.peak_memory_mib") != nullptr)
      s_.set("measured.peak_memory", text_at(r_, "measured.peak_memory_mib") + "MiB");
    if (find_at(r_, "measured.peak_memory_gib") != nullptr)
      s_.set("measured.peak_memory", text_at(r_, "measured.peak_memory_gib") + "GiB");
    if (!s_.has("measured")) return;
    s_.set("measured.source",
           fmt::format("{}, {}", text_at(r_, "source.title"), text_at(r_, "source.where")));
  }

  const RunRecord& record_;
  const Value& r_;
  const std::vector<RunRule>& rules_;
  RunConversion& to_;
  ScenarioKeys s_;
};

std::string layout_of(const std::vector<int64_t>& layers) {
  std::string text = "E";
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += '|';
    text.append(static_cast<size_t>(layers[i]), 't');
  }
  return text + 'L';
}

double number(const std::ssub_match& match) {
  return std::stod(match.str());
}

}  // namespace

RunConversion convert_run(const RunRecord& record, const std::vector<RunRule>& rules) {
  RunConversion c;
  try {
    Converter(record, rules, c).run();
  } catch (const NoScenario& e) {
    c.skipped = e.what();
  }
  return c;
}

std::optional<std::string> accounted_layout(int64_t layers, int64_t stages) {
  const int64_t room = (layers + 2 + stages - 1) / stages;
  std::vector<int64_t> each(static_cast<size_t>(stages), room);
  each.front() -= 1;
  each.back() -= stages * room - layers - 1;
  if (each.front() < 0 || each.back() < 0) return {};
  return layout_of(each);
}

std::string balanced_layout(int64_t layers, int64_t stages, double head) {
  const auto fullest = [&](int64_t last) {
    const int64_t others = (layers - last + stages - 2) / (stages - 1);
    return std::max(static_cast<double>(others), static_cast<double>(last) + head);
  };
  int64_t best = 0;
  for (int64_t last = 1; last <= layers / stages; ++last)
    if (fullest(last) <= fullest(best)) best = last;
  std::vector<int64_t> each;
  for (int64_t i = 0; i + 1 < stages; ++i) {
    const int64_t left = layers - best, n = stages - 1;
    each.push_back(left * (i + 1) / n - left * i / n);
  }
  each.push_back(best);
  return layout_of(each);
}

std::optional<int64_t> leading_dense(const std::string& moe_layer_freq) {
  if (moe_layer_freq == "1") return 0;
  static const std::regex form(R"(\(?\[0\]\*(\d+)\+\[1\]\*\d+\)?)");
  std::smatch m;
  if (!std::regex_match(moe_layer_freq, m, form)) return {};
  return std::stoll(m[1].str());
}

std::optional<NicWords> nics_in_words(const std::string& interconnect, int64_t gpus,
                                      double usual_gbit) {
  // "8x 200 Gb/s", "4x Omni-Path 100 Gb/s", "4x100 Gb/s", "8x CX7 InfiniBand (400Gb/s)"; the
  // fastest of several.
  static const std::regex cards(R"((\d{1,4})x ?(?:[A-Za-z][\w-]* )*\(?(\d+) ?G(?:b/s|b/Sec))");
  static const std::regex per_gpu(R"((\d+) Gb/s [A-Z0-9-]* ?(?:RDMA )?per GPU)");
  static const std::regex per_node(R"((\d+) ([GT])b/s[A-Za-z ]*(?:per node|inter-node|node-node))");
  std::smatch m;
  std::optional<NicWords> best;
  for (std::sregex_iterator i(interconnect.begin(), interconnect.end(), cards), end; i != end;
       ++i) {
    const NicWords found{std::stoll((*i)[1].str()), number((*i)[2])};
    const auto total = [](const NicWords& w) { return static_cast<double>(w.count) * w.gbit; };
    if (!best || total(found) > total(*best)) best = found;
  }
  if (best) return best;
  if (std::regex_search(interconnect, m, per_gpu)) return NicWords{gpus, number(m[1])};
  if (!std::regex_search(interconnect, m, per_node)) return {};
  const double total = number(m[1]) * (m[2].str() == "T" ? 1000 : 1);
  const double count = std::max(1.0, std::min(8.0, std::floor(total / usual_gbit)));
  return NicWords{static_cast<int64_t>(count), total / count};
}

}  // namespace stepcast
