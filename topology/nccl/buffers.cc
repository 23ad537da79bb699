// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl/buffers.h"

#include <algorithm>

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

constexpr int64_t kTreesAreLazy = 22200;
constexpr int64_t kMostChannels = 32;  // MAXCHANNELS before 2.28
constexpr int64_t kMoreChannels = 22800;

}  // namespace

Bytes ring_buffers(const Cluster& cluster, const GroupShape& shape, NcclVersion version) {
  if (shape.ranks == 1) return {};
  int64_t channels = search_channels(cluster, shape, ChannelPattern::ring).blocks;
  if (version.code < kMoreChannels) channels = std::min(channels, kMostChannels);
  // A channel enters and leaves each node once; the other connections of its GPUs are inside.
  const int64_t p = shape.ranks_per_node;
  const int64_t beyond = shape.nodes > 1 ? 1 : 0;
  const int64_t of_node =
      (p - beyond) * (kReceiveInside + kSendInside) + beyond * (kReceiveBeyond + kSendBeyond);
  const bool trees = version.code < kTreesAreLazy && shape.ranks > 2;
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
  const int64_t all =
      std::min(search_channels(cluster, shape, ChannelPattern::ring).blocks, kMostChannels);
  const bool all_have = version.code >= kSmaller && version.code < kOwnChannels;
  const int64_t channels = all_have ? std::max(own, all) : own;
  const int64_t buffer = version.code < kSmaller ? kSimpleBuffer : kChunk;
  return Bytes{rounded(shape.ranks * 2 * channels * buffer)};
}

// Peers of a node have 32 channels each (issue 1685 counts 32 x 7 x (10 + 2) MiB for an all-to-all
// of eight H100).  Beyond it all share 16 slots of 128 KiB on each of 32 channels, in either
// direction (src/transport/net.cc, sharedBuffersInit).
Bytes exchange_buffers(int64_t inside, bool beyond) {
  constexpr int64_t kShared = 32 * 16 * 128 * 1024;
  return Bytes{inside * kMostChannels * (kReceiveInside + kSendInside) +
               (beyond ? 2 * kShared : 0)};
}

}  // namespace stepcast
