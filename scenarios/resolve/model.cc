// SPDX-License-Identifier: Apache-2.0
// A model comes from up to four texts, the weakest first: what its family takes for granted, a
// preset, a config.json, the keys of the scenario.  They are laid over each other key by key, in
// one vocabulary (model_families.h); then the keys become a Transformer.
#include "scenarios/resolve/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/presets.h"
#include "scenarios/resolve/config_json.h"
#include "scenarios/resolve/model_families.h"
#include "scenarios/schema/keys.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {

struct ModelKeys {
  const ModelFamily* family = nullptr;
  std::string name;  // the preset, the file or the model_type
  Value keys;        // mapping in the vocabulary of model_families.h
};

// Adds problems and returns nothing if there are any.
std::optional<ModelKeys> collect_model_keys(const Value& model, Problems& problems,
                                            const FileReader& read_file,
                                            std::vector<std::string>* warnings);

namespace {

// Keys that say where the others come from.  They stand in the scenario, not in a config.json.
constexpr std::array<std::string_view, 3> kSelectors = {"preset", "hf", "model_type"};

enum class WrittenIn : unsigned char { defaults, preset, file, scenario };

struct Level {
  WrittenIn origin = WrittenIn::scenario;
  Value value;
};

// Weakest level first.
struct Levels {
  const ModelFamily* family = nullptr;
  std::string name;
  std::vector<Level> all;
};

int length_of(std::string_view text) {
  return static_cast<int>(text.size());
}

std::vector<std::string_view> names_of(std::span<const ModelFamily> families) {
  std::vector<std::string_view> names;
  for (const ModelFamily& f : families) names.push_back(f.name);
  return names;
}

class Collector {
 public:
  Collector(Problems& problems, const FileReader& read_file)
      : problems_(problems), read_file_(read_file) {}

  std::optional<Levels> collect(const Value& model, WrittenIn origin) {
    if (model.is_scalar()) return from_preset(model);
    if (!model.is_mapping()) {
      problems_.add("E107", "'model' must be the name of a preset, or a mapping", model.mark, 1, {},
                    how_to());
      return {};
    }
    const Value* hf = model.find("hf");
    const Value* preset = model.find("preset");
    const Value* type = model.find("model_type");
    std::optional<Levels> levels;
    if (hf != nullptr) {
      levels = from_file(*hf, preset);
    } else if (preset != nullptr) {
      levels = from_preset(*preset);
      if (levels && type != nullptr && find_base_family(preset->text) == nullptr) {
        problems_.add("E127", "'model_type' does not go with the preset '" + preset->text + '\'',
                      type->mark, length_of(type->text), {}, "the preset says what it is");
        return {};
      }
    } else if (type != nullptr) {
      levels = from_model_type(*type);
    } else {
      problems_.add("E126", "'model' does not say what kind of model it is", model.mark, 1, {},
                    how_to());
    }
    if (levels) levels->all.push_back({origin, model});
    return levels;
  }

 private:
  static std::string how_to() {
    return "write a preset's name, {preset: gpt} or {preset: llama} and the sizes, {hf: "
           "config.json}, or paste a config.json";
  }

  std::optional<Value> read_word(const Value& value, const char* key) {
    if (value.is_scalar() && !value.text.empty()) return value;
    problems_.add("E107", fmt::format("'{}' must be a name", key), value.mark);
    return {};
  }

  Levels start(const ModelFamily& family) {
    Levels levels{&family, std::string(family.name), {}};
    for (const std::string_view text : {family.common, family.defaults})
      if (!text.empty())
        levels.all.push_back(
            {WrittenIn::defaults,
             parse_embedded(problems_, "defaults of " + std::string(family.name), text)});
    return levels;
  }

  std::optional<Levels> from_preset(const Value& name) {
    if (!read_word(name, "preset")) return {};
    if (const ModelFamily* base = find_base_family(name.text)) return start(*base);
    const std::optional<std::string_view> text = preset_text(PresetKind::model, name.text);
    if (!text) {
      std::vector<std::string_view> known = preset_names(PresetKind::model);
      for (const ModelFamily& f : base_families()) known.push_back(f.name);
      problems_.add("E125", "there is no model preset '" + name.text + '\'', name.mark,
                    length_of(name.text), did_you_mean(name.text, known),
                    "`stepcast presets models` lists them; any other model: its config.json, {hf: "
                    "FILE}, or {preset: gpt} or {preset: llama} and its sizes");
      return {};
    }
    const Value value = parse_embedded(problems_, "preset " + name.text, *text);
    STEPCAST_CHECK(value.is_mapping() && value.find("hf") == nullptr, "preset " + name.text);
    std::optional<Levels> levels = collect(value, WrittenIn::preset);
    if (levels) levels->name = name.text;
    return levels;
  }

  std::optional<Levels> from_model_type(const Value& type) {
    if (!read_word(type, "model_type")) return {};
    if (const ModelFamily* family = find_model_type(type.text)) return start(*family);
    const std::vector<std::string_view> known = names_of(model_types());
    problems_.add("E125", "unknown model_type '" + type.text + '\'', type.mark,
                  length_of(type.text), did_you_mean(type.text, known),
                  "known: " + join(known) +
                      "; if it is a decoder like Llama or GPT, write `preset: llama` or `preset: "
                      "gpt` under `model:` and go on");
    return {};
  }

  std::optional<Levels> from_file(const Value& hf, const Value* preset) {
    if (!read_word(hf, "hf")) return {};
    const SourceRef source = read_file_(hf.text, hf.mark);
    if (source == nullptr) return {};
    Value file = parse_yaml(problems_, source);
    if (!file.is_mapping()) {
      // Null is also what a text that is no YAML gives, which has been reported already.
      if (file.kind != Value::Kind::null || !problems_.any())
        problems_.add("E107", "a config.json must be a mapping", file.mark);
      return {};
    }
    file = open_config(std::move(file)).model;
    std::optional<Levels> levels = family_of_file(file, hf, preset);
    if (!levels) return {};
    levels->name = hf.text;
    levels->all.push_back({WrittenIn::file, std::move(file)});
    return levels;
  }

  // A family that the scenario states wins over the file's model_type, which may be unknown.
  std::optional<Levels> family_of_file(const Value& file, const Value& hf, const Value* preset) {
    if (preset != nullptr) {
      if (!read_word(*preset, "preset")) return {};
      if (const ModelFamily* base = find_base_family(preset->text)) return start(*base);
      problems_.add(
          "E127", "'hf' and the preset '" + preset->text + "' are two models", preset->mark,
          length_of(preset->text), {},
          "leave one out; `preset: gpt` or `preset: llama` beside 'hf' states the kind of "
          "architecture");
      return {};
    }
    if (const Value* type = file.find("model_type")) return from_model_type(*type);
    problems_.add("E126", "'" + hf.text + "' has no model_type", hf.mark, length_of(hf.text), {},
                  "if it is a decoder like Llama or GPT, write `preset: llama` or `preset: gpt` "
                  "beside 'hf'");
    return {};
  }

  Problems& problems_;
  const FileReader& read_file_;
};

class Overlay {
 public:
  Overlay(Problems& problems, const Levels& levels) : problems_(problems), levels_(levels) {
    keys_.kind = Value::Kind::mapping;
  }

  // Nothing if there was a problem.
  std::optional<Value> lay() {
    for (const Level& level : levels_.all) {
      add(level);
      if (refuse_missing_parts(level.value, *levels_.family, problems_)) ok_ = false;
    }
    if (!ok_) return {};
    return std::move(keys_);
  }

  // Of the last level that says how many there are.
  bool leaves_prediction_out() const { return leaves_prediction_out_; }

 private:
  void add(const Level& level) {
    std::vector<std::pair<std::string_view, const Member*>> given;  // on this level
    for (const Member& m : level.value.members) {
      if (is_selector(level.origin, m.key)) continue;
      const ConfigKey key = find_config_key(*levels_.family, m.key);
      if (key.use == KeyUse::unknown) refuse_unknown(level.origin, m);
      if (key.use == KeyUse::left_out) read_prediction(level.origin, m);
      if (key.use != KeyUse::read) continue;
      for (const auto& [name, first] : given)
        if (name == key.name && !says_the_same(level.origin, m, *first))
          refuse_second_name(m, *first);
      given.emplace_back(key.name, &m);
      set(key.name, m);
    }
  }

  // Files for several versions of a class write both of its names.
  static bool says_the_same(WrittenIn origin, const Member& a, const Member& b) {
    const auto same = [](const Value& x, const Value& y) {
      return x.is_scalar() && y.is_scalar() && x.text == y.text;
    };
    const bool lists =
        a.value.kind == Value::Kind::sequence && b.value.kind == Value::Kind::sequence;
    return origin == WrittenIn::file &&
           (lists ? std::ranges::equal(a.value.items, b.value.items, same)
                  : same(a.value, b.value));
  }

  static bool is_selector(WrittenIn origin, std::string_view key) {
    if (origin == WrittenIn::file) return key == "model_type";
    for (const std::string_view s : kSelectors)
      if (s == key) return true;
    return false;
  }

  void set(std::string_view name, const Member& m) {
    if (Value* old = keys_.find(name))
      *old = m.value;
    else
      keys_.members.push_back({std::string(name), m.key_mark, m.value});
  }

  void refuse_unknown(WrittenIn origin, const Member& m) {
    ok_ = false;
    const auto vocabulary = config_vocabulary();
    std::vector<std::string_view> known(vocabulary.begin(), vocabulary.end());
    if (origin != WrittenIn::file) known.insert(known.end(), kSelectors.begin(), kSelectors.end());
    std::string label = did_you_mean(m.key, known);
    if (label.empty()) label = did_you_mean(m.key, rare_config_vocabulary());
    std::string note;
    const ForeignName* foreign = find_foreign_name(m.key);
    const bool here = foreign != nullptr && foreign->path.starts_with("model.");
    if (here || (foreign != nullptr && origin != WrittenIn::file)) {
      label =
          "did you mean '" + (here ? last_word(foreign->path) : std::string(foreign->path)) + "'?";
      note = foreign->note;
    }
    problems_.add("E102",
                  "unknown key '" + m.key + "' in " +
                      (origin == WrittenIn::file ? "the config.json" : "'model'"),
                  m.key_mark, length_of(m.key), std::move(label),
                  origin == WrittenIn::file
                      ? "remove it if it has no effect on the cost of a training step"
                      : "keys are those of a Hugging Face config.json",
                  std::move(note));
  }

  // Prediction modules of a file are left out aloud, as by an import; a scenario has none to state.
  void read_prediction(WrittenIn origin, const Member& m) {
    if (m.key != "num_nextn_predict_layers") return;
    const bool none = m.value.kind == Value::Kind::null || m.value.text == "0";
    leaves_prediction_out_ = !none;
    if (none || origin != WrittenIn::scenario) return;
    ok_ = false;
    problems_.add("E130",
                  "not supported yet: multi-token prediction of models with compressed keys",
                  m.value.mark, length_of(m.value.text), {}, "num_nextn_predict_layers: 0");
  }

  void refuse_second_name(const Member& m, const Member& first) {
    ok_ = false;
    problems_.add("E103", "'" + m.key + "' and '" + first.key + "' are two names of the same",
                  m.key_mark, length_of(m.key), {}, "leave one out");
  }

  Problems& problems_;
  const Levels& levels_;
  Value keys_;
  bool ok_ = true, leaves_prediction_out_ = false;
};

}  // namespace

std::string left_out_remark(std::string_view key) {
  return fmt::format("{}: not modelled, left out", key);
}

std::optional<ModelKeys> collect_model_keys(const Value& model, Problems& problems,
                                            const FileReader& read_file,
                                            std::vector<std::string>* warnings) {
  const std::optional<Levels> levels =
      Collector(problems, read_file).collect(model, WrittenIn::scenario);
  if (!levels) return {};
  Overlay overlay(problems, *levels);
  std::optional<Value> keys = overlay.lay();
  if (!keys) return {};
  if (warnings != nullptr && overlay.leaves_prediction_out())
    warnings->push_back(left_out_remark("num_nextn_predict_layers"));
  keys->mark = model.mark;
  return ModelKeys{levels->family, levels->name, std::move(*keys)};
}

namespace {

// Far above any model; low enough that the parameters of one layer fit 64 bits.
constexpr int64_t kMostLayers = 100'000;
constexpr int64_t kMostWidth = int64_t{1} << 20;
constexpr int64_t kMostHeads = int64_t{1} << 16;
constexpr int64_t kMostExperts = int64_t{1} << 16;
constexpr int64_t kMostShared = int64_t{1} << 10;
constexpr int64_t kMostModules = 16;
constexpr int64_t kMostRows = 1'000'000'000;
constexpr double kMostParameters = 1e15;
constexpr int64_t kPlainCompression = 128;  // tokens of a compressed key that nothing chooses

struct Word {
  std::string_view written;
  int meaning;
};

// transformers' ACT2FN.  What matters is the kernel: variants of GELU cost the same.
constexpr Word kActivations[] = {
    {"silu", static_cast<int>(Activation::silu)},
    {"swish", static_cast<int>(Activation::silu)},
    {"gelu", static_cast<int>(Activation::gelu)},
    {"gelu_new", static_cast<int>(Activation::gelu)},
    {"gelu_fast", static_cast<int>(Activation::gelu)},
    {"gelu_python", static_cast<int>(Activation::gelu)},
    {"gelu_pytorch_tanh", static_cast<int>(Activation::gelu)},
    {"quick_gelu", static_cast<int>(Activation::gelu)},
    {"relu", static_cast<int>(Activation::relu)},
    {"relu2", static_cast<int>(Activation::relu)},
};
constexpr Word kNorms[] = {
    {"layer_norm", static_cast<int>(Norm::layer_norm)},
    {"rms_norm", static_cast<int>(Norm::rms_norm)},
    {"LayerNorm", static_cast<int>(Norm::layer_norm)},  // Megatron's
    {"RMSNorm", static_cast<int>(Norm::rms_norm)},
};
constexpr Word kPositions[] = {
    {"learned", static_cast<int>(Positions::learned)},
    {"rotary", static_cast<int>(Positions::rotary)},
    {"none", static_cast<int>(Positions::none)},
    {"alibi", static_cast<int>(Positions::none)},
    {"learned_absolute", static_cast<int>(Positions::learned)},  // Megatron's
    {"absolute", static_cast<int>(Positions::learned)},          // BERT's
    {"relative", static_cast<int>(Positions::none)},             // biases of the scores (T5)
    {"rope", static_cast<int>(Positions::rotary)},
    {"nope", static_cast<int>(Positions::none)},
};

constexpr Word kQkNormWeights[] = {
    {"of_head", static_cast<int>(QkNormWeights::of_head)},
    {"of_heads", static_cast<int>(QkNormWeights::of_heads)},
    {"none", static_cast<int>(QkNormWeights::none)},
};

constexpr Word kMixers[] = {
    {"mamba2", static_cast<int>(Mixer::mamba2)},
    {"gated_delta_net", static_cast<int>(Mixer::gated_delta_net)},
};

// What a layer is: of the words of `layer_types`, and of the letters of hybrid_override_pattern.
enum class LayerWord : uint8_t { attention, window, recurrent, experts, mlp };
struct WordOfLayer {
  std::string_view written;
  LayerWord meaning;
};
constexpr WordOfLayer kLayerWords[] = {
    {"full_attention", LayerWord::attention},
    {"sliding_attention", LayerWord::window},
    {"attention", LayerWord::attention},
    {"chunked_attention", LayerWord::attention},  // Llama 4: the chunks are left out
    {"deepseek_sparse_attention", LayerWord::attention},
    {"linear_attention", LayerWord::recurrent},
    {"mamba", LayerWord::recurrent},
    {"mamba2", LayerWord::recurrent},
    {"moe", LayerWord::experts},
    {"mlp", LayerWord::mlp},
    {"*", LayerWord::attention},
    {"M", LayerWord::recurrent},
    {"E", LayerWord::experts},
    {"-", LayerWord::mlp},
};

std::optional<LayerWord> layer_word(std::string_view written) {
  for (const WordOfLayer& w : kLayerWords)
    if (w.written == written) return w.meaning;
  return {};
}

class ModelReader {
 public:
  ModelReader(const ModelKeys& model, Problems& problems)
      : family_(*model.family), keys_(model.keys), problems_(problems) {
    t_.name = model.name;
  }

  std::optional<Transformer> read() {
    read_kind();
    read_latent_attention();
    read_sizes();
    read_experts();
    read_mixers();
    if (!missing_.empty()) refuse_missing();
    if (ok_) read_compressions();
    if (!ok_) return {};
    check_heads();
    check_experts();
    check_mixers();
    read_window();
    if (ok_) check_window_of_compressed();
    if (ok_) read_shapes();
    if (ok_) check_size();
    if (!ok_) return {};
    return t_;
  }

 private:
  // nullptr if the key is absent or null, which transformers treats alike but for class defaults
  // (these a null replaces).
  const Value* find(std::string_view key) const {
    const Value* v = keys_.find(key);
    return v == nullptr || v->kind == Value::Kind::null ? nullptr : v;
  }

  int64_t whole(std::string_view key, int64_t lowest, int64_t highest, int64_t fallback) {
    const Value* v = find(key);
    if (v == nullptr) return fallback;
    const std::optional<int64_t> n = read_whole(*v, key, problems_, lowest, highest);
    ok_ = ok_ && n.has_value();
    return n.value_or(std::max<int64_t>(lowest, 1));
  }

  int64_t needed(std::string_view key, int64_t highest) {
    if (find(key) == nullptr) missing_.emplace_back(key);
    return whole(key, 1, highest, 1);
  }

  bool flag(std::string_view key, bool fallback) {
    const Value* v = keys_.find(key);
    if (v == nullptr) return fallback;
    if (v->kind == Value::Kind::null) return false;  // as Python takes it
    const std::optional<bool> on = read_flag(*v, key, problems_);
    ok_ = ok_ && on.has_value();
    return on.value_or(fallback);
  }

  int word(std::string_view key, std::span<const Word> words, int fallback) {
    const Value* v = find(key);
    if (v == nullptr) return fallback;
    const std::optional<std::string> text = read_text(*v, key, problems_);
    std::vector<std::string_view> known;
    for (const Word& w : words) {
      if (text == w.written) return w.meaning;
      known.push_back(w.written);
    }
    ok_ = false;
    if (!text) return fallback;
    const std::vector<std::string> legal(known.begin(), known.end());
    problems_.add("E125", "'" + std::string(key) + "' cannot be '" + *text + '\'', v->mark,
                  static_cast<int>(text->size()), did_you_mean(*text, known),
                  "it is one of: " + or_list(legal));
    return fallback;
  }

  // Where the user wrote one of these keys; else where `model` stands.
  Mark place(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys)
      if (const Value* v = keys_.find(key); v != nullptr && !v->mark.in_preset()) return v->mark;
    return keys_.mark;
  }

  void refuse(const char* code, std::string message, const Mark& mark, std::string help = {}) {
    ok_ = false;
    problems_.add(code, std::move(message), mark, 1, {}, std::move(help));
  }

  void read_kind() {
    t_.activation =
        static_cast<Activation>(word("hidden_act", kActivations, static_cast<int>(t_.activation)));
    t_.norm = static_cast<Norm>(word("normalization", kNorms, static_cast<int>(t_.norm)));
    t_.positions = static_cast<Positions>(
        word("position_embedding_type", kPositions, static_cast<int>(Positions::none)));
    t_.gated = flag("gated_mlp", false);
    t_.tied = flag("tie_word_embeddings", true);
    const bool every_bias = flag("use_bias", false);
    const bool bias = flag("attention_bias", every_bias);
    t_.attention_bias = flag("qkv_bias", bias);
    t_.attention_output_bias = bias;
    t_.mlp_bias = flag("mlp_bias", every_bias);
    t_.norm_bias = flag("norm_bias", t_.norm == Norm::layer_norm);
    t_.qk_norm = flag("use_qk_norm", false);
    t_.qk_norm_weights = static_cast<QkNormWeights>(
        word("qk_norm_weights", kQkNormWeights, static_cast<int>(QkNormWeights::of_head)));
    t_.branch_norms = flag("branch_norms", false);
    if (flag("alibi", false)) t_.positions = Positions::none;
    t_.attention_sinks = flag("attention_sinks", false);
    t_.value_norm = flag("value_norm", false);
    if (t_.value_norm && !t_.qk_norm)
      refuse("E127", "value_norm is of models that have use_qk_norm, too", place({"value_norm"}));
    t_.attention_gate = flag("attn_output_gate", false);
    t_.parallel_block = flag("parallel_attn", false);
    t_.shared_norm = t_.parallel_block && flag("shared_input_norm", false) && !grouped_falcon();
    t_.bidirectional = flag("bidirectional", false);
    t_.embedding_norm = flag("embedding_norm", false);
    t_.masked_head = flag("masked_head", false);
    t_.token_types = whole("type_vocab_size", 0, kMostWidth, 0);
    t_.relative_buckets = whole("relative_attention_num_buckets", 0, kMostWidth, 0);
    read_feed_forward();
  }

  // Falcon-40B and later: groups of queries, and a norm each for attention and MLP.
  bool grouped_falcon() { return flag("new_decoder_architecture", false); }

  // T5's way to say activation and gate at once: "relu", "gated-gelu".
  void read_feed_forward() {
    const Value* v = find("feed_forward_proj");
    if (v == nullptr) return;
    const std::optional<std::string> text = read_text(*v, "feed_forward_proj", problems_);
    if (!text) {
      ok_ = false;
      return;
    }
    const std::string_view gate = "gated-";
    t_.gated = text->starts_with(gate);
    const std::string_view name = std::string_view(*text).substr(t_.gated ? gate.size() : 0);
    for (const Word& w : kActivations) {
      if (w.written != name) continue;
      t_.activation = static_cast<Activation>(w.meaning);
      return;
    }
    refuse("E125", "'feed_forward_proj' cannot be '" + *text + '\'', v->mark,
           "it is an activation, relu or gelu, or with a gate gated-gelu");
  }

  void read_latent_attention() {
    t_.kv_rank = whole("kv_lora_rank", 0, kMostWidth, 0);
    t_.streams = whole("hc_mult", 1, kMostModules, 1);
    if (keys_.find("compress_ratios") != nullptr) return read_compressed_attention();
    if (t_.kv_rank == 0) {
      t_.v_dim = whole("v_head_dim", 0, kMostHeads, 0);  // of ordinary attention (MiMo-V2)
      if (whole("index_topk", 0, kMostRows, 0) > 0 && ok_)
        refuse("E127", "an indexer chooses keys of latent attention: index_topk needs kv_lora_rank",
               place({"kv_lora_rank", "index_topk"}));
      return;
    }
    t_.q_rank = whole("q_lora_rank", 0, kMostWidth, 0);
    t_.qk_nope_dim = needed("qk_nope_head_dim", kMostHeads);
    t_.qk_rope_dim = needed("qk_rope_head_dim", kMostHeads);
    t_.v_dim = needed("v_head_dim", kMostHeads);
    t_.index_topk = whole("index_topk", 0, kMostRows, 0);
    if (t_.index_topk == 0) return;
    t_.index_heads = needed("index_n_heads", kMostHeads);
    t_.index_dim = needed("index_head_dim", kMostHeads);
    if (t_.q_rank == 0)
      refuse("E127", "an indexer reads the latent of queries: index_topk needs q_lora_rank",
             place({"index_topk", "q_lora_rank"}));
  }

  // DeepSeek-V4: transformers' configuration_deepseek_v4.py.
  void read_compressed_attention() {
    if (t_.kv_rank > 0)
      refuse("E127", "compressed keys are not of latent attention: kv_lora_rank goes without",
             place({"kv_lora_rank"}));
    t_.q_rank = needed("q_lora_rank", kMostWidth);
    t_.qk_rope_dim = needed("qk_rope_head_dim", kMostHeads);
    t_.out_groups = needed("o_groups", kMostHeads);
    t_.out_rank = needed("o_lora_rank", kMostWidth);
    t_.index_topk = needed("index_topk", kMostRows);
    t_.index_heads = needed("index_n_heads", kMostHeads);
    t_.index_dim = needed("index_head_dim", kMostHeads);
    t_.hashed_layers = whole("num_hash_layers", 0, kMostLayers, 0);
    const int64_t width = needed("head_dim", kMostHeads);
    needed("sliding_window", kMostRows);
    refuse_other_attention(width);
  }

  // Keys that describe the other kinds of attention to chosen keys or of low rank, unless they say
  // what is so in any case.
  void refuse_other_attention(int64_t width) {
    const auto refuse_key = [&](std::string_view key) {
      refuse("E127", fmt::format("{} is not of attention to compressed keys", key), place({key}),
             "leave it out");
    };
    for (const std::string_view key :
         {"indexer_types", "index_topk_pattern", "index_skip_topk_offset"})
      if (find(key) != nullptr) refuse_key(key);
    for (const auto& [key, always] :
         {std::pair{"index_topk_freq", int64_t{1}}, std::pair{"v_head_dim", width},
          std::pair{"qk_nope_head_dim", width - t_.qk_rope_dim}})
      if (whole(key, 0, kMostHeads, always) != always && ok_) refuse_key(key);
  }

  // Words of `layer_types`, and the tokens in a compressed key of such layers.
  static constexpr std::array<std::pair<std::string_view, int64_t>, 3> kCompressionWords{
      {{"sliding_attention", 0},
       {"compressed_sparse_attention", kChosenCompression},
       {"heavily_compressed_attention", kPlainCompression}}};

  void add_compression_word(const Value& word) {
    for (const auto& [written, tokens] : kCompressionWords)
      if (written == word.text) return t_.compressions.push_back(tokens);
    refuse("E130", "layers of type '" + escape_text(word.text) + "' are not supported yet",
           word.mark,
           "beside compressed keys sliding_attention, compressed_sparse_attention and "
           "heavily_compressed_attention are");
  }

  // {compressed_sparse_attention: 4, heavily_compressed_attention: 128}, and nothing else.
  void check_compression_rates() {
    const Value* rates = find("compress_rates");
    if (rates == nullptr) return;
    if (!rates->is_mapping())
      return refuse("E107", "'compress_rates' must be a mapping from types of layers to numbers",
                    rates->mark);
    for (const Member& m : rates->members) check_compression_rate(m);
  }

  void check_compression_rate(const Member& m) {
    const auto* known =
        std::ranges::find(kCompressionWords, m.key, &std::pair<std::string_view, int64_t>::first);
    if (known == kCompressionWords.end())
      return refuse("E125", "'compress_rates' cannot have '" + escape_text(m.key) + '\'',
                    m.key_mark,
                    "compressed_sparse_attention: 4, heavily_compressed_attention: 128");
    const auto n = read_whole(m.value, "compress_rates", problems_, 0, kMostRows);
    ok_ = ok_ && n.has_value();
    if (n && *n != known->second)
      refuse("E130", fmt::format("not supported yet: compressed keys of {} tokens", *n),
             m.value.mark);
  }

  void add_compression(const Value& tokens) {
    const auto n = read_whole(tokens, "compress_ratios", problems_, 0, kMostRows);
    ok_ = ok_ && n.has_value();
    if (!ok_) return;
    if (*n != 0 && *n != kChosenCompression && *n != kPlainCompression)
      return refuse("E130", fmt::format("not supported yet: compressed keys of {} tokens", *n),
                    tokens.mark, "0 for none, 4, which an indexer chooses, or 128");
    t_.compressions.push_back(*n);
  }

  // Tokens in a compressed key, of each layer.  Files of transformers' class have words for them,
  // which win over numbers there, too; without either it has keys of 128 tokens and, in every
  // second layer from the fourth on, of 4.
  void read_compressions() {
    if (keys_.find("compress_ratios") == nullptr) return;
    check_compression_rates();
    const std::string_view name =
        find("layer_types") != nullptr ? "layer_types" : "compress_ratios";
    const Value* list = find(name);
    if (list != nullptr && list->kind != Value::Kind::sequence)
      return refuse("E107", fmt::format("'{}' must be a list, of one for each layer", name),
                    list->mark);
    for (int64_t i = 0; list == nullptr && i < t_.layers; ++i)
      t_.compressions.push_back(i > 2 && i % 2 == 1 ? kChosenCompression : kPlainCompression);
    for (size_t i = 0; list != nullptr && ok_ && i < list->items.size(); ++i)
      name == "layer_types" ? add_compression_word(list->items[i])
                            : add_compression(list->items[i]);
    if (!ok_) return;
    if (static_cast<int64_t>(t_.compressions.size()) < t_.layers)
      return refuse(
          "E127",
          fmt::format("{} names {} of the {} layers", name, t_.compressions.size(), t_.layers),
          place({name, "num_hidden_layers"}));
    // What is named beyond them is of prediction modules.
    t_.compressions.resize(static_cast<size_t>(t_.layers));
    t_.shared_values = true;
    check_compressed_attention();
  }

  void check_compressed_attention() {
    if (t_.kv_heads != 1)
      refuse("E127",
             fmt::format("num_key_value_heads = {}: all heads share compressed keys", t_.kv_heads),
             place({"num_key_value_heads", "compress_ratios"}), "it is 1");
    if (t_.heads % t_.out_groups != 0)
      refuse("E127",
             fmt::format("o_groups = {} does not divide num_attention_heads = {}", t_.out_groups,
                         t_.heads),
             place({"o_groups", "num_attention_heads"}), "each group of heads is projected apart");
    if (!t_.attention_sinks)
      refuse("E130", "not supported yet: compressed keys without attention sinks",
             place({"attention_sinks"}), "attention_sinks: true");
    if (t_.positions != Positions::rotary || t_.attention_gate || t_.qk_norm || t_.value_norm ||
        t_.branch_norms || t_.parallel_block || t_.bidirectional || t_.attention_output_bias ||
        t_.attention_bias || t_.encoder_layers > 0 || !t_.mixers.empty() || !t_.bare.empty())
      refuse("E130",
             "not supported yet: compressed keys beside gates, norms of queries, keys or branches, "
             "biases, other mixers, an encoder, parallel branches or positions that are not rotary",
             keys_.mark);
  }

  // Which layers choose keys themselves.
  void read_indexers() {
    if (!chooses_latents(t_)) return;
    if (find("indexer_types") != nullptr)
      read_indexer_types();
    else if (find("index_topk_pattern") != nullptr)
      read_indexer_pattern();
    else
      read_indexer_interval();
    if (ok_ && !t_.indexers.empty() && t_.indexers.front() == 0)
      refuse("E127", "the first layer has no choice of keys to share",
             place({"indexer_types", "index_topk_pattern", "index_skip_topk_offset",
                    "index_topk_freq"}));
  }

  // `full` or `shared` for each layer (GLM-5.2).
  void read_indexer_types() {
    const Value* types = find("indexer_types");
    if (types->kind != Value::Kind::sequence)
      return refuse("E107", "'indexer_types' must be a list of words", types->mark);
    for (const Value& type : types->items) {
      if (type.text != "full" && type.text != "shared")
        return refuse("E125", "'indexer_types' cannot have '" + escape_text(type.text) + '\'',
                      type.mark, "each is full or shared");
      t_.indexers.push_back(type.text == "full");
    }
    cut_indexers("indexer_types");
  }

  // ... or F and S (GLM-5).
  void read_indexer_pattern() {
    const Value* pattern = find("index_topk_pattern");
    const auto letters = read_text(*pattern, "index_topk_pattern", problems_);
    ok_ = ok_ && letters.has_value();
    for (const char letter : letters.value_or("")) {
      if (letter != 'F' && letter != 'S')
        return refuse("E125",
                      "'index_topk_pattern' cannot have '" + escape_text({&letter, 1}) + '\'',
                      pattern->mark, "each layer is F, with an indexer, or S, which shares one");
      t_.indexers.push_back(letter == 'F');
    }
    cut_indexers("index_topk_pattern");
  }

  // What is named beyond the layers is of prediction modules.
  void cut_indexers(const char* key) {
    if (!ok_) return;
    if (static_cast<int64_t>(t_.indexers.size()) < t_.layers)
      return refuse("E127",
                    fmt::format("{} names {} of the {} layers", key, t_.indexers.size(), t_.layers),
                    place({key, "num_hidden_layers"}));
    t_.indexers.resize(static_cast<size_t>(t_.layers));
  }

  // One of so many, from an offset on (GLM-5.2).
  void read_indexer_interval() {
    const int64_t every = whole("index_topk_freq", 1, kMostLayers, 1);
    const int64_t offset = whole("index_skip_topk_offset", 0, kMostLayers, 2);
    if (every == 1 || !ok_) return;
    for (int64_t i = 0; i < t_.layers; ++i)
      t_.indexers.push_back(std::max<int64_t>(i - offset + 1, 0) % every == 0);
  }

  void read_sizes() {
    read_layers();
    t_.hidden = needed("hidden_size", kMostWidth);
    t_.heads = needed("num_attention_heads", kMostHeads);
    t_.vocab = needed("vocab_size", kMostRows);
    t_.max_positions = t_.positions == Positions::learned
                           ? needed("max_position_embeddings", kMostRows)
                           : whole("max_position_embeddings", 1, kMostRows, 0);
    if (t_.kv_rank > 0) {  // heads have widths of their own and share nothing
      t_.kv_heads = t_.heads;
      t_.head_dim = t_.qk_nope_dim + t_.qk_rope_dim;
    } else {
      const bool one = flag("multi_query", false) && !grouped_falcon();
      t_.kv_heads = one ? 1 : whole("num_key_value_heads", 1, kMostHeads, t_.heads);
      t_.head_dim = whole("head_dim", 1, kMostHeads, 0);
      read_blocks();
    }
  }

  // Those of an encoder and a decoder are counted apart.
  void read_layers() {
    t_.encoder_layers = whole("num_encoder_layers", 0, kMostLayers, 0);
    if (t_.encoder_layers == 0) {
      read_words();
      if (words_.size() > static_cast<size_t>(kMostLayers))
        return refuse("E123", fmt::format("more than {} layers are named", kMostLayers),
                      place({"hybrid_override_pattern", "layer_types"}));
      const bool counted = !words_.empty() && find("num_hidden_layers") == nullptr;
      t_.layers =
          counted ? static_cast<int64_t>(words_.size()) : needed("num_hidden_layers", kMostLayers);
      check_words();
      read_indexers();
      t_.mtp_layers = whole("num_nextn_predict_layers", 0, kMostModules, 0);
      return;
    }
    t_.layers = t_.encoder_layers + whole("num_decoder_layers", 1, kMostLayers, t_.encoder_layers);
    if (whole("num_nextn_predict_layers", 0, kMostModules, 0) > 0)
      refuse("E130", "multi-token prediction of a decoder with an encoder is not supported yet",
             place({"num_nextn_predict_layers"}));
  }

  // What each layer is, where the file says it layer by layer.
  void read_words() {
    if (const Value* pattern = find("hybrid_override_pattern")) {
      const auto text = read_text(*pattern, "hybrid_override_pattern", problems_);
      ok_ = ok_ && text.has_value();
      for (const char letter : text.value_or("")) add_word(std::string(1, letter), pattern->mark);
      return;
    }
    if (const Value* windows = find("hybrid_layer_pattern")) return read_window_bits(*windows);
    const Value* types = find("layer_types");
    if (types != nullptr && types->kind != Value::Kind::sequence)
      return refuse("E107", "'layer_types' must be a list of words", types->mark);
    if (types == nullptr) return;
    if (keys_.find("compress_ratios") != nullptr) return;  // read_compressions()
    const bool matter = words_matter();
    for (const Value& type : types->items) {
      const bool known = layer_word(type.text).has_value();
      add_word(known || matter ? type.text : "attention", type.mark);
    }
    const auto attends = [](LayerWord w) {
      return w == LayerWord::attention || w == LayerWord::window;
    };
    if (!matter && std::ranges::all_of(words_, attends)) words_.clear();
  }

  // 1 for each layer with a window, else 0 (MiMo-V2).
  void read_window_bits(const Value& bits) {
    if (bits.kind != Value::Kind::sequence)
      return refuse("E107", "'hybrid_layer_pattern' must be a list of 0 and 1", bits.mark);
    for (const Value& bit : bits.items) {
      const auto n = read_whole(bit, "hybrid_layer_pattern", problems_, 0, 1);
      ok_ = ok_ && n.has_value();
      if (!ok_) return;
      words_.push_back(*n == 1 ? LayerWord::window : LayerWord::attention);
    }
  }

  // Whether there is something that one layer has and another does not.
  bool words_matter() {
    if (find("linear_mixer") != nullptr || flag("one_branch_layers", false)) return true;
    return whole("sliding_window", 0, kMostRows, 0) > 0 && flag("use_sliding_window", true);
  }

  void add_word(const std::string& written, const Mark& mark) {
    if (!ok_) return;
    const std::optional<LayerWord> word = layer_word(written);
    if (!word)
      return refuse("E130", "layers of type '" + escape_text(written) + "' are not supported yet",
                    mark,
                    "full_attention, sliding_attention, linear_attention (mamba), moe and mlp are; "
                    "in a pattern *, M, E and -");
    if (*word == LayerWord::recurrent && find("linear_mixer") == nullptr)
      return refuse("E130",
                    "not supported yet: linear attention (layers of type '" + written + "')", mark,
                    "linear_mixer says which: gated_delta_net or mamba2");
    words_.push_back(*word);
  }

  void check_words() {
    // A model that says every how many-th layer attends; the others do what linear_mixer says.
    if (words_.empty() && ok_ && find("full_attention_interval") != nullptr &&
        find("linear_mixer") != nullptr) {
      const int64_t interval = whole("full_attention_interval", 1, kMostLayers, 1);
      for (int64_t i = 1; i <= t_.layers; ++i)
        words_.push_back(i % interval == 0 ? LayerWord::attention : LayerWord::recurrent);
    }
    // ... or which ones do (Bamba).
    if (const Value* attend = find("attn_layer_indices"); attend != nullptr && words_.empty()) {
      if (attend->kind != Value::Kind::sequence || find("linear_mixer") == nullptr)
        return refuse("E107", "'attn_layer_indices' must be a list of layers, beside linear_mixer",
                      attend->mark);
      words_.assign(static_cast<size_t>(ok_ ? t_.layers : 0), LayerWord::recurrent);
      for (const Value& item : attend->items) {
        const auto n = read_whole(item, "attn_layer_indices", problems_, 0, kMostLayers);
        ok_ = ok_ && n.has_value();
        if (!ok_) return;
        if (*n >= t_.layers)
          return refuse(
              "E127",
              fmt::format("attn_layer_indices has layer {} of {}, counted from 0", *n, t_.layers),
              place({"attn_layer_indices", "num_hidden_layers"}));
        words_[static_cast<size_t>(*n)] = LayerWord::attention;
      }
    }
    if (words_.empty() || !ok_) return;
    const auto named = static_cast<int64_t>(words_.size());
    const bool pattern = find("hybrid_override_pattern") != nullptr;
    const std::string_view by = pattern ? "hybrid_override_pattern"
                                : find("hybrid_layer_pattern") != nullptr ? "hybrid_layer_pattern"
                                                                          : "layer_types";
    if (pattern ? named != t_.layers : named < t_.layers)
      return refuse("E127", fmt::format("{} names {} of the {} layers", by, named, t_.layers),
                    place({by, "num_hidden_layers"}));
    words_.resize(static_cast<size_t>(t_.layers));
  }

  bool any_layer(LayerWord word) const {
    return std::find(words_.begin(), words_.end(), word) != words_.end();
  }

  void read_mixers() {
    const bool alone = flag("one_branch_layers", false) || any_layer(LayerWord::experts) ||
                       any_layer(LayerWord::mlp);
    const bool recurs = any_layer(LayerWord::recurrent);
    if (alone && words_.empty()) missing_.emplace_back("layer_types");
    if (!ok_ || (!alone && !recurs)) return;
    const auto mixer =
        static_cast<Mixer>(word("linear_mixer", kMixers, static_cast<int>(Mixer::gated_delta_net)));
    for (const LayerWord w : words_) {
      const bool mixes = w != LayerWord::experts && w != LayerWord::mlp;
      t_.mixers.push_back(w == LayerWord::recurrent ? mixer
                          : mixes                   ? Mixer::attention
                                                    : Mixer::none);
      if (alone) t_.bare.push_back(mixes);
    }
    if (alone) check_prediction();
    if (!recurs) return;
    Recurrence& r = t_.recurrence;
    r.heads = needed("linear_num_value_heads", kMostHeads);
    read_recurrent_head_dim();
    r.groups = needed("linear_num_key_heads", kMostHeads);
    r.state = needed("linear_key_head_dim", kMostHeads);
    r.conv = whole("linear_conv_kernel_dim", 0, kMostHeads, 0);
    r.chunk = needed("linear_chunk_size", kMostWidth);
    r.conv_bias = r.conv > 0 && flag("linear_conv_bias", false);
    r.bias = flag("linear_bias", false);
  }

  // `auto`: the heads together are as wide as the model, expanded (Bamba, Granite 4).
  void read_recurrent_head_dim() {
    Recurrence& r = t_.recurrence;
    const Value* written = find("linear_value_head_dim");
    if (written == nullptr || written->text != "auto") {
      r.head_dim = needed("linear_value_head_dim", kMostHeads);
      return;
    }
    const int64_t width = whole("mamba_expand", 1, kMostHeads, 2) * t_.hidden;
    r.head_dim = width / r.heads;
    if (!ok_ || !missing_.empty()) return;
    if (width % r.heads != 0)
      refuse("E127",
             fmt::format("linear_num_value_heads = {} does not divide mamba_expand * hidden_size = "
                         "{}",
                         r.heads, width),
             place({"linear_num_value_heads", "hidden_size"}), "or give linear_value_head_dim");
    else if (r.head_dim > kMostHeads)
      refuse("E123", fmt::format("heads of mamba_expand * hidden_size / {} are too wide", r.heads),
             place({"linear_num_value_heads", "hidden_size"}));
  }

  // Modules that predict further tokens have attention and experts, one after the other.
  void check_prediction() {
    if (t_.mtp_layers == 0) return;
    const Value* types = find("mtp_layers_block_type");
    const Value* pattern = find("mtp_hybrid_override_pattern");
    if (types != nullptr && types->kind != Value::Kind::sequence)
      return refuse("E107", "'mtp_layers_block_type' must be a list of words", types->mark);
    if (pattern != nullptr && !pattern->is_scalar())
      return refuse("E107", "'mtp_hybrid_override_pattern' must be a word", pattern->mark);
    std::vector<std::optional<LayerWord>> of;
    if (types != nullptr)
      for (const Value& type : types->items) of.push_back(layer_word(type.text));
    else if (pattern != nullptr)
      for (const char letter : pattern->text) of.push_back(layer_word({&letter, 1}));
    const std::vector<std::optional<LayerWord>> known{
        LayerWord::attention, t_.experts > 0 ? LayerWord::experts : LayerWord::mlp};
    if (!of.empty() && of != known)
      refuse("E130",
             "not supported yet: prediction modules of other layers than attention and "
             "experts",
             (types != nullptr ? types : pattern)->mark);
  }

  void check_mixers() {
    const Recurrence& r = t_.recurrence;
    if (r.heads > 0 && r.heads % r.groups != 0)
      refuse("E127",
             fmt::format("linear_num_key_heads = {} does not divide linear_num_value_heads = {}",
                         r.groups, r.heads),
             place({"linear_num_key_heads", "linear_num_value_heads"}),
             "each group of keys serves the same number of heads");
    if (!t_.mixers.empty() && t_.parallel_block)
      refuse("E130", "not supported yet: attention beside the MLP in a model with other mixers",
             place({"parallel_attn", "linear_mixer"}));
    if (t_.attention_gate && t_.kv_rank > 0)
      refuse("E130", "not supported yet: a gate after latent attention",
             place({"attn_output_gate"}));
  }

  void read_experts() {
    t_.experts = whole("num_experts", 0, kMostExperts, 0);
    // Layers that are named one by one have experts where they say so.
    const bool named = any_layer(LayerWord::experts) || flag("one_branch_layers", false);
    if (named && !any_layer(LayerWord::experts)) t_.experts = 0;
    // Gemma 4: beside the experts of every layer stands the MLP, with norms of their own.
    t_.expert_norms = flag("enable_moe_block", false);
    if (names_by_default(family_, "enable_moe_block") && !t_.expert_norms) t_.experts = 0;
    if (ok_ && t_.expert_norms && t_.experts == 0) missing_.emplace_back("num_experts");
    if (ok_ && any_layer(LayerWord::experts) && t_.experts == 0)
      refuse("E127", "layers are named that have experts (moe, E), but num_experts is 0",
             place({"num_experts", "layer_types", "hybrid_override_pattern"}));
    if (t_.experts > 0) {
      t_.moe_latent = whole("moe_latent_size", 0, kMostWidth, 0);
      t_.experts_per_token = needed("num_experts_per_tok", kMostExperts);
      t_.moe_ffn = needed("moe_intermediate_size", kMostWidth);
      t_.shared_ffn = whole("shared_expert_intermediate_size", 0, kMostWidth,
                            whole("n_shared_experts", 0, kMostShared, 0) * t_.moe_ffn);
      if (t_.expert_norms) read_mlp_beside();
      t_.shared_gate = t_.shared_ffn > 0 && flag("shared_expert_gate", false);
      t_.router_bias = flag("router_bias", false);
      t_.router_groups = whole("n_group", 0, kMostExperts, 0);
      t_.router_top_groups = whole("topk_group", 0, kMostExperts, 0);
      t_.dense_layers = whole("first_k_dense_replace", 0, kMostLayers, 0);
      read_expert_layers();
    }
    const bool shared_alone = t_.experts == 0 && find("intermediate_size") == nullptr &&
                              find("shared_expert_intermediate_size") != nullptr;
    if (shared_alone)
      t_.ffn = whole("shared_expert_intermediate_size", 1, kMostWidth * 16, 1);
    else if (!blocks_.empty())
      t_.ffn = std::max<int64_t>(t_.ffn, 1);
    else if (find("intermediate_size") != nullptr)
      t_.ffn = whole("intermediate_size", 1, kMostWidth * 16, 1);
    else if (t_.experts > 0 && t_.dense_layers == 0 && t_.expert_layers.empty())
      t_.ffn = t_.moe_ffn;
    else if (t_.gated)  // no rule: frameworks round 8/3 of hidden differently
      missing_.emplace_back("intermediate_size");
    else
      t_.ffn = 4 * t_.hidden;
  }

  // It takes the place of shared experts.
  void read_mlp_beside() {
    t_.shared_ffn = needed("intermediate_size", kMostWidth);
    for (const std::string_view key : {"moe_latent_size", "shared_expert_gate", "n_shared_experts",
                                       "shared_expert_intermediate_size"}) {
      const Value* v = find(key);
      if (v == nullptr || v->text == "0" || v->text == "false" || v->text == "False") continue;
      refuse("E130", fmt::format("not supported yet: {} beside enable_moe_block", key),
             place({key}), "leave it out: the MLP of intermediate_size stands beside the experts");
    }
  }

  // Which layers have experts: DeepSeek's moe_layer_freq (layer % freq = 0), Qwen's
  // decoder_sparse_step and Llama 4's interleave_moe_layer_step ((layer + 1) % step = 0), from the
  // leading dense layers on and but for those that mlp_only_layers names.
  void read_expert_layers() {
    const Value* bits = find("moe_layer_freq");
    const bool listed = bits != nullptr && bits->kind == Value::Kind::sequence;
    const int64_t every = listed ? 1 : whole("moe_layer_freq", 1, kMostLayers, 1);
    const int64_t step = whole("decoder_sparse_step", 1, kMostLayers, 1);
    std::vector<uint8_t> with(static_cast<size_t>(ok_ ? t_.layers : 0), 1);
    for (size_t i = 0; i < with.size(); ++i) {
      const auto layer = static_cast<int64_t>(i);
      with[i] = layer >= t_.dense_layers && layer % every == 0 && (layer + 1) % step == 0;
      if (any_layer(LayerWord::experts)) with[i] = words_[i] == LayerWord::experts;
    }
    if (listed) read_expert_bits(*bits, with);
    read_dense_list(with);
    read_mlp_types(with);
    const auto first = std::find(with.begin(), with.end(), 1);
    if (std::find(first, with.end(), 0) == with.end()) {
      t_.dense_layers = std::max(t_.dense_layers, static_cast<int64_t>(first - with.begin()));
    } else {
      t_.dense_layers = 0;
      t_.expert_layers = std::move(with);
    }
  }

  // 1 for each layer with experts, else 0 (MiMo-V2).
  void read_expert_bits(const Value& bits, std::vector<uint8_t>& with) {
    if (bits.items.size() < with.size())
      return refuse(
          "E127",
          fmt::format("moe_layer_freq names {} of the {} layers", bits.items.size(), with.size()),
          bits.mark);
    for (size_t i = 0; i < with.size(); ++i) {
      const auto n = read_whole(bits.items[i], "moe_layer_freq", problems_, 0, 1);
      ok_ = ok_ && n.has_value();
      if (!ok_) return;
      with[i] = *n == 1;
    }
    t_.dense_layers = 0;  // as far as the list says it
  }

  void read_dense_list(std::vector<uint8_t>& with) {
    const Value* list = find("mlp_only_layers");
    if (list == nullptr) return;
    if (list->kind != Value::Kind::sequence)
      return refuse("E107", "'mlp_only_layers' must be a list of layers", list->mark);
    for (const Value& item : list->items) {
      const auto n = read_whole(item, "mlp_only_layers", problems_, 0, kMostLayers);
      ok_ = ok_ && n.has_value();
      if (n && *n < static_cast<int64_t>(with.size())) with[static_cast<size_t>(*n)] = 0;
    }
  }

  // `hash_moe` for the first layers, then `moe` (DeepSeek-V4): counts the first.
  bool hashes(std::string_view type, size_t layer) {
    if (type != "hash_moe" && type != "moe") return false;
    if (layer == 0) t_.hashed_layers = 0;
    const auto before = static_cast<int64_t>(layer);
    if (type == "hash_moe" && t_.hashed_layers == before) ++t_.hashed_layers;
    return type == "moe" || t_.hashed_layers > before;
  }

  // `dense` or `sparse` for each layer (GLM-5).
  void read_mlp_types(std::vector<uint8_t>& with) {
    const Value* types = find("mlp_layer_types");
    if (types == nullptr || !ok_) return;
    if (types->kind != Value::Kind::sequence || types->items.size() < with.size())
      return refuse("E127", "'mlp_layer_types' must be a list of words, one a layer", types->mark);
    for (size_t i = 0; i < with.size(); ++i) {
      const Value& type = types->items[i];
      if (keys_.find("num_hash_layers") != nullptr && hashes(type.text, i)) continue;
      if (type.text != "sparse" && type.text != "dense")
        return refuse("E125", "'mlp_layer_types' cannot have '" + escape_text(type.text) + '\'',
                      type.mark, "each is dense or sparse");
      with[i] = type.text == "sparse";
    }
    t_.dense_layers = 0;  // as far as the list says it
  }

  void refuse_missing() {
    std::string names;
    for (size_t i = 0; i < missing_.size(); ++i)
      names += (i == 0 ? "" : i + 1 == missing_.size() ? " and " : ", ") + missing_[i];
    refuse("E126", "the model needs " + names, keys_.mark);
  }

  void check_heads() {
    if (t_.head_dim == 0) {
      t_.head_dim = t_.hidden / t_.heads;
      if (t_.hidden % t_.heads != 0)
        refuse("E127",
               fmt::format("num_attention_heads = {} does not divide hidden_size = {}", t_.heads,
                           t_.hidden),
               place({"num_attention_heads", "hidden_size"}),
               "give head_dim if the heads together are not as wide as the model");
    }
    if (t_.heads % t_.kv_heads != 0)
      refuse("E127",
             fmt::format("num_key_value_heads = {} does not divide num_attention_heads = {}",
                         t_.kv_heads, t_.heads),
             place({"num_key_value_heads", "num_attention_heads"}),
             "each key-value head serves the same number of query heads");
  }

  void check_experts() {
    if (t_.experts == 0) return;
    if (t_.experts_per_token > t_.experts)
      refuse("E127",
             fmt::format("num_experts_per_tok = {} is more than the {} experts",
                         t_.experts_per_token, t_.experts),
             place({"num_experts_per_tok", "num_experts"}));
    if (t_.dense_layers > t_.layers)
      refuse("E127",
             fmt::format("{} dense layers are more than num_hidden_layers = {}", t_.dense_layers,
                         t_.layers),
             place({"first_k_dense_replace", "mlp_only_layers", "num_hidden_layers"}));
  }

  // Whether layers without a window have sizes of their own: a width, or keys that are the values.
  bool has_global_shape() {
    if (find("global_head_dim") != nullptr) return true;
    const bool shared = flag("attention_k_eq_v", false);
    // A model that names the others, if as null, has such layers.
    if (shared && keys_.find("global_head_dim") == nullptr &&
        keys_.find("num_global_key_value_heads") == nullptr)
      refuse("E127", "attention_k_eq_v says nothing without the sizes of such layers",
             place({"attention_k_eq_v"}), "give global_head_dim or num_global_key_value_heads");
    return shared;
  }

  // Sizes of heads and MLPs, where layers differ in them.
  void read_shapes() {
    std::vector<LayerShape> of(static_cast<size_t>(t_.layers), own_shape(t_));
    const auto window = [&](size_t i) {
      return (t_.windows.empty() ? t_.sliding_window : t_.windows[i]) > 0;
    };
    if (!blocks_.empty()) {  // (Puzzle, arXiv 2411.19146)
      for (size_t i = 0; i < of.size(); ++i) {
        if (blocks_[i].kv_heads > 0) of[i].kv_heads = blocks_[i].kv_heads;
        if (blocks_[i].ffn > 0) of[i].ffn = blocks_[i].ffn;
      }
    } else if (has_global_shape()) {  // of layers without a window (Gemma 4)
      LayerShape shape = own_shape(t_);
      shape.head_dim = shape.value_dim = whole("global_head_dim", 1, kMostHeads, shape.head_dim);
      shape.shared_values = flag("attention_k_eq_v", false);
      if (shape.shared_values)
        shape.kv_heads = whole("num_global_key_value_heads", 1, kMostHeads, shape.kv_heads);
      for (size_t i = 0; i < of.size(); ++i)
        if (!window(i)) of[i] = shape;
    } else if (find("swa_num_key_value_heads") != nullptr) {  // of layers with one (MiMo-V2)
      LayerShape shape = own_shape(t_);
      shape.heads = whole("swa_num_attention_heads", 1, kMostHeads, shape.heads);
      shape.kv_heads = whole("swa_num_key_value_heads", 1, kMostHeads, shape.kv_heads);
      shape.head_dim = whole("swa_head_dim", 1, kMostHeads, shape.head_dim);
      shape.value_dim = whole("swa_v_head_dim", 1, kMostHeads, shape.value_dim);
      shape.sinks = flag("add_swa_attention_sink_bias", shape.sinks);
      for (size_t i = 0; i < of.size(); ++i)
        if (window(i)) of[i] = shape;
    }
    if (ok_) set_shapes(of);
  }

  void set_shapes(const std::vector<LayerShape>& of) {
    const LayerShape own = own_shape(t_);
    for (const LayerShape& shape : of) {
      const auto known = std::find(t_.shapes.begin(), t_.shapes.end(), shape);
      const auto at = static_cast<size_t>(known - t_.shapes.begin());
      if (shape != own && known == t_.shapes.end()) {
        check_heads_of(shape);
        t_.shapes.push_back(shape);
      }
      constexpr size_t kMostShapes = 255;
      if (t_.shapes.size() > kMostShapes)
        return refuse("E130", "not supported yet: layers of more than 256 sizes",
                      place({"block_configs"}));
      t_.shape_of.push_back(shape == own ? uint8_t{0} : static_cast<uint8_t>(at + 1));
    }
    if (t_.shapes.empty()) t_.shape_of.clear();
  }

  void check_heads_of(const LayerShape& shape) {
    if (shape.heads % shape.kv_heads == 0) return;
    refuse("E127",
           fmt::format("{} key-value heads of some layers do not divide their {} heads",
                       shape.kv_heads, shape.heads),
           place({"swa_num_key_value_heads", "num_global_key_value_heads", "block_configs"}),
           "each key-value head serves the same number of query heads");
  }

  // What one layer has: 0 key-value heads without attention, ffn 0 without an MLP.
  struct Block {
    int64_t kv_heads = 0, ffn = 0;
  };

  // {"attention": {"n_heads_in_group": 8, "no_op": false}, "ffn": {"ffn_mult": 5.25, ...}} for each
  // layer: modeling_decilm.py of nvidia/Llama-3_3-Nemotron-Super-49B-v1.
  void read_blocks() {
    const Value* list = find("block_configs");
    if (list == nullptr || !ok_) return;
    if (list->kind != Value::Kind::sequence ||
        static_cast<int64_t>(list->items.size()) != t_.layers)
      return refuse("E127", "'block_configs' must be a list of mappings, one a layer", list->mark);
    for (const Value& item : list->items) {
      Block block;
      const Value* attention = part_of_block(item, "attention", "n_heads_in_group");
      const Value* ffn = part_of_block(item, "ffn", "ffn_mult");
      if (!ok_) return;
      if (attention != nullptr) {
        const auto group = read_whole(*attention, "n_heads_in_group", problems_, 1, t_.heads);
        ok_ = ok_ && group.has_value();
        if (!ok_) return;
        if (t_.heads % *group != 0)
          return refuse("E127",
                        fmt::format("n_heads_in_group = {} does not divide num_attention_heads = "
                                    "{}",
                                    *group, t_.heads),
                        attention->mark);
        block.kv_heads = t_.heads / *group;
      }
      if (ffn != nullptr) {
        const auto times = read_number(*ffn, "ffn_mult", problems_, true);
        ok_ = ok_ && times.has_value();
        if (!ok_) return;
        constexpr double kMost = 1024;
        if (!(*times > 0 && *times <= kMost))
          return refuse("E123", "'ffn_mult' must be above 0, at most 1024", ffn->mark);
        constexpr int64_t kUnit = 256;
        const auto width = static_cast<int64_t>(2 * *times * static_cast<double>(t_.hidden) / 3);
        block.ffn = (width + kUnit - 1) / kUnit * kUnit;
      }
      if (attention == nullptr && ffn == nullptr)
        return refuse("E130", "not supported yet: a layer that does nothing", item.mark);
      blocks_.push_back(block);
    }
    take_blocks();
  }

  // The number that says the size of a block's part; nullptr if there is no such part.
  const Value* part_of_block(const Value& block, std::string_view name, std::string_view size) {
    const Value* part = block.find(name);
    if (part == nullptr || !part->is_mapping()) {
      refuse("E127", fmt::format("each of 'block_configs' must have a mapping '{}'", name),
             block.mark);
      return nullptr;
    }
    const auto is_set = [&](std::string_view key) {
      const Value* v = part->find(key);
      return v != nullptr && v->kind != Value::Kind::null && v->text != "false" &&
             v->text != "False";
    };
    for (const std::string_view other :
         {"replace_with_linear", "window_length", "sparsify", "num_sink_tokens"})
      if (is_set(other)) {
        refuse("E130", fmt::format("not supported yet: {} of a layer in block_configs", other),
               part->find(other)->mark);
        return nullptr;
      }
    if (is_set("no_op")) return nullptr;
    const Value* found = part->find(size);
    if (found == nullptr || !found->is_scalar())
      refuse("E127", fmt::format("a layer in 'block_configs' does not say its {}", size),
             part->mark);
    return found;
  }

  // The widest layer is the model's own.
  void take_blocks() {
    bool all_attend = true, all_have_mlps = true;
    t_.kv_heads = 0;
    for (const Block& b : blocks_) {
      t_.kv_heads = std::max(t_.kv_heads, b.kv_heads);
      t_.ffn = std::max(t_.ffn, b.ffn);
      all_attend = all_attend && b.kv_heads > 0;
      all_have_mlps = all_have_mlps && b.ffn > 0;
    }
    if (t_.kv_heads == 0) t_.kv_heads = t_.heads;
    for (const Block& b : blocks_) {
      if (!all_attend) t_.mixers.push_back(b.kv_heads > 0 ? Mixer::attention : Mixer::none);
      if (!all_have_mlps) t_.bare.push_back(b.ffn == 0);
    }
  }

  // One window for all layers, or a list if some have none.
  void read_window() {
    const int64_t window = whole("sliding_window", 0, kMostRows, 0);
    if (window == 0 || !flag("use_sliding_window", true) || !ok_) return;
    std::vector<int64_t> windows(static_cast<size_t>(t_.layers), window);
    if (!words_.empty()) {
      for (size_t i = 0; i < windows.size(); ++i)
        if (words_[i] != LayerWord::window) windows[i] = 0;
    } else if (find("sliding_window_pattern") != nullptr) {  // the last of so many has none
      const int64_t pattern = whole("sliding_window_pattern", 1, kMostLayers, 1);
      for (size_t i = 0; i < windows.size(); ++i)
        if ((static_cast<int64_t>(i) + 1) % pattern == 0) windows[i] = 0;
    } else if (find("max_window_layers") != nullptr) {  // layers from this one on have the window
      const int64_t first = std::min(t_.layers, whole("max_window_layers", 0, kMostLayers, 0));
      std::fill_n(windows.begin(), first, 0);
    }
    if (!ok_ || windows.empty()) return;
    const auto differs = [&](int64_t w) { return w != windows.front(); };
    if (std::any_of(windows.begin(), windows.end(), differs))
      t_.windows = std::move(windows);
    else
      t_.sliding_window = windows.front();
  }

  void check_window_of_compressed() {
    if (t_.compressions.empty()) return;
    if (t_.windows.empty() && t_.sliding_window > 0) return;
    refuse("E130", "not supported yet: compressed keys in layers without a window",
           place({"use_sliding_window", "max_window_layers", "sliding_window_pattern"}),
           "every layer has that of sliding_window");
  }

  // In floating point: those of one layer fit 64 bits, their sum may not.
  void check_size() {
    std::map<LayerKind, double> of_kind;
    double total =
        static_cast<double>(prediction_parameters(t_)) +
        static_cast<double>(t_.hidden) * static_cast<double>(2 * t_.vocab + t_.max_positions);
    for (int64_t i = 0; i < t_.layers; ++i) {
      const auto [known, is_new] = of_kind.try_emplace(layer_kind(t_, i), 0);
      if (is_new) known->second = static_cast<double>(layer_parameters(t_, i));
      total += known->second;
    }
    if (total > kMostParameters)
      refuse("E123", "the model has more than 10^15 parameters", keys_.mark);
  }

  const ModelFamily& family_;
  const Value& keys_;
  Problems& problems_;
  Transformer t_;
  std::vector<std::string> missing_;
  std::vector<LayerWord> words_;  // of each layer; empty: all attend
  std::vector<Block> blocks_;     // of each layer; empty: none is described so
  bool ok_ = true;
};

}  // namespace

std::optional<Transformer> resolve_model(const Value& model, Problems& problems,
                                         const FileReader& read_file,
                                         std::vector<std::string>* warnings) {
  const std::optional<ModelKeys> keys = collect_model_keys(model, problems, read_file, warnings);
  if (!keys) return {};
  return ModelReader(*keys, problems).read();
}

}  // namespace stepcast
