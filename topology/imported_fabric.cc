// SPDX-License-Identifier: Apache-2.0
#include "topology/imported_fabric.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "topology/import_parts.h"
#include "topology/import_text.h"

namespace stepcast {
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
      found_.notes.push_back(std::to_string(homeless) +
                             (homeless == 1 ? " HCA that names" : " HCAs that name") +
                             " no host left out");
    for (const auto& [node, n] : nics) {
      if (!racks || n <= kind_.nics) continue;
      refuse_import(file_,
                    "below leaves of their own stand " + std::to_string(n) + " NICs, a node has " +
                        std::to_string(kind_.nics),
                    "nodes of " + std::to_string(kind_.hosts) +
                        " hosts are those below leaves of their own, which these are not");
    }
  }

  // A NIC stands for its node.
  uint32_t end(uint32_t d) const {
    return is_nic(d) && owner_[d] >= 0 ? first_of_.at(owner_[d]) : d;
  }

  // part_: root of the connected part of each device, NICs of a node being one.
  void keep_largest_part() {
    part_.resize(devices_.size());
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      part_[d] = d;
      if (is_nic(d) && owner_[d] >= 0) first_of_.try_emplace(owner_[d], d);
    }
    const auto find = [&](uint32_t d) {
      while (part_[d] != d) d = part_[d] = part_[part_[d]];
      return d;
    };
    for (const Link& l : t_.graph.links()) {
      if (left_out(l)) continue;
      const uint32_t a = find(end(l.a)), b = find(end(l.b));
      part_[std::max(a, b)] = std::min(a, b);
    }
    std::map<uint32_t, int64_t> nodes;
    for (const auto& [node, nic] : first_of_) ++nodes[find(nic)];
    int64_t most = 0;
    for (const auto& [root, n] : nodes)
      if (n > most) most = n, kept_ = root;
    for (uint32_t d = 0; d < devices_.size(); ++d) part_[d] = find(end(d));
    std::vector<std::string> cut;
    for (const auto& [node, nic] : first_of_)
      if (part_[nic] != kept_) cut.push_back(node_name(node));
    if (!cut.empty())
      found_.notes.push_back("no way leads from the other nodes to " + some_of(cut) + ": left out");
  }

  bool left_out(const Link& l) const {
    return (is_nic(l.a) && owner_[l.a] < 0) || (is_nic(l.b) && owner_[l.b] < 0);
  }

  std::string node_name(int32_t node) const {
    if (kind_.hosts == 1) return t_.hosts[static_cast<size_t>(node)];
    return "rack" + std::to_string(node);
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
  std::vector<size_t> number_;            // by device: as in WrittenFabric::Link
  uint32_t kept_ = 0;
};

}  // namespace

ImportedFabric imported_fabric(const ImportedTopology& topology, const Node& kind,
                               const std::string& file) {
  return FabricReader(topology, kind, file).read();
}

}  // namespace stepcast
