// SPDX-License-Identifier: Apache-2.0
// The highest utilization that published runs reached (highest_mfu.csv), by generation of GPU and
// format of the products: a forecast above it is more likely wrong than a record.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario.h"

namespace stepcast {

struct HighestMfu {
  std::string gpus;  // name of the GpuArchitecture
  int64_t bits = 0;  // of the operands of products: 16, 8, 4
  double mfu = 0;    // share of the peak of precision.params, full attention counted
  int64_t runs = 0;
};

// Of the operands of the products of a plan's linear layers.
int64_t product_bits(const Plan& plan);

// Rows of a table.  Throws InputError if it is none.
std::vector<HighestMfu> parse_highest_mfu(std::string_view text);
// The shipped table.
std::span<const HighestMfu> highest_mfu();

// A sentence that says that `mfu` (a share of the peak, full attention counted) is more than any
// published run on GPUs of that generation and in that format reached, and by how many runs that is
// known; nullopt if it is not more, or if fewer than 50 runs say so.
std::optional<std::string> remark_on_mfu(const Scenario& scenario, double mfu);

}  // namespace stepcast
