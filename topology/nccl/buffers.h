// SPDX-License-Identifier: Apache-2.0
// Device memory that an NCCL communicator holds on each of its GPUs: buffers of its connections and
// of reduction in NVSwitches.  Counted from NVIDIA/nccl's source; user buffers that are registered
// take none of their own.
//
// A connection of a channel has, per protocol, room for 8 steps (src/include/device.h, NCCL_STEPS;
// src/init.cc, DEFAULT_*_BUFFSIZE):
//
//   LL      8 lines x 512 threads x 8 steps x 16 B = 0.5 MiB
//   LL128   120 words x 640 threads x 8 steps x 8 B = 4.7 MiB
//   Simple  4 MiB
//
// Inside a node the receiver has all three, the sender a page of flags, each rounded up to 2 MiB
// (src/transport/p2p.cc, CUDA_IPC_MIN): 10 and 2 MiB, which are the sizes that NCCL_DEBUG=INFO
// prints (NVIDIA/nccl issue 1685).  Over the network both ends have LL128 and Simple in the GPU's
// memory, the receiver LL too (src/transport/net.cc, NCCL_NET_MAP_ADD_POINTER with GPUDirect).  A
// ring has one connection in and one out on each channel, trees have as many again; from 2.22 on
// (runtimeConn in src/init.cc) trees have them only where they are used, which is taken to be rare.
//
// For example eight A100 of one node have 24 channels: 24 x (10 + 2) MiB for rings and as much for
// trees, 576 MiB.
#pragma once

#include <cstdint>

#include "sim/units.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/group_shape.h"

namespace stepcast {

// As NCCL_VERSION_CODE has it: 22105 is 2.21.5.
struct NcclVersion {
  int64_t code = 22105;
};

// Of rings and trees.
Bytes ring_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version);
// Of NVLS, for a group on one node whose switches reduce; 0 otherwise.
Bytes nvls_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version);
// Of send and receive with `inside` peers of the same node, and with others or none beyond it.
Bytes exchange_buffers(int64_t inside, bool beyond);

}  // namespace stepcast
