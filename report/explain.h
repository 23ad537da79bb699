// SPDX-License-Identifier: Apache-2.0
// The long answers: where every setting, byte, idle picosecond and price comes from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/format.h"
#include "report/json_writer.h"
#include "sim/result.h"

namespace stepcast {

// One resolved value of the scenario, as text.
struct SettingLine {
  std::string path, value, origin;
};

// One line a setting: path, value, where it comes from.
std::string explain_settings(std::span<const SettingLine> settings, const TextStyle& style = {});

// s*b*h of one layer of a role's chunks, in elements: with it the activation terms are also given
// as the coefficient of s*b*h a layer, as in Korthikanti et al. 2022, section 4.  0 = not shown.
struct ActivationUnit {
  double elements = 0;          // sequence * microbatch * hidden
  double layers_per_chunk = 0;  // of this role; 0 if its chunks differ
};

// Bytes at the peak of each role by category, then the tensors that the passes of the fullest one
// hold there.  `units`: one for each role, or empty.
std::string explain_memory(const Result& result, std::span<const ActivationUnit> units,
                           const TextStyle& style = {});

// Bubble of each role by cause.
std::string explain_bubble(const Result& result, const TextStyle& style = {});

// The longest chain of the step: who is busy from when to when, and with what.
std::string explain_critical_path(const Result& result, const TextStyle& style = {});

// A work of the step and how much device time it takes.
struct CostLine {
  WorkId work{};
  int64_t runs = 0;  // on all roles, one lane each
  Time total{};      // runs * price
};

// All works that run, longest total first.  REQUIRES: result.graph and result.prices.
std::vector<CostLine> cost_lines(const Result& result);

// Each work with its price, where the price comes from, and how often it runs.
std::string explain_costs(const Result& result, const TextStyle& style = {});
void write_costs(JsonWriter& json, const Result& result);

}  // namespace stepcast
