// SPDX-License-Identifier: Apache-2.0
// Local search over orders: actions of the critical path are moved within the list of their rank.
#pragma once

#include <cstdint>

#include "schedules/synthesis/order_timing.h"

namespace stepcast {

struct SearchGoal {
  bool split_backward = true;  // I and W may become B and B be split, where B takes less than both
  bool span_first = false;     // what is to become short: the span, or the makespan
  OrderTimes good_enough;      // the search ends when both are reached
  int64_t tries = 0;           // orders to time at most
  uint64_t seed = 1;
};

struct SearchOutcome {
  Order order;
  OrderTimes times;
  int64_t tries = 0;
};

// The best order found from `start`, at least as good as it: by what is to become short first, by
// the other second.  Late acceptance (Burke, Bykov 2017): an order is taken if it is no worse than
// the present one or than the one some hundred tries ago.  REQUIRES: `start` is as time_order()
// requires, does not get stuck and fits the memory.
SearchOutcome improve_order(const PipelineCosts& costs, const Order& start, const SearchGoal& goal);

}  // namespace stepcast
