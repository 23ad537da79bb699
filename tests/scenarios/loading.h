// SPDX-License-Identifier: Apache-2.0
// Loading small scenarios in tests, and what went wrong with them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/diagnostic.h"

namespace stepcast::testing {

using Sets = std::vector<std::pair<std::string, std::string>>;

// Sixteen GPUs, tp 2, pp 2, dp 4: legal as it is.
inline const std::string kMinimal =
    "model: llama3-8b\n"
    "cluster: dgx-h100 x 2\n"
    "parallel: {tp: 2, pp: 2}\n"
    "batch: {global: 256, micro: 1, seq: 8192}\n";

inline Scenario load(const std::string& text, const Sets& sets = {}) {
  LoadOptions options;
  options.set = sets;
  return load_scenario_text(text, "run.yaml", options);
}

struct Failure {
  std::vector<Diagnostic> all;
  int exit_status = 0;
  // "E210 3:16 tp = 3 does not divide ...", one a problem; empty if the scenario was legal.
  std::vector<std::string> lines;
  // Codes in order, "E102 E210".
  std::string codes;
};

template <class Load>
Failure failure_of(Load&& attempt) {
  Failure f;
  try {
    attempt();
  } catch (const InputError& e) {
    f.all = e.diagnostics;
    f.exit_status = exit_status_of(e.diagnostics);
    for (const Diagnostic& d : e.diagnostics) {
      f.lines.push_back(d.code + ' ' + std::to_string(d.line) + ':' + std::to_string(d.column) +
                        ' ' + d.message);
      f.codes += (f.codes.empty() ? "" : " ") + d.code;
    }
  }
  return f;
}

inline Failure failure(const std::string& text, const Sets& sets = {}) {
  return failure_of([&] { load(text, sets); });
}

// kMinimal with something changed.
inline Failure failure_with(const Sets& sets) {
  return failure(kMinimal, sets);
}
inline Scenario load_with(const Sets& sets) {
  return load(kMinimal, sets);
}

inline const Setting* find_setting(const Scenario& s, const std::string& path) {
  for (const Setting& x : s.settings)
    if (x.path == path) return &x;
  return nullptr;
}

// "value (origin)", or "" if there is no such setting.
inline std::string setting(const Scenario& s, const std::string& path) {
  const Setting* x = find_setting(s, path);
  return x == nullptr ? "" : x->value + " (" + x->origin + ")";
}

}  // namespace stepcast::testing
