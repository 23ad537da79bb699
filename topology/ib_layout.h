// SPDX-License-Identifier: Apache-2.0
// Where the switches and adapters of an InfiniBand fabric stand in it: which are leaves, and whose;
// tiers, rails and groups of leaves (import_ibnetdiscover.h says how they are told).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topology/ib_records.h"

namespace stepcast {

// "host0401 mlx5_5": host and device; the host is empty if the name is the vendor's.
struct HcaName {
  std::string host, device;
};

// Numbers are those of IbRecords::nodes.
struct IbLayout {
  std::vector<uint32_t> hcas;  // of hosts, ascending
  std::vector<HcaName> names;  // by node
  // Leaves: port and HCA of each host's cable.
  std::map<uint32_t, std::vector<std::pair<int64_t, uint32_t>>> host_ports;
  int64_t sharp = 0;            // aggregation nodes
  std::set<uint32_t> managers;  // HCAs on ports of their own
  std::vector<std::string> manager_hosts;
  std::vector<int32_t> tier;             // by node; -1: no switch
  std::vector<uint32_t> stray_switches;  // without a way to one with hosts: of tier 0
  std::map<uint32_t, int32_t> rail;      // of leaves that have one
  std::map<uint32_t, uint32_t> group;    // leaf: the first of those that serve the same hosts
  size_t leaves_of_a_host = 0;           // of most hosts
};

IbLayout ib_layout(const IbRecords& records);

}  // namespace stepcast
