// SPDX-License-Identifier: Apache-2.0
// Public.  The forecast of one step of a scenario: figures as plain data, everything else as text,
// JSON (docs/json.md has its keys) or a trace for ui.perfetto.dev.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepcast/scenario.h"

namespace stepcast {

struct Result;  // internal

struct ForecastSettings {
  bool what_if = true;     // also simulate the step with each cost removed
  bool trace = false;      // record start and end of every op: what Forecast::write_trace() needs
  bool all_ranks = false;  // simulate each rank by itself, equal ones too
};

// A pipeline rank.
struct RankFigures {
  std::string name;        // "pp rank 3"
  int64_t peak_bytes = 0;  // the most that it allocates
  // Where its step goes, in seconds by kind ("matmul", "exposed_tp", "fill", ...); they add up to
  // the step.
  std::vector<std::pair<std::string, double>> account;
};

struct ForecastFigures {
  double step_time_s = 0;
  // 80 of 100 published runs like this one took between that; std::nullopt: there are none.
  std::optional<std::pair<double, double>> interval_s;
  double tokens_per_s_per_gpu = 0;
  double mfu = 0, hfu = 0;  // shares of the peak; full attention, recomputation in hfu alone
  double bubble_s = 0;      // on the critical rank
  uint32_t critical_rank = 0;
  // Bytes of a GPU: the most that any rank allocates, the most that any reserves (what decides
  // whether the step fits), and what there is.
  int64_t peak_bytes = 0, reserved_bytes = 0, usable_bytes = 0;
  bool fits = true;
  std::vector<RankFigures> ranks;
  std::vector<std::string> warnings;
};

class Forecast {
 public:
  // Throws InputError if the step cannot be simulated (a schedule that deadlocks, say).
  explicit Forecast(const LoadedScenario& scenario, const ForecastSettings& settings = {});

  ForecastFigures figures() const;
  // What `stepcast run` prints, in lines of `width` columns where names allow it.
  std::string text(int width = 80) const;
  // What `stepcast run --json` prints.
  std::string json() const;
  // Calls `sink` with the pieces of a trace file, in order.  Throws InputError if
  // ForecastSettings::trace was not set.
  void write_trace(const std::function<void(std::string_view)>& sink) const;

 private:
  std::shared_ptr<const Result> result_;
};

}  // namespace stepcast
