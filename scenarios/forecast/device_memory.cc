// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/device_memory.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "topology/cluster/group_shape.h"
#include "topology/nccl/buffers.h"

namespace stepcast {
namespace {

class Communicators {
 public:
  Communicators(const Scenario& s, std::vector<DeviceMemory>& lines)
      : s_(s), version_{s.plan.kernels.nccl_version}, lines_(lines) {}

  void collectives(const std::string& name, const std::vector<int64_t>& ranks) {
    if (ranks.size() < 2) return;
    const GroupShape shape = shape_on(ranks);
    add(name, "rings and trees, NVIDIA/nccl src/transport/p2p.cc and net.cc",
        ring_buffers(s_.cluster, shape, version_));
    add(name + ", NVLS", "NVIDIA/nccl src/transport/nvls.cc",
        nvls_buffers(s_.cluster, shape, version_));
  }

  // `peers`: of the group, that a rank exchanges with.
  void exchanges(const std::string& name, const std::vector<int64_t>& ranks, int64_t peers) {
    if (ranks.size() < 2) return;
    const GroupShape shape = shape_on(ranks);
    const int64_t inside = std::min(peers, shape.ranks_per_node - 1);
    add(name, "send and receive, NVIDIA/nccl src/transport/p2p.cc and net.cc",
        exchange_buffers(inside, shape.nodes > 1 && peers > inside));
  }

 private:
  GroupShape shape_on(const std::vector<int64_t>& ranks) const {
    std::vector<int64_t> gpus;
    gpus.reserve(ranks.size());
    for (const int64_t rank : ranks) gpus.push_back(s_.placement.gpu_of(rank));
    std::sort(gpus.begin(), gpus.end());
    return shape_of(s_.cluster, gpus);
  }

  void add(std::string what, const char* source, Bytes bytes) {
    if (bytes.value > 0) lines_.push_back({std::move(what), bytes, source});
  }

  const Scenario& s_;
  const NcclVersion version_;
  std::vector<DeviceMemory>& lines_;
};

}  // namespace

std::vector<DeviceMemory> device_memory(const Scenario& scenario) {
  const Gpu& gpu = scenario.cluster.node.gpu;
  if (gpu.reserve) return {{"stated", *gpu.reserve, "cluster.node.gpu.reserve"}};
  const Plan& plan = scenario.plan;
  std::vector<DeviceMemory> lines{{"CUDA context", gpu.context, "cluster.node.gpu.context"}};
  if (plan.kernels.eager_loading)
    // huggingface/transformers docs/source/en/perf_train_gpu_one.md (4.26): 1,343 MiB on an A100
    // after one tensor, by PyTorch before 1.13.
    lines.push_back(
        {"kernels loaded at once", Bytes{int64_t{900} << 20}, "kernels.module_loading: eager"});
  const RankGrid& grid = plan.grid;
  Communicators to(scenario, lines);
  std::vector<int64_t> world(static_cast<size_t>(grid.world()));
  std::iota(world.begin(), world.end(), int64_t{0});
  to.collectives("communicator of the world", world);
  const auto group = [&](Axis axis) { return grid.group(axis, 0); };
  to.collectives("communicator of tp", group(Axis::tp));
  if (plan.trains()) to.collectives("communicator of dp", group(Axis::data));
  if (plan.cp_comm == CpComm::all_gather) {
    to.collectives("communicator of cp", group(Axis::cp));
  } else {
    to.exchanges("communicator of cp", group(Axis::cp), plan.cp_comm == CpComm::p2p ? 2 : plan.cp);
  }
  if (plan.ep > 1) {
    to.exchanges("communicator of ep", group(Axis::ep), plan.ep - 1);
    if (plan.trains()) to.collectives("communicator of edp", group(Axis::edp));
  }
  to.exchanges("communicator of pp", group(Axis::pp), 2);
  if (plan.trains() && plan.clip_gradients && plan.tp * plan.pp > 1)
    to.collectives("communicator of the model", group(Axis::model));
  if (plan.trains() && scenario.model.tied && plan.pp > 1)
    to.collectives("communicator of the embeddings", group(Axis::embedding));
  return lines;
}

Bytes device_reserve(const Scenario& scenario) {
  Bytes sum{};
  for (const DeviceMemory& line : device_memory(scenario)) sum += line.bytes;
  return sum;
}

}  // namespace stepcast
