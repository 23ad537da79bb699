// SPDX-License-Identifier: Apache-2.0
// Pieces of HTML that panels are made of.  Text is escaped here and nowhere else; what is called
// `html` is markup already.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// Text that may stand in an element or in an attribute between double quotes; control and
// deceptive characters become visible (escape_text).
std::string html_text(std::string_view text);

// A table as wide as it needs; it scrolls within the page where that is narrow.
struct HtmlColumn {
  std::string title;
  bool number = false;  // flush right, digits of equal width
};
class HtmlTable {
 public:
  // `caption` is read aloud and names the table.
  HtmlTable(std::string_view caption, std::span<const HtmlColumn> columns);

  HtmlTable& row(std::string_view style = {});  // begins one
  HtmlTable& text(std::string_view text);       // next cell of the row
  HtmlTable& html(std::string_view html);
  std::string finish();

 private:
  void cell(std::string_view html);
  void end_row();

  std::vector<HtmlColumn> columns_;
  std::string out_;
  size_t column_ = 0;
  bool in_row_ = false;
};

// One bar of parts beside each other, 100 % wide in sum or less.  `style`: classes of the sheet.
struct BarPart {
  double share = 0;
  std::string style;
  std::string title;  // shown on hovering
};
std::string html_bar(std::span<const BarPart> parts);

// "<section id=...><h2>title</h2>...": a panel.
std::string html_section(std::string_view id, std::string_view title, std::string_view html);

// Folded away until it is asked for; the script opens it for paper.
std::string html_details(std::string_view summary, std::string_view html);

}  // namespace stepcast
