// SPDX-License-Identifier: Apache-2.0
// A calibration plan: the exact shapes that scenarios need, and how much of their steps each is.
//
// A text of the kind of a cost table's: '#' lines are the header, rows are those of a table without
// time and source, followed by weight and origin (docs/calibration.md).  What differs:
//   grouped_gemm,...    a gemm row whose `batch` products are experts in one launch; its
//                       measurement is a `gemm` row
//   head_dim            of attention is K/V where keys and values differ (192/128); the row of a
//                       table has their mean
//   copy,h2d            both directions are wanted
//   collective,send_recv  each rank sends `bytes` to the next one and takes as much from the last
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/price.h"
#include "sim/graph/work.h"

namespace stepcast {

struct PlanRow {
  // Only what makes the shape is set, and the flops of products and attention.  Communication:
  // kind and bytes; axis, from and to say nothing here.
  Work work;
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0;  // of communication, else 0
  double nic_gbs = 0;  // GB/s of one GPU's share of the NICs, one direction; 0 within a node
  double weight = 0;   // share of a step's priced time, summed over the scenarios
  Origin origin = Origin::roofline;  // how it is priced now
};

struct PlanText {
  std::string gpu;                     // name of the preset
  std::vector<std::string> scenarios;  // "NAME HASH"
  std::vector<PlanRow> rows;           // heaviest first
};

// Throws InputError with all problems (at most 20), each with its line:
//   E340 not a calibration plan, a newer one, or one with rows more or fewer than it counts
//   E341 a row with a mistake in it
PlanText parse_plan_text(std::string_view text, const std::string& file_name);

// parse_plan_text reads back what was written, but for digits of the weight beyond the fifth.
// REQUIRES: works of the kinds above.
std::string write_plan(const PlanText& plan);

// One row as it stands in the file, without weight and origin: "gemm,bf16,tn,4096,4096,4096,1".
// Equal keys are equal shapes.
std::string plan_key(const PlanRow& row);

}  // namespace stepcast
