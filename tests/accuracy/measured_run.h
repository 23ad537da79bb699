// SPDX-License-Identifier: Apache-2.0
// What a record says was measured, in seconds and bytes.
#pragma once

#include <optional>

#include "scenarios/scenario.h"
#include "tests/accuracy/run_record.h"

namespace stepcast::accuracy {

// Which memory a source reports.
enum class MemoryKind : unsigned char {
  allocated,       // largest that the framework asked for, of any rank
  last_allocated,  // ... of the last pipeline rank
  reserved,        // held by the caching allocator, of any rank
  device,          // nvidia-smi: reserved, and the context
};

// Where a step time comes from.
enum class TimeBasis : unsigned char {
  none,
  step,    // printed, or from block times
  tokens,  // a rate of tokens or sequences
  flops,   // a rate of FLOPs by the source's own formula
  layer,   // of one layer and microbatch, forward and backward, in the place of a step's
};

struct MeasuredRun {
  std::optional<double> step_time_s;
  TimeBasis basis = TimeBasis::none;
  std::optional<double> peak_memory;  // bytes
  MemoryKind memory_kind = MemoryKind::allocated;
  std::optional<bool> out_of_memory;  // known for all that have a time or a memory
};

// Whether that many seconds can be a step's: a nanosecond to eleven days.
bool is_step_time(double seconds);

// Times that cannot be a step's, printed or derived, are none.  `scenario`: of the record; without
// it (nullptr) rates that need batch or model give no time. Model FLOPs count every query times
// every key and the head, backward twice forward; a peak is that of the data sheet in the format of
// the parameters.
MeasuredRun measured_run(const RunRecord& record, const Scenario* scenario);

}  // namespace stepcast::accuracy
