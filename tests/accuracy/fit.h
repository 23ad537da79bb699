// SPDX-License-Identifier: Apache-2.0
// Factors of the collective model, fitted to logs.
//
// Each observation is one size of one log, with the algorithm NCCL picks there.  The logarithms of
// the factors are found by Gauss-Newton; each class is held near 1 by its spread (a normal prior),
// so that classes with few logs stay near the classes above them; outliers lose weight (Cauchy), as
// some logs are of networks that were not well.
#pragma once

#include <vector>

#include "tests/accuracy/logs.h"
#include "topology/nccl/collective_time.h"

namespace stepcast::accuracy {

struct Observation {
  size_t log = 0;  // index
  double bytes = 0, seconds = 0;
  Candidate picked;
  std::vector<CorrectionClass> classes;
};

// All sizes from 4 KiB on of all collectives (no transfers).
std::vector<Observation> observe(const std::vector<Log>& logs);

struct Fitted {
  std::vector<CorrectionClass> classes;
  std::vector<double> logarithms;
  std::vector<int> logs;  // that each class was seen in
  Corrections corrections() const;
};

// Leaves out the log of index `without` (none if there is no such log).
Fitted fit(const std::vector<Observation>& all, const std::vector<Log>& logs, size_t without);

}  // namespace stepcast::accuracy
