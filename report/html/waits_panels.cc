// SPDX-License-Identifier: Apache-2.0
// Time not spent computing, by cause: of each rank, or of the critical rank of each of several
// results.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/explain.h"
#include "report/text/roles.h"
#include "sim/graph/spend.h"

namespace stepcast {
namespace {

struct WaitLine {
  std::string name;
  const SpendTable* spends = nullptr;
  Time whole{};  // that shares are of
  bool mark = false;
};

bool is_wait(Spend s) {
  return is_bubble(s) || is_exposed(s) || s == Spend::contention || s == Spend::launch ||
         s == Spend::idle_end;
}

// Bars on one axis, and the share of each cause; "" if nobody waits.
std::string waits(std::string_view caption, std::string_view what,
                  std::span<const WaitLine> lines) {
  const auto share = [](const WaitLine& line, Spend cause) {
    return share_of((*line.spends)[static_cast<size_t>(cause)], line.whole);
  };
  std::vector<Spend> causes;
  for (int i = 0; i < kSpends; ++i) {
    const auto spend = static_cast<Spend>(i);
    if (is_wait(spend) && std::ranges::any_of(lines, [&](const WaitLine& line) {
          return share(line, spend) >= 0.0005;
        }))
      causes.push_back(spend);
  }
  if (causes.empty()) return {};
  double most = 1e-9;
  std::vector<double> sums;
  for (const WaitLine& line : lines) {
    double sum = 0;
    for (const Spend c : causes) sum += share(line, c);
    sums.push_back(sum);
    most = std::max(most, sum);
  }
  std::string legend = "<ul class=\"legend\">";
  std::vector<HtmlColumn> columns{
      {std::string(what), false}, {"time not spent computing", false}, {"sum", true}};
  for (const Spend c : causes) {
    legend += "<li>" + swatch(spend_style(c)) + html_text(title_of(c)) + "</li>";
    columns.push_back({std::string(title_of(c)), true});
  }
  legend += "</ul>\n";
  HtmlTable table(caption, columns);
  for (size_t i = 0; i < lines.size(); ++i) {
    const WaitLine& line = lines[i];
    std::vector<BarPart> parts;
    for (const Spend c : causes)
      parts.push_back({share(line, c) / most, spend_style(c),
                       fmt::format("{}: {}", title_of(c),
                                   format_time((*line.spends)[static_cast<size_t>(c)]))});
    table.row(line.mark ? "mark" : "")
        .text(line.name)
        .html(html_bar(parts))
        .text(fixed(sums[i] * 100, 1));
    for (const Spend c : causes) table.text(fixed(share(line, c) * 100, 1));
  }
  return html_section("bubble", fmt::format("What each {} waits for", what),
                      legend + table.finish());
}

}  // namespace

std::string bubble_panel(const Result& r) {
  const auto& roles = r.account.by_role;
  if (roles.size() < 2) return {};
  std::vector<WaitLine> lines;
  for (uint32_t role = 0; role < roles.size(); ++role)
    lines.push_back(
        {role_name(r, role), &roles[role], r.timeline.makespan, role == r.account.critical_role});
  return waits("Time not spent computing, of each rank by cause, in % of the step", "rank", lines);
}

std::string case_waits_panel(std::span<const PageCase> cases) {
  std::vector<WaitLine> lines;
  for (const PageCase& c : cases) {
    const Account& account = c.result->account;
    if (account.critical_role >= account.by_role.size()) continue;
    lines.push_back({c.name, &account.by_role[account.critical_role], c.result->timeline.makespan});
  }
  return waits("Time not spent computing on the critical rank of each case, in % of its step",
               "case", lines);
}

}  // namespace stepcast
