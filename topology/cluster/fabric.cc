// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/fabric.h"

#include <algorithm>
#include <cmath>

#include "sim/check.h"
#include "topology/cluster/explicit_fabric.h"

namespace stepcast {
namespace {

// NICs of a host, each on a rail of its own.
int64_t rails_of(const Node& node) {
  return std::max<int64_t>(1, node.nics / node.hosts);
}

// Nodes below one leaf (rail fabric: below one set of rail leaves).
int64_t nodes_of_leaf(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  const double o = std::max(1.0, fabric.oversubscription);
  const auto down =
      static_cast<int64_t>(std::floor(static_cast<double>(fabric.radix) * o / (o + 1)));
  const int64_t ports_of_node = fabric.kind == FabricKind::rail_fat_tree
                                    ? cluster.node.hosts
                                    : std::max<int64_t>(1, cluster.node.nics);
  return std::max<int64_t>(1, down / ports_of_node);
}

std::vector<Tier> derived_tiers(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  const double o = std::max(1.0, fabric.oversubscription);
  const int64_t half = std::max<int64_t>(2, fabric.radix / 2);
  const int64_t leaf = nodes_of_leaf(cluster) * cluster.node.gpus;
  std::vector<Tier> tiers{{"leaf", leaf, 1}};
  if (leaf >= cluster.gpus()) return tiers;
  // A spine that nothing is above has a port for every leaf, of all rails.
  const bool rails = fabric.kind == FabricKind::rail_fat_tree;
  const int64_t joined = leaf * (fabric.radix / (rails ? rails_of(cluster.node) : 1));
  if (cluster.gpus() <= joined) {
    tiers.push_back({"spine", joined, o});
    return tiers;
  }
  tiers.push_back({"spine", leaf * half, o});
  tiers.push_back({"core", leaf * half * 2 * half, 1});
  if (tiers.back().size < cluster.gpus())
    tiers.push_back({"super-core", tiers.back().size * 2 * half, 1});
  static_assert(kMaxTiers == 4);
  return tiers;
}

}  // namespace

int64_t tier_between(const std::vector<Tier>& tiers, int64_t from, int64_t to) {
  for (size_t t = 0; t + 1 < tiers.size(); ++t) {
    if (from / tiers[t].size == to / tiers[t].size) return static_cast<int64_t>(t);
  }
  return static_cast<int64_t>(tiers.size()) - 1;
}

std::vector<Tier> fabric_tiers(const Cluster& cluster) {
  std::vector<Tier> tiers = cluster.fabric.tiers;
  if (tiers.empty()) tiers = derived_tiers(cluster);
  STEPCAST_CHECK(tiers.size() <= kMaxTiers, "a fabric has at most four tiers");
  for (const Tier& tier : tiers) STEPCAST_CHECK(tier.size > 0, "a tier holds at least one GPU");
  tiers.back().size = std::max(tiers.back().size, cluster.gpus());
  return tiers;
}

double oversubscription_into(const std::vector<Tier>& tiers, int64_t tier) {
  double product = 1;
  for (size_t t = 0; t < tiers.size() && static_cast<int64_t>(t) <= tier; ++t) {
    product *= std::max(1.0, tiers[t].oversubscription);
  }
  return product;
}

Time network_latency(const Cluster& cluster, int64_t tier) {
  return cluster.node.nic_latency +
         cluster.fabric.hop_latency * (2 * std::max<int64_t>(0, tier) + 1);
}

Route route_of(const Cluster& cluster, int64_t from, int64_t to) {
  STEPCAST_CHECK(from != to && std::min(from, to) >= 0 && std::max(from, to) < cluster.gpus(),
                 "a route joins two GPUs of the cluster");
  const Node& node = cluster.node;
  Route route;
  if (cluster.node_of(from) == cluster.node_of(to)) {
    route.bandwidth = node.intra_bandwidth * intra_share(node, 2);
    route.latency = node.intra_latency;
    return route;
  }
  if (cluster.graph != nullptr) return explicit_route(cluster, from, to);
  const std::vector<Tier> tiers = fabric_tiers(cluster);
  route.tier = tier_between(tiers, from, to);
  route.switches = 2 * route.tier + 1;
  route.bandwidth = node.nic_share();
  route.oversubscription = oversubscription_into(tiers, route.tier);
  route.latency = network_latency(cluster, route.tier);
  // Above the leaves the spine joins the rails; below it NVLink does.
  const bool other_rail = from % node.gpus != to % node.gpus;
  if (cluster.fabric.kind == FabricKind::rail_fat_tree && route.tier == 0 && other_rail) {
    route.latency += node.intra_latency;
  }
  return route;
}

double intra_share(const Node& node, int64_t ranks) {
  if (node.intra != IntraKind::nvlink_mesh || ranks >= node.gpus) return 1;
  if (node.gpus == 8) return std::min(1.0, static_cast<double>(ranks) / 6);
  return static_cast<double>(ranks - 1) / static_cast<double>(node.gpus - 1);
}

}  // namespace stepcast
