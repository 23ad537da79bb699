// SPDX-License-Identifier: Apache-2.0
#include "scenarios/model_levels.h"

#include <array>
#include <utility>
#include <vector>

#include "scenarios/config_keys.h"
#include "scenarios/fields.h"
#include "scenarios/foreign_names.h"
#include "scenarios/number.h"
#include "scenarios/presets.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
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
    problems_.add("E107", std::string("'") + key + "' must be a name", value.mark);
    return {};
  }

  Levels start(const ModelFamily& family) {
    const uint32_t source = problems_.add_source(
        {"defaults of " + std::string(family.name), std::string(family.defaults), true});
    return {
        &family, std::string(family.name), {{WrittenIn::defaults, parse_yaml(problems_, source)}}};
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
    const uint32_t source = problems_.add_source({"preset " + name.text, std::string(*text), true});
    const Value value = parse_yaml(problems_, source);
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
    const std::optional<uint32_t> source = read_file_(hf.text, hf.mark);
    if (!source) return {};
    Value file = parse_yaml(problems_, *source);
    if (!file.is_mapping()) {
      // Null is also what a text that is no YAML gives, which has been reported already.
      if (file.kind != Value::Kind::null || !problems_.any())
        problems_.add("E107", "a config.json must be a mapping", file.mark);
      return {};
    }
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
    for (const Level& level : levels_.all) add(level);
    if (!ok_) return {};
    return std::move(keys_);
  }

 private:
  void add(const Level& level) {
    std::vector<std::pair<std::string_view, const Member*>> given;  // on this level
    for (const Member& m : level.value.members) {
      if (is_selector(level.origin, m.key)) continue;
      const ConfigKey key = find_config_key(*levels_.family, m.key);
      if (key.use == KeyUse::unknown) refuse_unknown(level.origin, m);
      if (key.use == KeyUse::refused) refuse_if_true(m);
      if (key.use != KeyUse::read) continue;
      for (const auto& [name, first] : given)
        if (name == key.name) refuse_second_name(m, *first);
      given.emplace_back(key.name, &m);
      set(key.name, m);
    }
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

  void refuse_if_true(const Member& m) {
    const std::optional<bool> on = read_flag(m.value, m.key, problems_);
    if (on && !*on) return;
    ok_ = false;
    if (on)
      problems_.add("E130", m.key + " = true is not supported yet", m.value.mark,
                    length_of(m.value.text), {}, "models are decoders without cross-attention");
  }

  void refuse_second_name(const Member& m, const Member& first) {
    ok_ = false;
    problems_.add("E103", "'" + m.key + "' and '" + first.key + "' are two names of the same",
                  m.key_mark, length_of(m.key), {}, "leave one out");
  }

  Problems& problems_;
  const Levels& levels_;
  Value keys_;
  bool ok_ = true;
};

}  // namespace

std::optional<ModelKeys> collect_model_keys(const Value& model, Problems& problems,
                                            const FileReader& read_file) {
  const std::optional<Levels> levels =
      Collector(problems, read_file).collect(model, WrittenIn::scenario);
  if (!levels) return {};
  std::optional<Value> keys = Overlay(problems, *levels).lay();
  if (!keys) return {};
  keys->mark = model.mark;
  return ModelKeys{levels->family, levels->name, std::move(*keys)};
}

}  // namespace stepcast
