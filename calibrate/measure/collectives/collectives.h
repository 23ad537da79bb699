// SPDX-License-Identifier: Apache-2.0
// Measures collectives of NCCL, as nccl-tests does: calls in a row between barriers, of each
// repetition the mean time on the slowest rank, and the median over repetitions.  Built without
// NCCL, there is nothing to measure and it says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/measure/collectives/plan.h"
#include "calibrate/measure/collectives/processes.h"
#include "calibrate/measure/families/interference_ratio.h"
#include "calibrate/plan/sweep.h"
#include "calibrate/table/wires.h"

namespace stepcast::measure {

// Why this program, with so many GPUs, measures no collectives: a line for a table's conditions.
// Empty: it can.
std::string why_no_collectives(int gpus);

// A new unique id of NCCL as one word (ProcessRecord::token); process 0 makes it for all.  Empty
// without NCCL.
std::string new_collective_id();

// What was measured on, for the head of a table.
struct CollectiveFacts {
  std::string software;               // "NCCL 2.28.9"; empty without it
  double nvlink_gbs = 0;              // of one GPU in one direction; 0: no NVLink, or not known
  bool in_network_reduction = false;  // NVLS
  Wires wires;                        // the links inside a node, and switches that reduce
  std::vector<std::string> conditions;
};
// Of the current device, from NVML and the environment `variable` (std::getenv).
CollectiveFacts collective_facts(const std::function<const char*(const char*)>& variable);

class RankTeam;

class Collectives {
 public:
  // `fail` ends the program with a message: a rank that fails would leave the others waiting.
  using Fail = std::function<void(const std::string&)>;

  // Process `process` of those that place_ranks got, which all construct this together; `id` is
  // process 0's.  REQUIRES: why_no_collectives is empty.
  Collectives(std::vector<RankPlace> ranks, int process, const std::string& id, Fail fail);
  // All of `gpus` GPUs of this process, alone.
  Collectives(int gpus, Fail fail);
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  ~Collectives();  // process 0: sends the others home first

  // Process 0 only.  Skipped where memory is missing, or the group is not here, or the result of a
  // checked size (pattern.h) is wrong.
  PointResult measure(const SweepPoint& point);

  // Processes other than 0: take part in what process 0 measures, until it is done.
  void follow();

  // The ranks of this process; for interference.h.
  RankTeam& team() { return *team_; }

 private:
  std::unique_ptr<RankTeam> team_;
  bool leads_ = true;
};

}  // namespace stepcast::measure
