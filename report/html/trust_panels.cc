// SPDX-License-Identifier: Apache-2.0
// What the answer rests on: the cluster, prices and their origin, settings.
#include <fmt/format.h>

#include <array>

#include "report/html/compress.h"
#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/explain.h"
#include "report/text/intervals.h"
#include "report/text/run.h"

namespace stepcast {
std::string cluster_panel(const PageFacts& facts) {
  if (facts.cluster_svg.empty()) return {};
  return html_section(
      "cluster", "Cluster",
      "<figure class=\"picture\" tabindex=\"0\" role=\"region\" aria-label=\"Picture of the "
      "cluster\"><img alt=\"The first node and the network of the cluster\" "
      "src=\"data:image/svg+xml;base64," +
          base64(facts.cluster_svg) + "\"></figure>\n");
}

std::string trust_panel(const Result& r) {
  std::vector<BarPart> parts;
  std::string legend = "<ul class=\"legend\">";
  for (int i = 0; i < kOrigins; ++i) {
    const double share = r.trust[static_cast<size_t>(i)];
    if (share <= 0) continue;
    const std::string style = "o-" + std::string(name_of(static_cast<Origin>(i)));
    parts.push_back({share, style, std::string(name_of(static_cast<Origin>(i)))});
    legend += "<li>" + swatch(style) + std::string(name_of(static_cast<Origin>(i))) + " " +
              percent(share) + "</li>";
  }
  legend += "</ul>\n";
  std::string s = "<div class=\"widebar\">" + html_bar(parts) + "</div>\n" + legend;
  s += paragraph(trust_sentence(r) + (r.calibration.empty() ? "" : " (" + r.calibration + ")"));
  if (r.interval) {
    s += paragraph(fmt::format("{}: {}. Forecasts like this one: {}.", interval_name(*r.interval),
                               interval_text(r.step_time, *r.interval), r.interval->like));
  }
  if (r.graph && r.prices) {
    const std::array<HtmlColumn, 6> columns{{{"work", false},
                                             {"runs", true},
                                             {"each", true},
                                             {"total", true},
                                             {"origin", false},
                                             {"how it is known", false}}};
    HtmlTable table("Prices that take most time, one rank of each stage", columns);
    size_t shown = 0;
    for (const CostLine& line : cost_lines(r)) {
      if (shown++ == 40) break;
      const Price& price = r.prices->by_work[static_cast<size_t>(line.work)];
      table.row()
          .text(describe(r.graph->works[static_cast<size_t>(line.work)]))
          .text(grouped(line.runs))
          .text(format_time(price.time))
          .text(format_time(line.total))
          .text(name_of(price.origin))
          .text(price.basis);
    }
    s += html_details("Where the largest prices come from", table.finish());
  }
  return html_section("trust", "How far to trust it", s);
}

std::string scenario_panel(const Result& r, const PageFacts& facts) {
  std::string s;
  if (!facts.description.empty()) s += paragraph(facts.description);
  s += "<dl class=\"facts\">\n";
  s += fact("command", facts.command) + fact("stepcast", facts.version) +
       fact("scenario hash", r.scenario.hash) + fact("cost table", r.calibration) +
       fact("its hash", r.calibration_hash) + fact("hash of own runs", r.own_runs_hash);
  for (const std::string& file : facts.files) s += fact("store", file);
  s += "</dl>\n";
  const std::array<HtmlColumn, 3> columns{{{"setting", false}, {"value", false}, {"from", false}}};
  HtmlTable table("Every setting, and where its value comes from", columns);
  for (const SettingLine& line : facts.settings)
    table.row().text(line.path).text(line.value).text(line.origin);
  if (facts.settings.empty()) return html_section("scenario", "Scenario", s);
  s += html_details(
      fmt::format("The resolved scenario{}: {} settings", facts.settings_of, facts.settings.size()),
      table.finish());
  return html_section("scenario", "Scenario", s);
}

}  // namespace stepcast
