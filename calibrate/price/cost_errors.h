// SPDX-License-Identifier: Apache-2.0
// How far off costs are, by what they are of and where they come from (cost_errors.csv has figures
// and sources), and what that leaves open of a step.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/account/account.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast {

// Costs whose errors go together, because the same programs measure them and the same lookup
// answers.
enum class CostFamily : uint8_t { product, attention, memory, communication };
constexpr int kCostFamilies = 4;
std::string_view name_of(CostFamily f);
CostFamily family_of(const Work& work);

// Share of a cost that four of five costs are off by at most.
using CostErrors = std::array<std::array<double, kOrigins>, kCostFamilies>;
const CostErrors& cost_errors();

// Share of the step that the costs leave open, four times of five.  Errors of one family are taken
// to be the same for all of it, so they do not average out; those of two families to be
// independent.  A family counts by its device time, compute and communication by what the critical
// rank spends on either (communication that nobody waits for costs nothing).
struct StepCostError {
  double whole = 0;
  std::array<double, kCostFamilies> parts{};  // by CostFamily; their squares add up to the whole's
};
StepCostError step_cost_error(const OpGraph& graph, const Prices& prices, const Account& account,
                              const CostErrors& errors = cost_errors());

}  // namespace stepcast
