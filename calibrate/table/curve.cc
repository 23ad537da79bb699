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

CurveValue value_on(const Curve& curve, int64_t bytes, double floor_us) {
  STEPCAST_CHECK(!curve.empty() && bytes > 0, "a curve without points, or no bytes");
  const auto size = static_cast<double>(bytes);
  const auto next = std::lower_bound(curve.begin(), curve.end(), bytes,
                                     [](const CurvePoint& p, int64_t b) { return p.bytes < b; });
  if (next == curve.end()) return {above(curve, size), Origin::extrapolated};
  if (next->bytes == bytes) {
    return {next->us, next->derived ? Origin::extrapolated : Origin::measured};
  }
  if (next == curve.begin()) return {below(*next, size, floor_us), Origin::extrapolated};
  const CurvePoint& a = *(next - 1);
  const CurvePoint& b = *next;
  const auto from = static_cast<double>(a.bytes);
  const double x = exact_log2(size / from) / exact_log2(static_cast<double>(b.bytes) / from);
  return {a.us * exact_exp2(exact_log2(b.us / a.us) * x),
          a.derived || b.derived ? Origin::extrapolated : Origin::interpolated};
}

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

double blend_edge_gbs(double curve_gbs, double gbs) {
  return curve_gbs * (gbs > curve_gbs ? 1 + kSameNic : 1 - kSameNic);
}

double blended_us(const NicBlend& n) {
  constexpr double kFadesOver = 1.25;
  const bool faster = n.gbs > n.curve_gbs;
  const double factor = n.curve_us / n.model_edge_us;
  if (faster && factor <= 1) return std::min(n.model_us, n.curve_us);
  if (!faster && factor >= 1) return std::max(n.model_us, n.curve_us);
  const double edge = blend_edge_gbs(n.curve_gbs, n.gbs);
  const double away = exact_log2(faster ? n.gbs / edge : edge / n.gbs) / exact_log2(kFadesOver);
  if (away >= 1) return n.model_us;
  return n.model_us * exact_exp2(exact_log2(factor) * (1 - std::max(0.0, away)));
}

double us_between(const NicsTime& slower, const NicsTime& faster, double gbs) {
  const double from = exact_log2(blend_edge_gbs(slower.gbs, gbs));
  const double to = exact_log2(blend_edge_gbs(faster.gbs, gbs));
  const double share = (exact_log2(gbs) - from) / (to - from);
  return slower.us * exact_exp2(exact_log2(faster.us / slower.us) * share);
}

}  // namespace stepcast
