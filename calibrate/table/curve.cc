// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/curve.h"

#include <algorithm>

#include "sim/check.h"
#include "sim/log_exp.h"

namespace stepcast {

namespace {

double below(const CurvePoint& first, double bytes, double floor_us) {
  const double floor = std::min(floor_us, first.us);
  return floor + (first.us - floor) * bytes / static_cast<double>(first.bytes);
}

double above(const Curve& curve, double bytes) {
  const CurvePoint& last = curve.back();
  const auto size = static_cast<double>(last.bytes);
  double slope = last.us / size;
  if (curve.size() > 1) {
    const CurvePoint& before = curve[curve.size() - 2];
    const double measured = (last.us - before.us) / static_cast<double>(last.bytes - before.bytes);
    // Noise, or a switch of algorithm between the two, must not make large sizes free; half the
    // mean slope allows for a doubled bandwidth.
    slope = std::max(measured, slope / 2);
  }
  return last.us + slope * (bytes - size);
}

}  // namespace

CurveValue value_on(const Curve& curve, int64_t bytes, double floor_us) {
  STEPCAST_CHECK(!curve.empty() && bytes > 0, "a curve without points, or no bytes");
  const auto size = static_cast<double>(bytes);
  const auto next = std::lower_bound(curve.begin(), curve.end(), bytes,
                                     [](const CurvePoint& p, int64_t b) { return p.bytes < b; });
  if (next == curve.end())
    return {above(curve, size), Origin::extrapolated, curve.back().in_training};
  if (next->bytes == bytes) {
    return {next->us, next->derived ? Origin::extrapolated : Origin::measured, next->in_training};
  }
  if (next == curve.begin())
    return {below(*next, size, floor_us), Origin::extrapolated, next->in_training};
  const CurvePoint& a = *(next - 1);
  const CurvePoint& b = *next;
  const auto from = static_cast<double>(a.bytes);
  const double x = exact_log2(size / from) / exact_log2(static_cast<double>(b.bytes) / from);
  return {a.us * exact_exp2(exact_log2(b.us / a.us) * x),
          a.derived || b.derived ? Origin::extrapolated : Origin::interpolated,
          a.in_training && b.in_training};
}

}  // namespace stepcast
