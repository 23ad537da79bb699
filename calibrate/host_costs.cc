// SPDX-License-Identifier: Apache-2.0
#include "calibrate/host_costs.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sim/check.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> host_cost_files();

namespace {

enum Host : size_t { kX86, kGrace, kHosts };
using AllCosts = std::array<HostCosts, kHosts>;

// Takes the first cell off a line.
std::string_view take_cell(std::string_view& line) {
  const std::string_view cell = line.substr(0, line.find(','));
  line.remove_prefix(std::min(cell.size() + 1, line.size()));
  return cell;
}

Time microseconds(std::string_view text) {
  double us = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
  STEPCAST_CHECK(error == std::errc() && end == text.data() + text.size() && us > 0,
                 "host_costs.csv: '" + std::string(text) + "'");
  return time_from_seconds(us * 1e-6);
}

AllCosts read_costs(std::string_view text) {
  AllCosts all{};
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view name = take_cell(line);
    for (size_t call = 0; call < kHostCalls; ++call) {
      if (name != name_of(static_cast<HostCall>(call))) continue;
      for (HostCosts& costs : all) costs[call] = microseconds(take_cell(line));
    }
  }
  for (const HostCosts& costs : all)
    for (const Time t : costs) STEPCAST_CHECK(t > Time{}, "host_costs.csv lacks a call");
  return all;
}

}  // namespace

const HostCosts& host_costs(const Node& node) {
  static const AllCosts all = read_costs(host_cost_files()[0].second);
  return all[node.c2c ? kGrace : kX86];
}

Time host_time(const Launch& launch, const HostCosts& costs) {
  Time sum{};
  for (size_t call = 0; call < kHostCalls; ++call) sum += costs[call] * int64_t{launch.calls[call]};
  return sum;
}

}  // namespace stepcast
