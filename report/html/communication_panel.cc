// SPDX-License-Identifier: Apache-2.0
// What the critical rank sends and gathers, and the links that it crosses.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/html/exposed.h"
#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/explain.h"
#include "report/text/roles.h"

namespace stepcast {
namespace {

// "TP", but "embedding".
std::string axis_title(Axis axis) {
  const std::string_view name = name_of(axis);
  return name.size() <= 3 ? upper_case(name) : std::string(name);
}

// How full the links are that groups share.
std::string links(const Result& r, const PageFacts& facts) {
  if (!facts.links || facts.links->fullest.empty()) return {};
  const LinkLoads& loads = *facts.links;
  return "<h3>Links</h3>\n" +
         cell_table(
             "The fullest link of each kind in one step",
             fullest_table(loads, r.step_time, exposed_by_work(r, r.account.critical_role))) +
         html_details("Which groups cross which links",
                      cell_table("What the groups of each axis put on the links of each kind",
                                 crossings_table(loads, r.step_time))) +
         note(
             "GB are 10^9 bytes of a step, one way; seconds: over the full bandwidth of the link; "
             "exposed: what the critical rank stands still for in communication that crosses "
             "links of the kind, its own groups or those like them.");
}

}  // namespace

std::string communication_panel(const Result& r, const PageFacts& facts) {
  const uint32_t role = r.account.critical_role;
  if (!r.graph || !r.prices || role >= r.timeline.roles.size()) return {};
  const std::vector<ExposedLine> lines = exposed_lines(r, role);
  if (lines.empty()) return {};
  const TimeScale scale = scale_of(r.step_time);
  const std::string unit(scale.unit);
  const std::array<HtmlColumn, 9> columns{{{"communication", false},
                                           {"over", false},
                                           {"algorithm", false},
                                           {"links", false},
                                           {"runs", true},
                                           {"total, " + unit, true},
                                           {"exposed, " + unit, true},
                                           {"", false},
                                           {"price", false}}};
  HtmlTable table("Communication of " + role_name(r, role) + ", the critical rank", columns);
  // Inside nodes, over the network.
  std::array<Time, 2> total{}, exposed{};
  for (const ExposedLine& l : lines) {
    const bool network = r.prices->by_work[static_cast<size_t>(l.work)].crosses_nodes;
    total[network ? 1 : 0] += l.total;
    exposed[network ? 1 : 0] += l.exposed;
  }
  const auto sentence = [&](size_t which, std::string_view where) {
    return total[which].count() == 0
               ? std::string()
               : fmt::format("{}: {} of {} exposed. ", where, format_time(exposed[which]),
                             format_time(total[which]));
  };
  double most = 1e-9;
  for (const ExposedLine& l : lines) most = std::max(most, share_of(l.total, r.step_time));
  size_t shown = 0;
  for (const ExposedLine& l : lines) {
    if (shown++ == 40) break;
    const Work& work = r.graph->works[static_cast<size_t>(l.work)];
    const Price& price = r.prices->by_work[static_cast<size_t>(l.work)];
    std::string algorithm(price.algorithm == Algorithm::none ? "" : name_of(price.algorithm));
    if (!algorithm.empty()) algorithm += ", " + std::string(name_of(price.protocol));
    const std::array<BarPart, 2> bar{
        {{share_of(l.exposed, r.step_time) / most, "t-exposed", "exposed"},
         {share_of(l.total - l.exposed, r.step_time) / most, "t-hidden", "beside compute"}}};
    table.row()
        .text(l.name)
        .text(axis_title(work.axis))
        .text(algorithm)
        .text(price.crosses_nodes ? "network" : "inside nodes")
        .text(grouped(l.runs))
        .text(in_scale(l.total, scale))
        .text(in_scale(l.exposed, scale))
        .html(html_bar(bar))
        .text(name_of(price.origin));
  }
  return html_section(
      "communication", "Communication",
      "<ul class=\"legend\"><li>" + swatch("t-exposed") + "exposed</li><li>" + swatch("t-hidden") +
          "beside compute</li></ul>\n" + "<p>" +
          html_text(sentence(0, "Inside nodes") + sentence(1, "Over the network")) + "</p>\n" +
          table.finish() +
          note("Exposed is communication while nothing computes on the rank; two at a time "
               "both count, so that the sum may exceed what the account has.") +
          links(r, facts));
}

}  // namespace stepcast
