// SPDX-License-Identifier: Apache-2.0
// Time of a collective through measured sizes: exact at them, shaped by the model between them.
#pragma once

#include "calibrate/curve.h"
#include "sim/units.h"
#include "sim/work.h"
#include "topology/cluster.h"
#include "topology/collectives.h"

namespace stepcast {

// Between two measured sizes the ratio of measured to modelled time goes from that of the one to
// that of the other, straight over the logarithm of the size: the model knows where NCCL changes
// protocol and how fast a pipeline fills, the points how fast this machine is.  Outside of them as
// value_on (curve.h).  REQUIRES: as value_on and collective_cost.
CurveValue collective_on(const Curve& curve, WorkKind kind, Bytes bytes, const GroupShape& shape,
                         const Cluster& cluster, double floor_us);

}  // namespace stepcast
