// SPDX-License-Identifier: Apache-2.0
// The price of one compute work: the cost table's, else the data sheet's, with what neither counts
// (operands on odd bytes, multiprocessors that communication holds).
#pragma once

#include "calibrate/cost_table.h"
#include "sim/price.h"
#include "sim/price_parts.h"
#include "sim/work.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// `table` may be null: the data sheet answers.  `parts` takes how the price is made, if given; what
// experts' ranks wait for each other is the difference of two prices and has no parts.
// REQUIRES: !is_communication(work.kind).
Price compute_price(const Work& work, const Gpu& gpu, const CostTable* table,
                    PriceParts* parts = nullptr);

}  // namespace stepcast
