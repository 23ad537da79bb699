// SPDX-License-Identifier: Apache-2.0
// A step under a variation (program.h), as a graph and prices of its own: for engines that do not
// take variations, and asked a few times only.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/program.h"

namespace stepcast {

// What a variation makes of the duration of an op, in ps; `pass_scale`: of its pass.
int64_t varied_ps(int64_t ps, const Work& work, Phase phase, const Variation& variation,
                  double pass_scale = 1);
// Host time of each launch, in ps.
std::vector<int64_t> varied_launches(const OpGraph& graph, const Prices& prices,
                                     const Variation& variation);

// Of a wait: what it adds to the other op's end is host time (host_waits.h).
int64_t varied_delay(Time delay, const Variation& variation);

struct VariedStep {
  OpGraph graph;
  Prices prices;
};

// Times are those of compile(graph, prices, variation).  Works whose duration changes are added at
// the end; all keep their index.
// REQUIRES: prices.by_work.size() == graph.works.size().  O(size of the graph).
VariedStep vary(const OpGraph& graph, const Prices& prices, const Variation& variation);

}  // namespace stepcast
