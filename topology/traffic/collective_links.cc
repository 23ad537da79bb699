// SPDX-License-Identifier: Apache-2.0
#include "topology/traffic/collective_links.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/check.h"

namespace stepcast {

namespace {

__extension__ using Wide = unsigned __int128;

// Loads while they are added up: of a message of 2^40 bytes.
constexpr int kFineBits = 40;

bool is_gpu(const ClusterGraph& cluster, uint32_t device) {
  return cluster.devices()[device].kind == DeviceKind::gpu;
}

bool is_nvswitch(const ClusterGraph& cluster, uint32_t device) {
  return cluster.devices()[device].kind == DeviceKind::nvswitch;
}

// The GPU's first link to an NVSwitch.
std::optional<uint32_t> first_to_nvswitch(const ClusterGraph& cluster, uint32_t gpu) {
  for (uint32_t l : cluster.leaving(gpu)) {
    if (is_nvswitch(cluster, cluster.to(l))) return l;
  }
  return std::nullopt;
}

// Where collectives leave their fast links: the NVLink domain, or the host.
std::pair<int32_t, int32_t> node_key(const Device& gpu) {
  return gpu.domain >= 0 ? std::pair(gpu.domain, -1) : std::pair(-1, gpu.node);
}

std::vector<std::vector<int64_t>> by_node(const ClusterGraph& cluster,
                                          std::span<const int64_t> gpus) {
  struct Member {
    std::pair<int32_t, int32_t> node;
    size_t place;
  };
  std::vector<Member> members;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const uint32_t device = cluster.gpus()[static_cast<size_t>(gpus[i])];
    members.push_back({node_key(cluster.devices()[device]), i});
  }
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::tie(a.node, a.place) < std::tie(b.node, b.place);
  });
  std::vector<std::pair<size_t, std::vector<int64_t>>> nodes;  // place of the first member
  for (size_t i = 0; i < members.size(); ++i) {
    const bool same = i > 0 && members[i].node == members[i - 1].node;
    if (!same) nodes.push_back({members[i].place, {}});
    nodes.back().second.push_back(gpus[members[i].place]);
  }
  std::sort(nodes.begin(), nodes.end());
  std::vector<std::vector<int64_t>> result;
  for (auto& [place, node] : nodes) result.push_back(std::move(node));
  return result;
}

class Loads {
 public:
  Loads(const ClusterGraph& cluster, Router& router) : cluster_(cluster), router_(router) {}

  void add(const Message& m, int64_t whole) {
    if (m.from == Message::kSwitches || m.to == Message::kSwitches) return add_in_switch(m, whole);
    const Device &a = device(m.from), &b = device(m.to);
    // Inside a domain all NVLinks count as one.
    const bool near = a.domain >= 0 && a.domain == b.domain;
    const int64_t channels = near ? 1 : router_.channels(m.from, m.to);
    for (int64_t c = 0; c < channels; ++c) {
      const std::span<const LinkShare> shares = router_.spread(m.from, m.to, c);
      STEPCAST_CHECK(m.from == m.to || !shares.empty(), "a route between GPUs that communicate");
      const Wide all = fine_part(m.parts, whole * channels);
      for (const LinkShare& s : shares) {
        fine_.emplace_back(joint_link(cluster_, s.link),
                           static_cast<uint64_t>(all * s.share / kWholeMessage));
      }
    }
  }

  std::vector<LinkUse> take() {
    add_up();
    std::sort(fine_.begin(), fine_.end());
    std::vector<LinkUse> uses;
    constexpr uint64_t kUnit = (uint64_t{1} << kFineBits) / kFullLoad;
    for (size_t i = 0; i < fine_.size();) {
      const uint32_t link = fine_[i].first;
      uint64_t load = 0;
      for (; i < fine_.size() && fine_[i].first == link; ++i) load += fine_[i].second;
      const uint64_t rounded = std::clamp<uint64_t>((load + kUnit / 2) / kUnit, 1, UINT32_MAX);
      uses.push_back({link, static_cast<uint32_t>(rounded)});
    }
    return uses;
  }

 private:
  const Device& device(int64_t gpu) const {
    return cluster_.devices()[cluster_.gpus()[static_cast<size_t>(gpu)]];
  }

  // parts / whole of a message of 2^kFineBits.
  static Wide fine_part(int64_t parts, int64_t whole) {
    const auto p = static_cast<uint64_t>(parts), w = static_cast<uint64_t>(whole);
    constexpr int kRest = kFineBits / 2;
    // parts << kFineBits would not fit.
    const uint64_t high = (p << kRest) / w, rest = (p << kRest) % w;
    return (Wide{high} << kRest) + (rest << kRest) / w;
  }

  // Where many messages are spread over many paths, the loads of each link to one.
  void add_up() {
    const size_t links = 2 * cluster_.links().size();
    if (fine_.size() < links / 8) return;  // sorting takes less
    constexpr uint64_t kNothing = UINT64_MAX;
    std::vector<uint64_t> sums(links, kNothing);
    for (const auto& [link, load] : fine_)
      sums[link] = sums[link] == kNothing ? load : sums[link] + load;
    fine_.clear();
    for (uint32_t link = 0; link < links; ++link) {
      if (sums[link] != kNothing) fine_.emplace_back(link, sums[link]);
    }
  }

  void add_in_switch(const Message& m, int64_t whole) {
    const bool out = m.to == Message::kSwitches;
    const uint32_t gpu = cluster_.gpus()[static_cast<size_t>(out ? m.from : m.to)];
    const std::optional<uint32_t> link = first_to_nvswitch(cluster_, gpu);
    STEPCAST_CHECK(link.has_value(), "a GPU that reduces in NVSwitches has some");
    fine_.emplace_back(joint_link(cluster_, out ? *link : *link ^ 1u),
                       static_cast<uint64_t>(fine_part(m.parts, whole)));
  }

  const ClusterGraph& cluster_;
  Router& router_;
  std::vector<std::pair<uint32_t, uint64_t>> fine_;
};

}  // namespace

uint32_t joint_link(const ClusterGraph& cluster, uint32_t directed) {
  const Link& link = cluster.links()[directed / 2];
  if (link.kind != LinkKind::nvlink) return directed;
  const uint32_t to = cluster.to(directed), from = cluster.to(directed ^ 1u);
  if (is_gpu(cluster, from) && is_nvswitch(cluster, to)) return *first_to_nvswitch(cluster, from);
  if (is_gpu(cluster, to) && is_nvswitch(cluster, from))
    return *first_to_nvswitch(cluster, to) ^ 1u;
  return directed;
}

Bandwidth joint_bandwidth(const ClusterGraph& cluster, uint32_t directed) {
  const uint32_t to = cluster.to(directed), from = cluster.to(directed ^ 1u);
  const bool out = is_gpu(cluster, from) && is_nvswitch(cluster, to);
  const bool in = is_gpu(cluster, to) && is_nvswitch(cluster, from);
  if (!out && !in) return cluster.bandwidth(directed);
  Bandwidth all{};
  for (uint32_t l : cluster.leaving(out ? from : to)) {
    if (is_nvswitch(cluster, cluster.to(l))) all += cluster.bandwidth(out ? l : l ^ 1u);
  }
  return all;
}

std::vector<LinkUse> collective_links(const ClusterGraph& cluster, Router& router, WorkKind kind,
                                      Algorithm algorithm, std::span<const int64_t> gpus) {
  STEPCAST_CHECK(!gpus.empty(), "a group has GPUs");
  std::vector<std::vector<int64_t>> nodes;
  if (kind == WorkKind::send_recv) {
    nodes = {{gpus.front()}, {gpus.back()}};
  } else {
    nodes = by_node(cluster, gpus);
  }
  const CollectiveMessages messages = collective_messages(kind, algorithm, nodes);
  Loads loads(cluster, router);
  for (const Message& m : messages.messages) loads.add(m, messages.whole);
  return loads.take();
}

namespace {

using Nodes = std::span<const std::vector<int64_t>>;

int64_t size_of(const std::vector<int64_t>& node) {
  return static_cast<int64_t>(node.size());
}

int64_t ranks_of(Nodes nodes) {
  int64_t n = 0;
  for (const auto& node : nodes) n += size_of(node);
  return n;
}

// Rings or trees side by side, one for each GPU of the smallest node.
int64_t rails_of(Nodes nodes) {
  int64_t rails = size_of(nodes.front());
  for (const auto& node : nodes) rails = std::min(rails, size_of(node));
  return rails;
}

class Writer {
 public:
  explicit Writer(int64_t whole) { result_.whole = whole; }

  void add(int64_t from, int64_t to, int64_t parts) {
    if (from != to && parts > 0) result_.messages.push_back({from, to, parts});
  }
  void both_directions(int64_t a, int64_t b, int64_t parts) {
    add(a, b, parts);
    add(b, a, parts);
  }

  CollectiveMessages take() {
    auto& all = result_.messages;
    std::sort(all.begin(), all.end(), [](const Message& a, const Message& b) {
      return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    size_t kept = 0;
    for (const Message& m : all) {
      if (kept > 0 && all[kept - 1].from == m.from && all[kept - 1].to == m.to) {
        all[kept - 1].parts += m.parts;
      } else {
        all[kept++] = m;
      }
    }
    all.resize(kept);
    return std::move(result_);
  }

 private:
  CollectiveMessages result_;
};

// Where ring r enters node k of `nodes`, as a place in the node.  Neighbours differ, so that the
// ring may leave each node where it enters the next one.
int64_t entry(int64_t r, size_t k, Nodes nodes) {
  const bool odd_one = nodes.size() % 2 == 1 && k + 1 == nodes.size() && k > 0;
  const int64_t shift = odd_one ? 2 : static_cast<int64_t>(k % 2);
  return (r + shift) % size_of(nodes[k]);
}

// All GPUs of the group in the order of ring r.
std::vector<int64_t> ring_order(int64_t r, Nodes nodes) {
  std::vector<int64_t> order;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const int64_t count = size_of(nodes[k]);
    const int64_t first = entry(r, k, nodes);
    int64_t last = entry(r, (k + 1) % nodes.size(), nodes) % count;
    const int64_t step = last == (first + 1) % count ? count - 1 : 1;
    if (last == first) last = (first + count - 1) % count;
    for (int64_t i = 0, at = first; i < count; ++i, at = (at + step) % count) {
      if (at != last) order.push_back(nodes[k][static_cast<size_t>(at)]);
    }
    order.push_back(nodes[k][static_cast<size_t>(last)]);
  }
  return order;
}

CollectiveMessages rings(WorkKind kind, Nodes nodes) {
  const int64_t n = ranks_of(nodes);
  // Inside one node all rings have the same order.
  const int64_t rails = nodes.size() == 1 ? 1 : rails_of(nodes);
  Writer out(n * rails);
  const int64_t rounds = kind == WorkKind::all_reduce ? 2 : 1;
  const bool broadcast = kind == WorkKind::broadcast;
  const int64_t root = nodes.front().front();
  for (int64_t r = 0; r < rails; ++r) {
    const std::vector<int64_t> order = ring_order(r, nodes);
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t to = order[(i + 1) % order.size()];
      out.add(order[i], to, broadcast ? (to == root ? 0 : n) : rounds * (n - 1));
    }
  }
  return out.take();
}

// Parent of node i of n in the first tree, -1 for the root.  Odd nodes are leaves; the parent of a
// node whose lowest set bit is b lies b to its left or right.
int64_t parent_in_tree(int64_t i, int64_t n) {
  if (i == 0) return -1;
  const int64_t bit = i & -i;
  const int64_t right = (i ^ bit) | (bit << 1);
  return right < n ? right : i ^ bit;
}

// Parent in the second tree: the first one mirrored, or turned by one where the mirror would have
// the same leaves.
int64_t parent_in_second_tree(int64_t i, int64_t n) {
  if (n % 2 == 0) {
    const int64_t p = parent_in_tree(n - 1 - i, n);
    return p < 0 ? -1 : n - 1 - p;
  }
  const int64_t p = parent_in_tree((i + n - 1) % n, n);
  return p < 0 ? -1 : (p + 1) % n;
}

int64_t head_of(const std::vector<int64_t>& node, int64_t rail) {
  return node[static_cast<size_t>(rail % size_of(node))];
}

// The two trees over the GPUs of rail r, one part up and one down each.
void add_tree_messages(Writer& out, int64_t r, Nodes nodes) {
  const auto n = static_cast<int64_t>(nodes.size());
  const auto head = [&](int64_t k) { return head_of(nodes[static_cast<size_t>(k)], r); };
  for (int64_t k = 0; k < n; ++k) {
    for (const int64_t parent : {parent_in_tree(k, n), parent_in_second_tree(k, n)}) {
      if (parent >= 0) out.both_directions(head(k), head(parent), 1);
    }
  }
}

// Network switches that add up: a head sends its slice (two parts) once and takes the sum once.
// They are no devices of the graph; the slice goes to the next node instead, which is the same for
// NICs.
void add_sum_messages(Writer& out, int64_t r, Nodes nodes) {
  for (size_t k = 0; k < nodes.size(); ++k) {
    out.add(head_of(nodes[k], r), head_of(nodes[(k + 1) % nodes.size()], r), 2);
  }
}

using Between = void (*)(Writer&, int64_t, Nodes);

// A chain in each node, and `between` the heads of the nodes.
CollectiveMessages chains(Nodes nodes, Between between) {
  const int64_t rails = rails_of(nodes);
  Writer out(2 * rails);
  for (int64_t r = 0; r < rails; ++r) {
    between(out, r, nodes);
    for (const auto& node : nodes) {
      for (size_t i = 0; i + 1 < node.size(); ++i) {
        const size_t at = (i + static_cast<size_t>(r)) % node.size();
        out.both_directions(node[at], node[(at + 1) % node.size()], 2);
      }
    }
  }
  return out.take();
}

// Each GPU of a node heads one of `rails` slices of the message (if the node has more, the first
// ones do).
CollectiveMessages in_switch(WorkKind kind, Nodes nodes, Between between) {
  constexpr int64_t kAll = Message::kSwitches;
  const int64_t rails = rails_of(nodes);
  Writer out(2 * rails);
  const bool reduces = kind != WorkKind::all_gather, spreads = kind != WorkKind::reduce_scatter;
  for (const auto& node : nodes) {
    for (size_t i = 0; i < node.size(); ++i) {
      const bool heads = i < static_cast<size_t>(rails);
      if (reduces) {
        out.add(node[i], kAll, 2 * rails);
        out.add(kAll, node[i], heads ? 2 : 0);
      }
      if (spreads) {
        out.add(node[i], kAll, heads ? 2 : 0);
        out.add(kAll, node[i], 2 * rails);
      }
    }
  }
  for (int64_t r = 0; r < rails && nodes.size() > 1; ++r) between(out, r, nodes);
  return out.take();
}

std::vector<int64_t> in_order(Nodes nodes) {
  std::vector<int64_t> all;
  for (const auto& node : nodes) all.insert(all.end(), node.begin(), node.end());
  return all;
}

CollectiveMessages pat(WorkKind kind, Nodes nodes) {
  const std::vector<int64_t> all = in_order(nodes);
  const auto n = static_cast<int64_t>(all.size());
  Writer out(n);
  for (int64_t distance = 1; distance < n; distance *= 2) {
    const int64_t blocks = std::min(distance, n - distance);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t from = all[static_cast<size_t>(i)];
      const int64_t to = all[static_cast<size_t>((i + distance) % n)];
      if (kind != WorkKind::all_gather) out.add(to, from, blocks);
      if (kind != WorkKind::reduce_scatter) out.add(from, to, blocks);
    }
  }
  return out.take();
}

CollectiveMessages pairwise(Nodes nodes) {
  const std::vector<int64_t> all = in_order(nodes);
  Writer out(static_cast<int64_t>(all.size()));
  for (int64_t from : all) {
    for (int64_t to : all) out.add(from, to, 1);
  }
  return out.take();
}

CollectiveMessages two_step(Nodes nodes) {
  Writer out(ranks_of(nodes));
  for (const auto& node : nodes) {
    for (size_t i = 0; i < node.size(); ++i) {
      for (const auto& other : nodes) {
        // Every GPU passes on what others of its place sent: to each neighbour its share.
        for (int64_t to : node) out.add(node[i], to, 1);
        if (&other != &node) out.add(node[i], other[i % other.size()], size_of(other));
      }
    }
  }
  return out.take();
}

CollectiveMessages to_next(Nodes nodes) {
  std::vector<int64_t> ring;
  for (const auto& node : nodes) ring.insert(ring.end(), node.begin(), node.end());
  Writer out(1);
  for (size_t i = 0; i < ring.size(); ++i) out.add(ring[i], ring[(i + 1) % ring.size()], 1);
  return out.take();
}

}  // namespace

CollectiveMessages collective_messages(WorkKind kind, Algorithm algorithm, Nodes nodes) {
  STEPCAST_CHECK(is_communication(kind) && !nodes.empty(), "a collective of a group");
  if (kind == WorkKind::send_recv) return {1, {{nodes.front().front(), nodes.back().back(), 1}}};
  if (kind == WorkKind::shift) return to_next(nodes);
  switch (algorithm) {
    case Algorithm::ring: return rings(kind, nodes);
    case Algorithm::tree: return chains(nodes, add_tree_messages);
    case Algorithm::nvls_tree: return in_switch(kind, nodes, add_tree_messages);
    case Algorithm::nvls: return in_switch(kind, nodes, add_sum_messages);
    case Algorithm::collnet_direct:
    case Algorithm::collnet_chain: return chains(nodes, add_sum_messages);
    case Algorithm::pat: return pat(kind, nodes);
    case Algorithm::pairwise: return pairwise(nodes);
    case Algorithm::two_step: return two_step(nodes);
    case Algorithm::none: break;
  }
  STEPCAST_CHECK(false, "an algorithm whose messages are known");
  return {};
}

}  // namespace stepcast
