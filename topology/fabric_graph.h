// SPDX-License-Identifier: Apache-2.0
// The cluster as a graph of devices and links, for questions about ways and cuts.
//
// Equal parallel devices are bundled: the NVSwitches of a node are one device, so are the NICs
// beside one GPU, and the switches of one block of a tier (of one rail, in the leaves of a rail
// fabric).  A bundle's links have the bandwidth of all their members.  Costs take their ways from
// `route_of` (fabric.h), which is this graph's answer in closed form; tests hold the two together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/units.h"
#include "topology/cluster.h"

namespace stepcast {

enum class DeviceKind : uint8_t { gpu, nvswitch, host_bridge, nic, network_switch };

struct Device {
  DeviceKind kind = DeviceKind::gpu;
  std::string name;  // "n3/gpu5", "n3/nvswitch", "n3/nic5", "leaf2/rail5", "spine0"
  Time latency{};    // of passing through
};

struct Link {
  uint32_t a = 0, b = 0;  // devices
  Bandwidth bandwidth{};  // of one direction
  Time latency{};
};

// One way through the graph.
struct Path {
  std::vector<uint32_t> devices;  // from end to end
  int64_t switches = 0;           // network switches among them
  Bandwidth bandwidth{};          // of the narrowest link
  Time latency{};
};

class FabricGraph {
 public:
  // REQUIRES: link ends are devices.
  FabricGraph(std::vector<Device> devices, std::vector<Link> links);
  FabricGraph(FabricGraph&&) noexcept;
  FabricGraph& operator=(FabricGraph&&) noexcept;
  ~FabricGraph();

  std::span<const Device> devices() const;
  std::span<const Link> links() const;
  // Device of a GPU.  REQUIRES: the graph is of fabric_graph; rank within the cluster.
  uint32_t gpu(int64_t rank) const { return static_cast<uint32_t>(rank); }

  // The way with the fewest network switches, then the fewest links (as NCCL, which rather goes
  // through another GPU of its node than through the spine); nothing if there is none.
  // O((devices + links) log devices).
  std::optional<Path> shortest_path(uint32_t from, uint32_t to) const;
  // Number of the connected component of each device, from 0.
  std::vector<uint32_t> components() const;

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

// GPUs come first, in rank order.  O(GPUs; full meshes: GPUs squared inside a node).
FabricGraph fabric_graph(const Cluster& cluster);

// For a fabric written out by hand: the first node that no chain of links joins to the first node,
// and the first node ("node n1 is not connected to n0").  Names in `links` that are neither a node
// nor a switch are ignored: whoever reads the links reports them.
std::optional<std::pair<std::string, std::string>> first_disconnected(
    std::span<const std::string> nodes, std::span<const std::string> switches,
    std::span<const std::pair<std::string, std::string>> links);

}  // namespace stepcast
