// SPDX-License-Identifier: Apache-2.0
// The meeting of processes that mpirun started, where the program is built with MPI.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measure/collectives/processes.h"

namespace stepcast::measure {

// Whether the program is built with MPI.
bool has_mpi();

// MPI from its beginning to its end; one at most in the life of a program.  Throws
// InputError if it does not start, or the program is built without it.
class MpiSession {
 public:
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

  ProcessPlace place() const { return place_; }

  // As meet (processes.h).  REQUIRES: a payload of at most 1000 bytes.
  std::vector<std::string> meet(std::string_view payload) const;

  // Ends all processes: one of them failed.
  void abort() const;

 private:
  ProcessPlace place_;
};

}  // namespace stepcast::measure
