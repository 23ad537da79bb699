// SPDX-License-Identifier: Apache-2.0
// draft_megatron_model: sizes and kinds of layers.
#include <algorithm>
#include <array>

#include "scenarios/frameworks/import_megatron_parts.h"
#include "scenarios/frameworks/python_list.h"

namespace stepcast {
namespace {

constexpr int64_t kMostLayers = 100'000;
constexpr int64_t kMostSize = int64_t{1} << 40;

std::string list_text(const std::vector<int64_t>& items) {
  std::string text;
  for (const int64_t n : items) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return '[' + text + ']';
}

class ModelDraft {
 public:
  ModelDraft(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft)
      : a_(a), sizes_(sizes), draft_(draft) {}

  void write() {
    draft_.set("model.preset", std::string("gpt"), "a decoder; what differs is stated");
    write_sizes();
    if (layers_ < 1 || hidden_ < 1) return;
    write_kind();
    write_vocabulary();
    write_window();
    write_latent_attention();
    write_experts();
    write_refused();
  }

 private:
  // A size that Megatron asks for, too.
  int64_t needed(const char* name, const char* key) {
    if (!a_.given(name)) {
      a_.problems().add("E332", std::string("the file does not say --") + dashes(name), {});
      return 0;
    }
    const std::optional<int64_t> size = a_.whole(name);
    if (!size) return 0;  // has been said
    const int64_t n = *size;
    if (n < 1 || n > kMostSize) {
      a_.refuse(name, "must be from 1 to 10^12");
      return 0;
    }
    draft_.set(key, n, a_.why(name));
    return n;
  }

  static std::string dashes(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }

  void copy(const char* name, const char* key) {
    if (const auto n = a_.whole(name)) draft_.set(key, *n, a_.why(name));
  }

  void write_sizes() {
    const char* own = !a_.given("num_layers") && a_.given("encoder_num_layers")
                          ? "encoder_num_layers"
                          : "num_layers";
    const bool decodes = a_.given("decoder_num_layers");  // pretrain_t5.py
    layers_ = needed(own, decodes ? "model.num_encoder_layers" : "model.num_hidden_layers");
    if (decodes) layers_ += needed("decoder_num_layers", "model.num_decoder_layers");
    sizes_.layers = layers_;
    hidden_ = needed("hidden_size", "model.hidden_size");
    const int64_t heads = needed("num_attention_heads", "model.num_attention_heads");
    if (layers_ > kMostLayers) {
      a_.refuse("num_layers", "must be at most 100000");
      layers_ = 0;
    }
    const bool groups = a_.flag("group_query_attention");  // without it the number says nothing
    if (groups)
      draft_.set("model.num_key_value_heads", a_.whole("num_query_groups", 1),
                 a_.why("num_query_groups"));
    else
      draft_.set("model.num_key_value_heads", heads, "every head has keys of its own");
    copy("kv_channels", "model.head_dim");
  }

  void write_kind() {
    gated_ = a_.flag("swiglu") || a_.flag("quick_geglu");
    write_activation();
    if (a_.given("ffn_hidden_size")) {
      copy("ffn_hidden_size", "model.intermediate_size");
      ffn_ = a_.whole("ffn_hidden_size", 0);
    } else {
      // arguments.py: 4 h, or what has as many parameters with SwiGLU, in multiples of 64.
      ffn_ = a_.flag("swiglu") ? hidden_ * 8 / 3 / 64 * 64 : 4 * hidden_;
      draft_.set("model.intermediate_size", ffn_,
                 a_.flag("swiglu") ? "Megatron's default: 8/3 of --hidden-size in multiples of 64"
                                   : "Megatron's default: 4 times --hidden-size");
    }
    const std::string norm = a_.word("normalization", "LayerNorm");
    draft_.set_text("model.normalization", norm,
                    a_.given("normalization") ? a_.why("normalization") : "Megatron's default");
    const bool untied = a_.flag("untie_embeddings_and_output_weights");
    draft_.set("model.tie_word_embeddings", !untied,
               given_or_default("untie_embeddings_and_output_weights"));
    const bool bias = a_.flag("add_bias_linear", true);
    draft_.set("model.attention_bias", bias, given_or_default("add_bias_linear"));
    draft_.set("model.mlp_bias", bias, given_or_default("add_bias_linear"));
    if (a_.flag("add_qkv_bias")) draft_.set("model.qkv_bias", true, a_.why("add_qkv_bias"));
    // With latent attention the flag means the norms of the latents, which are always there.
    for (const char* norm_of_heads : {"qk_layernorm", "qk_l2_norm"})
      if (a_.flag(norm_of_heads) && !a_.flag("multi_latent_attention"))
        draft_.set("model.use_qk_norm", true, a_.why(norm_of_heads));
    if (a_.word("softmax_type", "vanilla") == "learnable")
      draft_.set("model.attention_sinks", true, a_.why("softmax_type"));
    write_positions();
  }

  std::string given_or_default(const char* name) const {
    return a_.given(name) ? a_.why(name) : "Megatron's default";
  }

  void write_activation() {
    std::string act = gated_ ? "silu" : "gelu";
    std::string why = "Megatron's default";
    for (const char* flag : {"swiglu", "quick_geglu", "squared_relu"}) {
      if (!a_.flag(flag)) continue;
      why = a_.why(flag);
      act = flag == std::string_view("swiglu")        ? "silu"
            : flag == std::string_view("quick_geglu") ? "quick_gelu"
                                                      : "relu2";
    }
    if (a_.given("activation_func")) {
      const std::string f = a_.word("activation_func");
      const std::string_view name = std::string_view(f).substr(f.rfind('.') + 1);
      act = name == "squared_relu" ? "relu2" : std::string(name);
      why = a_.why("activation_func");
    }
    draft_.set("model.hidden_act", yaml_text(act), why);
    draft_.set(
        "model.gated_mlp", gated_,
        gated_ ? a_.why(a_.flag("swiglu") ? "swiglu" : "quick_geglu") : "Megatron's default");
  }

  void write_positions() {
    const bool rotary = a_.flag("use_rotary_position_embeddings");
    std::string type = a_.word("position_embedding_type", rotary ? "rope" : "learned_absolute");
    std::string why = a_.given("position_embedding_type")
                          ? a_.why("position_embedding_type")
                          : given_or_default("use_rotary_position_embeddings");
    if (type == "mrope" || type == "yarn") type = "rope";  // as much work
    if (type == "learned_absolute" && !a_.flag("add_position_embedding", true)) {
      type = "none";
      why = a_.why("add_position_embedding");
    }
    draft_.set("model.position_embedding_type", yaml_text(type), why);
    if (type == "relative")
      draft_.set("model.relative_attention_num_buckets",
                 a_.whole("relative_attention_num_buckets", 32),
                 given_or_default("relative_attention_num_buckets"));
    if (a_.given("max_position_embeddings"))
      copy("max_position_embeddings", "model.max_position_embeddings");
    else if (type == "learned_absolute" && a_.given("seq_length"))
      draft_.set("model.max_position_embeddings", a_.whole("seq_length", 0), a_.why("seq_length"));
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
    // Files of merges are GPT-2's form, which was the default once.
    const std::string name =
        a_.word("tokenizer_type", a_.given("merge_file") ? kKnown[0].name : std::string_view{});
    for (const Tokenizer& t : kKnown)
      if (t.name == name) return &t;
    return nullptr;
  }

  void write_vocabulary() {
    if (a_.given("padded_vocab_size")) return copy("padded_vocab_size", "model.vocab_size");
    int64_t vocab = 0;
    std::string why;
    if (a_.given("vocab_size")) {
      vocab = a_.whole("vocab_size", 0);
      why = a_.why("vocab_size");
      if (a_.word("tokenizer_type") == "NullTokenizer") {  // adds the end of a document
        ++vocab;
        why += " and one: " + a_.why("tokenizer_type");
      }
    } else if (const Tokenizer* t = known_tokenizer()) {
      vocab = t->vocab + a_.whole("vocab_extra_ids", 0);
      why = a_.why(a_.given("tokenizer_type") ? "tokenizer_type" : "merge_file");
    }
    if (vocab < 1 || vocab > kMostSize)
      return draft_.assume("model.vocab_size", "128256",
                           "the file does not say how large the vocabulary is; -s "
                           "model.vocab_size=N states it");
    const int64_t unit = a_.whole("make_vocab_size_divisible_by", 128);
    if (unit >= 1 && unit != 128 && unit < kMostSize / sizes_.tp) {
      const int64_t multiple = unit * sizes_.tp;
      vocab = (vocab + multiple - 1) / multiple * multiple;
      why += ", " + a_.why("make_vocab_size_divisible_by");
      draft_.set("parallel.vocab_multiple", unit, a_.why("make_vocab_size_divisible_by"));
    }
    draft_.set("model.vocab_size", vocab, why);
  }

  void write_window() {
    const std::vector<std::string> window = a_.words("window_size");
    if (window.empty()) return;
    const std::optional<int64_t> before = python_whole(window.front());
    if (!before) return a_.refuse("window_size", "must be numbers: (128, 0)");
    draft_.set("model.sliding_window", *before + 1, a_.why("window_size"));  // and the token itself
    if (!a_.given("window_attn_skip_freq")) return;
    std::string types;
    for (const int64_t windowed : pattern("window_attn_skip_freq", true))
      types += std::string(types.empty() ? "" : ", ") +
               (windowed != 0 ? "sliding_attention" : "full_attention");
    draft_.set("model.layer_types", '[' + types + ']', a_.why("window_attn_skip_freq"));
  }

  // One 0 or 1 a layer.  A number N is one 0 after N - 1 times 1 (windows), or one 1 and then
  // N - 1 times 0 (experts).
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
    a_.refuse(name, "must be a number, or a list with a 0 or 1 for each of the " +
                        std::to_string(layers_) + " layers");
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
    if (const int64_t mtp = a_.whole("mtp_num_layers", 0); mtp > 0)
      draft_.set("model.num_nextn_predict_layers", mtp, a_.why("mtp_num_layers"));
    if (a_.whole("num_experts", 0) < 1) return;
    copy("num_experts", "model.num_experts");
    draft_.set("model.num_experts_per_tok", a_.whole("moe_router_topk", 2),
               given_or_default("moe_router_topk"));
    if (a_.given("moe_ffn_hidden_size"))
      copy("moe_ffn_hidden_size", "model.moe_intermediate_size");
    else
      draft_.set("model.moe_intermediate_size", ffn_, "Megatron's default: --ffn-hidden-size");
    copy("moe_shared_expert_intermediate_size", "model.shared_expert_intermediate_size");
    if (a_.flag("moe_shared_expert_gate"))
      draft_.set("model.shared_expert_gate", true, a_.why("moe_shared_expert_gate"));
    copy("moe_router_num_groups", "model.n_group");
    copy("moe_router_group_topk", "model.topk_group");
    if (a_.flag("moe_router_enable_expert_bias"))
      draft_.set("model.router_bias", true, a_.why("moe_router_enable_expert_bias"));
    if (!a_.given("moe_layer_freq")) return;
    std::vector<int64_t> dense;
    const std::vector<int64_t> experts = pattern("moe_layer_freq", false);
    for (size_t i = 0; i < experts.size(); ++i)
      if (experts[i] == 0) dense.push_back(static_cast<int64_t>(i));
    if (dense.empty()) return;
    const auto count = static_cast<int64_t>(dense.size());
    if (dense.back() == count - 1)
      draft_.set("model.first_k_dense_replace", count, a_.why("moe_layer_freq"));
    else
      draft_.set("model.mlp_only_layers", list_text(dense), a_.why("moe_layer_freq"));
  }

  void write_refused() {
    for (const char* name :
         {"is_hybrid_model", "hybrid_override_pattern", "heterogeneous_layers_config_path",
          "heterogeneous_layers_config_encoded_json"})
      if (a_.given(name) && a_.word(name) != "False" && a_.word(name) != "false")
        a_.problems().add("E130", "layers of several architectures are not supported yet",
                          a_.mark(name), 1, a_.why(name));
    if (a_.real("hybrid_attention_ratio").value_or(0) > 0)
      a_.problems().add("E130", "state-space layers are not supported yet",
                        a_.mark("hybrid_attention_ratio"));
  }

  const ArgumentReader& a_;
  MegatronSizes& sizes_;
  ScenarioDraft& draft_;
  int64_t layers_ = 0, hidden_ = 0, ffn_ = 0;
  bool gated_ = false;
};

}  // namespace

void draft_megatron_model(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft) {
  ModelDraft(a, sizes, draft).write();
}

}  // namespace stepcast
