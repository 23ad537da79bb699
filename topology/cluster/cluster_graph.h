// SPDX-License-Identifier: Apache-2.0
// The cluster as a graph of devices and links: what is wired to what.
//
// The one description that presets, explicit fabrics in scenario files and the importers
// (nvidia-smi topo -m, NCCL topology XML, ibnetdiscover) all come to.  Routes through it: routes.h;
// what collectives put on its links: traffic/; `stepcast topology show` prints and draws it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace stepcast {

enum class DeviceKind : uint8_t { gpu, nvswitch, pcie_switch, cpu, nic, network_switch };
constexpr int kDeviceKinds = 6;
std::string_view name_of(DeviceKind k);  // "GPU", "NVSwitch", "PCIe switch", ...

struct Device {
  DeviceKind kind = DeviceKind::gpu;
  std::string name;   // unique: "n3/gpu5", "n3/nvswitch0", "n3/nic5", "leaf2/rail5", "spine0"
  int32_t node = -1;  // of the host it is in, from 0; -1: none (network switches, rack NVSwitches)
  int32_t domain = -1;  // NVLink domain of a GPU or NVSwitch, from 0; -1: none
  int32_t rail = -1;    // of a NIC, and of the leaf of a rail fabric
  int32_t tier = -1;    // of a network switch: 0 leaf, 1 spine, 2 core
  Time latency{};       // of passing through
};

enum class LinkKind : uint8_t { nvlink, c2c, pcie, host, network };
std::string_view name_of(LinkKind k);  // "NVLink", "NVLink-C2C", "PCIe", "between CPUs", "network"

// Both directions of a cable or bundle.  Directed link 2i runs from a to b, 2i + 1 from b to a.
struct Link {
  uint32_t a = 0, b = 0;  // devices
  LinkKind kind = LinkKind::network;
  Bandwidth bandwidth{};  // a to b
  Bandwidth back{};       // b to a
  Time latency{};
  int32_t cables = 1;  // equal parallel ones, together of that bandwidth
};

class ClusterGraph {
 public:
  // REQUIRES: link ends are devices and differ; bandwidths are positive; device names differ.
  ClusterGraph(std::vector<Device> devices, std::vector<Link> links);
  ClusterGraph(ClusterGraph&&) noexcept;
  ClusterGraph& operator=(ClusterGraph&&) noexcept;
  ~ClusterGraph();

  std::span<const Device> devices() const;
  std::span<const Link> links() const;
  // Devices of the GPUs, in the order of `devices`: GPU g of the cluster is gpus()[g].
  std::span<const uint32_t> gpus() const;
  // Directed links that leave a device, ascending.
  std::span<const uint32_t> leaving(uint32_t device) const;
  uint32_t to(uint32_t directed) const {
    const Link& l = links()[directed / 2];
    return directed % 2 == 0 ? l.b : l.a;
  }
  Bandwidth bandwidth(uint32_t directed) const {
    const Link& l = links()[directed / 2];
    return directed % 2 == 0 ? l.bandwidth : l.back;
  }
  // The path with the fewest network switches, then the fewest links, then through the fewest GPUs,
  // as directed links from end to end; the first of equal ones; nothing if there is none.
  // O((devices + links) log devices).
  std::optional<std::vector<uint32_t>> shortest_path(uint32_t from, uint32_t to) const;

 private:
  struct Storage;  // Boost.Graph
  std::unique_ptr<Storage> storage_;
};

}  // namespace stepcast
