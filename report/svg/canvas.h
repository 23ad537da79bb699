// SPDX-License-Identifier: Apache-2.0
// Boxes, lines and words of an SVG picture, in whole pixels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stepcast {

constexpr int64_t kSvgLetter = 6;  // pixels that a letter of a label takes

class SvgCanvas {
 public:
  // `style`: classes of the style sheet in finish(); `title`: shown on hovering; may be empty.
  void line(int64_t x1, int64_t y1, int64_t x2, int64_t y2, std::string_view style,
            std::string_view title = {});
  // From (x1, y) to (x2, y), bent by `rise` pixels upwards.
  void arc(int64_t x1, int64_t x2, int64_t y, int64_t rise, std::string_view style,
           std::string_view title = {});
  // The label is in the middle, elided to what fits.
  void box(int64_t x, int64_t y, int64_t width, int64_t height, std::string_view style,
           std::string_view label, std::string_view title = {});
  // A mark of a plot; a hollow one has only its rim coloured.
  void dot(int64_t x, int64_t y, std::string_view colour, bool hollow, std::string_view title);
  // Straight from point to point.
  void curve(std::span<const std::pair<int64_t, int64_t>> points, std::string_view colour);
  // Begins at x, or has its middle there with style "m", its end with "e".
  void text(int64_t x, int64_t y, std::string_view words, std::string_view style = {});

  // The whole document.  `title` is XML already.
  std::string finish(std::string_view title, int64_t height) const;

 private:
  void reach(int64_t x);

  std::string body_;
  int64_t right_ = 600;
};

// --- Names inside SVG and other XML

// Escaped for terminals too (escape_text), so that a picture shows what the text shows.
std::string xml_text(std::string_view text);

// At most `most` columns, the end cut off: "leaf-of-the-ver..."
std::string elided(std::string_view text, int64_t most);

}  // namespace stepcast
