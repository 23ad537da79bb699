// SPDX-License-Identifier: Apache-2.0
// What NCCL and the links are known to reach, whatever the GPU: latencies of hops and the usable
// share of NICs and PCIe.  What depends on the GPU is in gpu_architecture.h.
//
// Nothing here is tuned to a training run.  Software that differs (older versions, other libraries,
// plugins) has other constants; measured tables stand above this model.  Sources:
//   latencies      NVIDIA/nccl src/graph/tuning.cc, the same in 2.28.9 to 2.30.7
//   kNicFraction   NCCL counts 24 of 25 GB/s for a 200 Gb/s NIC and 48 of 50 for 400 Gb/s
//                  (src/graph/search.cc); logs show 46-49 and, on EFA, 24.2 of 25
//   kPcieFraction  NCCL's 24 of 31.5 GB/s for gen4 x16 (src/graph/topo.h); the same for gen3, gen5
#pragma once

#include <array>
#include <cstdint>

#include "sim/graph/price.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

using ByProtocol = std::array<double, kProtocols>;

// Latencies in seconds.
struct HopLatencies {
  ByProtocol base{};                       // once a collective
  ByProtocol nvlink{}, pcie{}, network{};  // over PCIe without LL128, which needs NVLink
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
constexpr double kUs = 1e-6;  // seconds
constexpr double kGB = 1e9;   // bytes per second

inline constexpr NcclLatencies kNcclLatencies{
    .ring = {.base = {6.6 * kUs, 14 * kUs, 8.4 * kUs},
             .nvlink = {0.6 * kUs, 1.9 * kUs, 3.4 * kUs},
             .pcie = {1 * kUs, 0, 5.7 * kUs},
             .network = {2.7 * kUs, 4 * kUs, 14 * kUs}},
    .tree = {.base = {6.8 * kUs, 14 * kUs, 8.4 * kUs},
             .nvlink = {0.6 * kUs, 1.25 * kUs, 4 * kUs},
             .pcie = {1 * kUs, 0, 4 * kUs},
             .network = {5 * kUs, 8.5 * kUs, 14 * kUs}},
    .nvls = 25 * kUs,
    .nvls_network = 18 * kUs,
    .collnet_intra = 3.7 * kUs,
    .collnet_chain_intra = 2.8 * kUs,
    .collnet_network = 31 * kUs,
    .collnet_chain_network = 30 * kUs,
    .pat_base = 8 * kUs,
    .nvls_tree_network = 20.9 * kUs,
    .network_post = 1 * kUs,
    .nominal_intra = 1 * kUs,
    .nominal_network = 2 * kUs,
};

constexpr double kNicFraction = 0.96;  // of a NIC's bandwidth, by rings and trees
constexpr double kPcieFraction = 0.76;
constexpr double kUnlimited = 1e18;  // bandwidth where there is no link

}  // namespace stepcast
