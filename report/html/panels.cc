// SPDX-License-Identifier: Apache-2.0
#include "report/html/panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "report/format.h"
#include "report/html/gantt.h"
#include "report/html/markup.h"
#include "report/text/roles.h"
#include "sim/graph/spend.h"

namespace stepcast {

std::string spend_style(Spend s) {
  return "s-" + std::string(name_of(s));
}

// Times in one unit, so that a column lines up; the unit is said once.
std::string in_scale(Time t, const TimeScale& scale) {
  const int64_t half = scale.quantum_ps / 2;
  return format_quanta((t.count() + (t.count() < 0 ? -half : half)) / scale.quantum_ps, scale);
}

std::string swatch(std::string_view style) {
  return "<svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"" +
         std::string(style) + "\" width=\"10\" height=\"10\"/></svg>";
}

std::string note(std::string_view text) {
  return "<p class=\"note\">" + html_text(text) + "</p>\n";
}

std::string paragraph(std::string_view text) {
  return "<p>" + html_text(text) + "</p>\n";
}

std::string card(std::string_view name, std::string_view value, std::string_view more,
                 std::string_view style) {
  return fmt::format("<div class=\"card {}\"><dt>{}</dt><dd><b>{}</b>{}</dd></div>\n", style,
                     html_text(name), html_text(value),
                     more.empty() ? "" : "<span>" + html_text(more) + "</span>");
}

std::string fact(std::string_view name, std::string_view value) {
  if (value.empty()) return {};
  return "<dt>" + html_text(name) + "</dt><dd><code>" + html_text(value) + "</code></dd>\n";
}

std::string cell_table(std::string_view caption, const CellTable& cells,
                       std::span<const ExtraColumn> more) {
  std::vector<size_t> shown;
  std::vector<HtmlColumn> columns;
  for (size_t c = 0; c < cells.sides.size(); ++c) {
    if (std::ranges::all_of(cells.rows, [&](const auto& row) { return row[c].empty(); })) continue;
    shown.push_back(c);
    columns.push_back({cells.rows.front()[c], cells.sides[c] == '>'});
  }
  for (const ExtraColumn& extra : more) columns.push_back({extra.title, false});
  HtmlTable table(caption, columns);
  for (size_t i = 1; i < cells.rows.size(); ++i) {
    table.row(i == 1 && !more.empty() ? "mark" : "");
    for (const size_t c : shown) table.text(cells.rows[i][c]);
    for (const ExtraColumn& extra : more) table.html(extra.html[i - 1]);
  }
  return table.finish();
}

std::string timeline_legend() {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLegend{
      {{"a-F", "forward"},
       {"a-B", "backward"},
       {"a-W", "weight gradients"},
       {"a-R", "recompute"},
       {"a-U", "optimizer, gradients"},
       {"a-X", "communication"}}};
  std::string legend = "<ul class=\"legend\">";
  for (const auto& [style, words] : kLegend)
    legend += "<li>" + swatch(style) + std::string(words) + "</li>";
  return legend + "</ul>\n";
}

std::string timeline_panel(const Result& r) {
  const std::string picture = gantt_svg(r);
  if (picture.empty()) return {};
  const TimeScale scale = scale_of(r.timeline.makespan);
  const std::string unit(scale.unit);
  const std::array<HtmlColumn, 6> columns{{{"rank", false},
                                           {"equal ranks", true},
                                           {"first op, " + unit, true},
                                           {"first backward, " + unit, true},
                                           {"last forward, " + unit, true},
                                           {"end, " + unit, true}}};
  HtmlTable table("When each rank begins and ends", columns);
  for (uint32_t role = 0; role < r.timeline.roles.size(); ++role) {
    const RoleTimeline& t = r.timeline.roles[role];
    table.row()
        .text(role_name(r, role))
        .text(grouped(r.graph->roles[role].ranks))
        .text(in_scale(t.compute_begin, scale))
        .text(t.first_backward == Time::max() ? "" : in_scale(t.first_backward, scale))
        .text(in_scale(t.last_forward, scale))
        .text(in_scale(t.end, scale));
  }
  return html_section("timeline", "Timeline",
                      timeline_legend() + "<figure id=\"gantt\" class=\"timeline\">" + picture +
                          "</figure>\n" +
                          html_details("Begin and end of each rank as a table", table.finish()));
}

}  // namespace stepcast
