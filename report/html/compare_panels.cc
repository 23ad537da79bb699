// SPDX-License-Identifier: Apache-2.0
// Panels of several results.  What is drawn beside each other has one axis: the longest step, the
// largest GPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "report/html/gantt.h"
#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/compare.h"
#include "report/text/explain.h"
#include "report/text/intervals.h"
#include "report/text/roles.h"
#include "report/text/run.h"
#include "report/text/train.h"
#include "sim/graph/spend.h"

namespace stepcast {
namespace {

Time longest_step(std::span<const PageCase> cases) {
  Time longest{};
  for (const PageCase& c : cases)
    longest = std::max({longest, c.result->step_time, c.result->timeline.makespan});
  return longest;
}

std::vector<Result> figures_of(std::span<const PageCase> cases) {
  std::vector<Result> results;
  for (const PageCase& c : cases) {
    Result& r = results.emplace_back();
    r.step_time = c.result->step_time;
    r.span = c.result->span;
    r.replicas = c.result->replicas;
    r.fits = c.result->fits;
    r.fits_share = c.result->fits_share;
    r.memory_reserved = c.result->memory_reserved;
    r.memory_usable = c.result->memory_usable;
    r.tokens_per_step = c.result->tokens_per_step;
    r.tokens_per_s_per_gpu = c.result->tokens_per_s_per_gpu;
    r.model_flops_per_step = c.result->model_flops_per_step;
  }
  return results;
}

// "+4.2 %" of the baseline.
std::string against(double value, double baseline) {
  if (baseline <= 0) return {};
  const double more = value / baseline - 1;
  return (more >= 0 ? "+" : "") + fixed(more * 100, 1) + " %";
}

std::string winner_list(std::span<const PageCase> cases) {
  const std::vector<Result> results = figures_of(cases);
  const Winners w = compare_winners(results);
  std::string s;
  const auto line = [&](std::string_view what, std::optional<size_t> winner) {
    if (winner)
      s += "<li>" + html_text(fmt::format("{}: ", what)) + "<b>" + html_text(cases[*winner].name) +
           "</b></li>\n";
  };
  line(comparable_steps(results) ? "fastest that fits" : "most tokens/s/GPU of those that fit",
       w.fastest);
  line("least memory", w.smallest);
  line("most steps a second for each GiB", w.best_per_gib);
  return s.empty() ? s : "<ul class=\"plain\">\n" + s + "</ul>\n";
}

// "80 % interval", of the cases that have one.
std::string interval_title(std::span<const PageCase> cases) {
  for (const PageCase& c : cases)
    if (c.result->interval) return interval_name(*c.result->interval);
  return "interval";
}

// Kinds of time that a stacked bar tells apart.
struct Group {
  std::string_view style, title;
  bool (*covers)(Spend);
};
constexpr std::array<Group, 5> kGroups{
    {{"t-compute", "compute", is_compute},
     {"t-exposed", "exposed communication", is_exposed},
     {"t-lost", "bubble", is_bubble},
     {"s-contention", "contention", [](Spend s) { return s == Spend::contention; }},
     {"s-launch", "launch gaps, end of others",
      [](Spend s) { return s == Spend::launch || s == Spend::idle_end; }}}};

const SpendTable& critical_account(const Result& r) {
  static constexpr SpendTable kNothing{};
  return r.account.critical_role < r.account.by_role.size()
             ? r.account.by_role[r.account.critical_role]
             : kNothing;
}

}  // namespace

std::string cases_panel(std::span<const PageCase> cases, size_t baseline,
                        std::span<const LeftOut> left_out) {
  const std::vector<Result> figures = figures_of(cases);
  const bool same_work = comparable_steps(figures), means = compares_means(figures);
  const Time longest = longest_step(cases);
  const TimeScale scale = scale_of(longest);
  const Result& base = *cases[baseline].result;
  const std::array<HtmlColumn, 10> columns{
      {{"case", false},
       {"", false},
       {(means ? "mean step, " : "step, ") + std::string(scale.unit), true},
       {"against the baseline", true},
       {interval_title(cases), true},
       {"tokens/s/GPU", true},
       {"bubble", true},
       {"memory, GiB", true},
       {"", false},
       {"MFU", true}}};
  HtmlTable table("Step time, memory and speed of each case", columns);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Result& r = *cases[i].result;
    std::vector<BarPart> parts;
    for (const Group& g : kGroups)
      parts.push_back({share_of(sum_if(critical_account(r), g.covers), longest),
                       std::string(g.style), std::string(g.title)});
    const bool other_mode = r.scenario.mode != base.scenario.mode;
    const std::string versus = i == baseline ? "baseline"
                               : other_mode  ? ""
                               : same_work
                                   ? versus_base(r, base, means)
                                   : against(r.tokens_per_s_per_gpu, base.tokens_per_s_per_gpu);
    table.row(i == baseline ? "mark" : "")
        .text(cases[i].name)
        .html(html_bar(parts))
        .text(in_scale(compared_time(r, means), scale))
        .text(versus)
        .text(r.interval
                  ? in_scale(r.interval->low, scale) + " to " + in_scale(r.interval->high, scale)
                  : "")
        .text(rate_text(r.tokens_per_s_per_gpu))
        .text(percent(share_of(r.bubble, r.step_time)))
        .text(gib(r.memory_reserved))
        .text(memory_verdict(r))
        .text(percent(r.utilization.mfu_full_attention));
  }
  std::string legend = "<ul class=\"legend\">";
  for (const Group& g : kGroups)
    legend += "<li>" + swatch(g.style) + std::string(g.title) + "</li>";
  std::string s = legend + "</ul>\n" + table.finish() + winner_list(cases);
  if (!same_mode(figures)) {
    s += note(modes_remark(figures));
  } else if (!same_work) {
    s += note("Tokens or model differ: against the baseline is tokens/s/GPU, not step times.");
  }
  for (const LeftOut& l : left_out)
    s += "<p>" + html_text(l.name + " is left out: " + l.problems.front().message) + "</p>\n";
  std::set<std::pair<size_t, std::string>> said;
  std::string warnings;
  for (size_t i = 0; i < cases.size(); ++i)
    for (const std::string& w : cases[i].result->scenario.warnings)
      warnings += "<li>" + html_text(cases[i].name + ": " + w) + "</li>\n";
  if (!warnings.empty())
    s += html_details("Warnings", "<ul class=\"warnings\">\n" + warnings + "</ul>\n");
  return html_section("cases", "Cases", s);
}

std::string whole_runs_panel(std::span<const PageCase> cases) {
  std::vector<std::optional<TrainingPlan>> runs;
  std::vector<std::string> names;
  for (const PageCase& c : cases) {
    runs.push_back(c.whole_run);
    names.push_back(c.name);
  }
  const std::vector<std::vector<std::string>> cells = whole_run_cells(runs, names);
  if (cells.empty()) return {};
  std::vector<HtmlColumn> columns{{"case", false}};
  for (size_t i = 1; i < cells.front().size(); ++i)
    if (!cells.front()[i].empty()) columns.push_back({cells.front()[i], true});
  HtmlTable table("The whole training of which each case is a step", columns);
  for (size_t row = 1; row < cells.size(); ++row) {
    table.row();
    for (size_t i = 0; i < columns.size(); ++i) table.text(cells[row][i]);
  }
  return html_section("trainings", "The whole training", table.finish());
}

std::string accounts_panel(std::span<const PageCase> cases) {
  const TimeScale scale = scale_of(longest_step(cases));
  std::vector<HtmlColumn> columns{{"spent on, " + std::string(scale.unit), false}};
  for (const PageCase& c : cases) columns.push_back({c.name, true});
  HtmlTable table("Where the step goes on the critical rank of each case", columns);
  for (int i = 0; i < kSpends; ++i) {
    const auto spend = static_cast<Spend>(i);
    const bool any = std::ranges::any_of(cases, [&](const PageCase& c) {
      return share_of(critical_account(*c.result)[static_cast<size_t>(i)], c.result->step_time) >=
             0.0005;
    });
    if (!any) continue;
    table.row().html(swatch(spend_style(spend)) + html_text(title_of(spend)));
    for (const PageCase& c : cases)
      table.text(in_scale(critical_account(*c.result)[static_cast<size_t>(i)], scale));
  }
  return html_section("accounts", "Where the steps go", table.finish());
}

std::string timelines_panel(std::span<const PageCase> cases) {
  const Time whole = longest_step(cases);
  std::string s = timeline_legend();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Result& r = *cases[i].result;
    s += fmt::format("<h3>{} <span class=\"dim\">{}</span></h3>\n", html_text(cases[i].name),
                     html_text(format_time(r.step_time)));
    s +=
        fmt::format("<figure id=\"gantt{}\" class=\"timeline\">", i == 0 ? "" : std::to_string(i)) +
        gantt_svg(r, 16, whole) + "</figure>\n";
  }
  return html_section("timeline", "Timelines", s);
}

std::string differences_panel(std::span<const PageCase> cases, const PageFacts& facts) {
  std::vector<std::string> paths;
  const auto value_in = [](const PageCase& c, const std::string& path) -> std::string {
    for (const SettingLine& line : c.settings)
      if (line.path == path) return line.value;
    return {};
  };
  for (const PageCase& c : cases)
    for (const SettingLine& line : c.settings)
      if (std::ranges::find(paths, line.path) == paths.end()) paths.push_back(line.path);
  std::vector<HtmlColumn> columns{{"setting", false}};
  for (const PageCase& c : cases) columns.push_back({c.name, false});
  HtmlTable table("Settings that are not the same in all cases", columns);
  for (const std::string& path : paths) {
    const std::string first = value_in(cases.front(), path);
    if (std::ranges::all_of(cases, [&](const PageCase& c) { return value_in(c, path) == first; }))
      continue;
    table.row().text(path);
    for (const PageCase& c : cases) table.text(value_in(c, path));
  }
  std::string s = "<dl class=\"facts\">\n";
  if (!facts.command.empty())
    s += "<dt>command</dt><dd><code>" + html_text(facts.command) + "</code></dd>\n";
  s += "<dt>stepcast</dt><dd><code>" + html_text(facts.version) + "</code></dd>\n";
  for (const PageCase& c : cases)
    s += "<dt>" + html_text(c.name) + "</dt><dd><code>" + html_text(c.result->scenario.hash) +
         "</code></dd>\n";
  return html_section("scenario", "What differs", s + "</dl>\n" + table.finish());
}

}  // namespace stepcast
