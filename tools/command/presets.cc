// SPDX-License-Identifier: Apache-2.0
// stepcast presets [KIND] [--show NAME]: the models, GPUs, clusters, software and schedules that
// have a name.
#include "scenarios/presets.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <optional>

#include "report/json/writer.h"
#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "schedules/schedule.h"
#include "sim/text.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

struct Entry {
  std::string name;
  std::string summary;                     // one line
  std::string text;                        // what --show prints
  const ScheduleFamily* family = nullptr;  // of a schedule
};

struct Kind {
  std::string_view name;
  std::vector<Entry> entries;
};

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

// The figures one chooses a preset by: each word is a path, "name=" in front of it says what it is.
std::string summary_of(const Value& root, std::span<const std::string_view> parts) {
  std::string s;
  for (std::string_view part : parts) {
    const size_t equals = part.find('=');
    const std::string text = text_at(root, part.substr(equals + 1));
    if (text.empty()) continue;
    if (!s.empty()) s += ", ";
    if (equals > 0) s += std::string(part.substr(0, equals)) + ' ';
    s += text;
  }
  return s;
}

std::span<const std::string_view> figures_of(PresetKind kind) {
  static constexpr std::array<std::string_view, 8> kModel{
      "layers=num_hidden_layers",  "layers=n_layer",
      "hidden=hidden_size",        "hidden=n_embd",
      "heads=num_attention_heads", "heads=n_head",
      "vocabulary=vocab_size",     "experts=n_routed_experts"};
  static constexpr std::array<std::string_view, 3> kGpu{"memory=memory", "at=mem_bw",
                                                        "bf16=peak.bf16"};
  static constexpr std::array<std::string_view, 4> kCluster{
      "node of=node.gpus", "GPU=node.gpu", "NVLink=node.intra.bw", "NIC=node.nics.bw"};
  static constexpr std::array<std::string_view, 1> kSoftware{"=summary"};
  switch (kind) {
    case PresetKind::software: return kSoftware;
    case PresetKind::model: return kModel;
    case PresetKind::gpu: return kGpu;
    case PresetKind::cluster: return kCluster;
  }
  return {};
}

std::vector<Entry> files_of(PresetKind kind) {
  std::vector<Entry> entries;
  for (const std::string_view name : preset_names(kind)) {
    const std::string text(preset_text(kind, name).value_or(""));
    Problems problems;
    const Value root =
        parse_yaml(problems, problems.add_source({std::string(name), text, Source::Kind::preset}));
    entries.push_back({std::string(name), summary_of(root, figures_of(kind)), text});
  }
  return entries;
}

std::string text_of(const ScheduleFamily& family, int width) {
  std::string text = std::string(family.name) + '\n' + wrap(family.summary, "  ", width);
  std::string aliases;
  for (const std::string_view alias : family.aliases)
    aliases += (aliases.empty() ? "" : ", ") + std::string(alias);
  if (!aliases.empty()) text += wrap(aliases, "  also called: ", width);
  text += wrap(family.source, "  source: ", width);
  if (!family.parameters.empty()) text += "  parameters, as --param KEY=VALUE\n";
  for (const ScheduleParameter& p : family.parameters) {
    const std::string first = "    " + std::string(p.key) + "  ";
    text += display_width(first) <= width / 2
                ? wrap(p.summary, first, width)
                : "    " + std::string(p.key) + '\n' + wrap(p.summary, "      ", width);
  }
  return text;
}

std::vector<Entry> schedules(int width) {
  std::vector<Entry> entries;
  for (const ScheduleFamily& family : schedule_families())
    entries.push_back(
        {std::string(family.name), std::string(family.summary), text_of(family, width), &family});
  return entries;
}

std::vector<Kind> chosen_kinds(const Arguments& args, int width) {
  if (!args.kind.empty())
    parse_word("kind of presets", args.kind,
               {"models", "gpus", "clusters", "software", "schedules"});
  const auto wanted = [&](std::string_view name) { return args.kind.empty() || args.kind == name; };
  std::vector<Kind> kinds;
  if (wanted("models")) kinds.push_back({"models", files_of(PresetKind::model)});
  if (wanted("gpus")) kinds.push_back({"gpus", files_of(PresetKind::gpu)});
  if (wanted("clusters")) kinds.push_back({"clusters", files_of(PresetKind::cluster)});
  if (wanted("software")) kinds.push_back({"software", files_of(PresetKind::software)});
  if (wanted("schedules")) kinds.push_back({"schedules", schedules(width)});
  return kinds;
}

// The entry of a preset, or of a schedule by any of its names.
const Entry& entry_of(const std::string& name, std::span<const Kind> kinds) {
  const ScheduleFamily* family = find_schedule_family(name);
  std::vector<std::string_view> all;
  for (const Kind& kind : kinds) {
    for (const Entry& entry : kind.entries) {
      all.push_back(entry.name);
      if (entry.name == name || (entry.family != nullptr && entry.family == family)) return entry;
    }
  }
  const std::string near = did_you_mean(name, all);
  usage_error("E006", "there is no preset '" + name + "'",
              near.empty() ? "`stepcast presets` lists them" : near);
}

void write_entry(JsonWriter& json, const Entry& entry) {
  json.member("name", entry.name);
  if (entry.family == nullptr) {
    json.member("summary", entry.summary);
    return;
  }
  json.member("summary", entry.family->summary);
  json.member("source", entry.family->source);
  json.values("aliases", entry.family->aliases);
  json.objects("parameters", entry.family->parameters, [&](const ScheduleParameter& p) {
    json.member("key", p.key);
    json.member("summary", p.summary);
  });
}

std::string list_json(std::span<const Kind> kinds) {
  return json_document([&](JsonWriter& json) {
    for (const Kind& kind : kinds)
      json.objects(kind.name, kind.entries, [&](const Entry& entry) { write_entry(json, entry); });
  });
}

std::string entry_json(const Entry& entry) {
  return json_document([&](JsonWriter& json) {
    write_entry(json, entry);
    if (entry.family == nullptr) json.member("text", entry.text);
  });
}

std::string list_text(std::span<const Kind> kinds, const Terminal& terminal) {
  std::string text;
  for (const Kind& kind : kinds) {
    if (!text.empty()) text += '\n';
    text += paint(kind.name, Tone::strong, terminal.out) + '\n';
    int width = 0;
    for (const Entry& entry : kind.entries) width = std::max(width, display_width(entry.name));
    for (const Entry& entry : kind.entries)
      text += wrap(entry.summary, "  " + pad_right(entry.name, width) + "  ", terminal.out.width);
    if (kind.name == "schedules")
      text +=
          '\n' + wrap(
                     "p ranks, v chunks a rank, m microbatches, tF, tI, tW, tB = tI + tW times of "
                     "F, I, W and B. `stepcast presets --show NAME` has sources and parameters.",
                     "  ", terminal.out.width);
  }
  return text;
}

int presets_command(const Arguments& args, const Terminal& terminal) {
  const std::vector<Kind> kinds = chosen_kinds(args, terminal.out.width);
  if (args.show.empty()) {
    write_stdout(args.json ? list_json(kinds) : list_text(kinds, terminal));
  } else {
    const Entry& entry = entry_of(args.show, kinds);
    write_stdout(args.json ? entry_json(entry) : entry.text);
  }
  return 0;
}

}  // namespace

void add_presets(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "presets", "List what has a name already", chosen, presets_command);
  sub->add_option("KIND", args.kind, "models, gpus, clusters, software or schedules; else all")
      ->option_text(" ");
  sub->add_option("--show", args.show, "print one of them whole: llama3-8b, zb-h1")
      ->option_text("NAME");
  sub->footer(
      "A scenario names them: model: llama3-8b, cluster: dgx-h100 x 2, cluster.node.gpu: "
      "b200-sxm,\n"
      "software: megatron-lm-2021, schedule: zb-h1.");
  add_common(sub, args);
}

}  // namespace stepcast::cli
