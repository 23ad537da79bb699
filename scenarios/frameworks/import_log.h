// SPDX-License-Identifier: Apache-2.0
// What Megatron prints when it trains: its arguments, how long iterations took, memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"
#include "sim/units.h"

namespace stepcast {

// The arguments of the first list "name ........ value" in the text.  Empty if there is none.
std::vector<Argument> read_printed_arguments(const SourceRef& source);

struct MeasuredIterations {
  int64_t printed = 0;                  // lines
  int64_t used = 0;                     // of the last batch size, after the warm-up
  Time median{}, low{}, high{};         // of those; low and high: quartiles
  std::optional<Bytes> most_allocated;  // of all ranks that printed it
};

// Lines "iteration N/ M | ... | elapsed time per iteration (ms): X | ... global batch size: B |"
// and "(after N iterations) memory (MB) | ... | max allocated: X | ...".  Adds E331 for numbers
// that cannot be read.  The first tenth of the lines, at least one if there are two, is warm-up.
MeasuredIterations read_iterations(Problems& problems, const SourceRef& source);

}  // namespace stepcast
