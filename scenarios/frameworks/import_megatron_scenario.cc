// SPDX-License-Identifier: Apache-2.0
// draft_megatron: what Megatron's arguments become.  Each part of a scenario is a class: the model,
// the layout with batch and schedule, and the run (number formats, overlap, kernels, the job).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "model/plan.h"
#include "scenarios/frameworks/hybrid_pattern.h"
#include "scenarios/frameworks/import_megatron.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/schema/keys.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

// The argument that says that others are of Megatron-LM v2, of 2021 and early 2022; empty: none.
// v3.0 names them --recompute-* and refuses the old ones (megatron/arguments.py).  A list of all
// arguments has those of its version, set or not, --DDP-impl among them; NeMo's files have some of
// the same names, unset, and not that one.
std::string_view sign_of_version_2(const ArgumentReader& a) {
  const bool list = a.named("DDP_impl");
  for (const std::string_view name : {"checkpoint_activations", "activations_checkpoint_method",
                                      "distribute_checkpointed_activations"})
    if (list ? a.named(name) : a.given(name)) return name;
  return {};
}

// Whose software a file is of, and the argument that says so.
struct SoftwareOfFile {
  std::string_view profile = "megatron-core";
  std::string_view sign{};   // empty: nothing speaks for another
  std::string_view until{};  // when Megatron-LM or its fork dropped the argument
  bool old() const { return !sign.empty(); }
};

// Signs are arguments that later versions do not have: --checkpoint-activations and what went with
// it until May 2022 (v3.0), --DDP-impl until August 2023 (megatron/arguments.py).  Of files with
// the latter those that name what came with December 2022 (--transformer-impl, flash attention), or
// in 2023, are of 2023; those that name --recompute-* or --sequence-parallel of 2022.
SoftwareOfFile software_of(const ArgumentReader& a) {
  if (a.flag("deepspeed")) return {"megatron-deepspeed-2022", "deepspeed", ""};
  if (const std::string_view sign = sign_of_version_2(a); !sign.empty())
    return {"megatron-lm-2021", sign, "v3.0, in May 2022"};
  if (!a.named("DDP_impl") || a.word("transformer_impl") == "transformer_engine") return {};
  const auto names_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return a.named(name); });
  };
  const std::string_view until = "August 2023";
  if (names_one_of({"transformer_impl", "use_flash_attn", "swiglu", "group_query_attention",
                    "use_rotary_position_embeddings"}))
    return {"megatron-lm-2023", "DDP_impl", until};
  if (names_one_of({"recompute_granularity", "recompute_activations", "sequence_parallel"}))
    return {"megatron-lm-2022", "DDP_impl", until};
  return {"megatron-lm-2021", "DDP_impl", until};
}

// The sizes of the job that several parts need.  Each part fills in what it finds out.
struct MegatronSizes {
  int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1, dp = 1;
  int64_t layers = 0;
  std::vector<int64_t> stages{};  // layers of each, where the model's pattern says it
  int64_t vpp = 1;
};

// --- model

constexpr int64_t kMostSize = int64_t{1} << 40;

std::string list_text(const std::vector<int64_t>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

class ModelDraft {
 public:
  ModelDraft(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft)
      : a_(a), sizes_(sizes), draft_(draft) {}

  void write() {
    const bool clean = !a_.problems().any();
    hybrid_ = hybrid_of(a_);
    if (clean && a_.problems().any()) return;
    if (hybrid_)
      draft_.set_text("model.model_type", "nemotron_h", hybrid_->why);
    else
      draft_.set("model.preset", std::string("gpt"), "a decoder; what differs is stated");
    write_sizes();
    if (layers_ < 1 || hidden_ < 1) return;
    write_kind();
    if (hybrid_) write_hybrid();
    write_vocabulary();
    write_window();
    write_latent_attention();
    write_experts();
    write_refused();
  }

 private:
  // A size that Megatron requires as well.
  int64_t needed(const char* name, const char* key) {
    if (!a_.given(name)) {
      a_.problems().add("E332", fmt::format("the file does not say --{}", dashes(name)), {});
      return 0;
    }
    const std::optional<int64_t> size = a_.whole(name);
    if (!size) return 0;  // it has been refused
    const int64_t n = *size;
    if (n < 1) {
      a_.refuse(name, "must be at least 1");
      return 0;
    }
    draft_.set(key, n, a_.origin(name));
    return n;
  }

  static std::string dashes(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }

  void copy(const char* name, const char* key) {
    if (const auto n = a_.whole(name)) draft_.set(key, *n, a_.origin(name));
  }

  void write_sizes() {
    write_layers();
    hidden_ = needed("hidden_size", "model.hidden_size");
    const int64_t heads = needed("num_attention_heads", "model.num_attention_heads");
    const bool groups =
        a_.flag("group_query_attention");  // Megatron ignores the number without the flag
    const std::string type = a_.word("attention_head_type");
    if (a_.given("num_key_value_heads"))
      copy("num_key_value_heads", "model.num_key_value_heads");
    else if (type == "multiquery")
      draft_.set("model.num_key_value_heads", int64_t{1}, a_.origin("attention_head_type"));
    else if (groups)
      draft_.set("model.num_key_value_heads", a_.whole("num_query_groups", 1),
                 a_.origin("num_query_groups"));
    else
      draft_.set("model.num_key_value_heads", heads, "every head has keys of its own");
    copy("kv_channels", "model.head_dim");
  }

  void write_layers() {
    if (hybrid_) {  // the pattern counts, whatever --num-layers says
      for (const int64_t n : hybrid_->stages) layers_ += n;
      sizes_.layers = layers_;
      if (hybrid_->stages.size() > 1) sizes_.stages = hybrid_->stages;
      if (layers_ > 0) draft_.set("model.num_hidden_layers", layers_, hybrid_->why);
      return;
    }
    const char* own = !a_.given("num_layers") && a_.given("encoder_num_layers")
                          ? "encoder_num_layers"
                          : "num_layers";
    const bool decodes = a_.given("decoder_num_layers");  // pretrain_t5.py
    layers_ = needed(own, decodes ? "model.num_encoder_layers" : "model.num_hidden_layers");
    if (decodes) layers_ += needed("decoder_num_layers", "model.num_decoder_layers");
    sizes_.layers = layers_;
    if (layers_ <= kMostLayers) return;
    a_.refuse(own, "must be at most 100000");
    layers_ = 0;
  }

  // The state-space layers of a hybrid; what they have without arguments is MambaMixer's
  // (megatron/core/ssm/mamba_mixer.py).
  void write_hybrid() {
    draft_.set_text("model.hybrid_override_pattern", hybrid_->layers, hybrid_->why);
    const int64_t head = a_.whole("mamba_head_dim", 64);
    const auto set = [&](const char* name, const char* key, int64_t fallback) {
      draft_.set(key, a_.whole(name, fallback), given_or_default(name));
    };
    draft_.set("model.mamba_head_dim", head, given_or_default("mamba_head_dim"));
    if (a_.given("mamba_num_heads"))
      copy("mamba_num_heads", "model.mamba_num_heads");
    else if (head > 0)
      draft_.set("model.mamba_num_heads", 2 * hidden_ / head,
                 "Megatron's default: 2 x --hidden-size / --mamba-head-dim");
    set("mamba_num_groups", "model.n_groups", 8);
    set("mamba_state_dim", "model.ssm_state_size", 128);
    draft_.set("model.moe_latent_size", a_.whole("moe_latent_size", 0),
               given_or_default("moe_latent_size"));
    if (!hybrid_->prediction.empty()) {
      draft_.set("model.num_nextn_predict_layers", hybrid_->predictions, hybrid_->why);
      draft_.set_text("model.mtp_hybrid_override_pattern", hybrid_->prediction, hybrid_->why);
    }
  }

  void write_kind() {
    const bool glu = a_.given("glu_activation");
    gated_ = glu || a_.flag("swiglu") || a_.flag("quick_geglu");
    write_activation();
    if (a_.given("ffn_hidden_size")) {
      copy("ffn_hidden_size", "model.intermediate_size");
      ffn_ = a_.whole("ffn_hidden_size", 0);
    } else {
      // arguments.py: 4 h; with SwiGLU the width of as many parameters, in multiples of 64.
      ffn_ = a_.flag("swiglu") ? hidden_ * 8 / 3 / 64 * 64 : 4 * hidden_;
      draft_.set("model.intermediate_size", ffn_,
                 a_.flag("swiglu") ? "Megatron's default: 8/3 of --hidden-size in multiples of 64"
                                   : "Megatron's default: 4 times --hidden-size");
    }
    // NeMo and Megatron-DeepSpeed write it small; variants of the numerics cost the same.
    std::string norm = a_.flag("RMSNorm") ? "RMSNorm" : a_.word("normalization", "LayerNorm");
    if (norm == "rmsnorm") norm = "RMSNorm";
    for (const char* variant : {"layernorm", "layernorm1p", "low_precision_layernorm"})
      if (norm == variant) norm = "LayerNorm";
    draft_.set_text("model.normalization", norm,
                    a_.flag("RMSNorm") ? a_.origin("RMSNorm")
                                       : a_.origin("normalization", "Megatron's default"));
    const bool untied = a_.flag("untie_embeddings_and_output_weights");
    draft_.set("model.tie_word_embeddings", !untied,
               given_or_default("untie_embeddings_and_output_weights"));
    const bool bias = a_.flag("add_bias_linear", true);
    draft_.set("model.attention_bias", bias, given_or_default("add_bias_linear"));
    draft_.set("model.mlp_bias", bias, given_or_default("add_bias_linear"));
    if (a_.flag("add_qkv_bias")) draft_.set("model.qkv_bias", true, a_.origin("add_qkv_bias"));
    // With latent attention the flag means the norms of the latents, which are always there.
    for (const char* norm_of_heads : {"qk_layernorm", "qk_l2_norm"})
      if (a_.flag(norm_of_heads) && !a_.flag("multi_latent_attention"))
        draft_.set("model.use_qk_norm", true, a_.origin(norm_of_heads));
    if (a_.word("softmax_type", "vanilla") == "learnable")
      draft_.set("model.attention_sinks", true, a_.origin("softmax_type"));
    write_positions();
  }

  Origin given_or_default(const char* name) const { return a_.origin(name, "Megatron's default"); }

  void write_activation() {
    std::string act = gated_ ? "silu" : "gelu";
    Origin why = "Megatron's default";
    for (const char* flag : {"swiglu", "quick_geglu", "squared_relu"}) {
      if (!a_.flag(flag)) continue;
      why = a_.origin(flag);
      act = flag == std::string_view("swiglu")        ? "silu"
            : flag == std::string_view("quick_geglu") ? "quick_gelu"
                                                      : "relu2";
    }
    if (a_.given("glu_activation")) {
      const std::string glu = a_.word("glu_activation");
      if (glu != "swiglu" && glu != "geglu")
        a_.problems().add("E130", fmt::format("a gated MLP with {} is not supported yet", glu),
                          a_.mark("glu_activation"), 1, a_.why("glu_activation"));
      act = glu == "geglu" ? "gelu" : "silu";
      why = a_.origin("glu_activation");
    }
    if (a_.given("activation_func")) {
      const std::string f = a_.word("activation_func");
      const std::string_view name = std::string_view(f).substr(f.rfind('.') + 1);
      act = name == "squared_relu" ? "relu2" : std::string(name);
      why = a_.origin("activation_func");
    }
    draft_.set("model.hidden_act", yaml_text(act), why);
    draft_.set("model.gated_mlp", gated_,
               !gated_ ? Origin("Megatron's default")
                       : a_.origin(a_.given("glu_activation") ? "glu_activation"
                                   : a_.flag("swiglu")        ? "swiglu"
                                                              : "quick_geglu"));
  }

  void write_positions() {
    const bool rotary = a_.flag("use_rotary_position_embeddings");
    std::string type = a_.word("position_embedding_type", rotary ? "rope" : "learned_absolute");
    type.erase(0, type.rfind('.') + 1);  // "PositionEmbeddingType.alibi", as a list prints it
    Origin why = a_.given("position_embedding_type")
                     ? a_.origin("position_embedding_type")
                     : given_or_default("use_rotary_position_embeddings");
    if (type == "mrope" || type == "yarn") type = "rope";  // as much work
    if (type == "learned_absolute" && !a_.flag("add_position_embedding", true)) {
      type = "none";
      why = a_.origin("add_position_embedding");
    }
    draft_.set("model.position_embedding_type", yaml_text(type), why);
    if (type == "relative")
      draft_.set("model.relative_attention_num_buckets",
                 a_.whole("relative_attention_num_buckets", 32),
                 given_or_default("relative_attention_num_buckets"));
    if (a_.given("max_position_embeddings"))
      copy("max_position_embeddings", "model.max_position_embeddings");
    else if (type == "learned_absolute" && a_.given("seq_length"))
      draft_.set("model.max_position_embeddings", a_.whole("seq_length", 0),
                 a_.origin("seq_length"));
  }

  // Tokenizers that come with one vocabulary: GPT-2's and BERT's.
  struct Tokenizer {
    std::string_view name;
    int64_t vocab;
  };
  const Tokenizer* known_tokenizer() const {
    static constexpr std::array<Tokenizer, 3> kKnown{{{"GPT2BPETokenizer", 50257},
                                                      {"BertWordPieceLowerCase", 30522},
                                                      {"BertWordPieceCase", 28996}}};
    // A file of merges means GPT-2's tokenizer, which once was the default.
    const std::string name =
        a_.word("tokenizer_type", a_.given("merge_file") ? kKnown[0].name : std::string_view{});
    for (const Tokenizer& t : kKnown)
      if (t.name == name) return &t;
    return nullptr;
  }

  void write_vocabulary() {
    if (a_.given("padded_vocab_size")) return copy("padded_vocab_size", "model.vocab_size");
    int64_t vocab = 0;
    Origin why = "";
    if (a_.given("vocab_size")) {
      vocab = a_.whole("vocab_size", 0);
      why = a_.origin("vocab_size");
      if (a_.word("tokenizer_type") == "NullTokenizer") {  // adds the end of a document
        ++vocab;
        why.text += fmt::format(" and one: {}", a_.why("tokenizer_type"));
      }
    } else if (const Tokenizer* t = known_tokenizer()) {
      vocab = t->vocab + a_.whole("vocab_extra_ids", 0);
      why = a_.origin(a_.given("tokenizer_type") ? "tokenizer_type" : "merge_file");
    }
    if (vocab < 1 || vocab > kMostSize)
      return draft_.assume("model.vocab_size", "128256",
                           "the file does not say how large the vocabulary is; -s "
                           "model.vocab_size=N states it");
    const int64_t unit = a_.whole("make_vocab_size_divisible_by", 128);
    if (unit >= 1 && unit != 128 && unit < kMostSize / sizes_.tp) {
      const int64_t multiple = unit * sizes_.tp;
      vocab = (vocab + multiple - 1) / multiple * multiple;
      why.text += fmt::format(", {}", a_.why("make_vocab_size_divisible_by"));
      draft_.set("parallel.vocab_multiple", unit, a_.origin("make_vocab_size_divisible_by"));
    }
    draft_.set("model.vocab_size", vocab, why);
  }

  void write_window() {
    const std::vector<std::string> window = a_.words("window_size");
    if (window.empty()) return;
    const std::optional<int64_t> before = python_whole(window.front());
    if (!before) return a_.refuse("window_size", "must be numbers: (128, 0)");
    draft_.set("model.sliding_window", *before + 1,
               a_.origin("window_size"));  // plus the token itself
    if (!a_.given("window_attn_skip_freq")) return;
    std::string types;
    for (const int64_t windowed : pattern("window_attn_skip_freq", true))
      types += std::string(types.empty() ? "" : ", ") +
               (windowed != 0 ? "sliding_attention" : "full_attention");
    draft_.set("model.layer_types", fmt::format("[{}]", types), a_.origin("window_attn_skip_freq"));
  }

  // One 0 or 1 for each layer.  A number N means N - 1 ones and then a zero (windows), or a one and
  // then N - 1 zeros (experts).
  std::vector<int64_t> pattern(const char* name, bool last_differs) {
    const std::string text = a_.word(name);
    std::vector<int64_t> all;
    if (const auto n = python_whole(text); n && *n >= 1) {
      for (int64_t i = 0; i < layers_; ++i)
        all.push_back(last_differs ? ((i + 1) % *n != 0 ? 1 : 0) : (i % *n == 0 ? 1 : 0));
      return all;
    }
    if (a_.value(name)->kind == Value::Kind::sequence)
      for (const std::string& w : a_.words(name)) all.push_back(python_whole(w).value_or(-1));
    else if (const auto list = python_list(text))
      all = *list;
    const bool bits =
        std::all_of(all.begin(), all.end(), [](int64_t x) { return x == 0 || x == 1; });
    if (static_cast<int64_t>(all.size()) == layers_ && bits) return all;
    a_.refuse(name,
              fmt::format("must be a number, or a list with a 0 or 1 for each of the {} layers",
                          layers_));
    return {};
  }

  void write_latent_attention() {
    if (!a_.flag("multi_latent_attention")) return;
    const auto set = [&](const char* name, const char* key, int64_t fallback) {
      draft_.set(key, a_.whole(name, fallback), given_or_default(name));
    };
    set("q_lora_rank", "model.q_lora_rank", 0);
    set("kv_lora_rank", "model.kv_lora_rank", 32);
    set("qk_head_dim", "model.qk_nope_head_dim", 128);
    set("qk_pos_emb_head_dim", "model.qk_rope_head_dim", 64);
    set("v_head_dim", "model.v_head_dim", 128);
  }

  void write_experts() {
    const int64_t mtp = a_.whole("mtp_num_layers", 0);
    if (mtp > 0 && (!hybrid_ || hybrid_->prediction.empty()))
      draft_.set("model.num_nextn_predict_layers", mtp, a_.origin("mtp_num_layers"));
    if (a_.whole("num_experts", 0) < 2) return;
    if (hybrid_ && hybrid_->layers.find('E') == std::string::npos)
      return a_.problems().add("E130", "not supported yet: experts beside a pattern without E",
                               a_.mark("num_experts"), 1, a_.why("num_experts"));
    copy("num_experts", "model.num_experts");
    const bool deepspeed = a_.flag("deepspeed");
    draft_.set("model.num_experts_per_tok", a_.whole("moe_router_topk", deepspeed ? 1 : 2),
               given_or_default("moe_router_topk"));
    if (deepspeed) write_interval();
    if (a_.given("moe_ffn_hidden_size"))
      copy("moe_ffn_hidden_size", "model.moe_intermediate_size");
    else
      draft_.set("model.moe_intermediate_size", ffn_, "Megatron's default: --ffn-hidden-size");
    if (hybrid_)
      draft_.set("model.shared_expert_intermediate_size",
                 a_.whole("moe_shared_expert_intermediate_size", 0),
                 given_or_default("moe_shared_expert_intermediate_size"));
    else
      copy("moe_shared_expert_intermediate_size", "model.shared_expert_intermediate_size");
    if (a_.flag("moe_shared_expert_gate"))
      draft_.set("model.shared_expert_gate", true, a_.origin("moe_shared_expert_gate"));
    copy("moe_router_num_groups", "model.n_group");
    copy("moe_router_group_topk", "model.topk_group");
    if (hybrid_ || a_.flag("moe_router_enable_expert_bias"))
      draft_.set("model.router_bias", a_.flag("moe_router_enable_expert_bias"),
                 given_or_default("moe_router_enable_expert_bias"));
    if (hybrid_ || !a_.given("moe_layer_freq")) return;
    std::vector<int64_t> dense;
    const std::vector<int64_t> experts = pattern("moe_layer_freq", false);
    for (size_t i = 0; i < experts.size(); ++i)
      if (experts[i] == 0) dense.push_back(static_cast<int64_t>(i));
    if (dense.empty()) return;
    const auto count = static_cast<int64_t>(dense.size());
    if (dense.back() == count - 1)
      draft_.set("model.first_k_dense_replace", count, a_.origin("moe_layer_freq"));
    else
      draft_.set("model.mlp_only_layers", list_text(dense), a_.origin("moe_layer_freq"));
  }

  // Megatron-DeepSpeed: every how many-th layer has experts, by default every second
  // (get_num_experts_per_layer() of megatron/model/transformer.py).
  void write_interval() {
    const std::vector<std::string> numbers = a_.words("num_experts");
    const bool differ = std::any_of(numbers.begin(), numbers.end(),
                                    [&](const std::string& n) { return n != numbers.front(); });
    if (differ || a_.word("mlp_type", "standard") != "standard")
      a_.problems().add("E130",
                        differ ? "not supported yet: layers of different numbers of experts"
                               : "not supported yet: an MLP beside the experts",
                        a_.mark(differ ? "num_experts" : "mlp_type"), 1,
                        a_.why(differ ? "num_experts" : "mlp_type"));
    const int64_t interval = a_.whole("expert_interval", 2);
    if (interval < 1) return a_.refuse("expert_interval", "must be at least 1");
    std::vector<int64_t> dense;
    for (int64_t i = 0; i < layers_; ++i)
      if ((i + 1) % interval != 0) dense.push_back(i);
    if (!dense.empty())
      draft_.set("model.mlp_only_layers", list_text(dense), given_or_default("expert_interval"));
  }

  void write_refused() {
    for (const char* name :
         {"heterogeneous_layers_config_path", "heterogeneous_layers_config_encoded_json"})
      if (a_.given(name) && a_.word(name) != "False" && a_.word(name) != "false")
        a_.problems().add("E130", "layers of several architectures are not supported yet",
                          a_.mark(name), 1, a_.why(name));
    struct Training {
      const char* name;
      bool is_on;
      const char* what;
    };
    const auto text = [&](const char* name) {
      return a_.given(name) && a_.word(name) != "False" && a_.word(name) != "false";
    };
    const auto flag = [&](const char* name) { return a_.flag(name); };
    const auto above = [&](const char* name, int64_t n) { return a_.whole(name, n) > n; };
    const char* variant = "experimental_attention_variant";
    for (const Training& t :
         {Training{"perform_rl_step", flag("perform_rl_step"),
                   "training by preferences or rewards"},
          Training{"export_kd_teacher_load", text("export_kd_teacher_load"),
                   "learning from another model"},
          Training{"num_layers_teacher", above("num_layers_teacher", 0),
                   "learning from another model"},
          Training{"kd", flag("kd"), "learning from another model"},
          Training{"freeze_LM", flag("freeze_LM"), "training of a part of the parameters"},
          Training{variant, text(variant), "layers of a variant"},
          Training{"llm_tp", above("llm_tp", 1), "parts of a model on GPUs of their own"},
          Training{"t5_swiglu", flag("t5_swiglu"), "a gated MLP of T5's kind"},
          Training{"flextron", flag("flextron"), "models of several sizes trained as one"}})
      if (t.is_on)
        a_.problems().add("E130", fmt::format("not supported yet: {} ({})", t.what, a_.why(t.name)),
                          a_.mark(t.name));
    if (!hybrid_ && a_.whole("moe_latent_size", 0) > 0) draft_.left_out(a_.why("moe_latent_size"));
  }

  const ArgumentReader& a_;
  MegatronSizes& sizes_;
  ScenarioDraft& draft_;
  std::optional<Hybrid> hybrid_;
  int64_t layers_ = 0, hidden_ = 0, ffn_ = 0;
  bool gated_ = false;
};

// --- layout, batch and schedule

constexpr int64_t kMostStages = 100'000;

// "Ett|t*3|...|tL": `layers` of each stage.
std::string layout_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    text += i == 0 ? "E" : "|";
    if (layers[i] > 0) text += fmt::format("t*{}", layers[i]);
  }
  return text + 'L';
}

class LayoutDraft {
 public:
  LayoutDraft(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft)
      : a_(a), s_(sizes), draft_(draft) {}

  void write() {
    write_sizes();
    write_stages();
    write_batch();
    write_schedule();
    write_sharding();
  }

 private:
  void size(const char* name, const char* path, int64_t value) {
    if (a_.given(name)) draft_.set(path, value, a_.origin(name));
  }

  void write_sizes() {
    size("tensor_model_parallel_size", "parallel.tp", s_.tp);
    size("context_parallel_size", "parallel.cp", s_.cp);
    if (a_.given("ds_sequence_parallel_size") && !a_.given("context_parallel_size")) {
      size("ds_sequence_parallel_size", "parallel.cp", s_.cp);
      if (s_.cp > 1) draft_.set_text("parallel.cp_comm", "a2a", "DeepSpeed-Ulysses");
    }
    size(a_.given("pipeline_model_parallel_size") ? "pipeline_model_parallel_size"
                                                  : "pipe_parallel_size",
         "parallel.pp", s_.pp);
    if (a_.given("num_experts")) {
      size("expert_model_parallel_size", "parallel.ep", s_.ep);
      if (a_.flag("deepspeed"))
        draft_.set("parallel.etp", s_.etp,
                   a_.origin("enable_expert_tensor_parallelism", "DeepSpeed's default"));
      else if (s_.etp > 1 || a_.given("expert_tensor_parallel_size"))
        draft_.set("parallel.etp", s_.etp,
                   a_.origin("expert_tensor_parallel_size",
                             "Megatron's default: that of the other layers"));
    }
    if (s_.tp > 1)  // sequences are split over tp only
      draft_.set("parallel.sp", a_.flag("sequence_parallel"),
                 a_.origin("sequence_parallel", "Megatron's default"));
    if (a_.flag("use_tp_pp_dp_mapping"))
      draft_.set_text("parallel.order", "tp-cp-pp-dp", a_.origin("use_tp_pp_dp_mapping"));
    if (s_.cp > 1 && a_.given("cp_comm_type")) write_context();
  }

  void write_context() {
    std::vector<std::string> types = a_.words("cp_comm_type");
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    if (types.size() > 1)
      return a_.refuse("cp_comm_type", "differs from layer to layer, which is not supported yet");
    if (types.empty()) return;
    draft_.set_text("parallel.cp_comm", types.front(), a_.origin("cp_comm_type"));
    const std::vector<std::string> levels = a_.words("hierarchical_context_parallel_sizes");
    if (levels.empty()) return;
    if (const auto inner = python_whole(levels.front()))
      draft_.set("parallel.cp_inner", *inner, a_.origin("hierarchical_context_parallel_sizes"));
  }

  // The stages of the pipeline.  There are three arguments for the chunks of a rank; at most one
  // may be given.
  void write_stages() {
    const char* flags[] = {"num_layers_per_virtual_pipeline_stage",
                           "num_virtual_stages_per_pipeline_rank",
                           "pipeline_model_parallel_layout"};
    const char* first = nullptr;
    for (const char* flag : flags) {
      if (!a_.given(flag)) continue;
      if (first != nullptr)
        return a_.problems().add(
            "E332", fmt::format("'{}' and '{}' exclude each other", a_.why(flag), a_.why(first)),
            a_.mark(flag));
      first = flag;
    }
    if (s_.pp < 2 || s_.layers < 1) return;
    if (!s_.stages.empty()) return write_stages_of_pattern();
    if (a_.given("pipeline_model_parallel_layout")) return write_written_layout();
    Origin why = "";
    if (a_.given("num_layers_per_virtual_pipeline_stage")) {
      const int64_t each = a_.whole("num_layers_per_virtual_pipeline_stage", 1);
      why = a_.origin("num_layers_per_virtual_pipeline_stage");
      if (each < 1 || each > s_.layers) return refuse_chunks(flags[0]);
      s_.vpp = std::max<int64_t>(1, s_.layers / s_.pp / each);
    } else {
      for (const char* name :
           {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"})
        if (a_.given(name)) {
          s_.vpp = a_.whole(name, 1);
          why = a_.origin(name);
          if (s_.vpp < 1 || s_.vpp > kMostStages / s_.pp) return refuse_chunks(name);
        }
    }
    const std::optional<std::vector<int64_t>> uneven = uneven_stages();
    if (uneven) {
      draft_.set_text("parallel.layout", layout_text(*uneven), uneven_why_);
    } else if (deals_embeddings()) {
      // DeepSpeed counts embedding and head as layers: 70 and two on 12 ranks are 5, 6, ..., 6, 5.
      std::vector<int64_t> dealt(static_cast<size_t>(s_.pp), (s_.layers + 2) / s_.pp);
      --dealt.front();
      --dealt.back();
      draft_.set_text("parallel.layout", layout_text(dealt), a_.origin("pp_partition_method"));
    } else if (s_.vpp > 1) {
      draft_.set("parallel.vpp", s_.vpp, why);
    }
  }

  // Megatron-DeepSpeed's --pp-partition-method 'type:transformer|embedding'.
  bool deals_embeddings() const {
    return s_.vpp == 1 && s_.pp > 2 && s_.layers % s_.pp != 0 && (s_.layers + 2) % s_.pp == 0 &&
           a_.word("pp_partition_method").find("embedding") != std::string::npos;
  }

  void refuse_chunks(const char* name) {
    s_.vpp = 1;
    a_.refuse(name,
              fmt::format("does not go with {} layers on {} pipeline ranks", s_.layers, s_.pp));
  }

  void write_stages_of_pattern() {
    const auto stages = static_cast<int64_t>(s_.stages.size());
    if (stages % s_.pp != 0)
      return a_.refuse(
          "hybrid_layer_pattern",
          fmt::format("has {} stages, which {} ranks do not share evenly", stages, s_.pp));
    s_.vpp = stages / s_.pp;
    draft_.set_text("parallel.layout", layout_text(s_.stages), a_.origin("hybrid_layer_pattern"));
  }

  void write_written_layout() {
    const std::string layout = a_.word("pipeline_model_parallel_layout");
    draft_.set_text("parallel.layout", layout, a_.origin("pipeline_model_parallel_layout"));
    try {
      // parse_layout() counts the stages; it need not understand the letter m.
      std::string plain = layout;
      std::erase(plain, 'm');
      const auto stages = static_cast<int64_t>(parse_layout(plain).size());
      s_.vpp = std::max<int64_t>(1, stages / s_.pp);
    } catch (const InputError& e) {
      a_.refuse("pipeline_model_parallel_layout",
                fmt::format("cannot be read: {}", e.diagnostics.front().message));
    }
  }

  // Layers of each stage, the first chunks of all ranks first; nothing if all stages have as many.
  std::optional<std::vector<int64_t>> uneven_stages() {
    const bool embedding = a_.flag("account_for_embedding_in_pipeline_split");
    const bool loss = a_.flag("account_for_loss_in_pipeline_split");
    const bool first = a_.given("decoder_first_pipeline_num_layers");
    const bool last = a_.given("decoder_last_pipeline_num_layers");
    const int64_t chunks = s_.pp * s_.vpp;
    if (embedding || loss) {
      const int64_t all = s_.layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
      uneven_why_ = a_.origin(embedding ? "account_for_embedding_in_pipeline_split"
                                        : "account_for_loss_in_pipeline_split");
      if (all % chunks != 0 || all / chunks < 1) return refuse_split(all, chunks);
      std::vector<int64_t> layers(static_cast<size_t>(chunks), all / chunks);
      if (embedding) --layers.front();
      if (loss) --layers.back();
      return layers;
    }
    if (!first && !last) return {};
    const int64_t of_first = a_.whole("decoder_first_pipeline_num_layers", 0);
    const int64_t of_last = a_.whole("decoder_last_pipeline_num_layers", 0);
    uneven_why_ =
        a_.origin(first ? "decoder_first_pipeline_num_layers" : "decoder_last_pipeline_num_layers");
    const int64_t ranks = s_.pp - (first ? 1 : 0) - (last ? 1 : 0);
    const int64_t rest = s_.layers - of_first - of_last;
    if (rest < 0 || of_first % s_.vpp != 0 || of_last % s_.vpp != 0 ||
        (ranks == 0 ? rest != 0 : rest % (ranks * s_.vpp) != 0))
      return refuse_split(rest, ranks * s_.vpp);
    std::vector<int64_t> layers;
    for (int64_t chunk = 0; chunk < s_.vpp; ++chunk)
      for (int64_t rank = 0; rank < s_.pp; ++rank)
        layers.push_back((first && rank == 0)          ? of_first / s_.vpp
                         : (last && rank == s_.pp - 1) ? of_last / s_.vpp
                                                       : rest / (ranks * s_.vpp));
    return layers;
  }

  std::optional<std::vector<int64_t>> refuse_split(int64_t layers, int64_t stages) {
    a_.problems().add("E332",
                      fmt::format("'{}' leaves {} layers for {} stages, which does not divide",
                                  uneven_why_.text, layers, stages),
                      a_.mark("pipeline_model_parallel_size"));
    return {};
  }

  void write_batch() {
    const int64_t micro = a_.whole("micro_batch_size", 1);
    if (a_.given("micro_batch_size"))
      draft_.set("batch.micro", micro, a_.origin("micro_batch_size"));
    else
      draft_.assume("batch.micro", "1", "the file does not say --micro-batch-size");
    if (a_.given("global_batch_size"))
      draft_.set("batch.global", a_.whole("global_batch_size", 1), a_.origin("global_batch_size"));
    else if (a_.given("step_batch_size_schedule"))
      write_last_batch();
    else if (const int64_t gas = a_.whole("gas", 1);
             gas > 1 && gas < 1'000'000 && micro >= 1 && micro < 1'000'000)
      draft_.set("batch.global", micro * gas * s_.dp,
                 Origin(fmt::format("micro batch x {} x replicas", a_.why("gas")), a_.mark("gas")));
    else if (micro >= 1 && micro < 1'000'000)
      draft_.set("batch.global", micro * s_.dp, "Megatron's default: one microbatch a replica");
    // With an encoder and a decoder, --seq-length is that of the encoder.
    const bool decodes = a_.given("decoder_num_layers") && a_.given("decoder_seq_length");
    if (decodes && a_.given("seq_length"))
      draft_.set("batch.encoder_seq", a_.whole("seq_length", 1), a_.origin("seq_length"));
    if (decodes)
      draft_.set("batch.seq", a_.whole("decoder_seq_length", 1), a_.origin("decoder_seq_length"));
    else if (a_.given("seq_length"))
      draft_.set("batch.seq", a_.whole("seq_length", 1), a_.origin("seq_length"));
    else if (a_.given("max_position_embeddings"))
      draft_.assume("batch.seq", fmt::format("{}", a_.whole("max_position_embeddings", 1)),
                    "the file does not say --seq-length");
    else
      a_.problems().add("E332", "the file does not say --seq-length", {});
    for (const char* name : {"rampup_batch_size", "step_batch_size_schedule"})
      if (a_.given(name))
        draft_.note(fmt::format("{}: the forecast is of the full batch", a_.why(name)));
  }

  // "0:384 200B:768": Megatron takes it in place of the global batch; the last is the full one.
  void write_last_batch() {
    const std::string all = a_.word("step_batch_size_schedule");
    const size_t last = all.find_last_not_of(' ');
    const std::string_view entry = std::string_view(all).substr(0, last + 1);
    const std::optional<int64_t> n = python_whole(entry.substr(entry.rfind(':') + 1));
    if (!n || *n < 1)
      return a_.refuse("step_batch_size_schedule", "must be of the form '0:384 200B:768'");
    draft_.set("batch.global", *n, a_.origin("step_batch_size_schedule"));
  }

  void write_schedule() {
    if (s_.pp < 2) return;
    if (a_.flag("enable_zbh1_pipeline"))
      return draft_.set_text("schedule.kind", "zb-h1", a_.origin("enable_zbh1_pipeline"));
    draft_.set_text("schedule.kind", s_.vpp > 1 ? "interleaved" : "1f1b",
                    s_.vpp > 1 ? "several chunks a rank" : "Megatron's default");
    if (s_.vpp < 2) return;
    if (a_.given("microbatch_group_size_per_virtual_pipeline_stage"))
      draft_.set("schedule.group",
                 a_.whole("microbatch_group_size_per_virtual_pipeline_stage", s_.pp),
                 a_.origin("microbatch_group_size_per_virtual_pipeline_stage"));
    // Megatron overlaps transfers only in interleaved schedules.
    const bool flush = a_.flag("overlap_p2p_comm_warmup_flush");
    if (flush)
      draft_.set_text("schedule.p2p", "megatron-overlap-flush",
                      a_.origin("overlap_p2p_comm_warmup_flush"));
    else
      draft_.set("overlap.pp_p2p", a_.flag("overlap_p2p_comm", true),
                 a_.origin("overlap_p2p_comm", "Megatron's default"));
  }

  void write_sharding() {
    std::string zero = a_.flag("use_distributed_optimizer") ? "1" : "0";
    Origin why = a_.origin("use_distributed_optimizer", "");
    if (a_.flag("use_torch_fsdp2")) {
      zero = "3";
      why = a_.origin("use_torch_fsdp2");
      if (!a_.flag("torch_fsdp2_reshard_after_forward", true))
        draft_.set("parallel.reshard_after_forward", false,
                   a_.origin("torch_fsdp2_reshard_after_forward"));
    } else if (a_.flag("use_megatron_fsdp")) {
      const std::string strategy = a_.word("data_parallel_sharding_strategy", "optim_grads_params");
      const std::string_view names[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
      const auto* found = std::find(std::begin(names), std::end(names), strategy);
      if (found == std::end(names))
        return a_.refuse("data_parallel_sharding_strategy",
                         "must be no_shard, optim, optim_grads or optim_grads_params");
      zero = fmt::format("{}", found - std::begin(names));
      why = a_.origin("use_megatron_fsdp");
      if (zero == "3") draft_.set_text("parallel.fsdp", "megatron", why);
      if (a_.given("data_parallel_sharding_strategy"))
        why.text += fmt::format(", {}", a_.why("data_parallel_sharding_strategy"));
    }
    if (a_.flag("deepspeed") && !a_.given("zero_stage"))
      draft_.note(
          "parallel.zero: what ZeRO does is in DeepSpeed's file, which is not read; -s "
          "parallel.zero=N states it");
    if (a_.flag("deepspeed") && a_.given("zero_stage")) {
      zero = fmt::format("{}", a_.whole("zero_stage", 0));
      why = a_.origin("zero_stage");
      if (zero == "3") draft_.set_text("parallel.fsdp", "deepspeed", why);
    }
    if (!why.text.empty()) draft_.set("parallel.zero", zero, why);
    const int64_t instances = a_.whole("num_distributed_optimizer_instances", 1);
    if (instances > 1)
      draft_.set("parallel.dp_replicate", instances,
                 a_.origin("num_distributed_optimizer_instances"));
  }

  const ArgumentReader& a_;
  MegatronSizes& s_;
  ScenarioDraft& draft_;
  Origin uneven_why_ = "";
};

// --- number formats, recomputation, overlap, kernels, experts at work, the job

class RunDraft {
 public:
  RunDraft(const ArgumentReader& a, const MegatronSizes& sizes, ScenarioDraft& draft)
      : a_(a), s_(sizes), draft_(draft) {}

  void write() {
    write_precision();
    write_recompute();
    write_overlap();
    write_optimizer();
    write_offload();
    write_experts();
    write_kernels();
    write_graphs();
    write_job();
  }

 private:
  // Copies a flag if it was given.
  void copy_flag(const char* name, const char* path) {
    if (a_.given(name)) draft_.set(path, a_.flag(name), a_.origin(name));
  }
  void copy_if_on(const char* name, const char* path) {
    if (a_.flag(name)) draft_.set(path, true, a_.origin(name));
  }
  void left_out(const char* name) { draft_.left_out(a_.why(name)); }

  static std::string_view fp8_preset(std::string_view recipe) {
    struct Recipe {
      std::string_view recipe, preset;
    };
    constexpr std::array<Recipe, 4> kRecipes{{{"delayed", "fp8-delayed"},
                                              {"tensorwise", "fp8-tensorwise"},
                                              {"blockwise", "fp8-blockwise"},
                                              {"mxfp8", "mxfp8"}}};
    for (const Recipe& r : kRecipes)
      if (r.recipe == recipe) return r.preset;
    return {};
  }

  void write_precision() {
    const bool fp16 = a_.flag("fp16"), bf16 = a_.flag("bf16");
    std::string preset = bf16 ? "bf16-mixed" : fp16 ? "fp16-mixed" : "fp32";
    Origin why = a_.origin(bf16 ? "bf16" : "fp16", "neither fp16 nor bf16");
    if (!bf16 && !fp16) why = "neither fp16 nor bf16";
    if (a_.given("fp4")) {
      preset = "nvfp4";
      why = a_.origin("fp4");
    } else if (a_.given("fp8")) {
      const std::string recipe = a_.word("fp8_recipe", "delayed");
      preset = std::string(fp8_preset(recipe));
      why = a_.origin("fp8");
      if (a_.given("fp8_recipe")) why.text += fmt::format(", {}", a_.why("fp8_recipe"));
      if (preset.empty())
        return a_.refuse("fp8_recipe", "is not known here",
                         "known: delayed, tensorwise, blockwise and mxfp8");
    }
    draft_.set("precision.preset", preset, why);
    // For bf16 Megatron accumulates in fp32 unless --grad-reduce-in-bf16 is given.
    const char* low = a_.flag("grad_reduce_in_bf16") ? "grad_reduce_in_bf16"
                      : bf16 && !a_.flag("accumulate_allreduce_grads_in_fp32", true)
                          ? "accumulate_allreduce_grads_in_fp32"
                          : nullptr;
    if (low != nullptr) {
      draft_.set("precision.grads", std::string("bf16"), a_.origin(low));
      draft_.set("precision.reduce", std::string("bf16"), a_.origin(low));
    } else if (fp16 && a_.flag("accumulate_allreduce_grads_in_fp32")) {
      draft_.set("precision.grads", std::string("fp32"),
                 a_.origin("accumulate_allreduce_grads_in_fp32"));
    }
    if (a_.flag("use_precision_aware_optimizer")) write_optimizer_formats();
    copy_if_on("fp8_param_gather", "precision.fp8_params");
    copy_if_on("first_last_layers_bf16", "precision.first_last_bf16");
  }

  void write_optimizer_formats() {
    const auto format = [&](const char* name) {
      std::string word = a_.word(name, "fp32");
      const size_t dot = word.rfind('.');  // torch.bfloat16
      if (dot != std::string::npos) word.erase(0, dot + 1);
      return word == "bfloat16"  ? "bf16"
             : word == "float32" ? "fp32"
             : word == "float16" ? "fp16"
                                 : word;
    };
    if (format("main_grads_dtype") != "fp32")
      draft_.set("precision.grads", std::string(format("main_grads_dtype")),
                 a_.origin("main_grads_dtype"));
    if (format("main_params_dtype") != "fp32") left_out("main_params_dtype");
    const std::string first = format("exp_avg_dtype"), second = format("exp_avg_sq_dtype");
    if (first != second)
      draft_.note(fmt::format("{}, {}: both moments have one format here, the first one's is taken",
                              a_.why("exp_avg_dtype"), a_.why("exp_avg_sq_dtype")));
    if (first != "fp32") draft_.set("precision.moments", first, a_.origin("exp_avg_dtype"));
  }

  void write_recompute() {
    std::string granularity = a_.word("recompute_granularity");
    Origin why = a_.origin("recompute_granularity");
    if (granularity.empty() && a_.flag("recompute_activations")) {
      granularity = "selective";
      why = a_.origin("recompute_activations");
    }
    if (granularity.empty() && !sign_of_version_2(a_).empty()) return write_checkpoints();
    std::vector<std::string> modules = a_.words("recompute_modules");
    if (a_.flag("moe_layer_recompute")) {
      if (granularity.empty()) {
        granularity = "selective";
        why = a_.origin("moe_layer_recompute");
      }
      if (std::find(modules.begin(), modules.end(), "moe") == modules.end())
        modules.push_back("moe");
    }
    if (granularity.empty() || granularity == "none") return;
    draft_.set_text("recompute.granularity", granularity, why);
    if (granularity == "full") {
      if (a_.given("recompute_method"))
        draft_.set_text("recompute.method", a_.word("recompute_method"),
                        a_.origin("recompute_method"));
      if (const auto n = a_.whole("recompute_num_layers"))
        draft_.set("recompute.layers", *n, a_.origin("recompute_num_layers"));
    } else if (!modules.empty()) {
      write_modules(modules);
    }
    copy_if_on("distribute_saved_activations", "recompute.distribute");
  }

  // Megatron-LM v2: layers are recomputed whole, in units of --checkpoint-num-layers.
  void write_checkpoints() {
    const bool method = a_.given("activations_checkpoint_method");
    if (!method && !a_.flag("checkpoint_activations")) return;
    draft_.set_text("recompute.granularity", "full",
                    a_.origin(method ? "activations_checkpoint_method" : "checkpoint_activations"));
    if (method)
      draft_.set_text("recompute.method", a_.word("activations_checkpoint_method"),
                      a_.origin("activations_checkpoint_method"));
    for (const char* layers : {"checkpoint_num_layers", "activations_checkpoint_num_layers"})
      if (const auto n = a_.whole(layers)) draft_.set("recompute.layers", *n, a_.origin(layers));
    copy_if_on("distribute_saved_activations", "recompute.distribute");
    copy_if_on("distribute_checkpointed_activations", "recompute.distribute");
  }

  void write_modules(const std::vector<std::string>& modules) {
    std::string list;
    for (const std::string& m : modules) {
      if (Key("recompute.modules").row().choices.find(m) == nullptr) {
        draft_.left_out(fmt::format("recompute module {}", m));
        continue;
      }
      list += (list.empty() ? "" : ", ") + m;
    }
    if (!list.empty())
      draft_.set(
          "recompute.modules", fmt::format("[{}]", list),
          a_.origin(a_.given("recompute_modules") ? "recompute_modules" : "moe_layer_recompute"));
  }

  void write_overlap() {
    copy_if_on("overlap_grad_reduce", "overlap.dp_grad");
    copy_if_on("overlap_param_gather", "overlap.dp_param");
    if (a_.flag("overlap_param_gather_with_optimizer_step"))
      left_out("overlap_param_gather_with_optimizer_step");
    if (a_.given("ddp_num_buckets"))
      left_out("ddp_num_buckets");
    else if (const auto bucket = a_.whole("ddp_bucket_size"))
      draft_.set("overlap.bucket", *bucket, a_.origin("ddp_bucket_size"));
    write_tensor_overlap();
  }

  // Transformer Engine overlaps in two forms: bulk beside another GEMM of the backward, and in
  // pieces (pipelined) where a collective runs beside its own GEMM.
  void write_tensor_overlap() {
    if (!a_.flag("tp_comm_overlap") || s_.tp < 2) return;
    const bool pipelined = a_.flag("tp_comm_overlap_ag", true) ||
                           a_.flag("tp_comm_overlap_rs", true) ||
                           a_.flag("tp_comm_overlap_rs_dgrad");
    const bool bulk = a_.flag("tp_comm_bulk_dgrad", true) || a_.flag("tp_comm_bulk_wgrad", true);
    const char* way = pipelined ? "pipelined" : bulk ? "bulk" : "none";
    draft_.set_text("overlap.tp", way, a_.origin("tp_comm_overlap"));
  }

  void write_optimizer() {
    if (a_.given("optimizer")) {
      const std::string kind = a_.word("optimizer");
      draft_.set_text("optimizer.kind", kind == "dist_muon" ? "muon" : kind,
                      a_.origin("optimizer"));
    }
    if (a_.given("clip_grad") && a_.real("clip_grad").value_or(1) == 0)
      draft_.set("optimizer.clip", false, a_.origin("clip_grad"));
  }

  void write_offload() {
    if (a_.flag("optimizer_cpu_offload"))
      draft_.set("offload.optimizer",
                 a_.given("optimizer_offload_fraction") ? a_.word("optimizer_offload_fraction")
                                                        : std::string("1"),
                 a_.origin("optimizer_cpu_offload"));
    if (const int64_t layers = a_.whole("cpu_offloading_num_layers", 0); layers > 0)
      draft_.set("offload.activation_layers", layers, a_.origin("cpu_offloading_num_layers"));
    copy_if_on("fine_grained_activation_offloading", "offload.activations");
  }

  void write_experts() {
    if (a_.whole("num_experts", 0) < 2) return;
    const bool deepspeed = a_.flag("deepspeed");
    const std::string type =
        a_.word("moe_token_dispatcher_type", deepspeed ? "alltoall" : "allgather");
    Origin why = a_.origin("moe_token_dispatcher_type",
                           deepspeed ? "DeepSpeed's experts" : "Megatron's default");
    std::string dispatcher = type == "alltoall_seq" ? "alltoall" : type;
    if (type == "flex") {
      const std::string backend = a_.word("moe_flex_dispatcher_backend", "deepep");
      dispatcher = "deepep";
      if (a_.given("moe_flex_dispatcher_backend"))
        why.text += fmt::format(", {}", a_.why("moe_flex_dispatcher_backend"));
      if (a_.flag("moe_enable_deepep"))
        why.text += fmt::format(", {}", a_.why("moe_enable_deepep"));
      if (backend != "deepep")
        draft_.note(fmt::format("{}: costed as deepep", a_.why("moe_flex_dispatcher_backend")));
    }
    draft_.set_text("moe.dispatcher", dispatcher, why);
    if (!deepspeed || a_.flag("moe_token_dropping", true)) write_capacity(deepspeed);
    draft_.set("moe.grouped_gemm", a_.flag("moe_grouped_gemm"),
               a_.origin("moe_grouped_gemm", "Megatron's default"));
    draft_.set("moe.permute_fusion", a_.flag("moe_permute_fusion"),
               a_.origin("moe_permute_fusion", "Megatron's default"));
    copy_if_on("moe_router_fusion", "moe.router_fusion");
    copy_if_on("moe_shared_expert_overlap", "moe.shared_overlap");
    if (a_.flag("moe_router_force_load_balancing"))
      draft_.set_text("moe.routing", "balanced", a_.origin("moe_router_force_load_balancing"));
    copy_if_on("overlap_moe_expert_parallel_comm", "overlap.ep");
    if (a_.flag("delay_wgrad_compute")) left_out("delay_wgrad_compute");
  }

  void write_capacity(bool deepspeed) {
    if (const auto factor = a_.real("moe_expert_capacity_factor"); factor && *factor > 0)
      draft_.set("moe.capacity_factor", a_.word("moe_expert_capacity_factor"),
                 a_.origin("moe_expert_capacity_factor"));
    if (deepspeed && !a_.given("moe_expert_capacity_factor"))
      draft_.set("moe.capacity_factor", int64_t{1}, "DeepSpeed's default");
    if (deepspeed) draft_.set("moe.pad_to_capacity", true, "DeepSpeed's experts");
    copy_if_on("moe_pad_expert_input_to_capacity", "moe.pad_to_capacity");
  }

  void write_kernels() {
    const std::string backend = a_.word("attention_backend", "auto");
    const bool local = a_.word("transformer_impl", "transformer_engine") == "local";
    const bool flash = a_.flag("use_flash_attn");
    std::string name = backend.substr(backend.rfind('.') + 1);  // AttnBackend.auto
    if (name == "unfused" || name == "local")
      draft_.set_text("kernels.attention", "unfused", a_.origin("attention_backend"));
    else if (local && !flash && name != "flash")
      draft_.set_text("kernels.attention", "unfused", a_.origin("transformer_impl"));
    else if (flash || name == "flash" || name == "fused")
      draft_.set_text("kernels.attention", "flash",
                      a_.origin(flash ? "use_flash_attn" : "attention_backend"));
    if (a_.given("transformer_impl"))
      draft_.set_text("kernels.modules", local ? "megatron" : "transformer-engine",
                      a_.origin("transformer_impl"));
    write_dropout("attention_dropout", "kernels.dropout.attention");
    write_dropout("hidden_dropout", "kernels.dropout.hidden");
    copy_flag("gradient_accumulation_fusion", "kernels.gradient_accumulation_fusion");
    const bool gated = a_.flag("swiglu");
    copy_flag("bias_activation_fusion", "kernels.fused_activation");
    copy_flag(gated ? "bias_swiglu_fusion" : "bias_gelu_fusion", "kernels.fused_activation");
    copy_flag("bias_dropout_fusion", "kernels.fused_bias_dropout_add");
    copy_flag("masked_softmax_fusion", "kernels.fused_softmax");
    if (!a_.flag("apply_rope_fusion", true)) left_out("apply_rope_fusion");
    copy_flag("cross_entropy_loss_fusion", "kernels.fused_cross_entropy");
    if (a_.flag("cross_entropy_loss_fusion") && a_.word("cross_entropy_fusion_impl") == "te")
      draft_.set_text("kernels.loss", "in-place", a_.origin("cross_entropy_fusion_impl"));
  }

  void write_dropout(const char* name, const char* path) {
    if (a_.given(name))
      draft_.set(path, a_.word(name), a_.real(name) ? a_.origin(name) : Origin(""));
    else
      draft_.set(path, std::string("0.1"), "Megatron's default");
  }

  void write_graphs() {
    const std::string impl = a_.word("cuda_graph_impl", "none");
    const char* by = impl != "none"                   ? "cuda_graph_impl"
                     : a_.flag("enable_cuda_graph")   ? "enable_cuda_graph"
                     : a_.flag("external_cuda_graph") ? "external_cuda_graph"
                                                      : nullptr;
    if (by == nullptr) return;
    const bool step = impl == "full_iteration" || a_.word("cuda_graph_scope") == "full_iteration";
    draft_.set_text("kernels.cuda_graph", step ? "step" : "layer", a_.origin(by));
  }

  // --train-samples states how long it trains; --train-iters is often that of a trial, and is no
  // length of a training to reckon days and dollars with.
  void write_tokens() {
    if (!a_.given("train_samples")) return;
    const char* of_tokens = a_.given("decoder_num_layers") && a_.given("decoder_seq_length")
                                ? "decoder_seq_length"
                                : "seq_length";
    const int64_t seq = a_.whole(of_tokens, 0);
    const std::optional<int64_t> samples = a_.count("train_samples");
    if (seq < 1 || samples == 0) return;
    if (!samples || *samples > std::numeric_limits<int64_t>::max() / seq)
      return draft_.note(
          fmt::format("{}: not read as a number of samples; job.tokens says how long "
                      "the training is",
                      a_.why("train_samples")));
    draft_.set("job.tokens", *samples * seq,
               {fmt::format("{} x {}", a_.why("train_samples"), a_.why(of_tokens)),
                a_.mark("train_samples")});
  }

  void write_job() {
    write_tokens();
    std::string checkpoint;
    const auto add = [&](const char* key, const std::string& value) {
      checkpoint += fmt::format("{}{}: {}", checkpoint.empty() ? "{" : ", ", key, value);
    };
    if (a_.given("save") && a_.given("save_interval"))
      add("every", fmt::format("{} steps", a_.whole("save_interval", 0)));
    if (!checkpoint.empty() && a_.flag("async_save")) add("mode", "async");
    // Local checkpoints are lost with their node.
    if (a_.given("non_persistent_save_interval")) {
      add("memory_copies", "1");
      add("memory_every", fmt::format("{} steps", a_.whole("non_persistent_save_interval", 0)));
    }
    if (checkpoint.empty()) return;
    Origin origin =
        a_.origin(a_.given("save_interval") ? "save_interval" : "non_persistent_save_interval");
    draft_.set("job.checkpoint", checkpoint + '}', origin);
  }

  const ArgumentReader& a_;
  const MegatronSizes& s_;
  ScenarioDraft& draft_;
};

// --- how many GPUs

constexpr int64_t kMostGpus = 10'000'000;

// How many GPUs ran, and which argument says so.
struct JobGpus {
  int64_t gpus = 0;
  Origin why = "";
  bool assumed = false;
};

JobGpus job_gpus(const ArgumentReader& a, const MegatronSizes& s) {
  const int64_t one = s.tp * s.cp * s.pp;
  if (a.given("world_size")) return {a.whole("world_size", one), a.origin("world_size")};
  std::string started;
  if (a.given("nnodes") || a.given("nproc_per_node")) {
    const int64_t each = a.whole("nproc_per_node", 8), nodes = a.whole("nnodes", 1);
    const std::string why = fmt::format("{}, {}", a.why("nnodes"), a.why("nproc_per_node"));
    const int64_t gpus = nodes > kMostGpus || each > kMostGpus ? kMostGpus + 1 : nodes * each;
    // One node stands in many published scripts until somebody writes how many he has.
    const bool too_few = gpus < one || gpus / one * s.tp * s.cp % (s.ep * s.etp) != 0;
    if (!too_few || nodes != 1 || gpus < 1)
      return {gpus, {why, a.mark(a.given("nnodes") ? "nnodes" : "nproc_per_node")}};
    started = fmt::format("; the one node that the script names has too few ({})", why);
  }
  if (a.given("data_parallel_size"))
    return {one * a.whole("data_parallel_size", 1), a.origin("data_parallel_size")};
  // The fewest replicas with a place for all experts: tp * cp * dp is a multiple of etp * ep.
  const int64_t instances = std::max<int64_t>(1, a.whole("num_distributed_optimizer_instances", 1));
  int64_t dp = instances;
  while (dp < s.ep * s.etp && s.tp * s.cp * dp % (s.ep * s.etp) != 0) dp += instances;
  return {one * dp, "the fewest that the sizes allow (tp, cp, pp, ep)" + started, true};
}

bool sensible(const ArgumentReader& a, const MegatronSizes& s) {
  int64_t product = 1;
  for (const auto& [name, n] :
       {std::pair{"tensor_model_parallel_size", s.tp}, std::pair{"context_parallel_size", s.cp},
        std::pair{"pipeline_model_parallel_size", s.pp}}) {
    if (n < 1 || n > kMostGpus || product > kMostGpus / n) {
      a.problems().add("E332", "tp, cp and pp do not make a job of a sensible size", a.mark(name),
                       1, {}, "each is at least 1, their product at most 10,000,000 GPUs");
      return false;
    }
    product *= n;
  }
  if (s.ep >= 1 && s.etp >= 1 && s.ep <= kMostGpus && s.etp <= kMostGpus / s.ep) return true;
  a.problems().add("E332", "ep and etp do not make a job of a sensible size",
                   a.mark("expert_model_parallel_size"), 1, {},
                   "each is at least 1, their product at most 10,000,000 GPUs");
  return false;
}

// Without the number of experts all arguments about them would be dropped silently.  So one that
// somebody wrote is refused; the defaults that Megatron prints for a dense model are not.
bool refuse_experts_without_number(const ArgumentReader& a) {
  if (a.given("num_experts")) return false;
  std::string_view dropped;
  if (python_whole(a.word("expert_model_parallel_size", "1")).value_or(1) > 1)
    dropped = "expert_model_parallel_size";
  for (const CostArgument& row : megatron_arguments()) {
    const bool of_experts = row.name.starts_with("moe_") && row.as.kind != As::Kind::left_out;
    if (dropped.empty() && of_experts && a.given(row.name) && a.why(row.name).starts_with("--"))
      dropped = row.name;
  }
  if (dropped.empty()) return false;
  std::string help = "state it; of a dense model leave the arguments of experts out";
  for (const UnknownArgument& u : a.unknown())
    if (argument_name(u.near) == "num_experts")
      help = fmt::format("did you mean {} by '{}' in line {}?", u.near, u.written, u.mark.line);
  a.problems().add(
      "E332", fmt::format("'{}' needs --num-experts, which the file does not say", a.why(dropped)),
      a.mark(dropped), 1, {}, std::move(help));
  return true;
}

void draft_software(const ArgumentReader& a, const SoftwareOfFile& of, ScenarioDraft& draft) {
  if (!of.old()) return draft.set_text("software", of.profile, "");
  const std::string sign = a.given(of.sign) ? a.why(of.sign) : std::string(of.sign);
  draft.assume("software", std::string(of.profile),
               of.until.empty() ? fmt::format("{} is of Megatron-DeepSpeed", sign)
                                : fmt::format("Megatron-LM had {} until {}", sign, of.until));
}

}  // namespace

void draft_megatron(const ArgumentReader& a, const ImportCluster& cluster, ScenarioDraft& draft,
                    bool with_model) {
  MegatronSizes sizes;
  sizes.tp = a.whole("tensor_model_parallel_size", 1);
  sizes.cp = a.whole("context_parallel_size", a.whole("ds_sequence_parallel_size", 1));
  sizes.pp = a.whole("pipeline_model_parallel_size", a.whole("pipe_parallel_size", 1));
  if (!a.given("pipeline_model_parallel_size") && sizes.pp == 0) sizes.pp = 1;
  const bool experts = a.whole("num_experts", 0) > 1;
  sizes.ep = experts ? a.whole("expert_model_parallel_size", 1) : 1;
  const bool split = !a.flag("deepspeed") || a.flag("enable_expert_tensor_parallelism");
  sizes.etp = experts ? a.whole("expert_tensor_parallel_size", split ? sizes.tp : 1) : 1;
  if (refuse_experts_without_number(a) || !sensible(a, sizes)) return;
  const JobGpus job = job_gpus(a, sizes);
  if (job.gpus > kMostGpus)
    return a.problems().add("E332", "the job is of no sensible size", job.why.mark, 1, {},
                            "a job has at most 10,000,000 GPUs");
  sizes.dp = std::max<int64_t>(1, job.gpus / (sizes.tp * sizes.cp * sizes.pp));

  const SoftwareOfFile software = software_of(a);
  draft_software(a, software, draft);
  if (with_model)
    ModelDraft(a, sizes, draft).write();
  else
    sizes.layers = std::clamp<int64_t>(a.whole("num_layers", 0), 0, kMostLayers);
  ImportCluster of_its_time = cluster;
  if (cluster.assumed && software.old()) of_its_time.preset = "dgx-a100-80g";
  // GPUs before Blackwell have no such number formats.
  if (cluster.assumed && ((a.given("fp8") && a.word("fp8_recipe") == "mxfp8") || a.given("fp4")))
    of_its_time.preset = "dgx-b200";
  draft_cluster(of_its_time, std::max<int64_t>(1, job.gpus), job.why, draft);
  if (job.assumed)
    draft.note(fmt::format("cluster.nodes: {} {} assumed, {}", job.gpus,
                           job.gpus == 1 ? "GPU is" : "GPUs are", job.why.text));
  LayoutDraft(a, sizes, draft).write();
  RunDraft(a, sizes, draft).write();
  a.note_left_out(draft);
}

}  // namespace stepcast
