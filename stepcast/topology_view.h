// SPDX-License-Identifier: Apache-2.0
// What a cluster is made of, as reports see it.
#pragma once

#include <span>

#include "report/text/topology.h"
#include "scenarios/scenario.h"
#include "sim/results/link_loads.h"
#include "sim/results/result.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

// `nccl`: what NCCL plans with, for each link; may be empty.
TopologyView topology_view(const ClusterGraph& graph, std::span<const Bandwidth> nccl);

// Of a scenario's cluster.
TopologyView cluster_view(const Cluster& cluster);
// Its links, as groups of ranks use them in a step.  REQUIRES: result.graph and result.prices.
LinkLoads links_of(const Scenario& scenario, const Result& result);

}  // namespace stepcast
