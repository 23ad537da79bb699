// SPDX-License-Identifier: Apache-2.0
// The section `cluster`: presets, nodes, fabric, and which nodes the job runs on.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/document/number.h"
#include "scenarios/presets.h"
#include "scenarios/schema/tree.h"
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
  const SourceRef source = problems.add_source({"preset " + name, std::string(*text), true});
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
// What measured tables are of.
constexpr std::array<Key, 10> kRates{"cluster.node.gpu.mem_bw",    "cluster.node.gpu.sms",
                                     "cluster.node.gpu.arch",      "cluster.node.gpu.peak.fp32",
                                     "cluster.node.gpu.peak.tf32", "cluster.node.gpu.peak.fp16",
                                     "cluster.node.gpu.peak.bf16", "cluster.node.gpu.peak.fp8",
                                     "cluster.node.gpu.peak.int8", "cluster.node.gpu.peak.fp4"};

// A GPU whose rates the user changed is another one: measured times of the preset say nothing of
// it.
void note_changed_rates(const FieldValues& v, Gpu& gpu, std::vector<std::string>& warnings) {
  for (const Key rate : kRates) {
    const Value* value = v.value(rate);
    if (value == nullptr || !v.has(rate) || value->mark.in_preset()) continue;
    warnings.push_back(fmt::format(
        "{} is not that of {}: measured tables do not apply, costs come from the roofline",
        rate.path(), gpu.name));
    gpu.name += " changed";
    return;
  }
}

Gpu resolve_gpu(FieldValues& v, std::vector<std::string>& warnings) {
  Gpu gpu;
  gpu.name = "custom-gpu";
  v.read("cluster.node.gpu.preset", gpu.name);
  v.read("cluster.node.gpu.arch", gpu.arch);
  const std::string help = "name a GPU preset (cluster.node.gpu) or state the GPU's data";
  if (!v.given("cluster.node.gpu")) {
    v.require("cluster.node.gpu", help);
    return gpu;
  }
  if (v.require("cluster.node.gpu.memory", help)) v.read("cluster.node.gpu.memory", gpu.memory);
  v.read("cluster.node.gpu.context", gpu.context);
  if (v.has("cluster.node.gpu.reserve")) gpu.reserve = v.get<Bytes>("cluster.node.gpu.reserve");
  if (gpu.memory.value > 0 && gpu.reserve && *gpu.reserve >= gpu.memory)
    v.refuse("E127", "cluster.node.gpu.reserve", "'reserve' must be smaller than 'memory'",
             "'memory' is " + to_flow(*v.value("cluster.node.gpu.memory")));
  if (v.require("cluster.node.gpu.mem_bw", help))
    v.read("cluster.node.gpu.mem_bw", gpu.memory_bandwidth);
  v.read("cluster.node.gpu.host_bw", gpu.host_bandwidth);
  v.read("cluster.node.gpu.host_mem_bw", gpu.host_memory);
  v.read("cluster.node.gpu.sms", gpu.sms);
  for (const auto& [key, dtype] : kPeaks)
    if (v.has(key)) gpu.peak[dtype] = v.get<FlopRate>(key);
  if (gpu.peak.empty()) v.require("cluster.node.gpu.peak", help);
  if (v.has("cluster.node.gpu.preset")) note_changed_rates(v, gpu, warnings);
  return gpu;
}

constexpr int64_t kMostParts = 1024;  // of one kind in a node

// What the graph of a node needs besides what costs do.
void resolve_inside(const FieldValues& v, Node& node) {
  v.read("cluster.node.intra.switches", node.nvswitches);
  v.read("cluster.node.intra.links", node.nvlinks);
  v.read("cluster.node.hosts", node.hosts);
  v.read("cluster.node.cpus.count", node.cpus);
  v.read("cluster.node.cpus.link", node.c2c);
  v.read("cluster.node.cpus.bw", node.cpu_bandwidth);
  v.read("cluster.node.pcie.bw", node.pcie_bandwidth);
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

Node resolve_node(FieldValues& v, int64_t nodes, std::vector<std::string>& warnings) {
  Node node;
  node.gpu = resolve_gpu(v, warnings);
  v.read("cluster.node.gpus", node.gpus);
  v.read("cluster.node.intra.kind", node.intra);
  // A single GPU, a single node: there is nothing to link.
  v.read("cluster.node.intra.bw", node.intra_bandwidth);
  if (node.gpus > 1) v.require("cluster.node.intra.bw", "state it, or name a cluster preset");
  v.read("cluster.node.nics.bw", node.nic_bandwidth);
  if (nodes > 1) v.require("cluster.node.nics.bw", "state it, or name a cluster preset");
  v.read("cluster.node.intra.latency", node.intra_latency);
  v.read("cluster.node.intra.sharp", node.sharp);
  v.read("cluster.node.nics.count", node.nics);
  v.read("cluster.node.nics.latency", node.nic_latency);
  v.read("cluster.node.nics.driver", node.nic_driver);
  resolve_inside(v, node);
  warn_bytes_for_bits(v, warnings);
  limit_nics(node, nodes, v.value("cluster.topology") != nullptr, warnings);
  warn_kept_count(v, node, warnings);
  return node;
}

double oversubscription(const FieldValues& v, KeyOf<double> key) {
  if (!v.has(key)) return 1;
  const double x = v.real(key);
  if (x >= 1) return x;
  v.refuse("E121", key, "'oversub' must be at least 1 (down : up)",
           "1 is as much bandwidth up as down, 4 a quarter of it");
  return 1;
}

Fabric resolve_fabric(const FieldValues& v, int64_t gpus, Problems& problems) {
  Fabric fabric;
  v.read("cluster.fabric.kind", fabric.kind);
  v.read("cluster.fabric.radix", fabric.radix);
  if (fabric.radix < 2)
    v.refuse("E121", "cluster.fabric.radix", "'radix' must be at least 2",
             "ports of a switch, for example 64");
  fabric.oversubscription = oversubscription(v, "cluster.fabric.oversub");
  v.read("cluster.fabric.latency_per_hop", fabric.hop_latency);
  v.read("cluster.fabric.sharp", fabric.sharp);
  const Value* tiers = v.value("cluster.fabric.tiers");
  if (tiers == nullptr) return fabric;
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
  return fabric;
}

void resolve_routing(const FieldValues& v, Fabric& fabric) {
  v.read("cluster.fabric.routing", fabric.adaptive);
  v.read("cluster.fabric.rail_aware", fabric.rail_aware);
  v.read("cluster.fabric.pxn", fabric.pxn);
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
    derive_from_topology(v, *written);
  }
  Cluster cluster;
  cluster.name = "custom";
  v.read("cluster.preset", cluster.name);
  if (!v.has("cluster.nodes") || !v.has("cluster.node.gpus")) return {};
  cluster.nodes = v.whole("cluster.nodes");
  cluster.node = resolve_node(v, cluster.nodes, warnings);
  constexpr int64_t kMostGpus = 10'000'000;  // each rank has at least a few bytes
  if (cluster.nodes > kMostGpus / cluster.node.gpus) {
    v.refuse("E123", "cluster.nodes", "a cluster of more than 10,000,000 GPUs is too large");
    return {};
  }
  warn_two_way(v, cluster.node, warnings);
  if (!written) {
    cluster.fabric = resolve_fabric(v, cluster.gpus(), problems);
    resolve_routing(v, cluster.fabric);
    return cluster;
  }
  resolve_routing(v, cluster.fabric);
  cluster.fabric.kind = FabricKind::clos;
  cluster.fabric.tiers = {{"network", cluster.gpus(), 1}};
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
