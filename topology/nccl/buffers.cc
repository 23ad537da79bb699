// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl/buffers.h"

#include <algorithm>
#include <bit>

#include "topology/nccl/channels.h"

namespace stepcast {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kLlBuffer = 8 * 512 * 8 * 16;
constexpr int64_t kLl128Buffer = 120 * 640 * 8 * 8;
constexpr int64_t kSimpleBuffer = 4 * kMebibyte;
constexpr int64_t kGranule = 2 * kMebibyte;  // CUDA_IPC_MIN

constexpr int64_t rounded(int64_t bytes) {
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

constexpr int64_t kReceiveInside = rounded(kLlBuffer + kLl128Buffer + kSimpleBuffer),
                  kSendInside = kGranule;
constexpr int64_t kReceiveBeyond = rounded(kLlBuffer + kLl128Buffer + kSimpleBuffer);
constexpr int64_t kSendBeyond = rounded(kLl128Buffer + kSimpleBuffer);

constexpr int64_t kConnectsLater = 22200;
constexpr int64_t kMostChannels = 32;  // MAXCHANNELS before 2.28
constexpr int64_t kMoreChannels = 22800;

// nChannels, from the channels of rings.
int64_t channels_of(const Cluster& cluster, const GroupShape& shape, NcclVersion version) {
  const int64_t blocks = search_channels(cluster, shape, ChannelPattern::ring).blocks;
  return version.code < kMoreChannels ? std::min(blocks, kMostChannels) : blocks;
}

int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

// p2pnChannels (src/graph/paths.cc, ncclTopoComputeP2pChannels).
int64_t exchange_channels(const Cluster& cluster, const GroupShape& shape, NcclVersion version) {
  return power_of_two(channels_of(cluster, shape, version));
}

// p2pnChannelsPerPeer: the fewest towards any rank of the group (ncclTopoGetNchannels there), twice
// as many as links inside a node, two at most to a rank beyond it.
int64_t channels_per_peer(const Cluster& cluster, const GroupShape& shape, NcclVersion version) {
  constexpr int64_t kTwoBeyond = 21200, kFewerAtScale = 22000;
  const Node& node = cluster.node;
  const int64_t all = exchange_channels(cluster, shape, version);
  int64_t fewest = channels_of(cluster, shape, version);
  if (shape.ranks_per_node > 1 && node.intra == IntraKind::pcie) fewest = 2;
  if (shape.ranks_per_node > 1 && node.intra == IntraKind::nvlink_mesh && node.gpus > 1)
    fewest = std::min(fewest, 2 * std::max<int64_t>(1, node.nvlinks / (node.gpus - 1)));
  if (shape.nodes > 1) {
    int64_t beyond = version.code < kTwoBeyond ? 1 : 2;
    if (version.code >= kFewerAtScale && beyond * shape.ranks > all * 4) beyond = 1;
    fewest = std::min(fewest, beyond);
  }
  return std::min(power_of_two(fewest), all);
}

// 16 slots on each channel.
Bytes slots(const Cluster& cluster, const GroupShape& shape, NcclVersion version, int64_t slot) {
  constexpr int64_t kSlots = 16;  // NCCL_SHARED_STEPS
  return Bytes{exchange_channels(cluster, shape, version) * kSlots * slot};
}
constexpr int64_t kNetSlot = 128 * 1024, kNvlinkSlot = 512 * 1024;

// With PXN a rank sends by way of the GPU of its node that is on the receiver's rail, which has
// slots for each of them (ncclTopoGetPxnRanks).
int64_t senders(const Cluster& cluster, const GroupShape& shape) {
  const bool relays = cluster.fabric.pxn && cluster.node.intra != IntraKind::pcie;
  return shape.nodes > 1 && relays ? shape.ranks_per_node : 1;
}

}  // namespace

bool connects_at_start(NcclVersion version) {
  return version.code < kConnectsLater;
}

Bytes ring_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version) {
  if (shape.ranks == 1) return {};
  const int64_t channels = channels_of(cluster, shape, version);
  // A channel enters and leaves each node once; the other connections of its GPUs are inside.
  const int64_t p = shape.ranks_per_node;
  const int64_t beyond = shape.nodes > 1 ? 1 : 0;
  const int64_t of_node =
      (p - beyond) * (kReceiveInside + kSendInside) + beyond * (kReceiveBeyond + kSendBeyond);
  const bool trees = connects_at_start(version) && shape.ranks > 2;
  return Bytes{channels * of_node / p * (trees ? 2 : 1)};
}

// src/transport/nvls.cc: heads x 2 directions x channels x (buffer + page).  Buffers were those of
// Simple up to 2.18 and are 128 KiB x 8 steps since; 2.19 to 2.24 had them for all channels.
Bytes nvls_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version) {
  constexpr int64_t kFirst = 21700, kSmaller = 21900, kOwnChannels = 22500;
  constexpr int64_t kChunk = 128 * 1024 * 8;
  const bool reduces = cluster.node.sharp && cluster.node.intra == IntraKind::nvswitch;
  if (!reduces || version.code < kFirst || shape.nodes > 1 || shape.ranks <= 2) return {};
  const int64_t own = search_channels(cluster, shape, ChannelPattern::nvls).blocks;
  const int64_t all = std::min(channels_of(cluster, shape, version), kMostChannels);
  const bool all_have = version.code >= kSmaller && version.code < kOwnChannels;
  const int64_t channels = all_have ? std::max(own, all) : own;
  const int64_t buffer = version.code < kSmaller ? kSimpleBuffer : kChunk;
  return Bytes{rounded(shape.ranks * 2 * channels * buffer)};
}

// Proxies have them from 2.12 on; the slot's size is that of the group's paths since 2.16.
Bytes slot_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version) {
  constexpr int64_t kFirst = 21200, kByPath = 21600;
  if (shape.ranks == 1 || version.code < kFirst || !connects_at_start(version)) return {};
  const bool nvlinks = shape.nodes == 1 && cluster.node.intra != IntraKind::pcie;
  const int64_t slot = nvlinks && version.code >= kByPath ? kNvlinkSlot : kNetSlot;
  return slots(cluster, shape, version, slot) * senders(cluster, shape);
}

// Issue 1685 counts 32 x 7 x (10 + 2) MiB for an all-to-all of eight H100.
Bytes exchange_buffers(const Cluster& cluster, const GroupShape& shape, int64_t peers,
                       NcclVersion version) {
  if (shape.ranks == 1) return {};
  const int64_t inside = std::min(peers, shape.ranks_per_node - 1);
  Bytes sum{inside * channels_per_peer(cluster, shape, version) * (kReceiveInside + kSendInside)};
  if (peers == inside) return sum;
  const Bytes one = slots(cluster, shape, version, kNetSlot);
  const bool everyone = peers >= shape.ranks - 1;
  sum += one;  // for what comes
  if (slot_buffers(cluster, shape, version).value == 0)
    sum += one * (everyone ? senders(cluster, shape) : 1);
  return sum;
}

}  // namespace stepcast
