// SPDX-License-Identifier: Apache-2.0
// Devices and links while an importer collects them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "topology/import.h"
#include "topology/link_speeds.h"

namespace stepcast {

struct ImportParts {
  std::vector<Device> devices;
  std::vector<int> lines;  // that tell of each device; 0: none
  std::vector<Link> links;
  std::vector<Bandwidth> nccl;  // of each link (import.h)
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

// Numbers the NVLink domains, makes equal names differ ("gpu0", "gpu0 (2)"), closes the parts.
ImportedTopology finished(ImportParts parts);

// GPUs whose NVLinks are missing or fewer than those of the others.
void warn_of_uneven_nvlinks(ImportParts& parts);

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
