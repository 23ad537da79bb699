// SPDX-License-Identifier: Apache-2.0
// How a product is looked up.
//
// A table of the A100 has a fit, t = t0 + sqrt(c^2 + m^2), which says how long a product would take
// if nothing but its flops and bytes mattered: the smooth roofline.  What else matters (which
// kernel the library picks, how the tiles fill the GPU) is in the ratio of a measured time to the
// form, and shapes that lie close to each other have ratios that do.  So a product of 3000 x 6144 x
// 4096, which the form puts at 600 us, is looked up as follows:
//
//   1. by_weights finds the rows of its batch, n and k, sorted by m, and beside() the ones on both
//      sides: m = 2048 below and m = 4096 from there on.  A row of m = 3000 would be the answer.
//   2. 2048 and 4096 are an octave apart, and along_m() takes rows at most kDense apart.  Had there
//      been rows of m = 2816 and 3072 with ratios of 1.02 and 1.04, the ratio in between, straight
//      over log m, would be the answer: 600 us x 1.035.
//   3. from_neighbors() asks the k-d tree for the 16 nearest rows of any n and k.  Idle tiles move
//      them further away: 3000 rows are 23.4 tiles of 128, so rows that also leave half a tile
//      empty stay near.  The weighted mean of their log ratios (neighbors.h) is, say, log2 of 1.03.
//   4. own_residual() asks the same question for the rows of m = 2048 and 4096, leaving each out of
//      its own neighbours.  If they are 2 % slower than their neighbours say, products of this n
//      and k are slower, and a part of the 2 % is added: the less of it, the further away those
//      rows are in m.

#include "calibrate/table/gemm_prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "calibrate/table/table_text.h"
#include "sim/check.h"
#include "sim/log_exp.h"
#include "sim/random.h"

namespace stepcast {
namespace {

constexpr size_t kEnoughRows = 8;  // of a layout or of batched products to go by them alone
constexpr double kFarAway = 1.5;   // octaves: beyond this batched neighbours are no evidence
constexpr size_t kNearestProducts = 16;
constexpr double kDense = 0.33;      // octaves of m, a factor of 1.25: rows that close are a curve
constexpr double kIdleScale = 0.15;  // idle share that is as far as a distance of 1
constexpr double kOwnReach = 0.5;    // octaves of m over which rows of one (n, k) err alike
constexpr double kNoReason = 1;      // weight of: they do not

// A factor in m moves the rate more than one in n or k does: it decides how tiles fill the GPU.
// Scales, like the distances of neighbors.h, were chosen by cross-validation over all sets of
// measured products together (docs/costs.md).
constexpr double kScaleOfM = 2, kScaleOfWeights = 0.5;

Place coordinates(const Work& w) {
  const auto log = [](int64_t size) { return exact_log2(static_cast<double>(size)); };
  if (w.batch > 1) return {log(w.m), log(w.n), log(w.k), 0.5 * log(w.batch)};
  return {kScaleOfM * log(w.m), kScaleOfWeights * log(w.n), kScaleOfWeights * log(w.k), 0};
}

double gemm_bytes(const Work& w) {
  const auto m = static_cast<double>(w.m);
  const auto n = static_cast<double>(w.n);
  const auto k = static_cast<double>(w.k);
  const double in = bytes_per_element(w.dtype);
  // fp8 and fp4 products are written in 16 bits; an accumulating one reads its output as well.
  const double out = w.accumulate ? 2 * bytes_per_element(w.sum) : std::max(in, 2.0);
  return static_cast<double>(w.batch) * (in * (m * k + k * n) + out * m * n);
}

// Forward: reads Q, K, V, writes O.  Backward: reads those and dO, writes dQ, dK, dV.
double attention_bytes(const Work& w) {
  const auto rows = static_cast<double>(w.m) * static_cast<double>(w.heads);
  const auto columns = static_cast<double>(w.n) * static_cast<double>(w.kv_heads);
  const double tensors =
      w.kind == WorkKind::attention_forward ? 2 * rows + 2 * columns : 4 * rows + 4 * columns;
  // As many tensors are as wide as queries as are as wide as values.
  const double width = static_cast<double>(w.value_dim > 0 ? w.k + w.value_dim : 2 * w.k) / 2;
  return tensors * width * static_cast<double>(w.batch) * bytes_per_element(w.dtype);
}

// More than any memory holds where sizes are made up.
Bytes whole_bytes(double bytes) {
  return {static_cast<int64_t>(std::min(std::ceil(bytes), 9e18))};
}

}  // namespace

Bytes operand_bytes(const Work& w) {
  if (w.bytes.value > 0) return w.bytes;
  switch (w.kind) {
    case WorkKind::gemm:
    case WorkKind::grouped_gemm: return whole_bytes(gemm_bytes(w));
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: return whole_bytes(attention_bytes(w));
    default: return w.bytes;
  }
}

IdleShares idle_shares(int64_t m, int64_t n, int64_t batch, int64_t sms) {
  constexpr std::array<std::array<int64_t, 2>, 4> kTiles{
      {{128, 128}, {128, 256}, {256, 128}, {64, 128}}};
  constexpr double kManyWaves = 0x1p40;  // of which the last one is nothing
  const double used = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(batch);
  IdleShares idle{};
  for (size_t i = 0; i < kTiles.size(); ++i) {
    const auto [rows, columns] = kTiles[i];
    // As doubles: whole up to 2^53, and sizes that a file may name have products beyond int64_t.
    const double tiles = static_cast<double>((m + rows - 1) / rows) *
                         static_cast<double>((n + columns - 1) / columns) *
                         static_cast<double>(batch);
    const double full = tiles / static_cast<double>(sms);
    double waves = full;
    if (full < kManyWaves) {
      waves = static_cast<double>(static_cast<int64_t>(full));
      if (waves * static_cast<double>(sms) < tiles) ++waves;
    }
    idle[i] = 1 - used / (waves * static_cast<double>(sms) * static_cast<double>(rows * columns));
  }
  return idle;
}

double smooth_time(const Work& work, const FitRow& fit) {
  const double c = work.flops.value / (fit.tflops * 1e6);
  const double m =
      fit.gbs > 0 ? static_cast<double>(operand_bytes(work).value) / (fit.gbs * 1e3) : 0;
  return fit.t0_us + std::sqrt(c * c + m * m);
}

PriceForm form_of(const Work& work, const FitRow& fit) {
  return {.source = row_text(fit),
          .t0_us = fit.t0_us,
          .flops = work.flops.value,
          .tflops = fit.tflops,
          .bytes = static_cast<double>(operand_bytes(work).value),
          .gbs = fit.gbs,
          .us = smooth_time(work, fit)};
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

size_t GemmPrices::Hash::operator()(const Weights& w) const {
  return hash_of_sizes({w.batch, w.n, w.k});
}

GemmPrices::GemmPrices(const TableText& table) : fits_(table.fits) {
  layout_ratio_ = {1, table.ratio_nn.value_or(1), table.ratio_nt.value_or(1)};
  skinny_ = exact_log2(table.ratio_skinny.value_or(1));
  for (const GemmRow& r : table.gemms) {
    const DType dtype = table_dtype(r.dtype);
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
      return g.dtype == dtype && g.layout == r.layout && g.batched == (r.batch > 1);
    });
    if (group == groups_.end()) {
      groups_.emplace_back();
      group = groups_.end() - 1;
      group->dtype = dtype;
      group->layout = r.layout;
      group->batched = r.batch > 1;
    }
    add(*group, r, find_fit(fits_, WorkKind::gemm, dtype), table.sources[r.source]);
  }
  for (Group& g : groups_) finish(g);
}

void GemmPrices::add(Group& g, const GemmRow& r, const FitRow* fit, const TableSource& source) {
  const Work w = work_of(r);
  const double ratio = fit == nullptr ? 1 : r.us / smooth_time(w, *fit);
  const Place at = coordinates(w);
  const double log_m = at[0] / (r.batch > 1 ? 1 : kScaleOfM);
  const bool derived = source.derived, in_training = source.in_training();
  g.rows.push_back({r.m, r.n, r.k, r.batch, log_m, r.us, ratio, derived, in_training, r.dtype});
  g.points.push_back({at, exact_log2(ratio), derived, in_training});
}

void GemmPrices::finish(Group& g) {
  g.index = NeighborIndex(g.points);
  g.low = g.high = g.points.front().at;
  for (const Neighbor& p : g.points) {
    for (size_t i = 0; i < p.at.size(); ++i) {
      g.low[i] = std::min(g.low[i], p.at[i]);
      g.high[i] = std::max(g.high[i], p.at[i]);
    }
  }
  // Rows by weights: counted, then each put where those of its weights begin.
  std::vector<uint32_t> of_row(g.rows.size());
  std::vector<Weights> weights;
  std::vector<Range> ranges;
  for (size_t i = 0; i < g.rows.size(); ++i) {
    const Weights its{g.rows[i].batch, g.rows[i].n, g.rows[i].k};
    const auto fresh = static_cast<uint32_t>(ranges.size());
    of_row[i] = g.by_weights.try_emplace(its, fresh, 0).first->second.first;
    if (of_row[i] == fresh) {
      weights.push_back(its);
      ranges.emplace_back(0, 0);
    }
    ++ranges[of_row[i]].second;
  }
  uint32_t begin = 0;
  for (Range& range : ranges) {
    const uint32_t count = range.second;
    range = {begin, begin};
    begin += count;
  }
  g.by_m.resize(g.rows.size());
  for (size_t i = 0; i < g.rows.size(); ++i) {
    g.by_m[ranges[of_row[i]].second++] = {g.rows[i].m, static_cast<uint32_t>(i)};
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    std::sort(
        g.by_m.begin() + ranges[i].first, g.by_m.begin() + ranges[i].second,
        [](const RowAt& a, const RowAt& b) { return a.m != b.m ? a.m < b.m : a.row < b.row; });
    g.by_weights[weights[i]] = ranges[i];
  }
}

void GemmPrices::mark_derived() {
  for (Group& group : groups_) {
    for (Neighbor& p : group.points) p.derived = true;
    for (Row& r : group.rows) r.derived = true;
  }
}

const GemmPrices::Group* GemmPrices::find(DType dtype, GemmLayout layout, bool batched) const {
  for (const Group& g : groups_) {
    if (g.dtype == dtype && g.layout == layout && g.batched == batched) return &g;
  }
  return nullptr;
}

GemmPrices::Beside GemmPrices::beside(const Group& group, const Work& w) {
  const auto found = group.by_weights.find({w.batch, w.n, w.k});
  if (found == group.by_weights.end()) return {};
  const auto [first, last] = found->second;
  const auto begin = group.by_m.begin() + first, end = group.by_m.begin() + last;
  const auto from =
      std::lower_bound(begin, end, w.m, [](const RowAt& r, int64_t m) { return r.m < m; });
  return {from == begin ? -1 : int64_t{(from - 1)->row}, from == end ? -1 : int64_t{from->row}};
}

PriceRow GemmPrices::part_of(const Group& group, int64_t row) {
  const Row& r = group.rows[static_cast<size_t>(row)];
  return {.row = row_text(GemmRow{r.dtype, group.layout, r.m, r.n, r.k, r.batch}),
          .us = r.us,
          .ratio = r.ratio};
}

std::optional<TablePrice> GemmPrices::exact(const Group& group, Beside rows, const Work& w,
                                            PriceParts* parts) {
  // A row answers for operands of its own format; other formats take its ratio to the form.
  const bool narrow = w.accumulate && w.sum != DType::fp32;
  if (rows.from < 0 || w.bytes.value > 0 || narrow) return std::nullopt;
  const Row& row = group.rows[static_cast<size_t>(rows.from)];
  if (row.m != w.m) return std::nullopt;
  if (parts != nullptr) parts->row = part_of(group, rows.from);
  return TablePrice{
      row.us, row.derived ? Origin::extrapolated : Origin::measured, {}, row.in_training};
}

std::optional<TablePrice> GemmPrices::along_m(const Group& group, Beside rows, const Work& w,
                                              double smooth, PriceParts* parts) {
  if (rows.from < 0) return std::nullopt;
  const Row& b = group.rows[static_cast<size_t>(rows.from)];
  TablePrice price;
  const auto tell = [&](double ratio, double weight_of_b) {
    if (parts == nullptr) return;
    PriceFactor& factor = parts->factors.emplace_back();
    factor = {"rows of this n and k, straight over log m", ratio, {}};
    if (weight_of_b < 1) factor.rows.push_back(part_of(group, rows.below));
    if (weight_of_b < 1) factor.rows.back().weight = 1 - weight_of_b;
    factor.rows.push_back(part_of(group, rows.from));
    factor.rows.back().weight = weight_of_b;
  };
  if (b.m == w.m) {
    tell(b.ratio, 1);
    price.us = smooth * b.ratio;
    price.origin = b.derived ? Origin::extrapolated : Origin::measured;
    price.in_training = b.in_training;
    return price;
  }
  if (rows.below < 0) return std::nullopt;
  const Row& a = group.rows[static_cast<size_t>(rows.below)];
  if (b.log_m - a.log_m > kDense) return std::nullopt;
  const double x = (exact_log2(static_cast<double>(w.m)) - a.log_m) / (b.log_m - a.log_m);
  const double ratio = a.ratio + (b.ratio - a.ratio) * x;
  tell(ratio, x);
  price.us = smooth * ratio;
  price.origin = a.derived || b.derived ? Origin::extrapolated : Origin::interpolated;
  price.in_training = a.in_training && b.in_training;
  price.basis = {.from = TableBasis::From::rows_beside, .low = a.m, .high = b.m};
  return price;
}

double GemmPrices::prior(int64_t m, int64_t n, int64_t k) const {
  return std::min({m, n, k}) <= kSkinnySide ? skinny_ : 0;
}

Residual GemmPrices::residual(const Group& group, const Place& at, const Row& shape, double prior,
                              int64_t sms, uint32_t without, PriceParts* parts) {
  std::array<Near, kNearestProducts> near;
  const size_t count = group.index.nearest(at, near, without);
  if (sms > 0) {
    const IdleShares idle = idle_shares(shape.m, shape.n, shape.batch, sms);
    for (size_t i = 0; i < count; ++i) {
      const Row& r = group.rows[near[i].index];
      const IdleShares other = idle_shares(r.m, r.n, r.batch, sms);
      double squares = 0;
      for (size_t t = 0; t < idle.size(); ++t) {
        squares += (idle[t] - other[t]) * (idle[t] - other[t]);
      }
      near[i].distance += squares / (kIdleScale * kIdleScale);
    }
  }
  const std::span<const Near> found = std::span(near).first(count);
  const Residual r = mean_residual(found, group.points, prior);
  if (parts != nullptr)
    parts->factors.push_back(factor_of(r, found, group.points, prior,
                                       prior == 0 ? "the form itself" : "ratio,skinny",
                                       [&](uint32_t row) { return part_of(group, row); }));
  return r;
}

double GemmPrices::own_residual(const Group& group, Beside rows, double log_m, int64_t sms,
                                PriceParts* parts) const {
  double sum = 0, weights = kNoReason;
  PriceFactor factor{"rows of this n and k over the mean of their own nearest", 1, {}};
  for (const int64_t i : {rows.below, rows.from}) {
    const auto index = static_cast<size_t>(i);
    const Row& row = group.rows[index];
    const Residual expected =
        residual(group, group.points[index].at, row, prior(row.m, row.n, row.k), sms,
                 static_cast<uint32_t>(index), nullptr);
    const double octaves = (log_m - row.log_m) / kOwnReach;
    const double weight = 1 / (1 + octaves * octaves);
    const double differs = group.points[index].residual - expected.value;
    sum += weight * differs;
    weights += weight;
    if (parts == nullptr) continue;
    PriceRow& part = factor.rows.emplace_back(part_of(group, i));
    part.ratio = exact_exp2(differs);
    part.distance = octaves * octaves;
    part.weight = weight;
  }
  if (parts != nullptr) {
    factor.value = exact_exp2(sum / weights);
    factor.rows.push_back({"none", 0, 1, 0, kNoReason});
    for (PriceRow& row : factor.rows) row.weight /= weights;
    parts->factors.push_back(std::move(factor));
  }
  return sum / weights;
}

TablePrice GemmPrices::from_neighbors(const Group& group, Beside rows, const Work& w, double smooth,
                                      int64_t sms, PriceParts* parts) const {
  Place at = coordinates(w);
  bool inside = w.batch == 1;
  for (size_t i = 0; i < 3 && w.batch == 1 && !group.points.empty(); ++i) {
    // Outside the hull: the residual at its edge.
    const double clamped = std::clamp(at[i], group.low[i], group.high[i]);
    inside = inside && clamped == at[i];
    at[i] = clamped;
  }
  const double log_m = exact_log2(static_cast<double>(w.m));
  const Row shape{w.m, w.n, w.k, w.batch, log_m, 0, 0, false, false, w.dtype};
  Residual r = residual(group, at, shape, prior(w.m, w.n, w.k), sms, NeighborIndex::kNone, parts);
  if (rows.below >= 0 && rows.from >= 0) {
    r.value += own_residual(group, rows, log_m, sms, parts);
    for (const int64_t i : {rows.below, rows.from})
      r.derived = r.derived || group.rows[static_cast<size_t>(i)].derived;
  }
  TablePrice price;
  price.us = smooth * exact_exp2(r.value);
  price.origin = inside && !r.derived ? Origin::interpolated : Origin::extrapolated;
  price.in_training = r.in_training;
  price.basis = {.from = TableBasis::From::nearest_rows, .used = r.used};
  return price;
}

// Where no similar shape was measured, the mean of distant ones is no better than the prior.
TablePrice GemmPrices::far_from_rows(const Work& work, double smooth, PriceParts* parts) const {
  const double ratio = exact_exp2(prior(work.m, work.n, work.k));
  if (parts != nullptr && ratio != 1) parts->factors.push_back({"ratio,skinny", ratio, {}});
  return {smooth * ratio, Origin::extrapolated, {.from = TableBasis::From::nearest_rows}};
}

std::optional<TablePrice> GemmPrices::time(const Work& work, int64_t sms, PriceParts* parts) const {
  STEPCAST_CHECK(work.m > 0 && work.n > 0 && work.k > 0 && work.batch > 0, describe(work));
  const DType dtype = table_dtype(work.dtype);
  const bool batched = work.batch > 1;
  const Group* group = find(dtype, work.layout, batched);
  Beside rows = group == nullptr ? Beside{} : beside(*group, work);
  if (group != nullptr) {
    if (auto found = exact(*group, rows, work, parts)) return found;
  }
  const FitRow* fit = find_fit(fits_, WorkKind::gemm, dtype);
  if (fit == nullptr) return std::nullopt;
  const double smooth = smooth_time(work, *fit);
  if (parts != nullptr) parts->form = form_of(work, *fit);
  if (group != nullptr) {
    if (auto found = along_m(*group, rows, work, smooth, parts)) return found;
  }
  if (batched) {
    return group != nullptr && is_near(*group, rows, work)
               ? from_neighbors(*group, rows, work, smooth, sms, parts)
               : far_from_rows(work, smooth, parts);
  }
  const bool too_few = group == nullptr || group->points.size() < kEnoughRows;
  const bool borrowed = too_few && work.layout != GemmLayout::tn;
  if (borrowed) {
    group = find(dtype, GemmLayout::tn, false);
    rows = group == nullptr ? Beside{} : beside(*group, work);
  }
  if (group == nullptr) return std::nullopt;
  std::optional<TablePrice> price = along_m(*group, rows, work, smooth, parts);
  if (!price) price = from_neighbors(*group, rows, work, smooth, sms, parts);
  if (borrowed) {
    const double ratio = layout_ratio_[static_cast<size_t>(work.layout)];
    if (parts != nullptr)
      parts->factors.push_back({"ratio," + std::string(name_of(work.layout)), ratio, {}});
    price->us *= ratio;
    price->origin = Origin::extrapolated;
    price->basis.other_layout = true;
  }
  return price;
}

bool GemmPrices::is_near(const Group& group, Beside rows, const Work& work) {
  if (rows.from >= 0) return true;
  std::array<Near, 1> near;
  return group.index.nearest(coordinates(work), near) > 0 &&
         near[0].distance <= kFarAway * kFarAway;
}

std::optional<TablePrice> GemmPrices::grouped_time(const Work& work, int64_t sms,
                                                   PriceParts* parts) const {
  Work one = work;
  one.kind = WorkKind::gemm;
  if (work.batch == 1) return time(one, sms, parts);
  const Group* group = find(table_dtype(work.dtype), work.layout, true);
  if (group != nullptr && is_near(*group, beside(*group, one), one)) return time(one, sms, parts);
  one.m *= work.batch;
  one.batch = 1;
  std::optional<TablePrice> price = time(one, sms, parts);
  const FitRow* fit = find_fit(fits_, WorkKind::gemm, work.dtype);
  if (!price || fit == nullptr) return std::nullopt;
  const double ratio = smooth_time(work, *fit) / smooth_time(one, *fit);
  if (parts != nullptr)
    parts->factors.push_back(
        {fmt::format("form of {} groups' operands over that of one product", work.batch),
         ratio,
         {}});
  price->us *= ratio;
  price->origin = Origin::extrapolated;
  price->basis.groups = work.batch;
  return price;
}

}  // namespace stepcast
