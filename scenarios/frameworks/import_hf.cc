// SPDX-License-Identifier: Apache-2.0
// import_hf: a config.json of Hugging Face, which describes the model and says nothing about the
// run.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/resolve/model.h"
#include "scenarios/resolve/model_families.h"
#include "scenarios/schema/tree.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// The family of the file; adds E125 or E126.
const ModelFamily* family_of(const Value& config, Problems& problems) {
  const Value* type = config.find("model_type");
  if (type == nullptr || !type->is_scalar()) {
    problems.add("E126", "the config.json has no model_type", config.mark, 1, {},
                 "if it is a decoder like Llama or GPT, a scenario can say so itself: model: "
                 "{preset: llama, hf: config.json}");
    return nullptr;
  }
  if (const ModelFamily* family = find_model_type(type->text)) return family;
  std::vector<std::string_view> known;
  for (const ModelFamily& f : model_types()) known.push_back(f.name);
  problems.add("E125", fmt::format("unknown model_type '{}'", type->text), type->mark,
               static_cast<int>(std::max<size_t>(1, type->text.size())),
               did_you_mean(type->text, known),
               fmt::format("known: {}; if it is a decoder like Llama or GPT, write `model: "
                           "{{preset: llama, hf: config.json}}` in a scenario and go on",
                           join(known)));
  return nullptr;
}

}  // namespace

std::optional<ConfigModel> draft_config_model(const Value& config, Problems& problems,
                                              ScenarioDraft& draft, ImportCounts& counts) {
  const ModelFamily* family = family_of(config, problems);
  if (family == nullptr) return {};
  ConfigModel model;
  draft.set_text("model.model_type", family->name,
                 {"class defaults for what is not stated", config.find("model_type")->mark});
  ++counts.used;
  for (const Member& m : config.members) {
    if (m.key == "model_type") continue;
    const ConfigKey key = find_config_key(*family, m.key);
    if (key.use == KeyUse::unknown) {
      counts.unknown.push_back(
          {m.key, m.key_mark, std::string(closest(m.key, config_vocabulary()))});
    } else if (key.use == KeyUse::ignored) {
      ++counts.ignored;
    } else {
      ++counts.used;
      draft.set(fmt::format("model.{}", m.key), to_flow(m.value), {"", m.value.mark});
      if (key.name == "max_position_embeddings" && m.value.is_scalar())
        model.max_positions = python_whole(m.value.text).value_or(0);
    }
  }
  return model;
}

void check_config_model(const ImportSources& in, const Value& config) {
  if (in.problems.any() || in.states("model")) return;
  const ModelFamily* family = find_model_type(config.find("model_type")->text);
  Value model = config;
  std::erase_if(model.members, [&](const Member& m) {
    return m.key != "model_type" && find_config_key(*family, m.key).use == KeyUse::unknown;
  });
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

void import_hf(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
               ImportCounts& counts) {
  const Value config = read_mapping(in, in.file, "a config.json");
  if (in.problems.any()) return;
  const auto model = draft_config_model(config, in.problems, draft, counts);
  if (!model) return;
  check_config_model(in, config);
  draft_cluster(cluster, 8, "a config.json says nothing about the run", draft);
  const std::string says_nothing = "a config.json says nothing about the run; -s sets it";
  draft.assume("batch.global", "64", says_nothing);
  draft.assume("batch.micro", "1", says_nothing);
  draft.assume("batch.seq", fmt::format("{}", usual_sequence(model->max_positions)), says_nothing);
}

}  // namespace stepcast
