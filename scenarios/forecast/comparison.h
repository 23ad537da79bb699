// SPDX-License-Identifier: Apache-2.0
// Several scenarios side by side: `stepcast compare`.
//
// The cases are scenarios of their own, the cases that one scenario's section `compare` names, or
// one scenario under several schedules.  Under another schedule a scenario keeps its own
// parallel.vpp if the schedule takes it, else has one or two chunks, and of its section `schedule`
// all keys but those that the schedule cannot take.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario_document.h"
#include "sim/diagnostic.h"
#include "sim/results/result.h"

namespace stepcast {

struct ComparedScenario {
  std::string file;  // what it is called, unless its scenarios have names that differ
  ScenarioDocument document;
  std::string compare_case{};  // of its section `compare`; empty: none
};

struct CompareOptions {
  std::vector<std::string> schedules;  // one scenario under each of these; empty: as they are
  bool record = false;                 // every op, for reports; else results have none
  bool keep_names = false;             // ComparedScenario::file, whatever the scenarios are called
  int jobs = 1;                        // threads; the answer is the same for any number
  // How many cases came before each, of how many, on the caller's thread before any thread begins
  // it; what it throws passes through.
  Progress progress{};
  // Called on the caller's thread with each case that was run, in order, while its result has all
  // ops.  An InputError that it throws
  // counts as one of the case.
  std::function<void(const ScenarioDocument&, const Scenario&, const Result&)> each{};
};

struct Comparison {
  std::vector<std::string> names;
  std::vector<Scenario> scenarios;  // without schedules and transfers
  std::vector<Result> results;
  size_t baseline = 0;
  std::vector<LeftOut> left_out;     // schedules that cannot be run
  std::vector<Diagnostic> problems;  // of these, each once
  // What is odd, of cases or of the comparison; begins with the names of those it is about.
  std::vector<std::string> remarks;
};

// Throws InputError: what is wrong with any of the scenarios; with schedules only if none can be
// run.  E003 for schedules of several scenarios, E005 if there is nothing to compare.  REQUIRES: at
// least one scenario.
Comparison compare_scenarios(std::span<const ComparedScenario> scenarios,
                             const CompareOptions& options);

}  // namespace stepcast
