// SPDX-License-Identifier: Apache-2.0
// The GPUs of this process as ranks of NCCL's communicators, and what they do together.  Included
// only where NCCL is (STEPCAST_NCCL).
//
// A rank that fails leaves the others waiting for it for ever, in kernels and in other processes:
// errors of CUDA and NCCL other than a lack of memory go to `fail`, which ends the program.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measure/collectives/plan.h"
#include "calibrate/measure/collectives/processes.h"
#include "calibrate/measure/device.h"

namespace stepcast::measure {

// Throws DeviceError "what: text of NCCL".
void check_nccl(ncclResult_t status, const char* what);

// One number of pinned memory, that the device and the host exchange.
class SharedNumber {
 public:
  SharedNumber();
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  ~SharedNumber();
  double* host() const { return host_; }
  double* device() const { return device_.as<double>(); }

 private:
  double* host_ = nullptr;
  DeviceMemory device_;
};

// A GPU of this process.  Its members belong to one thread at a time.
struct Rank {
  int rank = 0;  // among all
  int device = 0;
  ncclComm_t world = nullptr;
  std::map<RankGroup, ncclComm_t> groups;  // null where this rank is no member
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> begin, end;
  std::unique_ptr<SharedNumber> number;
  DeviceMemory send, receive;  // grow as needed; `send` holds random numbers
  bool has_room = true;        // both are as large as the last call of `make_room` wanted
};

// Waits for what the rank's stream has to do, and throws DeviceError if NCCL says meanwhile that it
// will never be done.
void wait_for(const Rank& rank, ncclComm_t comm);

// The largest of the numbers that the ranks of `comm` come with.
double agreed_maximum(Rank& rank, ncclComm_t comm, double mine);

// Enqueues one call of a collective (one of kMeasuredCollectives) on the rank's stream.
// REQUIRES: room for it, a measurable size.
void enqueue_collective(const Rank& rank, ncclComm_t comm, WorkKind kind, int64_t bytes);

// Writes the rank's random numbers into the first `bytes` of what it sends, and waits for it.
void fill_send(const Rank& rank, int64_t bytes);

class RankTeam {
 public:
  using Fail = std::function<void(const std::string&)>;  // does not return

  // The ranks of `process`; blocks until all other processes have theirs.  `id`: the bytes of
  // ncclUniqueId.  Throws DeviceError.
  RankTeam(std::vector<RankPlace> ranks, int process, std::string_view id, Fail fail);
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  ~RankTeam();

  const std::vector<RankPlace>& places() const { return places_; }
  bool in_one_process() const { return in_one_process_; }
  std::vector<std::unique_ptr<Rank>>& here() { return here_; }

  // Runs `work` for each rank of this process at once, with its GPU current, in a thread of its
  // own.
  void on_each(const std::function<void(Rank&)>& work);

  // The communicator of the group on each rank, made when it is asked for the first time: all ranks
  // of all processes ask for it together.  REQUIRES: a group that members_of finds.
  void open_group(const RankGroup& group);

  // Memory for a collective on the ranks that are in the group; says in Rank::has_room whether
  // there was enough.  No rank may be within a collective: freeing memory waits for all GPUs.
  void make_room(const RankGroup& group, WorkKind kind, int64_t bytes);

 private:
  std::vector<RankPlace> places_;
  bool in_one_process_ = true;
  Fail fail_;
  std::vector<std::unique_ptr<Rank>> here_;
};

}  // namespace stepcast::measure
