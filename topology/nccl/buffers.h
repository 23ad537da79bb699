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
// ring has one connection in and one out on each channel.  A tree inside a node is the ring's chain
// in both directions, so that its middle has as many again and its ends share them.
//
// Beside them a communicator has slots for what send and receive bring over the network: 16 on each
// channel (src/transport/net.cc, sharedBuffersInit), 128 KiB each, or 512 KiB inside a node of
// NVLinks, which never uses them.
//
// Up to 2.21 all of this is there from a communicator's start, whatever it is used for
// (initTransportsRank in src/init.cc); from 2.22 on (runtimeConn) only what is used.
//
// For example eight A100 of one node have 24 channels: 24 x (10 + 2) MiB for rings and as much for
// trees, 576 MiB, and 32 x 16 x 512 KiB of slots, 256 MiB.  Measured (NVIDIA/nccl issue 964): 544
// MiB by two A100, which need no connections for trees (288 + 256); 688 by rank 0 of three or four,
// an end of each chain, which on average has 10 + 2 MiB for two channels (288 + 144 + 256).
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

// Whether a communicator connects all that it may need when it is made.
bool connects_at_start(NcclVersion version);

// Of rings, and of trees where they are connected at once.
Bytes ring_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version);
// Of NVLS, for a group on one node whose switches reduce; 0 otherwise.
Bytes nvls_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version);
// Slots for what is sent over the network, which a communicator has from its start.
Bytes slot_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version);
// What send and receive take with `peers` others of the group, those of the node first; without the
// slots above.
Bytes exchange_buffers(const Cluster& cluster, const GroupShape& shape, int64_t peers,
                       NcclVersion version);

}  // namespace stepcast
