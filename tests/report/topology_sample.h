// SPDX-License-Identifier: Apache-2.0
// Small clusters for the tests of what reports make of them.
#pragma once

#include <string>

#include "report/text/topology.h"

namespace stepcast::test {

inline uint32_t add(TopologyView& v, ViewKind kind, const std::string& name, int32_t node = -1,
                    int32_t tier = -1) {
  v.devices.push_back({kind, name, node, -1, -1, tier, {}});
  return static_cast<uint32_t>(v.devices.size() - 1);
}

inline void join(TopologyView& v, uint32_t a, uint32_t b, ViewLinkKind kind, double gbs,
                 int32_t cables = 1) {
  v.links.push_back({a, b, kind, {gbs * 1e9}, {gbs * 1e9}, {}, cables});
}

// Two GPUs on an NVSwitch, each with a CPU; a NIC on the first CPU only.
inline TopologyView two_gpus() {
  TopologyView v;
  v.title = "two <gpus>";
  v.format = "test";
  const uint32_t a = add(v, ViewKind::gpu, "gpu0", 0), b = add(v, ViewKind::gpu, "gpu1", 0);
  const uint32_t plane = add(v, ViewKind::nvswitch, "nvswitch0", 0);
  const uint32_t c = add(v, ViewKind::cpu, "cpu0", 0), d = add(v, ViewKind::cpu, "cpu1", 0);
  const uint32_t nic = add(v, ViewKind::nic, "nic0", 0);
  for (const uint32_t g : {a, b, plane}) v.devices[g].domain = 0;
  join(v, a, plane, ViewLinkKind::nvlink, 450, 18);
  join(v, plane, b, ViewLinkKind::nvlink, 450, 18);
  join(v, a, c, ViewLinkKind::pcie, 63);
  join(v, b, d, ViewLinkKind::pcie, 63);
  join(v, nic, c, ViewLinkKind::pcie, 63);
  join(v, c, d, ViewLinkKind::host, 22);
  return v;
}

// `leaves` leaves with `hosts` NICs each and two cables to each of `spines` spines.
inline TopologyView fabric(int leaves, int hosts, int spines) {
  TopologyView v;
  v.title = "fabric";
  v.format = "test";
  std::vector<uint32_t> top;
  for (int s = 0; s < spines; ++s)
    top.push_back(add(v, ViewKind::network_switch, "spine" + std::to_string(s), -1, 1));
  for (int l = 0; l < leaves; ++l) {
    const uint32_t leaf = add(v, ViewKind::network_switch, "leaf" + std::to_string(l), -1, 0);
    for (int h = 0; h < hosts; ++h) {
      const int32_t node = l * hosts + h;
      join(v, add(v, ViewKind::nic, "nic" + std::to_string(node), node), leaf,
           ViewLinkKind::network, 50);
    }
    for (const uint32_t s : top) join(v, leaf, s, ViewLinkKind::network, 100, 2);
  }
  return v;
}

}  // namespace stepcast::test
