// SPDX-License-Identifier: Apache-2.0
#include "calibrate/host_costs.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sim/check.h"
#include "sim/csv.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> host_cost_files();

namespace {

enum Host : size_t { kX86, kGrace, kHosts };
using AllCosts = std::array<HostCosts, kHosts>;

size_t call_named(std::string_view name) {
  for (size_t call = 0; call < kHostCalls; ++call)
    if (name == name_of(static_cast<HostCall>(call))) return call;
  STEPCAST_CHECK(false, "host_costs.csv: unknown call '" + std::string(name) + "'");
  return 0;
}

// One row a call: its costs by host, and where they are from.
AllCosts read_costs(std::string_view text) {
  AllCosts all{};
  for (const CsvRow& row : csv_rows(text, "call,x86_us,grace_us,kind")) {
    const size_t call = call_named(row.cells[0]);
    for (size_t host = 0; host < kHosts; ++host)
      all[host][call] = time_from_seconds(row.number(host + 1) * 1e-6);
    STEPCAST_CHECK(row.cells[3] == "measured" || row.cells[3] == "derived",
                   "host_costs.csv: '" + std::string(row.cells[3]) + "'");
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
