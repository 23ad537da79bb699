// SPDX-License-Identifier: Apache-2.0
// Which cost table prices a scenario: the one it names under `calibration`, else the shipped one of
// its GPU, else none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast {

// A cost table that a scenario names.
struct CalibrationTable {
  std::string file;    // as messages name it
  std::string hash;    // 16 hex digits over its text
  std::string remark;  // "no fits", where it needs some; empty: nothing is to be said
  std::string
      warning;  // that it is of another GPU than the one it prices; empty: it is of that one
  CostTable table;
};

// A user's table from the text of `file`, with what it takes over from shipped ones, to price
// `gpu`. Rows whose times the table's own GPU cannot have are refused.  A table of another GPU than
// `gpu` is taken with a warning, which says so too if `gpu` cannot have the times of some rows.
// Throws InputError (E3xx) with file and line.
std::shared_ptr<const CalibrationTable> read_calibration(const std::string& text,
                                                         const std::string& file, const Gpu& gpu);

struct PricingTable {
  const CostTable* table = nullptr;  // null: the roofline and the communication model answer
  // Those of the GPUs that this one is like, which say what `table` lacks (Gpu::like).
  std::vector<const CostTable*> others;
  std::string title;  // "table h100-sxm", "table of h100-sxm in mine.csv"
  // 16 hex digits over the text of the tables, and over the data of GPUs whose times are scaled;
  // empty: no table.
  std::string hash;
};

// The shipped tables that price a GPU: its own, if there is one, then those of the GPUs that it is
// like.
std::vector<const CostTable*> measured_tables(const Gpu& gpu);

// The table lives as long as the scenario.
PricingTable pricing_table(const Scenario& scenario);

// Flagged fits that some work of the graph was priced by: "fit of gemm bf16 partial, of ..."; empty
// if there are none.  REQUIRES: pricing.table.
std::string remark_on_fits(const PricingTable& pricing, const OpGraph& graph, const Prices& prices);

}  // namespace stepcast
