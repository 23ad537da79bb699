// SPDX-License-Identifier: Apache-2.0
// What the importers share: lines and words of a file, what is wrong with them, and the topology
// while it is being built.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/diagnostic.h"
#include "topology/import/imported_topology.h"
#include "topology/import/link_speeds.h"

namespace stepcast {

struct ImportText {
  std::string file;
  std::vector<std::string_view> lines;  // without their ends
};

// Throws an InputError E320 about the file, or about a line of it (from 1).
[[noreturn]] void refuse_import(const std::string& file, std::string message, std::string help = {},
                                int line = 0);

// Refers to `text`.  Throws InputError E320 for an empty file and for one that is no text.
ImportText lines_of(std::string_view text, const std::string& file);

struct ImportWord {
  std::string_view text;
  int column = 0;  // from 1
};

// Parts of a line between blanks and tabs.
std::vector<ImportWord> words_of(std::string_view line);

// Digits only, below 2^31; -1 if not.
int64_t whole_number(std::string_view text);

// A problem at characters `column` to column + length of a line (from 1).
Diagnostic problem_at(const ImportText& text, const char* code, int line, int column, size_t length,
                      std::string message, std::string help = "");

// Throws `problems` if there are any; the first 20 of them.
void throw_if_any(std::vector<Diagnostic>& problems);

// Devices and links while an importer collects them.

struct TopologyBuilder {
  std::vector<Device> devices;
  std::vector<int> lines;  // line that describes each device; 0: none
  std::vector<Link> links;
  std::vector<Bandwidth> nccl;  // of each link (imported_topology.h)
  std::vector<TopologyFact> facts;
  std::vector<TopologyWarning> warnings;
  std::array<int64_t, kDeviceKinds> counts{};  // of devices

  uint32_t add(DeviceKind kind, std::string name, int32_t node = 0, int line = 0) {
    devices.push_back({.kind = kind, .name = std::move(name), .node = node});
    lines.push_back(line);
    ++counts[static_cast<size_t>(kind)];
    return static_cast<uint32_t>(devices.size() - 1);
  }
  int64_t count(DeviceKind kind) const { return counts[static_cast<size_t>(kind)]; }
  void join(uint32_t a, uint32_t b, LinkKind kind, LinkSpeed one, int32_t cables = 1) {
    const Bandwidth all = one.nominal * static_cast<double>(cables);
    links.push_back({a, b, kind, all, all, {}, cables});
    nccl.push_back(one.nccl * static_cast<double>(cables));
  }
  void fact(std::string key, int64_t value, std::string text) {
    facts.push_back({std::move(key), value, std::move(text)});
  }
  void warn(int line, std::string text) { warnings.push_back({line, std::move(text)}); }
};

// Numbers the NVLink domains, makes equal names differ ("gpu0", "gpu0 (2)"), and builds the graph.
ImportedTopology finished(TopologyBuilder builder);

// GPUs whose NVLinks are missing or fewer than those of the others.
void warn_of_uneven_nvlinks(TopologyBuilder& builder);

// The value that most have; the largest of several.  0 if there is none.
template <class T>
T most_common(const std::map<T, int64_t>& counts) {
  T best{};
  int64_t most = 0;
  for (const auto& [value, n] : counts)
    if (n >= most) best = value, most = n;
  return best;
}

// "gpu0, gpu3, gpu7 and 5 more"
std::string some_of(const std::vector<std::string>& names, size_t most = 4);

}  // namespace stepcast
