// SPDX-License-Identifier: Apache-2.0
// Time over bytes through measured points: log-log between them, at the bandwidth of the last two
// above them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"
#include "topology/nccl/collectives.h"

namespace stepcast {

struct CurvePoint {
  int64_t bytes = 0;
  double us = 0;
  bool derived = false;
};

// Points ascending in bytes, no size twice.
using Curve = std::vector<CurvePoint>;

struct CurveValue {
  double us = 0;
  Origin origin = Origin::extrapolated;
};

// Below the first point time falls linearly to `floor_us` at no bytes; a floor above the first
// point's time means that time itself.  Above the last, the last slope goes on, but no flatter than
// half of the last point's time a byte.  REQUIRES: points not empty, bytes > 0.
CurveValue value_on(const Curve& curve, int64_t bytes, double floor_us);

// Time of a collective through measured sizes: exact at them, shaped by the communication model
// between them.  Between two measured sizes the measured time goes straight over the modelled one:
// if the machine's latency is some factor off the model's and its bandwidth another, that is its
// time exactly.  The model knows where NCCL changes protocol and how fast a pipeline fills, the
// points how fast this machine is.  Where the modelled time does not grow with the size (all-to-all
// that goes over to another protocol), the ratio of measured to modelled time goes straight over
// the logarithm of the size.  Outside of the points as value_on.  REQUIRES: as value_on and
// collective_cost.
CurveValue collective_on(const Curve& curve, WorkKind kind, Bytes bytes, const GroupShape& shape,
                         const Cluster& cluster, double floor_us);

// Where the NICs of a cluster are not those that a curve was measured with, but near them: the
// curve's time hands over to the model's, so that a faster NIC never costs more.
//
// Up to 5 % off (kSameNic) the curve counts as it is.  Beyond, the model's time is taken times the
// factor by which curve and model differ at that edge; the factor fades out over a further quarter
// of bandwidth.  Where that would make the faster NIC the slower one (the model is above the curve
// and the NIC faster than the curve's, or below it and slower), the model's time is cut at the
// curve's instead.  Both are monotone in the bandwidth if the model is, and meet curve and model.
constexpr double kSameNic = 0.05;
// Bandwidths in GB/s of a GPU, times in us; `model_edge_us` is the model's at the edge
// (blend_edge_gbs).  REQUIRES: all positive.
struct NicBlend {
  double curve_gbs = 0, gbs = 0;
  double curve_us = 0, model_us = 0, model_edge_us = 0;
};
double blend_edge_gbs(double curve_gbs, double gbs);
double blended_us(const NicBlend& n);

// Between two curves whose hand-overs to the model would meet there is no model: from the edge of
// the one to that of the other time goes straight, both on logarithmic scales.
constexpr double kJoinedNics = 1.72;
struct NicsTime {
  double gbs = 0, us = 0;
};
// REQUIRES: `gbs` beyond 5 % of both, and between them; all positive.
double us_between(const NicsTime& slower, const NicsTime& faster, double gbs);

}  // namespace stepcast
