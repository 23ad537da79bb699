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
  std::vector<LinkShare> shares;

  bool across(uint32_t from, uint32_t to, uint64_t pair, uint64_t channel);
  bool find(uint32_t from, uint32_t to, uint64_t pair, uint64_t channel);
  bool find(int64_t from, int64_t to, int64_t channel);
  void spread_over_network();
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

bool Router::Scratch::find(int64_t from, int64_t to, int64_t channel) {
  const std::span<const uint32_t> gpus = graph.gpus();
  const auto count = static_cast<int64_t>(gpus.size());
  STEPCAST_CHECK(std::min(from, to) >= 0 && std::max(from, to) < count && channel >= 0,
                 "a route joins two GPUs of the cluster");
  way.clear();
  if (from == to) return true;
  const auto a = static_cast<uint64_t>(from), b = static_cast<uint64_t>(to);
  const uint64_t pair = hash_of(hash_of(options.ecmp_seed, a), b);
  return find(gpus[a], gpus[b], pair >> 8, static_cast<uint64_t>(channel));
}

// Puts the shares of all equal ways in the place of the network's part of `way`.
void Router::Scratch::spread_over_network() {
  const auto is_network = [&](uint32_t l) {
    return graph.links()[l / 2].kind == LinkKind::network;
  };
  const auto first = std::find_if(way.begin(), way.end(), is_network);
  const auto end = std::find_if_not(first, way.end(), is_network);
  // A way through the NICs of a third host stays as it is.
  if (first == end || std::find_if(end, way.end(), is_network) != way.end()) return;
  shares.clear();
  for (auto l = way.begin(); l != first; ++l) shares.push_back({*l});
  fabric.spread(graph.to(*first ^ 1u), graph.to(*(end - 1)), shares);
  for (auto l = end; l != way.end(); ++l) shares.push_back({*l});
}

RouteOptions route_options(const Fabric& fabric, uint64_t seed) {
  RouteOptions options;
  options.rail_aware = fabric.rail_aware;
  options.pxn = fabric.pxn;
  options.adaptive = fabric.adaptive;
  if (!fabric.adaptive) options.ecmp_seed = seed;
  return options;
}

Router::Router(const ClusterGraph& graph, const RouteOptions& options)
    : scratch_(new Scratch{graph, options, HostWays(graph), FabricWays(graph), {}, {}}) {}
Router::Router(Router&&) noexcept = default;
Router::~Router() = default;

std::optional<GraphRoute> Router::route(int64_t from, int64_t to, int64_t channel) {
  Scratch& s = *scratch_;
  if (!s.find(from, to, channel)) return std::nullopt;
  return s.way.empty() ? GraphRoute{} : measured(s.graph, s.way);
}

std::span<const LinkShare> Router::spread(int64_t from, int64_t to, int64_t channel) {
  Scratch& s = *scratch_;
  s.shares.clear();
  if (!s.find(from, to, channel)) return {};
  for (const uint32_t l : s.way) s.shares.push_back({l});
  if (s.options.adaptive) s.spread_over_network();
  return s.shares;
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
