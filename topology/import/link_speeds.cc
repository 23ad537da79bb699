// SPDX-License-Identifier: Apache-2.0
#include "topology/import/link_speeds.h"

#include <array>
#include <utility>

#include "topology/import/import_internal.h"

namespace stepcast {
namespace {

constexpr double kGiga = 1e9;

struct PcieGeneration {
  double gigatransfers;
  double lane;  // GB/s: 8b/10b code, 128b/130b from the third, 242/256 flits in the sixth
  double nccl_lane;
};
constexpr std::array<PcieGeneration, 6> kPcie = {{{2.5, 0.25, 15 / 80.0},
                                                  {5, 0.5, 30 / 80.0},
                                                  {8, 8 * 128 / 130.0 / 8, 60 / 80.0},
                                                  {16, 16 * 128 / 130.0 / 8, 120 / 80.0},
                                                  {32, 32 * 128 / 130.0 / 8, 240 / 80.0},
                                                  {64, 64 * 242 / 256.0 / 8, 480 / 80.0}}};

}  // namespace

LinkSpeed nvlink_speed(GpuArch arch) {
  const GpuArchitecture& a = architecture(arch);
  return {{a.nvlink_gbs * kGiga}, {a.nccl_nvlink_gbs * kGiga}};
}

LinkSpeed xgmi_speed(std::string_view gcn) {
  return {{(gcn.starts_with("gfx94") ? 64 : 50) * kGiga}, {}};
}

int64_t pcie_generation(double gigatransfers) {
  for (size_t g = 0; g + 1 < kPcie.size(); ++g) {
    const double between = (kPcie[g].gigatransfers + kPcie[g + 1].gigatransfers) / 2;
    if (gigatransfers < between) return static_cast<int64_t>(g) + 1;
  }
  return static_cast<int64_t>(kPcie.size());
}

double pcie_gigatransfers(int64_t generation) {
  return kPcie[static_cast<size_t>(generation - 1)].gigatransfers;
}

LinkSpeed pcie_speed(double gigatransfers, int64_t lanes) {
  const PcieGeneration& g = kPcie[static_cast<size_t>(pcie_generation(gigatransfers) - 1)];
  const auto n = static_cast<double>(lanes);
  return {{g.lane * n * kGiga}, {g.nccl_lane * n * kGiga}};
}

LinkSpeed cpu_speed(std::string_view arch, std::string_view vendor, int64_t family, int64_t model) {
  const auto both = [](double gb) { return LinkSpeed{{gb * kGiga}, {gb * kGiga}}; };
  if (arch == "arm64") return both(6);
  if (arch == "ppc64") return both(32);
  if (vendor == "AuthenticAMD") return both(16);
  // Intel's families of models: Emerald Rapids, Sapphire Rapids, Skylake, before.
  if (vendor == "GenuineIntel" && family == 6)
    return both(model >= 0xcf ? 40 : model >= 0x8f ? 22 : model >= 0x55 ? 10 : 6);
  return {};
}

LinkSpeed infiniband_speed(std::string_view width_and_speed) {
  // Gb/s of four lanes.
  constexpr std::array<std::pair<std::string_view, double>, 9> kSpeeds = {{{"SDR", 10},
                                                                           {"DDR", 20},
                                                                           {"QDR", 40},
                                                                           {"FDR10", 40},
                                                                           {"FDR", 56},
                                                                           {"EDR", 100},
                                                                           {"HDR", 200},
                                                                           {"NDR", 400},
                                                                           {"XDR", 800}}};
  const size_t x = width_and_speed.find('x');
  if (x == std::string_view::npos) return {};
  const int64_t width = whole_number(width_and_speed.substr(0, x));
  if (width != 1 && width != 2 && width != 4 && width != 8 && width != 12) return {};
  for (const auto& [name, gigabits] : kSpeeds) {
    if (width_and_speed.substr(x + 1) != name) continue;
    const Bandwidth b{gigabits / 4 * static_cast<double>(width) / 8 * kGiga};
    return {b, b};
  }
  return {};
}

}  // namespace stepcast
