// SPDX-License-Identifier: Apache-2.0
// The cluster: GPUs in nodes, nodes in a fabric, as a graph of devices and links.
//
// Bandwidths are of one direction.  Numbers come from presets (scenarios/presets), each with its
// source there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/graph/work.h"
#include "sim/units.h"
#include "topology/cluster/gpu_architecture.h"

namespace stepcast {

// Of a job: each rank has at least a few bytes.
inline constexpr int64_t kMostGpus = 10'000'000;

class ClusterGraph;

struct Gpu;

// A GPU of which measured times are known; equal if all that is known of it is.
class MeasuredGpu {
 public:
  MeasuredGpu() = default;
  explicit MeasuredGpu(Gpu gpu);
  const Gpu* get() const { return gpu_.get(); }  // null: there is none
  bool operator==(const MeasuredGpu& other) const;

 private:
  std::shared_ptr<const Gpu> gpu_;
};

struct Gpu {
  std::string name;  // "a100-sxm-80g": also names the cost tables
  GpuArch arch = GpuArch::other;
  Bytes memory{};                  // what the device reports
  Bytes context{};                 // of CUDA, with the kernels that are in use
  std::optional<Bytes> reserve;    // stated: context and communication libraries together
  Bandwidth memory_bandwidth{};    // data sheet
  Bandwidth host_bandwidth{};      // to the host's memory, one way: PCIe or NVLink-C2C, data sheet
  Bandwidth host_memory{};         // its share of the host's own memory bandwidth
  std::map<DType, FlopRate> peak;  // dense, data sheet
  int64_t sms = 0;
  Power power{};        // rating, data sheet; 0: not known
  Power power_limit{};  // what it may draw; 0: its rating
  // Whose measured times say what this one takes where it has none of its own, as far as data
  // sheets and power differ (calibrate/price/compute_price.cc).
  MeasuredGpu like;
  bool operator==(const Gpu&) const = default;
};

inline MeasuredGpu::MeasuredGpu(Gpu gpu) : gpu_(std::make_shared<const Gpu>(std::move(gpu))) {}

inline bool MeasuredGpu::operator==(const MeasuredGpu& other) const {
  return gpu_ == other.gpu_ || (gpu_ && other.gpu_ && *gpu_ == *other.gpu_);
}

enum class IntraKind : uint8_t { nvswitch, nvlink_mesh, pcie };

// What drives the NICs: NCCL's own InfiniBand; the same over Ethernet (RoCE); Google's plugin for
// RoCE; Amazon's for EFA (p5 and later); Google's for Ethernet (a3-mega); Amazon's for the first
// EFA (p4d); Google's first (a3-high).
enum class NicDriver : uint8_t { verbs, roce, gib, efa, tcpxo, efa_v1, tcpx };
constexpr int kNicDriverCount = 7;

// The word of `cluster.node.nics.driver`, of cost tables and of --network.
constexpr std::string_view name_of(NicDriver driver) {
  switch (driver) {
    case NicDriver::verbs: return "verbs";
    case NicDriver::roce: return "roce";
    case NicDriver::gib: return "gib";
    case NicDriver::efa: return "efa";
    case NicDriver::tcpxo: return "tcpxo";
    case NicDriver::efa_v1: return "efa-v1";
    case NicDriver::tcpx: return "tcpx";
  }
  return "";
}

// What `nics.latency` is where nobody says otherwise; the presets of those clusters have the
// sources (scenarios/presets/clusters: dgx-h100, gcp-a3-ultra, p5, gcp-a3-mega), RoCE as
// InfiniBand, the first EFA as the second, and TCPX from the floor of a3-high's logs.
constexpr Time nominal_latency(NicDriver driver) {
  constexpr int64_t kMicrosecond = 1'000'000;
  switch (driver) {
    case NicDriver::verbs:
    case NicDriver::roce: return Time{2 * kMicrosecond};
    case NicDriver::gib: return Time{12 * kMicrosecond};
    case NicDriver::efa:
    case NicDriver::efa_v1: return Time{15 * kMicrosecond};
    case NicDriver::tcpxo: return Time{35 * kMicrosecond};
    case NicDriver::tcpx: return Time{300 * kMicrosecond};
  }
  return Time{};
}

// The same of `fabric.latency_per_hop` (InfiniBand or Ethernet switches) and `intra.latency`.
constexpr Time nominal_hop_latency(NicDriver driver) {
  return Time{driver == NicDriver::verbs ? 200'000 : 600'000};
}
constexpr Time nominal_intra_latency(int64_t nvlink_generation) {
  return Time{nvlink_generation >= 4 ? 900'000 : 1'000'000};
}

struct Node {
  Gpu gpu;
  int64_t gpus = 8;
  IntraKind intra = IntraKind::nvswitch;
  Bandwidth intra_bandwidth{};  // of one GPU
  Time intra_latency{};
  bool sharp = false;  // NVSwitch reduces in the network (NVLS)
  int64_t nics = 8;
  Bandwidth nic_bandwidth{};  // of one NIC, as far as PCIe lets it
  Time nic_latency{};         // end to end between two nodes' NICs, switches not counted
  NicDriver nic_driver = NicDriver::verbs;
  // A GPU's share of the NICs.
  Bandwidth nic_share() const {
    return nic_bandwidth * (static_cast<double>(nics) / static_cast<double>(gpus));
  }

  // What the graph of devices needs besides (build_graph.h); costs do not.
  int64_t hosts = 1;           // machines that share the NVLink domain: trays of a rack
  int64_t nvswitches = 1;      // chips, each linked to every GPU
  int64_t nvlinks = 0;         // of a GPU; 0: not known
  int64_t cpus = 2;            // sockets of a host
  int64_t pcie_switches = 0;   // of a host; 0: GPUs and NICs are on the CPUs' own PCIe
  Bandwidth pcie_bandwidth{};  // of one device; 0: not known, never the narrowest
  Bandwidth cpu_bandwidth{};   // between two sockets; 0: not known, never the narrowest
  bool c2c = false;            // GPUs reach their CPU over NVLink-C2C, not PCIe
  bool operator==(const Node&) const = default;
};

enum class FabricKind : uint8_t { fat_tree, rail_fat_tree, clos };

struct Tier {
  std::string name;
  int64_t size = 0;             // GPUs under one switch group
  double oversubscription = 1;  // down : up
  bool operator==(const Tier&) const = default;
};

struct Fabric {
  FabricKind kind = FabricKind::rail_fat_tree;
  int64_t radix = 64;  // ports of a switch
  double oversubscription = 1;
  Time hop_latency{};  // of one switch
  bool sharp = false;  // switches reduce in the network, and NCCL uses them (CollNet)
  // The routes that messages take (routes.h).
  bool adaptive = false;  // spread over all equal paths, not ECMP
  bool rail_aware = true;
  bool pxn = true;
  std::vector<Tier> tiers;  // innermost first; empty: derived from radix
  bool operator==(const Fabric&) const = default;
};

struct Cluster {
  std::string name;
  int64_t nodes = 1;
  Node node;
  Fabric fabric;
  // What is wired to what, where that was listed link by link (explicit_fabric.h); `fabric` then
  // has one tier.  Null: it follows from the numbers (build_graph.h).
  std::shared_ptr<const ClusterGraph> graph;

  int64_t gpus() const { return nodes * node.gpus; }
  int64_t node_of(int64_t rank) const { return rank / node.gpus; }
  bool operator==(const Cluster&) const = default;
};

// Which GPU each rank runs on.

// GPU of the cluster for each rank; ranks fill the GPUs of a node in order, and the nodes in the
// order of a list.
struct Placement {
  std::vector<int64_t> nodes;  // node list; empty: 0, 1, 2, ...
  int64_t gpus_per_node = 8;

  int64_t gpu_of(int64_t rank) const {
    const int64_t slot = rank / gpus_per_node;
    const int64_t node = nodes.empty() ? slot : nodes[static_cast<size_t>(slot)];
    return node * gpus_per_node + rank % gpus_per_node;
  }
  bool in_order() const { return nodes.empty(); }
  // Whether the listed nodes have a GPU for each of `ranks` ranks.
  bool holds(int64_t ranks) const {
    return in_order() || ranks <= static_cast<int64_t>(nodes.size()) * gpus_per_node;
  }
  bool operator==(const Placement&) const = default;
};

}  // namespace stepcast
