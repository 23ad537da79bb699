// SPDX-License-Identifier: Apache-2.0
// draft_megatron_model: the model that Megatron's arguments say.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "scenarios/frameworks/hub_names.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/hybrid_pattern.h"
#include "scenarios/frameworks/megatron/parts.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 40;
constexpr int64_t kUsualVocabulary = 128256;  // Llama 3's

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
    else if (is_gated_delta_net(a_.word("experimental_attention_variant")))
      write_recurrent_layers();
    else
      draft_.set("model.preset", std::string("gpt"), "a decoder; what differs is stated");
    write_sizes();
    if (layers_ < 1 || hidden_ < 1) return;
    write_kind();
    if (hybrid_) write_hybrid();
    if (recurrent_) write_mixers();
    write_vocabulary();
    write_window();
    write_latent_attention();
    write_experts();
    if (!hybrid_ && a_.whole("moe_latent_size", 0) > 0) draft_.left_out(a_.why("moe_latent_size"));
  }

 private:
  using Trains = MegatronProgram::Trains;

  // A size that Megatron requires as well.
  int64_t needed(const char* name, const char* key) {
    if (!a_.given(name)) {
      const std::optional<int64_t> stated = python_whole(sizes_.in.stated(key));
      if (stated && *stated >= 1 && *stated <= kMostSize) {
        draft_.set(key, *stated, "-s");
        return *stated;
      }
      const bool in_checkpoint = a_.flag("use_checkpoint_args");
      const std::string how = fmt::format("-s {}=N states it", key);
      a_.problems().add("E332", fmt::format("the file does not say --{}", dashes(name)),
                        in_checkpoint ? a_.mark("use_checkpoint_args") : Mark{}, 1, {},
                        in_checkpoint ? "--use-checkpoint-args takes it from the checkpoint, which "
                                        "is not read: " +
                                            how
                                      : how);
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
    if (recurrent_ && !a_.given("kv_channels") && heads > 0)
      draft_.set("model.head_dim", hidden_ / heads,
                 "Megatron's default: --hidden-size / --num-attention-heads");
  }

  // The families with such layers, whose defaults are those of a model of its own.
  void write_recurrent_layers() {
    const char* variant = "experimental_attention_variant";
    recurrent_ = true;
    const bool experts = a_.whole("num_experts", 0) > 1;
    draft_.set_text("model.model_type", experts ? "qwen3_next" : "qwen3_5_text",
                    a_.origin(variant));
    // TransformerConfig's defaults.
    set_whole("linear_conv_kernel_dim", "model.linear_conv_kernel_dim", 4);
    set_whole("linear_key_head_dim", "model.linear_key_head_dim", 128);
    set_whole("linear_value_head_dim", "model.linear_value_head_dim", 128);
    set_whole("linear_num_key_heads", "model.linear_num_key_heads", 16);
    set_whole("linear_num_value_heads", "model.linear_num_value_heads", 32);
    draft_.set("model.use_qk_norm", a_.flag("qk_layernorm"), given_or_default("qk_layernorm"));
    if (!experts) return;
    draft_.set("model.shared_expert_intermediate_size",
               a_.whole("moe_shared_expert_intermediate_size", 0),
               given_or_default("moe_shared_expert_intermediate_size"));
    draft_.set("model.shared_expert_gate", a_.flag("moe_shared_expert_gate"),
               given_or_default("moe_shared_expert_gate"));
  }

  // --linear-attention-freq N: every N-th layer attends; a list has a 1 for each that does not.
  void write_mixers() {
    const char* name = "linear_attention_freq";
    if (!a_.given(name))
      return a_.problems().add("E332", "the file does not say --linear-attention-freq",
                               a_.mark("experimental_attention_variant"), 1, {},
                               "it says which layers attend");
    std::string types;
    for (const int64_t recurrent : pattern(name, true))
      types += std::string(types.empty() ? "" : ", ") +
               (recurrent != 0 ? "linear_attention" : "full_attention");
    if (!types.empty())
      draft_.set("model.layer_types", fmt::format("[{}]", types), a_.origin(name));
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
    const bool decodes = sizes_.encodes_and_decodes;
    if (!decodes && a_.given("decoder_num_layers")) draft_.left_out(a_.why("decoder_num_layers"));
    layers_ = needed(own, decodes ? "model.num_encoder_layers" : "model.num_hidden_layers");
    const bool too_many = layers_ > kMostLayers;
    // Without a number of its own the decoder has as many as the encoder (pretrain_t5.py).
    if (decodes) {
      sizes_.encoder_layers = std::min(layers_, kMostLayers);
      const int64_t decoder = needed(a_.given("decoder_num_layers") ? "decoder_num_layers" : own,
                                     "model.num_decoder_layers");
      layers_ = sizes_.encoder_layers + std::min(decoder, kMostLayers);
    }
    if (too_many)
      a_.refuse(own, "must be at most 100000");
    else if (layers_ > kMostLayers)
      a_.refuse(own, "is too much: an encoder and a decoder have at most 100000 layers together");
    if (layers_ > kMostLayers) layers_ = 0;
    sizes_.layers = layers_;
  }

  // The state-space layers of a hybrid; what they have without arguments is MambaMixer's
  // (megatron/core/ssm/mamba_mixer.py).
  void write_hybrid() {
    draft_.set_text("model.hybrid_override_pattern", hybrid_->layers, hybrid_->why);
    const int64_t head = a_.whole("mamba_head_dim", 64);
    draft_.set("model.mamba_head_dim", head, given_or_default("mamba_head_dim"));
    if (a_.given("mamba_num_heads"))
      copy("mamba_num_heads", "model.mamba_num_heads");
    else if (head > 0)
      draft_.set("model.mamba_num_heads", 2 * hidden_ / head,
                 "Megatron's default: 2 x --hidden-size / --mamba-head-dim");
    set_whole("mamba_num_groups", "model.n_groups", 8);
    set_whole("mamba_state_dim", "model.ssm_state_size", 128);
    draft_.set("model.moe_latent_size", a_.whole("moe_latent_size", 0),
               given_or_default("moe_latent_size"));
    if (!hybrid_->prediction.empty()) {
      draft_.set("model.num_nextn_predict_layers", hybrid_->predictions, hybrid_->why);
      draft_.set_text("model.mtp_hybrid_override_pattern", hybrid_->prediction, hybrid_->why);
    }
  }

  void write_kind() {
    const bool glu = a_.given("glu_activation");
    gated_ = glu || a_.flag("swiglu") || a_.flag("quick_geglu") || a_.flag("geglu") ||
             a_.word("activation_func") == "swiglu";
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
    write_biases();
    // With latent attention the flag means the norms of the latents, which are always there.
    for (const char* norm_of_heads : {"qk_layernorm", "qk_l2_norm"})
      if (a_.flag(norm_of_heads) && !a_.flag("multi_latent_attention"))
        draft_.set("model.use_qk_norm", true, a_.origin(norm_of_heads));
    if (a_.word("softmax_type", "vanilla") == "learnable")
      draft_.set("model.attention_sinks", true, a_.origin("softmax_type"));
    write_positions();
    write_direction();
  }

  // Pai-Megatron-Patch has flags for the biases behind attention and of the MLP alone.
  void write_biases() {
    const bool bias = a_.flag("add_bias_linear", true);
    const auto set = [&](const char* path, const char* one) {
      const char* by = a_.given(one) ? one : "add_bias_linear";
      draft_.set(path, a_.flag(by, bias), given_or_default(by));
    };
    set("model.attention_bias", "bias_attn_fc");
    set("model.mlp_bias", "bias_linear_fc");
    if (a_.flag("add_qkv_bias"))
      draft_.set("model.qkv_bias", true, a_.origin("add_qkv_bias"));
    else if (a_.given("bias_attn_fc"))
      draft_.set("model.qkv_bias", bias, given_or_default("add_bias_linear"));
  }

  // BERT: by the program, or where that has no known name by its tokenizers, which T5 has too, or
  // the file of its words.
  void write_direction() {
    if (sizes_.program.does.trains == Trains::encoder)
      draft_.set("model.bidirectional", true, sizes_.program.called);
    if (sizes_.program.does.trains != Trains::unknown || sizes_.encodes_and_decodes) return;
    if (a_.word("tokenizer_type").starts_with("BertWordPiece"))
      draft_.set("model.bidirectional", true, a_.origin("tokenizer_type"));
    else if (!a_.given("tokenizer_type") && !a_.given("merge_file") && lists_words_in_a_text())
      draft_.set("model.bidirectional", true, a_.origin("vocab_file"));
  }

  // "bert-vocab.txt"; those of GPT-2 are JSON, with a file of merges beside them.
  bool lists_words_in_a_text() const { return a_.word("vocab_file").ends_with("vocab.txt"); }

  Origin given_or_default(const char* name) const { return a_.origin(name, "Megatron's default"); }

  void write_activation() {
    std::string act = gated_ ? "silu" : "gelu";
    Origin why = "Megatron's default";
    for (const auto& [flag, name] : {std::pair{"geglu", "gelu"},
                                     {"swiglu", "silu"},
                                     {"quick_geglu", "quick_gelu"},
                                     {"squared_relu", "relu2"}}) {
      if (!a_.flag(flag)) continue;
      why = a_.origin(flag);
      act = name;
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
      act = name == "squared_relu" ? "relu2" : name == "swiglu" ? "silu" : std::string(name);
      why = a_.origin("activation_func");
    }
    draft_.set("model.hidden_act", yaml_text(act), why);
    draft_.set("model.gated_mlp", gated_,
               !gated_ ? Origin("Megatron's default")
                       : a_.origin(a_.given("glu_activation") ? "glu_activation"
                                   : a_.flag("swiglu")        ? "swiglu"
                                   : a_.flag("geglu")         ? "geglu"
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
    if (a_.flag("use_alibi_mask")) {
      type = "alibi";
      why = a_.origin("use_alibi_mask");
    }
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
    else if (const auto stated = python_whole(sizes_.in.stated("batch.seq"));
             stated && *stated > 0 && type == "learned_absolute")
      draft_.set("model.max_position_embeddings", *stated, "-s batch.seq");
  }

  // How many words the tokenizer has; `assumed` says why that is not certain, or is empty.
  struct Words {
    int64_t count;
    Origin why;
    std::string assumed{};
  };

  // Tokenizers that come with one vocabulary: GPT-2's and BERT's, and those of models that are
  // known by name (size_of_tokenizer), which NeMo gives as the type.  A file of merges means
  // GPT-2's, which once was the default; BERT's is that of the programs that train BERT and T5, and
  // the one that lists its words in a text.
  std::optional<Words> known_words() const {
    constexpr int64_t kGpt2 = 50257, kBert = 30522, kBertCased = 28996, kLlama2 = 32000;
    for (const char* name : {"tokenizer_model", "tokenizer_type"}) {
      const auto size = a_.given(name) ? size_of_tokenizer(a_.word(name)) : std::nullopt;
      if (!size) continue;
      std::string assumed;
      if (!size->of_tokens)
        assumed = fmt::format(
            "{}: the model's embedding has as many rows; how many its tokenizer "
            "needs is not known",
            a_.why(name));
      return Words{size->count, a_.origin(name), assumed};
    }
    if (a_.given("tokenizer_type")) {
      const std::string type = a_.word("tokenizer_type");
      for (const auto& [name, count] :
           {std::pair{"GPT2BPETokenizer", kGpt2}, std::pair{"BertWordPieceLowerCase", kBert},
            std::pair{"BertWordPieceCase", kBertCased}})
        if (type == name)
          return Words{count, a_.origin("tokenizer_type"),
                       count == kGpt2 ? merges_of_unknown_size() : std::string()};
      if (type == "Llama2Tokenizer")
        return Words{kLlama2, "",
                     fmt::format("{}: Llama 2's has as many", a_.why("tokenizer_type"))};
      return {};
    }
    if (a_.given("merge_file"))
      return Words{kGpt2, a_.origin("merge_file"), merges_of_unknown_size()};
    switch (sizes_.program.does.trains) {
      case Trains::encoder:
      case Trains::encoder_decoder: return Words{kBert, sizes_.program.called};
      case Trains::unknown:
        if (lists_words_in_a_text()) return Words{kBert, a_.origin("vocab_file")};
        return {};
      default: return {};
    }
  }

  // GPT-2's kind of tokenizer has the words of its files (Megatron-LM core_v0.12.0,
  // megatron/training/tokenizer/gpt2_tokenization.py), which are GPT-2's where they are called so.
  std::string merges_of_unknown_size() const {
    const auto of_gpt2 = [&](const char* file) {
      return lower_case(a_.word(file)).find("gpt2") != std::string::npos;
    };
    if (!a_.given("merge_file") || of_gpt2("merge_file") || of_gpt2("vocab_file")) return {};
    return fmt::format("{}: GPT-2's vocabulary has as many", a_.why("merge_file"));
  }

  void write_vocabulary() {
    if (a_.given("padded_vocab_size")) return copy("padded_vocab_size", "model.vocab_size");
    int64_t vocab = 0;
    Origin why = "";
    std::string assumed = "the file does not say how large the vocabulary is";
    if (a_.given("vocab_size")) {
      vocab = a_.whole("vocab_size", 0);
      why = a_.origin("vocab_size");
      assumed.clear();
      if (a_.word("tokenizer_type") == "NullTokenizer") {  // adds the end of a document
        ++vocab;
        why.text += fmt::format(" and one: {}", a_.why("tokenizer_type"));
      }
    } else if (const std::optional<Words> words = known_words()) {
      vocab = words->count + a_.whole("vocab_extra_ids", 0);
      why = words->why;
      assumed = words->assumed;
    }
    const bool known = vocab >= 1 && vocab <= kMostSize;
    if (!known) vocab = kUsualVocabulary;
    const bool of_hub = a_.word("tokenizer_type").find('/') != std::string::npos;
    if (!known && !a_.given("vocab_size") && (of_hub || a_.given("tokenizer_model")))
      assumed = fmt::format("{}: how large its vocabulary is, is not known",
                            a_.why(of_hub ? "tokenizer_type" : "tokenizer_model"));
    if (!known && assumed.empty()) assumed = "the file does not say how large the vocabulary is";
    const int64_t unit = known ? a_.whole("make_vocab_size_divisible_by", 128) : 128;
    if (unit >= 1 && unit != 128 && unit < kMostSize / sizes_.tp) {
      const int64_t multiple = unit * sizes_.tp;
      vocab = (vocab + multiple - 1) / multiple * multiple;
      why.text += fmt::format(", {}", a_.why("make_vocab_size_divisible_by"));
      draft_.set("parallel.vocab_multiple", unit, a_.origin("make_vocab_size_divisible_by"));
    }
    if (assumed.empty()) return draft_.set("model.vocab_size", vocab, why);
    draft_.assume("model.vocab_size", fmt::format("{}", vocab),
                  assumed + "; -s model.vocab_size=N states it");
  }

  void write_window() {
    if (a_.given("sliding_window")) copy("sliding_window", "model.sliding_window");
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
    const bool is_list = a_.value(name)->kind == Value::Kind::sequence;
    // The word of a list is its first.
    if (const auto n = is_list ? std::nullopt : python_whole(text); n && *n >= 1) {
      for (int64_t i = 0; i < layers_; ++i)
        all.push_back(last_differs ? ((i + 1) % *n != 0 ? 1 : 0) : (i % *n == 0 ? 1 : 0));
      return all;
    }
    if (is_list)
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

  // A whole number, or Megatron's default for it.
  void set_whole(const char* name, const char* key, int64_t fallback) {
    draft_.set(key, a_.whole(name, fallback), given_or_default(name));
  }

  void write_latent_attention() {
    if (!a_.flag("multi_latent_attention")) return;
    set_whole("q_lora_rank", "model.q_lora_rank", 0);
    set_whole("kv_lora_rank", "model.kv_lora_rank", 32);
    set_whole("qk_head_dim", "model.qk_nope_head_dim", 128);
    set_whole("qk_pos_emb_head_dim", "model.qk_rope_head_dim", 64);
    set_whole("v_head_dim", "model.v_head_dim", 128);
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

  const ArgumentReader& a_;
  MegatronSizes& sizes_;
  ScenarioDraft& draft_;
  std::optional<Hybrid> hybrid_;
  int64_t layers_ = 0, hidden_ = 0, ffn_ = 0;
  bool gated_ = false;
  bool recurrent_ = false;  // some layers are gated delta nets
};

}  // namespace

void draft_megatron_model(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft) {
  ModelDraft(a, sizes, draft).write();
}

}  // namespace stepcast
