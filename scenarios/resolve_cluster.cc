// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/legal_numbers.h"
#include "scenarios/presets.h"
#include "scenarios/resolve_topology.h"
#include "scenarios/tree.h"
#include "sim/text.h"
#include "topology/cluster/build_graph.h"
#include "topology/cluster/fabric.h"

namespace stepcast {
namespace {

// Merges `section` over the preset it names.  `path` is the section's.
bool apply_preset(Value& section, PresetKind kind, const std::string& path, Problems& problems) {
  const Value* named = section.find("preset");
  if (named == nullptr || named->kind == Value::Kind::null) return true;
  const std::string what = kind == PresetKind::gpu ? "GPU" : "cluster";
  if (!named->is_scalar()) {
    problems.add("E107", "'preset' must be the name of a " + what + " preset", named->mark);
    return false;
  }
  const std::string name = named->text;
  const std::optional<std::string_view> text = preset_text(kind, name);
  if (!text) {
    const std::vector<std::string_view> names = preset_names(kind);
    problems.add("E125", "there is no " + what + " preset '" + name + '\'', named->mark,
                 static_cast<int>(name.size()), did_you_mean(name, names),
                 kind == PresetKind::gpu
                     ? "`stepcast presets gpus` lists them"
                     : "`stepcast presets clusters` lists them; two nodes: dgx-h100 x 2");
    return false;
  }
  const uint32_t source = problems.add_source({"preset " + name, std::string(*text), true});
  Value preset = parse_yaml(problems, source);
  if (!preset.is_mapping()) return false;
  merge_expanded(preset, std::move(section), path);
  section = std::move(preset);
  return true;
}

// The section at `key`, shorthand written out; nullptr if it is no mapping.
Value* section_at(Value& around, const std::string& key, const std::string& path) {
  Value* section = around.find(key);
  if (section == nullptr) return nullptr;
  expand_shorthand(*section, *find_field(path));
  return section->is_mapping() ? section : nullptr;
}

template <class Enum>
Enum position_of(std::string_view word, std::string_view choices) {
  int i = 0;
  Words words{choices};
  for (auto w = words.next(); w && *w != word; w = words.next()) ++i;
  return static_cast<Enum>(i);
}

// A GPU whose rates the user changed is another one: measured times of the preset say nothing of
// it.
void note_changed_rates(const FieldValues& v, const Problems& problems, Gpu& gpu,
                        std::vector<std::string>& warnings) {
  const std::string path = "cluster.node.gpu.";
  std::vector<std::string> rates{"mem_bw", "sms", "arch"};
  for (const auto& [dtype, rate] : gpu.peak) rates.push_back("peak." + std::string(name_of(dtype)));
  for (const std::string& rate : rates) {
    const Value* value = v.value(path + rate);
    if (value == nullptr || problems.source(value->mark.source).is_preset) continue;
    warnings.push_back("cluster.node.gpu." + rate + " is not that of " + gpu.name +
                       ": measured tables do not apply, costs come from the roofline");
    gpu.name += " changed";
    return;
  }
}

Gpu resolve_gpu(FieldValues& v, Problems& problems, std::vector<std::string>& warnings) {
  Gpu gpu;
  const std::string path = "cluster.node.gpu.";
  gpu.name = v.has(path + "preset") ? v.text(path + "preset") : "custom-gpu";
  if (v.has(path + "arch"))
    gpu.arch = gpu_arch_named(v.text(path + "arch")).value_or(GpuArch::other);
  const bool known = v.given("cluster.node.gpu");
  const std::string help = "name a GPU preset (cluster.node.gpu) or state the GPU's data";
  if (!known) {
    v.require("cluster.node.gpu", help);
    return gpu;
  }
  if (v.require(path + "memory", help)) gpu.memory = Bytes{v.whole(path + "memory")};
  if (v.has(path + "reserve")) gpu.reserve = Bytes{v.whole(path + "reserve")};
  if (gpu.memory.value > 0 && gpu.reserve >= gpu.memory)
    v.refuse("E127", path + "reserve", "'reserve' must be smaller than 'memory'",
             "'memory' is " + to_flow(*v.value(path + "memory")));
  if (v.require(path + "mem_bw", help)) gpu.memory_bandwidth = Bandwidth{v.real(path + "mem_bw")};
  if (v.has(path + "host_bw")) gpu.host_bandwidth = Bandwidth{v.real(path + "host_bw")};
  if (v.has(path + "host_mem_bw")) gpu.host_memory = Bandwidth{v.real(path + "host_mem_bw")};
  if (v.has(path + "sms")) gpu.sms = v.whole(path + "sms");
  static constexpr std::array<std::pair<std::string_view, DType>, 7> kRates{{{"fp32", DType::fp32},
                                                                             {"tf32", DType::tf32},
                                                                             {"fp16", DType::fp16},
                                                                             {"bf16", DType::bf16},
                                                                             {"fp8", DType::fp8},
                                                                             {"int8", DType::int8},
                                                                             {"fp4", DType::fp4}}};
  for (const auto& [word, dtype] : kRates)
    if (const std::string rate = path + "peak." + std::string(word); v.has(rate))
      gpu.peak[dtype] = FlopRate{v.real(rate)};
  if (gpu.peak.empty()) v.require(path + "peak", help);
  if (v.has(path + "preset")) note_changed_rates(v, problems, gpu, warnings);
  return gpu;
}

// What the graph of a node needs besides what costs do.
void resolve_inside(const FieldValues& v, Node& node) {
  const auto number = [&](const std::string& key, int64_t otherwise) {
    constexpr int64_t kMost = 1024;
    const std::string path = "cluster.node." + key;
    if (!v.has(path)) return otherwise;
    if (v.whole(path) <= kMost) return v.whole(path);
    v.refuse("E121", path, '\'' + key + "' must be at most " + std::to_string(kMost));
    return otherwise;
  };
  const auto bandwidth = [&](const std::string& path) {
    return Bandwidth{v.has(path) ? v.real(path) : 0};
  };
  node.nvswitches = number("intra.switches", 1);
  node.nvlinks = number("intra.links", 0);
  node.hosts = number("hosts", 1);
  node.cpus = number("cpus.count", 2);
  node.c2c = v.has("cluster.node.cpus.link") && v.text("cluster.node.cpus.link") == "c2c";
  node.cpu_bandwidth = bandwidth("cluster.node.cpus.bw");
  node.pcie_bandwidth = bandwidth("cluster.node.pcie.bw");
  if (node.gpus % node.hosts != 0) {
    v.refuse("E127", "cluster.node.hosts",
             "'hosts' must divide the " + std::to_string(node.gpus) + " GPUs of a node",
             "'hosts' can be " + divisors(node.gpus));
    node.hosts = 1;
  }
  const std::string affinity =
      v.has("cluster.node.nics.affinity") ? v.text("cluster.node.nics.affinity") : "shared";
  int64_t switches = 0;
  if (affinity == "per-gpu") switches = node.gpus / node.hosts;
  if (affinity == "per-switch") switches = std::max<int64_t>(1, node.nics / node.hosts);
  node.pcie_switches = number("pcie.switches", std::min<int64_t>(switches, 1024));
}

std::string gigabytes(double bytes_per_second) {
  std::string text = std::to_string(bytes_per_second / 1e9);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + "GB/s";
}

// NICs are sold in bits a second.
void warn_bytes_for_bits(const FieldValues& v, std::vector<std::string>& warnings) {
  constexpr double kFastest = 100e9;  // of all presets, in bytes: 800Gb/s
  constexpr std::string_view kPath = "cluster.node.nics.bw", kBytes = "B/s";
  const Value* written = v.value(kPath);
  if (written == nullptr || !written->text.ends_with(kBytes)) return;
  if (!v.has(kPath) || v.real(kPath) < 4 * kFastest) return;
  const std::string number = written->text.substr(0, written->text.size() - kBytes.size());
  warnings.push_back(std::string(kPath) + " = " + written->text +
                     " is many times the fastest NIC of the presets, 800Gb/s: did you mean " +
                     number + "b/s?");
}

// A NIC moves no more than its PCIe slot, and those of one GPU together no more than the GPU's.  In
// a topology that is written out nodes have unlike numbers of NICs: there the slot alone counts.
void limit_nics(Node& node, int64_t nodes, bool written, std::vector<std::string>& warnings) {
  if (nodes == 1 || node.pcie_bandwidth.value <= 0 || node.nics <= 0) return;
  const double of_gpu =
      written ? 1 : std::min(1.0, static_cast<double>(node.gpus) / static_cast<double>(node.nics));
  const double most = node.pcie_bandwidth.value * of_gpu;
  if (node.nic_bandwidth.value <= most) return;
  warnings.push_back("a NIC of " + gigabytes(node.nic_bandwidth.value) + " moves " +
                     gigabytes(most) + ": cluster.node.pcie.bw is " +
                     gigabytes(node.pcie_bandwidth.value));
  node.nic_bandwidth.value = most;
}

// A node with other GPUs than its preset's keeps the preset's NICs.
void warn_kept_count(const FieldValues& v, const Problems& problems, const Node& node,
                     std::vector<std::string>& warnings) {
  const auto of_preset = [&](const char* path) {
    return problems.source(v.mark(path).source).is_preset;
  };
  const Value* gpus = v.value("cluster.node.gpus");
  const Value* nics = v.value("cluster.node.nics.count");
  if (gpus == nullptr || nics == nullptr || v.value("cluster.preset") == nullptr) return;
  if (of_preset("cluster.node.gpus") || !of_preset("cluster.node.nics.count")) return;
  warnings.push_back("nodes of " + std::to_string(node.gpus) + " GPUs keep the preset's " +
                     std::to_string(node.nics) +
                     " NICs: state cluster.node.nics.count if they grow with the GPUs");
}

Node resolve_node(FieldValues& v, int64_t nodes, Problems& problems,
                  std::vector<std::string>& warnings) {
  Node node;
  node.gpu = resolve_gpu(v, problems, warnings);
  const auto time = [&](std::string_view path) {
    return v.has(path) ? Time{v.whole(path)} : Time{};
  };
  if (v.has("cluster.node.gpus")) node.gpus = v.whole("cluster.node.gpus");
  if (v.has("cluster.node.intra.kind"))
    node.intra = position_of<IntraKind>(v.text("cluster.node.intra.kind"),
                                        "nvswitch|nvlink-mesh|pcie|custom");
  // A single GPU, a single node: there is nothing to link.
  if (v.has("cluster.node.intra.bw")) {
    node.intra_bandwidth = Bandwidth{v.real("cluster.node.intra.bw")};
  } else if (node.gpus > 1) {
    v.require("cluster.node.intra.bw", "state it, or name a cluster preset");
  }
  if (v.has("cluster.node.nics.bw")) {
    node.nic_bandwidth = Bandwidth{v.real("cluster.node.nics.bw")};
  } else if (nodes > 1) {
    v.require("cluster.node.nics.bw", "state it, or name a cluster preset");
  }
  node.intra_latency = time("cluster.node.intra.latency");
  if (v.has("cluster.node.intra.sharp")) node.sharp = v.flag("cluster.node.intra.sharp");
  if (v.has("cluster.node.nics.count")) node.nics = v.whole("cluster.node.nics.count");
  node.nic_latency = time("cluster.node.nics.latency");
  if (v.has("cluster.node.nics.driver"))
    node.nic_driver = position_of<NicDriver>(v.text("cluster.node.nics.driver"),
                                             "verbs|gib|efa|tcpxo|efa-v1|tcpx");
  resolve_inside(v, node);
  warn_bytes_for_bits(v, warnings);
  limit_nics(node, nodes, v.value("cluster.topology") != nullptr, warnings);
  warn_kept_count(v, problems, node, warnings);
  return node;
}

double oversubscription(const FieldValues& v, const std::string& path) {
  if (!v.has(path)) return 1;
  const double x = v.real(path);
  if (x >= 1) return x;
  v.refuse("E121", path, "'oversub' must be at least 1 (down : up)",
           "1 is as much bandwidth up as down, 4 a quarter of it");
  return 1;
}

Fabric resolve_fabric(const FieldValues& v, int64_t gpus, Problems& problems) {
  Fabric fabric;
  if (v.has("cluster.fabric.kind"))
    fabric.kind = position_of<FabricKind>(v.text("cluster.fabric.kind"),
                                          "fat-tree|rail-fat-tree|clos|dragonfly|custom");
  if (v.has("cluster.fabric.radix")) fabric.radix = v.whole("cluster.fabric.radix");
  if (fabric.radix < 2)
    v.refuse("E121", "cluster.fabric.radix", "'radix' must be at least 2",
             "ports of a switch, for example 64");
  fabric.oversubscription = oversubscription(v, "cluster.fabric.oversub");
  if (v.has("cluster.fabric.latency_per_hop"))
    fabric.hop_latency = Time{v.whole("cluster.fabric.latency_per_hop")};
  if (v.has("cluster.fabric.sharp")) fabric.sharp = v.flag("cluster.fabric.sharp");
  const Value* tiers = v.value("cluster.fabric.tiers");
  if (tiers == nullptr) return fabric;
  if (tiers->kind != Value::Kind::sequence)
    problems.add("E107", "'tiers' must be a list", tiers->mark, 1, {},
                 "innermost first: [{name: leaf, size: 256}, {name: spine, size: 2048}]");
  const std::string path = "cluster.fabric.tiers[]";
  for (const Value& item : tiers->items) {
    FieldValues t(item, path, problems);
    Tier tier;
    if (t.has(path + ".name")) tier.name = t.text(path + ".name");
    tier.oversubscription = oversubscription(t, path + ".oversub");
    if (!t.require(path + ".size", "GPUs under one switch group")) continue;
    tier.size = t.whole(path + ".size");
    const auto same_name = [&](const Tier& x) { return !x.name.empty() && x.name == tier.name; };
    if (std::any_of(fabric.tiers.begin(), fabric.tiers.end(), same_name)) {
      t.refuse("E221", path + ".name", "tier '" + tier.name + "' would contain itself",
               "tiers are listed once each, innermost first");
    } else if (!fabric.tiers.empty() && tier.size <= fabric.tiers.back().size) {
      t.refuse("E221", path + ".size",
               "tier '" + tier.name + "' has " + std::to_string(tier.size) +
                   " GPUs, no more than the tier inside it",
               "tiers are listed innermost first");
    }
    fabric.tiers.push_back(std::move(tier));
  }
  if (fabric.tiers.size() > kMaxTiers)
    problems.add("E221", "a fabric has at most " + std::to_string(kMaxTiers) + " tiers",
                 tiers->items[kMaxTiers].mark, 1, {},
                 "leave out tiers that no link of the cluster tells apart");
  if (!fabric.tiers.empty() && fabric.tiers.back().size < gpus)
    problems.add("E221",
                 "the cluster has " + std::to_string(gpus) + " GPUs, its outermost tier only " +
                     std::to_string(fabric.tiers.back().size),
                 tiers->mark, 1, {},
                 "a last item {name: ..., size: " + std::to_string(gpus) + "} holds all of them");
  return fabric;
}

void resolve_ways(const FieldValues& v, Fabric& fabric) {
  if (v.has("cluster.fabric.routing"))
    fabric.adaptive = v.text("cluster.fabric.routing") == "adaptive";
  if (v.has("cluster.fabric.rail_aware")) fabric.rail_aware = v.flag("cluster.fabric.rail_aware");
  if (v.has("cluster.fabric.pxn")) fabric.pxn = v.flag("cluster.fabric.pxn");
}

// Vendors state both directions of NVLink together.
void warn_two_way(const FieldValues& v, const Node& node, std::vector<std::string>& warnings) {
  const GpuArchitecture& arch = architecture(node.gpu.arch);
  const double one_way = arch.nvlink * static_cast<double>(arch.nvlinks);
  if (node.intra == IntraKind::pcie || arch.nvlinks == 0) return;
  if (node.intra_bandwidth.value != 2 * one_way) return;
  warnings.push_back(fmt::format("{} looks like the two-way figure of NVLink {}; one way is {}GB/s",
                                 v.value("cluster.node.intra.bw")->text, arch.nvlink_generation,
                                 static_cast<int64_t>(one_way / 1e9)));
}

}  // namespace

bool apply_cluster_presets(Value& root, Problems& problems) {
  Value* cluster = section_at(root, "cluster", "cluster");
  if (cluster == nullptr) return true;
  lift_node_kind(*cluster);
  bool ok = apply_preset(*cluster, PresetKind::cluster, "cluster", problems);
  Value* node = cluster->find("node");
  if (node == nullptr || !node->is_mapping()) return ok;
  Value* gpu = section_at(*node, "gpu", "cluster.node.gpu");
  if (gpu == nullptr) return ok;
  return apply_preset(*gpu, PresetKind::gpu, "cluster.node.gpu", problems) && ok;
}

std::optional<Cluster> resolve_cluster(FieldValues& v, Problems& problems,
                                       std::vector<std::string>& warnings) {
  if (!v.require("cluster", "a preset and the number of nodes: cluster: dgx-h100 x 2")) return {};
  std::optional<ExplicitFabric> written;
  if (v.value("cluster.topology") != nullptr) {
    written = read_topology(v, problems);
    if (!written) return {};
    derive_from_topology(v, *written, problems);
  }
  Cluster cluster;
  cluster.name = v.has("cluster.preset") ? v.text("cluster.preset") : "custom";
  if (!v.has("cluster.nodes") || !v.has("cluster.node.gpus")) return {};
  cluster.nodes = v.whole("cluster.nodes");
  cluster.node = resolve_node(v, cluster.nodes, problems, warnings);
  constexpr int64_t kMostGpus = 10'000'000;  // each rank has at least a few bytes
  if (cluster.nodes > kMostGpus / cluster.node.gpus) {
    v.refuse("E123", "cluster.nodes", "a cluster of more than 10,000,000 GPUs is too large");
    return {};
  }
  warn_two_way(v, cluster.node, warnings);
  if (!written) {
    cluster.fabric = resolve_fabric(v, cluster.gpus(), problems);
    resolve_ways(v, cluster.fabric);
    return cluster;
  }
  resolve_ways(v, cluster.fabric);
  cluster.fabric.kind = FabricKind::clos;
  cluster.fabric.tiers = {{"network", cluster.gpus(), 1}};
  double size = graph_size(cluster);
  for (const ExplicitFabric::Link& link : written->links) size += 3.0 * link.cables;
  constexpr double kMostParts = 1e6;  // some 100 bytes each, always built
  if (size > kMostParts) {
    problems.add("E123", "a topology of more than 1,000,000 devices and links is too large",
                 v.key_mark("cluster.topology"), 8, {},
                 "describe the cluster by cluster.node and cluster.fabric");
    return {};
  }
  cluster.graph = std::make_shared<ClusterGraph>(explicit_graph(*written, cluster.node));
  return cluster;
}

}  // namespace stepcast
