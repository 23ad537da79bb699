// SPDX-License-Identifier: Apache-2.0
#include "calibrate/attention_prices.h"

#include <algorithm>

#include "sim/check.h"
#include "sim/log_exp.h"

namespace stepcast {
namespace {

// A factor of two in head dimension, or the other mask, changes the kernel more than a factor of
// two in size.
constexpr double kHeadDimensionWeight = 2;
constexpr double kMaskDistance = 2;

std::array<double, 4> coordinates(int64_t m, int64_t n, int64_t k, int64_t heads, int64_t batch,
                                  bool causal) {
  const double parallel =
      static_cast<double>(m) * static_cast<double>(heads) * static_cast<double>(batch);
  return {exact_log2(parallel), exact_log2(static_cast<double>(n)),
          kHeadDimensionWeight * exact_log2(static_cast<double>(k)), causal ? kMaskDistance : 0};
}

double smooth_attention(double flops, const FitRow& fit) {
  return fit.t0_us + flops / (fit.tflops * 1e6);
}

}  // namespace

Flops attention_flops(const AttentionRow& r) {
  const double pairs = static_cast<double>(r.m) * static_cast<double>(r.n);
  const double products = 4 * pairs * static_cast<double>(r.k) * static_cast<double>(r.heads) *
                          static_cast<double>(r.batch);
  return {products * (r.causal ? 0.5 : 1.0) * (r.backward ? 2.5 : 1.0)};
}

AttentionPrices::AttentionPrices(const TableText& table) {
  for (const AttentionRow& r : table.attentions) {
    const WorkKind kind = r.backward ? WorkKind::attention_backward : WorkKind::attention_forward;
    const FitRow* fit = find_fit(table.fits, kind, r.dtype);
    if (fit == nullptr) continue;
    const DType dtype = table_dtype(r.dtype);
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
      return g.backward == r.backward && g.dtype == dtype;
    });
    if (group == groups_.end()) {
      groups_.push_back({r.backward, dtype, *fit, {}, {}, {}, {}});
      group = groups_.end() - 1;
    }
    const auto at = coordinates(r.m, r.n, r.k, r.heads, r.batch, r.causal);
    const double smooth = smooth_attention(attention_flops(r).value, *fit);
    for (size_t i = 0; i < at.size(); ++i) {
      group->low[i] = group->rows.empty() ? at[i] : std::min(group->low[i], at[i]);
      group->high[i] = group->rows.empty() ? at[i] : std::max(group->high[i], at[i]);
    }
    group->rows.push_back(r);
    group->points.push_back({at, exact_log2(r.us / smooth), table.sources[r.source].derived});
  }
}

void AttentionPrices::mark_derived() {
  for (Group& g : groups_) {
    for (Neighbor& p : g.points) p.derived = true;
  }
}

std::optional<TablePrice> AttentionPrices::time(const Work& w) const {
  STEPCAST_CHECK(w.m > 0 && w.n > 0 && w.k > 0 && w.heads > 0 && w.batch > 0, describe(w));
  const bool backward = w.kind == WorkKind::attention_backward;
  const int64_t k = w.value_dim > 0 ? (w.k + w.value_dim) / 2 : w.k;
  const DType dtype = table_dtype(w.dtype);
  const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
    return g.backward == backward && g.dtype == dtype;
  });
  if (group == groups_.end()) return std::nullopt;
  for (size_t i = 0; i < group->rows.size(); ++i) {
    const AttentionRow& r = group->rows[i];
    const bool same = r.m == w.m && r.n == w.n && r.k == k && r.heads == w.heads &&
                      r.kv_heads == w.kv_heads && r.batch == w.batch && r.causal == w.causal;
    // A sliding window leaves the shape alone and takes flops away: not the measured kernel.
    if (same && w.flops.value >= 0.99 * attention_flops(r).value) {
      const bool derived = group->points[i].derived;
      return TablePrice{r.us, derived ? Origin::extrapolated : Origin::measured, "exact row"};
    }
  }
  auto at = coordinates(w.m, w.n, k, w.heads, w.batch, w.causal);
  bool inside = true;
  for (size_t i = 0; i < at.size(); ++i) {
    // Outside the hull: the rate at its edge.
    const double clamped = std::clamp(at[i], group->low[i], group->high[i]);
    inside = inside && clamped == at[i];
    at[i] = clamped;
  }
  const Residual r = nearest_residual(group->points, at, Falloff::fourth, 0);
  return TablePrice{smooth_attention(w.flops.value, group->fit) * exact_exp2(r.value),
                    inside && !r.derived ? Origin::interpolated : Origin::extrapolated,
                    std::to_string(r.used) + " nearest attention rows"};
}

}  // namespace stepcast
