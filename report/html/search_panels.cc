// SPDX-License-Identifier: Apache-2.0
// The page of a search: what was looked at, the best layouts, and how they trade time for memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "report/html/markup.h"
#include "report/html/page.h"
#include "report/html/panels.h"
#include "report/text/run.h"
#include "report/text/search.h"
#include "sim/search_result.h"
#include "sim/step_row.h"
#include "sim/text.h"

namespace stepcast {
namespace {

std::string options_of(const FoundLayout& layout) {
  std::string s;
  for (const auto& [path, value] : layout.set)
    s += (s.empty() ? "-s " : " -s ") + shell_word(escape_text(path + '=' + value));
  return s;
}

std::string search_verdict(const SearchResult& search) {
  const std::string stopped = search.all_seen ? "" : note(std::string(kNotAllSeen));
  if (search.best.empty()) {
    const NoLayout none = no_layout(search);
    std::string words = none.verdict;
    words.front() = upper_case(words.substr(0, 1)).front();
    if (words.back() != '.') words += '.';
    for (const std::string& line : none.more) words += ' ' + line;
    return html_section("verdict", "Verdict", stopped + "<p>" + html_text(words) + "</p>\n");
  }
  const FoundLayout& best = search.best.front();
  const auto card = [](std::string_view name, std::string_view value, std::string_view more,
                       std::string_view style = {}) {
    return fmt::format(
        "<div class=\"card {}\"><dt>{}</dt><dd><b>{}</b><span>{}</span></dd></div>\n", style,
        html_text(name), html_text(value), html_text(more));
  };
  std::string s = "<dl class=\"cards\">\n";
  s += card("Best layout", format_time(best.step_time), layout_text(best), "wide");
  s += card("Memory", gib(best.reserved) + " GiB", "of " + gib(best.usable) + " usable");
  s += card("Speed", rate_text(best.tokens_per_gpu_s), "tokens/s/GPU");
  s += card("Layouts", grouped(search.layouts),
            fmt::format("legal ones, {} simulated", grouped(search.simulated)));
  if (best.price > 0)
    s += card("Price", fmt::format("${}", grouped(static_cast<int64_t>(best.price))),
              "of the whole training");
  if (best.days > 0) s += card("Days", fixed(best.days, 1), "of the whole training");
  s += "</dl>\n";
  if (search.within_discernment > 1)
    s +=
        note(fmt::format("{} layouts are within {} % of the best: closer than forecasts can tell "
                         "apart.",
                         grouped(search.within_discernment), fixed(kDiscernment * 100, 0)));
  return html_section("verdict", "Verdict", s + stopped);
}

std::string funnel_panel(const SearchResult& search) {
  const std::array<HtmlColumn, 3> columns{
      {{"what became of them", false}, {"", false}, {"", true}}};
  const auto funnel = [&](std::string_view caption, std::string_view first, double whole,
                          const std::vector<SearchRule>& rules, std::string_view style) {
    HtmlTable table(caption, columns);
    const std::array<BarPart, 1> all{{{1, "t-compute", {}}}};
    table.row("mark").text(first).html(html_bar(all)).text(grouped(static_cast<int64_t>(whole)));
    double left = whole;
    for (const SearchRule& rule : rules) {
      const auto count = static_cast<double>(rule.count);
      left -= count;
      const std::array<BarPart, 2> bar{
          {{std::max(0.0, left) / std::max(1.0, whole), "t-hidden", {}},
           {count / std::max(1.0, whole), std::string(style), {}}}};
      table.row().text(rule.words).html(html_bar(bar)).text(grouped(rule.count));
    }
    return table.finish();
  };
  std::vector<SearchRule> decided = search.decided;
  if (search.undecided > 0)
    decided.push_back({"undecided", std::string(kNotLookedAt), search.undecided});
  return html_section("funnel", "What was looked at",
                      funnel("Combinations of the axes, and why most are no layouts",
                             "all combinations", search.points, search.illegal, "t-lost") +
                          "<h3>Layouts</h3>\n" +
                          funnel("Layouts, each by what decided it", "layouts",
                                 static_cast<double>(search.layouts), decided, "t-exposed"));
}

// The next of 1, 2, 5, 10, 20, ... times a power of ten.
double nice_step(double least) {
  double step = 1e-9;
  for (int i = 0; step < least; ++i) step *= i % 3 == 1 ? 2.5 : 2;
  return step;
}

// Step time across, memory upwards; a dot each, filled on the front.
std::string front_panel(const SearchResult& search) {
  const auto& best = search.best;
  if (best.size() < 2) return {};
  const auto seconds = [](Time t) { return static_cast<double>(t.count()) / 1e12; };
  const auto gigabytes = [](Bytes b) { return static_cast<double>(b.value) / (1 << 30); };
  double low = 1e300, high = 0, most = 1;
  for (const FoundLayout& l : best) {
    low = std::min(low, seconds(l.step_time));
    high = std::max(high, seconds(l.step_time));
    most = std::max({most, gigabytes(l.reserved), gigabytes(l.usable)});
  }
  const double room = std::max(high - low, high * 0.01), left = low - room * 0.06;
  const auto x = [&](double s) { return 56 + (s - left) / (room * 1.14) * 820; };
  const auto y = [&](double g) { return 300 - g / (most * 1.05) * 280; };
  std::string s =
      "<svg class=\"scatter\" viewBox=\"0 0 900 336\" role=\"img\" aria-label=\"Step time and "
      "memory "
      "of the best layouts\">\n";
  const double memory_step = nice_step(most / 5), time_step = nice_step(room * 1.14 / 6);
  for (double g = 0; g <= most * 1.05; g += memory_step)
    s += fmt::format(
        "<path class=\"tick\" d=\"M56 {0}H876\"/><text x=\"50\" y=\"{0}\" dy=\"4\" "
        "text-anchor=\"end\">{1}</text>",
        fixed(y(g), 1), fixed(g, memory_step < 1 ? 1 : 0));
  const double first = std::ceil(left / time_step) * time_step;
  for (int i = 0; first + i * time_step <= left + room * 1.14; ++i) {
    const double t = first + i * time_step;
    s += fmt::format("<text x=\"{}\" y=\"318\" text-anchor=\"middle\">{} s</text>", fixed(x(t), 1),
                     short_decimal(t, 6));
  }
  s += "<text x=\"56\" y=\"12\">GiB</text><text x=\"876\" y=\"334\" text-anchor=\"end\">step "
       "time</text>\n";
  for (size_t i = best.size(); i-- > 0;) {
    const FoundLayout& l = best[i];
    s += fmt::format(
        "<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}: {}, {} "
        "GiB</title></circle>\n",
        i == 0 || l.on_front ? "front" : "other", fixed(x(seconds(l.step_time)), 1),
        fixed(y(gigabytes(l.reserved)), 1), i == 0 ? 7 : 5, html_text(layout_text(l)),
        html_text(format_time(l.step_time)), gib(l.reserved));
  }
  return html_section(
      "front", "Time against memory",
      s + "</svg>\n" +
          note(search.objectives.size() > 1
                   ? "Filled: no other is better in one objective and no worse in all."
                   : "Filled: the best."));
}

std::string best_panel(const SearchResult& search) {
  if (search.best.empty()) return {};
  const TimeScale scale = scale_of(search.best.front().step_time);
  std::vector<HtmlColumn> columns{{"#", true},           {"step, " + std::string(scale.unit), true},
                                  {"", false},           {"against the best", true},
                                  {"memory, GiB", true}, {"tokens/s/GPU", true}};
  for (const char* axis : {"GPUs", "tp", "cp", "pp", "vpp", "ep", "dp", "micro", "ZeRO"})
    columns.push_back({axis, true});
  columns.push_back({"recompute", false});
  columns.push_back({"schedule", false});
  columns.push_back({"what makes it", false});
  HtmlTable table("The best layouts", columns);
  Time longest{1};
  for (const FoundLayout& l : search.best) longest = std::max(longest, l.step_time);
  size_t number = 0;
  for (const FoundLayout& l : search.best) {
    const std::array<BarPart, 1> bar{
        {{share_of(l.step_time, longest), l.on_front || number == 0 ? "t-compute" : "t-lost", {}}}};
    const double more =
        share_of(l.step_time - search.best.front().step_time, search.best.front().step_time);
    table.row(number == 0 ? "mark" : "")
        .text(std::to_string(number + 1))
        .text(in_scale(l.step_time, scale))
        .html(html_bar(bar))
        .text(number == 0 ? "" : (more >= 0 ? "+" : "") + fixed(more * 100, 1) + " %")
        .text(gib(l.reserved))
        .text(rate_text(l.tokens_per_gpu_s));
    for (const int64_t n : {l.gpus, l.tp, l.cp, l.pp, l.vpp, l.ep, l.dp, l.micro, l.zero})
      table.text(grouped(n));
    table.text(l.recompute).text(l.schedule).html("<code>" + html_text(options_of(l)) + "</code>");
    ++number;
  }
  return html_section("best", "The best layouts",
                      table.finish() + "<p>The first, as a forecast of its own: <code>" +
                          html_text(run_line(search, search.best.front())) + "</code></p>\n");
}

}  // namespace

std::string search_panels(const SearchResult& search) {
  return search_verdict(search) + front_panel(search) + best_panel(search) + funnel_panel(search);
}

}  // namespace stepcast
