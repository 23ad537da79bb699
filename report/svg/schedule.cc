// SPDX-License-Identifier: Apache-2.0
#include "report/svg/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "report/svg/canvas.h"

namespace stepcast {

namespace {

// Lengths in pixels.
constexpr int64_t kLeft = 72, kRight = 28, kTop = 66;
constexpr int64_t kLane = 26, kLaneGap = 4;
constexpr int64_t kLeastPlot = 860, kMostPlot = 16'000;
constexpr int64_t kDigit = 6;  // of a label inside a box
constexpr int64_t kAxisLabels = 70;

// Red, green, blue of the first chunk, from the bright scheme of Paul Tol's colour-blind safe
// palettes (SRON/EPS/TN/09-002); of the passes of a shared vocabulary from the vibrant one.
struct Rgb {
  int r, g, b;
};
constexpr std::array<Rgb, kActionKinds> kPictureColors = {{{0x44, 0x77, 0xaa},
                                                           {0xee, 0x66, 0x77},
                                                           {0x66, 0xcc, 0xee},
                                                           {0x22, 0x88, 0x33},
                                                           {0xcc, 0xbb, 0x44},
                                                           {0xaa, 0x33, 0x77},
                                                           {0xbb, 0xbb, 0xbb},
                                                           {0x00, 0x99, 0x88},
                                                           {0xee, 0x77, 0x33},
                                                           {0x00, 0x77, 0xbb},
                                                           {0xcc, 0x33, 0x11}}};

// Towards white, the more chunks the further the last one: by 40 to 60 %.
Rgb shade(ActionKind kind, int chunk, int chunks) {
  Rgb c = kPictureColors[static_cast<size_t>(kind)];
  const int mix = chunks > 1 ? (chunks == 2 ? 40 : 60) * chunk / (chunks - 1) : 0;
  for (int* part : {&c.r, &c.g, &c.b}) *part += (255 - *part) * mix / 100;
  return c;
}

std::string hex(const Rgb& c) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string s = "#";
  for (const int part : {c.r, c.g, c.b}) {
    s += kDigits[static_cast<size_t>(part / 16)];
    s += kDigits[static_cast<size_t>(part % 16)];
  }
  return s;
}

bool is_dark(const Rgb& c) {
  return 299 * c.r + 587 * c.g + 114 * c.b < 140'000;
}

// Hundredths of a pixel: "12.5".
std::string px(int64_t hundredths) {
  return exact_decimal(hundredths, 100);
}

struct Canvas {
  const ScheduleDrawing& d;
  int64_t plot = kLeastPlot;  // width of the lanes
  int64_t lanes_bottom = 0;
  int chunks = 1;

  // Hundredths of a pixel from the left end of the lanes.
  int64_t x(Time t) const {
    const auto whole = static_cast<__int128>(std::max<int64_t>(1, d.makespan.count()));
    return static_cast<int64_t>(static_cast<__int128>(t.count()) * plot * 100 / whole);
  }
  std::string time(Time t) const { return exact_decimal(t.count(), d.per_unit); }
};

Canvas canvas_of(const ScheduleDrawing& d) {
  Canvas c{.d = d};
  int64_t least = std::numeric_limits<int64_t>::max();
  size_t label = 1;
  for (const auto& lane : d.lanes)
    for (const DrawnAction& a : lane) {
      if (a.end > a.begin) least = std::min(least, int64_t{(a.end - a.begin).count()});
      label = std::max(label, label_of(a.action, d.seq_splits).size());
      c.chunks = std::max(c.chunks, a.chunk + 1);
    }
  const int64_t box = kDigit * static_cast<int64_t>(label) + 5;
  const __int128 wanted = static_cast<__int128>(d.makespan.count()) * box / least;
  c.plot = wanted > kMostPlot ? kMostPlot : std::max(kLeastPlot, static_cast<int64_t>(wanted));
  c.lanes_bottom = kTop + static_cast<int64_t>(d.lanes.size()) * (kLane + kLaneGap);
  return c;
}

std::string class_of(ActionKind kind, int chunk) {
  return fmt::format("{}{}", letter_of(kind), chunk);
}

std::string style_sheet(const Canvas& c) {
  std::string s =
      "<style>text{font:11px sans-serif;fill:#222}.t{font-size:16px;font-weight:bold}"
      ".n text{font-size:10px;text-anchor:middle}.n .w{fill:#fff}.e{text-anchor:end}"
      ".m{text-anchor:middle;fill:#555}.n rect{stroke:#fff;stroke-width:.7}";
  for (const ActionKind kind : kinds_in(c.d))
    for (int chunk = 0; chunk < c.chunks; ++chunk)
      s += '.' + class_of(kind, chunk) + "{fill:" + hex(shade(kind, chunk, c.chunks)) + '}';
  return s + "</style>\n";
}

// A box in its lane, from `y` down.
std::string box(const Canvas& c, const DrawnAction& a, Time begin, Time end, int rank, int64_t y,
                int64_t height) {
  if (end <= begin) return {};
  const int64_t left = c.x(begin), width = c.x(end) - left;
  const std::string name = to_string(a.action, c.d.seq_splits);
  std::string s =
      fmt::format("<g><title>{} on rank {}: {} to {}</title><rect class=\"{}\" x=\"{}\" ", name,
                  rank, c.time(begin), c.time(end), class_of(a.action.kind, a.chunk), px(left));
  if (y != 0) s += fmt::format("y=\"{}\" ", y);
  s += fmt::format("width=\"{}\" height=\"{}\"/>", px(width), height);
  const std::string label = label_of(a.action, c.d.seq_splits);
  if (width >= 100 * (kDigit * static_cast<int64_t>(label.size()) + 2)) {
    s += is_dark(shade(a.action.kind, a.chunk, c.chunks)) ? "<text class=\"w\"" : "<text";
    s += fmt::format(" x=\"{}\" y=\"{}\">{}</text>", px(left + width / 2), y + height / 2 + 4,
                     label);
  }
  return s + "</g>\n";
}

std::string lane(const Canvas& c, size_t r) {
  const int64_t y = kTop + static_cast<int64_t>(r) * (kLane + kLaneGap);
  const int rank = static_cast<int>(r);
  const std::vector<DrawnAction>& actions = c.d.lanes[r];
  std::string s = fmt::format(
      "<text class=\"e\" x=\"{}\" y=\"{}\">rank {}</text>\n<g class=\"n\" "
      "transform=\"translate({},{})\">\n",
      kLeft - 8, y + kLane / 2 + 4, rank, kLeft, y);
  for (size_t i = 0; i < actions.size(); ++i) {
    const DrawnAction& a = actions[i];
    if (!a.action.overlaps_next || i + 1 == actions.size()) {
      s += box(c, a, a.begin, a.end, rank, 0, kLane);
      continue;
    }
    const DrawnAction& b = actions[++i];
    const Time begin = std::min(a.begin, b.begin), end = std::max(a.end, b.end);
    s += box(c, a, begin, end, rank, 0, kLane / 2);
    s += box(c, b, begin, end, rank, kLane / 2, kLane - kLane / 2);
  }
  return s + "</g>\n";
}

// Lanes' ground and grid, under the boxes, and the times below.
std::string axis(const Canvas& c) {
  std::string s;
  for (size_t r = 0; r < c.d.lanes.size(); ++r)
    s += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f1f1ee\"/>\n",
                     kLeft, kTop + static_cast<int64_t>(r) * (kLane + kLaneGap), c.plot, kLane);
  const auto least = static_cast<__int128>(c.d.makespan.count()) * kAxisLabels / c.plot + 1;
  const int64_t step = axis_step(static_cast<int64_t>(least), c.d.per_unit);
  for (int64_t t = 0; t <= c.d.makespan.count(); t += step) {
    const std::string x = px(kLeft * 100 + c.x(Time{t}));
    s += fmt::format(
        "<path d=\"M{} {}V{}\" stroke=\"#d5d5d0\"/><text class=\"m\" x=\"{}\" y=\"{}\">{}</text>\n",
        x, kTop - 4, c.lanes_bottom + 2, x, c.lanes_bottom + 16, c.time(Time{t}));
    if (t > std::numeric_limits<int64_t>::max() - step) break;
  }
  return s;
}

std::string swatch(int64_t x, int64_t y, const std::string& name) {
  return fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"12\"/>", name, x,
                     y - 10);
}

std::string legend(const Canvas& c) {
  constexpr int kMostShades = 16;
  int64_t x = kLeft, y = c.lanes_bottom + 40;
  std::string s;
  const auto words = [&](const std::string& text) {
    s += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x, y, text);
    x += kSvgLetter * static_cast<int64_t>(text.size()) + 24;
  };
  const std::vector<ActionKind> kinds = kinds_in(c.d);
  for (const ActionKind kind : kinds) {
    s += swatch(x, y, class_of(kind, 0));
    x += 19;
    words(letter_of(kind) + (' ' + std::string(name_of_kind(kind))));
  }
  if (c.chunks > 1 && !kinds.empty()) {
    x = kLeft;
    y += 20;
    for (int chunk = 0; chunk < std::min(c.chunks, kMostShades); ++chunk, x += 17)
      s += swatch(x, y, class_of(kinds.front(), chunk));
    x += 4;
    words("chunks of a rank, from the first to the last");
  }
  return s;
}

}  // namespace

std::string schedule_svg(const ScheduleDrawing& d) {
  const Canvas c = canvas_of(d);
  const int64_t width = kLeft + c.plot + kRight;
  const int64_t height = c.lanes_bottom + (c.chunks > 1 ? 76 : 56);
  const std::string title = xml_text(elided(escape_text(d.title), (width - 2 * kRight) / 10));
  std::string facts;
  for (const std::string& fact : d.facts) facts += (facts.empty() ? "" : ", ") + xml_text(fact);
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} "
      "{}\">\n<title>{}</title>\n{}<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n<text "
      "class=\"t\" x=\"{}\" y=\"28\">{}</text>\n<text x=\"{}\" y=\"48\">{}</text>\n{}",
      width, height, width, height, title, style_sheet(c), width, height, kLeft, title, kLeft,
      facts, axis(c));
  for (size_t r = 0; r < d.lanes.size(); ++r) s += lane(c, r);
  return s + legend(c) + "</svg>\n";
}

}  // namespace stepcast
