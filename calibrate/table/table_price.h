// SPDX-License-Identifier: Apache-2.0
// What a cost table answers: a time, where it comes from, and from which rows, as numbers.  The
// line of text that says so is only written where it is shown, because a lookup takes less time
// than making a string.
#pragma once

#include <cstdint>
#include <string>

#include "calibrate/table/table_text.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"

namespace stepcast {

struct TableBasis {
  enum class From : uint8_t { row, rows_beside, nearest_rows, kernel, copies };
  From from = From::row;
  int64_t low = 0, high = 0;  // rows_beside: m of the two rows
  int used = 0;               // nearest_rows: how many
  bool other_layout = false;  // of layout tn, by the ratio of layouts
  int64_t groups = 0;         // > 0: of one product with the rows of this many groups
  Kernel kernel{};            // kernel: whose rows
  CopyKind copy{};            // copies: which
  AttentionKernel attention = AttentionKernel::table;  // whose rows
  AttentionKernel lacking = AttentionKernel::table;    // which has no rows, if not `table`
};

struct TablePrice {
  double us = 0;
  Origin origin = Origin::extrapolated;
  TableBasis basis;
  bool in_training = false;  // Price::in_training
};

// "rows 1024x4096x4096 and m = 2048": without the table's name.
std::string basis_text(const TableBasis& basis, const Work& work);

}  // namespace stepcast
