// SPDX-License-Identifier: Apache-2.0
// Sources, by column.
//   Latencies, caps (ll_max, *_channel): NVIDIA/nccl src/graph/tuning.cc (2.28.9 to 2.30.7).  The
//     cap of LL across nodes depends on the CPU there: AMD hosts (DGX A100) 22.5 / 19, others
//     39 / 20.4 GB/s.
//   kNicFraction: NCCL counts 24 of 25 GB/s for a 200 Gb/s NIC and 48 of 50 for 400 Gb/s
//     (src/graph/search.cc); logs show 46-49 and, on EFA, 24.2 of 25.
//   kPcieFraction: NCCL's 24 of 31.5 GB/s for gen4 x16 (src/graph/topo.h); the same for gen3, gen5.
//   nvlink_fraction: NCCL counts 20 GB/s of the 25 of a link up to Ampere, 20.6 of the 25 of
//     Hopper, 40.1 of the 50 of Blackwell (src/graph/topo.h); measured rings reach 232-235 of
//     300 (A100, microsoft/superbenchmark), 365 of 450 (H100, stas00/ml-engineering, NVLS off),
//     682 of 900.
//   exchange_fraction: all-to-all inside a node or rack: A100 224 of 300 (superbenchmark), B300 676
//     of 900, GB300 667 of 900 (OCI); Hopper, Volta: assumed.
//   p2p_fraction: A100 NCCL sendrecv among 8 GPUs 195 of 300 (li-plus/playground), H100 335 of 450
//     at 30 MB (microsoft/vidur); copy engines reach .94, .89, .85.  Volta, Blackwell: assumed as
//     Ampere and Hopper.
//   p2p_nic_fraction: H100 send/recv between two nodes 35.6 of 50 GB/s (vidur), H200 32 of 50 (one
//     GPU a node, google/dranet); others: assumed as all-to-all.
//   nvls_efficiency: NCCL's (src/graph/tuning.cc).
#include "topology/nccl_constants.h"

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr double kUs = 1e-6;

constexpr NcclLatencies kLatencies{
    .ring = {.base = {6.6 * kUs, 14 * kUs, 8.4 * kUs},
             .nvlink = {0.6 * kUs, 1.9 * kUs, 3.4 * kUs},
             .pcie = {1 * kUs, 2.5 * kUs, 5.7 * kUs},
             .network = {2.7 * kUs, 4 * kUs, 14 * kUs}},
    .tree = {.base = {6.8 * kUs, 14 * kUs, 8.4 * kUs},
             .nvlink = {0.6 * kUs, 1.25 * kUs, 4 * kUs},
             .pcie = {1 * kUs, 1.9 * kUs, 4 * kUs},
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

constexpr ArchConstants kVolta{
    .nvlink_fraction = 0.80,
    .exchange_fraction = 0.75,
    .p2p_fraction = 0.65,
    .p2p_nic_fraction = 0.90,
    .ll_max = {39 * kGB, 39 * kGB, 20.4 * kGB},
    .ring_ll128_channel = 20 * kGB,
    .tree_channel = {26.5 * kGB, 18.5 * kGB, 10 * kGB},
    .tree_ll128_channel = {20 * kGB, 20 * kGB, 20 * kGB},
    .nvls_tree_channel = {},
    .nvls_efficiency = 0,
    .ring_simple_penalty = 1.9,
};

constexpr ArchConstants kAmpere{
    .nvlink_fraction = 0.80,
    .exchange_fraction = 0.75,
    .p2p_fraction = 0.65,
    .p2p_nic_fraction = 0.90,
    .ll_max = {87.7 * kGB, 22.5 * kGB, 19 * kGB},
    .ring_ll128_channel = 20 * kGB,
    .tree_channel = {24 * kGB, 23.6 * kGB, 17.8 * kGB},
    .tree_ll128_channel = {20 * kGB, 20 * kGB, 20 * kGB},
    .nvls_tree_channel = {},
    .nvls_efficiency = 0,
    .ring_simple_penalty = 1.4,
};

constexpr ArchConstants kHopper{
    .nvlink_fraction = 20.6 / 25,
    .exchange_fraction = 0.75,
    .p2p_fraction = 0.74,
    .p2p_nic_fraction = 0.71,
    .ll_max = {141 * kGB, 39 * kGB, 20.4 * kGB},
    .ring_ll128_channel = 36.7 * kGB,
    .tree_channel = {38.7 * kGB, 41.4 * kGB, 36 * kGB},
    .tree_ll128_channel = {36.7 * kGB, 36.7 * kGB, 29 * kGB},
    .nvls_tree_channel = {0, 57.7 * kGB, 45.5 * kGB},
    .nvls_efficiency = 0.85,
    .ring_simple_penalty = 1.4,
};

constexpr ArchConstants kBlackwell{
    .nvlink_fraction = 40.1 / 50,
    .exchange_fraction = 0.75,
    .p2p_fraction = 0.74,
    .p2p_nic_fraction = 0.90,
    .ll_max = {282 * kGB, 39 * kGB, 20.4 * kGB},
    .ring_ll128_channel = 40 * kGB,
    .tree_channel = {70 * kGB, 42.8 * kGB, 24 * kGB},
    .tree_ll128_channel = {55.6 * kGB, 31.67 * kGB, 20 * kGB},
    .nvls_tree_channel = {0, 96 * kGB, 80 * kGB},
    .nvls_efficiency = 0.74,
    .ring_simple_penalty = 1.4,
};

}  // namespace

std::string_view name_of(Protocol p) {
  switch (p) {
    case Protocol::ll: return "LL";
    case Protocol::ll128: return "LL128";
    case Protocol::simple: return "Simple";
  }
  STEPCAST_CHECK(false, "a protocol has a name");
  return {};
}

std::string_view name_of(Algorithm a) {
  switch (a) {
    case Algorithm::ring: return "ring";
    case Algorithm::tree: return "tree";
    case Algorithm::collnet_direct: return "CollNet direct";
    case Algorithm::collnet_chain: return "CollNet chain";
    case Algorithm::nvls: return "NVLS";
    case Algorithm::nvls_tree: return "NVLS tree";
    case Algorithm::pat: return "PAT";
    case Algorithm::pairwise: return "pairwise";
    case Algorithm::two_step: return "two-step";
  }
  STEPCAST_CHECK(false, "an algorithm has a name");
  return {};
}

const NcclLatencies& nccl_latencies() {
  return kLatencies;
}

const ArchConstants& arch_constants(GpuArch arch) {
  switch (arch) {
    case GpuArch::volta: return kVolta;
    case GpuArch::ampere: return kAmpere;
    case GpuArch::hopper: return kHopper;
    case GpuArch::blackwell: return kBlackwell;
    case GpuArch::other: return kAmpere;  // the plainest: no in-network reduction
  }
  STEPCAST_CHECK(false, "an architecture has constants");
  return kAmpere;
}

}  // namespace stepcast
