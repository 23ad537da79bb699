// SPDX-License-Identifier: Apache-2.0
// import_hf: a config.json of Hugging Face, which describes the model and says nothing about the
// run.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/resolve/config_json.h"
#include "scenarios/resolve/model.h"
#include "scenarios/resolve/model_families.h"
#include "scenarios/schema/tree.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// `preset: llama` or `preset: gpt` that the user states for a model of an unknown type.
const ModelFamily* stated_family(const ImportSources& in) {
  return find_base_family(in.stated("model.preset"));
}

// Whose parts the model may have, known or not.
const ModelFamily& part_family(const Value& model, const ImportSources& in) {
  const Value* type = model.find("model_type");
  const ModelFamily* known = stated_family(in);
  if (known == nullptr && type != nullptr) known = find_model_type(type->text);
  return known != nullptr ? *known : *find_base_family("llama");
}

// How to go on with a model of an unknown type.
std::string offer(const Value& model) {
  if (const auto llama = as_llama(model))
    return *llama +
           "; -s model.preset=llama takes it so (`hf: config.json` beside `preset: llama` in a "
           "scenario)";
  return "its keys do not say the sizes of a decoder like Llama or GPT";
}

// The family of the model; adds E125 or E126.
const ModelFamily* family_of(const Value& model, const ImportSources& in) {
  if (const ModelFamily* stated = stated_family(in)) return stated;
  const Value* type = model.find("model_type");
  if (type == nullptr || !type->is_scalar()) {
    in.problems.add("E126", "the config.json has no model_type", model.mark, 1, {}, offer(model));
    return nullptr;
  }
  if (const ModelFamily* family = find_model_type(type->text)) return family;
  std::vector<std::string_view> known;
  for (const ModelFamily& f : model_types()) known.push_back(f.name);
  in.problems.add("E125", fmt::format("unknown model_type '{}'", type->text), type->mark,
                  static_cast<int>(std::max<size_t>(1, type->text.size())),
                  did_you_mean(type->text, known),
                  fmt::format("{}; known: {}", offer(model), join(known)));
  return nullptr;
}

// Files for several versions of a class write a value under both of its names.
void drop_second_names(const ModelFamily& family, Value& model) {
  // Names as texts of their own: a key's may be a view of a member, which erase_if moves.
  std::vector<std::pair<std::string, std::string>> said;
  std::erase_if(model.members, [&](const Member& m) {
    const ConfigKey key = find_config_key(family, m.key);
    if (key.use != KeyUse::read || !m.value.is_scalar()) return false;
    const std::pair<std::string, std::string> now{key.name, m.value.text};
    if (std::ranges::count(said, now) > 0) return true;
    said.push_back(now);
    return false;
  });
}

// Null, false and nothing stand for a part that the model does not have.
bool has_value(const Value& v) {
  return v.kind != Value::Kind::null && v.text != "false" && v.text != "null";
}

// A null stands for what a model has without the key, whatever its class's default is; in a
// scenario it would leave the key out, so that the class's default came back.
std::string stated_value(std::string_view key, const Value& value, const Value& model) {
  if (value.kind != Value::Kind::null) return to_flow(value);
  for (const std::string_view none : {"q_lora_rank", "sliding_window", "n_shared_experts"})
    if (key == none) return "0";
  for (const std::string_view flag :
       {"tie_word_embeddings", "attention_bias", "mlp_bias", "use_bias", "qkv_bias", "use_qk_norm",
        "norm_topk_prob", "use_sliding_window", "parallel_attn", "alibi"})
    if (key == flag) return "false";
  const auto size = [&](std::initializer_list<std::string_view> names) -> int64_t {
    for (const std::string_view name : names)
      if (const Value* v = model.find(name); v != nullptr && v->is_scalar())
        return python_whole(v->text).value_or(0);
    return 0;
  };
  const int64_t heads = size({"num_attention_heads", "n_head"});
  if (key == "num_key_value_heads" && heads > 0) return fmt::format("{}", heads);
  const int64_t hidden = size({"hidden_size", "n_embd"});
  if (key == "head_dim" && heads > 0 && hidden > 0 && hidden % heads == 0)
    return fmt::format("{}", hidden / heads);
  return to_flow(value);
}

}  // namespace

std::optional<ConfigModel> draft_config_model(const Value& file, const ImportSources& in,
                                              ScenarioDraft& draft, ImportCounts& counts) {
  ConfigJson config = open_config(file);
  if (refuse_missing_parts(config.model, part_family(config.model, in), in.problems)) return {};
  const ModelFamily* family = family_of(config.model, in);
  if (family == nullptr) return {};
  for (const std::string& part : config.left_out)
    draft.note(fmt::format("{}: not modelled, left out: the parameters are the decoder's", part));
  ConfigModel model;
  const Value* type = config.model.find("model_type");
  if (find_base_family(family->name) == family)
    draft.set_text("model.preset", family->name, "stated; the sizes are those of the file");
  else
    draft.set_text("model.model_type", family->name,
                   {type->text == family->name ? "class defaults for what is not stated"
                                               : fmt::format("{} is built the same", type->text),
                    type->mark});
  ++counts.used;
  drop_second_names(*family, config.model);
  for (const Member& m : config.model.members) {
    if (m.key == "model_type") continue;
    const ConfigKey key = find_config_key(*family, m.key);
    if (key.use == KeyUse::unknown && m.value.kind == Value::Kind::null) {
      ++counts.ignored;  // a part that the model does not have
    } else if (key.use == KeyUse::unknown) {
      counts.unknown.push_back(
          {m.key, m.key_mark, std::string(closest(m.key, config_vocabulary()))});
    } else if (key.use == KeyUse::ignored) {
      ++counts.ignored;
    } else if (key.use == KeyUse::left_out) {
      ++counts.ignored;
      if (has_value(m.value)) draft.left_out(m.key);
    } else {
      ++counts.used;
      draft.set(fmt::format("model.{}", m.key), stated_value(key.name, m.value, config.model),
                {"", m.value.mark});
      if (key.name == "max_position_embeddings" && m.value.is_scalar())
        model.max_positions = python_whole(m.value.text).value_or(0);
    }
  }
  model.keys = std::move(config.model);
  return model;
}

void check_config_model(const ImportSources& in, const ConfigModel& of) {
  if (in.problems.any() || in.states("model")) return;
  const ModelFamily* stated = stated_family(in);
  const ModelFamily* family =
      stated != nullptr ? stated : find_model_type(of.keys.find("model_type")->text);
  Value model = of.keys;
  std::erase_if(model.members,
                [&](const Member& m) { return stated != nullptr && m.key == "model_type"; });
  std::erase_if(model.members, [&](const Member& m) {
    const KeyUse use = find_config_key(*family, m.key).use;
    return m.key != "model_type" && (use == KeyUse::unknown || use == KeyUse::left_out);
  });
  if (stated != nullptr)
    model.members.push_back(
        {"preset", model.mark, word_value(std::string(stated->name), model.mark)});
  Value root;
  root.kind = Value::Kind::mapping;
  root.members.push_back({"model", model.mark, std::move(model)});
  for (const auto& [path, text] : in.set) {
    if (!path.starts_with("model.")) continue;
    const SourceRef source =
        in.problems.add_source({fmt::format("--set {}", path), text, Source::Kind::set});
    set_path(root, path, {source, 1, 1}, parse_yaml(in.problems, source), in.problems);
  }
  const FileReader no_file = [](const std::string&, const Mark&) { return SourceRef{}; };
  Problems trial = in.problems;
  resolve_model(*root.find("model"), trial, no_file);
  try {
    trial.throw_if_any();
  } catch (const InputError& e) {
    if (std::any_of(e.diagnostics.begin(), e.diagnostics.end(),
                    [](const Diagnostic& d) { return d.code != "E130"; }))
      in.problems = std::move(trial);
  }
}

std::optional<int64_t> draft_model_beside(const ImportSources& in, const std::string& whose,
                                          ScenarioDraft& draft, ImportCounts& counts) {
  if (in.config == nullptr && in.states_a_model()) {
    if (in.states("model")) draft.set("model", in.stated("model"), "-s");
    return 0;
  }
  if (in.config == nullptr) {
    in.problems.add("E332", whose + " does not say what model it trains", {in.file, 1, 1}, 1, {},
                    "--model config.json names it, or -s model=PRESET");
    return {};
  }
  const Value config = read_mapping(in, in.config, "a config.json");
  if (in.problems.any()) return {};
  const auto model = draft_config_model(config, in, draft, counts);
  if (!model) return {};
  check_config_model(in, *model);
  return model->max_positions;
}

void import_hf(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
               ImportCounts& counts) {
  const Value config = read_mapping(in, in.file, "a config.json");
  if (in.problems.any()) return;
  const auto model = draft_config_model(config, in, draft, counts);
  if (!model) return;
  check_config_model(in, *model);
  draft_cluster(cluster, 8, "a config.json says nothing about the run", draft);
  // The vocabulary is the model's as it is, unless somebody pads it.
  const Value* vocab = model->keys.find("vocab_size");
  draft.set("parallel.vocab_multiple", int64_t{1},
            {"the vocabulary is not padded", vocab == nullptr ? Mark{} : vocab->mark});
  const std::string says_nothing = "a config.json says nothing about the run; -s sets it";
  draft.assume("batch.global", "64", says_nothing);
  draft.assume("batch.micro", "1", says_nothing);
  draft.assume("batch.seq", fmt::format("{}", usual_sequence(model->max_positions)), says_nothing);
}

}  // namespace stepcast
