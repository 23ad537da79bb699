// SPDX-License-Identifier: Apache-2.0
// The fits and ratios of a table, computed from its rows.
//
// Fitted are, by fit.h:
//   gemm, each data type         smooth roofline of the tn rows of batch 1
//   attention, forward/backward  10 us + flops / rate, each data type
//   memory_bound                 launch period + bytes / bandwidth, over all kernels
//   ratio nn, nt                 median of time over that of tn at the same shape, of shapes
//                                in both layouts with sides from 1024 on (all if those are few)
//   ratio skinny                 median of time over the smooth roofline, tn rows of 16 bits with a
//                                side of at most 256
// A t0 that the rows do not tell is taken to be 2.5 us, the launch period of a small kernel.
// fp16 and bf16 share fits, as they share rows.  A ratio needs three shapes.
//
// Rows of the fitter's own source (kFitSource in table_text.h) are replaced.  Fits and ratios of
// any other source were made from something else than these rows; they stay and nothing is fitted
// in their place.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "calibrate/table/table_text.h"

namespace stepcast {

struct FittedTable {
  TableText table;  // rows sorted (write_table.h)
  // One line each: flagged fits and why, rows that a fit finds to be off by more than five times,
  // collectives that answer nothing.
  std::vector<std::string> remarks;
};

// Constants are rounded to five significant digits, residuals to four decimals.  Data that
// determine too little give a flagged fit (FitFlag), never a wrong one.  Throws InputError E310:
// see check_rows, of the rows and of what was fitted to them.
FittedTable fit_table(TableText table);

// Alpha-beta lines of the collectives, for showing; the lookup goes by rows.
struct CollectiveLine {
  WorkKind kind{};
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0;
  double nic_gbs = 0;
  Wires wires;
  int64_t rows = 0;
  AlphaBeta line;
};
// One for each group shape and wires with at least two sizes, in the order of rows in a file.
std::vector<CollectiveLine> collective_lines(const TableText& table);

}  // namespace stepcast
