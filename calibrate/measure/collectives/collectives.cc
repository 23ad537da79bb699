// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/collectives.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <utility>

#include "calibrate/measure/collectives/network.h"
#include "calibrate/measure/device.h"
#include "calibrate/measure/nvml.h"

#ifdef STEPCAST_NCCL
#include "calibrate/measure/collectives/pattern.h"
#include "calibrate/measure/collectives/ranks.h"
#include "calibrate/measure/timing_summary.h"
#include "sim/check.h"
#endif

namespace stepcast::measure {
namespace {

using Variable = std::function<const char*(const char*)>;

std::string text_of(const Variable& variable, const char* name) {
  const char* value = variable(name);
  return value == nullptr ? "" : value;
}

// Whether the current device can let NVSwitches reduce.  The attribute is the driver's alone.
bool has_multicast(int device) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuDeviceGetAttribute", &function, 12000, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return false;
  }
  int value = 0;
  const auto attribute =
      reinterpret_cast<CUresult (*)(int*, CUdevice_attribute, CUdevice)>(function);
  return attribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) == CUDA_SUCCESS &&
         value == 1;
}

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

#ifdef STEPCAST_NCCL
int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "the version of NCCL");
  return version;
}
#else
int nccl_version() {
  return 0;
}
#endif

}  // namespace

std::string why_no_collectives(int gpus) {
#ifndef STEPCAST_NCCL
  return "no collectives: built without NCCL; logs of nccl-tests can be imported";
#endif
  if (gpus == 1) {
    return "no collectives: one GPU alone has none to measure; logs of nccl-tests can be imported";
  }
  return gpus < 1 ? "no collectives: no GPU" : "";
}

CollectiveFacts collective_facts(const Variable& variable) {
  CollectiveFacts facts;
  const int version = nccl_version();
  if (version > 0) {
    facts.software = "NCCL " + std::to_string(version / 10000) + "." +
                     std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  }
  int index = 0;
  check_cuda(cudaGetDevice(&index), "the current GPU");
  const Device device = open_device(index);
  const NvlinkState nvlinks = Nvml(device).nvlinks();
  const double per_link = nvlink_gbs_per_link(device.major, device.minor);
  facts.nvlink_gbs = nvlinks.links * per_link;
  if (nvlinks.links == 0) {
    facts.conditions.push_back("no NVLink found");
  } else {
    facts.conditions.push_back(std::to_string(nvlinks.links) + " NVLinks a GPU" +
                               (nvlinks.to_switches ? ", to NVSwitches" : ", not to NVSwitches") +
                               (per_link > 0 ? ", " + number(per_link) + " GB/s each" : ""));
  }
  const GpuArch arch = gpu_arch_of_capability(10 * device.major + device.minor);
  if (nvlinks.links > 0) {
    facts.wires.inside =
        InsideLink{nvlinks.to_switches ? InsideLink::Kind::nvswitch : InsideLink::Kind::nvlink_mesh,
                   architecture(arch).nvlink_generation};
  }
  facts.wires.sharp = text_of(variable, "NCCL_COLLNET_ENABLE") == "1";
  const SwitchReduction reduction =
      switch_reduction(nvlinks.to_switches && has_multicast(index), version,
                       text_of(variable, "NCCL_NVLS_ENABLE"), text_of(variable, "NCCL_ALGO"));
  facts.in_network_reduction = reduction.used;
  facts.conditions.push_back(std::string("reduction in NVSwitches (NVLS): ") +
                             (reduction.used ? "yes, " : "no, ") + reduction.reason);
  // Settings that change what NCCL does.
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE",
                           "NCCL_MAX_CTAS", "NCCL_MIN_CTAS", "NCCL_MAX_NCHANNELS",
                           "NCCL_MIN_NCHANNELS", "NCCL_IB_HCA", "NCCL_TUNER_PLUGIN"}) {
    const std::string value = text_of(variable, name);
    if (!value.empty()) facts.conditions.push_back(std::string(name) + "=" + value);
  }
  return facts;
}

#ifdef STEPCAST_NCCL

namespace {

// What process 0 tells the others to do, as numbers of NCCL.
struct Command {
  int64_t measures = 0;  // 0: go home
  int64_t kind = 0;
  int64_t nodes = 0, ranks_per_node = 0;
  int64_t bytes = 0;

  WorkKind work() const { return static_cast<WorkKind>(kind); }
  RankGroup group() const { return {static_cast<int>(nodes), static_cast<int>(ranks_per_node)}; }
};

// What one rank of a group found; equal on all of them.
struct Found {
  std::vector<double> us;  // of each repetition, on the slowest rank
  bool has_room = true;
  bool right = true;
};

constexpr int kWarmup = 5;
constexpr int kRepetitions = 7;
constexpr double kRepetitionUs = 20'000;  // calls of a repetition take about this long
constexpr int kFewestCalls = 5, kMostCalls = 100;

// `command` of rank 0 on all ranks.
void broadcast(RankTeam& team, Command& command) {
  team.on_each([&](Rank& rank) {
    DeviceMemory memory(static_cast<int64_t>(sizeof(Command)));
    cudaStream_t stream = rank.stream->get();
    // On the rank's own stream, which does not wait for the default one.
    check_cuda(
        cudaMemcpyAsync(memory.data(), &command, sizeof(Command), cudaMemcpyHostToDevice, stream),
        "a command to the GPU");
    check_nccl(ncclBroadcast(memory.data(), memory.data(), sizeof(Command), ncclInt8, 0, rank.world,
                             stream),
               "a command to all ranks");
    wait_for(rank, rank.world);
    check_cuda(cudaMemcpy(&command, memory.data(), sizeof(Command), cudaMemcpyDeviceToHost),
               "a command from the GPU");
  });
}

// Microseconds a call of `calls` calls in a row.
double run_calls(Rank& rank, ncclComm_t comm, const Command& c, int calls) {
  rank.begin->record(rank.stream->get());
  for (int i = 0; i < calls; ++i) enqueue_collective(rank, comm, c.work(), c.bytes);
  rank.end->record(rank.stream->get());
  wait_for(rank, comm);
  return microseconds(*rank.begin, *rank.end) / calls;
}

// Whether this rank gets what it should.
bool is_right(Rank& rank, ncclComm_t comm, const Command& c) {
  int ranks = 0, me = 0;
  check_nccl(ncclCommCount(comm, &ranks), "the size of a group");
  check_nccl(ncclCommUserRank(comm, &me), "the rank in a group");
  const auto input = check_input(c.work(), ranks, me, c.bytes);
  const auto expected = check_output(c.work(), ranks, me, c.bytes);
  std::vector<uint16_t> got(expected.size());
  const size_t received = got.size() * sizeof(uint16_t);
  check_cuda(cudaMemcpy(rank.send.data(), input.data(), input.size() * sizeof(uint16_t),
                        cudaMemcpyHostToDevice),
             "the values of a check");
  check_cuda(cudaMemset(rank.receive.data(), 0xff, received), "the values of a check");
  // The stream does not wait for the default one, which the copy and the filling went to.
  check_cuda(cudaDeviceSynchronize(), "the values of a check");
  enqueue_collective(rank, comm, c.work(), c.bytes);
  wait_for(rank, comm);
  check_cuda(cudaMemcpy(got.data(), rank.receive.data(), received, cudaMemcpyDeviceToHost),
             "the result of a check");
  // Times are taken with random numbers.
  fill_send(rank, static_cast<int64_t>(input.size()) * kElementBytes);
  return got == expected;
}

Found measure_rank(Rank& rank, ncclComm_t comm, const Command& c) {
  Found found;
  found.has_room = agreed_maximum(rank, comm, rank.has_room ? 0 : 1) == 0;
  if (!found.has_room) return found;
  if (c.bytes <= kLargestChecked) {
    found.right = agreed_maximum(rank, comm, is_right(rank, comm, c) ? 0 : 1) == 0;
    if (!found.right) return found;
  }
  run_calls(rank, comm, c, 1);  // the first one connects the ranks
  const double us = agreed_maximum(rank, comm, run_calls(rank, comm, c, kWarmup));
  const int calls =
      static_cast<int>(std::clamp(kRepetitionUs / us, double{kFewestCalls}, double{kMostCalls}));
  for (int i = 0; i < kRepetitions; ++i) {
    agreed_maximum(rank, comm, 0);  // the barrier
    const double mean = run_calls(rank, comm, c, calls);
    found.us.push_back(agreed_maximum(rank, comm, mean));
  }
  return found;
}

// All ranks of all processes call this together; the result is that of the group's first rank, if
// it is in this process.
Found carry_out(RankTeam& team, const Command& c) {
  team.open_group(c.group());
  team.make_room(c.group(), c.work(), c.bytes);
  Found found;
  team.on_each([&](Rank& rank) {
    ncclComm_t comm = rank.groups.at(c.group());
    if (comm == nullptr) return;
    Found mine = measure_rank(rank, comm, c);
    if (rank.rank == 0) found = std::move(mine);
  });
  return found;
}

}  // namespace

std::string new_collective_id() {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "a unique id of NCCL");
  return hex_of({id.internal, sizeof(id.internal)});
}

Collectives::Collectives(std::vector<RankPlace> ranks, int process, const std::string& id,
                         Fail fail)
    : team_(
          std::make_unique<RankTeam>(std::move(ranks), process, bytes_of_hex(id), std::move(fail))),
      leads_(process == 0) {}

Collectives::Collectives(int gpus, Fail fail)
    : Collectives(
          [&] {
            const ProcessRecord here{"localhost", gpus, 0, ""};
            return place_ranks(std::span(&here, 1));
          }(),
          0, new_collective_id(), std::move(fail)) {}

Collectives::~Collectives() {
  Command home;
  if (leads_ && !team_->in_one_process()) broadcast(*team_, home);
}

PointResult Collectives::measure(const SweepPoint& point) {
  STEPCAST_CHECK(leads_, "process 0 measures");
  const RankGroup group{static_cast<int>(point.nodes), static_cast<int>(point.ranks_per_node)};
  if (members_of(group, team_->places()).empty()) {
    return {{},
            0,
            "there are no " + std::to_string(point.ranks_per_node) + " GPUs on " +
                std::to_string(point.nodes) + " nodes"};
  }
  Command command{1, static_cast<int64_t>(point.work.kind), point.nodes, point.ranks_per_node,
                  point.work.bytes.value};
  if (!team_->in_one_process()) broadcast(*team_, command);
  const Found found = carry_out(*team_, command);
  if (!found.has_room) return {{}, 0, "too little memory for its buffers"};
  if (!found.right) return {{}, 0, "its result is wrong"};
  const Timing timing = summarize(found.us);
  return {{timing.us}, timing.spread, ""};
}

void Collectives::follow() {
  while (true) {
    Command command;
    broadcast(*team_, command);
    if (command.measures == 0) return;
    carry_out(*team_, command);
  }
}

#else  // no NCCL

class RankTeam {};

std::string new_collective_id() {
  return "";
}

Collectives::Collectives(std::vector<RankPlace> /*ranks*/, int /*process*/,
                         const std::string& /*id*/, Fail /*fail*/) {}
Collectives::Collectives(int /*gpus*/, Fail /*fail*/) {}
Collectives::~Collectives() = default;

PointResult Collectives::measure(const SweepPoint& /*point*/) {
  return {{}, 0, why_no_collectives(0)};
}

void Collectives::follow() {}

#endif

}  // namespace stepcast::measure
