// SPDX-License-Identifier: Apache-2.0
// The NVLinks of GPUs as NCCL's topology files tell them: each GPU for itself, by the addresses of
// those at the other end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topology/import_parts.h"
#include "topology/link_speeds.h"

namespace stepcast {

// An nvlink or xgmi element of a GPU.
struct NcclGpuLink {
  uint32_t gpu = 0;    // devices
  uint32_t cpu = 0;    // of the GPU
  std::string target;  // bus address; fffffff:... are all NVSwitches of the domain
  int32_t count = 0;
  bool to_switch = false, to_cpu = false;
  LinkSpeed one;
  int line = 0;
};

// "n1/" of the second host on: before names and bus addresses.
std::string host_prefix(int32_t host);

// Joins GPUs with each other, with their CPUs, and with NVSwitches, which it adds.  `gpus`: devices
// by host_prefix and bus address.  Warns of links that lead nowhere, and of pairs of GPUs that tell
// of different numbers of links between them: the larger is taken.
void join_nvlinks(ImportParts& parts, const std::vector<NcclGpuLink>& links,
                  const std::map<std::string, uint32_t>& gpus, bool several_hosts);

}  // namespace stepcast
