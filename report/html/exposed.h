// SPDX-License-Identifier: Apache-2.0
// Which communication a rank stands still for, by what is sent: read off the recorded times of ops.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/results/result.h"

namespace stepcast {

// Communication of one name on one axis that runs in one way: inside nodes or over the network, by
// one algorithm and protocol, with prices of one origin.  Times are of one rank.
struct ExposedLine {
  std::string name;  // "fc2 all-reduce"
  WorkId work{};     // one of its works; of all of them the above is true
  int64_t runs = 0;
  Time total{};    // from start to end, all runs
  Time exposed{};  // of that, while no op of the compute stream ran; two at once both count
};

// Exposed time of each work that communicates on a rank of that role.  REQUIRES: as below.
std::map<WorkId, Time> exposed_by_work(const Result& result, uint32_t role);

// Of a rank of that role in result.timeline, most exposed first.  REQUIRES: result.graph and
// result.prices, a timeline of Record::all, a role of it.
std::vector<ExposedLine> exposed_lines(const Result& result, uint32_t role);

}  // namespace stepcast
