// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/convert.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "tests/accuracy/scenario_writer.h"

namespace stepcast::accuracy {
namespace {

// Ends a conversion; its text is the reason.
struct NoScenario : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string str(int64_t n) {
  return std::to_string(n);
}

class Converter {
 public:
  Converter(const RunRecord& record, const std::vector<Rule>& rules, Conversion& to)
      : id_(record.id), r_(record.value), rules_(rules), to_(to) {}

  void run() {
    note_assumed();
    s_.set("name", id_);
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
      if (m.key != "reason") assume(m.key + " = " + m.value.text + " (record)");
  }

  void apply_rules() {
    std::map<std::string, const Rule*> last;  // that sets a key
    std::vector<const Rule*> applied;
    for (const Rule& rule : rules_) {
      if (!applies(rule, r_)) continue;
      if (!rule.skip.empty()) throw NoScenario(rule.skip);
      applied.push_back(&rule);
      for (const auto& [path, value] : rule.set) {
        s_.set(path, value);
        last[path] = &rule;
      }
    }
    for (const Rule* rule : applied) {  // what a later rule knows is not assumed
      const bool holds = std::any_of(rule->set.begin(), rule->set.end(),
                                     [&](const auto& s) { return last[s.first] == rule; });
      if (!rule->assumed.empty() && holds) assume(rule->assumed);
    }
    if (!s_.has("precision")) note_precision();
  }

  void note_precision() {
    const std::string words = text_at(r_, "precision");
    assume(words.empty() ? "precision by default: not printed"
                         : "precision by default: '" + words + "' is not understood");
  }

  // A size that is printed, or assumed by the record.  Three of them can be multiplied.
  std::optional<int64_t> size(const std::string& section, const std::string& key) const {
    constexpr int64_t kMost = 2'000'000;
    auto n = whole_at(r_, section + '.' + key);
    if (!n) n = leading_whole(text_at(r_, "assumed." + key));
    if (n && (*n < 1 || *n > kMost))
      throw NoScenario(section + '.' + key + " = " + str(*n) + " is no size");
    return n;
  }
  int64_t needed(const std::string& section, const std::string& key) const {
    const auto n = size(section, key);
    if (!n) throw NoScenario("nothing says " + section + '.' + key);
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
    if (!printed) assume(str(heads) + " heads: not printed");
    if (printed && heads != wanted)
      assume(str(heads) + " heads: " + str(wanted) + " do not divide " + str(hidden));
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
    s_.set("model.vocab_size", kGpt2);
    if (assumed.empty()) assume("vocabulary of GPT-2, " + str(kGpt2) + ": not printed");
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
      if (!dense) throw NoScenario("moe.layer_freq '" + freq + "' is not understood");
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
      throw NoScenario("no cluster for GPU '" + text_at(r_, "hardware.gpu") + '\'');
    const int64_t gpus = needed("hardware", "gpus");
    const int64_t host = size("hardware", "gpus_per_node").value_or(8);
    const bool rack = s_.text("cluster.preset").find("nvl72") != std::string::npos;
    const int64_t node = rack ? rack_share(gpus, host) : std::min(gpus, host);
    if (gpus % node != 0) throw NoScenario(str(gpus) + " GPUs are no whole number of nodes");
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
    const auto nics = read_nics(words, host, ampere ? 200 : 400);
    if (!nics) {
      if (needed("hardware", "gpus") > node) assume("network as the preset's: not printed");
      return;
    }
    const int64_t count = std::max<int64_t>(1, nics->count * node / host);
    s_.set("cluster.node.nics.count", count);
    s_.set("cluster.node.nics.bw", str(static_cast<int64_t>(nics->gbit)) + "Gb/s");
  }

  // Names of families are taken over, without what stands in brackets behind them.
  void write_schedule() {
    const std::string words = text_at(r_, "parallelism.schedule");
    if (parallel("pp") == 1) return s_.erase("schedule");
    if (s_.has("schedule.kind")) return;  // by a rule
    if (!words.empty() && words != "none" && !words.starts_with("not stated"))
      return s_.set("schedule.kind", words.substr(0, words.find(" (")));
    s_.set("schedule.kind", parallel("vpp") > 1 ? "interleaved" : "1f1b");
    assume("schedule " + s_.text("schedule.kind") + ": not printed");
  }

  void write_parallel() {
    const int64_t tp = parallel("tp"), pp = parallel("pp"), cp = parallel("cp");
    const int64_t dp = parallel("dp"), gpus = needed("hardware", "gpus");
    if (tp * pp * cp > gpus)
      throw NoScenario("tp * cp * pp = " + str(tp * pp * cp) + " on " + str(gpus) + " GPUs");
    if (tp * pp * cp * dp != gpus)
      throw NoScenario("tp * cp * pp * dp = " + str(tp * pp * cp * dp) + " on " + str(gpus) +
                       " GPUs");
    s_.set("parallel.tp", tp);
    if (cp > 1) s_.set("parallel.cp", cp);
    s_.set("parallel.pp", pp);
    s_.set("parallel.dp", dp);
    if (const int64_t n = chunks(); n > 1) s_.set("parallel.vpp", n);
    if (chunks() != parallel("vpp")) assume("vpp = " + str(chunks()) + ": not printed");
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
      throw NoScenario("micro * num_microbatches * dp = " + str(made) +
                       " is not global = " + str(*global));
    if (!global && !microbatches) assume("one microbatch a step: not printed");
    s_.set("batch.global", global.value_or(made));
    s_.set("batch.micro", *micro);
    s_.set("batch.seq", needed("model", "seq"));
  }

  void write_stages() {
    const int64_t pp = parallel("pp"), vpp = chunks(), layers = needed("model", "layers");
    if (pp == 1) return;
    if (s_.has("parallel.layout")) return;  // by a rule
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
    if (!layout) throw NoScenario(str(layers) + " layers on " + str(stages) + " stages");
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
    if (find_at(r_, "measured.peak_memory_gib") != nullptr)
      s_.set("measured.peak_memory", text_at(r_, "measured.peak_memory_gib") + "GiB");
    if (!s_.has("measured")) return;
    s_.set("measured.source", text_at(r_, "source.title") + ", " + text_at(r_, "source.where"));
  }

  const std::string& id_;
  const Value& r_;
  const std::vector<Rule>& rules_;
  Conversion& to_;
  ScenarioWriter s_;
};

}  // namespace

Conversion convert(const RunRecord& record, const std::vector<Rule>& rules) {
  Conversion c;
  try {
    Converter(record, rules, c).run();
  } catch (const NoScenario& e) {
    c.skipped = e.what();
  }
  return c;
}

}  // namespace stepcast::accuracy
