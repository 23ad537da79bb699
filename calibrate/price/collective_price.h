// SPDX-License-Identifier: Apache-2.0
// What a collective costs: measured rows where they fit, else the communication model.
//
// From `cluster.node.nics.bw` to the price it is three steps: the resolver puts the key's value
// into Cluster, price_graph.cc asks here with the shape of the group, and collective_price.cc takes
// the table's rows of that group to this cluster, or asks the model (topology/nccl/collectives.h).
//
// Rows answer only for the wires that they were measured on (calibrate/table/wires.h): the links
// inside a node, what drives the NICs, reduction in network switches and in NVSwitches, and who
// calls.  Where wires are of the same kind but faster or slower, further apart or shared, the model
// carries the row over: times what it says for this cluster over what it says for the one that was
// measured.  So rows and model meet wherever rows end, and a faster link never costs more unless a
// measurement itself says so.
#pragma once

#include <optional>
#include <string>

#include "calibrate/table/cost_table.h"
#include "calibrate/table/curve.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/group_shape.h"

namespace stepcast {

// By the table's rows, if some fit, else by the model, which has the latency and the name of the
// algorithm in either case.  `remark` of the price says why rows of this very group did not count,
// and what of the wires makes no difference to the model.
// `table` may be null.  REQUIRES: as collective_cost (topology/nccl/collectives.h), bytes > 0.
Price collective_price(WorkKind kind, Bytes bytes, const GroupShape& shape, const Cluster& cluster,
                       const CostTable* table);

// By rows alone; nothing if none fit.  `why`, if given, takes the remark.
std::optional<Price> measured_collective(const CostTable& table, WorkKind kind, Bytes bytes,
                                         const GroupShape& shape, const Cluster& cluster,
                                         std::string* why = nullptr);

// Where the calls of one process for all GPUs stop to count.  nccl-tests puts call behind call
// (NVIDIA/nccl-tests src/common.cu): where one thread calls for all GPUs in turn, a collective
// takes what those calls take, however small it is, until the GPUs take longer.  From twice the
// shortest time on they do.
constexpr double kCallsAreHidden = 2;

// Time of a collective through sizes that were measured on this very cluster: exact at them, shaped
// by the model between them.  Between two the measured time goes straight over the modelled one: if
// the machine's latency is some factor off the model's and its bandwidth another, that is its time
// exactly.  The model knows where NCCL changes protocol and how fast a pipeline fills, the points
// how fast this machine is.  Where the modelled time does not grow with the size (all-to-all that
// goes over to another protocol) it is the ratio of measured to modelled time that goes straight
// over the logarithm of the size.  Above the last point that ratio stays; below the first it does
// if that is a small message, else time falls to the model's latency.
// REQUIRES: points not empty, bytes > 0, and as collective_cost.
CurveValue collective_on(const Curve& curve, WorkKind kind, Bytes bytes, const GroupShape& shape,
                         const Cluster& cluster);

}  // namespace stepcast
