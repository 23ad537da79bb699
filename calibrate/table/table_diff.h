// SPDX-License-Identifier: Apache-2.0
// What two cost tables say differently.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/table/table_text.h"

namespace stepcast {

struct RowDifference {
  std::string row;               // "gemm,bf16,tn,4096,576,5120,1"
  double before = 0, after = 0;  // microseconds; constants of fits in their units
  double ratio = 0;              // after / before
};

struct FamilyDifference {
  std::string_view family;  // "gemm"
  size_t only_before = 0, only_after = 0, both = 0;
  size_t changed = 0;                       // of those in both
  double median_ratio = 1, p90_factor = 1;  // of those in both; factor: the larger over the smaller
};

struct TableDifference {
  std::vector<std::string> only_before, only_after;  // rows as in `RowDifference`
  std::vector<RowDifference> changed;                // largest |log ratio| first
  std::vector<FamilyDifference> families;            // that either has rows of, in a file's order
};

// Times, ratios and fitted constants.  Sources and spreads are not compared.
TableDifference difference(const TableText& before, const TableText& after);

}  // namespace stepcast
