// SPDX-License-Identifier: Apache-2.0
#include "topology/import/imported_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "topology/cluster/components_internal.h"
#include "topology/import/import_internal.h"

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
                    fmt::format("one host has {} GPUs, another {}", on.begin()->second, gpus),
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
          fmt::format(
              "{} has no NVLink, where other GPUs have {}",
              graph_.devices()[graph_.gpus()[static_cast<size_t>(least - reach_.begin())]].name,
              most->cables),
          "the fabric manager may not be running; mend the node, or the file");
    if (least->nvlink.value < most->nvlink.value)
      found_.notes.push_back(
          fmt::format("GPUs have {} to {} NVLinks: all are taken to have the fewest", least->cables,
                      most->cables));
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
      found_.notes.push_back(fmt::format(
          "hosts differ in their PCIe switches: all are taken to have {}", switches / all_hosts_));
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
      if (l.kind != LinkKind::host || t_.nccl[i].value == 0) continue;  // 0: not known
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
      found_.notes.push_back(
          fmt::format("{} {} not for GPUs left out", idle, idle == 1 ? "NIC" : "NICs"));
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

namespace {

class FabricReader {
 public:
  FabricReader(const ImportedTopology& t, const Node& kind, const std::string& file)
      : t_(t), devices_(t.graph.devices()), kind_(kind), file_(file) {}

  ImportedFabric read() {
    place_nics();
    keep_largest_part();
    name_ends();
    add_links();
    return std::move(found_);
  }

 private:
  bool is_nic(uint32_t d) const { return devices_[d].kind == DeviceKind::nic; }

  // owner_: of each NIC, the node it is in.
  void place_nics() {
    const bool racks = kind_.hosts > 1;
    owner_.assign(devices_.size(), -1);
    std::map<int32_t, int64_t> nics;
    int64_t homeless = 0;
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      if (!is_nic(d)) continue;
      owner_[d] = racks ? t_.leaf_group[d] : devices_[d].node;
      if (owner_[d] < 0)
        ++homeless;
      else
        ++nics[owner_[d]];
    }
    if (nics.empty())
      refuse_import(
          file_, "no host can be told from another: their HCAs name none",
          "names are those of `ibnetdiscover --node-name-map`, or what hosts set themselves");
    if (homeless > 0)
      found_.notes.push_back(fmt::format("{} {} no host left out", homeless,
                                         homeless == 1 ? "HCA that names" : "HCAs that name"));
    for (const auto& [node, n] : nics) {
      if (!racks || n <= kind_.nics) continue;
      refuse_import(
          file_,
          fmt::format("below leaves of their own stand {} NICs, a node has {}", n, kind_.nics),
          fmt::format("nodes of {} hosts are those below leaves of their own, which "
                      "these are not",
                      kind_.hosts));
    }
  }

  // A NIC stands for its node.
  uint32_t end(uint32_t d) const {
    return is_nic(d) && owner_[d] >= 0 ? first_of_.at(owner_[d]) : d;
  }

  // part_: root of the connected part of each device, NICs of a node being one.
  void keep_largest_part() {
    for (uint32_t d = 0; d < devices_.size(); ++d)
      if (is_nic(d) && owner_[d] >= 0) first_of_.try_emplace(owner_[d], d);
    GraphEdges edges;
    for (uint32_t d = 0; d < devices_.size(); ++d) edges.emplace_back(d, end(d));
    for (const Link& l : t_.graph.links())
      if (!left_out(l)) edges.emplace_back(end(l.a), end(l.b));
    part_ = component_roots(devices_.size(), edges);
    std::map<uint32_t, int64_t> nodes;
    for (const auto& [node, nic] : first_of_) ++nodes[part_[nic]];
    int64_t most = 0;
    for (const auto& [root, n] : nodes)
      if (n > most) most = n, kept_ = root;
    std::vector<std::string> cut;
    for (const auto& [node, nic] : first_of_)
      if (part_[nic] != kept_) cut.push_back(node_name(node));
    if (!cut.empty())
      found_.notes.push_back(
          fmt::format("no route leads from the other nodes to {}: left out", some_of(cut)));
  }

  bool left_out(const Link& l) const {
    return (is_nic(l.a) && owner_[l.a] < 0) || (is_nic(l.b) && owner_[l.b] < 0);
  }

  std::string node_name(int32_t node) const {
    if (kind_.hosts == 1) return t_.hosts[static_cast<size_t>(node)];
    return fmt::format("rack{}", node);
  }

  // Numbers nodes, then switches.
  void name_ends() {
    std::set<std::string> names;
    number_.assign(devices_.size(), 0);
    std::map<int32_t, size_t> place;
    for (const auto& [node, nic] : first_of_) {
      if (part_[nic] != kept_) continue;
      place[node] = found_.fabric.nodes.size();
      found_.fabric.nodes.push_back(node_name(node));
      names.insert(found_.fabric.nodes.back());
    }
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      if (part_[d] != kept_) continue;
      if (is_nic(d)) {
        number_[d] = place.at(owner_[d]);
        continue;
      }
      std::string name = devices_[d].name;
      while (!names.insert(name).second) name += " (switch)";
      number_[d] = found_.fabric.nodes.size() + found_.fabric.switches.size();
      found_.fabric.switches.push_back({name, {}});
    }
  }

  void add_links() {
    std::vector<const Link*> links;
    for (const Link& l : t_.graph.links())
      if (!left_out(l) && part_[l.a] == kept_) links.push_back(&l);
    // Those of nodes first, by node and rail.
    const auto order = [&](const Link* l) {
      const uint32_t nic = is_nic(l->a) ? l->a : l->b;
      if (!is_nic(nic)) return std::tuple(SIZE_MAX, int32_t{0}, int32_t{0});
      // HCAs that name no host come last in their rack.
      const int32_t host = devices_[nic].node < 0 ? INT32_MAX : devices_[nic].node;
      return std::tuple(number_[nic], host, devices_[nic].rail);
    };
    std::stable_sort(links.begin(), links.end(),
                     [&](const Link* a, const Link* b) { return order(a) < order(b); });
    for (const Link* l : links) {
      const double one = 1.0 / l->cables;
      const bool turned = is_nic(l->b);  // nodes come first in a link
      found_.fabric.links.push_back({.a = number_[turned ? l->b : l->a],
                                     .b = number_[turned ? l->a : l->b],
                                     .bandwidth = (turned ? l->back : l->bandwidth) * one,
                                     .back = (turned ? l->bandwidth : l->back) * one,
                                     .cables = l->cables});
    }
  }

  const ImportedTopology& t_;
  std::span<const Device> devices_;
  const Node& kind_;
  const std::string& file_;
  ImportedFabric found_;
  std::vector<int32_t> owner_;            // by device
  std::map<int32_t, uint32_t> first_of_;  // by owner: first NIC
  std::vector<uint32_t> part_;            // by device
  std::vector<size_t> number_;            // by device: as in ExplicitFabric::Link
  uint32_t kept_ = 0;
};

}  // namespace

ImportedFabric imported_fabric(const ImportedTopology& topology, const Node& kind,
                               const std::string& file) {
  return FabricReader(topology, kind, file).read();
}

}  // namespace stepcast
