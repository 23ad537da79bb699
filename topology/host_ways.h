// SPDX-License-Identifier: Apache-2.0
// Ways inside hosts and NVLink domains, and which NICs are a GPU's own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/cluster_graph.h"
#include "topology/marks.h"

namespace stepcast {

class HostWays {
 public:
  explicit HostWays(const ClusterGraph& graph);

  // The NICs that are fewest devices away from a GPU over PCIe, CPUs and C2C.  GPUs for which
  // several are equally near divide them: each has its share, at least one.  Empty: none in reach.
  std::span<const uint32_t> own_nics(uint32_t gpu);
  // Rails of the NICs of the host of `gpu`, from 0 to the highest; 0: none.
  int32_t rails(uint32_t gpu) const;
  // A GPU of the host of `gpu` that has a NIC on `rail` and that one NVLink or NVSwitch leads to,
  // and that NIC; devices, -1 both if there is none.
  struct Beside {
    int64_t gpu = -1, nic = -1;
  };
  Beside beside_rail(uint32_t gpu, int32_t rail);

  // Links from one device of a host to another over PCIe, CPUs and C2C, by the fewest devices;
  // appended to `way`.  False, and nothing appended, if there is none.
  bool over_pcie(uint32_t from, uint32_t to, std::vector<uint32_t>& way);
  // Links between two GPUs of an NVLink domain: direct, through the NVSwitch of cable `choice` of
  // those that lead to one, else by the fewest devices.
  bool over_nvlink(uint32_t from, uint32_t to, uint64_t choice, std::vector<uint32_t>& way);
  // Cables that `over_nvlink` chooses from; 0: no single NVLink or NVSwitch leads there.
  int64_t nvlink_cables(uint32_t from, uint32_t to);

 private:
  // Links of one step over NVLink, or both steps through an NVSwitch; each with its cables.
  struct Hop {
    uint32_t first = 0, second = 0;  // second == first: direct
    int32_t cables = 0;
  };
  void find_hops(uint32_t from, uint32_t to);
  void divide_nics(int32_t host);
  bool search(uint32_t from, uint32_t to, bool nvlink, std::vector<uint32_t>& way);

  const ClusterGraph& graph_;
  std::vector<std::vector<uint32_t>> gpus_of_host_;
  std::vector<std::vector<uint32_t>> own_nics_;  // by device
  std::vector<bool> divided_;                    // by host
  std::vector<int32_t> rails_;                   // by host
  std::vector<Hop> hops_;
  std::vector<uint32_t> queue_, entered_by_;
  std::vector<uint32_t> link_to_;
  Marks marks_;
};

}  // namespace stepcast
