// SPDX-License-Identifier: Apache-2.0
#include "stepcast/preset_list.h"

#include <algorithm>
#include <array>

#include "report/json/writer.h"
#include "scenarios/document/files.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Value of a dotted path as it is written, "" if it is not there.
std::string text_at(const Value& root, std::string_view path) {
  const Value* v = &root;
  while (!path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    v = v->find(path.substr(0, dot));
    if (v == nullptr) return {};
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return v->text;
}

// A figure by which one chooses a preset: where it is, and what is said before it.
struct PresetFigure {
  std::string_view path;
  std::string_view name{};
  bool goes_on = false;  // with what is before it, without a comma
};

std::string summary_of(const Value& root, std::span<const PresetFigure> figures) {
  std::string s;
  for (const PresetFigure& f : figures) {
    const std::string text = text_at(root, f.path);
    if (text.empty()) continue;
    if (!s.empty()) s += f.goes_on ? " " : ", ";
    if (!f.name.empty()) s += std::string(f.name) + ' ';
    s += text;
  }
  return s;
}

std::span<const PresetFigure> figures_of(PresetKind kind, const Value& root) {
  static constexpr std::array<PresetFigure, 8> kModel{{{"num_hidden_layers", "layers"},
                                                       {"n_layer", "layers"},
                                                       {"hidden_size", "hidden"},
                                                       {"n_embd", "hidden"},
                                                       {"num_attention_heads", "heads"},
                                                       {"n_head", "heads"},
                                                       {"vocab_size", "vocabulary"},
                                                       {"n_routed_experts", "experts"}}};
  static constexpr std::array<PresetFigure, 3> kGpu{
      {{"memory", "memory"}, {"mem_bw", "at"}, {"peak.bf16", "bf16"}}};
  static constexpr std::array<PresetFigure, 5> kCluster{{{"node.gpus", "node of"},
                                                         {"node.gpu", "", true},
                                                         {"node.intra.bw", "NVLink"},
                                                         {"node.nics.count", "NICs"},
                                                         {"node.nics.bw", "of", true}}};
  static constexpr std::array<PresetFigure, 5> kClusterOfPcie{{{"node.gpus", "node of"},
                                                               {"node.gpu", "", true},
                                                               {"node.intra.bw", "PCIe"},
                                                               {"node.nics.count", "NICs"},
                                                               {"node.nics.bw", "of", true}}};
  static constexpr std::array<PresetFigure, 1> kSoftware{{{"summary"}}};
  switch (kind) {
    case PresetKind::software: return kSoftware;
    case PresetKind::model: return kModel;
    case PresetKind::gpu: return kGpu;
    case PresetKind::cluster:
      return text_at(root, "node.intra.kind") == "pcie" ? kClusterOfPcie : kCluster;
  }
  return {};
}

std::vector<PresetEntry> files_of(PresetKind kind) {
  std::vector<PresetEntry> entries;
  for (const std::string_view name : preset_names(kind)) {
    const std::string text(preset_text(kind, name).value_or(""));
    Problems problems;
    const Value root =
        parse_yaml(problems, problems.add_source({std::string(name), text, Source::Kind::preset}));
    entries.push_back({std::string(name), preset_summary(kind, root), text, nullptr});
  }
  return entries;
}

std::vector<PresetEntry> schedule_entries() {
  std::vector<PresetEntry> entries;
  for (const ScheduleFamily& family : schedule_families())
    entries.push_back({std::string(family.name), std::string(family.summary), "", &family});
  return entries;
}

void write_entry(JsonWriter& json, const PresetEntry& entry) {
  json.member("name", entry.name);
  if (entry.family == nullptr) {
    json.member("summary", entry.summary);
    return;
  }
  json.member("summary", entry.family->summary);
  json.member("source", entry.family->source);
  json.member("p2p", name_of(entry.family->p2p));
  json.values("aliases", entry.family->aliases);
  json.objects("parameters", entry.family->parameters, [&](const ScheduleParameter& p) {
    json.member("key", p.key);
    json.member("summary", p.summary);
  });
}

}  // namespace

std::string preset_summary(PresetKind kind, const Value& root) {
  return summary_of(root, figures_of(kind, root));
}

std::span<const std::string_view> preset_kinds() {
  static constexpr std::array<std::string_view, 5> kKinds{"models", "gpus", "clusters", "software",
                                                          "schedules"};
  return kKinds;
}

std::vector<PresetList> preset_lists(std::string_view kind) {
  const auto wanted = [&](std::string_view name) { return kind.empty() || kind == name; };
  std::vector<PresetList> lists;
  if (wanted("models")) lists.push_back({"models", files_of(PresetKind::model)});
  if (wanted("gpus")) lists.push_back({"gpus", files_of(PresetKind::gpu)});
  if (wanted("clusters")) lists.push_back({"clusters", files_of(PresetKind::cluster)});
  if (wanted("software")) lists.push_back({"software", files_of(PresetKind::software)});
  if (wanted("schedules")) lists.push_back({"schedules", schedule_entries()});
  return lists;
}

const PresetEntry& find_preset(const std::string& name, std::span<const PresetList> lists) {
  const ScheduleFamily* family = find_schedule_family(name);
  std::vector<std::string_view> all;
  for (const PresetList& list : lists) {
    for (const PresetEntry& entry : list.entries) {
      all.push_back(entry.name);
      if (entry.name == name || (entry.family != nullptr && entry.family == family)) return entry;
    }
  }
  const std::string near = did_you_mean(name, all);
  throw file_error("E006", "there is no preset '" + name + "'", {},
                   near.empty() ? "`stepcast presets` lists them" : near);
}

std::string presets_json(std::span<const PresetList> lists) {
  return json_document([&](JsonWriter& json) {
    for (const PresetList& list : lists)
      json.objects(list.kind, list.entries,
                   [&](const PresetEntry& entry) { write_entry(json, entry); });
  });
}

std::string preset_json(const PresetEntry& entry) {
  return json_document([&](JsonWriter& json) {
    write_entry(json, entry);
    if (entry.family == nullptr) json.member("text", entry.text);
  });
}

}  // namespace stepcast
