// SPDX-License-Identifier: Apache-2.0
// What a record says was measured, in seconds and bytes.
#pragma once

#include <optional>

#include "calibrate/runs/run_record.h"

namespace stepcast {

// Which memory a source reports.
enum class MemoryKind : unsigned char {
  allocated,        // largest that the framework asked for, of any rank
  first_allocated,  // ... of the first pipeline rank
  last_allocated,   // ... of the last
  first_reserved,   // held by the caching allocator of the first pipeline rank
  reserved,         // held by the caching allocator, of any rank
  device,           // nvidia-smi: reserved, and the context
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

// What rates are of: one step of the run.
struct StepSize {
  double sequences = 0;        // of the whole batch
  double sequence_length = 0;  // tokens
  double gpus = 0;
  double forward_flops = 0;  // of the model, counting every query times every key and the head
  std::optional<double>
      peak_flops;  // of a GPU a second by its data sheet, in the parameters' format
};

// Whether that many seconds can be a step's: a nanosecond to eleven days.
bool is_step_time(double seconds);

// Times that cannot be a step's, printed or derived, are none.  `size`: of the record's step;
// without it (nullptr) rates that need batch or model give no time.  Of model FLOPs backward counts
// twice what forward does.
MeasuredRun measured_run(const RunRecord& record, const StepSize* size);

}  // namespace stepcast
