// SPDX-License-Identifier: Apache-2.0
// Records, one after the other: converted, forecast, set beside what was measured.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "calibrate/runs/convert.h"
#include "calibrate/runs/measured_run.h"
#include "calibrate/runs/run_record.h"
#include "sim/graph/price.h"

namespace stepcast::accuracy {

// Where a step time is expected to be found: with probability `level` from `low_s` to `high_s`.
struct RunInterval {
  double low_s = 0, high_s = 0, level = 0;
};

struct RunRow {
  std::string id, source, group;
  std::string hardware;  // GPU: name of its preset; without a scenario the words of the record
  int64_t gpus = 0;
  double parameters = 0;      // of the model; 0 if there is no scenario
  std::string layout;         // what it is split over: "tp+pp", "data" for nothing; "" as above
  double tokens_per_gpu = 0;  // of a step; 0 if unknown
  MeasuredRun measured;
  std::vector<std::string> assumed;
  std::string cause;     // why the prediction is off, as far as known: rules.h
  std::string scenario;  // YAML text; empty if the record could not be converted

  // Why there is no prediction, one entry a problem: "E130 parallel.cp = 2 is not supported yet".
  std::vector<std::string> skipped;
  std::optional<double> step_time_s;
  // The same with values of the in-situ parameters that its source had no part in, and without any
  // parameter.
  std::optional<double> left_out_s, without_s;
  std::optional<RunInterval> interval;
  std::string run_class;                  // of the shipped table of observed errors; "" if of none
  double cost_error = 0;                  // Interval::cost_error
  std::string gpu_generation;             // name of its GpuArchitecture
  int64_t product_bits = 0;               // scenarios/highest_mfu.h
  std::optional<double> measured_mfu;     // with full attention, as Utilization has it
  std::optional<double> profiled_step_s;  // of measured stage times: profiled_step_s
  std::optional<double> peak_memory;      // bytes, of the kind that was measured
  std::string memory_class;               // of the shipped table of errors: that kind's
  std::optional<bool> out_of_memory;
  std::optional<double> memory_free;       // share of the usable memory that is not reserved
  std::optional<double> memory_room;       // Result::memory_room
  std::array<double, kOrigins> origins{};  // shares of device time
};

// Seconds of a step of a record's schedule with its `profiled_ms`: T_F, T_B (input gradient), T_W
// and T_comm, of a stage and microbatch; the chunks of a rank share them.  The step is the makespan
// of order_timing.h: what is left for the order of actions to get wrong.  nullopt if there are no
// such times, or the schedule is no family's or does not fit the sizes.
std::optional<double> profiled_step_s(const Value& record);

// In-situ parameters by all sources but one, by that source (estimate.h).
using LeftOut = std::map<std::string, std::vector<InSituParameter>>;

RunRow predict(const RunRecord& record, const std::vector<RunRule>& rules,
               const LeftOut& left_out = {});
// All of them, on `threads` threads; rows are in the order of the records.
std::vector<RunRow> predict_all(const std::vector<RunRecord>& records,
                                const std::vector<RunRule>& rules, int threads,
                                const LeftOut& left_out = {});

}  // namespace stepcast::accuracy
