// SPDX-License-Identifier: Apache-2.0
// A cluster graph as reports see it: plain devices and links, with the remarks that belong to them;
// a summary of it; and the answer of `stepcast topology show`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/format.h"
#include "sim/units.h"

namespace stepcast {

// --- The graph

enum class ViewKind : uint8_t { gpu, nvswitch, pcie_switch, cpu, nic, network_switch };
constexpr int kViewKinds = 6;
enum class ViewLinkKind : uint8_t { nvlink, c2c, pcie, host, network };

struct ViewDevice {
  ViewKind kind = ViewKind::gpu;
  std::string name;
  int32_t node = -1, domain = -1, rail = -1, tier = -1;  // -1: none
  std::string tier_word;  // what switches of the tier are called; empty: as in kind_name
};

struct ViewLink {
  uint32_t a = 0, b = 0;  // devices
  ViewLinkKind kind = ViewLinkKind::network;
  Bandwidth bandwidth{}, back{};  // a to b, b to a; of all cables together
  Bandwidth nccl{};               // what NCCL counts with; 0: not known
  int32_t cables = 1;
};

struct ViewFact {
  std::string key;
  int64_t value = 0;
  std::string text;  // empty: for programs only
};

struct ViewWarning {
  int line = 0;  // 0: of no line
  std::string text;
};

struct TopologyView {
  std::string title;   // of the file or cluster
  std::string format;  // "nvidia-smi topo -m", "scenario"
  std::vector<ViewDevice> devices;
  std::vector<ViewLink> links;  // REQUIRES: ends are devices
  std::vector<ViewFact> facts;
  std::vector<ViewWarning> warnings;
};

// Links that are alike: of one kind, between devices of the same kinds and tiers, equally fast.
struct LinkClass {
  ViewLinkKind kind = ViewLinkKind::network;
  ViewDevice a, b;        // one of each end; the outer one last
  int64_t links = 0;      // devices joined
  int32_t cables = 1;     // of each link
  Bandwidth bandwidth{};  // of each link, outwards
  Bandwidth back{};
  Bandwidth nccl{};
};

// A tier of network switches.
struct TierSummary {
  int32_t tier = 0;
  std::string name;
  int64_t switches = 0;
  int64_t down = 0, up = 0;  // cables, of all of them
  Bandwidth down_bandwidth{}, up_bandwidth{};
  double worst = 0;  // down : up of the switch where it is largest
};

struct TopologySummary {
  int64_t counts[kViewKinds] = {};
  int64_t nodes = 0;  // with a GPU or a NIC
  int64_t rails = 0;
  int64_t parts = 0;                                 // that no link joins
  std::vector<std::pair<int64_t, int64_t>> domains;  // GPUs of an NVLink domain, how many such
  std::vector<LinkClass> links;                      // as from the GPU outwards
  std::vector<TierSummary> tiers;
  std::vector<std::string> far_from_nics;  // GPUs whose CPU has no NIC, though their node has
};

// O((devices + links) log).
TopologySummary summarize(const TopologyView& view);

// "GPU", "NVSwitch"; of a network switch its word, else "leaf", "spine", "core", "tier 3".
std::string kind_name(const ViewDevice& device);

// --- The answer: what a cluster is made of, and what looks wrong with it.

// One screen, whatever the cluster's size: at most 40 lines or so.  Ends with '\n'.
std::string topology_text(const TopologyView& view, const TextStyle& style = {});

// One object with everything the text has, all facts and all warnings.
std::string topology_json(const TopologyView& view);

}  // namespace stepcast
