// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/processes_mpi.h"

#ifdef STEPCAST_MPI
#define OMPI_SKIP_MPICXX  // the C interface is all that is needed
#define MPICH_SKIP_MPICXX
#include <mpi.h>
#endif

#include <algorithm>
#include <stdexcept>

#include "sim/diagnostic.h"

namespace stepcast::measure {

#ifdef STEPCAST_MPI

namespace {

constexpr size_t kMost = 1024;  // bytes of a payload, its end included

}  // namespace

bool has_mpi() {
  return true;
}

MpiSession::MpiSession() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      MPI_Comm_rank(MPI_COMM_WORLD, &place_.rank) != MPI_SUCCESS ||
      MPI_Comm_size(MPI_COMM_WORLD, &place_.ranks) != MPI_SUCCESS) {
    refuse("MPI does not start");
  }
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

std::vector<std::string> MpiSession::meet(std::string_view payload) const {
  if (payload.size() >= kMost) refuse("a payload that is too long for MPI");
  std::string mine(payload);
  mine.resize(kMost);
  std::string all(kMost * static_cast<size_t>(place_.ranks), '\0');
  if (MPI_Allgather(mine.data(), static_cast<int>(kMost), MPI_CHAR, all.data(),
                    static_cast<int>(kMost), MPI_CHAR, MPI_COMM_WORLD) != MPI_SUCCESS) {
    refuse("the processes do not meet over MPI");
  }
  std::vector<std::string> payloads;
  for (size_t at = 0; at < all.size(); at += kMost) {
    const size_t end = std::min(all.find('\0', at), at + kMost);
    payloads.push_back(all.substr(at, end - at));
  }
  return payloads;
}

void MpiSession::abort() const {
  MPI_Abort(MPI_COMM_WORLD, 1);
}

#else

bool has_mpi() {
  return false;
}

MpiSession::MpiSession() {
  refuse(
      "this program is built without MPI: name a file where the processes "
      "meet (--meeting FILE)");
}
MpiSession::~MpiSession() = default;

std::vector<std::string> MpiSession::meet(std::string_view /*payload*/) const {
  return {};
}
void MpiSession::abort() const {}

#endif

}  // namespace stepcast::measure
