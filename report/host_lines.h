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

struct HostLine {
  LaunchId launch{};
  int64_t runs = 0;
  Time total{};
};

struct HostTime {
  std::string role;             // whose host has most to do
  Time total{};                 // of its launches, waits apart
  std::vector<HostLine> lines;  // that take time, largest first
};

// REQUIRES: graph and prices are set.
HostTime host_time_of(const Result& r);

// A table; its first line says how much of the step it is.
std::string host_table(const Result& r, const TextStyle& style);
void write_host(JsonWriter& json, const Result& r);

}  // namespace stepcast
