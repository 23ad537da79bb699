// SPDX-License-Identifier: Apache-2.0
#include "topology/import_parts.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace stepcast {
namespace {

bool is_nvlink_end(DeviceKind k) {
  return k == DeviceKind::gpu || k == DeviceKind::nvswitch;
}

// A domain is what NVLinks join: two devices at least.
void number_domains(ImportParts& parts) {
  std::vector<uint32_t> root(parts.devices.size());
  std::iota(root.begin(), root.end(), 0U);
  const auto find = [&](uint32_t d) {
    while (root[d] != d) d = root[d] = root[root[d]];
    return d;
  };
  std::vector<char> joined(root.size(), 0);
  for (const Link& l : parts.links) {
    if (l.kind != LinkKind::nvlink) continue;
    if (!is_nvlink_end(parts.devices[l.a].kind) || !is_nvlink_end(parts.devices[l.b].kind))
      continue;
    const uint32_t a = find(l.a), b = find(l.b);
    root[std::max(a, b)] = std::min(a, b);
    joined[l.a] = joined[l.b] = 1;
  }
  std::vector<int32_t> number(root.size(), -1);
  int32_t count = 0;
  for (uint32_t d = 0; d < root.size(); ++d) {
    if (joined[d] == 0) continue;
    int32_t& n = number[find(d)];
    if (n < 0) n = count++;
    parts.devices[d].domain = n;
  }
}

}  // namespace

ImportedTopology finished(ImportParts parts) {
  number_domains(parts);
  std::map<std::string, int> next;  // by name: what to number the next one with
  for (Device& d : parts.devices) {
    const std::string name = d.name;
    while (next.contains(d.name)) d.name = name + " (" + std::to_string(++next[name]) + ")";
    next[d.name] = 1;
  }
  return {ClusterGraph(std::move(parts.devices), std::move(parts.links)),
          std::move(parts.nccl),
          std::move(parts.facts),
          std::move(parts.warnings),
          {},
          {},
          {}};
}

int64_t fact_of(const ImportedTopology& topology, std::string_view key, int64_t missing) {
  for (const TopologyFact& f : topology.facts)
    if (f.key == key) return f.value;
  return missing;
}

void warn_of_uneven_nvlinks(ImportParts& parts) {
  std::vector<int32_t> cables(parts.devices.size(), 0);
  for (const Link& l : parts.links) {
    if (l.kind != LinkKind::nvlink) continue;
    cables[l.a] += l.cables;
    cables[l.b] += l.cables;
  }
  int32_t most = 0;
  for (uint32_t d = 0; d < cables.size(); ++d)
    if (parts.devices[d].kind == DeviceKind::gpu) most = std::max(most, cables[d]);
  for (uint32_t d = 0; d < cables.size(); ++d) {
    if (parts.devices[d].kind != DeviceKind::gpu || cables[d] == most) continue;
    const std::string has =
        cables[d] == 0 ? "no NVLink" : std::to_string(cables[d]) + " of " + std::to_string(most);
    parts.warn(parts.lines[d],
               parts.devices[d].name + " has " + has +
                   (cables[d] == 0 ? ", other GPUs have " + std::to_string(most) : " NVLinks") +
                   ": dead links, or a fabric manager that is not running");
  }
}

std::string some_of(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace stepcast
