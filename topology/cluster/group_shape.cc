// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/group_shape.h"

#include <algorithm>
#include <set>

#include "sim/check.h"

namespace stepcast {
namespace {

// Counts the blocks of `size` GPUs that an ascending sequence of GPUs visits; divides only when a
// block is left.
class BlockCounter {
 public:
  explicit BlockCounter(int64_t size) : size_(size) {}
  // True if `gpu` is the first of a new block.
  bool visit(int64_t gpu) {
    if (gpu < end_) return false;
    block_ = gpu / size_;
    end_ = (block_ + 1) * size_;
    ++count_;
    return true;
  }
  int64_t count() const { return count_; }
  int64_t block() const { return block_; }

 private:
  int64_t size_, end_ = 0, block_ = 0, count_ = 0;
};

// CPU socket of a GPU, counted over the cluster, where messages between the GPUs of a node go by
// PCIe; else one for all.  As in the graph of the cluster, the first sockets of a node have one
// more where its GPUs are no multiple of them.
int64_t socket_of(const Node& node, int64_t gpu) {
  if (node.intra != IntraKind::pcie) return 0;
  const int64_t sockets = std::max<int64_t>(1, node.hosts * node.cpus);
  return gpu / node.gpus * sockets + gpu % node.gpus * sockets / node.gpus;
}

// Shape of the group on GPUs {base + o : o in offsets}; counts it in `groups_on_node` for each node
// it visits, unless that is null or it stays inside one node.
GroupShape shape_at(const Cluster& cluster, const std::vector<Tier>& tiers, int64_t base,
                    std::span<const int64_t> offsets, std::vector<int64_t>* groups_on_node) {
  GroupShape shape;
  shape.ranks = static_cast<int64_t>(offsets.size());
  BlockCounter nodes(cluster.node.gpus);
  std::vector<BlockCounter> blocks;
  for (const Tier& tier : tiers) blocks.emplace_back(tier.size);
  const int64_t first = base + offsets.front(), last = base + offsets.back();
  if (socket_of(cluster.node, first) != socket_of(cluster.node, last)) shape.crossing = 1;
  const bool several = first / cluster.node.gpus != last / cluster.node.gpus;
  int64_t here = 0, fewest = 0;  // on the nodes before this one; 0: none
  const auto leave_node = [&] { fewest = fewest == 0 ? here : std::min(fewest, here); };
  for (int64_t offset : offsets) {
    const int64_t gpu = base + offset;
    if (nodes.visit(gpu)) {
      if (here > 0) leave_node();
      here = 0;
      if (several && groups_on_node) ++(*groups_on_node)[static_cast<size_t>(nodes.block())];
      for (BlockCounter& b : blocks) b.visit(gpu);
    }
    shape.ranks_per_node = std::max(shape.ranks_per_node, ++here);
  }
  leave_node();
  shape.nodes = nodes.count();
  if (fewest < shape.ranks_per_node) shape.fewest_per_node = fewest;
  shape.tier = -1;
  if (!several) return shape;
  shape.crossing = 0;
  for (size_t t = 0; t < blocks.size(); ++t) {
    shape.tier = static_cast<int64_t>(t);
    if (blocks[t].count() == 1) break;
    if (t + 1 == blocks.size()) break;  // the last tier holds everything
    shape.block_nodes[t] = std::max<int64_t>(1, shape.nodes / blocks[t].count());
  }
  return shape;
}

struct Digit {
  int64_t stride, size;
};

// A family of equal groups: the first rank of each has coordinate 0 along `inside`.
struct Family {
  std::vector<int64_t> offsets{0};  // ascending
  std::vector<Digit> inside;
};

Family family_of(const RankGrid& grid, Axis axis) {
  Family family;
  int64_t stride = 1;
  for (const GridDigit& d : grid.digits()) {
    const bool ends = axis == Axis::embedding && d.axis == Axis::pp;
    if (covers(axis, d) || ends) {
      family.inside.push_back({stride, d.size});
      const size_t inner = family.offsets.size();
      for (int64_t n = ends ? d.size - 1 : 1; n < d.size; ++n)
        for (size_t i = 0; i < inner; ++i) family.offsets.push_back(family.offsets[i] + n * stride);
    }
    stride *= d.size;
  }
  return family;
}

std::vector<GroupShape> distinct_shapes(const Cluster& cluster, const RankGrid& grid,
                                        const Family& family, const Placement& placement) {
  const std::vector<Tier> tiers = fabric_tiers(cluster);
  std::vector<int64_t> groups_on_node(static_cast<size_t>(cluster.nodes));
  std::vector<int64_t> crossing_on_node(static_cast<size_t>(cluster.nodes));
  std::set<GroupShape> shapes;
  GroupShape last;
  std::vector<int64_t> gpus;
  for (int64_t rank = 0; rank < grid.world(); ++rank) {
    const auto inside = [rank](const Digit& d) { return rank / d.stride % d.size != 0; };
    if (std::any_of(family.inside.begin(), family.inside.end(), inside)) continue;
    GroupShape shape;
    if (placement.in_order()) {
      shape = shape_at(cluster, tiers, rank, family.offsets, &groups_on_node);
    } else {
      gpus.clear();
      for (int64_t offset : family.offsets) gpus.push_back(placement.gpu_of(rank + offset));
      std::sort(gpus.begin(), gpus.end());
      shape = shape_at(cluster, tiers, 0, gpus, &groups_on_node);
    }
    if (shape.crossing > 0) {
      const int64_t gpu = placement.in_order() ? rank : gpus.front();
      ++crossing_on_node[static_cast<size_t>(cluster.node_of(gpu))];
    }
    if (shape != last || shapes.empty()) shapes.insert(shape);
    last = shape;
  }
  const int64_t sharing = *std::max_element(groups_on_node.begin(), groups_on_node.end());
  std::vector<GroupShape> result(shapes.begin(), shapes.end());
  for (GroupShape& shape : result) {
    if (shape.nodes > 1) shape.sharing = sharing;
    if (shape.crossing > 0)
      shape.crossing = *std::max_element(crossing_on_node.begin(), crossing_on_node.end());
  }
  return result;
}

}  // namespace

GroupShape shape_of(const Cluster& cluster, std::span<const int64_t> gpus) {
  STEPCAST_CHECK(!gpus.empty() && gpus.front() >= 0 && gpus.back() < cluster.gpus() &&
                     std::is_sorted(gpus.begin(), gpus.end()),
                 "a group is an ascending list of GPUs of the cluster");
  return shape_at(cluster, fabric_tiers(cluster), 0, gpus, nullptr);
}

GroupShape shape_of_first(const Cluster& cluster, int64_t count) {
  STEPCAST_CHECK(count > 0 && count <= cluster.gpus(), "so many GPUs the cluster has");
  const int64_t per_node = cluster.node.gpus;
  GroupShape shape;
  shape.ranks = count;
  shape.nodes = (count + per_node - 1) / per_node;
  shape.ranks_per_node = std::min(count, per_node);
  shape.tier = -1;
  const int64_t on_last = count - (shape.nodes - 1) * per_node;
  if (on_last < shape.ranks_per_node) shape.fewest_per_node = on_last;
  if (shape.nodes == 1) {
    if (socket_of(cluster.node, 0) != socket_of(cluster.node, count - 1)) shape.crossing = 1;
    return shape;
  }
  const std::vector<Tier> tiers = fabric_tiers(cluster);
  const int64_t first_of_last_node = (shape.nodes - 1) * per_node;
  for (size_t t = 0; t < tiers.size(); ++t) {
    shape.tier = static_cast<int64_t>(t);
    const int64_t blocks = first_of_last_node / tiers[t].size + 1;
    if (blocks == 1 || t + 1 == tiers.size()) break;
    shape.block_nodes[t] = std::max<int64_t>(1, shape.nodes / blocks);
  }
  return shape;
}

std::vector<GroupShape> axis_shapes(const Cluster& cluster, const RankGrid& grid, Axis axis,
                                    const Placement& placement) {
  STEPCAST_CHECK(grid.world() <= cluster.gpus() && placement.holds(grid.world()),
                 "every rank has a GPU");
  if (grid.size(axis) == 1) return {GroupShape{.tier = -1}};
  return distinct_shapes(cluster, grid, family_of(grid, axis), placement);
}

}  // namespace stepcast
