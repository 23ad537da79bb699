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

size_t call_named(std::string_view name) {
  for (size_t call = 0; call < kHostCalls; ++call)
    if (name == name_of(static_cast<HostCall>(call))) return call;
  STEPCAST_CHECK(false, "host_costs.csv: unknown call '" + std::string(name) + "'");
  return 0;
}

// Remarks, the header, and one row a call: its costs by host, and where they are from.
AllCosts read_costs(std::string_view text) {
  AllCosts all{};
  bool in_rows = false;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with('#')) continue;
    if (!in_rows) {
      STEPCAST_CHECK(line == "call,x86_us,grace_us,kind", "host_costs.csv: its header");
      in_rows = true;
      continue;
    }
    const size_t call = call_named(take_cell(line));
    for (HostCosts& costs : all) costs[call] = microseconds(take_cell(line));
    STEPCAST_CHECK(line == "measured" || line == "derived",
                   "host_costs.csv: '" + std::string(line) + "'");
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
