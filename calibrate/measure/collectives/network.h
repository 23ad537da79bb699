// SPDX-License-Identifier: Apache-2.0
// What the network and the NVLinks of this machine are, from what the system and NCCL's settings
// say; the conditions under which collectives were measured.  Needs no GPU.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster/cluster.h"

namespace stepcast::measure {

// A port of an InfiniBand or RoCE adapter, as Linux shows it under /sys/class/infiniband.
struct NetworkPort {
  std::string device;  // "mlx5_0"
  int port = 1;        // from 1
  bool active = false;
  double gbits = 0;          // one direction
  std::string link_layer{};  // "InfiniBand", "Ethernet"; EFA has "Unspecified"
};

// Of the file `rate`: "400 Gb/sec (4X NDR)" is 400.  Nothing if it is none.
std::optional<double> gbits_of_rate(std::string_view text);

// Of the file `state`: "4: ACTIVE".
bool is_active(std::string_view state);

// All ports below `root`, sorted by device and port; what cannot be read is left out.  No folder:
// no ports.
std::vector<NetworkPort> read_network_ports(
    const std::filesystem::path& root = "/sys/class/infiniband");

// Whether NCCL uses the port under NCCL_IB_HCA: a list "mlx5_0:1,mlx5_1" of the beginnings of
// names, with '^' before it those not to use, with '=' whole names ("^=" both).  Empty: every port.
bool is_selected(const NetworkPort& port, std::string_view nccl_ib_hca);

// GB/s of one direction of all active, selected ports together; 0: there are none.
double nic_total_gbs(std::span<const NetworkPort> ports, std::string_view nccl_ib_hca);

// What drives the active, selected ports: InfiniBand or RoCE by their link layer, EFA by the names
// of its devices (amzn/amzn-drivers: "efa_0", "rdmap16s27").  Nothing where there are none, or of
// several kinds.
std::optional<NicDriver> driver_of(std::span<const NetworkPort> ports,
                                   std::string_view nccl_ib_hca);

// GB/s of one NVLink in one direction by the GPU's compute capability, from NVIDIA's data sheets
// (total of both directions over links: V100 300/6, A100 600/12, H100 900/18, B200 1800/18;
// RTX A6000 112.5/4).  NVML and nvidia-smi count the coding too (26.562 for 25).  0: not known.
double nvlink_gbs_per_link(int major, int minor);

// Whether NCCL lets the NVSwitches reduce, and why.
struct SwitchReduction {
  bool used = false;
  std::string reason;
};
// `multicast`: every GPU can (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, with NVSwitch); `version`
// as NCCL counts (22809); the settings as in the environment, empty if not set.  NCCL uses NVLS
// from 2.17 on where multicast is there, unless NCCL_NVLS_ENABLE is 0 or NCCL_ALGO names other
// algorithms only.
SwitchReduction switch_reduction(bool multicast, int version, std::string_view nccl_nvls_enable,
                                 std::string_view nccl_algo);

}  // namespace stepcast::measure
