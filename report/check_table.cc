// SPDX-License-Identifier: Apache-2.0
#include "report/check_table.h"

#include <algorithm>
#include <array>

#include "report/account_lines.h"
#include "report/diagnostics.h"
#include "report/explain.h"
#include "sim/check.h"
#include "sim/price.h"

namespace stepcast {
namespace {

struct FigureName {
  std::string_view title, key;
};
constexpr std::array<FigureName, 3> kFigureNames{{{"step time", "step_time_s"},
                                                  {"tokens/s/GPU", "tokens_per_gpu_s"},
                                                  {"peak memory", "peak_memory_bytes"}}};

FigureName name_of(Figure f) {
  return kFigureNames[static_cast<size_t>(f)];
}

std::string value_text(Figure f, double value) {
  if (f == Figure::tokens_per_gpu_s) return rate_text(value);
  if (f == Figure::peak_memory) return format_bytes(Bytes{static_cast<int64_t>(value)});
  return format_time(time_from_seconds(value));
}

std::string signed_percent(double share) {
  return (share > 0 ? "+" : "") + fixed(share * 100, 1) + " %";
}

// Median and worst of the absolute errors of one kind of figure.
std::string summary(std::span<const CheckedFigure> figures, Figure kind) {
  std::vector<double> errors;
  for (const CheckedFigure& f : figures)
    if (f.figure == kind) errors.push_back(std::max(f.error(), -f.error()));
  if (errors.size() < 2) return {};
  std::sort(errors.begin(), errors.end());
  return std::string(name_of(kind).title) + ": " + std::to_string(errors.size()) +
         " runs, median error " + percent(errors[(errors.size() - 1) / 2]) + ", worst " +
         percent(errors.back()) + '\n';
}

}  // namespace

std::vector<Doubt> largest_doubts(const std::string& run, size_t run_index, const Result& result,
                                  size_t most) {
  const std::vector<CostLine> lines = cost_lines(result);
  Time sum{};
  for (const CostLine& line : lines) sum += line.total;
  std::vector<Doubt> doubts;
  for (const CostLine& line : lines) {
    if (doubts.size() == most) break;
    const Price& price = result.prices->by_work[static_cast<size_t>(line.work)];
    if (price.origin == Origin::measured || price.origin == Origin::interpolated) continue;
    if (line.total.count() == 0) continue;
    doubts.push_back({run, describe(result.graph->works[static_cast<size_t>(line.work)]),
                      std::string(name_of(price.origin)), price.basis, share_of(line.total, sum),
                      run_index});
  }
  return doubts;
}

std::string check_table(std::span<const CheckedFigure> figures, std::span<const Doubt> doubts,
                        const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{
      {"", "", "predicted", "measured", "error", "within", ""}};
  for (const CheckedFigure& f : figures)
    if (f.interval) rows[0].back() = "in its " + fixed(100 * f.interval->level, 0) + " %";
  for (const CheckedFigure& f : figures)
    rows.push_back({escape_text(f.run), std::string(name_of(f.figure).title),
                    value_text(f.figure, f.predicted), value_text(f.figure, f.measured),
                    signed_percent(f.error()),
                    percent(f.tolerance) + (f.within() ? "" : "  outside"),
                    f.interval ? (f.in_interval() ? "yes" : "no") : ""});
  const std::vector<std::string> lines = align_columns(rows, "<<>>><<");
  std::string s = paint(lines[0], Tone::dim, style) + '\n';
  for (size_t i = 0; i < figures.size(); ++i)
    s += paint(lines[i + 1], figures[i].within() ? Tone::plain : Tone::bad, style) + '\n';
  std::string sums;
  for (size_t k = 0; k < kFigureNames.size(); ++k) sums += summary(figures, static_cast<Figure>(k));
  if (!sums.empty()) s += '\n' + sums;
  const bool several = std::any_of(doubts.begin(), doubts.end(), [&](const Doubt& d) {
    return d.run_index != doubts[0].run_index;
  });
  for (size_t i = 0; i < doubts.size(); ++i) {
    const Doubt& d = doubts[i];
    const bool is_first = i == 0 || d.run_index != doubts[i - 1].run_index;
    if (i == 0) s += '\n';
    s += wrap((several && is_first ? escape_text(d.run) + ": " : "") + escape_text(d.work) + ", " +
                  d.origin + (d.basis.empty() ? "" : " (" + escape_text(d.basis) + ")") + ", " +
                  percent(d.share) + " of device time",
              is_first ? "largest doubt: " : "         next: ", style.width);
  }
  return s;
}

std::string check_json(std::span<const CheckedFigure> figures, std::span<const Doubt> doubts,
                       std::span<const Diagnostic> errors) {
  return json_document([&](JsonWriter& json) {
    json.objects("figures", figures, [&](const CheckedFigure& f) {
      json.member("run", f.run);
      json.member("figure", name_of(f.figure).key);
      json.member("predicted", f.predicted);
      json.member("measured", f.measured);
      json.member("error", f.error());
      json.member("tolerance", f.tolerance);
      json.member("within", f.within());
      json.member("source", f.source);
      json.optional_object("interval", f.interval, [&](const FigureInterval& i) {
        const bool seconds = f.figure == Figure::step_time;
        json.member(seconds ? "low_s" : "low", i.low);
        json.member(seconds ? "high_s" : "high", i.high);
        json.member("level", i.level);
      });
      json.member("in_interval", f.interval ? std::optional(f.in_interval()) : std::nullopt);
    });
    json.objects("doubts", doubts, [&](const Doubt& d) {
      json.member("run", d.run);
      json.member("work", d.work);
      json.member("origin", d.origin);
      json.member("basis", d.basis);
      json.member("share", d.share);
    });
    json.member("within", std::all_of(figures.begin(), figures.end(),
                                      [](const CheckedFigure& f) { return f.within(); }));
    json.objects("errors", errors, [&](const Diagnostic& d) { write_diagnostic(json, d); });
  });
}

}  // namespace stepcast
