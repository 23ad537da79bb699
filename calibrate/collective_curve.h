// SPDX-License-Identifier: Apache-2.0
// Time of a collective through measured sizes: exact at them, shaped by the model between them.
#pragma once

#include "calibrate/curve.h"
#include "sim/units.h"
#include "sim/work.h"
#include "topology/cluster/cluster.h"
#include "topology/nccl/collectives.h"

namespace stepcast {

// Between two measured sizes the measured time goes straight over the modelled one: if the
// machine's latency is some factor off the model's and its bandwidth another, that is its time
// exactly.  The model knows where NCCL changes protocol and how fast a pipeline fills, the points
// how fast this machine is.  Where the modelled time does not grow with the size (all-to-all that
// goes over to another protocol), the ratio of measured to modelled time goes straight over the
// logarithm of the size.  Outside of the points as value_on (curve.h).  REQUIRES: as value_on and
// collective_cost.
CurveValue collective_on(const Curve& curve, WorkKind kind, Bytes bytes, const GroupShape& shape,
                         const Cluster& cluster, double floor_us);

}  // namespace stepcast
