// SPDX-License-Identifier: Apache-2.0
// stepcast presets [KIND] [--show NAME]: the models, GPUs, clusters, software and schedules that
// have a name.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "schedules/schedule.h"
#include "sim/text.h"
#include "stepcast/preset_list.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

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

std::string list_text(std::span<const PresetList> lists, const Terminal& terminal) {
  std::string text;
  for (const PresetList& list : lists) {
    if (!text.empty()) text += '\n';
    text += paint(list.kind, Tone::strong, terminal.out) + '\n';
    int width = 0;
    for (const PresetEntry& entry : list.entries)
      width = std::max(width, display_width(entry.name));
    for (const PresetEntry& entry : list.entries)
      text += wrap(entry.summary, "  " + pad_right(entry.name, width) + "  ", terminal.out.width);
    if (list.kind == "schedules")
      text +=
          '\n' + wrap(
                     "p ranks, v chunks a rank, m microbatches, tF, tI, tW, tB = tI + tW times of "
                     "F, I, W and B. `stepcast presets --show NAME` has sources and parameters.",
                     "  ", terminal.out.width);
  }
  return text;
}

int presets_command(const Arguments& args, const Terminal& terminal) {
  const bool is_kind = args.kind.empty() || std::ranges::count(preset_kinds(), args.kind) > 0;
  const std::vector<PresetList> lists = preset_lists(is_kind ? args.kind : "");
  std::string show = args.show;
  if (!is_kind) {
    // What is no kind, nor meant for one, is a name to show.
    if (!show.empty() || !did_you_mean(args.kind, preset_kinds()).empty())
      parse_word("kind of presets", args.kind, preset_kinds());
    show = args.kind;
  }
  if (show.empty()) {
    write_stdout(args.json ? presets_json(lists) : list_text(lists, terminal));
    return 0;
  }
  const PresetEntry& entry = find_preset(show, lists);
  if (args.json)
    write_stdout(preset_json(entry));
  else
    write_stdout(entry.family != nullptr ? text_of(*entry.family, terminal.out.width) : entry.text);
  return 0;
}

}  // namespace

void add_presets(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "presets", "List what has a name already", chosen, presets_command);
  sub->add_option("KIND", args.kind,
                  "models, gpus, clusters, software or schedules, or a name to show; else all")
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
