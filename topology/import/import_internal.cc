// SPDX-License-Identifier: Apache-2.0
#include "topology/import/import_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>

#include "sim/text.h"
#include "topology/cluster/components_internal.h"
#include "topology/import/imported_topology.h"

namespace stepcast {

namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr size_t kMostProblems = 20;
constexpr size_t kMostShown = 200;  // characters of a line in a message

}  // namespace

void refuse_import(const std::string& file, std::string message, std::string help, int line) {
  Diagnostic d;
  d.code = "E320";
  d.message = std::move(message);
  d.help = std::move(help);
  d.file = file;
  d.line = line;
  d.column = line > 0 ? 1 : 0;
  throw InputError(std::move(d));
}

ImportText lines_of(std::string_view text, const std::string& file) {
  ImportText out{file, {}};
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    refuse_import(file, "the file is empty");
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    const auto before = std::count(text.begin(), text.begin() + static_cast<long>(zero), '\n');
    refuse_import(file, "the file is not a text", {}, static_cast<int>(before) + 1);
  }
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<ImportWord> words_of(std::string_view line) {
  std::vector<ImportWord> words;
  for (size_t at = 0;;) {
    at = line.find_first_not_of(kBlanks, at);
    if (at == std::string_view::npos) return words;
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back({line.substr(at, end - at), static_cast<int>(at) + 1});
    at = end;
  }
}

int64_t whole_number(std::string_view text) {
  int32_t n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool ok = error == std::errc{} && end == text.data() + text.size() && !text.empty();
  return ok && text.front() != '-' ? n : -1;
}

Diagnostic problem_at(const ImportText& text, const char* code, int line, int column, size_t length,
                      std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.file = text.file;
  d.line = line;
  d.column = column;
  d.length = static_cast<int>(std::clamp<size_t>(length, 1, kMostShown));
  if (line > 0 && static_cast<size_t>(line) <= text.lines.size())
    d.source_line = std::string(text.lines[static_cast<size_t>(line) - 1]);
  if (d.source_line.size() > kMostShown) {
    if (static_cast<size_t>(column) < kMostShown)
      d.source_line.resize(kMostShown);
    else
      d.source_line.clear();
  }
  d.help = std::move(help);
  return d;
}

void throw_if_any(std::vector<Diagnostic>& problems) {
  if (problems.empty()) return;
  if (problems.size() > kMostProblems) problems.resize(kMostProblems);
  throw InputError(std::move(problems));
}

TopologyFormat topology_format_of(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) return TopologyFormat::other;
  if (text[first] == '<') return TopologyFormat::nccl_xml;
  for (const std::string_view mark : {"switchguid=", "caguid=", "\nvendid=", "\nSwitch\t"})
    if (text.find(mark) != std::string_view::npos) return TopologyFormat::ibnetdiscover;
  if (text.starts_with("vendid=") || text.starts_with("# Topology file:") ||
      text.find("\n# Topology file:") != std::string_view::npos)
    return TopologyFormat::ibnetdiscover;
  // A matrix has a line that begins with a device and its own column.
  for (const std::string_view gpu : {"GPU0\t X", "GPU0 X", "GPU0\tX", "GPU0  ", "GPU0\tGPU1"})
    if (text.find(gpu) != std::string_view::npos) return TopologyFormat::nvidia_smi;
  return TopologyFormat::other;
}

namespace {

bool is_nvlink_end(DeviceKind k) {
  return k == DeviceKind::gpu || k == DeviceKind::nvswitch;
}

// A domain is what NVLinks join: two devices at least.
void number_domains(TopologyBuilder& builder) {
  GraphEdges edges;
  std::vector<char> joined(builder.devices.size(), 0);
  for (const Link& l : builder.links) {
    if (l.kind != LinkKind::nvlink) continue;
    if (!is_nvlink_end(builder.devices[l.a].kind) || !is_nvlink_end(builder.devices[l.b].kind))
      continue;
    edges.emplace_back(l.a, l.b);
    joined[l.a] = joined[l.b] = 1;
  }
  const std::vector<uint32_t> root = component_roots(builder.devices.size(), edges);
  std::vector<int32_t> number(root.size(), -1);
  int32_t count = 0;
  for (uint32_t d = 0; d < root.size(); ++d) {
    if (joined[d] == 0) continue;
    int32_t& n = number[root[d]];
    if (n < 0) n = count++;
    builder.devices[d].domain = n;
  }
}

}  // namespace

ImportedTopology finished(TopologyBuilder builder) {
  number_domains(builder);
  std::map<std::string, int> next;  // by name: what to number the next one with
  for (Device& d : builder.devices) {
    const std::string name = d.name;
    while (next.contains(d.name)) d.name = fmt::format("{} ({})", name, ++next[name]);
    next[d.name] = 1;
  }
  return {ClusterGraph(std::move(builder.devices), std::move(builder.links)),
          std::move(builder.nccl),
          std::move(builder.facts),
          std::move(builder.warnings),
          {},
          {},
          {}};
}

int64_t fact_of(const ImportedTopology& topology, std::string_view key, int64_t missing) {
  for (const TopologyFact& f : topology.facts)
    if (f.key == key) return f.value;
  return missing;
}

void warn_of_uneven_nvlinks(TopologyBuilder& builder) {
  std::vector<int32_t> cables(builder.devices.size(), 0);
  for (const Link& l : builder.links) {
    if (l.kind != LinkKind::nvlink) continue;
    cables[l.a] += l.cables;
    cables[l.b] += l.cables;
  }
  int32_t most = 0;
  for (uint32_t d = 0; d < cables.size(); ++d)
    if (builder.devices[d].kind == DeviceKind::gpu) most = std::max(most, cables[d]);
  for (uint32_t d = 0; d < cables.size(); ++d) {
    if (builder.devices[d].kind != DeviceKind::gpu || cables[d] == most) continue;
    const std::string has = cables[d] == 0 ? fmt::format("no NVLink, other GPUs have {}", most)
                                           : fmt::format("{} of {} NVLinks", cables[d], most);
    builder.warn(builder.lines[d],
                 fmt::format("{} has {}: dead links, or a fabric manager that is not running",
                             builder.devices[d].name, has));
  }
}

std::string some_of(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

}  // namespace stepcast
