// SPDX-License-Identifier: Apache-2.0
#include "topology/routes.h"

#include <algorithm>
#include <limits>

#include "sim/check.h"
#include "topology/fabric_ways.h"
#include "topology/host_ways.h"

namespace stepcast {

struct Router::Scratch {
  const ClusterGraph& graph;
  RouteOptions options;
  HostWays hosts;
  FabricWays fabric;
  std::vector<uint32_t> way;

  bool across(uint32_t from, uint32_t to, uint64_t pair, uint64_t channel);
  bool find(uint32_t from, uint32_t to, uint64_t pair, uint64_t channel);
};

namespace {

// The NIC of `nics` on `rail`, or a null pointer.
const uint32_t* on_rail(const ClusterGraph& graph, std::span<const uint32_t> nics, int32_t rail) {
  const auto found = std::find_if(nics.begin(), nics.end(), [&](uint32_t nic) {
    return rail >= 0 && graph.devices()[nic].rail == rail;
  });
  return found == nics.end() ? nullptr : &*found;
}

GraphRoute measured(const ClusterGraph& graph, const std::vector<uint32_t>& way) {
  GraphRoute route;
  route.links = way;
  route.bandwidth = {std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < way.size(); ++i) {
    route.bandwidth = std::min(route.bandwidth, graph.bandwidth(way[i]));
    route.latency += graph.links()[way[i] / 2].latency;
    if (i + 1 == way.size()) break;
    const Device& through = graph.devices()[graph.to(way[i])];
    route.latency += through.latency;
    route.switches += through.kind == DeviceKind::network_switch;
  }
  return route;
}

}  // namespace

// GPU -> NIC -> network -> NIC -> GPU, perhaps over another GPU of the sender's host.
bool Router::Scratch::across(uint32_t from, uint32_t to, uint64_t pair, uint64_t channel) {
  const std::span<const uint32_t> near = hosts.own_nics(from), far = hosts.own_nics(to);
  if (near.empty() || far.empty()) return false;
  uint32_t out = near[(pair + channel) % near.size()];
  uint32_t in = far[(pair + channel) % far.size()];
  const int32_t rail = graph.devices()[out].rail;
  // Hosts with unlike numbers of rails share none: theirs are numbered for themselves.
  const bool rails = hosts.rails(from) == hosts.rails(to);
  const uint32_t* same_rail = options.rail_aware && rails ? on_rail(graph, far, rail) : nullptr;
  uint32_t at = from;
  way.clear();
  if (same_rail != nullptr) {
    in = *same_rail;
  } else if (options.pxn && rails && graph.devices()[in].rail >= 0 &&
             graph.devices()[in].rail != rail) {
    const HostWays::Beside beside = hosts.beside_rail(from, graph.devices()[in].rail);
    if (beside.gpu >= 0) {
      at = static_cast<uint32_t>(beside.gpu);
      if (at == from || hosts.over_nvlink(from, at, pair + channel, way)) {
        out = static_cast<uint32_t>(beside.nic);
      } else {
        at = from;
      }
    }
  }
  return hosts.over_pcie(at, out, way) && fabric.between(out, in, hash_of(pair, channel), way) &&
         hosts.over_pcie(in, to, way);
}

bool Router::Scratch::find(uint32_t from, uint32_t to, uint64_t pair, uint64_t channel) {
  way.clear();
  if (hosts.over_nvlink(from, to, pair + channel, way)) return true;
  if (hosts.over_pcie(from, to, way)) return true;
  if (across(from, to, pair, channel)) return true;
  const auto any = graph.shortest_way(from, to);
  if (any) way = *any;
  return any.has_value();
}

Router::Router(const ClusterGraph& graph, const RouteOptions& options)
    : scratch_(new Scratch{graph, options, HostWays(graph), FabricWays(graph), {}}) {}
Router::Router(Router&&) noexcept = default;
Router::~Router() = default;

std::optional<GraphRoute> Router::route(int64_t from, int64_t to, int64_t channel) {
  Scratch& s = *scratch_;
  const std::span<const uint32_t> gpus = s.graph.gpus();
  const auto count = static_cast<int64_t>(gpus.size());
  STEPCAST_CHECK(std::min(from, to) >= 0 && std::max(from, to) < count && channel >= 0,
                 "a route joins two GPUs of the cluster");
  if (from == to) return GraphRoute{};
  const auto a = static_cast<uint64_t>(from), b = static_cast<uint64_t>(to);
  const uint64_t pair = hash_of(hash_of(s.options.ecmp_seed, a), b);
  if (!s.find(gpus[a], gpus[b], pair >> 8, static_cast<uint64_t>(channel))) return std::nullopt;
  return measured(s.graph, s.way);
}

int64_t Router::channels(int64_t from, int64_t to) {
  Scratch& s = *scratch_;
  const std::span<const uint32_t> gpus = s.graph.gpus();
  const uint32_t a = gpus[static_cast<size_t>(from)], b = gpus[static_cast<size_t>(to)];
  const Device &x = s.graph.devices()[a], &y = s.graph.devices()[b];
  if (x.domain >= 0 && x.domain == y.domain)
    return std::max<int64_t>(1, s.hosts.nvlink_cables(a, b));
  if (x.node == y.node) return 1;
  return std::max<int64_t>(1, static_cast<int64_t>(s.hosts.own_nics(a).size()));
}

}  // namespace stepcast
