// SPDX-License-Identifier: Apache-2.0
#include "topology/imported_node.h"

#include <algorithm>
#include <map>
#include <set>

#include "topology/import_parts.h"
#include "topology/import_text.h"

namespace stepcast {
namespace {

// What one GPU is linked to.
struct Reach {
  Bandwidth nvlink{};  // all of its NVLinks to GPUs and NVSwitches
  int32_t cables = 0;
  Bandwidth pcie{};
};

class NodeReader {
 public:
  NodeReader(const ImportedTopology& t, const std::string& file)
      : t_(t), graph_(t.graph), file_(file) {}

  ImportedNode read() {
    count_hosts();
    read_reach();
    read_nvlinks();
    read_pcie();
    read_cpus();
    read_nics();
    return std::move(found_);
  }

 private:
  DeviceKind kind(uint32_t device) const { return graph_.devices()[device].kind; }

  void count_hosts() {
    std::map<int32_t, int64_t> on;  // GPUs by host
    std::set<int32_t> domains;
    for (const uint32_t g : graph_.gpus()) {
      ++on[graph_.devices()[g].node];
      domains.insert(graph_.devices()[g].domain);
    }
    if (on.empty())
      refuse_import(file_, "there are no GPUs in this file", "`stepcast topology show` shows it");
    for (const auto& [host, gpus] : on) {
      if (gpus == on.begin()->second) continue;
      refuse_import(file_,
                    "one host has " + std::to_string(on.begin()->second) + " GPUs, another " +
                        std::to_string(gpus),
                    "all nodes of a cluster are of one kind so far");
    }
    all_hosts_ = static_cast<int64_t>(on.size());
    const bool rack = on.size() > 1 && domains.size() == 1 && *domains.begin() >= 0;
    found_.hosts = rack ? all_hosts_ : 1;
    found_.nodes = rack ? 1 : all_hosts_;
    found_.gpus = static_cast<int64_t>(graph_.gpus().size()) / found_.nodes;
  }

  void read_reach() {
    for (const uint32_t g : graph_.gpus()) {
      Reach r;
      for (const uint32_t l : graph_.leaving(g)) {
        const DeviceKind other = kind(graph_.to(l));
        const Link& link = graph_.links()[l / 2];
        const bool to_cpu = other == DeviceKind::cpu;
        if (link.kind == LinkKind::c2c || (link.kind == LinkKind::nvlink && to_cpu)) {
          found_.c2c = true;
        } else if (link.kind == LinkKind::nvlink) {
          r.nvlink = r.nvlink + graph_.bandwidth(l);
          r.cables += link.cables;
          (other == DeviceKind::nvswitch ? switched_ : meshed_) = true;
        } else if (link.kind == LinkKind::pcie) {
          r.pcie = graph_.bandwidth(l);
        }
      }
      reach_.push_back(r);
    }
  }

  void read_nvlinks() {
    if (fact_of(t_, "written_by_hand") != 0) {
      found_.notes.push_back("NVLinks and the speed of the network are not in this file");
      return;
    }
    const auto [least, most] = std::minmax_element(
        reach_.begin(), reach_.end(),
        [](const Reach& a, const Reach& b) { return a.nvlink.value < b.nvlink.value; });
    if (!switched_ && !meshed_) {
      found_.intra = IntraKind::pcie;
      return;
    }
    found_.intra = switched_ ? IntraKind::nvswitch : IntraKind::nvlink_mesh;
    found_.intra_bandwidth = least->nvlink;
    found_.nvlinks = least->cables;
    if (least->nvlink.value == 0)
      refuse_import(
          file_,
          graph_.devices()[graph_.gpus()[static_cast<size_t>(least - reach_.begin())]].name +
              " has no NVLink, where other GPUs have " + std::to_string(most->cables),
          "the fabric manager may not be running; mend the node, or the file");
    if (least->nvlink.value < most->nvlink.value)
      found_.notes.push_back("GPUs have " + std::to_string(least->cables) + " to " +
                             std::to_string(most->cables) +
                             " NVLinks: all are taken to have the fewest");
    const bool hidden = fact_of(t_, "hidden_nvswitches") != 0 || fact_of(t_, "nvswitched") != 0;
    if (!hidden)
      found_.nvswitches =
          std::ranges::count(graph_.devices(), DeviceKind::nvswitch, &Device::kind) / found_.nodes;
    if (!switched_)
      found_.notes.push_back(
          "which GPUs have direct links is not kept: eight with six links each are wired as in a "
          "DGX-1, others each to each");
  }

  // The nearest switch above a device that `above` is true for; none: -1.
  uint32_t parent(uint32_t device) const {
    for (const uint32_t l : graph_.leaving(device)) {
      const Link& link = graph_.links()[l / 2];
      // Importers join what is below to what is above.
      if (link.kind == LinkKind::pcie && link.a == device) return graph_.to(l);
    }
    return UINT32_MAX;
  }

  void read_pcie() {
    // PCIe switches with a NIC somewhere below.
    std::set<uint32_t> over_nics;
    for (uint32_t d = 0; d < graph_.devices().size(); ++d) {
      if (kind(d) != DeviceKind::nic) continue;
      for (uint32_t up = parent(d); up != UINT32_MAX; up = parent(up)) over_nics.insert(up);
    }
    std::set<uint32_t> shared;
    for (const uint32_t g : graph_.gpus()) {
      uint32_t nearest = UINT32_MAX;
      for (uint32_t up = parent(g); up != UINT32_MAX && kind(up) == DeviceKind::pcie_switch;
           up = parent(up)) {
        if (nearest == UINT32_MAX) nearest = up;
        if (!over_nics.contains(up)) continue;
        nearest = up;
        break;
      }
      if (nearest != UINT32_MAX) shared.insert(nearest);
    }
    const auto switches = static_cast<int64_t>(shared.size());
    if (!found_.c2c) found_.pcie_switches = switches / all_hosts_;
    if (switches % all_hosts_ != 0)
      found_.notes.push_back("hosts differ in their PCIe switches: all are taken to have " +
                             std::to_string(switches / all_hosts_));
    if (fact_of(t_, "assumed_pcie_generation") != 0) return;
    for (const Reach& r : reach_) {
      if (r.pcie.value == 0) continue;
      if (found_.pcie_bandwidth.value == 0 || r.pcie < found_.pcie_bandwidth)
        found_.pcie_bandwidth = r.pcie;
    }
  }

  void read_cpus() {
    found_.cpus = std::ranges::count(graph_.devices(), DeviceKind::cpu, &Device::kind) / all_hosts_;
    for (size_t i = 0; i < graph_.links().size(); ++i) {
      const Link& l = graph_.links()[i];
      if (l.kind != LinkKind::host || t_.nccl[i].value == 0) continue;  // 0: nobody knows
      if (found_.cpu_bandwidth.value == 0 || l.bandwidth < found_.cpu_bandwidth)
        found_.cpu_bandwidth = l.bandwidth;
    }
  }

  void read_nics() {
    int64_t idle = 0, rails = 0;
    for (const Device& d : graph_.devices()) {
      if (d.kind != DeviceKind::nic) continue;
      ++(d.rail >= 0 ? rails : idle);
    }
    found_.nics = rails / found_.nodes;
    found_.nic_bandwidth = t_.nic_bandwidth;
    if (idle > 0)
      found_.notes.push_back(std::to_string(idle) + (idle == 1 ? " NIC" : " NICs") +
                             " not for GPUs left out");
    if (rails == 0) found_.notes.push_back("there are no NICs in this file");
  }

  const ImportedTopology& t_;
  const ClusterGraph& graph_;
  const std::string& file_;
  ImportedNode found_;
  std::vector<Reach> reach_;  // of each GPU
  int64_t all_hosts_ = 1;
  bool switched_ = false, meshed_ = false;
};

}  // namespace

ImportedNode imported_node(const ImportedTopology& topology, const std::string& file) {
  return NodeReader(topology, file).read();
}

}  // namespace stepcast
