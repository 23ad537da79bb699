// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/sweep_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stepcast::measure {

std::string sweep_bar(int64_t done, int64_t total, double seconds, double budget_s) {
  constexpr int64_t kWidth = 30;
  const double by_points = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0;
  const double by_time = std::isfinite(budget_s) ? seconds / budget_s : 0;
  const double share = std::clamp(std::max(by_points, by_time), 0.0, 1.0);
  const auto filled = static_cast<size_t>(share * static_cast<double>(kWidth));
  std::string text = '[' + std::string(filled, '#') + std::string(kWidth - filled, '-') + ']';
  text += fmt::format(" {}/{} points, {:.0f}", done, total, seconds);
  if (std::isfinite(budget_s)) text += fmt::format(" of {:.0f}", budget_s);
  return text + " s";
}

std::string sweep_summary(const SweepReport& report, const std::string& output,
                          const std::string& command) {
  std::string text;
  for (const std::string& line : report.skipped) text += "left out: " + line + '\n';
  text += fmt::format("{} points measured in {:.0f} s", report.measured, report.seconds);
  if (!report.skipped.empty()) text += fmt::format(", {} left out", report.skipped.size());
  if (report.left > 0) {
    text += fmt::format(", {} left {}", report.left,
                        report.interrupted ? "after the interruption" : "for want of time");
  }
  text += '\n';
  if (report.left > 0 && output != "-") {
    text += "the same command goes on from here: " + command + '\n';
  }
  return text;
}

}  // namespace stepcast::measure
