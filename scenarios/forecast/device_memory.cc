// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/device_memory.h"

#include <algorithm>
#include <array>
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

  // Of all ranks of the job.
  void collectives_of_world(const std::string& name) {
    const int64_t ranks = s_.plan.grid.world();
    if (ranks < 2) return;
    of_ = DeviceMemory::Of::world;
    if (s_.placement.in_order()) {
      collectives(name, shape_of_first(s_.cluster, ranks));
    } else {
      std::vector<int64_t> all(static_cast<size_t>(ranks));
      std::iota(all.begin(), all.end(), int64_t{0});
      collectives(name, shape_on(all));
    }
    of_ = DeviceMemory::Of::group;
  }

  void collectives(const std::string& name, const std::vector<int64_t>& ranks) {
    if (ranks.size() > 1) collectives(name, shape_on(ranks));
  }

  void collectives(const std::string& name, const GroupShape& shape) {
    add(name, "rings and trees, NVIDIA/nccl src/transport/p2p.cc and net.cc",
        ring_buffers(s_.cluster, shape, version_));
    add(name + ", NVLS", "NVIDIA/nccl src/transport/nvls.cc",
        nvls_buffers(s_.cluster, shape, version_));
    add(name + ", slots", "NVIDIA/nccl src/transport/net.cc, sharedBuffersInit",
        slot_buffers(s_.cluster, shape, version_));
  }

  // `peers`: of the group, that a rank exchanges with.
  void exchanges(const std::string& name, const std::vector<int64_t>& ranks, int64_t peers) {
    if (ranks.size() < 2) return;
    if (connects_at_start(version_)) collectives(name, ranks);
    add(name + ", exchange", "send and receive, NVIDIA/nccl src/transport/p2p.cc and net.cc",
        exchange_buffers(s_.cluster, shape_on(ranks), peers, version_));
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
    if (bytes.value > 0) lines_.push_back({std::move(what), bytes, source, of_});
  }

  const Scenario& s_;
  const NcclVersion version_;
  std::vector<DeviceMemory>& lines_;
  DeviceMemory::Of of_ = DeviceMemory::Of::group;
};

// What DeepEP takes for each group size: tokens that a buffer for NVLink and one for the network
// hold on a channel, the larger of dispatch and combine (deep_ep/buffer.py v1.2.1,
// get_dispatch_config and get_combine_config).
struct DeepEpSizes {
  int64_t ranks, nvlink_tokens, network_tokens;
};
constexpr std::array<DeepEpSizes, 7> kDeepEpSizes{{{8, 256, 132},
                                                   {16, 288, 140},
                                                   {32, 288, 128},
                                                   {64, 288, 140},
                                                   {128, 560, 132},
                                                   {144, 720, 132},
                                                   {160, 720, 132}}};

// deepseek-ai/DeepEP v1.2.1 csrc/config.hpp, get_nvl_buffer_size_hint and
// get_rdma_buffer_size_hint, as Megatron-Core asks for them (fused_a2a.py, get_buffer);
// csrc/kernels/configs.cuh, the workspace.  NVSHMEM takes whole granules of 512 MiB, and 256 MiB
// for itself (buffer.py).
Bytes deepep_buffers(int64_t hidden, int64_t ranks) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  constexpr int64_t kChannels = 20 / 2, kPeers = 8, kWorkspace = 32 * kMebibyte;
  constexpr int64_t kGranule = 512 * kMebibyte, kOfNvshmem = 256 * kMebibyte;
  // Beside the token its source, and room for 128 experts, weights and scales.
  const int64_t token = 2 * hidden + 8 + 128 * (8 + 4 + 4);
  const auto row = std::ranges::find_if(
      kDeepEpSizes, [&](const DeepEpSizes& sizes) { return ranks <= sizes.ranks; });
  const DeepEpSizes& sizes = row == kDeepEpSizes.end() ? kDeepEpSizes.back() : *row;
  int64_t bytes = kWorkspace + kChannels * std::min(ranks, kPeers) * sizes.nvlink_tokens * token;
  if (ranks > kPeers) {
    const int64_t network = kChannels * (ranks / kPeers) * sizes.network_tokens * (token + 16) * 2;
    bytes += (kOfNvshmem + network + kGranule - 1) / kGranule * kGranule;
  }
  return Bytes{bytes};
}

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
  to.collectives_of_world("communicator of the world");
  const auto group = [&](Axis axis) { return grid.group(axis, 0); };
  to.collectives("communicator of tp", group(Axis::tp));
  if (plan.trains()) to.collectives("communicator of dp", group(Axis::data));
  if (plan.cp_comm == CpComm::all_gather) {
    to.collectives("communicator of cp", group(Axis::cp));
  } else {
    to.exchanges("communicator of cp", group(Axis::cp), plan.cp_comm == CpComm::p2p ? 2 : plan.cp);
  }
  if (plan.ep > 1) {
    if (plan.moe.dispatcher == Dispatcher::all_to_all) {
      to.exchanges("communicator of ep", group(Axis::ep), plan.ep - 1);
    } else {
      to.collectives("communicator of ep", group(Axis::ep));
    }
    if (plan.moe.dispatcher == Dispatcher::deepep)
      lines.push_back({"DeepEP", deepep_buffers(scenario.model.hidden, plan.ep),
                       "deepseek-ai/DeepEP csrc/config.hpp", DeviceMemory::Of::group});
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
