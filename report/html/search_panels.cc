// SPDX-License-Identifier: Apache-2.0
// What a search found, or stores hold: the best, what is next to it, and what became of the others.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "report/html/markup.h"
#include "report/html/page.h"
#include "report/html/panels.h"
#include "report/text/run.h"
#include "report/text/search.h"
#include "report/text/steps.h"
#include "sim/results/search_result.h"
#include "sim/results/step_row.h"
#include "sim/text.h"

namespace stepcast {
namespace {

std::string options_of(const FoundLayout& layout) {
  std::string s;
  for (const auto& [path, value] : layout.set)
    s += (s.empty() ? "-s " : " -s ") + shell_word(escape_text(path + '=' + value));
  return s;
}

std::string first_line(const std::string& run) {
  return "<p>The first, as a forecast of its own: <code>" + html_text(run) + "</code></p>\n";
}

}  // namespace

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
  std::string s = "<dl class=\"cards\">\n";
  s += card("Best layout", format_time(best.step_time), layout_text(best), "wide");
  s += card("Memory", gib(best.reserved) + " GiB", "of " + gib(best.usable) + " usable");
  s += card("Speed", rate_text(best.tokens_per_gpu_s), "tokens/s/GPU");
  s += card("Layouts", grouped(search.layouts),
            fmt::format("legal ones, {} simulated", grouped(search.simulated)));
  if (best.price > 0)
    s +=
        card("Price", fmt::format("${}", grouped(static_cast<int64_t>(std::min(best.price, 9e15)))),
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

std::string search_best_panel(const SearchResult& search) {
  if (search.best.empty()) return {};
  ExtraColumn set{"what makes it", {}};
  for (const FoundLayout& l : search.best)
    set.html.push_back("<code>" + html_text(options_of(l)) + "</code>");
  return html_section("best", "The best layouts",
                      cell_table("The best layouts", layouts_table(search), {{set}}) +
                          first_line(run_line(search, search.best.front())));
}

std::string neighbors_panel(const SearchResult& search) {
  if (search.steps.empty()) return {};
  return html_section("axes", "One axis at a time",
                      "<figure id=\"lines\"></figure>\n" +
                          cell_table("Layouts one step from the first", neighbors_table(search)));
}

namespace {

// How many of a whole each rule decided.
std::string funnel(std::string_view caption, std::string_view first, double whole,
                   const std::vector<SearchRule>& rules, std::string_view style) {
  const std::array<HtmlColumn, 3> columns{
      {{"what became of them", false}, {"", false}, {"number", true}}};
  HtmlTable table(caption, columns);
  const std::array<BarPart, 1> all{{{1, "t-compute", {}}}};
  table.row("mark").text(first).html(html_bar(all)).text(grouped(static_cast<int64_t>(whole)));
  double left = whole;
  for (const SearchRule& rule : rules) {
    const auto count = static_cast<double>(rule.count);
    left -= count;
    const std::array<BarPart, 2> bar{
        {{std::max(0.0, left) / std::max(1.0, whole), "t-hidden", {}},
         {count / std::max(1.0, whole),
          rule.kind == SearchRule::Kind::keeps ? "t-compute" : std::string(style),
          {}}}};
    table.row().text(rule.words).html(html_bar(bar)).text(grouped(rule.count));
  }
  return table.finish();
}

}  // namespace

std::string funnel_panel(const SearchResult& search) {
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

// ---------------------------------------------------------------------------------------- stores

std::string store_verdict(const StorePage& store) {
  if (store.best.empty())
    return html_section("verdict", "Verdict", paragraph(no_step(store.ranking)));
  const StepRow& best = store.best.front();
  std::string s = "<dl class=\"cards\">\n";
  s += card("First", format_time(Time{best.step_time_ps.value_or(0)}),
            best.gpu + ", " + grouped(best.gpus) + " GPUs: " + layout_text(best), "wide");
  if (best.reserved_bytes)
    s += card("Memory", gib(Bytes{*best.reserved_bytes}) + " GiB",
              "of " + gib(Bytes{best.usable_bytes}) + " usable");
  if (best.tokens_per_gpu_s) s += card("Speed", rate_text(*best.tokens_per_gpu_s), "tokens/s/GPU");
  if (best.mfu) s += card("MFU", percent(*best.mfu), "full attention");
  if (const auto days = best.days()) s += card("Days", fixed(*days, 1), "of the whole training");
  if (const auto price = best.price())
    s += card("Price", "$" + grouped(static_cast<int64_t>(std::min(*price, 9e15))),
              "of the whole training");
  return html_section("verdict", "Verdict", s + "</dl>\n");
}

std::string store_best_panel(const StorePage& store) {
  if (store.best.empty()) return {};
  ExtraColumn set{"what makes it", {}};
  for (const StepRow& row : store.best)
    set.html.push_back("<code>" + html_text(row.settings) + "</code>");
  return html_section("best", store.ranking.pareto ? "The Pareto front" : "The first",
                      cell_table("The first rows, by " + objective_names(store.ranking),
                                 steps_table(store.best), {{set}}) +
                          first_line(run_line(store.best.front())));
}

std::string store_funnel_panel(const StorePage& store) {
  return html_section(
      "funnel", "What the stores hold",
      funnel("Rows, each by what keeps it from the table", "rows",
             static_cast<double>(store.steps.rows), store.steps.decided, "t-exposed"));
}

}  // namespace stepcast
