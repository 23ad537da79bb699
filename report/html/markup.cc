// SPDX-License-Identifier: Apache-2.0
#include "report/html/markup.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/format.h"
#include "report/svg/canvas.h"
#include "sim/check.h"

namespace stepcast {

std::string html_text(std::string_view text) {
  return xml_text(text);
}

HtmlTable::HtmlTable(std::string_view caption, std::span<const HtmlColumn> columns)
    : columns_(columns.begin(), columns.end()) {
  out_ = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + html_text(caption) +
         "\"><table><caption>" + html_text(caption) + "</caption><thead><tr>";
  for (const HtmlColumn& c : columns_)
    out_ += std::string(c.number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">") +
            html_text(c.title) + "</th>";
  out_ += "</tr></thead><tbody>\n";
}

HtmlTable& HtmlTable::row(std::string_view style) {
  end_row();
  out_ += style.empty() ? "<tr>" : "<tr class=\"" + std::string(style) + "\">";
  in_row_ = true;
  column_ = 0;
  return *this;
}

HtmlTable& HtmlTable::text(std::string_view text) {
  cell(html_text(text));
  return *this;
}

HtmlTable& HtmlTable::html(std::string_view html) {
  cell(html);
  return *this;
}

void HtmlTable::cell(std::string_view html) {
  STEPCAST_CHECK(in_row_ && column_ < columns_.size(), "a cell has a row and a column");
  const bool first = column_ == 0;
  out_ += first ? "<th scope=\"row\"" : "<td";
  if (columns_[column_].number) out_ += " class=\"n\"";
  out_ += '>';
  out_ += html;
  out_ += first ? "</th>" : "</td>";
  ++column_;
}

void HtmlTable::end_row() {
  if (in_row_) out_ += "</tr>\n";
  in_row_ = false;
}

std::string HtmlTable::finish() {
  end_row();
  return out_ + "</tbody></table></div>\n";
}

std::string html_bar(std::span<const BarPart> parts) {
  std::string s =
      "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\">";
  double at = 0;
  for (const BarPart& p : parts) {
    if (p.share <= 0) continue;
    const std::string title =
        p.title.empty() ? "/>" : "><title>" + html_text(p.title) + "</title></rect>";
    s += fmt::format("<rect class=\"{}\" x=\"{}\" width=\"{}\" height=\"10\"{}", p.style,
                     fixed(at * 1000, 1), fixed(std::max(p.share * 1000, 1.0), 1), title);
    at += p.share;
  }
  return s + "</svg>";
}

std::string html_section(std::string_view id, std::string_view title, std::string_view html) {
  return fmt::format(
             "<section id=\"{0}\" aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>\n",
             id, html_text(title)) +
         std::string(html) + "</section>\n";
}

std::string html_details(std::string_view summary, std::string_view html) {
  return "<details><summary>" + html_text(summary) + "</summary>\n" + std::string(html) +
         "</details>\n";
}

}  // namespace stepcast
