// SPDX-License-Identifier: Apache-2.0
#include "stepcast/topology_view.h"

#include "scenarios/forecast/perturbed_ranks.h"
#include "topology/cluster/build_graph.h"
#include "topology/traffic/step_traffic.h"

namespace stepcast {

// The library's graph as the reports' plain data; the enumerations go by the same order.
TopologyView topology_view(const ClusterGraph& graph, std::span<const Bandwidth> nccl) {
  TopologyView view;
  view.devices.reserve(graph.devices().size());
  for (const Device& d : graph.devices())
    view.devices.push_back(
        {static_cast<ViewKind>(d.kind), d.name, d.node, d.domain, d.rail, d.tier, {}});
  view.links.reserve(graph.links().size());
  for (size_t i = 0; i < graph.links().size(); ++i) {
    const Link& l = graph.links()[i];
    view.links.push_back({l.a, l.b, static_cast<ViewLinkKind>(l.kind), l.bandwidth, l.back,
                          i < nccl.size() ? nccl[i] : Bandwidth{}, l.cables});
  }
  return view;
}
static_assert(static_cast<int>(ViewKind::gpu) == static_cast<int>(DeviceKind::gpu) &&
              static_cast<int>(ViewKind::nvswitch) == static_cast<int>(DeviceKind::nvswitch) &&
              static_cast<int>(ViewKind::pcie_switch) ==
                  static_cast<int>(DeviceKind::pcie_switch) &&
              static_cast<int>(ViewKind::cpu) == static_cast<int>(DeviceKind::cpu) &&
              static_cast<int>(ViewKind::nic) == static_cast<int>(DeviceKind::nic) &&
              static_cast<int>(ViewKind::network_switch) ==
                  static_cast<int>(DeviceKind::network_switch));
static_assert(static_cast<int>(ViewLinkKind::nvlink) == static_cast<int>(LinkKind::nvlink) &&
              static_cast<int>(ViewLinkKind::c2c) == static_cast<int>(LinkKind::c2c) &&
              static_cast<int>(ViewLinkKind::pcie) == static_cast<int>(LinkKind::pcie) &&
              static_cast<int>(ViewLinkKind::host) == static_cast<int>(LinkKind::host) &&
              static_cast<int>(ViewLinkKind::network) == static_cast<int>(LinkKind::network));

TopologyView cluster_view(const Cluster& cluster) {
  const ClusterGraph graph = cluster_graph(cluster);
  TopologyView view = topology_view(graph, {});
  // A file of the fabric names its switches as it likes, a scenario by tier.
  for (size_t i = 0; i < view.devices.size(); ++i)
    if (view.devices[i].kind == ViewKind::network_switch)
      view.devices[i].tier_word = switch_word(graph.devices()[i]);
  view.format = "scenario, cluster " + cluster.name;
  return view;
}

LinkLoads links_of(const Scenario& scenario, const Result& result) {
  return link_loads(*result.graph, *result.prices, scenario.plan.grid, scenario.placement,
                    perturbed_graph(scenario),
                    route_options(scenario.cluster.fabric, scenario.seed));
}

}  // namespace stepcast
