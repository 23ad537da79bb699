// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/interference_ratio.h"

#include <algorithm>

#include "calibrate/measure/timing_summary.h"

namespace stepcast::measure {
namespace {

constexpr int kFewestCalls = 4;
constexpr int kMostCalls = 200;  // the device's queue holds 1024, events included

}  // namespace

std::vector<double> accompanied(std::span<const Interval> calls, std::span<const Interval> others) {
  std::vector<double> times;
  if (others.empty()) return times;
  for (const Interval& call : calls) {
    if (call.begin >= others.front().begin && call.end <= others.back().end) {
      times.push_back(call.end - call.begin);
    }
  }
  return times;
}

std::pair<int, int> calls_beside(double compute_us, double communication_us, double total_us) {
  const auto calls = [&](double us) {
    return static_cast<int>(
        std::clamp(total_us / std::max(us, 1e-3), double{kFewestCalls}, double{kMostCalls}));
  };
  return {calls(compute_us), calls(communication_us)};
}

std::optional<std::pair<double, double>> interference_ratios(std::span<const Beside> all) {
  std::vector<double> compute, communication;
  for (const Beside& b : all) {
    compute.push_back(std::max(1.0, b.compute_us / b.compute_alone_us));
    communication.push_back(std::max(1.0, b.communication_us / b.communication_alone_us));
  }
  if (all.empty()) return std::nullopt;
  return std::pair(summarize(compute).us, summarize(communication).us);
}

}  // namespace stepcast::measure
