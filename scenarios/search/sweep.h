// SPDX-License-Identifier: Apache-2.0
// Many forecasts of one scenario with other values: `stepcast sweep`.
//
// An axis is a dotted path and the values that its key takes.  Points are all combinations of them,
// or, zipped, the first values of all axes, then the second ones.  Each is a scenario; what cannot
// be one is a point without a row.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/scenario_document.h"
#include "scenarios/search/search.h"
#include "sim/results/step_row.h"

namespace stepcast {

struct SweepOptions {
  std::vector<std::string> axes;  // "parallel.tp=1,2,4", in place of those of the section
  // What the command line has set in the document: it is no part of the file.
  std::vector<std::pair<std::string, std::string>> given;
};

// More than these are refused; of another number, `stepcast search` looks for the best.
constexpr size_t kMostPoints = 1'000'000;

class SweepSpace {
 public:
  // Reads the section `sweep`.  Throws InputError with all problems: E102 for a path that is none,
  // E107, E125 for an axis without values, E123 for more than kMostPoints points, E126 without any
  // axis, E127 for zipped axes of unlike length.
  explicit SweepSpace(const ScenarioDocument& document, const SweepOptions& options = {});

  std::vector<std::string> paths() const;
  size_t size() const { return size_; }
  // What a point sets, as YAML on one line.
  std::vector<std::pair<std::string, std::string>> settings(size_t point) const;
  // The same for the file as it is.  Begins with what the command line has set.
  std::vector<std::pair<std::string, std::string>> settings_of(size_t point) const;
  ScenarioDocument document(size_t point) const;

 private:
  struct SweptAxis {
    std::string path;
    Mark key;  // where the path is written; nowhere: as an argument of the command
    std::vector<Value> values;
  };
  class Reader;
  std::vector<const Value*> values_at(size_t point) const;

  ScenarioDocument document_;
  std::vector<SweptAxis> axes_;
  std::vector<std::pair<std::string, std::string>> given_;  // of what is no axis
  bool zipped_ = false;
  size_t size_ = 1;
};

struct SweepRun {
  int jobs = 1;  // threads
  SearchShard shard{};
  std::string version{};  // of the program, for keys
  bool energy = false;    // rows say it too, where the power of the GPU is known
  // True ends the sweep with what has been found.  Called by all threads.
  std::function<bool()> stop{};
  std::function<void(int64_t done, int64_t total)> progress{};  // called by one thread at a time
  RememberedTrial remember{};                                   // as SearchRun::remember
  RememberedEnergy remember_energy{};
};

// Throws InputError as SweepSpace().
SweepResult sweep(const ScenarioDocument& document, const SweepOptions& options = {},
                  const SweepRun& run = {});

// ----------------------------------------------------------------------------------------- rows

// Throws InputError as read_job().
JobFacts job_of(const ScenarioDocument& document);

// Equal for equal steps alone: of the resolved scenario, what prices it, and the program's version.
Hash128 step_key(const Scenario& scenario, std::string_view version);

// "parallel.tp=2 batch.micro=1", as arguments of a shell.
std::string settings_text(const std::vector<std::pair<std::string, std::string>>& settings);

// Whether it is known what GPU and host draw.
bool knows_power(const Scenario& scenario);
// Joules a token of the step, GPUs and hosts: takes a whole forecast.  REQUIRES: knows_power().
double joules_per_token(const Scenario& scenario);

// The row of the step with that key.
StepRow step_row(const Scenario& scenario, Hash128 step, std::string settings,
                 const Evaluator::Trial& trial, const JobFacts& job);

}  // namespace stepcast
