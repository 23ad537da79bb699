// SPDX-License-Identifier: Apache-2.0
// Routes through a cluster graph, as NCCL and the switches choose them.
//
//   inside an NVLink domain   over NVLink, through the NVSwitch that a hash of the pair picks
//   else inside a host        over PCIe and CPUs by the fewest devices
//   between hosts             GPU -> its nearest NIC -> leaf -> ... -> leaf -> NIC -> GPU; GPUs
//                             for which several NICs are equally near divide them
//     rail-aware              the NIC of the sender's own rail, where the receiver has one there
//     PXN                     if the receiver's NIC is on another rail, first over NVLink to the
//                             GPU of the sender's host beside the NIC of that rail (NCCL 2.12)
//     hosts with unlike numbers of rails share none: each end uses a NIC of its own
//     ECMP                    of several equal paths, one by a hash of (seed, from, to, channel):
//                             every cable equally likely
//     adaptive                all equal paths at once, every cable alike: packet by packet, as
//                             adaptive routing does in a steady state; nothing is drawn
//   where none of these leads anywhere   the path that crosses the fewest switches
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

struct RouteOptions {
  bool rail_aware = true;
  bool pxn = true;
  bool adaptive = false;
  uint64_t ecmp_seed = 0;
};

RouteOptions route_options(const Fabric& fabric, uint64_t seed);

struct GraphRoute {
  std::vector<uint32_t> links;  // directed, from end to end
  Bandwidth bandwidth{};        // of the narrowest
  Time latency{};               // links and devices passed
  int32_t switches = 0;         // network switches passed
};

// A link on the route of a message that adaptive routing may spread over several paths: what part
// of the message takes it, in 1/kWholeMessage.
constexpr uint64_t kWholeMessage = uint64_t{1} << 30;
struct LinkShare {
  uint32_t link = 0;  // directed
  uint64_t share = kWholeMessage;
};

// Reuses its scratch space between calls; O(links near the two hosts), not O(cluster), if every
// network switch has a tier.  The graph must outlive it.
class Router {
 public:
  Router(const ClusterGraph& graph, const RouteOptions& options);
  Router(Router&&) noexcept;
  ~Router();
  // One message from GPU `from` to GPU `to` (numbers as in gpus()), or that part of it which one
  // channel of NCCL carries; nothing if no path exists, no links if from == to.  If routing is
  // adaptive, one of the paths that are taken.
  std::optional<GraphRoute> route(int64_t from, int64_t to, int64_t channel = 0);
  // The links of all paths that are taken, until the next call; empty if no path exists or from ==
  // to.  Shares are rounded down.
  std::span<const LinkShare> spread(int64_t from, int64_t to, int64_t channel = 0);
  // Channels 0 .. n-1 use all NVLinks of the sender, or all NICs that are its own, equally.
  int64_t channels(int64_t from, int64_t to);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

// A number that looks random for each pair (sim/random.h).
uint64_t hash_of(uint64_t a, uint64_t b);

}  // namespace stepcast
