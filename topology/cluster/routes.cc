// SPDX-License-Identifier: Apache-2.0
// How a route is found.
//
// A route has up to three parts, and a class finds each kind: HostPaths those inside a host or an
// NVLink domain, FabricPaths those from NIC to NIC; the Router puts them together.
//
// An example: GPU 1 of node 0 sends to GPU 6 of node 5, in a rail fabric of 8-GPU nodes, four nodes
// a leaf.  HostPaths knows the NICs of each GPU: nic1 here and nic6 there.  They are on different
// rails, whose leaves only meet at the spine; with PXN the message goes over NVLink to GPU 6 of
// node 0, whose own NIC is on the receiver's rail, and from there PCIe switch, nic6.  FabricPaths
// now joins n0/nic6 with n5/nic6.  It climbs from both ends a tier at a time: above n0/nic6 is
// leaf0/rail6, above n5/nic6 leaf1/rail6, which differ; one tier higher both see the same spines.
// The spines that both see are the *common* devices; walking back down, a link is *useful* if it
// leads to one of them.  At each hop the message then takes one of the useful links: with ECMP the
// one that a hash of (pair, channel, hop) picks, with adaptive routing all of them, each with its
// share.  What lies above a leaf is kept, since all of its NICs share it: many routes cost little
// more than their own links.
#include "topology/cluster/routes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/random.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

// A set of devices that is cleared in constant time: scratch space of searches.
class DeviceSet {
 public:
  explicit DeviceSet(size_t devices) : set_in_(devices) {}
  void clear() {
    if (++now_ != 0) return;
    set_in_.assign(set_in_.size(), 0);
    now_ = 1;
  }
  bool has(uint32_t device) const { return set_in_[device] == now_; }
  // True if it was not in the set.
  bool add(uint32_t device) {
    const bool fresh = !has(device);
    set_in_[device] = now_;
    return fresh;
  }

 private:
  std::vector<uint32_t> set_in_;
  uint32_t now_ = 1;
};

// Paths inside hosts and NVLink domains, and which NICs are a GPU's own.
class HostPaths {
 public:
  explicit HostPaths(const ClusterGraph& graph);

  // The NICs that are fewest devices away from a GPU over PCIe, CPUs and C2C.  GPUs for which
  // several are equally near divide them: each has its share, at least one.  Empty: none in reach.
  std::span<const uint32_t> own_nics(uint32_t gpu);
  // Rails of the NICs of the host of `gpu`, from 0 to the highest; 0: none.
  int32_t rails(uint32_t gpu) const;
  // A GPU of the host of `gpu` that has a NIC on `rail` and that one NVLink or NVSwitch leads to,
  // and that NIC; devices, -1 both if there is none.
  struct Beside {
    int64_t gpu = -1, nic = -1;
  };
  Beside beside_rail(uint32_t gpu, int32_t rail);

  // Links from one device of a host to another over PCIe, CPUs and C2C, by the fewest devices;
  // appended to `path`.  False, and nothing appended, if there is none.
  bool over_pcie(uint32_t from, uint32_t to, std::vector<uint32_t>& path);
  // Links between two GPUs of an NVLink domain: direct, through the NVSwitch of cable `choice` of
  // those that lead to one, else by the fewest devices.
  bool over_nvlink(uint32_t from, uint32_t to, uint64_t choice, std::vector<uint32_t>& path);
  // Cables that `over_nvlink` chooses from; 0: no single NVLink or NVSwitch leads there.
  int64_t nvlink_cables(uint32_t from, uint32_t to);

 private:
  // Links of one step over NVLink, or both steps through an NVSwitch; each with its cables.
  struct Hop {
    uint32_t first = 0, second = 0;  // second == first: direct
    int32_t cables = 0;
  };
  void find_hops(uint32_t from, uint32_t to);
  void divide_nics(int32_t host);
  bool search(uint32_t from, uint32_t to, bool nvlink, std::vector<uint32_t>& path);

  const ClusterGraph& graph_;
  std::vector<std::vector<uint32_t>> gpus_of_host_;
  std::vector<std::vector<uint32_t>> own_nics_;  // by device
  std::vector<bool> divided_;                    // by host
  std::vector<int32_t> rails_;                   // by host
  std::vector<Hop> hops_;
  std::vector<uint32_t> queue_, entered_by_;
  std::vector<uint32_t> link_to_;
  DeviceSet seen_;
};

// Paths from NIC to NIC through switches: up to the lowest tier that joins the two, and down.
class FabricPaths {
 public:
  explicit FabricPaths(const ClusterGraph& graph);

  // Appends the links of one path; of the equally good links of each step, the one that a hash of
  // (key, step) picks, each cable as likely as any other.  A graph whose switches have no tiers is
  // searched as a whole, for the fewest switches.  False, and nothing appended, if there is none.
  bool between(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& path);

  // Appends the links of all these paths: what part of a message takes each, if every switch sends
  // it on over all of them, every cable alike.  False, and nothing appended, if there is none.
  bool spread(uint32_t from, uint32_t to, std::vector<LinkShare>& shares);

 private:
  // Network links, those that leave a device together: first those that go up.
  struct Hop {
    uint32_t to = 0, link = 0, cables = 0;
  };
  using Devices = std::vector<uint32_t>;  // the devices as many links above an end
  std::span<const Hop> ups(uint32_t device) const;
  std::span<const Hop> downs(uint32_t device) const;
  // The devices k links above a device; kept, as all NICs of a leaf have the same ones.
  const Devices& above(uint32_t device, size_t k);
  const Devices& above_nic(uint32_t nic, size_t k);
  // Makes ready for `choose`; the links of a shortest path, 0: there is none.
  size_t find(uint32_t from, uint32_t to);
  size_t find_up_and_down(uint32_t from, uint32_t to);
  size_t find_by_distance(uint32_t from, uint32_t to);
  // Fills `choices_` with the hops of step 0, 1, ... that bring `at` nearer to `to`.
  void choose(uint32_t at, uint32_t to, size_t step);
  // One of `choices_`, by its cables.
  const Hop& pick(uint64_t key, size_t step) const;

  const ClusterGraph& graph_;
  bool tiers_ = true;
  std::vector<Hop> hops_;
  std::vector<uint32_t> first_up_, first_down_;     // of each device in hops_; one more at the end
  std::vector<std::vector<Devices>> above_;         // by device
  std::vector<DeviceSet> useful_from_, useful_to_;  // of each tier, those on a shortest path
  DeviceSet reached_;
  Devices common_, queue_;
  std::vector<Hop> choices_;
  std::vector<uint32_t> steps_;  // to the far end, by device
  size_t top_ = 0;               // tier in which the two ends meet; 0: by `steps_`
  std::vector<uint64_t> part_;   // of a message that has come to each device
  Devices now_, next_;           // devices that some of it has come to
};

HostPaths::HostPaths(const ClusterGraph& graph)
    : graph_(graph),
      own_nics_(graph.devices().size()),
      entered_by_(graph.devices().size()),
      link_to_(graph.devices().size()),
      seen_(graph.devices().size()) {
  int32_t hosts = 0;
  for (const Device& d : graph.devices()) hosts = std::max(hosts, d.node + 1);
  gpus_of_host_.resize(static_cast<size_t>(hosts));
  divided_.resize(static_cast<size_t>(hosts));
  rails_.resize(static_cast<size_t>(hosts));
  for (const Device& d : graph.devices()) {
    if (d.kind != DeviceKind::nic || d.node < 0) continue;
    int32_t& rails = rails_[static_cast<size_t>(d.node)];
    rails = std::max(rails, d.rail + 1);
  }
  for (uint32_t gpu : graph.gpus()) {
    const int32_t host = graph.devices()[gpu].node;
    if (host >= 0) gpus_of_host_[static_cast<size_t>(host)].push_back(gpu);
  }
}

// Breadth first: over NVLink inside a domain through anything, or inside a host over everything
// but NVLink and the network, through PCIe switches and CPUs.
bool HostPaths::search(uint32_t from, uint32_t to, bool nvlink, std::vector<uint32_t>& path) {
  const std::span<const Device> devices = graph_.devices();
  seen_.clear();
  seen_.add(from);
  queue_.assign(1, from);
  for (size_t i = 0; i < queue_.size() && !seen_.has(to); ++i) {
    const uint32_t at = queue_[i];
    const DeviceKind kind = devices[at].kind;
    const bool ends = !nvlink && (kind == DeviceKind::gpu || kind == DeviceKind::nic);
    if (ends && at != from) continue;
    for (uint32_t l : graph_.leaving(at)) {
      const LinkKind over = graph_.links()[l / 2].kind;
      if ((over == LinkKind::nvlink) != nvlink || over == LinkKind::network) continue;
      const uint32_t next = graph_.to(l);
      const bool inside = nvlink || devices[next].node == devices[from].node;
      if (!inside || !seen_.add(next)) continue;
      entered_by_[next] = l;
      queue_.push_back(next);
    }
  }
  if (!seen_.has(to)) return false;
  const size_t start = path.size();
  for (uint32_t at = to; at != from; at = graph_.to(entered_by_[at] ^ 1u)) {
    path.push_back(entered_by_[at]);
  }
  std::reverse(path.begin() + static_cast<std::ptrdiff_t>(start), path.end());
  return true;
}

bool HostPaths::over_pcie(uint32_t from, uint32_t to, std::vector<uint32_t>& path) {
  const int32_t host = graph_.devices()[from].node;
  if (host < 0 || graph_.devices()[to].node != host) return false;
  return search(from, to, false, path);
}

void HostPaths::find_hops(uint32_t from, uint32_t to) {
  hops_.clear();
  seen_.clear();
  for (uint32_t l : graph_.leaving(to)) {
    const uint32_t next = graph_.to(l);
    if (graph_.links()[l / 2].kind != LinkKind::nvlink) continue;
    if (graph_.devices()[next].kind != DeviceKind::nvswitch) continue;
    seen_.add(next);
    link_to_[next] = l ^ 1u;
  }
  bool direct = false;
  for (uint32_t l : graph_.leaving(from)) {
    const Link& link = graph_.links()[l / 2];
    if (link.kind != LinkKind::nvlink) continue;
    const uint32_t next = graph_.to(l);
    if (next == to) {
      if (!direct) hops_.clear();
      direct = true;
      hops_.push_back({l, l, link.cables});
    } else if (!direct && seen_.has(next)) {
      hops_.push_back({l, link_to_[next], link.cables});
    }
  }
}

int64_t HostPaths::nvlink_cables(uint32_t from, uint32_t to) {
  find_hops(from, to);
  int64_t cables = 0;
  for (const Hop& hop : hops_) cables += hop.cables;
  return cables;
}

bool HostPaths::over_nvlink(uint32_t from, uint32_t to, uint64_t choice,
                            std::vector<uint32_t>& path) {
  const int32_t domain = graph_.devices()[from].domain;
  if (domain < 0 || graph_.devices()[to].domain != domain) return false;
  const int64_t cables = nvlink_cables(from, to);
  if (cables == 0) return search(from, to, true, path);
  auto cable = static_cast<int64_t>(choice % static_cast<uint64_t>(cables));
  size_t i = 0;
  while (cable >= hops_[i].cables) cable -= hops_[i++].cables;
  path.push_back(hops_[i].first);
  if (hops_[i].second != hops_[i].first) path.push_back(hops_[i].second);
  return true;
}

void HostPaths::divide_nics(int32_t host) {
  const std::vector<uint32_t>& gpus = gpus_of_host_[static_cast<size_t>(host)];
  for (uint32_t gpu : gpus) {
    // The nearest: a breadth-first search that stops behind the first layer with a NIC in it.
    std::vector<uint32_t>& nearest = own_nics_[gpu];
    seen_.clear();
    seen_.add(gpu);
    std::vector<uint32_t> layer{gpu}, next_layer;
    while (!layer.empty() && nearest.empty()) {
      next_layer.clear();
      for (uint32_t at : layer) {
        if (at != gpu && graph_.devices()[at].kind == DeviceKind::gpu) continue;
        for (uint32_t l : graph_.leaving(at)) {
          const LinkKind over = graph_.links()[l / 2].kind;
          const uint32_t next = graph_.to(l);
          if (over == LinkKind::nvlink || over == LinkKind::network) continue;
          if (graph_.devices()[next].node != host || !seen_.add(next)) continue;
          next_layer.push_back(next);
          if (graph_.devices()[next].kind == DeviceKind::nic) nearest.push_back(next);
        }
      }
      layer.swap(next_layer);
    }
    std::sort(nearest.begin(), nearest.end());
  }
  std::vector<std::vector<uint32_t>> shares(gpus.size());
  for (size_t i = 0; i < gpus.size(); ++i) {
    const std::vector<uint32_t>& nearest = own_nics_[gpus[i]];
    if (nearest.empty()) continue;
    size_t sharing = 0, position = 0;
    for (size_t j = 0; j < gpus.size(); ++j) {
      if (own_nics_[gpus[j]] != nearest) continue;
      position += j < i;
      ++sharing;
    }
    const size_t first = position * nearest.size() / sharing;
    const size_t count = std::max<size_t>(1, nearest.size() / sharing);
    for (size_t k = first; k < first + count; ++k) shares[i].push_back(nearest[k]);
  }
  for (size_t i = 0; i < gpus.size(); ++i) own_nics_[gpus[i]] = std::move(shares[i]);
  divided_[static_cast<size_t>(host)] = true;
}

std::span<const uint32_t> HostPaths::own_nics(uint32_t gpu) {
  const int32_t host = graph_.devices()[gpu].node;
  if (host >= 0 && !divided_[static_cast<size_t>(host)]) divide_nics(host);
  return own_nics_[gpu];
}

int32_t HostPaths::rails(uint32_t gpu) const {
  const int32_t host = graph_.devices()[gpu].node;
  return host < 0 ? 0 : rails_[static_cast<size_t>(host)];
}

HostPaths::Beside HostPaths::beside_rail(uint32_t gpu, int32_t rail) {
  const Device& device = graph_.devices()[gpu];
  if (device.node < 0 || device.domain < 0) return {};
  for (uint32_t other : gpus_of_host_[static_cast<size_t>(device.node)]) {
    if (other != gpu && nvlink_cables(gpu, other) == 0) continue;
    for (uint32_t nic : own_nics(other)) {
      if (graph_.devices()[nic].rail == rail) return {other, nic};
    }
  }
  return {};
}

namespace {

// Tiers above a NIC: leaf, spine, core, super-core and one to spare.
constexpr size_t kMostTiers = 6;

}  // namespace

uint64_t hash_of(uint64_t a, uint64_t b) {
  return splitmix(a + (b + 1) * kSplitMixStep);
}

FabricPaths::FabricPaths(const ClusterGraph& graph)
    : graph_(graph),
      above_(graph.devices().size()),
      useful_from_(kMostTiers, DeviceSet(graph.devices().size())),
      useful_to_(kMostTiers, DeviceSet(graph.devices().size())),
      reached_(graph.devices().size()) {
  for (const Link& link : graph.links()) {
    if (link.kind != LinkKind::network) continue;
    const Device &a = graph.devices()[link.a], &b = graph.devices()[link.b];
    if (a.kind == DeviceKind::network_switch && a.tier < 0) tiers_ = false;
    if (b.kind == DeviceKind::network_switch && b.tier < 0) tiers_ = false;
    if (a.tier == b.tier) tiers_ = false;
  }
  for (uint32_t d = 0; d < graph.devices().size(); ++d) {
    const int32_t tier = graph.devices()[d].tier;
    first_up_.push_back(static_cast<uint32_t>(hops_.size()));
    const auto list = [&](bool up) {
      for (uint32_t l : graph.leaving(d)) {
        const Link& link = graph.links()[l / 2];
        const uint32_t to = graph.to(l);
        if (link.kind != LinkKind::network || (graph.devices()[to].tier > tier) != up) continue;
        hops_.push_back({to, l, static_cast<uint32_t>(link.cables)});
      }
    };
    list(true);
    first_down_.push_back(static_cast<uint32_t>(hops_.size()));
    list(false);
  }
  first_up_.push_back(static_cast<uint32_t>(hops_.size()));
}

std::span<const FabricPaths::Hop> FabricPaths::ups(uint32_t device) const {
  return std::span(hops_).subspan(first_up_[device],
                                  size_t{first_down_[device]} - first_up_[device]);
}

std::span<const FabricPaths::Hop> FabricPaths::downs(uint32_t device) const {
  return std::span(hops_).subspan(first_down_[device],
                                  size_t{first_up_[device + 1]} - first_down_[device]);
}

const FabricPaths::Devices& FabricPaths::above(uint32_t device, size_t k) {
  std::vector<Devices>& tiers = above_[device];
  if (tiers.empty()) tiers.push_back({device});
  while (tiers.size() <= k) {
    reached_.clear();
    Devices next;
    for (uint32_t at : tiers.back()) {
      for (const Hop& hop : ups(at)) {
        if (reached_.add(hop.to)) next.push_back(hop.to);
      }
    }
    tiers.push_back(std::move(next));
  }
  return tiers[k];
}

const FabricPaths::Devices& FabricPaths::above_nic(uint32_t nic, size_t k) {
  const std::span<const Hop> leaves = ups(nic);
  return k > 0 && leaves.size() == 1 ? above(leaves.front().to, k - 1) : above(nic, k);
}

const FabricPaths::Hop& FabricPaths::pick(uint64_t key, size_t step) const {
  uint64_t cables = 0;
  for (const Hop& hop : choices_) cables += hop.cables;
  uint64_t cable = hash_of(key, step) % cables;
  size_t i = 0;
  while (cable >= choices_[i].cables) cable -= choices_[i++].cables;
  return choices_[i];
}

size_t FabricPaths::find_up_and_down(uint32_t from, uint32_t to) {
  top_ = 0;
  common_.clear();
  while (common_.empty()) {
    if (++top_ == kMostTiers) return 0;
    DeviceSet& far = useful_to_[top_];
    far.clear();
    for (uint32_t d : above_nic(to, top_)) far.add(d);
    for (uint32_t d : above_nic(from, top_)) {
      if (far.has(d)) common_.push_back(d);
    }
  }
  // Keep of each tier what leads to a common device.
  const auto prune = [&](uint32_t nic, std::vector<DeviceSet>& useful) {
    useful[top_].clear();
    for (uint32_t d : common_) useful[top_].add(d);
    for (size_t tier = top_ - 1; tier > 0; --tier) {
      useful[tier].clear();
      const auto leads = [&](const Hop& hop) { return useful[tier + 1].has(hop.to); };
      for (uint32_t d : above_nic(nic, tier)) {
        if (std::ranges::any_of(ups(d), leads)) useful[tier].add(d);
      }
    }
    useful[0].clear();
    useful[0].add(nic);
  };
  prune(from, useful_from_);
  prune(to, useful_to_);
  return 2 * top_;
}

// Breadth first from the far end over the network's links.
size_t FabricPaths::find_by_distance(uint32_t from, uint32_t to) {
  top_ = 0;
  steps_.assign(graph_.devices().size(), UINT32_MAX);
  steps_[to] = 0;
  queue_.assign(1, to);
  for (size_t i = 0; i < queue_.size() && queue_[i] != from; ++i) {
    const uint32_t at = queue_[i];
    if (at != to && graph_.devices()[at].kind != DeviceKind::network_switch) continue;
    for (const std::span<const Hop> hops : {ups(at), downs(at)}) {
      for (const Hop& hop : hops) {
        if (steps_[hop.to] != UINT32_MAX) continue;
        steps_[hop.to] = steps_[at] + 1;
        queue_.push_back(hop.to);
      }
    }
  }
  return steps_[from] == UINT32_MAX ? 0 : steps_[from];
}

size_t FabricPaths::find(uint32_t from, uint32_t to) {
  const size_t length = tiers_ ? find_up_and_down(from, to) : 0;
  return length > 0 ? length : find_by_distance(from, to);
}

void FabricPaths::choose(uint32_t at, uint32_t to, size_t step) {
  choices_.clear();
  if (top_ > 0) {
    const bool up = step < top_;
    const DeviceSet& ahead = up ? useful_from_[step + 1] : useful_to_[2 * top_ - step - 1];
    for (const Hop& hop : up ? ups(at) : downs(at)) {
      if (ahead.has(hop.to)) choices_.push_back(hop);
    }
    return;
  }
  for (const std::span<const Hop> hops : {ups(at), downs(at)}) {
    for (const Hop& hop : hops) {
      const DeviceKind kind = graph_.devices()[hop.to].kind;
      const bool passes = hop.to == to || kind == DeviceKind::network_switch;
      if (passes && steps_[hop.to] + 1 == steps_[at]) choices_.push_back(hop);
    }
  }
}

bool FabricPaths::between(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& path) {
  const size_t length = find(from, to);
  uint32_t at = from;
  for (size_t step = 0; step < length; ++step) {
    choose(at, to, step);
    const Hop& hop = pick(key, top_ > 0 ? step : length - step);
    path.push_back(hop.link);
    at = hop.to;
  }
  return length > 0;
}

bool FabricPaths::spread(uint32_t from, uint32_t to, std::vector<LinkShare>& shares) {
  const size_t length = find(from, to);
  if (part_.empty()) part_.resize(graph_.devices().size());
  now_.assign(1, from);
  part_[from] = kWholeMessage;
  for (size_t step = 0; step < length; ++step) {
    next_.clear();
    for (const uint32_t at : now_) {
      choose(at, to, step);
      uint64_t cables = 0;
      for (const Hop& hop : choices_) cables += hop.cables;
      for (const Hop& hop : choices_) {
        const uint64_t part = part_[at] * hop.cables / cables;
        if (part == 0) continue;
        shares.push_back({hop.link, part});
        if (part_[hop.to] == 0) next_.push_back(hop.to);
        part_[hop.to] += part;
      }
      part_[at] = 0;
    }
    std::swap(now_, next_);
  }
  for (const uint32_t at : now_) part_[at] = 0;
  return length > 0;
}

struct Router::Scratch {
  const ClusterGraph& graph;
  RouteOptions options;
  HostPaths hosts;
  FabricPaths fabric;
  std::vector<uint32_t> path;
  std::vector<LinkShare> shares;
  // What NICs with one cable each put on links between their switches, by these.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<LinkShare>> between_switches;
  size_t kept_shares = 0;

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

GraphRoute measured(const ClusterGraph& graph, const std::vector<uint32_t>& path) {
  GraphRoute route;
  route.links = path;
  route.bandwidth = {std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < path.size(); ++i) {
    route.bandwidth = std::min(route.bandwidth, graph.bandwidth(path[i]));
    route.latency += graph.links()[path[i] / 2].latency;
    if (i + 1 == path.size()) break;
    const Device& through = graph.devices()[graph.to(path[i])];
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
  path.clear();
  if (same_rail != nullptr) {
    in = *same_rail;
  } else if (options.pxn && rails && graph.devices()[in].rail >= 0 &&
             graph.devices()[in].rail != rail) {
    const HostPaths::Beside beside = hosts.beside_rail(from, graph.devices()[in].rail);
    if (beside.gpu >= 0) {
      at = static_cast<uint32_t>(beside.gpu);
      if (at == from || hosts.over_nvlink(from, at, pair + channel, path)) {
        out = static_cast<uint32_t>(beside.nic);
      } else {
        at = from;
      }
    }
  }
  return hosts.over_pcie(at, out, path) && fabric.between(out, in, hash_of(pair, channel), path) &&
         hosts.over_pcie(in, to, path);
}

bool Router::Scratch::find(uint32_t from, uint32_t to, uint64_t pair, uint64_t channel) {
  path.clear();
  if (hosts.over_nvlink(from, to, pair + channel, path)) return true;
  if (hosts.over_pcie(from, to, path)) return true;
  if (across(from, to, pair, channel)) return true;
  const auto any = graph.shortest_path(from, to);
  if (any) path = *any;
  return any.has_value();
}

bool Router::Scratch::find(int64_t from, int64_t to, int64_t channel) {
  const std::span<const uint32_t> gpus = graph.gpus();
  const auto count = static_cast<int64_t>(gpus.size());
  STEPCAST_CHECK(std::min(from, to) >= 0 && std::max(from, to) < count && channel >= 0,
                 "a route joins two GPUs of the cluster");
  path.clear();
  if (from == to) return true;
  const auto a = static_cast<uint64_t>(from), b = static_cast<uint64_t>(to);
  const uint64_t pair = hash_of(hash_of(options.ecmp_seed, a), b);
  return find(gpus[a], gpus[b], pair >> 8, static_cast<uint64_t>(channel));
}

// Puts the shares of all equal paths in the place of the network's part of `path`.
void Router::Scratch::spread_over_network() {
  const auto is_network = [&](uint32_t l) {
    return graph.links()[l / 2].kind == LinkKind::network;
  };
  const auto first = std::find_if(path.begin(), path.end(), is_network);
  const auto end = std::find_if_not(first, path.end(), is_network);
  // A path through the NICs of a third host stays as it is.
  if (first == end || std::find_if(end, path.end(), is_network) != path.end()) return;
  const uint32_t from = graph.to(*first ^ 1u), to = graph.to(*(end - 1));
  shares.clear();
  for (auto l = path.begin(); l != first; ++l) shares.push_back({*l});
  const auto cables = [&](uint32_t nic) {
    return std::ranges::count_if(graph.leaving(nic), is_network);
  };
  if (end - first < 2 || cables(from) != 1 || cables(to) != 1) {
    fabric.spread(from, to, shares);
  } else {
    constexpr size_t kMostKept = 1 << 20;
    const auto [kept, is_new] =
        between_switches.try_emplace({graph.to(*first), graph.to(*(end - 1) ^ 1u)});
    const auto before = static_cast<ptrdiff_t>(shares.size());
    if (!is_new) {
      shares.push_back({*first});
      shares.insert(shares.end(), kept->second.begin(), kept->second.end());
      shares.push_back({*(end - 1)});
    } else {
      fabric.spread(from, to, shares);
      kept->second.assign(shares.begin() + before + 1, shares.end() - 1);
      kept_shares += kept->second.size();
      if (kept_shares > kMostKept) between_switches.clear();
      if (kept_shares > kMostKept) kept_shares = 0;
    }
  }
  for (auto l = end; l != path.end(); ++l) shares.push_back({*l});
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
    : scratch_(new Scratch{graph, options, HostPaths(graph), FabricPaths(graph), {}, {}, {}, 0}) {}
Router::Router(Router&&) noexcept = default;
Router::~Router() = default;

std::optional<GraphRoute> Router::route(int64_t from, int64_t to, int64_t channel) {
  Scratch& s = *scratch_;
  if (!s.find(from, to, channel)) return std::nullopt;
  return s.path.empty() ? GraphRoute{} : measured(s.graph, s.path);
}

std::span<const LinkShare> Router::spread(int64_t from, int64_t to, int64_t channel) {
  Scratch& s = *scratch_;
  s.shares.clear();
  if (!s.find(from, to, channel)) return {};
  for (const uint32_t l : s.path) s.shares.push_back({l});
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
