// SPDX-License-Identifier: Apache-2.0
// What the host of a rank does during a step, by kind of launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/format.h"
#include "report/json_writer.h"
#include "sim/result.h"

namespace stepcast {

// One kind of launch.
struct HostLine {
  LaunchId launch{};
  int64_t runs = 0;  // of one rank, in a step
  Time total{};      // of its host for all of them
};

struct HostTime {
  std::string role;             // of the rank whose host has most to do
  Time total{};                 // of its launches, waits apart
  std::vector<HostLine> lines;  // that take time, largest first
};

// REQUIRES: r.graph and r.prices, here and below.
HostTime host_time_of(const Result& r);

// A line that says how much of the step it is, then one a kind: share of it, runs x time each.
std::string host_table(const Result& r, const TextStyle& style);
// "host": [{launch, runs, time_s, time_ps}]
void write_host(JsonWriter& json, const Result& r);

}  // namespace stepcast
