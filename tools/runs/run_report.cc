// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/run_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "report/json/writer.h"
#include "scenarios/search/space.h"
#include "tools/runs/observed.h"
#include "tools/runs/observed_memory.h"
#include "tools/runs/summary.h"

namespace stepcast::accuracy {
namespace {

// ---- text and JSON

std::string errors_line(const Errors& e) {
  if (e.count == 0) return fmt::format("{:>5} {:>7} {:>7} {:>7}", "-", "-", "-", "-");
  return fmt::format("{:>5} {:>7} {:>7} {:>7}", e.count, percent(e.median), percent(e.p90),
                     signed_percent(e.bias));
}

std::string oom_text(const OutOfMemory& oom) {
  const size_t all = oom.hit + oom.missed;
  if (all == 0) return "-";
  return fmt::format("{}/{}", oom.hit, all);
}

std::string pool_line(const std::string& name, const PoolSummary& p) {
  return fmt::format("{:<26} {:>5} {:>5}  {}  {}  {:>8} {:>6}\n", name, p.records, p.predicted,
                     errors_line(p.time), errors_line(p.memory), oom_text(p.oom), p.oom.alarms);
}

// Errors of step times with the source seen, left out, and without any in-situ parameter.
std::string in_situ_text(const std::vector<RunRow>& rows) {
  std::string text;
  const auto line = [](const std::string& name, const Pool& pool) -> std::string {
    const PoolSummary s = summarize(pool);
    if (s.left_out.count == 0) return "";
    return fmt::format("{:<26}  {}  {}  {}\n", name, errors_line(s.time), errors_line(s.left_out),
                       errors_line(s.without));
  };
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source)) text += line(name, pool);
  if (text.empty()) return "";
  return fmt::format("\n{:<26}  {:<29}  {:<29}  {:<29}\n", "step times, errors in %",
                     "seen: median, p90, bias", "source left out", "without parameters") +
         text + line("all", all_of(rows));
}

std::string aims_text(const std::vector<RunRow>& rows) {
  std::string text;
  for (const Aim& aim : aims_of(rows))
    text += fmt::format("{:>7.1f} %  {:<14} {:<5} {}\n", aim.reached, aim.wanted,
                        aim.is_met ? "" : "no", aim.what);
  return text.empty() ? "" : "\nReached, wanted, met\n" + text;
}

void write_maybe(JsonWriter& json, const char* key, const std::optional<double>& x) {
  json.key(key);
  x ? json.value(*x) : json.null();
}

void write_maybe(JsonWriter& json, const char* key, const std::optional<bool>& x) {
  json.key(key);
  x ? json.value(*x) : json.null();
}

void write_row(JsonWriter& json, const RunRow& row) {
  json.member("id", row.id);
  json.member("source", row.source);
  write_maybe(json, "measured_step_time_s", row.measured.step_time_s);
  write_maybe(json, "predicted_step_time_s", row.step_time_s);
  write_maybe(json, "left_out_step_time_s", row.left_out_s);
  write_maybe(json, "without_in_situ_step_time_s", row.without_s);
  write_maybe(json, "measured_peak_memory_bytes", row.measured.peak_memory);
  write_maybe(json, "predicted_peak_memory_bytes", row.peak_memory);
  write_maybe(json, "measured_oom", row.measured.out_of_memory);
  write_maybe(json, "predicted_oom", row.out_of_memory);
  json.member("memory_class", row.memory_class);
  write_maybe(json, "memory_free", row.memory_free);
  write_maybe(json, "memory_room", row.memory_room);
  json.optional_object("interval", row.interval, [&](const RunInterval& i) {
    json.member("low_s", i.low_s);
    json.member("high_s", i.high_s);
    json.member("level", i.level);
  });
  json.key("cost_origins");
  if (row.step_time_s) {
    json.begin_object();
    for (size_t o = 0; o < row.origins.size(); ++o)
      json.member(name_of(static_cast<Origin>(o)), row.origins[o]);
    json.end_object();
  } else {
    json.null();
  }
  json.key("skipped");
  if (row.skipped.empty()) return json.null();
  std::string why;
  for (const std::string& reason : row.skipped) why += (why.empty() ? "" : "; ") + reason;
  json.value(why);
}

// ---- Markdown

double share_of(size_t part, size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// "1,951".
std::string count_text(size_t n) {
  std::string digits = fmt::format("{}", n);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

// A cell: text of records must not end it.
std::string cell(std::string text) {
  for (char& c : text)
    if (c == '|' || c == '\n') c = '/';
  return text;
}

// "" without rows.
std::string table(std::initializer_list<const char*> columns, const std::string& rows) {
  if (rows.empty()) return "";
  std::string names = "|", rule = "|";
  for (const char* column : columns) {
    names += fmt::format(" {} |", column);
    rule += "---|";
  }
  return names + '\n' + rule + '\n' + rows;
}

std::string errors_cells(const Errors& e) {
  if (e.count == 0) return "- | - | - | -";
  return fmt::format("{} | {} | {} | {}", e.count, percent(e.median), percent(e.p90),
                     signed_percent(e.bias));
}

// ---- what to know first ----

// "5.0, 10.1, 32.4": shares of the errors within those limits.
std::string shares_within(const Pool& pool, std::initializer_list<double> limits) {
  std::string text;
  for (const double limit : limits) {
    size_t within = 0, all = 0;
    for (const RunRow* row : pool) {
      const auto e = time_error(*row);
      if (!e) continue;
      ++all;
      if (std::abs(*e) <= limit) ++within;
    }
    text += (text.empty() ? "" : " / ") + fmt::format("{:.0f}", 100 * share_of(within, all));
  }
  return text;
}

// Sources by median error; those of at least so many runs.
std::string sources_line(const std::vector<RunRow>& rows) {
  constexpr size_t kFewest = 8, kShown = 3;
  std::vector<std::pair<double, std::string>> medians;
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source)) {
    const Errors e = summarize(pool).time;
    if (e.count >= kFewest) medians.emplace_back(e.median, name);
  }
  if (medians.size() < 2 * kShown) return "";
  std::sort(medians.begin(), medians.end());
  const auto named = [&](size_t i) {
    return fmt::format("{} {} %", medians[i].second, percent(medians[i].first));
  };
  std::string best = named(0), worst = named(medians.size() - 1);
  for (size_t i = 1; i < kShown; ++i) {
    best += ", " + named(i);
    worst += ", " + named(medians.size() - 1 - i);
  }
  return "* **Best and worst sources** (median error): " + best + "; " + worst + ".\n";
}

std::string memory_line(const PoolSummary& s) {
  std::string text;
  if (s.memory.count > 0)
    text +=
        fmt::format("* **Peak memory** of {} runs: median error {} %, nine of ten within {} %.\n",
                    count_text(s.memory.count), percent(s.memory.median), percent(s.memory.p90));
  const size_t failed = s.oom.hit + s.oom.missed, ran = s.oom.fits + s.oom.alarms;
  if (failed > 0)
    text += fmt::format(
        "* **Out of memory**: {} of the {} runs that did are called so; {} of {} that ran are "
        "called "
        "not to fit.\n",
        s.oom.hit, failed, s.oom.alarms, count_text(ran));
  return text;
}

std::string intervals_line(const std::vector<RunRow>& rows, const InInterval& shipped) {
  std::string text;
  if (const std::vector<ObservedRun> runs = observed_runs(rows); !runs.empty()) {
    const Coverage unseen = coverages_at_level(runs).source_unseen;
    text += fmt::format(
        "  Made without the run's source they hold {} % of the measured times, {} % in the mean "
        "of the sources.",
        percent(unseen.by_run), percent(unseen.by_source));
  }
  if (shipped.runs > 0)
    text += fmt::format(
        "  Those of the shipped table, which these runs themselves make, hold {} %; {} % took "
        "longer, {} % shorter.",
        percent(share_of(shipped.inside, shipped.runs)),
        percent(share_of(shipped.above, shipped.runs)),
        percent(share_of(shipped.below, shipped.runs)));
  return text.empty()
             ? ""
             : fmt::format("* **Intervals** of {:.0f} %.{}\n", 100 * Interval{}.level, text);
}

std::string in_short(const std::vector<RunRow>& rows) {
  const Pool pool = all_of(rows);
  const PoolSummary s = summarize(pool);
  std::string text = fmt::format("* **{} of {} records are forecast.**", count_text(s.predicted),
                                 count_text(s.records));
  if (s.time.count > 0)
    text += fmt::format(
        "  Step time of {} runs: median error {} %, nine of ten within {} %, bias {} % (minus: "
        "forecast too short).  Within 5 / 10 / 25 % are {} % of them.",
        count_text(s.time.count), percent(s.time.median), percent(s.time.p90),
        signed_percent(s.time.bias), shares_within(pool, {0.05, 0.1, 0.25}));
  text += '\n' + sources_line(rows) + memory_line(s);
  if (s.rankings.ratio.count > 0)
    text += fmt::format(
        "* **Choice**: of {} groups whose fastest run leads by more than 2 %, it is named in {}; "
        "speed against the fastest of the group is within {} % in the median of {} runs.\n",
        s.rankings.groups, s.rankings.winners, percent(s.rankings.ratio.median),
        count_text(s.rankings.ratio.count));
  return text + intervals_line(rows, s.coverage);
}

std::string aims_table(const std::vector<RunRow>& rows) {
  std::string text;
  for (const Aim& aim : aims_of(rows))
    text += fmt::format("| {} | {} | {:.1f} | {} | {} |\n", aim.what, aim.wanted, aim.reached,
                        count_text(aim.of), aim.is_met ? "yes" : "**no**");
  return table({"aim", "wanted, %", "reached, %", "of", "met"}, text);
}

// ---- tables ----

std::string pools_table(const char* what, const std::vector<RunRow>& rows,
                        std::string RunRow::*key) {
  std::string text;
  const auto line = [](const std::string& name, const Pool& pool) {
    const PoolSummary s = summarize(pool);
    return fmt::format("| {} | {} | {} | {} | {} |\n", cell(name), s.records, s.predicted,
                       errors_cells(s.time), errors_cells(s.memory));
  };
  for (const auto& [name, pool] : pools_by(rows, key)) text += line(name, pool);
  return table({what, "records", "predicted", "times", "median", "p90", "bias", "memories",
                "median", "p90", "bias"},
               text + line("all", all_of(rows)));
}

std::string in_situ_table(const std::vector<RunRow>& rows) {
  std::string text;
  const auto line = [](const std::string& name, const Pool& pool) -> std::string {
    const PoolSummary s = summarize(pool);
    if (s.left_out.count == 0) return "";
    std::string cells = fmt::format("| {} | {} |", cell(name), s.time.count);
    for (const Errors& e : {s.time, s.left_out, s.without})
      cells +=
          fmt::format(" {} | {} | {} |", percent(e.median), percent(e.p90), signed_percent(e.bias));
    return cells + '\n';
  };
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source)) text += line(name, pool);
  text += line("all", all_of(rows));
  if (text.empty()) return "";
  return "Step times: by the shipped parameters, which all sources made; by values that all others "
         "made (left out);\nand without any parameter (`in_situ: off`).\n\n" +
         table({"source", "times", "seen: median", "p90", "bias", "left out: median", "p90", "bias",
                "without: median", "p90", "bias"},
               text);
}

std::string groups_table(const std::vector<RunRow>& rows) {
  std::string text;
  const auto line = [](const std::string& name, const Pool& pool) -> std::string {
    const Rankings r = summarize(pool).rankings;
    if (r.ratio.count == 0) return "";
    return fmt::format("| {} | {} | {} | {} | {} | {} |\n", cell(name), r.groups, r.winners,
                       r.ratio.count, percent(r.ratio.median), percent(r.ratio.p90));
  };
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source)) text += line(name, pool);
  text += line("all", all_of(rows));
  if (text.empty()) return "";
  return "Runs of one group by their speed, tokens a second and GPU; the ratio is that of a run's "
         "speed to that of\nthe fastest run of its group, and its error relative.\n\n" +
         table({"source", "groups led by more than 2 %", "fastest named right", "runs",
                "median error of the ratio, %", "p90"},
               text);
}

std::string scaling_table(const std::vector<RunRow>& rows) {
  constexpr double kNear = 0.02;
  std::string text;
  size_t near = 0, all = 0;
  for (const Scaling& runs : scalings(rows)) {
    const ScaledRun& last = runs.back();
    const auto off = [](const ScaledRun& run) { return run.predicted - run.measured; };
    const auto furthest = std::ranges::max_element(
        runs, {}, [&](const ScaledRun& run) { return std::abs(off(run)); });
    ++all;
    near += std::abs(off(*furthest)) <= kNear ? 1 : 0;
    text += fmt::format("| {} | {} | {} to {} | {} | {} | {} | {} |\n",
                        cell(runs.front().row->source), cell(runs.front().row->id),
                        runs.front().row->gpus, last.row->gpus, runs.size(), percent(last.measured),
                        percent(last.predicted), signed_percent(off(*furthest)));
  }
  if (text.empty()) return "";
  return fmt::format(
             "Runs of a source that differ in the number of GPUs, and maybe of sequences in a "
             "step, four times as many GPUs\nat least: what a GPU does less in the largest, in "
             "tokens a second, than in the smallest. Where sequences are\nfewer for each GPU, the "
             "pipeline's fill and drain are part of it. And of all sizes the difference that "
             "is\nfurthest from 0, in points. Within 2 points in all sizes: {} of {}.\n\n",
             near, all) +
         table({"source", "smallest run", "GPUs", "runs", "loss, measured, %", "forecast, %",
                "furthest difference"},
               text);
}

// What was chosen where another run was faster by much.
std::string costly_choices(const std::vector<RunRow>& rows) {
  constexpr double kMuch = 0.10;
  std::string text;
  const auto seconds = [](const RunRow& r) {
    return fmt::format("{:.4g} | {:.4g}", *r.step_time_s, *r.measured.step_time_s);
  };
  std::vector<Choice> choices = summarize(all_of(rows)).regret.choices;
  std::ranges::stable_sort(choices, std::ranges::greater{}, &Choice::cost);
  for (const Choice& c : choices)
    if (c.cost > kMuch)
      text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", c.chosen->id,
                          fmt::format("{:.3f}", 1 + c.cost), layout_words(c.chosen->scenario),
                          seconds(*c.chosen), c.fastest->id, layout_words(c.fastest->scenario),
                          seconds(*c.fastest));
  if (text.empty()) return "";
  return "\nChoices that cost more than 10 %, with what both runs were forecast and measured to "
         "take, in seconds:\n\n" +
         table({"chosen", "cost", "layout", "forecast", "measured", "fastest", "layout", "forecast",
                "measured"},
               text);
}

std::string regret_table(const std::vector<RunRow>& rows) {
  std::string text;
  const auto line = [](const std::string& name, const Pool& pool) -> std::string {
    const Regret r = summarize(pool).regret;
    if (r.groups == 0) return "";
    return fmt::format("| {} | {} | {:.3f} | {:.3f} | {} | {} |\n", cell(name), r.groups,
                       1 + r.mean, 1 + r.worst, r.out_of_memory, r.no_answer);
  };
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source)) text += line(name, pool);
  text += line("all", all_of(rows));
  if (text.empty()) return "";
  return fmt::format(
             "\nWhat a choice costs: of runs of a source that differ in layout, schedule and "
             "recomputation alone, the measured\ntime of the one that is forecast to be fastest, "
             "of "
             "those that are forecast to leave {:.0f} % of the memory free as\na search asks for "
             "(where none does, to fit), over that of the fastest. A first choice that ran out of "
             "memory is\ncounted, and the next one taken.\n\n",
             100 * SearchSettings{}.memory_margin) +
         table({"source", "groups", "mean", "worst", "first choice out of memory", "no answer"},
               text) +
         costly_choices(rows);
}

std::string memory_calls_table(const std::vector<RunRow>& rows) {
  const OutOfMemory whole = summarize(all_of(rows)).oom;
  if (whole.known() == 0) return "";
  std::string text;
  const auto line = [](const std::string& name, const OutOfMemory& oom) {
    return fmt::format("| {} | {} | {} | {} | {} |\n", cell(name), oom.hit, oom.missed, oom.alarms,
                       oom.fits);
  };
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source)) {
    const OutOfMemory oom = summarize(pool).oom;
    if (oom.known() > oom.fits) text += line(name, oom);
  }
  return table({"source", "was out of memory: called so", "called to fit",
                "ran: called out of memory", "called to fit"},
               text + line("all", whole));
}

// ---- trends ----

struct Bin {
  std::string name;
  Pool pool;
};

std::string bins_table(const char* what, const std::vector<Bin>& bins) {
  std::string text;
  for (const Bin& bin : bins) {
    const Errors e = summarize(bin.pool).time;
    if (e.count > 0) text += fmt::format("| {} | {} |\n", cell(bin.name), errors_cells(e));
  }
  return table({what, "times", "median", "p90", "bias"}, text);
}

// Bins below each limit, and one from the last on; rows whose figure is 0 are in none.
template <class Figure>
std::vector<Bin> bins_by(const std::vector<RunRow>& rows, const std::vector<double>& limits,
                         const std::vector<std::string>& names, Figure figure) {
  std::vector<Bin> bins;
  for (const std::string& name : names) bins.push_back({name, {}});
  for (const RunRow& row : rows) {
    const double x = figure(row);
    if (x <= 0) continue;
    const auto bin = std::upper_bound(limits.begin(), limits.end(), x) - limits.begin();
    bins[static_cast<size_t>(bin)].pool.push_back(&row);
  }
  return bins;
}

std::string trends(const std::vector<RunRow>& rows) {
  std::vector<Bin> layouts;
  for (auto& [name, pool] : pools_by(rows, &RunRow::layout))
    if (!name.empty()) layouts.push_back({name, std::move(pool)});
  const std::string size = bins_table(
      "parameters", bins_by(rows, {1e9, 5e9, 20e9, 100e9},
                            {"below 1 B", "1 to 5 B", "5 to 20 B", "20 to 100 B", "100 B and more"},
                            [](const RunRow& row) { return row.parameters; }));
  const std::string gpus =
      bins_table("GPUs", bins_by(rows, {9, 65, 513, 2049},
                                 {"1 to 8", "9 to 64", "65 to 512", "513 to 2,048", "more"},
                                 [](const RunRow& row) { return static_cast<double>(row.gpus); }));
  std::string text;
  for (const std::string& part : {size, gpus, bins_table("split over", layouts)})
    if (!part.empty()) text += (text.empty() ? "" : "\n") + part;
  return text;
}

size_t dominant_origin(const RunRow& row) {
  return static_cast<size_t>(std::max_element(row.origins.begin(), row.origins.end()) -
                             row.origins.begin());
}

// Shares of device time by the origin of its price, and errors of the runs where it is the largest.
std::string origins_table(const std::vector<RunRow>& rows) {
  std::array<Bin, kOrigins> bins;
  std::array<double, kOrigins> shares{};
  size_t runs = 0;
  for (const RunRow& row : rows) {
    if (!row.step_time_s) continue;
    ++runs;
    bins[dominant_origin(row)].pool.push_back(&row);
    for (size_t o = 0; o < kOrigins; ++o) shares[o] += row.origins[o];
  }
  if (runs == 0) return "";
  std::string text;
  for (size_t o = 0; o < kOrigins; ++o)
    text += fmt::format("| {} | {} % | {} |\n", name_of(static_cast<Origin>(o)),
                        percent(shares[o] / static_cast<double>(runs)),
                        errors_cells(summarize(bins[o].pool).time));
  return table({"origin of prices", "share of device time, mean over runs",
                "runs where it is the largest: times", "median", "p90", "bias"},
               text);
}

// ---- what is furthest off ----

// Too long by a factor is as bad as too short by it.
double factor_off(const RunRow& row) {
  const double ratio = 1 + *time_error(row);
  return std::max(ratio, 1 / ratio);
}

Pool worst_first(const Pool& pool) {
  Pool timed;
  for (const RunRow* row : pool)
    if (time_error(*row)) timed.push_back(row);
  std::stable_sort(timed.begin(), timed.end(), [](const RunRow* a, const RunRow* b) {
    return factor_off(*a) > factor_off(*b);
  });
  return timed;
}

std::string runs_table(const Pool& runs) {
  std::string text;
  for (const RunRow* row : runs)
    text += fmt::format("| {} | {} | {:.4g} | {:.4g} | {} | {} |\n", cell(row->id),
                        cell(row->source), *row->measured.step_time_s, *row->step_time_s,
                        signed_percent(*time_error(*row)),
                        row->cause.empty() ? "not known" : cell(row->cause));
  return table({"run", "source", "measured, s", "predicted, s", "error, %", "why, as far as known"},
               text);
}

std::string worst_runs(const std::vector<RunRow>& rows) {
  constexpr size_t kShown = 10;
  Pool worst = worst_first(all_of(rows));
  if (worst.size() > kShown) worst.resize(kShown);
  return runs_table(worst);
}

std::string worst_of_sources(const std::vector<RunRow>& rows) {
  Pool runs;
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source)) {
    const Pool worst = worst_first(pool);
    if (!worst.empty()) runs.push_back(worst.front());
  }
  return runs_table(runs);
}

std::string causes_table(const std::vector<RunRow>& rows) {
  std::vector<Bin> causes;
  for (auto& [cause, pool] : pools_by(rows, &RunRow::cause))
    if (!cause.empty()) causes.push_back({cause, std::move(pool)});
  return bins_table("cause", causes);
}

std::string reasons_table(const std::vector<RunRow>& rows) {
  std::string text;
  for (const Reason& r : reasons(rows))
    text +=
        fmt::format("| {} | {} | {} | {} |\n", cell(r.text), r.records, r.alone, cell(r.example));
  return table({"why there is no prediction", "records", "only for this", "for example"}, text);
}

std::string pictures_of(std::string_view folder) {
  if (folder.empty()) return "";
  return fmt::format(
      "\n![predicted over measured step times]({0}/predicted.svg)\n\n"
      "![errors of step time by source]({0}/errors.svg)\n\n"
      "![errors of step time by size of the model]({0}/sizes.svg)\n",
      folder);
}

}  // namespace

std::string scenario_text(const RunRow& row) {
  std::string text;
  for (std::string what : row.assumed) {
    std::replace(what.begin(), what.end(), '\n', ' ');
    text += fmt::format("# assumed: {}\n", what);
  }
  return text + row.scenario;
}

std::string runs_text(const std::vector<RunRow>& rows) {
  std::string text = fmt::format(
      "{:<26} {:>5} {:>5}  {:>5} {:>7} {:>7} {:>7}  {:>5} {:>7} {:>7} {:>7}  {:>8} {:>6}\n",
      "source, errors in %", "runs", "pred.", "times", "median", "p90", "bias", "mem.", "median",
      "p90", "bias", "OOM", "alarms");
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source))
    text += pool_line(name, summarize(pool));
  text += pool_line("all", summarize(all_of(rows))) + in_situ_text(rows) + aims_text(rows);
  for (const std::string& covered : {coverage_text(rows), memory_trust_text(rows)})
    if (!covered.empty()) text += '\n' + covered;
  const std::vector<Reason> why = reasons(rows);
  if (!why.empty()) text += "\nNot predicted: records, of these only for this reason, reason\n";
  for (const Reason& r : why)
    text += fmt::format("{:>6} {:>6}  {} ({})\n", r.records, r.alone, r.text, r.example);
  return text;
}

std::string runs_json(const std::vector<RunRow>& rows) {
  JsonWriter json;
  json.begin_array();
  for (const RunRow& row : rows) {
    json.begin_object();
    write_row(json, row);
    json.end_object();
  }
  json.end_array();
  return json.text() + '\n';
}

std::string runs_markdown(const std::vector<RunRow>& rows, std::string_view heading,
                          std::string_view pictures) {
  const auto section = [&](const char* title, const std::string& text) {
    return text.empty() ? "" : fmt::format("\n{} {}\n\n{}", heading, title, text);
  };
  const auto shown = [](const std::string& figures) {
    return figures.empty() ? "" : "```\n" + figures + "```\n";
  };
  return in_short(rows) + '\n' + aims_table(rows) + pictures_of(pictures) +
         section("By source",
                 "Errors are predicted / measured - 1 in %: median and 90th percentile of their "
                 "absolute values, and\nthe median with its sign (bias).\n\n" +
                     pools_table("source", rows, &RunRow::source)) +
         section("By source, seen and left out", in_situ_table(rows)) +
         section("By GPU", pools_table("GPU", rows, &RunRow::hardware)) +
         section("Choice within groups", groups_table(rows) + regret_table(rows)) +
         section("What more GPUs lose", scaling_table(rows)) +
         section("Out of memory", memory_calls_table(rows)) +
         section("By size and layout", trends(rows)) +
         section("By origin of the prices", origins_table(rows)) +
         section("Measured times in their intervals", shown(coverage_text(rows))) +
         section("Measured memory in its interval, and how surely runs fit",
                 shown(memory_trust_text(rows))) +
         section("Furthest off, by factor", worst_runs(rows)) +
         section("Furthest off of each source", worst_of_sources(rows)) +
         section("Causes that are known and not modelled", causes_table(rows)) +
         section("Not predicted", reasons_table(rows));
}

}  // namespace stepcast::accuracy
