// SPDX-License-Identifier: Apache-2.0
// What the section `job` of a scenario says, read and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario_document.h"
#include "sim/results/training_result.h"
#include "sim/units.h"

namespace stepcast {

// A published failure rate (job/fleets.csv).
struct Fleet {
  std::string name;
  double per_node_day = 0, low = 0, high = 0;
  int64_t gpus_per_node = 8;
  bool assumed = false;  // no source was found for a figure in it
};
const std::vector<Fleet>& fleets();
std::vector<Fleet> parse_fleets(std::string_view text);

// "500 steps", "1h": one of the two.
struct Often {
  double steps = 0, seconds = 0;
  bool stated() const { return steps > 0 || seconds > 0; }
  double in_seconds(double step) const { return steps > 0 ? steps * step : seconds; }
};

struct JobCause {
  std::string name;
  double per_node_day = 0, per_job_day = 0;
  double restart = 0;  // seconds: detection, replacement, initialization
  bool takes_node = true;
  double repair = 0;  // seconds; 0: not stated
};

struct JobPhase {
  double tokens = 0;
  std::optional<int64_t> batch, seq;
  int64_t number = 1;  // from 1, as answers count them
  Value section;       // as written, for where what is wrong is shown
};

// Seconds, bytes, bytes per second, watts.  What is not stated and has no default is empty.
struct Job {
  std::optional<double> tokens;
  std::optional<double> price;  // USD for a GPU and hour

  bool says_restart = false;  // the section says how long a restart takes
  std::vector<JobCause> causes;
  std::optional<double> mtbf;
  const Fleet* fleet = nullptr;  // whose rate is taken; null: it is stated
  double warmup = 0;
  std::optional<int64_t> spares;

  bool automatic = true;  // when to checkpoint
  Often every;
  bool async = false;
  std::optional<double> write_bw, read_bw, block, save, load;
  std::optional<int64_t> memory_copies;
  Often memory_every;
  double memory_block = 0, memory_load = 0;

  std::optional<double> node_power, pue, carbon;  // grams a kWh
  std::vector<JobPhase> rampup;
  Often evaluate_every;
  double evaluation = 0;

  Value section;  // as written, for what is found wrong later
};

// Reads the section of a document.  Throws InputError with all that is wrong with it.
Job read_job(const ScenarioDocument& document);
// The same; what is wrong is added to `problems`, and what could be read is returned.
Job read_job(const ScenarioDocument& document, Problems& problems);

// Where a problem of job.KEY is shown: its value, or the nearest section around it.
struct JobPlace {
  Mark mark;
  int length = 1;
};
JobPlace place_in_job(const Job& job, std::string_view key);

// Throws an InputError E127 at job.KEY, or the nearest section around it.
[[noreturn]] void refuse_job(const Job& job, std::string_view key, std::string message,
                             std::string help);

}  // namespace stepcast
