// SPDX-License-Identifier: Apache-2.0
// What NCCL and the links are known to reach: constants of the collective model.
//
// Nothing here is tuned to a training run.  Latencies and caps are those of NCCL's own tuner
// (NVIDIA/nccl, src/graph/tuning.cc, the same in 2.28.9 to 2.30.7); usable fractions of the data
// sheet are measurements, each with its source in nccl_constants.cc.  Software that differs (older
// versions, other libraries, plugins) has other constants; measured tables stand above this model.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "topology/cluster.h"

namespace stepcast {

// How NCCL's kernels hand data over: 8-byte words that carry a flag, 128-byte lines that do, or
// plain copies with fences.
enum class Protocol : uint8_t { ll, ll128, simple };
constexpr int kProtocols = 3;
std::string_view name_of(Protocol p);  // "LL", "LL128", "Simple"

enum class Algorithm : uint8_t {
  ring,
  tree,
  collnet_direct,  // network switches reduce; every GPU talks to them
  collnet_chain,   // the same along a chain of the node's GPUs
  nvls,            // NVSwitches reduce
  nvls_tree,       // NVSwitches reduce inside nodes, a tree between them
  pat,             // parallel aggregated trees
  pairwise,        // sends and receives
  two_step         // to one GPU of each node, then inside it
};
std::string_view name_of(Algorithm a);  // "ring", "NVLS tree", ...

using ByProtocol = std::array<double, kProtocols>;
// Groups on one node, on two, on three or more.
using ByNodes = std::array<double, 3>;

// Latencies in seconds.
struct HopLatencies {
  ByProtocol base{};  // once a collective
  ByProtocol nvlink{}, pcie{}, network{};
};

struct NcclLatencies {
  HopLatencies ring, tree;
  double nvls = 0;          // in-network reduction inside a node, replaces base and hops
  double nvls_network = 0;  // network hop of it with aggregating switches (CollNet)
  double collnet_intra = 0, collnet_chain_intra = 0;
  double collnet_network = 0, collnet_chain_network = 0;
  double pat_base = 0;
  double nvls_tree_network = 0;  // network hop of the tree over nodes that reduce that way
  double network_post = 0;       // host posts a network operation; three times for Simple
  double nominal_intra = 0;      // the link latencies for which the hops above were measured
  double nominal_network = 0;
};
const NcclLatencies& nccl_latencies();

// Bandwidths in bytes per second and direction.
struct ArchConstants {
  double nvlink_fraction = 0;    // of NVLink, as NCCL counts it
  double exchange_fraction = 0;  // of NVLink, by all-to-all
  double p2p_fraction = 0;       // of NVLink, by send/recv
  double p2p_nic_fraction = 0;   // of the NICs, by one send/recv a GPU
  ByNodes ll_max{};              // LL, all channels together
  double ring_ll128_channel = 0;
  ByNodes tree_channel{};
  ByNodes tree_ll128_channel{};
  ByNodes nvls_tree_channel{};
  double nvls_efficiency = 0;      // of a channel's speed, by in-switch reduction; 0: none
  double ring_simple_penalty = 1;  // on the latency of Simple ring all-reduce across nodes
};
const ArchConstants& arch_constants(GpuArch arch);

constexpr double kNicFraction = 0.96;  // rings and trees; see nccl_constants.cc
constexpr double kPcieFraction = 0.76;

// Shared by the files of the model.
constexpr double kGB = 1e9;          // bytes per second
constexpr double kUnlimited = 1e18;  // bandwidth where there is no link
inline double real(int64_t n) {
  return static_cast<double>(n);
}

}  // namespace stepcast
