// SPDX-License-Identifier: Apache-2.0
#include "scenarios/cluster_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/presets.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "sim/diagnostic.h"
#include "sim/text.h"
#include "topology/import/imported_cluster.h"

namespace stepcast {
namespace {

void check_preset(PresetKind kind, const std::string& name) {
  if (name.empty() || preset_text(kind, name)) return;
  const bool gpu = kind == PresetKind::gpu;
  const std::vector<std::string_view> names = preset_names(kind);
  const std::string near = did_you_mean(name, names);
  throw file_error(
      "E125", fmt::format("there is no {} preset '{}'", gpu ? "GPU" : "cluster", name), {},
      near.empty() ? fmt::format("`stepcast presets {}` lists them", gpu ? "gpus" : "clusters")
                   : near);
}

// As a YAML scalar, in quotes only where it needs them.  A byte that is not printable is written as
// \xNN, so that different names stay different.
std::string scalar(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
  };
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  // Words of letters alone may mean something: null, true, nan.
  bool needs = text.empty() || !letter(text[0]) || std::all_of(text.begin(), text.end(), letter);
  for (const char c : text) needs = needs || !plain(c);
  if (!needs) return std::string(text);
  std::string s = "\"";
  for (const char c : text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      s += {'\\', 'x', kHex[byte / 16], kHex[byte % 16]};
      continue;
    }
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + '"';
}

// On one line of a comment.
std::string comment(std::string_view text) {
  return "# " + escape_text(text) + '\n';
}

std::string gigabits(Bandwidth b) {
  return short_decimal(b.value * 8 / 1e9, 2) + "Gb/s";
}

// "{a: 1, b: 2}"
class Flow {
 public:
  void add(const char* key, const std::string& value) {
    text_ += (text_.empty() ? "{" : ", ") + std::string(key) + ": " + value;
  }
  void add(const char* key, int64_t value) { add(key, std::to_string(value)); }
  bool empty() const { return text_.empty(); }
  std::string text() const { return text_ + '}'; }

 private:
  std::string text_;
};

class SectionWriter {
 public:
  SectionWriter(const ImportedTopology& found, const ClusterSource& source)
      : found_(found), source_(source), preset_(preset_node(source.preset, source.gpu)) {}

  std::string write() {
    const bool fabric = !found_.leaf_group.empty();
    if (fabric)
      write_fabric(imported_fabric(found_, preset_, source_.file));
    else
      write_node(imported_node(found_, source_.file));
    std::string text =
        comment("The cluster of a scenario, from " + source_.file + " (" + source_.kind + ").");
    text += comment("What is not stated here comes from " + origin() + ".");
    if (!notes_.empty() || !found_.warnings.empty()) text += "#\n";
    for (const std::string& note : notes_) text += comment("- " + note);
    for (const TopologyWarning& w : found_.warnings)
      text += comment("- " + (w.line > 0 ? fmt::format("line {}: ", w.line) : "") + w.text);
    return text + "cluster:\n" + body_;
  }

 private:
  std::string origin() const {
    if (source_.preset.empty()) return "GPU preset " + source_.gpu + " and defaults";
    return "cluster preset " + source_.preset +
           (source_.gpu.empty() ? "" : ", GPU preset " + source_.gpu);
  }

  void line(int depth, const std::string& text) {
    body_ += std::string(static_cast<size_t>(depth) * 2, ' ') + text + '\n';
  }

  void differs(const std::string& what, const std::string& here, const std::string& there) {
    if (source_.preset.empty() || here == there) return;
    notes_.push_back(what + ": " + here + ", where " + source_.preset + " has " + there);
  }

  void write_node(const ImportedNode& n) {
    notes_.insert(notes_.end(), n.notes.begin(), n.notes.end());
    if (!source_.preset.empty()) line(1, "preset: " + scalar(source_.preset));
    line(1, fmt::format("nodes: {}  # in the file: state how many there are", n.nodes));
    line(1, "node:");
    if (!source_.gpu.empty()) line(2, "gpu: " + scalar(source_.gpu));
    line(2, fmt::format("gpus: {}", n.gpus));
    differs("GPUs of a node", std::to_string(n.gpus), std::to_string(preset_.gpus));
    if (n.hosts != preset_.hosts) line(2, fmt::format("hosts: {}", n.hosts));
    write_intra(n);
    Flow nics, cpus, pcie;
    if (n.nics > 0) {
      nics.add("count", n.nics);
      differs("NICs of a node", std::to_string(n.nics), std::to_string(preset_.nics));
      if (n.nic_bandwidth.value > 0) {
        nics.add("bw", gigabits(n.nic_bandwidth));
        differs("a NIC", gigabits(n.nic_bandwidth), gigabits(preset_.nic_bandwidth));
      }
      line(2, "nics: " + nics.text());
    }
    if (n.cpus > 0) cpus.add("count", n.cpus);
    if (n.c2c != preset_.c2c) cpus.add("link", n.c2c ? "c2c" : "pcie");
    if (n.cpu_bandwidth.value > 0) cpus.add("bw", gigabytes(n.cpu_bandwidth));
    if (!cpus.empty()) line(2, "cpus: " + cpus.text());
    if (n.pcie_switches) pcie.add("switches", *n.pcie_switches);
    if (n.pcie_bandwidth.value > 0) pcie.add("bw", gigabytes(n.pcie_bandwidth));
    if (!pcie.empty()) line(2, "pcie: " + pcie.text());
  }

  void write_intra(const ImportedNode& n) {
    if (!n.intra) return;
    Flow intra;
    for (const Word& w : kIntraKinds.words)
      if (w.modelled && w.meaning == static_cast<int>(*n.intra))
        intra.add("kind", std::string(w.text));
    Bandwidth bandwidth = n.intra_bandwidth;
    if (*n.intra == IntraKind::pcie) {
      bandwidth = n.pcie_bandwidth.value > 0 ? n.pcie_bandwidth : preset_.gpu.host_bandwidth;
      if (n.pcie_bandwidth.value == 0)
        notes_.push_back("the bandwidth of PCIe is not in this file: that of " + preset_.gpu.name +
                         " is taken");
    }
    if (bandwidth.value > 0) {
      intra.add("bw", gigabytes(bandwidth));
      if (*n.intra == preset_.intra)
        differs("one GPU to others", gigabytes(bandwidth), gigabytes(preset_.intra_bandwidth));
    }
    if (*n.intra != IntraKind::nvswitch && preset_.sharp) intra.add("sharp", "false");
    if (n.nvlinks > 0) intra.add("links", n.nvlinks);
    if (n.nvswitches > 0) intra.add("switches", n.nvswitches);
    line(2, "intra: " + intra.text());
  }

  void write_fabric(const ImportedFabric& f) {
    notes_.insert(notes_.end(), f.notes.begin(), f.notes.end());
    const auto nics = [&](size_t node) { return std::to_string(f.fabric.cables_at(node)); };
    differs("cables of " + f.fabric.nodes.front(), nics(0), std::to_string(preset_.nics));
    if (source_.preset.empty())
      notes_.push_back("how many GPUs a node has is not in this file: state cluster.node.gpus");
    if (!source_.preset.empty()) line(1, "preset: " + scalar(source_.preset));
    if (!source_.gpu.empty()) line(1, "node: {gpu: " + scalar(source_.gpu) + '}');
    line(1, "topology:");
    line(2, "nodes:");
    for (const std::string& name : f.fabric.nodes) line(3, "- {id: " + scalar(name) + '}');
    if (!f.fabric.switches.empty()) line(2, "switches:");
    for (const ExplicitFabric::Switch& s : f.fabric.switches)
      line(3, "- {id: " + scalar(s.name) + '}');
    line(2, "links:");
    const size_t nodes = f.fabric.nodes.size();
    const auto name = [&](size_t end) {
      return scalar(end < nodes ? f.fabric.nodes[end] : f.fabric.switches[end - nodes].name);
    };
    for (const ExplicitFabric::Link& l : f.fabric.links) {
      Flow link;
      link.add("a", name(l.a));
      link.add("b", name(l.b));
      link.add("bw", gigabits(l.bandwidth));
      if (l.back != l.bandwidth) link.add("bw_back", gigabits(l.back));
      if (l.cables > 1) link.add("count", l.cables);
      line(3, "- " + link.text());
    }
  }

  const ImportedTopology& found_;
  const ClusterSource& source_;
  Node preset_;
  std::vector<std::string> notes_;
  std::string body_;
};

// The cluster of a text that has nothing but that section.
std::optional<Cluster> cluster_of(const std::string& name, std::string text) {
  Problems problems;
  Value root = parse_yaml(problems, problems.add_source({name, std::move(text)}));
  std::optional<Cluster> cluster;
  if (!problems.any() && apply_cluster_presets(root, problems)) {
    FieldValues values(std::move(root), "", problems);
    std::vector<std::string> warnings;
    cluster = resolve_cluster(values, problems, warnings);
  }
  problems.throw_if_any();
  return cluster;
}

}  // namespace

Node preset_node(const std::string& preset, const std::string& gpu) {
  check_preset(PresetKind::cluster, preset);
  check_preset(PresetKind::gpu, gpu);
  if (preset.empty() && gpu.empty()) return {};
  Flow cluster;
  cluster.add("nodes", 1);
  if (!preset.empty()) cluster.add("preset", preset);
  if (!gpu.empty()) cluster.add("node", "{gpu: " + gpu + (preset.empty() ? ", gpus: 1}" : "}"));
  return cluster_of("preset", "cluster: " + cluster.text()).value().node;
}

std::string cluster_section(const ImportedTopology& found, const ClusterSource& source) {
  std::string text = SectionWriter(found, source).write();
  cluster_of("the section from " + source.file, text);
  return text;
}

}  // namespace stepcast
