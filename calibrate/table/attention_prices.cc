// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/attention_prices.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <embedded/attention_files.h>

#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/row_reader.h"
#include "calibrate/table/table_text.h"
#include "sim/check.h"
#include "sim/log_exp.h"
#include "sim/random.h"

namespace stepcast {

namespace {

// A factor of two in head dimension, or the other mask, changes the kernel more than a factor of
// two in size.
constexpr double kHeadDimensionWeight = 2;
constexpr double kMaskDistance = 2;
constexpr size_t kNearestAttentions = 8;

Place coordinates(int64_t m, int64_t n, int64_t k, int64_t heads, int64_t batch, bool causal) {
  const double parallel =
      static_cast<double>(m) * static_cast<double>(heads) * static_cast<double>(batch);
  return {exact_log2(parallel), exact_log2(static_cast<double>(n)),
          kHeadDimensionWeight * exact_log2(static_cast<double>(k)), causal ? kMaskDistance : 0};
}

uint64_t hash_of(const AttentionRow& r) {
  return hash_of_sizes({r.m, r.n, r.k, r.heads, r.kv_heads, r.batch}, r.causal ? 1 : 0);
}

bool same_shape(const AttentionRow& a, const AttentionRow& b) {
  return a.m == b.m && a.n == b.n && a.k == b.k && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.batch == b.batch && a.causal == b.causal;
}

double smooth_attention(double flops, const FitRow& fit) {
  return fit.t0_us + flops / (fit.tflops * 1e6);
}

using ByKernel = std::map<std::pair<AttentionKernel, std::string>, AttentionPrices>;

// The kernel stands in the name of the file, KERNEL.GPU.csv, the GPU in its header as well.
ByKernel read_attention_files() {
  ByKernel all;
  for (const auto& [file, text] : attention_files()) {
    const std::string_view name = file.substr(file.rfind('/') + 1);
    const auto kernel = named(name.substr(0, name.find('.')), AttentionKernel::flash2);
    STEPCAST_CHECK(kernel, std::string(file));
    const TableText table = parse_table_text(text, std::string(file));
    all.try_emplace({*kernel, table.gpu}, table);
  }
  return all;
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
      groups_.push_back({r.backward, dtype, *fit, {}, {}, {}, {}, {}, {}});
      group = groups_.end() - 1;
    }
    const auto at = coordinates(r.m, r.n, r.k, r.heads, r.batch, r.causal);
    const double smooth = smooth_attention(attention_flops(r).value, *fit);
    for (size_t i = 0; i < at.size(); ++i) {
      group->low[i] = group->rows.empty() ? at[i] : std::min(group->low[i], at[i]);
      group->high[i] = group->rows.empty() ? at[i] : std::max(group->high[i], at[i]);
    }
    group->by_shape.emplace_back(hash_of(r), static_cast<uint32_t>(group->rows.size()));
    group->rows.push_back(r);
    const TableSource& source = table.sources[r.source];
    group->points.push_back({at, exact_log2(r.us / smooth), source.derived, source.in_training()});
  }
  for (Group& g : groups_) {
    g.index = NeighborIndex(g.points);
    std::sort(g.by_shape.begin(), g.by_shape.end());
  }
}

void AttentionPrices::mark_derived() {
  for (Group& g : groups_) {
    for (Neighbor& p : g.points) p.derived = true;
  }
}

std::optional<TablePrice> AttentionPrices::time(const Work& w, PriceParts* parts) const {
  STEPCAST_CHECK(w.m > 0 && w.n > 0 && w.k > 0 && w.heads > 0 && w.batch > 0, describe(w));
  const bool backward = w.kind == WorkKind::attention_backward;
  const int64_t k = w.value_dim > 0 ? (w.k + w.value_dim) / 2 : w.k;
  const DType dtype = table_dtype(w.dtype);
  const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
    return g.backward == backward && g.dtype == dtype;
  });
  if (group == groups_.end()) return std::nullopt;
  AttentionRow shape = attention_row(w);
  shape.k = k;
  // A sliding window leaves the shape alone and takes flops away: not the measured kernel.
  if (w.flops.value >= 0.99 * attention_flops(shape).value) {
    const uint64_t hash = hash_of(shape);
    auto at = std::lower_bound(group->by_shape.begin(), group->by_shape.end(), std::pair(hash, 0u));
    for (; at != group->by_shape.end() && at->first == hash; ++at) {
      if (!same_shape(group->rows[at->second], shape)) continue;
      const Neighbor& point = group->points[at->second];
      const AttentionRow& row = group->rows[at->second];
      if (parts != nullptr) parts->row = {.row = row_text(row), .us = row.us};
      return TablePrice{
          row.us, point.derived ? Origin::extrapolated : Origin::measured, {}, point.in_training};
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
  std::array<Near, kNearestAttentions> near;
  const size_t count = group->index.nearest(at, near);
  const std::span<const Near> found = std::span(near).first(count);
  const Residual r = mean_residual(found, group->points, 0);
  const double smooth = smooth_attention(w.flops.value, group->fit);
  if (parts != nullptr) {
    parts->form = {.source = row_text(group->fit),
                   .t0_us = group->fit.t0_us,
                   .flops = w.flops.value,
                   .tflops = group->fit.tflops,
                   .us = smooth};
    parts->factors.push_back(
        factor_of(r, found, group->points, 0, "the form itself", [&](uint32_t i) {
          return PriceRow{.row = row_text(group->rows[i]), .us = group->rows[i].us};
        }));
  }
  return TablePrice{smooth * exact_exp2(r.value),
                    inside && !r.derived ? Origin::interpolated : Origin::extrapolated,
                    {.from = TableBasis::From::nearest_rows, .used = r.used},
                    r.in_training};
}

const AttentionPrices* shipped_attention(AttentionKernel kernel, std::string_view gpu_name) {
  if (kernel == AttentionKernel::table) return nullptr;
  static const ByKernel all = read_attention_files();
  const auto found = all.find({kernel, std::string(gpu_name)});
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace stepcast
