// SPDX-License-Identifier: Apache-2.0
#include "report/svg/canvas.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/format.h"

namespace stepcast {

namespace {

std::string with_title(std::string element, std::string_view title) {
  if (title.empty()) return element + "/>\n";
  const size_t name = element.find(' ');
  return element + "><title>" + xml_text(title) + "</title></" + element.substr(1, name - 1) +
         ">\n";
}

std::string class_of(std::string_view style) {
  return style.empty() ? "" : " class=\"" + std::string(style) + '"';
}

// Colours from the bright scheme of Paul Tol's colour-blind safe palettes (SRON/EPS/TN/09-002),
// light for boxes with dark labels.
constexpr std::string_view kStyles =
    "<style>text{font:11px sans-serif;fill:#222}.t{font-size:16px;font-weight:bold}"
    ".h{font-size:13px;font-weight:bold}.m{text-anchor:middle}.e{text-anchor:end}"
    "rect{stroke:#555;stroke-width:.8}line,path{stroke-width:1.2;fill:none}"
    ".gpu{fill:#a9c4de}.nvswitch{fill:#a8d5b0}.pcie{fill:#eee7b4}.cpu{fill:#dddddd}"
    ".nic{fill:#c2e9f5}.switch{fill:#e3c3d8}.frame{fill:#fafaf7;stroke:#999}"
    ".bus{fill:#228833;stroke:none}"
    ".lnv{stroke:#228833}.lc2c{stroke:#4477aa;stroke-width:2}.lpcie{stroke:#a79a2c}"
    ".lhost{stroke:#777;stroke-width:2}.lnet{stroke:#aa3377;stroke-opacity:.45}"
    ".grid{stroke:#ddd;stroke-width:1}.axis{stroke:#222}"
    ".bad{stroke:#ee3344;stroke-width:1.6;stroke-dasharray:5 3}"
    ".r0{fill:#dbe6f2}.r1{fill:#fbd5da}.r2{fill:#d2ecd6}.r3{fill:#f3efcf}"
    ".r4{fill:#d9f2fa}.r5{fill:#ecd2e2}.r6{fill:#e8e8e8}.r7{fill:#f7ddc6}</style>\n";

}  // namespace

void SvgCanvas::reach(int64_t x) {
  right_ = std::max(right_, x);
}

void SvgCanvas::line(int64_t x1, int64_t y1, int64_t x2, int64_t y2, std::string_view style,
                     std::string_view title) {
  reach(std::max(x1, x2));
  body_ += with_title(fmt::format("<line{} x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"",
                                  class_of(style), x1, y1, x2, y2),
                      title);
}

void SvgCanvas::arc(int64_t x1, int64_t x2, int64_t y, int64_t rise, std::string_view style,
                    std::string_view title) {
  reach(std::max(x1, x2));
  body_ += with_title(fmt::format("<path{} d=\"M{} {}Q{} {} {} {}\"", class_of(style), x1, y,
                                  (x1 + x2) / 2, y - 2 * rise, x2, y),
                      title);
}

void SvgCanvas::box(int64_t x, int64_t y, int64_t width, int64_t height, std::string_view style,
                    std::string_view label, std::string_view title) {
  reach(x + width);
  body_ += with_title(fmt::format("<rect{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"",
                                  class_of(style), x, y, width, height),
                      title);
  const int64_t room = (width - 2) / kSvgLetter;
  if (!label.empty() && room >= 2)
    text(x + width / 2, y + height / 2 + 4,
         display_width(label) <= room ? label : label.substr(0, static_cast<size_t>(room)), "m");
}

void SvgCanvas::dot(int64_t x, int64_t y, std::string_view colour, bool hollow,
                    std::string_view title) {
  reach(x + 3);
  std::string element = fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\" ", x, y);
  element += hollow ? "fill=\"#fff\" fill-opacity=\"0.6\" stroke=\"" + std::string(colour) + '"'
                    : "fill=\"" + std::string(colour) + "\" fill-opacity=\"0.75\"";
  body_ += with_title(std::move(element), title);
}

void SvgCanvas::curve(std::span<const std::pair<int64_t, int64_t>> points,
                      std::string_view colour) {
  std::string path;
  for (const auto& [x, y] : points) {
    reach(x);
    path += fmt::format("{}{} {}", path.empty() ? 'M' : 'L', x, y);
  }
  body_ +=
      "<path d=\"" + path + "\" stroke=\"" + std::string(colour) + "\" stroke-width=\"1.8\"/>\n";
}

void SvgCanvas::text(int64_t x, int64_t y, std::string_view words, std::string_view style) {
  const int64_t width = kSvgLetter * display_width(words);
  reach(style == "e" ? x : style == "m" ? x + width / 2 : x + width);
  body_ +=
      fmt::format("<text{} x=\"{}\" y=\"{}\">{}</text>\n", class_of(style), x, y, xml_text(words));
}

std::string SvgCanvas::finish(std::string_view title, int64_t height) const {
  const std::string w = std::to_string(right_ + 24), h = std::to_string(height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h +
         "\" viewBox=\"0 0 " + w + ' ' + h + "\">\n<title>" + std::string(title) + "</title>\n" +
         std::string(kStyles) + "<rect style=\"stroke:none\" width=\"" + w + "\" height=\"" + h +
         "\" fill=\"#fff\"/>\n" + body_ + "</svg>\n";
}

std::string xml_text(std::string_view text) {
  std::string s;
  for (const char c : escape_text(text)) {
    switch (c) {
      case '&': s += "&amp;"; break;
      case '<': s += "&lt;"; break;
      case '>': s += "&gt;"; break;
      case '"': s += "&quot;"; break;
      default: s += c;
    }
  }
  return s;
}

std::string elided(std::string_view text, int64_t most) {
  if (display_width(text) <= most) return std::string(text);
  size_t bytes = 0;
  int64_t characters = 0;
  for (; bytes < text.size(); ++bytes)
    if ((static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80 && ++characters > most - 3) break;
  return std::string(text.substr(0, bytes)) + "...";
}

}  // namespace stepcast
