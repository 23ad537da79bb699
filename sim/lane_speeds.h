// SPDX-License-Identifier: Apache-2.0
// How fast the lanes of a role compute, in the forms that the engine needs.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/jitter.h"
#include "sim/lane_fold.h"
#include "sim/lane_windows.h"
#include "sim/lanes.h"

namespace stepcast {

// A lane whose compute changes speed.
struct LaneWindows {
  int64_t lane = 0;
  int64_t first = 0, last = 0;  // nothing changes before and after
  std::vector<LaneSpan> spans;
};

struct RoleSpeeds {
  std::vector<uint32_t> slowness;                   // by lane
  std::vector<double> real;                         // the same
  bool same = true;                                 // on all lanes
  Slowness fastest = kNominal, slowest = kNominal;  // windows and jitter included
  std::vector<uint32_t> jitter_key;                 // by lane; empty: no jitter
  std::vector<LaneWindows> windows;

  // Ops have to be run one by one.
  bool by_op() const { return !jitter_key.empty() || !windows.empty(); }
  // An op of so many ps is too long for the fast loops (lane_kernels.h).
  bool wide(int64_t duration) const;
};

// Of each role.  Throws std::invalid_argument if a lane is slower than can be counted.
std::vector<RoleSpeeds> role_speeds(const FoldedLanes& folded, size_t roles,
                                    const JitterTable& jitter);

}  // namespace stepcast
