// SPDX-License-Identifier: Apache-2.0
#include "calibrate/collective_curve.h"

#include <algorithm>

#include "sim/log_exp.h"

namespace stepcast {

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
  const auto log_size = [](int64_t size) { return exact_log2(static_cast<double>(size)); };
  const double x =
      (log_size(bytes.value) - log_size(a.bytes)) / (log_size(b.bytes) - log_size(a.bytes));
  const double from = exact_log2(a.us / modelled(a.bytes));
  const double to = exact_log2(b.us / modelled(b.bytes));
  v.us = modelled(bytes.value) * exact_exp2(from + (to - from) * x);
  return v;
}

}  // namespace stepcast
