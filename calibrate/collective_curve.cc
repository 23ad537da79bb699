// SPDX-License-Identifier: Apache-2.0
#include "calibrate/collective_curve.h"

#include <algorithm>

#include "sim/log_exp.h"

namespace stepcast {
namespace {

// Ratio of measured to modelled time, straight over the logarithm of the size.
double by_ratio(const CurvePoint& a, const CurvePoint& b, int64_t bytes, double model_a,
                double model_b, double model) {
  const auto log_size = [](int64_t size) { return exact_log2(static_cast<double>(size)); };
  const double x = (log_size(bytes) - log_size(a.bytes)) / (log_size(b.bytes) - log_size(a.bytes));
  const double from = exact_log2(a.us / model_a);
  const double to = exact_log2(b.us / model_b);
  return model * exact_exp2(from + (to - from) * x);
}

}  // namespace

CurveValue collective_on(const Curve& curve, WorkKind kind, Bytes bytes, const GroupShape& shape,
                         const Cluster& cluster, double floor_us) {
  CurveValue v = value_on(curve, bytes.value, floor_us);
  const auto next = std::lower_bound(curve.begin(), curve.end(), bytes.value,
                                     [](const CurvePoint& p, int64_t b) { return p.bytes < b; });
  if (next == curve.begin() || next == curve.end() || next->bytes == bytes.value) return v;
  const CurvePoint& a = *(next - 1);
  const CurvePoint& b = *next;
  const auto modelled = [&](int64_t size) {
    return 1e6 * to_seconds(collective_cost(cluster, kind, {size}, shape).time);
  };
  const double from = modelled(a.bytes), to = modelled(b.bytes), at = modelled(bytes.value);
  v.us = from < at && at < to ? a.us + (b.us - a.us) * ((at - from) / (to - from))
                              : by_ratio(a, b, bytes.value, from, to, at);
  return v;
}

}  // namespace stepcast
