// SPDX-License-Identifier: Apache-2.0
// The shipped table of errors of memory (scenarios/memory_errors.csv): how it is made of forecast
// runs, how many runs lie in the intervals that it gives, and how surely runs fit that ran or ran
// out of memory.
//
// As of step times (observed.h) every source weighs about alike, and a class leans on the wider one
// as on two sources.  Only what was measured makes the table: that a run ran, or ran out, has no
// part in it, and judges it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scenarios/memory_errors.h"
#include "tools/runs/observed.h"
#include "tools/runs/predict.h"

namespace stepcast::accuracy {

struct ObservedMemory {
  std::string source, memory_class;
  double ratio = 1;  // measured / forecast
};
// Of rows that have both.
std::vector<ObservedMemory> observed_memories(const std::vector<RunRow>& rows);

// Each class with its shares of ratios; "memory" first.
std::vector<MemoryErrors> memory_classes(const std::vector<ObservedMemory>& runs);

// Measured memories in their intervals, by tables as those of step times.
Coverages memory_coverages(const std::vector<ObservedMemory>& runs);

// Of runs that are known to have run or to have run out of memory: how many steps were said to fit,
// by a table without their source, and how many of them ran.
struct Surely {
  double from = 0, to = 1;  // shares of steps that were said to fit: at least, below
  size_t runs = 0, ran = 0;
};
// From the surest on.
std::vector<Surely> surely_fits(const std::vector<RunRow>& rows);

// The file.
std::string memory_csv(const std::vector<ObservedMemory>& runs);
// Coverage and what surely_fits() finds, for a terminal.  Empty without such runs.
std::string memory_trust_text(const std::vector<RunRow>& rows);
// What keeps `shipped` from being the table that `now` is: other classes, numbers of runs or
// sources, ratios that differ by more than a hundredth.  Empty if nothing does.  Throws InputError
// for what is no table.
std::string stale_memory_errors(const std::string& shipped, const std::string& now);

}  // namespace stepcast::accuracy
