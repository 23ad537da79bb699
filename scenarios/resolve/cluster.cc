// SPDX-License-Identifier: Apache-2.0
// The section `cluster`: nodes, fabric, and which nodes the job runs on.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "scenarios/cluster_section.h"
#include "scenarios/document/number.h"
#include "scenarios/presets.h"
#include "sim/text.h"
#include "topology/cluster/build_graph.h"
#include "topology/cluster/fabric.h"

namespace stepcast {

namespace {

struct Peak {
  KeyOf<FlopRate> key;
  DType dtype;
};
constexpr std::array<Peak, 7> kPeaks{{{"cluster.node.gpu.peak.fp32", DType::fp32},
                                      {"cluster.node.gpu.peak.tf32", DType::tf32},
                                      {"cluster.node.gpu.peak.fp16", DType::fp16},
                                      {"cluster.node.gpu.peak.bf16", DType::bf16},
                                      {"cluster.node.gpu.peak.fp8", DType::fp8},
                                      {"cluster.node.gpu.peak.int8", DType::int8},
                                      {"cluster.node.gpu.peak.fp4", DType::fp4}}};

// Whether the user states what measured times are of, beside a preset.
bool states_rates(const FieldValues& v) {
  constexpr std::array<Key, 10> kRates{"cluster.node.gpu.mem_bw",    "cluster.node.gpu.sms",
                                       "cluster.node.gpu.arch",      "cluster.node.gpu.peak.fp32",
                                       "cluster.node.gpu.peak.tf32", "cluster.node.gpu.peak.fp16",
                                       "cluster.node.gpu.peak.bf16", "cluster.node.gpu.peak.fp8",
                                       "cluster.node.gpu.peak.int8", "cluster.node.gpu.peak.fp4"};
  if (!v.has("cluster.node.gpu.preset")) return false;
  return std::ranges::any_of(kRates, [&](Key rate) {
    const Value* const value = v.value(rate);
    return value != nullptr && v.has(rate) && !value->mark.in_preset();
  });
}

constexpr const char* kSms = "cluster.node.gpu.sms";

// The key of the first rate that is not that of the preset; empty if all are.
std::string changed_rate(const Gpu& gpu, const Gpu& preset) {
  if (gpu.memory_bandwidth != preset.memory_bandwidth) return "cluster.node.gpu.mem_bw";
  if (gpu.arch != preset.arch) return "cluster.node.gpu.arch";
  const auto rate = [](const Gpu& of, DType type) {
    const auto at = of.peak.find(type);
    return at == of.peak.end() ? FlopRate{} : at->second;
  };
  for (const auto& [key, type] : kPeaks)
    if (rate(gpu, type) != rate(preset, type)) return key.path();
  return gpu.sms != preset.sms ? kSms : "";
}

// A GPU whose rates the user changed is another one, like its preset if he does not say otherwise.
void resolve_like(FieldValues& v, Gpu& gpu) {
  const Value* const stated = v.value("cluster.node.gpu.like");
  std::string like;
  v.read("cluster.node.gpu.like", like);
  const std::string preset = gpu.name;
  if (states_rates(v)) {
    if (!changed_rate(gpu, preset_node("", preset).gpu).empty()) {
      gpu.name += " changed";
      if (stated == nullptr || stated->mark.in_preset()) like = preset;
    }
  }
  if (like.empty() || like == gpu.name) return;
  if (!preset_text(PresetKind::gpu, like)) {
    v.refuse("E125", "cluster.node.gpu.like", "there is no GPU preset '" + like + "'",
             "`stepcast presets gpus` lists them");
    return;
  }
  Gpu measured = preset_node("", like).gpu;
  if (like == preset) measured.power = gpu.power;  // which is no rate
  gpu.like = MeasuredGpu(std::move(measured));
}

void resolve_gpu(FieldValues& v, Gpu& gpu) {
  gpu.name = "custom-gpu";
  v.read("cluster.node.gpu.preset", gpu.name);
  const std::string help = "name a GPU preset (cluster.node.gpu) or state the GPU's data";
  if (!v.given("cluster.node.gpu")) {
    v.require("cluster.node.gpu", help);
    return;
  }
  v.require("cluster.node.gpu.memory", help);
  if (v.has("cluster.node.gpu.reserve")) gpu.reserve = v.get<Bytes>("cluster.node.gpu.reserve");
  if (gpu.memory.value > 0 && gpu.reserve && *gpu.reserve >= gpu.memory)
    v.refuse("E127", "cluster.node.gpu.reserve", "'reserve' must be smaller than 'memory'",
             "'memory' is " + to_flow(*v.value("cluster.node.gpu.memory")));
  v.require("cluster.node.gpu.mem_bw", help);
  if (gpu.power_limit > Power{})
    v.require("cluster.node.gpu.power", "a limit counts against the power that rates are at");
  // How rates fall with power is known from half of it on (calibrate/price/power_limit.h).
  constexpr double kLeastOfPower = 0.01;
  if (gpu.power_limit > Power{} && gpu.power > Power{} &&
      gpu.power_limit / gpu.power < kLeastOfPower)
    v.refuse("E123", "cluster.node.gpu.power_limit",
             "'power_limit' is less than a hundredth of 'power'",
             "'power' is " + to_flow(*v.value("cluster.node.gpu.power")));
  for (const auto& [key, dtype] : kPeaks)
    if (v.has(key)) gpu.peak[dtype] = v.get<FlopRate>(key);
  if (gpu.peak.empty()) v.require("cluster.node.gpu.peak", help);
  resolve_like(v, gpu);
}

constexpr int64_t kMostParts = 1024;  // of one kind in a node

// What the graph of a node needs besides what costs do.
void resolve_inside(const FieldValues& v, Node& node) {
  if (node.gpus % node.hosts != 0) {
    v.refuse("E127", "cluster.node.hosts",
             fmt::format("'hosts' must divide the {} GPUs of a node", node.gpus),
             "'hosts' can be " + divisors(node.gpus));
    node.hosts = 1;
  }
  auto affinity = NicAffinity::shared;
  v.read("cluster.node.nics.affinity", affinity);
  node.pcie_switches = 0;
  if (affinity == NicAffinity::per_gpu) node.pcie_switches = node.gpus / node.hosts;
  if (affinity == NicAffinity::per_switch)
    node.pcie_switches = std::max<int64_t>(1, node.nics / node.hosts);
  node.pcie_switches = std::min<int64_t>(node.pcie_switches, kMostParts);
  v.read("cluster.node.pcie.switches", node.pcie_switches);
}

// NICs are sold in bits a second.
void warn_bytes_for_bits(const FieldValues& v, std::vector<std::string>& warnings) {
  constexpr double kFastest = 100e9;  // of all presets, in bytes: 800Gb/s
  constexpr std::string_view kBytes = "B/s";
  const Value* written = v.value("cluster.node.nics.bw");
  if (written == nullptr || !written->text.ends_with(kBytes)) return;
  if (!v.has("cluster.node.nics.bw")) return;
  if (v.get<Bandwidth>("cluster.node.nics.bw").value < 4 * kFastest) return;
  const std::string number = written->text.substr(0, written->text.size() - kBytes.size());
  warnings.push_back(fmt::format(
      "cluster.node.nics.bw = {} is many times the fastest NIC of the presets, 800Gb/s: did "
      "you mean {}b/s?",
      written->text, number));
}

// A NIC moves no more than its PCIe slot, and those of one GPU together no more than the GPU's.  In
// a topology that is written out nodes have unlike numbers of NICs: there the slot alone counts.
void limit_nics(Node& node, int64_t nodes, bool written, std::vector<std::string>& warnings) {
  if (nodes == 1 || node.pcie_bandwidth.value <= 0 || node.nics <= 0) return;
  const double of_gpu =
      written ? 1 : std::min(1.0, static_cast<double>(node.gpus) / static_cast<double>(node.nics));
  const Bandwidth most{node.pcie_bandwidth.value * of_gpu};
  if (node.nic_bandwidth <= most) return;
  constexpr int kDecimals = 6;
  warnings.push_back(fmt::format(
      "a NIC of {} moves {}: cluster.node.pcie.bw is {}", gigabytes(node.nic_bandwidth, kDecimals),
      gigabytes(most, kDecimals), gigabytes(node.pcie_bandwidth, kDecimals)));
  node.nic_bandwidth = most;
}

// A node with other GPUs than its preset's keeps the preset's NICs.
void warn_kept_count(const FieldValues& v, const Node& node, std::vector<std::string>& warnings) {
  const Value* gpus = v.value("cluster.node.gpus");
  const Value* nics = v.value("cluster.node.nics.count");
  if (gpus == nullptr || nics == nullptr || v.value("cluster.preset") == nullptr) return;
  if (gpus->mark.in_preset() || !nics->mark.in_preset()) return;
  warnings.push_back(
      fmt::format("nodes of {} GPUs keep the preset's {} NICs: state cluster.node.nics.count if "
                  "they grow with the GPUs",
                  node.gpus, node.nics));
}

// GPUs that have nothing but PCIe between them reach each other as they reach their host.
void derive_pcie(FieldValues& v, const Node& node) {
  if (node.gpus == 1 || node.intra != IntraKind::pcie || node.c2c) return;
  const Value* host = v.value("cluster.node.gpu.host_bw");
  if (v.given("cluster.node.intra.bw") || host == nullptr || !v.has("cluster.node.gpu.host_bw"))
    return;
  v.derive<Bandwidth>("cluster.node.intra.bw", node.gpu.host_bandwidth,
                      "derived: cluster.node.gpu.host_bw, over PCIe", host->text);
}

void resolve_node(FieldValues& v, int64_t nodes, Node& node, std::vector<std::string>& warnings) {
  resolve_gpu(v, node.gpu);
  derive_pcie(v, node);
  // A single GPU, a single node: there is nothing to link.
  if (node.gpus > 1) v.require("cluster.node.intra.bw", "state it, or name a cluster preset");
  v.read("cluster.node.intra.bw", node.intra_bandwidth);
  v.read("cluster.node.nics.bw", node.nic_bandwidth);
  if (nodes > 1) v.require("cluster.node.nics.bw", "state it, or name a cluster preset");
  v.read("cluster.node.nics.count", node.nics);
  resolve_inside(v, node);
  warn_bytes_for_bits(v, warnings);
  limit_nics(node, nodes, v.value("cluster.topology") != nullptr, warnings);
  warn_kept_count(v, node, warnings);
}

double oversubscription(const FieldValues& v, KeyOf<double> key) {
  if (!v.has(key)) return 1;
  const double x = v.real(key);
  if (x >= 1) return x;
  v.refuse("E121", key, "'oversub' must be at least 1 (down : up)",
           "1 is as much bandwidth up as down, 4 a quarter of it");
  return 1;
}

void resolve_fabric(const FieldValues& v, int64_t gpus, Fabric& fabric, Problems& problems) {
  if (fabric.radix < 2)
    v.refuse("E121", "cluster.fabric.radix", "'radix' must be at least 2",
             "ports of a switch, for example 64");
  fabric.oversubscription = oversubscription(v, "cluster.fabric.oversub");
  const Value* tiers = v.value("cluster.fabric.tiers");
  if (tiers == nullptr) return;
  if (tiers->kind != Value::Kind::sequence)
    problems.add("E107", "'tiers' must be a list", tiers->mark, 1, {},
                 "innermost first: [{name: leaf, size: 256}, {name: spine, size: 2048}]");
  for (const Value& item : tiers->items) {
    FieldValues t(item, "cluster.fabric.tiers[]", problems);
    Tier tier;
    t.read("cluster.fabric.tiers[].name", tier.name);
    tier.oversubscription = oversubscription(t, "cluster.fabric.tiers[].oversub");
    if (!t.require("cluster.fabric.tiers[].size", "GPUs under one switch group")) continue;
    t.read("cluster.fabric.tiers[].size", tier.size);
    const auto same_name = [&](const Tier& x) { return !x.name.empty() && x.name == tier.name; };
    if (std::any_of(fabric.tiers.begin(), fabric.tiers.end(), same_name)) {
      t.refuse("E221", "cluster.fabric.tiers[].name",
               "tier '" + tier.name + "' would contain itself",
               "tiers are listed once each, innermost first");
    } else if (!fabric.tiers.empty() && tier.size <= fabric.tiers.back().size) {
      t.refuse("E221", "cluster.fabric.tiers[].size",
               fmt::format("tier '{}' has {} GPUs, no more than the tier inside it", tier.name,
                           tier.size),
               "tiers are listed innermost first");
    }
    fabric.tiers.push_back(std::move(tier));
  }
  if (fabric.tiers.size() > kMaxTiers)
    problems.add("E221", fmt::format("a fabric has at most {} tiers", kMaxTiers),
                 tiers->items[kMaxTiers].mark, 1, {},
                 "leave out tiers that no link of the cluster tells apart");
  if (!fabric.tiers.empty() && fabric.tiers.back().size < gpus)
    problems.add("E221",
                 fmt::format("the cluster has {} GPUs, its outermost tier only {}", gpus,
                             fabric.tiers.back().size),
                 tiers->mark, 1, {},
                 fmt::format("a last item {{name: ..., size: {}}} holds all of them", gpus));
}

// Vendors state both directions of NVLink together.
void warn_two_way(const FieldValues& v, const Node& node, std::vector<std::string>& warnings) {
  const GpuArchitecture& arch = architecture(node.gpu.arch);
  const double one_way = arch.nvlink_gbs * static_cast<double>(arch.nvlinks);
  if (node.intra == IntraKind::pcie || arch.nvlinks == 0) return;
  if (node.intra_bandwidth.value != 2 * one_way * 1e9) return;
  warnings.push_back(fmt::format("{} looks like the two-way figure of NVLink {}; one way is {}GB/s",
                                 v.value("cluster.node.intra.bw")->text, arch.nvlink_generation,
                                 static_cast<int64_t>(one_way)));
}

}  // namespace

std::string remark_on_changed_rates(const Gpu& gpu) {
  const Gpu& preset = *gpu.like.get();
  const std::string changed = changed_rate(gpu, preset);
  return fmt::format("{} is not that of {}: {}", changed, preset.name,
                     changed == kSms
                         ? "peak and mem_bw, which say how fast it is, are"
                         : "its measured times are scaled by what the data sheets say of both");
}

std::optional<Cluster> resolve_cluster(FieldValues& v, Problems& problems,
                                       std::vector<std::string>& warnings) {
  if (!v.require("cluster", "a preset and the number of nodes: cluster: dgx-h100 x 2")) return {};
  std::optional<ExplicitFabric> written;
  if (v.value("cluster.topology") != nullptr) {
    written = read_topology(v, problems);
    if (!written) return {};
    derive_from_topology(v, *written);
  }
  Cluster cluster;
  cluster.name = "custom";
  v.read("cluster.preset", cluster.name);
  if (!v.has("cluster.nodes") || !v.has("cluster.node.gpus")) return {};
  v.fill(cluster);
  cluster.nodes = v.whole("cluster.nodes");
  resolve_node(v, cluster.nodes, cluster.node, warnings);
  if (cluster.nodes > kMostGpus / cluster.node.gpus) {
    v.refuse("E123", "cluster.nodes", "a cluster of more than 10,000,000 GPUs is too large");
    return {};
  }
  warn_two_way(v, cluster.node, warnings);
  if (!written) {
    resolve_fabric(v, cluster.gpus(), cluster.fabric, problems);
    return cluster;
  }
  // Of the section `fabric` only how messages take their routes goes with a topology.
  Fabric fabric;
  fabric.kind = FabricKind::clos;
  fabric.adaptive = cluster.fabric.adaptive;
  fabric.rail_aware = cluster.fabric.rail_aware;
  fabric.pxn = cluster.fabric.pxn;
  fabric.tiers = {{"network", cluster.gpus(), 1}};
  cluster.fabric = std::move(fabric);
  double size = graph_size(cluster);
  for (const ExplicitFabric::Link& link : written->links) size += 3.0 * link.cables;
  constexpr double kMostSize = 1e6;  // some 100 bytes each, always built
  if (size > kMostSize) {
    problems.add("E123", "a topology of more than 1,000,000 devices and links is too large",
                 v.key_mark("cluster.topology"), 8, {},
                 "describe the cluster by cluster.node and cluster.fabric");
    return {};
  }
  cluster.graph = std::make_shared<ClusterGraph>(explicit_graph(*written, cluster.node));
  return cluster;
}

// --------------------------------------------------------------------------------------- placement

namespace {

constexpr KeyOf<std::vector<std::string>> kPlacementNodes = "cluster.placement.nodes";

}  // namespace

Placement resolve_placement(const FieldValues& v, Problems& problems, const Cluster& cluster) {
  Placement placement;
  placement.gpus_per_node = cluster.node.gpus;
  if (v.value(kPlacementNodes) == nullptr || !v.has(kPlacementNodes)) return placement;
  const Value& list = *v.value(kPlacementNodes);
  const std::vector<std::string>& words = v.texts(kPlacementNodes);
  std::vector<bool> taken(static_cast<size_t>(cluster.nodes), false);
  const auto problem = [&](size_t i, const char* code, std::string message, std::string help = {}) {
    const bool inside = list.kind == Value::Kind::sequence && i < list.items.size();
    problems.add(code, std::move(message), inside ? list.items[i].mark : list.mark,
                 static_cast<int>(words[i].size()), {}, std::move(help));
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::optional<IndexRange> range = parse_range(words[i]);
    if (!range || range->last < range->first) {
      problem(i, "E107", '\'' + words[i] + "' is no node and no range of nodes",
              "nodes: [0, 1, 8-15]");
      continue;
    }
    if (range->last >= cluster.nodes) {
      problem(i, "E240",
              fmt::format("there is no node {}: the cluster has {}, counted from 0",
                          range->first < cluster.nodes ? range->last : range->first, cluster.nodes),
              fmt::format("the nearest is node {}", cluster.nodes - 1));
      continue;
    }
    for (int64_t node = range->first; node <= range->last; ++node) {
      if (taken[static_cast<size_t>(node)]) {
        problem(i, "E127", fmt::format("node {} is named twice", node));
        break;
      }
      taken[static_cast<size_t>(node)] = true;
      placement.nodes.push_back(node);
    }
  }
  return placement;
}

int64_t gpus_of(const Placement& placement, const Cluster& cluster) {
  if (placement.in_order()) return cluster.gpus();
  return static_cast<int64_t>(placement.nodes.size()) * placement.gpus_per_node;
}

}  // namespace stepcast
