// SPDX-License-Identifier: Apache-2.0
#include "report/text/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "report/diagnostics.h"
#include "report/text/explain.h"
#include "report/text/roles.h"
#include "report/text/run.h"
#include "sim/check.h"
#include "sim/graph/price.h"

namespace stepcast {

namespace {

constexpr int kLongestName = 24;

std::string shortened(const std::string& name) {
  const std::string safe = escape_text(name);
  if (display_width(safe) <= kLongestName) return safe;
  std::string kept;
  int columns = 0;
  for (const char c : safe) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++columns > kLongestName - 3) break;
    kept += c;
  }
  return kept + "...";
}

Tone tone_of_line(const Result& r) {
  const Fit fit = fit_of(r);
  return fit == Fit::fits ? Tone::plain : tone_of(fit);
}

// What marks a case whose memory is short.
std::string_view mark_of(const Result& r) {
  switch (fit_of(r)) {
    case Fit::fits: return "  ";
    case Fit::probably:
    case Fit::may_run_out: return " ?";
    case Fit::does_not: break;
  }
  return " !";
}

// "fastest" of results that all do the same work; else the one with the highest rate.
bool is_faster(const Result& a, const Result& b, bool same_work, bool means) {
  return same_work ? compared_time(a, means) < compared_time(b, means)
                   : a.tokens_per_s_per_gpu > b.tokens_per_s_per_gpu;
}

// Name, step, mean and percentiles over seeds, difference, span, rate, bubble, peak, where, MFU.
constexpr size_t kColumns = 12;
using Row = std::vector<std::string>;
constexpr std::string_view kSides = "<>>>>>>>>>>>";
static_assert(kSides.size() == kColumns);

std::string in_scale(Time t, const TimeScale& scale) {
  return format_quanta((t.count() + scale.quantum_ps / 2) / scale.quantum_ps, scale);
}

// What a step would cost without the barrier of the optimizer says something only if some
// schedule gains by it.
bool spans_matter(std::span<const Result> results) {
  return std::any_of(results.begin(), results.end(), [](const Result& r) { return shows_span(r); });
}

const SpendTable& critical_table(const Result& r) {
  static constexpr SpendTable kNothing{};
  const uint32_t role = r.account.critical_role;
  return role < r.account.by_role.size() ? r.account.by_role[role] : kNothing;
}

// What the critical rank waits for, in percent of the step: the parts of the bubble, transfers
// between pipeline ranks, all other communication.  A schedule that splits the backward has less of
// the first and may have more of the last.
struct Cause {
  const char* title;
  bool (*covers)(Spend);
};
constexpr std::array<Cause, 9> kCauses{
    {{"fill", [](Spend s) { return s == Spend::fill; }},
     {"drain", [](Spend s) { return s == Spend::drain; }},
     {"imbalance", [](Spend s) { return s == Spend::imbalance; }},
     {"blocked", [](Spend s) { return s == Spend::blocked; }},
     {"stragglers", [](Spend s) { return s == Spend::straggler; }},
     {"experts", [](Spend s) { return s == Spend::expert_imbalance; }},
     {"contention", [](Spend s) { return s == Spend::contention; }},
     {"transfers", [](Spend s) { return s == Spend::exposed_pp; }},
     {"collectives", [](Spend s) { return is_exposed(s) && s != Spend::exposed_pp; }}}};
using CauseRow = std::vector<std::string>;

std::string cause_table(std::span<const Result> results, std::span<const std::string> names,
                        const TextStyle& style) {
  std::vector<CauseRow> rows{CauseRow(kCauses.size() + 1)};
  rows[0][0] = "waits, % of the step";
  for (size_t c = 0; c < kCauses.size(); ++c) rows[0][c + 1] = kCauses[c].title;
  bool any = false;
  std::array<bool, kCauses.size()> shown{};
  for (size_t i = 0; i < results.size(); ++i) {
    const SpendTable& table = critical_table(results[i]);
    CauseRow row(kCauses.size() + 1);
    row[0] = "  " + shortened(names[i]);
    for (size_t c = 0; c < kCauses.size(); ++c) {
      Time t{};
      for (int k = 0; k < kSpends; ++k) {
        if (kCauses[c].covers(static_cast<Spend>(k))) t += table[static_cast<size_t>(k)];
      }
      any = any || t.count() > 0;
      const bool rare = kCauses[c].covers(Spend::straggler) ||
                        kCauses[c].covers(Spend::expert_imbalance) ||
                        kCauses[c].covers(Spend::contention);
      shown[c] = shown[c] || !rare || t.count() > 0;
      row[c + 1] = fixed(share_of(t, results[i].step_time) * 100, 1);
    }
    rows.push_back(std::move(row));
  }
  if (!any) return {};
  for (size_t c = 0; c < kCauses.size(); ++c)
    if (!shown[c])
      for (CauseRow& row : rows) row[c + 1].clear();
  const std::vector<std::string> lines =
      align_columns(rows, '<' + std::string(kCauses.size(), '>'));
  std::string s = '\n' + paint(lines[0], Tone::dim, style) + '\n';
  for (size_t i = 1; i < lines.size(); ++i) s += lines[i] + '\n';
  return s;
}

// By how much of the device time the shares of data-sheet prices differ between cases before the
// sources of prices may be taken for a difference of the cases.
constexpr double kOtherSources = 0.4;

// What share of the time is priced how, where the cases are not priced alike: the difference of two
// cases is known better than the cases are only while they share their sources.
std::string trust_table(std::span<const Result> results, std::span<const std::string> names,
                        const TextStyle& style) {
  if (results.empty()) return {};
  constexpr auto kRoofline = static_cast<size_t>(Origin::roofline);
  const auto by_roofline = [](const Result& r) { return r.trust[kRoofline]; };
  const auto [least, most] = std::ranges::minmax_element(results, {}, by_roofline);
  if (by_roofline(*most) - by_roofline(*least) < kOtherSources) return {};
  std::vector<std::vector<std::string>> rows{{"prices, % of the time"}};
  for (const std::string& name : names) rows.push_back({"  " + shortened(name)});
  for (size_t o = 0; o < kOrigins; ++o) {
    const bool any = std::ranges::any_of(results, [&](const Result& r) { return r.trust[o] > 0; });
    rows[0].push_back(any ? std::string(origin_words(static_cast<Origin>(o))) : "");
    for (size_t i = 0; i < results.size(); ++i)
      rows[i + 1].push_back(any ? std::to_string(trust_percents(results[i])[o]) : "");
  }
  const std::vector<std::string> lines = align_columns(rows, '<' + std::string(kOrigins, '>'));
  std::string s = '\n' + paint(lines[0], Tone::dim, style) + '\n';
  for (size_t i = 1; i < lines.size(); ++i) s += lines[i] + '\n';
  const auto name = [&](auto at) {
    return shortened(names[static_cast<size_t>(at - results.begin())]);
  };
  const auto share = [&](auto at) { return fixed(100 * by_roofline(*at), 0) + " %"; };
  return s + wrap(fmt::format("data sheets price {} of the time of {} and {} of that of {}: what "
                              "lies between their steps may be the sources.",
                              share(most), name(most), share(least), name(least)),
                  paint("warning", Tone::warn, style) + "  ", style.width);
}

// "zb-v   left out: 60 layers are not a multiple of pp*vpp = 4*2"
std::string left_out_lines(std::span<const std::string> names, std::span<const LeftOut> left_out,
                           const TextStyle& style) {
  int width = 0;
  for (const std::string& name : names) width = std::max(width, display_width(shortened(name)));
  std::string s;
  for (const LeftOut& l : left_out)
    s += wrap(escape_text(l.problems.front().message),
              pad_right(shortened(l.name), width) + "  left out: ", style.width);
  return s;
}

// "fastest        zb-v, -4.2 %"; nothing if there is no such case.
std::string winner_line(std::string_view what, const std::string& text, Tone tone,
                        const TextStyle& style) {
  return text.empty() ? "" : pad_right(std::string(what), 15) + paint(text, tone, style) + '\n';
}

std::string winner_lines(std::span<const Result> results, std::span<const std::string> names,
                         size_t baseline, const TextStyle& style) {
  const Winners w = compare_winners(results);
  const bool same_work = comparable_steps(results), means = compares_means(results);
  std::string s;
  const auto name = [&](size_t i) { return shortened(names[i]); };
  if (w.fastest) {
    const Result& r = results[*w.fastest];
    std::string text = name(*w.fastest);
    if (*w.fastest != baseline && same_work)
      text += ", " + versus_base(r, results[baseline], means);
    const Bytes more = r.memory_reserved - results[baseline].memory_reserved;
    if (*w.fastest != baseline && more.value != 0)
      text += ", " + gib(Bytes{std::max(more.value, -more.value)}) + " GiB " +
              (more.value > 0 ? "more" : "less") + " than " + name(baseline);
    s += winner_line(same_work ? "fastest" : "highest rate", text, Tone::good, style);
  }
  if (w.smallest)
    s += winner_line("least memory",
                     name(*w.smallest) + ", " + gib(results[*w.smallest].memory_reserved) + " GiB",
                     Tone::good, style);
  if (w.best_per_gib)
    s += winner_line("best per GiB",
                     name(*w.best_per_gib) + ", most steps a second for each GiB of its memory",
                     Tone::good, style);
  std::string open, over;
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    const Fit fit = fit_of(r);
    if (fit == Fit::fits) continue;
    if (fit == Fit::does_not) {
      over += (over.empty() ? "" : ", ") + name(i) + " by " +
              gib(r.memory_reserved - r.memory_usable) + " GiB";
    } else {
      open += (open.empty() ? "" : ", ") + name(i) + ": " + fixed(100 * *r.fits_share, 0) +
              " % of such steps fit";
    }
  }
  if (!open.empty()) s += wrap(open, pad_right("may run out", 15), style.width);
  if (!over.empty()) s += wrap(over, pad_right("does not fit", 15), style.width);
  return s.empty() ? s : '\n' + s;
}

}  // namespace

bool shows_span(const Result& r) {
  return r.splits_backward || share_of(r.step_time - r.span, r.step_time) > 0.005;
}

bool compares_means(std::span<const Result> results) {
  return std::ranges::all_of(results, [](const Result& r) { return r.replicas.has_value(); });
}

Time compared_time(const Result& r, bool means) {
  return means ? r.replicas->mean : r.step_time;
}

std::string versus_base(const Result& r, const Result& base, bool means) {
  const Time before = compared_time(base, means);
  const double change = share_of(compared_time(r, means) - before, before) * 100;
  return (change > 0 ? "+" : "") + fixed(change, 1) + " %";
}

bool same_mode(std::span<const Result> results) {
  return std::ranges::all_of(
      results, [&](const Result& r) { return r.scenario.mode == results.front().scenario.mode; });
}

std::string modes_remark(std::span<const Result> results) {
  std::vector<std::string> modes;
  for (const Result& r : results)
    if (std::ranges::find(modes, r.scenario.mode) == modes.end()) modes.push_back(r.scenario.mode);
  return fmt::format("Modes differ ({}): their steps do not compare.", fmt::join(modes, ", "));
}

bool comparable_steps(std::span<const Result> results) {
  // The same model has a few more FLOPs where tp pads its vocabulary further.
  constexpr double kPadding = 0.01;
  if (results.empty()) return true;
  const auto [least, most] =
      std::ranges::minmax_element(results, {}, &Result::model_flops_per_step);
  return same_mode(results) &&
         most->model_flops_per_step <= least->model_flops_per_step * (1 + kPadding) &&
         std::ranges::all_of(results, [&](const Result& r) {
           return r.tokens_per_step == results.front().tokens_per_step;
         });
}

Winners compare_winners(std::span<const Result> results) {
  Winners w;
  if (results.size() < 2 || !same_mode(results)) return w;
  const bool same_work = comparable_steps(results), means = compares_means(results);
  const auto better = [&](std::optional<size_t>& best, size_t i, auto is_better) {
    if (!best || is_better(results[i], results[*best])) best = i;
  };
  const auto rate = [means](const Result& r) {
    const double bytes = static_cast<double>(std::max<int64_t>(1, r.memory_reserved.value));
    return 1 / (bytes * std::max(1e-12, to_seconds(compared_time(r, means))));
  };
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].fits) continue;
    better(w.fastest, i,
           [&](const Result& a, const Result& b) { return is_faster(a, b, same_work, means); });
    better(w.smallest, i,
           [](const Result& a, const Result& b) { return a.memory_reserved < b.memory_reserved; });
    if (same_work)
      better(w.best_per_gib, i,
             [&](const Result& a, const Result& b) { return rate(a) > rate(b); });
  }
  return w;
}

std::string compare_table(std::span<const Result> results, std::span<const std::string> names,
                          size_t baseline, const TextStyle& style,
                          std::span<const LeftOut> left_out) {
  STEPCAST_CHECK(results.size() == names.size() && baseline < results.size(),
                 "a name for each result, and the baseline among them");
  const bool same_work = comparable_steps(results), spans = spans_matter(results);
  const bool means = compares_means(results);
  std::vector<Utilization> rates;
  for (const Result& r : results) rates.push_back(r.utilization);
  const TimeScale scale = scale_of(results[baseline].step_time);
  std::vector<Row> rows{{"", "step " + std::string(scale.unit), "mean", "p5", "p95", "vs base",
                         spans ? "span" : "", same_work ? "" : "tokens/s/GPU", "bubble", "peak GiB",
                         "pp rank", mfu_title(rates)}};
  const bool replicas = std::any_of(results.begin(), results.end(),
                                    [](const Result& r) { return r.replicas.has_value(); });
  if (!replicas) rows[0][2] = rows[0][3] = rows[0][4] = {};
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    const auto of_seeds = [&](Time ReplicaTimes::*t) {
      return r.replicas ? in_scale((*r.replicas).*t, scale) : replicas ? "-" : "";
    };
    rows.push_back(
        {shortened(names[i]), in_scale(r.step_time, scale), of_seeds(&ReplicaTimes::mean),
         of_seeds(&ReplicaTimes::p5), of_seeds(&ReplicaTimes::p95),
         i == baseline || r.scenario.mode != results[baseline].scenario.mode
             ? "-"
             : versus_base(r, results[baseline], means),
         spans ? in_scale(r.span, scale) : "", same_work ? "" : rate_text(r.tokens_per_s_per_gpu),
         percent(share_of(r.bubble, r.step_time)), gib(r.memory_reserved).append(mark_of(r)),
         std::to_string(pipeline_rank(r, r.reserved_role)),
         percent(r.utilization.mfu_full_attention)});
  }
  const std::vector<std::string> lines = align_columns(rows, kSides);
  std::string s = paint(lines[0], Tone::dim, style) + '\n';
  for (size_t i = 0; i < results.size(); ++i)
    s += paint(lines[i + 1], tone_of_line(results[i]), style) + '\n';
  s += left_out_lines(names, left_out, style);
  s += cause_table(results, names, style);
  s += trust_table(results, names, style);
  s += winner_lines(results, names, baseline, style);
  if (!same_mode(results)) {
    s += '\n' + modes_remark(results) + '\n';
  } else if (!same_work) {
    s += "\nTokens or model differ: compare tokens/s/GPU and MFU, not step times.\n";
  }
  return s;
}

namespace {

struct FigureName {
  std::string_view title, key;
};
constexpr std::array<FigureName, 4> kFigureNames{{{"step time", "step_time_s"},
                                                  {"tokens/s/GPU", "tokens_per_gpu_s"},
                                                  {"peak memory", "peak_memory_bytes"},
                                                  {"reserved", "reserved_memory_bytes"}}};

bool is_memory(Figure f) {
  return f == Figure::peak_memory || f == Figure::reserved_memory;
}

FigureName name_of(Figure f) {
  return kFigureNames[static_cast<size_t>(f)];
}

std::string value_text(Figure f, double value) {
  if (f == Figure::tokens_per_gpu_s) return rate_text(value);
  if (is_memory(f)) return format_bytes(Bytes{static_cast<int64_t>(value)});
  return format_time(time_from_seconds(value));
}

// Error and tolerance with as many digits, one at least, as show which of them is larger.
std::pair<std::string, std::string> error_and_tolerance(const CheckedFigure& f) {
  constexpr int kMostDigits = 6;
  const double error = 100 * std::abs(f.error()), tolerance = 100 * f.tolerance;
  int digits = 1;
  for (double unit = 10; digits < kMostDigits; unit *= 10, ++digits)
    if ((std::round(error * unit) <= std::round(tolerance * unit)) == f.within()) break;
  return {(f.error() > 0 ? "+" : "") + fixed(100 * f.error(), digits) + " %",
          fixed(tolerance, digits) + " %"};
}

// Median and worst of the absolute errors of one kind of figure.
std::string summary(std::span<const CheckedFigure> figures, Figure kind) {
  std::vector<double> errors;
  for (const CheckedFigure& f : figures)
    if (f.figure == kind) errors.push_back(std::max(f.error(), -f.error()));
  if (errors.size() < 2) return {};
  std::sort(errors.begin(), errors.end());
  return fmt::format("{}: {} runs, median error {}, worst {}\n", name_of(kind).title, errors.size(),
                     percent(errors[(errors.size() - 1) / 2]), percent(errors.back()));
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
  for (const CheckedFigure& f : figures) {
    const auto [error, tolerance] = error_and_tolerance(f);
    rows.push_back({escape_text(f.run), std::string(name_of(f.figure).title),
                    value_text(f.figure, f.predicted), value_text(f.figure, f.measured), error,
                    tolerance + (f.within() ? "" : "  outside"),
                    f.interval ? (f.in_interval() ? "yes" : "no") : ""});
  }
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
        const std::string_view unit = f.figure == Figure::step_time ? "_s"
                                      : is_memory(f.figure)         ? "_bytes"
                                                                    : "";
        json.member("low" + std::string(unit), i.low);
        json.member("high" + std::string(unit), i.high);
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
