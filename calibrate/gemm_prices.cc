// SPDX-License-Identifier: Apache-2.0
#include "calibrate/gemm_prices.h"

#include <algorithm>
#include <cmath>

#include "calibrate/roofline.h"
#include "sim/check.h"
#include "sim/log_exp.h"

namespace stepcast {
namespace {

constexpr int64_t kSkinny = 256;   // sides up to this are skinny: below two tiles of 128
constexpr size_t kEnoughRows = 8;  // of a layout or of batched products to go by them alone
constexpr double kFarAway = 1.5;   // octaves: beyond this neighbours are no evidence

Work as_work(const GemmRow& r) {
  Work w;
  w.kind = WorkKind::gemm;
  w.dtype = r.dtype;
  w.layout = r.layout;
  // Weight gradients in tables are measured as frameworks run them: added into an fp32 buffer.
  w.accumulate = r.layout == GemmLayout::nt;
  w.m = r.m;
  w.n = r.n;
  w.k = r.k;
  w.batch = r.batch;
  w.flops = {2.0 * static_cast<double>(r.batch) * static_cast<double>(r.m) *
             static_cast<double>(r.n) * static_cast<double>(r.k)};
  return w;
}

std::array<double, 4> coordinates(const Work& w) {
  return {exact_log2(static_cast<double>(w.m)), exact_log2(static_cast<double>(w.n)),
          exact_log2(static_cast<double>(w.k)), 0.5 * exact_log2(static_cast<double>(w.batch))};
}

std::string shape_text(int64_t m, const Work& w) {
  return std::to_string(m) + "x" + std::to_string(w.n) + "x" + std::to_string(w.k);
}

}  // namespace

double smooth_time(const Work& work, const FitRow& fit) {
  const double c = work.flops.value / (fit.tflops * 1e6);
  const double m =
      fit.gbs > 0 ? static_cast<double>(operand_bytes(work).value) / (fit.gbs * 1e3) : 0;
  return fit.t0_us + std::sqrt(c * c + m * m);
}

DType table_dtype(DType t) {
  return t == DType::fp16 ? DType::bf16 : t;
}

const FitRow* find_fit(const std::vector<FitRow>& fits, WorkKind kind, DType dtype) {
  for (const FitRow& f : fits) {
    if (f.kind == kind && table_dtype(f.dtype) == table_dtype(dtype)) return &f;
  }
  return nullptr;
}

GemmPrices::GemmPrices(const TableText& table) : fits_(table.fits) {
  layout_ratio_ = {1, table.ratio_nn.value_or(1), table.ratio_nt.value_or(1)};
  skinny_ = table.ratio_skinny.value_or(1);
  for (const GemmRow& r : table.gemms) {
    const FitRow* fit = find_fit(fits_, WorkKind::gemm, r.dtype);
    if (fit == nullptr) continue;
    const Work w = as_work(r);
    const double residual = exact_log2(r.us / smooth_time(w, *fit));
    const bool derived = table.sources[r.source].derived;
    Group& g = groups_[{table_dtype(r.dtype), r.layout, r.batch > 1}];
    const Neighbor point{coordinates(w), residual, derived};
    for (size_t i = 0; i < 3; ++i) {
      g.low[i] = g.points.empty() ? point.at[i] : std::min(g.low[i], point.at[i]);
      g.high[i] = g.points.empty() ? point.at[i] : std::max(g.high[i], point.at[i]);
    }
    g.points.push_back(point);
    g.by_nk[{r.batch, r.n, r.k}].push_back({r.m, r.us, residual, derived});
  }
  for (auto& [key, group] : groups_) {
    for (auto& [nk, rows] : group.by_nk) {
      std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.m < b.m; });
    }
  }
}

void GemmPrices::mark_derived() {
  for (auto& [key, group] : groups_) {
    for (Neighbor& p : group.points) p.derived = true;
    for (auto& [nk, rows] : group.by_nk) {
      for (Row& r : rows) r.derived = true;
    }
  }
}

std::optional<TablePrice> GemmPrices::along_m(const Group& group, const Work& w, double smooth,
                                              bool borrowed) {
  const auto found = group.by_nk.find({w.batch, w.n, w.k});
  if (found == group.by_nk.end()) return std::nullopt;
  const std::vector<Row>& rows = found->second;
  const auto above = std::lower_bound(rows.begin(), rows.end(), w.m,
                                      [](const Row& r, int64_t m) { return r.m < m; });
  if (above == rows.end()) return std::nullopt;
  if (above->m == w.m) {
    const Origin origin = above->derived ? Origin::extrapolated : Origin::measured;
    const double us = borrowed ? smooth * exact_exp2(above->residual) : above->us;
    return TablePrice{us, origin, "row " + shape_text(w.m, w)};
  }
  if (above == rows.begin()) return std::nullopt;
  const Row& a = *(above - 1);
  const Row& b = *above;
  const double low = exact_log2(static_cast<double>(a.m));
  const double high = exact_log2(static_cast<double>(b.m));
  const double x = (exact_log2(static_cast<double>(w.m)) - low) / (high - low);
  const double residual = a.residual + (b.residual - a.residual) * x;
  const Origin origin = a.derived || b.derived ? Origin::extrapolated : Origin::interpolated;
  return TablePrice{smooth * exact_exp2(residual), origin,
                    "rows " + shape_text(a.m, w) + " and m = " + std::to_string(b.m)};
}

TablePrice GemmPrices::from_neighbors(const Group& group, const Work& w, double smooth) const {
  std::array<double, 4> at = coordinates(w);
  bool inside = w.batch == 1;
  for (size_t i = 0; i < 3 && w.batch == 1 && !group.points.empty(); ++i) {
    // Outside the hull: the residual at its edge.
    const double clamped = std::clamp(at[i], group.low[i], group.high[i]);
    inside = inside && clamped == at[i];
    at[i] = clamped;
  }
  const bool skinny = std::min({w.m, w.n, w.k}) <= kSkinny;
  const double prior = skinny ? exact_log2(skinny_) : 0;
  const Residual r = nearest_residual(group.points, at, Falloff::square, prior);
  // Where nothing similar was measured the mean of far shapes is no better than the prior.
  const double value = w.batch > 1 && r.nearest > kFarAway ? prior : r.value;
  return {smooth * exact_exp2(value),
          inside && !r.derived ? Origin::interpolated : Origin::extrapolated,
          std::to_string(r.used) + " nearest rows"};
}

std::optional<TablePrice> GemmPrices::time(const Work& work) const {
  STEPCAST_CHECK(work.m > 0 && work.n > 0 && work.k > 0 && work.batch > 0, describe(work));
  const FitRow* fit = find_fit(fits_, WorkKind::gemm, work.dtype);
  if (fit == nullptr) return std::nullopt;
  const DType dtype = table_dtype(work.dtype);
  const double smooth = smooth_time(work, *fit);
  const bool batched = work.batch > 1;

  auto group = groups_.find({dtype, work.layout, batched});
  const bool too_few = group == groups_.end() || group->second.points.size() < kEnoughRows;
  const bool borrowed = too_few && !batched && work.layout != GemmLayout::tn;
  if (borrowed) group = groups_.find({dtype, GemmLayout::tn, false});
  if (group == groups_.end()) {
    if (!batched) return std::nullopt;
    return from_neighbors(Group{}, work, smooth);
  }
  // A row is of operands in its own format: others go by what it says of the fit.
  const bool other_bytes = work.bytes.value > 0;
  std::optional<TablePrice> price = along_m(group->second, work, smooth, borrowed || other_bytes);
  if (!price) price = from_neighbors(group->second, work, smooth);
  if (borrowed) {
    price->us *= layout_ratio_[static_cast<size_t>(work.layout)];
    price->origin = Origin::extrapolated;
    price->basis += " of layout tn, by the ratio of layouts";
  }
  return price;
}

std::optional<TablePrice> GemmPrices::grouped_time(const Work& work) const {
  const FitRow* fit = find_fit(fits_, WorkKind::gemm, work.dtype);
  if (fit == nullptr) return std::nullopt;
  Work one = work;
  one.kind = WorkKind::gemm;
  if (work.batch == 1) return time(one);
  const auto group = groups_.find({table_dtype(work.dtype), work.layout, true});
  if (group != groups_.end()) {
    const double smooth = smooth_time(one, *fit);
    if (auto price = along_m(group->second, one, smooth, false)) return price;
    const Residual r = nearest_residual(group->second.points, coordinates(one), Falloff::square, 0);
    if (r.nearest <= kFarAway) return from_neighbors(group->second, one, smooth);
  }
  one.m *= work.batch;
  one.batch = 1;
  std::optional<TablePrice> price = time(one);
  if (!price) return price;
  price->us *= smooth_time(work, *fit) / smooth_time(one, *fit);
  price->origin = Origin::extrapolated;
  price->basis += " of one matrix, in " + std::to_string(work.batch) + " groups";
  return price;
}

}  // namespace stepcast
