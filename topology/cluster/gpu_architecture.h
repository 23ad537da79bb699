// SPDX-License-Identifier: Apache-2.0
// What sets generations of GPUs apart, as data: one row of traits each, from gpu_architectures.csv,
// which has the sources.  No code asks which generation a GPU is of; it asks for the trait.
//
// A new generation is a column of that file (docs/recipes.md); its name may then stand in
// cluster.node.gpu.arch and in a GPU preset.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stepcast {

// A column of the table.  Those with a name here are the ones that tests speak of; the file has
// all.
enum class GpuArch : uint8_t { volta, ampere, hopper, blackwell, other };

// Of groups on one node, on two, on three or more.
using ByNodes = std::array<double, 3>;

// Bandwidths in bytes per second and direction.
struct GpuArchitecture {
  std::string name;                // "hopper", as in scenario files
  int64_t compute_capability = 0;  // the lowest, times ten; 0: not NVIDIA's
  int64_t nvlink_generation = 0;   // 0: none
  int64_t nvlinks = 0;             // of a GPU
  double nvlink = 0;               // of one link, data sheet
  double nccl_nvlink = 0;          // ... as NCCL counts it
  int64_t pcie_generation = 0;

  double nvlink_fraction = 0;  // nccl_nvlink / nvlink
  ByNodes ll_max{};            // LL, all channels together
  double ring_ll128_channel = 0;
  ByNodes tree_channel{};
  ByNodes tree_ll128_channel{};
  ByNodes nvls_tree_channel{};
  double nvls_efficiency = 0;      // of a channel's speed, by reduction in NVSwitches; 0: none
  double ring_simple_penalty = 1;  // on the latency of Simple ring all-reduce over nodes
  double exchange_fraction = 0;    // of NVLink, by all-to-all
  double p2p_fraction = 0;         // of NVLink, by send/recv
  double p2p_nic_fraction = 0;     // of the NICs, by one send/recv a GPU
  std::string correction_class;    // in collective_corrections.csv
  bool own_nvls_factor = false;    // ... where NVLS has a factor of its own

  std::string roofline;           // row of calibrate/roofline.csv
  bool table_has_flash2 = false;  // its cost tables measured FlashAttention 2
  int64_t blas_workspace_kib = 0;
  int64_t engine_workspace_mib = 0;
  bool fp8_any_layout = false;  // no transposed copies for fp8 products
  bool mxfp8 = false;           // tensor cores scale blocks of 32
  std::string error_class;      // of runs whose errors were observed; "": none
};

// In the order of the file.  Safe to call from several threads.
std::span<const GpuArchitecture> gpu_architectures();

// REQUIRES: `arch` is a column of the file.
const GpuArchitecture& architecture(GpuArch arch);
std::string_view name_of(GpuArch arch);
std::optional<GpuArch> gpu_arch_named(std::string_view name);

// The newest whose compute capability is not above this one (times ten: 90 for sm_90); `other` for
// one below all of them.
GpuArch gpu_arch_of_capability(int64_t capability);

// "volta|ampere|...", for lists of choices.
const char* gpu_architecture_choices();

}  // namespace stepcast
