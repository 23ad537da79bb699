// SPDX-License-Identifier: Apache-2.0
// What sets generations of GPUs apart, as a table of traits.  No code asks which generation a GPU
// is of; it asks for the trait.
//
// A new generation is one more entry at the end of kGpuArchitectures (docs/recipes.md): its name
// may then stand in `cluster.node.gpu.arch` and in a GPU preset.  Where nothing is known of it yet,
// the value of its predecessor is the best guess.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepcast {

// An entry of the table.  Those with a name here are the ones that tests speak of.
enum class GpuArch : uint8_t { volta, ampere, hopper, blackwell, other };

// Speeds that NCCL tries for channels, and how many of them and of their blocks it makes of what it
// finds (src/graph/search.cc): its cases for compute capabilities below 9.0, below 10.0, and from
// there on.
enum class NcclChannels : uint8_t { before_hopper, hopper, blackwell };

// Of groups on one node, on two, on three or more.
using ByNodes = std::array<double, 3>;

// Bandwidths in GB/s and one direction.
struct GpuArchitecture {
  std::string_view name;  // "hopper", as in scenario files

  // The lowest compute capability, times ten; 0: not NVIDIA's.  CUDA C++ Programming Guide.
  int64_t compute_capability = 0;
  // Generation (0: none) and number of a GPU's NVLinks; bandwidth of one by the data sheets of
  // V100, A100, H100 and B200, and as NCCL counts it (NVIDIA/nccl src/graph/topo.h).
  int64_t nvlink_generation = 0;
  int64_t nvlinks = 0;
  double nvlink_gbs = 0;
  double nccl_nvlink_gbs = 0;
  int64_t pcie_generation = 0;  // of 16 lanes, data sheets

  // NCCL's tuner (src/graph/tuning.cc, 2.28.9 to 2.30.7): LL of all channels together, LL128 of a
  // ring's and of a tree's channel, Simple of a tree's channel, of a channel of trees between
  // NVSwitches.  LL over nodes depends on the CPU there: AMD hosts (DGX A100) 22.5 / 19, others
  // 39 / 20.4.
  ByNodes ll_max_gbs{};
  double ring_ll128_channel_gbs = 0;
  ByNodes tree_channel_gbs{};
  ByNodes tree_ll128_channel_gbs{};
  ByNodes nvls_tree_channel_gbs{};
  // Share of a channel's speed that reduction in NVSwitches reaches (0: there is none), and NCCL's
  // factor on the latency of an all-reduce by Simple rings over nodes: src/graph/tuning.cc.
  double nvls_efficiency = 0;
  double ring_simple_penalty = 1;
  NcclChannels channels = NcclChannels::before_hopper;
  // Whether what a NIC wrote has to be flushed before a GPU reads it (src/graph/paths.cc), and the
  // share of a channel's speed that NCCL counts for all-reduce by the network's switches, without a
  // chain of GPUs (src/graph/tuning.cc).
  bool needs_flush = true;
  double collnet_direct_share = 1;
  // All-to-all inside a node or rack, of NVLink: A100 224 of 300 GB/s (microsoft/superbenchmark),
  // B300 676 of 900, GB300 667 of 900 (OCI); Hopper, Volta: assumed.
  double exchange_fraction = 0;
  // Send and receive, of NVLink: A100 NCCL sendrecv among 8 GPUs 195 of 300 GB/s
  // (li-plus/playground), H100 335 of 450 at 30 MB (microsoft/vidur); copy engines reach .94, .89,
  // .85.  Volta, Blackwell: assumed as Ampere and Hopper.
  double p2p_fraction = 0;
  // Send and receive, of the NICs: H100 between two nodes 35.6 of 50 GB/s (vidur), H200 32 of 50
  // (one GPU a node, google/dranet); others: assumed as all-to-all.
  double p2p_nic_fraction = 0;
  // Name in collective_corrections.csv, and whether NVLS has a factor of its own there.
  std::string_view correction_class;
  bool own_nvls_factor = false;

  // Row of calibrate's roofline.csv; whether the shipped tables measured FlashAttention 2 (others:
  // cuDNN).
  std::string_view roofline;
  bool table_has_flash2 = false;
  // Workspace of cuBLAS that PyTorch asks for (aten/src/ATen/cuda/CublasHandlePool.cpp:
  // ":4096:2:16:8", 32 MiB on Hopper), and that of Transformer Engine
  // (transformer_engine/pytorch/module/base.py: 32 MiB from Hopper on).
  int64_t blas_workspace_kib = 0;
  int64_t engine_workspace_mib = 0;
  // Tensor cores take fp8 operands of any layout, so that no transposed copies are kept; they scale
  // blocks of 32 (mxfp8; true for "other": not known, so not refused).  PTX ISA, tcgen05.mma.
  bool fp8_any_layout = false;
  bool mxfp8 = false;
  // Group in observed_errors.csv (scenarios); "": none.
  std::string_view error_class;
  // Scope of in-situ parameters (calibrate's in_situ.csv).  Volta: no run that was published has
  // it; other: as Hopper, the generation that most of them have.
  std::string_view in_situ;
  // In use before Flash attention and Transformer Engine (December 2022), so that models of older
  // software ran on it.
  bool older_software = false;
  // The year from which libraries' kernels for it are no longer its first; 0: not known.  Hopper's
  // GPUs came late in 2022, and cuBLAS of then chose badly for some shapes (pytorch/pytorch issue
  // 100850).  When that ended is not measured: two years after are taken.
  int64_t mature_libraries = 0;

  constexpr double nvlink_fraction() const { return nccl_nvlink_gbs / nvlink_gbs; }
};

inline constexpr std::array kGpuArchitectures = std::to_array<GpuArchitecture>({
    {.name = "volta",
     .compute_capability = 70,
     .nvlink_generation = 2,
     .nvlinks = 6,
     .nvlink_gbs = 25,
     .nccl_nvlink_gbs = 20,
     .pcie_generation = 3,
     .ll_max_gbs = {39, 39, 20.4},
     .ring_ll128_channel_gbs = 20,
     .tree_channel_gbs = {26.5, 18.5, 10},
     .tree_ll128_channel_gbs = {20, 20, 20},
     .nvls_tree_channel_gbs = {0, 0, 0},
     .nvls_efficiency = 0,
     .ring_simple_penalty = 1.9,
     .channels = NcclChannels::before_hopper,
     .needs_flush = true,
     .collnet_direct_share = 1,
     .exchange_fraction = 0.75,
     .p2p_fraction = 0.65,
     .p2p_nic_fraction = 0.90,
     .correction_class = "Volta",
     .own_nvls_factor = false,
     .roofline = "volta",
     .table_has_flash2 = false,
     .blas_workspace_kib = 8320,
     .engine_workspace_mib = 4,
     .fp8_any_layout = false,
     .mxfp8 = false,
     .error_class = "Volta or Ampere",
     .in_situ = "Ampere",
     .older_software = true},
    {.name = "ampere",
     .compute_capability = 80,
     .nvlink_generation = 3,
     .nvlinks = 12,
     .nvlink_gbs = 25,
     .nccl_nvlink_gbs = 20,
     .pcie_generation = 4,
     .ll_max_gbs = {87.7, 22.5, 19},
     .ring_ll128_channel_gbs = 20,
     .tree_channel_gbs = {24, 23.6, 17.8},
     .tree_ll128_channel_gbs = {20, 20, 20},
     .nvls_tree_channel_gbs = {0, 0, 0},
     .nvls_efficiency = 0,
     .ring_simple_penalty = 1.4,
     .channels = NcclChannels::before_hopper,
     .needs_flush = true,
     .collnet_direct_share = 1,
     .exchange_fraction = 0.75,
     .p2p_fraction = 0.65,
     .p2p_nic_fraction = 0.90,
     .correction_class = "Ampere",
     .own_nvls_factor = false,
     .roofline = "ampere",
     .table_has_flash2 = true,
     .blas_workspace_kib = 8320,
     .engine_workspace_mib = 4,
     .fp8_any_layout = false,
     .mxfp8 = false,
     .error_class = "Volta or Ampere",
     .in_situ = "Ampere",
     .older_software = true},
    {.name = "hopper",
     .compute_capability = 90,
     .nvlink_generation = 4,
     .nvlinks = 18,
     .nvlink_gbs = 25,
     .nccl_nvlink_gbs = 20.6,
     .pcie_generation = 5,
     .ll_max_gbs = {141, 39, 20.4},
     .ring_ll128_channel_gbs = 36.7,
     .tree_channel_gbs = {38.7, 41.4, 36},
     .tree_ll128_channel_gbs = {36.7, 36.7, 29},
     .nvls_tree_channel_gbs = {0, 57.7, 45.5},
     .nvls_efficiency = 0.85,
     .ring_simple_penalty = 1.4,
     .channels = NcclChannels::hopper,
     .needs_flush = false,
     .collnet_direct_share = 0.85,
     .exchange_fraction = 0.75,
     .p2p_fraction = 0.74,
     .p2p_nic_fraction = 0.71,
     .correction_class = "Hopper",
     .own_nvls_factor = false,
     .roofline = "hopper",
     .table_has_flash2 = false,
     .blas_workspace_kib = 32768,
     .engine_workspace_mib = 32,
     .fp8_any_layout = false,
     .mxfp8 = false,
     .error_class = "Hopper or Blackwell",
     .in_situ = "Hopper",
     .mature_libraries = 2025},
    {.name = "blackwell",
     .compute_capability = 100,
     .nvlink_generation = 5,
     .nvlinks = 18,
     .nvlink_gbs = 50,
     .nccl_nvlink_gbs = 40.1,
     .pcie_generation = 5,
     .ll_max_gbs = {282, 39, 20.4},
     .ring_ll128_channel_gbs = 40,
     .tree_channel_gbs = {70, 42.8, 24},
     .tree_ll128_channel_gbs = {55.6, 31.67, 20},
     .nvls_tree_channel_gbs = {0, 96, 80},
     .nvls_efficiency = 0.74,
     .ring_simple_penalty = 1.4,
     .channels = NcclChannels::blackwell,
     .needs_flush = false,
     .collnet_direct_share = 0.85,
     .exchange_fraction = 0.75,
     .p2p_fraction = 0.74,
     .p2p_nic_fraction = 0.90,
     .correction_class = "Blackwell",
     .own_nvls_factor = true,
     .roofline = "blackwell",
     .table_has_flash2 = false,
     .blas_workspace_kib = 8320,
     .engine_workspace_mib = 32,
     .fp8_any_layout = true,
     .mxfp8 = true,
     .error_class = "Hopper or Blackwell",
     .in_situ = "Blackwell"},
    {.name = "other",
     .compute_capability = 0,
     .nvlink_generation = 0,
     .nvlinks = 0,
     .nvlink_gbs = 25,
     .nccl_nvlink_gbs = 20,
     .pcie_generation = 4,
     .ll_max_gbs = {87.7, 22.5, 19},
     .ring_ll128_channel_gbs = 20,
     .tree_channel_gbs = {24, 23.6, 17.8},
     .tree_ll128_channel_gbs = {20, 20, 20},
     .nvls_tree_channel_gbs = {0, 0, 0},
     .nvls_efficiency = 0,
     .ring_simple_penalty = 1.4,
     .channels = NcclChannels::before_hopper,
     .needs_flush = true,
     .collnet_direct_share = 1,
     .exchange_fraction = 0.75,
     .p2p_fraction = 0.65,
     .p2p_nic_fraction = 0.90,
     .correction_class = "other GPU",
     .own_nvls_factor = false,
     .roofline = "other",
     .table_has_flash2 = false,
     .blas_workspace_kib = 8320,
     .engine_workspace_mib = 4,
     .fp8_any_layout = false,
     .mxfp8 = true,
     .error_class = "",
     .in_situ = "Hopper"},
});

constexpr const GpuArchitecture& architecture(GpuArch arch) {
  return kGpuArchitectures[static_cast<size_t>(arch)];
}

constexpr std::string_view name_of(GpuArch arch) {
  return architecture(arch).name;
}

// The newest whose compute capability is not above this one (times ten: 90 for sm_90); `other` for
// one below all of them.
constexpr GpuArch gpu_arch_of_capability(int64_t capability) {
  GpuArch newest = GpuArch::other;
  int64_t highest = 0;
  for (size_t i = 0; i < kGpuArchitectures.size(); ++i) {
    const int64_t own = kGpuArchitectures[i].compute_capability;
    if (own <= highest || own > capability) continue;
    highest = own;
    newest = static_cast<GpuArch>(i);
  }
  return newest;
}

}  // namespace stepcast
