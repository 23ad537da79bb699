// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/plots.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "report/svg/canvas.h"
#include "sim/statistics.h"
#include "tools/runs/summary.h"

namespace stepcast::accuracy {
namespace {

// Paul Tol's bright and muted schemes (SRON/EPS/TN/09-002), told apart by the colour-blind too.
constexpr std::array<const char*, 12> kColours{"#4477AA", "#EE6677", "#228833", "#CCBB44",
                                               "#66CCEE", "#AA3377", "#332288", "#88CCEE",
                                               "#44AA99", "#999933", "#882255", "#DDCC77"};

using BySource = std::map<std::string, std::vector<const RunRow*>>;

BySource timed_by_source(const std::vector<RunRow>& rows) {
  BySource sources;
  for (const RunRow& row : rows)
    if (time_error(row)) sources[row.source].push_back(&row);
  return sources;
}

// Names in order of their runs, most first, so that the marks of few lie above those of many; with
// their places in order of the names.
std::vector<std::pair<std::string, size_t>> most_first(const BySource& sources) {
  std::vector<std::pair<std::string, size_t>> names;
  for (const auto& [name, rows] : sources) names.emplace_back(name, names.size());
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return sources.at(a.first).size() > sources.at(b.first).size();
  });
  return names;
}

std::string document(int width, int height, const std::string& title, const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\">\n<title>{2}</title>\n<style>text{{font:11px sans-serif;fill:#222}}"
      ".t{{font-size:14px;font-weight:bold}}.e{{text-anchor:end}}.m{{text-anchor:middle}}"
      ".d{{stroke:#222;stroke-width:3}}.g{{stroke:#ddd}}.a{{stroke:#222}}.b{{stroke:#888;stroke-"
      "dasharray:4 3}}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text class=\"t\" x=\"12\" y=\"20\">{2}</text>\n{3}</svg>\n",
      width, height, title, body);
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1,
      y1, x2, y2);
}

std::string text(double x, double y, const char* style, const std::string& words) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", style, x, y,
                     xml_text(words));
}

// Dots, and diamonds once the colours are used up; `inner` stands inside the element.
std::string dot(double x, double y, double radius, size_t source, double opacity,
                const std::string& inner) {
  const char* colour = kColours[source % kColours.size()];
  if (source < kColours.size())
    return fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\" "
        "fill-opacity=\"{}\">{}</circle>\n",
        x, y, radius, colour, opacity, inner);
  const double d = 1.3 * radius;
  return fmt::format(
      "<path d=\"M{0:.1f} {1:.1f}l{2:.1f} {2:.1f} {3:.1f} {2:.1f} {3:.1f} {3:.1f}z\" fill=\"{4}\" "
      "fill-opacity=\"{5}\">{6}</path>\n",
      x, y - d, d, -d, colour, opacity, inner);
}

std::string mark(double x, double y, size_t source, const RunRow& row) {
  return dot(x, y, 2.6, source, 0.6,
             fmt::format("<title>{}: {:+.1f} %</title>", xml_text(row.id), 100 * *time_error(row)));
}

// Sources with their marks, one below the other.
std::string legend(const BySource& sources, double x, double top) {
  std::string body;
  size_t source = 0;
  for (const auto& [name, rows] : sources) {
    const double y = top + 8 + 16 * static_cast<double>(source);
    body += dot(x, y, 4, source, 1, "") +
            text(x + 10, y + 4, "", fmt::format("{} ({})", name, rows.size()));
    ++source;
  }
  return body;
}

// "-25 %", "0 %", "+25 %".
std::string percent_label(int percent) {
  return percent == 0 ? "0 %" : fmt::format("{:+} %", percent);
}

// Whole powers of ten around all times, measured and predicted.
std::pair<int, int> decades(const BySource& sources) {
  double least = 1e300, most = 0;
  for (const auto& [name, rows] : sources) {
    for (const RunRow* row : rows) {
      least = std::min({least, *row->measured.step_time_s, *row->step_time_s});
      most = std::max({most, *row->measured.step_time_s, *row->step_time_s});
    }
  }
  if (most <= 0) return {0, 1};
  const int low = static_cast<int>(std::floor(std::log10(least)));
  return {low, std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))))};
}

std::string seconds_label(int decade) {
  return decade < 0 ? fmt::format("{} ms", std::pow(10, decade + 3))
                    : fmt::format("{} s", std::pow(10, decade));
}

}  // namespace

std::string scatter_svg(const std::vector<RunRow>& rows) {
  constexpr double kLeft = 62, kTop = 36, kSide = 520;
  const BySource sources = timed_by_source(rows);
  const auto [low, high] = decades(sources);
  const double scale = kSide / (high - low);
  const auto x = [&, low = low](double seconds) {
    return kLeft + scale * (std::log10(seconds) - low);
  };
  const auto y = [&, low = low](double seconds) {
    return kTop + kSide - scale * (std::log10(seconds) - low);
  };
  std::string body;
  for (int d = low; d <= high; ++d) {
    const double at = std::pow(10, d);
    body += line(x(at), kTop, x(at), kTop + kSide, "g") +
            line(kLeft, y(at), kLeft + kSide, y(at), "g") +
            text(x(at), kTop + kSide + 16, "m", seconds_label(d)) +
            text(kLeft - 6, y(at) + 4, "e", seconds_label(d));
  }
  const double first = std::pow(10, low), last = std::pow(10, high);
  body += line(x(first), y(first), x(last), y(last), "a") +
          line(x(first), y(first * 1.1), x(last / 1.1), y(last), "b") +
          line(x(first * 1.1), y(first), x(last), y(last / 1.1), "b") +
          text(kLeft + kSide / 2, kTop + kSide + 34, "m", "measured") +
          text(kLeft + 4, kTop + 14, "", "predicted; dashed: 10 % off");
  for (const auto& [name, place] : most_first(sources))
    for (const RunRow* row : sources.at(name))
      body += mark(x(*row->measured.step_time_s), y(*row->step_time_s), place, *row);
  body += legend(sources, kLeft + kSide + 18, kTop);
  return document(820, 620, "Step time of measured runs, predicted", body);
}

std::string errors_svg(const std::vector<RunRow>& rows) {
  constexpr double kLeft = 220, kTop = 44, kWidth = 560, kRow = 26;
  const BySource sources = timed_by_source(rows);
  const auto x = [](double error) {
    return kLeft + kWidth / 2 * (1 + std::clamp(error, -1.0, 1.0));
  };
  const double bottom = kTop + kRow * static_cast<double>(sources.size());
  std::string body;
  for (int percent = -100; percent <= 100; percent += 25)
    body += line(x(percent / 100.0), kTop, x(percent / 100.0), bottom, percent == 0 ? "a" : "g") +
            text(x(percent / 100.0), bottom + 16, "m", percent_label(percent));
  size_t source = 0;
  for (const auto& [name, of_source] : sources) {
    const double middle = kTop + kRow * (static_cast<double>(source) + 0.5);
    std::vector<double> errors;
    for (const RunRow* row : of_source) {
      errors.push_back(*time_error(*row));
      body += mark(x(errors.back()), middle, source, *row);
    }
    std::sort(errors.begin(), errors.end());
    const auto at = [&](size_t percent) { return x(nearest_rank<double>(errors, percent)); };
    body += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"10\" fill=\"none\" "
        "stroke=\"#222\"/>\n",
        at(10), middle - 5, at(90) - at(10));
    body += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#222\" "
        "stroke-width=\"3\"/>\n",
        at(50), middle - 7, middle + 7);
    body += text(kLeft - 10, middle + 4, "e", fmt::format("{} ({})", name, of_source.size()));
    ++source;
  }
  return document(820, static_cast<int>(bottom) + 30,
                  "Predicted step time against measured, by source (box: 10th to 90th percentile)",
                  body);
}

std::string sizes_svg(const std::vector<RunRow>& rows) {
  constexpr double kLeft = 62, kTop = 36, kWidth = 520, kHeight = 370;
  constexpr int kLow = 7, kHigh = 13;  // decades of parameters
  const BySource sources = timed_by_source(rows);
  const auto x = [](double decade) {
    return kLeft + kWidth * (std::clamp<double>(decade, kLow, kHigh) - kLow) / (kHigh - kLow);
  };
  const auto y = [](double error) {
    return kTop + kHeight / 2 * (1 - std::clamp(error, -1.0, 1.0));
  };
  std::string body;
  constexpr std::array<const char*, kHigh - kLow + 1> kNames{"10 M",  "100 M", "1 B", "10 B",
                                                             "100 B", "1 T",   "10 T"};
  for (int d = kLow; d <= kHigh; ++d)
    body += line(x(d), kTop, x(d), kTop + kHeight, "g") +
            text(x(d), kTop + kHeight + 16, "m", kNames[static_cast<size_t>(d - kLow)]);
  for (int percent = -100; percent <= 100; percent += 25)
    body += line(kLeft, y(percent / 100.0), kLeft + kWidth, y(percent / 100.0),
                 percent == 0 ? "a" : "g") +
            text(kLeft - 6, y(percent / 100.0) + 4, "e", percent_label(percent));
  std::map<int, std::vector<double>> halves;  // errors by half decades
  for (const auto& [name, place] : most_first(sources)) {
    for (const RunRow* row : sources.at(name)) {
      if (row->parameters <= 0) continue;
      const double decade = std::log10(row->parameters);
      body += mark(x(decade), y(*time_error(*row)), place, *row);
      halves[static_cast<int>(std::floor(2 * decade))].push_back(*time_error(*row));
    }
  }
  for (auto& [half, errors] : halves) {
    std::sort(errors.begin(), errors.end());
    const double median = y(nearest_rank<double>(errors, 50));
    body += line(x(half / 2.0), median, x((half + 1) / 2.0), median, "d");
  }
  body += text(kLeft + kWidth / 2, kTop + kHeight + 34, "m", "parameters; thick: median") +
          legend(sources, kLeft + kWidth + 18, kTop);
  return document(820, 460, "Predicted step time against measured, by size of the model", body);
}

}  // namespace stepcast::accuracy
