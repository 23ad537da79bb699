// SPDX-License-Identifier: Apache-2.0
// Ops that a host launches only after it has read something from the device.
//
// A launch with HostCall::synchronize inside a pass waits for the last op before it on the compute
// stream, which made what is read: what follows is launched from then on, on a device that has
// nothing queued there.  Other streams go on.  That is a recurrence in the same terms as every
// other: each op after it starts no earlier than that end plus the host's time for all launches
// since.  The host itself may still run ahead into the next pass, so what it does there before it
// reads again is hidden better than it would be.  What is waited beyond the end of the op is booked
// as launch gaps.
//
// A host that blocks (OpGraph::host_blocks, CUDA_LAUNCH_BLOCKING=1) waits so for every op, on
// whatever stream: no op runs beside another, and each adds the host's time for its launch.
//
// Waits are those of one pass: where no op of it on the compute stream comes before, as at its
// first op, the call costs its time and waits for nothing.  A host that waits between passes is an
// item of its role (ItemKind::sync).
#pragma once

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast {

// Adds these waits to the passes of a priced graph.  O(ops).
void add_host_wait_edges(OpGraph& graph, const Prices& prices);

}  // namespace stepcast
