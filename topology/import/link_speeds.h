// SPDX-License-Identifier: Apache-2.0
// How fast a link is, from what it is called: generation, width, count.
//
// Two figures, both bytes per second in one direction: that of the data sheet, and what NCCL's
// search for channels counts with (NVIDIA/nccl, src/graph/topo.h); 0 where that is not known.
#pragma once

#include <cstdint>
#include <string_view>

#include "topology/cluster/cluster.h"

namespace stepcast {

struct LinkSpeed {
  Bandwidth nominal{};
  Bandwidth nccl{};
};

// One NVLink of a GPU: NVLink 2 to 4 have 25 GB/s, NVLink 5 has 50.
LinkSpeed nvlink_speed(GpuArch arch);
// One Infinity Fabric link between AMD GPUs of a "gfx942" (MI300X: 64 GB/s), others 50.
LinkSpeed xgmi_speed(std::string_view gcn);
// PCI Express: giga-transfers per second and lane; the nearest generation is taken.
LinkSpeed pcie_speed(double gigatransfers, int64_t lanes);
int64_t pcie_generation(double gigatransfers);  // 1 to 6
double pcie_gigatransfers(int64_t generation);  // REQUIRES: 1 to 6

// Between the sockets of a host, by the names in NCCL's topology files; no figure of a data sheet
// is known, so both are NCCL's.  0 for a CPU that NCCL has no figure for.
LinkSpeed cpu_speed(std::string_view arch, std::string_view vendor, int64_t family, int64_t model);

// InfiniBand: "4xNDR", "2xHDR"; 0 if that is no width and speed.  Nothing is subtracted for the
// line code of SDR, DDR and QDR (a fifth), which is how the speeds are named.
LinkSpeed infiniband_speed(std::string_view width_and_speed);

}  // namespace stepcast
