// SPDX-License-Identifier: Apache-2.0
#include "tools/command/calibrate/calibrate_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "calibrate/fit/fit_table.h"
#include "calibrate/table/attention_prices.h"
#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/table_text.h"
#include "report/format.h"
#include "sim/log_exp.h"

namespace stepcast::cli {

std::optional<double> fitted_us(const TableText& table, const GemmRow& row) {
  const FitRow* fit = find_fit(table.fits, WorkKind::gemm, table_dtype(row.dtype));
  if (fit == nullptr) return std::nullopt;
  const double ratio = row.layout == GemmLayout::nn   ? table.ratio_nn.value_or(1)
                       : row.layout == GemmLayout::nt ? table.ratio_nt.value_or(1)
                                                      : 1;
  return smooth_time(work_of(row), *fit) * ratio;
}

std::optional<double> fitted_us(const TableText& table, const AttentionRow& row) {
  const FitRow* fit = find_fit(
      table.fits, row.backward ? WorkKind::attention_backward : WorkKind::attention_forward,
      table_dtype(row.dtype));
  if (fit == nullptr) return std::nullopt;
  return fit->t0_us + attention_flops(row).value / (fit->tflops * 1e6);
}

std::optional<double> fitted_us(const TableText& table, const MemoryRow& row) {
  const FitRow* fit = find_fit(table.fits, WorkKind::memory_bound, DType::bf16);
  if (fit == nullptr || fit->gbs <= 0) return std::nullopt;
  return fit->t0_us + static_cast<double>(row.bytes) / (fit->gbs * 1e3);
}

// "16 ranks on 2 nodes, 50.0 GB/s efa", "4 ranks on 1 node, nvlink3-mesh".  NVSwitches go without
// saying.
std::string group_text(int64_t ranks, int64_t nodes, double nic_gbs, Wires wires) {
  if (wires.inside && wires.inside->kind == InsideLink::Kind::nvswitch) wires.inside.reset();
  const std::string on = text_of(wires);
  std::string text = fmt::format("{} ranks on {}{}", ranks, nodes, nodes == 1 ? " node" : " nodes");
  if (nodes > 1)
    return fmt::format("{}, {} GB/s{}{}", text, rate_text(nic_gbs), on.empty() ? "" : " ", on);
  return on.empty() ? text : text + ", " + on;
}

namespace {

struct Extent {
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  void take(int64_t n) {
    least = std::min(least, n);
    most = std::max(most, n);
  }
  std::string text() const {
    return least == most ? grouped(least) : grouped(least) + '-' + grouped(most);
  }
};

std::string bytes_extent(const Extent& e) {
  const std::string least = format_bytes({e.least});
  return e.least == e.most ? least : least + " - " + format_bytes({e.most});
}

// Rows that are alike, while they are being counted.
struct Group {
  TableGroup view;
  std::array<Extent, 3> sides;
  std::vector<double> spreads;
};

// One family's rows by what they are of, in the order in which they come.
class Grouping {
 public:
  Grouping(const TableText& table, std::string family)
      : table_(table), family_(std::move(family)) {}

  template <class Row>
  Group& add(const Row& row, const std::string& what) {
    auto at = std::find_if(groups_.begin(), groups_.end(),
                           [&](const Group& g) { return g.view.what == what; });
    if (at == groups_.end()) {
      groups_.emplace_back();
      at = groups_.end() - 1;
      at->view.family = family_;
      at->view.what = what;
      at->view.least_us = row.us;
    }
    TableGroup& v = at->view;
    ++(table_.sources[row.source].derived ? v.derived : v.measured);
    v.least_us = std::min(v.least_us, row.us);
    v.longest_us = std::max(v.longest_us, row.us);
    if (row.spread > 0) at->spreads.push_back(row.spread);
    return *at;
  }

  template <class Text>
  void finish(TableView& view, Text range) {
    for (Group& g : groups_) {
      g.view.range = range(g);
      std::sort(g.spreads.begin(), g.spreads.end());
      if (!g.spreads.empty()) g.view.spread = g.spreads[g.spreads.size() / 2];
      view.groups.push_back(std::move(g.view));
    }
  }

 private:
  const TableText& table_;
  std::string family_;
  std::vector<Group> groups_;
};

std::string product_text(const GemmRow& r) {
  return "gemm " + std::string(name_of(r.dtype)) + ' ' + std::string(name_of(r.layout)) +
         (r.batch > 1 ? " batched" : "");
}

std::string pass_text(const AttentionRow& r) {
  return "attention " + std::string(name_of(r.dtype)) + (r.backward ? " backward" : " forward") +
         (r.causal ? " causal" : "");
}

void add_groups(const TableText& t, TableView& view) {
  const auto sides = [](const Group& g) {
    return "m " + g.sides[0].text() + "  n " + g.sides[1].text() + "  k " + g.sides[2].text();
  };
  const auto bytes = [](const Group& g) { return bytes_extent(g.sides[0]); };
  Grouping gemms(t, "gemm");
  for (const GemmRow& r : t.gemms) {
    Group& g = gemms.add(r, product_text(r));
    g.sides[0].take(r.m);
    g.sides[1].take(r.n);
    g.sides[2].take(r.k);
  }
  gemms.finish(view, sides);
  Grouping attentions(t, "attention");
  for (const AttentionRow& r : t.attentions) {
    Group& g = attentions.add(r, pass_text(r));
    g.sides[0].take(r.heads);
    g.sides[1].take(r.n);
    g.sides[2].take(r.k);
  }
  attentions.finish(view, [](const Group& g) {
    return "heads " + g.sides[0].text() + "  keys " + g.sides[1].text() + "  dim " +
           g.sides[2].text();
  });
  Grouping memories(t, "memory");
  for (const MemoryRow& r : t.memories)
    memories.add(r, std::string(name_of(r.kernel))).sides[0].take(r.bytes);
  memories.finish(view, bytes);
  Grouping copies(t, "copy");
  for (const CopyRow& r : t.copies)
    copies.add(r, "copy " + std::string(name_of(r.kind))).sides[0].take(r.bytes);
  copies.finish(view, bytes);
  Grouping collectives(t, "collective");
  for (const CollectiveRow& r : t.collectives)
    collectives
        .add(r, std::string(name_of(r.kind)) + ", " +
                    group_text(r.ranks, r.nodes, r.nic_gbs, t.sources[r.source].wires))
        .sides[0]
        .take(r.bytes);
  collectives.finish(view, bytes);
}

// "rate_only" -> "rate only".
std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

void add_fits(const TableText& t, TableView& view) {
  for (const FitRow& f : t.fits)
    view.fits.push_back({std::string(name_of(f.kind)) + ' ' + std::string(name_of(f.dtype)),
                         f.t0_us, f.tflops, f.gbs, f.rows, f.median_error, f.p90_error,
                         f.flag == FitFlag::none ? "" : words(name_of(f.flag)),
                         t.sources[f.source].key});
  for (const CollectiveLine& l : collective_lines(t))
    view.lines.push_back(
        {std::string(name_of(l.kind)) + ", " + group_text(l.ranks, l.nodes, l.nic_gbs, l.wires),
         l.line.alpha_us, 0,
         l.line.us_per_byte > 0 ? bus_factor(l.kind, l.ranks) / (l.line.us_per_byte * 1e3) : 0,
         l.rows, l.line.rms, 0, "", ""});
}

void add_numbers(const TableText& t, TableView& view) {
  const auto add = [&](const char* what, std::string value, uint16_t source) {
    view.numbers.push_back({what, std::move(value), t.sources[source].key});
  };
  if (t.ratio_nn) add("nn over tn", fixed(*t.ratio_nn, 3), t.ratio_nn_source);
  if (t.ratio_nt) add("nt over tn", fixed(*t.ratio_nt, 3), t.ratio_nt_source);
  if (t.ratio_skinny) add("skinny over fit", fixed(*t.ratio_skinny, 3), t.ratio_skinny_source);
  if (t.launch_us) add("kernel launch, host", micros_text(*t.launch_us), t.launch_source);
  if (t.graph_launch_us)
    add("graph launch, host", micros_text(*t.graph_launch_us), t.graph_launch_source);
  if (t.interference) {
    add("compute beside communication", fixed(t.interference->first, 3), t.interference_source);
    add("communication beside compute", fixed(t.interference->second, 3), t.interference_source);
  }
}

void add_rows(const TableText& t, TableView& view) {
  std::vector<int64_t> used(t.sources.size());
  const auto add = [&](const auto& row, double fitted) {
    const std::string text = row_text(row);  // "gemm,bf16,tn,..."
    const size_t comma = text.find(',');
    std::string shape = text.substr(comma + 1);
    std::replace(shape.begin(), shape.end(), ',', ' ');
    const TableSource& s = t.sources[row.source];
    view.rows.push_back(
        {text.substr(0, comma), std::move(shape), s.key, s.derived, row.us, fitted});
    ++used[row.source];
  };
  for (const GemmRow& r : t.gemms) add(r, fitted_us(t, r).value_or(0));
  for (const AttentionRow& r : t.attentions) add(r, fitted_us(t, r).value_or(0));
  for (const MemoryRow& r : t.memories) add(r, fitted_us(t, r).value_or(0));
  for (const CopyRow& r : t.copies) add(r, 0);
  for (const CollectiveRow& r : t.collectives) add(r, 0);
  for (const FitRow& f : t.fits) ++used[f.source];
  const auto add_single = [&](bool there, uint16_t source) { used[source] += there ? 1 : 0; };
  if (t.sources.empty()) return;
  add_single(t.launch_us.has_value(), t.launch_source);
  add_single(t.graph_launch_us.has_value(), t.graph_launch_source);
  add_single(t.interference.has_value(), t.interference_source);
  add_single(t.ratio_nn.has_value(), t.ratio_nn_source);
  add_single(t.ratio_nt.has_value(), t.ratio_nt_source);
  add_single(t.ratio_skinny.has_value(), t.ratio_skinny_source);
  for (size_t i = 0; i < used.size(); ++i) {
    const TableSource& s = t.sources[i];
    std::string text = s.text;
    if (s.kind != TimingKind::unstated) text += fmt::format(" [{}]", name_of(s.kind));
    if (s.data != TimingData::unstated) text += fmt::format(" [{} data]", name_of(s.data));
    view.sources.push_back({s.key, std::move(text), s.derived, used[i]});
  }
}

std::string shared_text(const TableText& t) {
  constexpr std::array<std::string_view, kFamilies> kNames{"gemm", "attention", "memory", "launch",
                                                           "collective"};
  std::string all;
  for (size_t i = 0; i < kNames.size(); ++i)
    if (t.shared[i]) all += (all.empty() ? "" : ", ") + std::string(kNames[i]);
  return all.empty() ? "" : all + " of " + t.share_from;
}

}  // namespace

TableView view_of(const TableText& table, const std::string& title, const std::string& hash) {
  TableView view;
  view.title = title;
  view.gpu = table.gpu;
  view.about = table.about;
  view.software = table.software;
  view.conditions = table.conditions;
  view.hash = hash;
  view.nvlink_gbs = table.nvlink_gbs;
  view.in_network_reduction = table.in_network_reduction;
  view.shared = shared_text(table);
  add_groups(table, view);
  add_fits(table, view);
  add_numbers(table, view);
  add_rows(table, view);
  return view;
}

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

// Over the x of all these points.
template <class Time>
void add_curve(FitPlot& plot, const std::string& name, std::vector<PlotPoint> points, Time y_of) {
  PlotSeries all;
  all.points = std::move(points);
  PlotSeries line{name, {}, {}};
  for (const double x : steps(all)) line.curve.emplace_back(x, y_of(x));
  if (!line.curve.empty()) plot.series.push_back(std::move(line));
}

FitPlot attention_plot(const TableText& t) {
  FitPlot plot{"Fused attention", "operations of one call", "FLOP", "rate", "FLOP/s", {}, ""};
  for (const AttentionRow& r : t.attentions) {
    const double flops = attention_flops(r).value;
    const std::string name =
        fmt::format("{}{}, head dimension {}", r.backward ? "backward" : "forward",
                    r.causal ? " causal" : "", r.k);
    series_of(plot, name)
        .points.push_back(point(t, r, flops, flops / (r.us * 1e-6), fitted_us(t, r).value_or(0)));
  }
  for (const FitRow& fit : t.fits) {
    const bool backward = fit.kind == WorkKind::attention_backward;
    if (!backward && fit.kind != WorkKind::attention_forward) continue;
    std::vector<PlotPoint> points;
    for (const AttentionRow& r : t.attentions)
      if (r.backward == backward) points.push_back({attention_flops(r).value, 0, false, {}});
    add_curve(
        plot, fmt::format("fit, {} {}", backward ? "backward" : "forward", name_of(fit.dtype)),
        std::move(points),
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
  std::vector<PlotPoint> points;
  for (const MemoryRow& r : t.memories)
    points.push_back({static_cast<double>(r.bytes), 0, false, {}});
  add_curve(plot, "launch period + bytes / bandwidth", std::move(points),
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
    series_of(plot_of(r.kind), group_text(r.ranks, r.nodes, r.nic_gbs, t.sources[r.source].wires))
        .points.push_back(
            point(t, r, bytes, bus_factor(r.kind, r.ranks) * bytes / (r.us * 1e-6), 0));
  }
  for (const CollectiveLine& l : collective_lines(t)) {
    FitPlot& plot = plot_of(l.kind);
    PlotSeries& s = series_of(plot, group_text(l.ranks, l.nodes, l.nic_gbs, l.wires));
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
