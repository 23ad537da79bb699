// SPDX-License-Identifier: Apache-2.0
#ifdef STEPCAST_NCCL
#include "calibrate/measure/collectives/ranks.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "sim/check.h"

namespace stepcast::measure {
namespace {

void grow(DeviceMemory& memory, int64_t bytes) {
  if (memory.bytes() >= bytes) return;
  memory = DeviceMemory();  // first: both would not fit
  memory = DeviceMemory(bytes);
}

void close_groups(Rank& rank) {
  for (auto& [group, comm] : rank.groups) {
    if (comm != nullptr && comm != rank.world) ncclCommDestroy(comm);
  }
  if (rank.world != nullptr) ncclCommDestroy(rank.world);
}

}  // namespace

void check_nccl(ncclResult_t status, const char* what) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw DeviceError(std::string(what) + ": " + ncclGetErrorString(status) + " (" +
                    ncclGetLastError(nullptr) + ")");
}

SharedNumber::SharedNumber() : device_(static_cast<int64_t>(sizeof(double))) {
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, sizeof(double)), "pinned memory");
  host_ = static_cast<double*>(memory);
}

SharedNumber::~SharedNumber() {
  cudaFreeHost(host_);
}

void wait_for(const Rank& rank, ncclComm_t comm) {
  while (true) {
    const cudaError_t status = cudaStreamQuery(rank.stream->get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check_cuda(status, "a collective");
    static_cast<void>(cudaGetLastError());  // "not ready" is kept as the thread's last error
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm, &state), "the state of NCCL");
    check_nccl(state, "a collective");
    std::this_thread::yield();
  }
}

double agreed_maximum(Rank& rank, ncclComm_t comm, double mine) {
  double* host = rank.number->host();
  double* device = rank.number->device();
  cudaStream_t stream = rank.stream->get();
  *host = mine;
  check_cuda(cudaMemcpyAsync(device, host, sizeof(double), cudaMemcpyHostToDevice, stream),
             "a number to the GPU");
  check_nccl(ncclAllReduce(device, device, 1, ncclDouble, ncclMax, comm, stream),
             "the ranks' agreement");
  check_cuda(cudaMemcpyAsync(host, device, sizeof(double), cudaMemcpyDeviceToHost, stream),
             "a number from the GPU");
  wait_for(rank, comm);
  return *host;
}

void enqueue_collective(const Rank& rank, ncclComm_t comm, WorkKind kind, int64_t bytes) {
  int ranks = 0, me = 0;
  check_nccl(ncclCommCount(comm, &ranks), "the size of a group");
  check_nccl(ncclCommUserRank(comm, &me), "the rank in a group");
  const ElementCounts counts = element_counts(kind, ranks, bytes);
  const auto send = static_cast<size_t>(counts.send);
  const auto receive = static_cast<size_t>(counts.receive);
  const char* from = rank.send.as<char>();
  char* to = rank.receive.as<char>();
  cudaStream_t stream = rank.stream->get();
  constexpr ncclDataType_t kType = ncclBfloat16;
  switch (kind) {
    case WorkKind::all_reduce:
      return check_nccl(ncclAllReduce(from, to, send, kType, ncclSum, comm, stream), "all-reduce");
    case WorkKind::all_gather:
      return check_nccl(ncclAllGather(from, to, send, kType, comm, stream), "all-gather");
    case WorkKind::reduce_scatter:
      return check_nccl(ncclReduceScatter(from, to, receive, kType, ncclSum, comm, stream),
                        "reduce-scatter");
    case WorkKind::broadcast:
      return check_nccl(ncclBroadcast(from, to, send, kType, 0, comm, stream), "broadcast");
    case WorkKind::all_to_all: {
      const size_t part = send / static_cast<size_t>(ranks);
      check_nccl(ncclGroupStart(), "all-to-all");
      for (int r = 0; r < ranks; ++r) {
        const size_t at = static_cast<size_t>(r) * part * kElementBytes;
        check_nccl(ncclSend(from + at, part, kType, r, comm, stream), "all-to-all");
        check_nccl(ncclRecv(to + at, part, kType, r, comm, stream), "all-to-all");
      }
      return check_nccl(ncclGroupEnd(), "all-to-all");
    }
    case WorkKind::send_recv:
      check_nccl(ncclGroupStart(), "an exchange");
      check_nccl(ncclSend(from, send, kType, (me + 1) % ranks, comm, stream), "an exchange");
      check_nccl(ncclRecv(to, send, kType, (me + ranks - 1) % ranks, comm, stream), "an exchange");
      return check_nccl(ncclGroupEnd(), "an exchange");
    default: STEPCAST_CHECK(false, std::string(name_of(kind)));
  }
}

RankTeam::RankTeam(std::vector<RankPlace> ranks, int process, std::string_view id, Fail fail)
    : places_(std::move(ranks)), fail_(std::move(fail)) {
  ncclUniqueId unique{};
  if (id.size() != sizeof(unique.internal)) throw DeviceError("no unique id of NCCL");
  std::memcpy(unique.internal, id.data(), id.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].process != process) {
      in_one_process_ = false;
      continue;
    }
    here_.push_back(std::make_unique<Rank>());
    here_.back()->rank = static_cast<int>(i);
    here_.back()->device = places_[i].device;
  }
  on_each([&](Rank& rank) {
    rank.stream = std::make_unique<Stream>();
    rank.begin = std::make_unique<Event>();
    rank.end = std::make_unique<Event>();
    rank.number = std::make_unique<SharedNumber>();
    check_nccl(ncclCommInitRank(&rank.world, static_cast<int>(places_.size()), unique, rank.rank),
               "the communicator of all ranks");
  });
}

RankTeam::~RankTeam() {
  on_each(close_groups);
  // What each holds is freed with its GPU current, and this thread's own GPU stays what it was.
  on_each([](Rank& rank) { rank = Rank(); });
}

void RankTeam::on_each(const std::function<void(Rank&)>& work) {
  std::vector<std::thread> threads;
  threads.reserve(here_.size());
  for (const auto& rank : here_) {
    threads.emplace_back([&, r = rank.get()] {
      try {
        check_cuda(cudaSetDevice(r->device), "taking a GPU");
        work(*r);
      } catch (const std::exception& e) {
        fail_("rank " + std::to_string(r->rank) + ": " + e.what());
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

void RankTeam::open_group(const RankGroup& group) {
  if (here_.front()->groups.count(group) != 0) return;
  const std::vector<int> members = members_of(group, places_);
  STEPCAST_CHECK(!members.empty(), "a group of ranks that are not here");
  on_each([&](Rank& rank) {
    ncclComm_t& comm = rank.groups[group];
    if (members.size() == places_.size()) {
      comm = rank.world;
      return;
    }
    const bool member = std::find(members.begin(), members.end(), rank.rank) != members.end();
    check_nccl(
        ncclCommSplit(rank.world, member ? 0 : NCCL_SPLIT_NOCOLOR, rank.rank, &comm, nullptr),
        "the communicator of a group");
  });
}

void fill_send(const Rank& rank, int64_t bytes) {
  fill_normal(rank.send.data(), DType::bf16, bytes / kElementBytes,
              static_cast<uint64_t>(rank.rank), 1, rank.stream->get());
  check_cuda(cudaStreamSynchronize(rank.stream->get()), "filling a buffer");
}

void RankTeam::make_room(const RankGroup& group, WorkKind kind, int64_t bytes) {
  const auto ranks = static_cast<int64_t>(members_of(group, places_).size());
  const ElementCounts counts = element_counts(kind, ranks, bytes);
  on_each([&](Rank& rank) {
    rank.has_room = true;
    if (rank.groups.at(group) == nullptr) return;
    try {
      const int64_t before = rank.send.bytes();
      grow(rank.send, counts.send * kElementBytes);
      // At once: there may be too little memory for the other buffer.
      if (rank.send.bytes() != before) fill_send(rank, rank.send.bytes());
      grow(rank.receive, counts.receive * kElementBytes);
    } catch (const Unsupported&) {
      rank.has_room = false;
    }
  });
}

}  // namespace stepcast::measure
#endif
