// SPDX-License-Identifier: Apache-2.0
// The one canonical text of a cost table, format 2.
//
// Families in a fixed order, rows sorted by their shape, sources and conditions in the order given,
// numbers as the shortest decimals that read back as the same double, a checksum for the header and
// for each family.  Equal tables have equal texts:
//   parse_table_text(write_table(t)) == t   if the rows of t are sorted (sort_rows),
//   write_table(parse_table_text(f)) == f   for a text that this wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/table/table_text.h"

namespace stepcast {

// Into the order in which rows are written; the order of equal shapes stays.
void sort_rows(TableText& table);

// Refuses in a table that was made in memory what the reader refuses in a file.  Throws InputError
// E310 naming the first 20 rows whose time or spread is not finite and positive, whose sizes are
// not from 1 to 2^50, whose ranks are not nodes x ranks_per_node, whose constants are not from 0 to
// 1e15, or whose source does not exist.
void check_rows(const TableText& table);

// Control characters in texts become blanks.  REQUIRES: table.gpu not empty; keys of sources
// without blanks and commas, each once; what check_rows accepts.
std::string write_table(const TableText& table);

// One number of a table, with the row that it is in.
struct NamedTime {
  std::string_view family;  // first word of the row
  std::string row;          // "gemm,bf16,tn,4096,576,5120,1": all before the time
  double value = 0;         // microseconds; constants of fits in their units
};

// Every time, ratio and fitted constant, in the order of a written table; a fit is three of them,
// "fit,gemm,bf16,tflops".
std::vector<NamedTime> named_times(const TableText& table);

}  // namespace stepcast
