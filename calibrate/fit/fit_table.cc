// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit/fit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "calibrate/price/roofline.h"
#include "calibrate/table/attention_prices.h"
#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/table_text.h"
#include "calibrate/table/write_table.h"
#include "sim/check.h"
#include "sim/statistics.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr std::string_view kFitText =
    "fitted to the rows of this table: least squares of relative errors, "
    "reweighted by Huber's function; ratios are medians";
// A kernel takes no less (te42kyfo/gpu-benches, gpu-small-kernels: 2.6 us on an A100, 2.5 on an
// H200).
constexpr double kLaunchPeriod = 2.5;
// The form of attention: its rows are large, and what holds back smaller ones is not their launch.
constexpr double kAttentionStart = 10;
constexpr double kScattered = 2;    // times faster or slower than the fit, a tenth of the rows
constexpr double kOdd = 5;          // times faster or slower than the fit
constexpr size_t kMostOdd = 5;      // of them named, for each fit
constexpr size_t kLeastShapes = 3;  // of a ratio
constexpr int64_t kLarge = 1024;    // sides of shapes that ratios of layouts are taken from

// A row with what its fit needs to know of it.
struct Measured {
  KernelTime time;
  std::string row;
};

Measured measured(const GemmRow& r) {
  const Work w = work_of(r);
  return {{w.flops.value, static_cast<double>(operand_bytes(w).value), r.us}, row_text(r)};
}

Measured measured(const AttentionRow& r) {
  return {{attention_flops(r).value, 0, r.us}, row_text(r)};
}

// The rate of the form stands for the bandwidth.
Measured measured(const MemoryRow& r) {
  return {{static_cast<double>(r.bytes), 0, r.us}, row_text(r)};
}

double four_decimals(double value) {
  return std::round(value * 1e4) / 1e4;
}

class Fitter {
 public:
  explicit Fitter(TableText table) : t_(std::move(table)) {
    check_rows(t_);
    sort_rows(t_);
    remove_own();
  }

  FittedTable fit() {
    fit_gemms();
    fit_attentions();
    fit_memories();
    fit_ratios();
    if (!t_.collectives.empty() && t_.nvlink_gbs == 0)
      remarks_.emplace_back(
          "collectives answer nothing without the NVLink they ran on: nvlink_gbs");
    sort_rows(t_);
    check_rows(t_);  // what the reader would refuse is not to be written
    return {std::move(t_), std::move(remarks_)};
  }

 private:
  bool is_own(uint16_t source) const { return t_.sources[source].key == kFitSource; }

  void remove_own() {
    std::erase_if(t_.fits, [&](const FitRow& f) { return is_own(f.source); });
    const auto remove = [&](std::optional<double>& ratio, uint16_t source) {
      if (ratio && is_own(source)) ratio.reset();
    };
    remove(t_.ratio_nn, t_.ratio_nn_source);
    remove(t_.ratio_nt, t_.ratio_nt_source);
    remove(t_.ratio_skinny, t_.ratio_skinny_source);
    drop_unused_sources(t_);
  }

  // Where sources of rows end and those of fits begin differs between tables: the fitter's is last.
  uint16_t own_source() {
    const auto own = std::ranges::find(t_.sources, kFitSource, &TableSource::key);
    const auto place = own - t_.sources.begin();
    STEPCAST_CHECK(place <= UINT16_MAX, "too many sources");
    if (own == t_.sources.end())
      t_.sources.push_back({std::string(kFitSource), true, std::string(kFitText)});
    return static_cast<uint16_t>(place);
  }

  void remark(const FitRow& f, const std::string& text) {
    remarks_.push_back(std::string(name_of(f.kind)) + ' ' + std::string(name_of(f.dtype)) + ": " +
                       text);
  }

  // Fits `rows` unless the table has a fit of these works from somewhere else; states residuals of
  // either.
  void add_fit(WorkKind kind, DType dtype, const std::vector<Measured>& rows,
               const RooflineTerms& terms, double assumed_t0_us = kLaunchPeriod) {
    if (rows.empty()) return;
    const auto known = std::ranges::find_if(
        t_.fits, [&](const FitRow& f) { return f.kind == kind && table_dtype(f.dtype) == dtype; });
    if (known != t_.fits.end()) return compare(rows, *known);
    std::vector<KernelTime> points;
    points.reserve(rows.size());
    for (const Measured& m : rows) points.push_back(m.time);
    const SmoothRoofline form = fit_known_terms(points, terms, assumed_t0_us);
    FitRow f;
    f.kind = kind;
    f.dtype = dtype;
    f.t0_us = rounded(form.t0_us, 5);
    f.source = own_source();
    if (kind == WorkKind::memory_bound) {
      f.gbs = rounded(form.tflops * 1e3, 5);
    } else {
      f.tflops = rounded(form.tflops, 5);
      f.gbs = rounded(form.gbs, 5);
    }
    const bool alike = std::ranges::all_of(
        points, [&](const KernelTime& p) { return p.flops == points[0].flops; });
    const bool partial = alike || (terms.t0 && form.t0_error == 0) || (terms.gbs && form.gbs == 0);
    if (partial) f.flag = FitFlag::partial;
    compare(rows, f);
    t_.fits.push_back(f);
  }

  static SmoothRoofline form_of(const FitRow& f) {
    // See measured(MemoryRow).
    if (f.kind == WorkKind::memory_bound) return {.t0_us = f.t0_us, .tflops = f.gbs / 1e3};
    return {.t0_us = f.t0_us, .tflops = f.tflops, .gbs = f.gbs};
  }

  // Residuals, the flag that follows from them, and what to remark about them.
  void compare(const std::vector<Measured>& rows, FitRow& f) {
    const SmoothRoofline form = form_of(f);
    if (form.tflops <= 0) return;  // the launch period alone
    std::vector<double> errors, factors;
    size_t odd = 0;
    for (const Measured& m : rows) {
      const double ratio = m.time.us / fitted_us(form, m.time);
      errors.push_back(std::fabs(ratio - 1));
      factors.push_back(std::max(ratio, 1 / ratio));
      if (factors.back() <= kOdd || ++odd > kMostOdd) continue;
      remark(f, fmt::format("{} takes {} times what the fit says", m.row,
                            exact_text(rounded(ratio, 3))));
    }
    if (odd > kMostOdd)
      remark(f, fmt::format("{} more {} off by more than five times", odd - kMostOdd,
                            odd == kMostOdd + 1 ? "row is" : "rows are"));
    f.rows = std::ssize(rows);
    f.median_error = four_decimals(upper_quantile(errors, 0.5));
    f.p90_error = four_decimals(upper_quantile(errors, 0.9));
    if (upper_quantile(factors, 0.9) > kScattered) f.flag = FitFlag::scattered;
    if (f.flag == FitFlag::none) return;
    remark(f, f.flag == FitFlag::scattered
                  ? fmt::format("a tenth of the {} rows is off by more than a factor of two",
                                rows.size())
                  : fmt::format("{} {} not tell every constant of the form", rows.size(),
                                rows.size() == 1 ? "row does" : "rows do"));
  }

  // The plainest products that there are: tn alone; in any layout; batched.
  template <class Take>
  std::vector<Measured> gemms_of(DType dtype, Take take) const {
    std::vector<Measured> rows;
    for (const GemmRow& r : t_.gemms) {
      if (table_dtype(r.dtype) == dtype && take(r)) rows.push_back(measured(r));
    }
    return rows;
  }

  void fit_gemms() {
    for (const DType dtype : dtypes(t_.gemms)) {
      std::vector<Measured> rows = gemms_of(
          dtype, [](const GemmRow& r) { return r.batch == 1 && r.layout == GemmLayout::tn; });
      if (rows.empty()) rows = gemms_of(dtype, [](const GemmRow& r) { return r.batch == 1; });
      if (rows.empty()) rows = gemms_of(dtype, [](const GemmRow&) { return true; });
      add_fit(WorkKind::gemm, dtype, rows, {});
    }
  }

  template <class Row>
  static std::vector<DType> dtypes(const std::vector<Row>& rows) {
    std::vector<DType> all;
    for (const Row& r : rows) {
      const DType dtype = table_dtype(r.dtype);
      if (std::ranges::find(all, dtype) == all.end()) all.push_back(dtype);
    }
    return all;
  }

  void fit_attentions() {
    for (const DType dtype : dtypes(t_.attentions)) {
      for (const bool backward : {false, true}) {
        std::vector<Measured> rows;
        for (const AttentionRow& r : t_.attentions) {
          if (table_dtype(r.dtype) == dtype && r.backward == backward) rows.push_back(measured(r));
        }
        add_fit(backward ? WorkKind::attention_backward : WorkKind::attention_forward, dtype, rows,
                {.t0 = false, .gbs = false}, kAttentionStart);
      }
    }
  }

  void fit_memories() {
    std::vector<Measured> rows;
    for (const MemoryRow& r : t_.memories) rows.push_back(measured(r));
    add_fit(WorkKind::memory_bound, DType::bf16, rows, {.t0 = true, .gbs = false});
  }

  void fit_ratios() {
    add_ratio(t_.ratio_nn, t_.ratio_nn_source, layout_ratios(GemmLayout::nn));
    add_ratio(t_.ratio_nt, t_.ratio_nt_source, layout_ratios(GemmLayout::nt));
    add_ratio(t_.ratio_skinny, t_.ratio_skinny_source, skinny_ratios());
  }

  void add_ratio(std::optional<double>& place, uint16_t& source, std::vector<double> ratios) {
    if (place || ratios.size() < kLeastShapes) return;
    place = rounded(upper_quantile(ratios, 0.5), 4);
    source = own_source();
  }

  std::vector<double> layout_ratios(GemmLayout layout) const {
    // Within one source: another one may have measured differently.
    const auto key = [](const GemmRow& r) { return std::tuple(r.source, r.dtype, r.m, r.n, r.k); };
    std::map<decltype(key(GemmRow())), double> forward;
    for (const GemmRow& r : t_.gemms) {
      if (r.layout == GemmLayout::tn && r.batch == 1) forward.try_emplace(key(r), r.us);
    }
    std::vector<double> large, all;
    for (const GemmRow& r : t_.gemms) {
      if (r.layout != layout || r.batch != 1) continue;
      const auto found = forward.find(key(r));
      if (found == forward.end()) continue;
      all.push_back(r.us / found->second);
      if (std::min({r.m, r.n, r.k}) >= kLarge) large.push_back(all.back());
    }
    return large.size() >= kLeastShapes ? large : all;
  }

  std::vector<double> skinny_ratios() const {
    std::vector<double> ratios;
    for (const GemmRow& r : t_.gemms) {
      if (r.layout != GemmLayout::tn || r.batch != 1) continue;
      if (table_dtype(r.dtype) != DType::bf16 || std::min({r.m, r.n, r.k}) > kSkinnySide) continue;
      const FitRow* f = find_fit(t_.fits, WorkKind::gemm, r.dtype);
      if (f == nullptr) continue;
      const Measured m = measured(r);
      ratios.push_back(r.us / fitted_us(form_of(*f), m.time));
    }
    return ratios;
  }

  TableText t_;
  std::vector<std::string> remarks_;
};

}  // namespace

FittedTable fit_table(TableText table) {
  return Fitter(std::move(table)).fit();
}

std::vector<CollectiveLine> collective_lines(const TableText& table) {
  TableText sorted;
  sorted.sources = table.sources;
  sorted.collectives = table.collectives;
  sort_rows(sorted);
  std::vector<CollectiveLine> lines;
  std::vector<SizedTime> points;
  const auto& rows = sorted.collectives;
  const auto curve = [&](const CollectiveRow& r) { return curve_of(sorted, r); };
  for (size_t i = 0; i < rows.size(); ++i) {
    const CollectiveRow& r = rows[i];
    points.push_back({static_cast<double>(r.bytes), r.us});
    if (i + 1 < rows.size() && curve(rows[i + 1]) == curve(r)) continue;
    if (points.front().bytes < points.back().bytes) {
      lines.push_back({r.kind, r.ranks, r.nodes, r.ranks_per_node, r.nic_gbs,
                       sorted.sources[r.source].wires, std::ssize(points), fit_alpha_beta(points)});
    }
    points.clear();
  }
  return lines;
}

}  // namespace stepcast
