// SPDX-License-Identifier: Apache-2.0
// Pictures of a cost table: measured against fit.
#include <algorithm>

#include "calibrate/fit/fit_table.h"
#include "calibrate/table/attention_prices.h"
#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/table_text.h"
#include "sim/log_exp.h"
#include "tools/calibrate_shapes.h"
#include "tools/calibrate_view.h"

namespace stepcast::cli {
namespace {

constexpr int kCurvePoints = 60;

PlotSeries& series_of(FitPlot& plot, const std::string& name) {
  for (PlotSeries& s : plot.series)
    if (s.name == name) return s;
  plot.series.push_back({name, {}, {}});
  return plot.series.back();
}

// So many values from the least x of the points to their greatest, in equal ratios.
std::vector<double> steps(const PlotSeries& series) {
  double least = 0, most = 0;
  for (const PlotPoint& p : series.points) {
    if (least == 0 || p.x < least) least = p.x;
    most = std::max(most, p.x);
  }
  std::vector<double> all;
  if (!(least > 0 && most > least)) return all;
  const double low = exact_log2(least), high = exact_log2(most);
  for (int i = 0; i <= kCurvePoints; ++i)
    all.push_back(exact_exp2(low + (high - low) * i / kCurvePoints));
  return all;
}

// "gemm bf16 tn 4096 4096 4096 1: 243 us, fit 251 us".
template <class Row>
PlotPoint point(const TableText& t, const Row& row, double x, double y, double fitted) {
  std::string title = row_text(row);
  std::replace(title.begin(), title.end(), ',', ' ');
  title += ": " + micros_text(row.us);
  if (fitted > 0) title += ", fit " + micros_text(fitted);
  return {x, y, t.sources[row.source].derived, std::move(title)};
}

// The curve is of square products, whose sides follow from their flops.
FitPlot gemm_plot(const TableText& t) {
  FitPlot plot{"Matrix products", "operations of one product", "FLOP", "rate", "FLOP/s", {}, ""};
  for (const GemmRow& r : t.gemms) {
    const double flops = work_of(r).flops.value;
    const std::string name = std::string(name_of(r.dtype)) + ' ' + std::string(name_of(r.layout)) +
                             (r.batch > 1 ? " batched" : "");
    series_of(plot, name)
        .points.push_back(point(t, r, flops, flops / (r.us * 1e-6), fitted_us(t, r).value_or(0)));
  }
  for (const GemmRow& r : t.gemms) {
    if (r.layout != GemmLayout::tn || r.batch > 1) continue;
    const FitRow* fit = find_fit(t.fits, WorkKind::gemm, table_dtype(r.dtype));
    PlotSeries& s = series_of(plot, std::string(name_of(r.dtype)) + " tn");
    if (fit == nullptr || !s.curve.empty()) continue;
    plot.curve_name = "fit, square products";
    for (const double flops : steps(s)) {
      GemmRow square = r;
      const double side = exact_exp2(exact_log2(flops / 2) / 3);
      square.m = square.n = square.k = std::max<int64_t>(1, static_cast<int64_t>(side + 0.5));
      const Work w = work_of(square);
      s.curve.emplace_back(w.flops.value, w.flops.value / (smooth_time(w, *fit) * 1e-6));
    }
  }
  return plot;
}

// Over the x of all points of the series that `belongs` is true for.
template <class Belongs, class Time>
void add_curve(FitPlot& plot, const std::string& name, Belongs belongs, Time y_of) {
  PlotSeries all;
  for (const PlotSeries& s : plot.series)
    if (belongs(s)) all.points.insert(all.points.end(), s.points.begin(), s.points.end());
  PlotSeries line{name, {}, {}};
  for (const double x : steps(all)) line.curve.emplace_back(x, y_of(x));
  if (!line.curve.empty()) plot.series.push_back(std::move(line));
}

FitPlot attention_plot(const TableText& t) {
  FitPlot plot{"Fused attention", "operations of one call", "FLOP", "rate", "FLOP/s", {}, ""};
  for (const AttentionRow& r : t.attentions) {
    const double flops = attention_flops(r).value;
    const std::string name = std::string(r.backward ? "backward" : "forward") +
                             (r.causal ? " causal" : "") + ", head dimension " +
                             std::to_string(r.k);
    series_of(plot, name)
        .points.push_back(point(t, r, flops, flops / (r.us * 1e-6), fitted_us(t, r).value_or(0)));
  }
  for (const FitRow& fit : t.fits) {
    const bool backward = fit.kind == WorkKind::attention_backward;
    if (!backward && fit.kind != WorkKind::attention_forward) continue;
    const std::string pass = backward ? "backward" : "forward";
    add_curve(
        plot, "fit, " + pass + ' ' + std::string(name_of(fit.dtype)),
        [&](const PlotSeries& s) { return s.name.starts_with(pass); },
        [&](double flops) { return flops / ((fit.t0_us + flops / (fit.tflops * 1e6)) * 1e-6); });
  }
  return plot;
}

FitPlot memory_plot(const TableText& t) {
  FitPlot plot{"Memory-bound kernels", "bytes read and written", "B", "time", "s", {}, ""};
  for (const MemoryRow& r : t.memories)
    series_of(plot, std::string(name_of(r.kernel)))
        .points.push_back(
            point(t, r, static_cast<double>(r.bytes), r.us * 1e-6, fitted_us(t, r).value_or(0)));
  const FitRow* fit = find_fit(t.fits, WorkKind::memory_bound, DType::bf16);
  if (fit == nullptr || fit->gbs <= 0) return plot;
  add_curve(
      plot, "launch period + bytes / bandwidth", [](const PlotSeries&) { return true; },
      [&](double bytes) { return (fit->t0_us + bytes / (fit->gbs * 1e3)) * 1e-6; });
  return plot;
}

std::vector<FitPlot> collective_plots(const TableText& t) {
  std::vector<FitPlot> plots;
  const auto plot_of = [&](WorkKind kind) -> FitPlot& {
    std::string title(name_of(kind));
    std::replace(title.begin(), title.end(), '_', '-');
    title.front() = static_cast<char>(title.front() - 'a' + 'A');
    for (FitPlot& p : plots)
      if (p.title == title) return p;
    plots.push_back({title, "size", "B", "bus bandwidth", "B/s", {}, ""});
    return plots.back();
  };
  for (const CollectiveRow& r : t.collectives) {
    const double bytes = static_cast<double>(r.bytes);
    series_of(plot_of(r.kind), group_text(r.ranks, r.nodes, r.nic_gbs))
        .points.push_back(
            point(t, r, bytes, bus_factor(r.kind, r.ranks) * bytes / (r.us * 1e-6), 0));
  }
  for (const CollectiveLine& l : collective_lines(t)) {
    FitPlot& plot = plot_of(l.kind);
    PlotSeries& s = series_of(plot, group_text(l.ranks, l.nodes, l.nic_gbs));
    if (!s.curve.empty()) continue;
    plot.curve_name = "alpha-beta, for comparison";
    for (const double bytes : steps(s))
      s.curve.emplace_back(bytes, bus_factor(l.kind, l.ranks) * bytes /
                                      ((l.line.alpha_us + l.line.us_per_byte * bytes) * 1e-6));
  }
  return plots;
}

FitPlot copy_plot(const TableText& t) {
  FitPlot plot{"Copies", "bytes copied", "B", "bandwidth", "B/s", {}, ""};
  for (const CopyRow& r : t.copies) {
    const double bytes = static_cast<double>(r.bytes);
    series_of(plot, std::string(name_of(r.kind)))
        .points.push_back(point(t, r, bytes, bytes / (r.us * 1e-6), 0));
  }
  return plot;
}

}  // namespace

std::vector<FitPlot> fit_plots(const TableText& table) {
  std::vector<FitPlot> plots{gemm_plot(table), attention_plot(table), memory_plot(table)};
  for (FitPlot& p : collective_plots(table)) plots.push_back(std::move(p));
  plots.push_back(copy_plot(table));
  return plots;
}

}  // namespace stepcast::cli
