// SPDX-License-Identifier: Apache-2.0
// stepcast topology show FILE: what a file says about a cluster, printed and drawn.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "report/svg/topology.h"
#include "report/text/topology.h"
#include "scenarios/cluster_section.h"
#include "scenarios/presets.h"
#include "sim/diagnostic.h"
#include "sim/results/step_row.h"
#include "stepcast/topology_view.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "topology/import/imported_topology.h"

namespace stepcast::cli {
namespace {

constexpr const char* kTopologyFooter =
    "FILE is what `nvidia-smi topo -m`, NCCL (NCCL_TOPO_DUMP_FILE) or `ibnetdiscover` wrote, or a\n"
    "scenario, whose cluster is shown; which of them is seen from what is in it.\n\n"
    "Bandwidths are those of the data sheet in one direction; NCCL counts: what NCCL plans with.\n"
    "down : up of a switch above 1 is oversubscribed.";

constexpr std::array<std::string_view, 4> kKinds{"nvidia-smi", "nccl-topo", "ibnetdiscover",
                                                 "scenario"};

bool looks_like_scenario(const std::string& file, std::string_view text) {
  for (const std::string_view end : {".yaml", ".yml", ".json"})
    if (file.ends_with(end)) return true;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text.find('\0') != std::string_view::npos) return false;
  if (text[first] == '{') return true;
  for (const std::string_view key : {"cluster:", "model:", "extends:", "name:"})
    if (text.starts_with(key) || text.find('\n' + std::string(key)) != std::string_view::npos)
      return true;
  return false;
}

std::string kind_of(const std::string& file, std::string_view text, const std::string& asked) {
  if (!asked.empty()) return std::string(kKinds[parse_word("--kind", asked, kKinds)]);
  switch (topology_format_of(text)) {
    case TopologyFormat::nvidia_smi: return "nvidia-smi";
    case TopologyFormat::nccl_xml: return "nccl-topo";
    case TopologyFormat::ibnetdiscover: return "ibnetdiscover";
    case TopologyFormat::other: break;
  }
  if (looks_like_scenario(file, text)) return "scenario";
  throw file_error(
      "E320",
      text.find_first_not_of(" \t\r\n") == std::string_view::npos
          ? "the file is empty"
          : "neither a topology nor a scenario",
      file,
      "read are `nvidia-smi topo -m`, NCCL's topology XML, ibnetdiscover and scenarios; --kind "
      "names one");
}

TopologyView imported(ImportedTopology topology) {
  TopologyView view = topology_view(topology.graph, topology.nccl);
  for (TopologyFact& f : topology.facts)
    view.facts.push_back({std::move(f.key), f.value, std::move(f.text)});
  for (TopologyWarning& w : topology.warnings) view.warnings.push_back({w.line, std::move(w.text)});
  return view;
}

// "dgx-h100", "dgx-h100 x 4", where no such file is.
void refuse_preset(const std::string& name) {
  const std::string preset = name.substr(0, name.find(' '));
  const std::vector<std::string_view> presets = preset_names(PresetKind::cluster);
  if (std::ranges::find(presets, preset) == presets.end() || std::filesystem::exists(name)) return;
  throw file_error("E101", "there is no file '" + name + "': that is the name of a preset", name,
                   fmt::format("a scenario names it, and its cluster is shown: `stepcast topology "
                               "show my.yaml -s cluster={}`; `stepcast presets clusters --show {}` "
                               "says what is in it",
                               shell_word(name), preset));
}

TopologyView read_view(const Arguments& args) {
  refuse_preset(args.file);
  const std::string text = read_whole_file(args.file);
  const std::string file = shown_name(args.file);
  const std::string kind = kind_of(file, text, args.kind);
  if (!args.gpu.empty() && kind != "nvidia-smi")
    usage_error("E004", "--gpu is for what nvidia-smi printed",
                "other files say what their GPUs are");
  if (kind != "scenario") refuse_scenario_options(args, args.file);
  TopologyView view;
  if (kind == "nvidia-smi") {
    std::optional<GpuArch> arch;
    if (!args.gpu.empty()) arch = preset_node("", args.gpu).gpu.arch;
    view = imported(import_nvidia_smi(text, file, arch));
    view.format = "nvidia-smi topo -m";
  } else if (kind == "nccl-topo") {
    view = imported(import_nccl_xml(text, file));
    view.format = "NCCL topology";
  } else if (kind == "ibnetdiscover") {
    view = imported(import_ibnetdiscover(text, file));
    view.format = "ibnetdiscover";
  } else {
    view = cluster_view(load(args.file, args).cluster);
  }
  view.title = file;
  return view;
}

int topology_show_command(const Arguments& args, const Terminal& terminal) {
  const TopologyView view = read_view(args);
  if (!args.svg.empty()) deliver(topology_svg(view), args.svg, args.force);
  if (args.svg == "-") return 0;
  write_stdout(args.json ? topology_json(view) : topology_text(view, terminal.out));
  return 0;
}

}  // namespace

void add_topology(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* topology = app.add_subcommand("topology", "Show what a cluster is made of");
  topology->group("Commands")->require_subcommand(0, 1);
  CLI::App* show = add_command(*topology, "show", "Print and draw a cluster's devices and links",
                               chosen, topology_show_command);
  show->footer(kTopologyFooter);
  add_file(show, args, "FILE", "topology or scenario; - is standard input");
  show->add_option(
          "--kind", args.kind,
          "of the file: nvidia-smi, nccl-topo, ibnetdiscover or scenario; else as it looks")
      ->option_text("KIND");
  add_gpu(show, args, "GPU preset, for what nvidia-smi printed: b200-sxm (how fast a NVLink is)");
  add_svg(show, args, "write a picture; - prints the picture alone");
  add_force(show, args);
  add_scenario_options(show, args, "cluster.nodes=4");
  add_common(show, args);
}

}  // namespace stepcast::cli
