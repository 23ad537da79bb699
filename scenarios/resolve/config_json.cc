// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/resolve/model.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr std::array<std::string_view, 5> kDecoders{"text_config", "llm_config", "language_config",
                                                    "thinker_config", "language_model_config"};

// Said of the whole model, where the decoder's mapping does not say it itself.
constexpr std::array<std::string_view, 2> kOfTheWhole{"model_type", "tie_word_embeddings"};

struct MissingPart {
  std::string_view key;
  std::string_view part;
};

// Keys that only models with a part have which is not simulated.
constexpr MissingPart kMissingParts[] = {
    {"add_cross_attention", "cross-attention of a decoder"},
    {"is_encoder_decoder", "an encoder before the decoder"},
    {"cross_attention_layers", "layers that attend to images"},
    {"ssm_state_size", "state-space layers"},
    {"mamba_num_heads", "state-space layers"},
    {"mamba_d_state", "state-space layers"},
    {"state_size", "state-space layers"},
    {"d_state", "state-space layers"},
    {"ssm_cfg", "state-space layers"},
    {"hybrid_override_pattern", "layers of several architectures"},
    {"lru_width", "recurrent layers"},
    {"linear_num_value_heads", "linear attention"},
    {"linear_attn_config", "linear attention"},
    {"attn_type_list", "lightning attention"},
    {"index_topk", "sparse attention with an indexer"},
    {"sparse_attention_config", "attention to chosen blocks of keys"},
    {"compress_ratios", "attention to compressed keys"},
    {"compress_rates", "attention to compressed keys"},
    {"o_lora_rank", "output projections of low rank"},
    {"o_groups", "output projections of groups of heads"},
    {"num_hash_layers", "experts that a table chooses"},
    {"hc_mult", "several residual streams"},
    {"block_configs", "layers of different sizes"},
    {"swa_num_key_value_heads", "heads of other sizes in layers with a window"},
    {"global_head_dim", "heads of other sizes in layers without a window"},
    {"hidden_size_per_layer_input", "embeddings of each layer"},
    {"enable_moe_block", "an MLP beside the experts, each with norms of its own"},
    {"lm_head_bias", "a bias of the head"},
    {"attention_out_bias", "a bias of the output projection alone"},
    {"num_kv_shared_layers", "keys and values that several layers share"},
    {"attn_output_gate", "a gate after attention"},
    {"mla_use_output_gate", "a gate after attention"},
    {"qk_layernorm", "layer norms of queries and keys"},
};

bool is_nothing(const Value& v) {
  if (v.is_scalar())
    return v.text.empty() || v.text == "false" || v.text == "False" || v.text == "0" ||
           v.text == "null" || v.text == "None";
  return v.items.empty() && v.members.empty();
}

// Whether models of the family are known to have what the key is about: their defaults name it.
bool family_has(const ModelFamily& family, const Value& model, std::string_view key) {
  const ConfigKey known = find_config_key(family, key);
  if (known.use != KeyUse::read) return false;
  if (names_by_default(family, known.name)) return true;
  // A scenario that says which mixer its layers have.
  return known.name.starts_with("linear_") && model.find("linear_mixer") != nullptr;
}

bool is_part(const Member& m) {
  return m.value.is_mapping() && m.key.ends_with("_config") && m.key != "quantization_config" &&
         m.key != "generation_config" && m.key != "compression_config";
}

}  // namespace

ConfigJson open_config(Value file) {
  ConfigJson config{std::move(file), {}};
  // thinker_config holds text_config; no file has more levels.
  for (int level = 0; level < 3; ++level) {
    const auto decoder = std::find_if(kDecoders.begin(), kDecoders.end(), [&](std::string_view k) {
      const Value* v = config.model.find(k);
      return v != nullptr && v->is_mapping();
    });
    if (decoder == kDecoders.end()) break;
    for (const Member& m : config.model.members)
      if (is_part(m) && m.key != *decoder) config.left_out.push_back(m.key);
    Value inner = std::move(*config.model.find(*decoder));
    for (const std::string_view key : kOfTheWhole)
      for (Member& m : config.model.members)
        if (m.key == key && inner.find(key) == nullptr) inner.members.push_back(std::move(m));
    config.model = std::move(inner);
  }
  if (config.model.find("n_layer") == nullptr && config.model.find("num_hidden_layers") == nullptr)
    return config;
  // A decoder whose own keys stand beside those of another part.
  for (const Member& m : config.model.members)
    if (is_part(m) && (m.key == "vision_config" || m.key == "audio_config"))
      config.left_out.push_back(m.key);
  std::erase_if(config.model.members, [](const Member& m) {
    return is_part(m) && (m.key == "vision_config" || m.key == "audio_config");
  });
  return config;
}

bool refuse_missing_parts(const Value& model, const ModelFamily& family, Problems& problems) {
  const Value* type = model.find("model_type");
  const bool t5 = type != nullptr && type->text == "t5";  // has its encoder in its family
  bool any = false;
  for (const MissingPart& p : kMissingParts) {
    const Value* v = model.find(p.key);
    if (v == nullptr || is_nothing(*v) || (t5 && p.key == "is_encoder_decoder")) continue;
    if (family_has(family, model, p.key)) continue;
    // MiniMax writes 1 for softmax attention, 0 for the other.
    const auto other = [](const Value& kind) { return kind.text == "0"; };
    if (p.key == "attn_type_list" && std::ranges::none_of(v->items, other)) continue;
    constexpr size_t kShown = 24;
    std::string value = v->is_scalar() ? " = " + v->text.substr(0, kShown) : std::string();
    if (v->text.size() > kShown) value += "...";
    problems.add("E130", fmt::format("not supported yet: {} ({}{})", p.part, p.key, value), v->mark,
                 std::max<int>(1, static_cast<int>(v->text.size())), {},
                 "models are decoders with attention, recurrent layers as in Qwen3-Next and "
                 "Nemotron-H, and T5");
    any = true;
  }
  return any;
}

std::optional<std::string> as_llama(const Value& model) {
  const ModelFamily* llama = find_base_family("llama");
  Value known;
  known.kind = Value::Kind::mapping;
  known.mark = model.mark;
  Member preset{"preset", model.mark, {}};
  preset.value.kind = Value::Kind::scalar;
  preset.value.text = "llama";
  known.members.push_back(std::move(preset));
  std::vector<std::string> unknown;
  for (const Member& m : model.members) {
    if (m.key == "model_type") continue;
    if (find_config_key(*llama, m.key).use == KeyUse::unknown)
      unknown.push_back(m.key);
    else
      known.members.push_back(m);
  }
  Problems problems;
  problems.add_source({"config.json", ""});
  if (refuse_missing_parts(model, *llama, problems)) return {};
  const std::optional<Transformer> t =
      resolve_model(known, problems, [](const std::string&, const Mark&) { return SourceRef{}; });
  if (!t || problems.any()) return {};
  constexpr size_t kShown = 8;
  std::string without;
  for (size_t i = 0; i < std::min(kShown, unknown.size()); ++i)
    without += (i == 0 ? "" : ", ") + escape_text(unknown[i]);
  if (unknown.size() > kShown) without += fmt::format(" and {} more", unknown.size() - kShown);
  return fmt::format(
      "as a decoder like Llama it would have {} parameters, taken for granted RMS norms, a gated "
      "MLP and rotary positions{}",
      parameters(*t), without.empty() ? "" : "; the keys " + without + " would not count");
}

}  // namespace stepcast
