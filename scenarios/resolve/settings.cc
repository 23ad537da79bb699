// SPDX-License-Identifier: Apache-2.0
// What `stepcast explain` lists of a scenario, and its hash: the values of the rows, and the sizes
// of the model, which stand in presets and files of their own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/resolve/resolve.h"
#include "sim/text.h"

namespace stepcast {

namespace {

struct ModelKey {
  std::string_view key;  // config.json's
  int64_t Transformer::*field;
};
constexpr std::array<ModelKey, 9> kModelKeys{
    {{"num_hidden_layers", &Transformer::layers},
     {"hidden_size", &Transformer::hidden},
     {"num_attention_heads", &Transformer::heads},
     {"num_key_value_heads", &Transformer::kv_heads},
     {"head_dim", &Transformer::head_dim},
     {"intermediate_size", &Transformer::ffn},
     {"vocab_size", &Transformer::vocab},
     {"max_position_embeddings", &Transformer::max_positions},
     {"sliding_window", &Transformer::sliding_window}}};

// What most models have nothing of: 0.  Dropout is that of kernels.dropout.
std::vector<std::pair<std::string_view, int64_t>> rare_parts(const Transformer& m) {
  return {{"attention_sinks", m.attention_sinks},
          {"shared_values", m.shared_values},
          {"value_norm", m.value_norm},
          {"branch_norms", m.branch_norms},
          {"qk_norm_weights", static_cast<int64_t>(m.qk_norm_weights)},
          {"bidirectional", m.bidirectional},
          {"parallel_block", m.parallel_block},
          {"shared_norm", m.shared_norm},
          {"encoder_layers", m.encoder_layers},
          {"mtp_layers", m.mtp_layers},
          {"relative_buckets", m.relative_buckets},
          {"token_types", m.token_types},
          {"embedding_norm", m.embedding_norm},
          {"masked_head", m.masked_head},
          {"experts", m.experts},
          {"experts_per_token", m.experts_per_token},
          {"moe_ffn", m.moe_ffn},
          {"shared_ffn", m.shared_ffn},
          {"dense_layers", m.dense_layers},
          {"router_groups", m.router_groups},
          {"router_top_groups", m.router_top_groups},
          {"router_bias", m.router_bias},
          {"shared_gate", m.shared_gate},
          {"expert_norms", m.expert_norms},
          {"q_rank", m.q_rank},
          {"kv_rank", m.kv_rank},
          {"qk_nope_dim", m.qk_nope_dim},
          {"qk_rope_dim", m.qk_rope_dim},
          {"v_dim", m.v_dim},
          {"index_topk", m.index_topk},
          {"index_heads", m.index_heads},
          {"index_dim", m.index_dim},
          {"out_groups", m.out_groups},
          {"out_rank", m.out_rank},
          {"more_streams", m.streams - 1},
          {"hashed_layers", m.hashed_layers},
          {"moe_latent", m.moe_latent},
          {"attention_gate", m.attention_gate},
          {"linear_heads", m.recurrence.heads},
          {"linear_head_dim", m.recurrence.head_dim},
          {"linear_groups", m.recurrence.groups},
          {"linear_state", m.recurrence.state},
          {"linear_conv", m.recurrence.conv},
          {"linear_conv_bias", m.recurrence.conv_bias},
          {"linear_bias", m.recurrence.bias},
          {"linear_chunk", m.recurrence.chunk}};
}

// "36 x gated_delta_net, 12 x attention": what mixes the tokens of how many layers.
std::string mixers_text(const Transformer& m) {
  constexpr std::array<std::pair<Mixer, std::string_view>, 4> kNames{
      {{Mixer::mamba2, "mamba2"},
       {Mixer::gated_delta_net, "gated_delta_net"},
       {Mixer::attention, "attention"},
       {Mixer::none, "none"}}};
  std::string text;
  for (const auto& [mixer, name] : kNames)
    if (const auto count = std::ranges::count(m.mixers, mixer); count > 0)
      text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, name);
  return text;
}

// Everything of the model that the result depends on.
std::string model_text(const Transformer& m) {
  std::string text;
  for (const ModelKey& k : kModelKeys) text += fmt::format("{} ", m.*k.field);
  for (const bool flag : {m.gated, m.tied, m.attention_bias, m.attention_output_bias, m.mlp_bias,
                          m.norm_bias, m.qk_norm})
    text += flag ? '1' : '0';
  for (const int kind :
       {static_cast<int>(m.norm), static_cast<int>(m.activation), static_cast<int>(m.positions)})
    text += fmt::format(" {}", kind);
  for (const auto& [key, value] : rare_parts(m))
    if (value != 0) text += fmt::format(" {}={}", key, value);
  for (const int64_t window : m.windows) text += fmt::format(" w{}", window);
  for (const int64_t tokens : m.compressions) text += fmt::format(" c{}", tokens);
  for (const uint8_t experts : m.expert_layers) text += experts != 0 ? 'e' : 'd';
  if (!m.mixers.empty()) text += " mixers ";
  for (const Mixer mixer : m.mixers) text += fmt::format("{}", static_cast<int>(mixer));
  if (!m.bare.empty()) text += " bare ";
  for (const uint8_t bare : m.bare) text += bare != 0 ? '1' : '0';
  for (const LayerShape& s : m.shapes)
    text += fmt::format(" shape {} {} {} {} {}{} {}", s.heads, s.kv_heads, s.head_dim, s.value_dim,
                        s.sinks ? 's' : '-', s.shared_values ? 'k' : '-', s.ffn);
  if (!m.shape_of.empty()) text += " shapes";
  for (const uint8_t shape : m.shape_of) text += fmt::format(" {}", shape);
  if (!m.indexers.empty()) text += " indexers ";
  for (const uint8_t own : m.indexers) text += own != 0 ? '1' : '0';
  return text;
}

// `model` and its sizes, each with where it comes from.
std::vector<Setting> model_settings(const Value& written, const Transformer& model,
                                    const Transformer& unpruned, int64_t unit) {
  std::string base = written.text;
  if (const Value* preset = written.find("preset"); preset != nullptr) base = preset->text;
  if (const Value* hf = written.find("hf"); hf != nullptr) base = hf->text;
  const bool pasted = base.empty();
  std::vector<Setting> all{{"model", pasted ? model.name : base, origin_of(written.mark)}};
  for (const ModelKey& k : kModelKeys) {
    const int64_t value = model.*k.field;
    if (value == 0) continue;
    const Value* own = written.find(k.key);
    std::string origin = own != nullptr ? origin_of(own->mark)
                         : pasted       ? "default: of this kind of model"
                                        : "model " + base;
    const int64_t before = unpruned.*k.field;
    if (k.field != &Transformer::vocab && value != before)
      origin = fmt::format("derived: {}, of which `prune` takes {}", before, before - value);
    if (k.field == &Transformer::vocab && value != before)
      origin = fmt::format("derived: {} padded to a multiple of parallel.vocab_multiple * tp = {}",
                           before, unit);
    all.push_back({"model." + std::string(k.key), std::to_string(value), std::move(origin)});
  }
  if (!model.mixers.empty())
    all.push_back({"model.mixers", mixers_text(model), "derived: of the layers' types"});
  return all;
}

}  // namespace

std::vector<Setting> settings_of(const FieldValues& v, const Scenario& s,
                                 const Transformer& unpruned) {
  std::vector<Setting> settings = v.settings();
  const auto after_texts = std::find_if(settings.begin(), settings.end(),
                                        [](const Setting& x) { return !is_label(x.path); });
  const std::vector<Setting> sizes = model_settings(*v.value("model"), s.model, unpruned,
                                                    s.plan.tp * v.whole("parallel.vocab_multiple"));
  settings.insert(after_texts, sizes.begin(), sizes.end());
  return settings;
}

void add_hashes(const FieldValues& v, const ScenarioFiles& files, Scenario& s) {
  const std::string text = v.canonical(is_label) + model_text(s.model) +
                           (s.plan.teacher ? model_text(*s.plan.teacher) : "");
  s.hash = hex_of(hash_text(text));
  s.identity = hash_text_128(text);
  for (const SourceRef& file : files.named_data())
    s.identity = hash_text_128(file->text, hash_text_128("\nfile\n", s.identity));
}

}  // namespace stepcast
