// SPDX-License-Identifier: Apache-2.0
// A record's step under any values of the in-situ parameters.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "calibrate/runs/measured_run.h"
#include "calibrate/runs/rules.h"
#include "calibrate/runs/run_record.h"
#include "scenarios/forecast/in_situ_step.h"
#include "scenarios/scenario.h"

namespace stepcast::accuracy {

// The step of a scenario, for rates that were measured of it.
StepSize step_size(const Scenario& scenario);

// Sizes that do not give the number of parameters that is printed beside them are of another model;
// "" if they do.
std::string contradiction(const Value& record, const Transformer& model);

// A layer and microbatch of a scenario as differences of steps: what one more layer adds to one
// more microbatch, so that ends of the model, optimizer and gradient reduction cancel out.  Pairs
// of a factor and the changes to the scenario.
using ScenarioChanges = std::vector<std::pair<std::string, std::string>>;
std::vector<std::pair<double, ScenarioChanges>> layer_as_steps(const Plan& plan);

class RunModel {
 public:
  // `text` is the record's scenario.
  RunModel(const std::string& text, const std::string& name, bool one_layer);

  const Scenario& scenario() const { return parts_.front().second.scenario(); }
  const Node& node() const { return scenario().cluster.node; }
  // Year of its software: Kernels::libraries.
  int64_t libraries() const { return scenario().plan.kernels.libraries; }
  double seconds(const InSituValues& values) const;

 private:
  std::vector<std::pair<double, InSituStep>> parts_;
};

struct ModelledRun {
  std::string id, source;
  double measured_s = 0;
  RunModel model;
};

// nullopt if the record has no step time that was measured, or no scenario.
std::optional<ModelledRun> modelled_run(const RunRecord& record, const std::vector<RunRule>& rules);
// All of them, in the order of the records, on `threads` threads.
std::vector<ModelledRun> modelled_runs(const std::vector<RunRecord>& records,
                                       const std::vector<RunRule>& rules, int threads);

// Calls `work` with 0 .. n-1 on `threads` threads.
void for_each_index(size_t n, int threads, const std::function<void(size_t)>& work);

}  // namespace stepcast::accuracy
