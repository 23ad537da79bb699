// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/wires.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr std::string_view kSharp = "sharp", kOneProcess = "one-process", kMesh = "-mesh";

// GB/s of 16 lanes in one direction, PCIe base specifications 3.0 to 6.0: rate x 16 / 8, less the
// coding of 128 bits in 130 (5.0 and before).
struct PcieRate {
  int64_t generation;
  double gbs;
};
constexpr std::array kPcieRates{PcieRate{3, 15.75}, PcieRate{4, 31.51}, PcieRate{5, 63.02},
                                PcieRate{6, 128}};

// The generation whose 16 lanes are nearest, as a ratio.
int64_t pcie_generation(double gbs) {
  int64_t nearest = 0;
  double least = 0;
  for (const PcieRate& rate : kPcieRates) {
    const double factor = gbs > rate.gbs ? gbs / rate.gbs : rate.gbs / gbs;
    if (nearest > 0 && factor >= least) continue;
    nearest = rate.generation;
    least = factor;
  }
  return nearest;
}

}  // namespace

std::string text_of(const InsideLink& link) {
  switch (link.kind) {
    case InsideLink::Kind::nvswitch: return fmt::format("nvlink{}", link.generation);
    case InsideLink::Kind::nvlink_mesh: return fmt::format("nvlink{}{}", link.generation, kMesh);
    case InsideLink::Kind::pcie: return fmt::format("pcie{}", link.generation);
    case InsideLink::Kind::shared_memory: return "shm";
  }
  return {};
}

std::optional<InsideLink> inside_link(std::string_view word) {
  if (word == "shm") return InsideLink{InsideLink::Kind::shared_memory, 0};
  InsideLink link;
  if (word.starts_with("nvlink")) {
    word.remove_prefix(6);
    if (word.ends_with(kMesh)) {
      link.kind = InsideLink::Kind::nvlink_mesh;
      word.remove_suffix(kMesh.size());
    }
  } else if (word.starts_with("pcie")) {
    word.remove_prefix(4);
    link.kind = InsideLink::Kind::pcie;
  } else {
    return std::nullopt;
  }
  if (word.size() != 1 || word[0] < '1' || word[0] > '9') return std::nullopt;
  link.generation = word[0] - '0';
  return link;
}

std::optional<NicDriver> nic_driver(std::string_view word) {
  for (int i = 0; i < kNicDriverCount; ++i)
    if (name_of(static_cast<NicDriver>(i)) == word) return static_cast<NicDriver>(i);
  return std::nullopt;
}

std::string nic_driver_words() {
  std::string words;
  for (int i = 0; i < kNicDriverCount; ++i)
    words += (i > 0 ? ", " : "") + std::string(name_of(static_cast<NicDriver>(i)));
  return words;
}

std::string text_of(const Wires& wires) {
  std::string text;
  const auto add = [&text](std::string_view word) {
    if (!text.empty()) text += ' ';
    text += word;
  };
  if (wires.inside) add(text_of(*wires.inside));
  if (wires.network) add(name_of(*wires.network));
  if (wires.sharp) add(kSharp);
  if (wires.one_process) add(kOneProcess);
  return text;
}

bool take_word(std::string_view word, Wires& wires) {
  if (word == kSharp) return wires.sharp = true;
  if (word == kOneProcess) return wires.one_process = true;
  if (const auto link = inside_link(word)) {
    wires.inside = link;
    return true;
  }
  if (const auto driver = nic_driver(word)) {
    wires.network = driver;
    return true;
  }
  return false;
}

Wires wires_of(const Cluster& cluster) {
  const Node& node = cluster.node;
  const int64_t nvlink = architecture(node.gpu.arch).nvlink_generation;
  InsideLink inside;
  switch (node.intra) {
    case IntraKind::nvswitch: inside = {InsideLink::Kind::nvswitch, nvlink}; break;
    case IntraKind::nvlink_mesh: inside = {InsideLink::Kind::nvlink_mesh, nvlink}; break;
    case IntraKind::pcie:
      inside = {InsideLink::Kind::pcie, pcie_generation(node.intra_bandwidth.value * 1e-9)};
      break;
  }
  return {.inside = inside,
          .network = node.nic_driver,
          .sharp = cluster.fabric.sharp,
          .one_process = false};
}

}  // namespace stepcast
