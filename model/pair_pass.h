// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/graph_builder.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// Appends the pass of an overlapped pair: a forward and a backward (B or I) of different
// microbatches, whose ops take turns so that the all-to-all (Stream::ep) of one runs beside the
// compute of the other.  The backward begins; each side goes on up to and including its next op on
// Stream::ep, then it is the other's turn.  Without such ops: the forward, then the backward.
// The forward is the first action of its item, the backward the second (Item::second).
// Pairs of equal passes share one: call once for each.  Products and attention of a pair that
// exchanges tokens do without `comm_sms` SMs, which the exchanges keep to themselves throughout
// (DeepSeek-V3, arXiv 2412.19437, section 3.2.2: 20 of 132).
PassId add_pair_pass(GraphBuilder& builder, PassId forward, PassId backward, int comm_sms = 0);

}  // namespace stepcast
