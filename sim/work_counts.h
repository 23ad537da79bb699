// SPDX-License-Identifier: Apache-2.0
// How often the ranks of a job do each work in one step.
#pragma once

#include <vector>

#include "sim/op_graph.h"

namespace stepcast {

// By work: how often it is done, summed over the ranks; what a rendezvous does counts once for all
// the ranks that take part in it.  O(size of the graph).
std::vector<double> work_counts(const OpGraph& graph);

}  // namespace stepcast
