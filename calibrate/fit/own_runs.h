// SPDX-License-Identifier: Apache-2.0
// In-situ parameters of one cluster, from its own runs (docs/calibration.md).
//
// What published runs together say (calibrate/in_situ.csv) is the prior: each value with its
// standard deviation, and with how far one cluster's own value is from everybody's.  Of own run i
// of model m, with the cluster's values theta,
//
//   log(measured) = log(forecast(theta)) + g_m + e_i
//
// g_m is what the forecasts of one model are off by for reasons of the model, which say nothing of
// the cluster's other runs (Kennedy and O'Hagan's discrepancy): three runs of one model are little
// more than one.  e_i is Student's, g_m Cauchy's, so that a model which is something else moves the
// values little.  e_i is wider where a run is forecast less surely: by the share of its step that
// the host sets the pace of, and with experts.  No parameter stands on the step: what is learnt of
// the device says nothing of the host, and a run that the host holds up says nothing of the device.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

struct OwnRun {
  double measured_s = 0;
  std::string model;                                   // runs of the same one share its g_m
  std::function<double(const InSituValues&)> seconds;  // the step with these values
  bool experts = false;                                // its layers have experts
};

// The parameters that hold on a cluster, as priors of its own values: `prior` and `value` are the
// shared value, `prior_sd` and `sd` what a cluster's own may differ from that by.
std::vector<InSituParameter> own_prior(std::span<const InSituParameter> shared, const Node& node,
                                       int64_t libraries);

// The values that such parameters have; neutral where none holds.
InSituValues values_of(std::span<const InSituParameter> own);

// A run's forecast around some values: how much the logarithm of what was measured exceeds that of
// the forecast at the prior, and how the latter changes with each parameter's coordinate.
struct OwnEvidence {
  std::string model;
  double excess = 0;
  double spread = 0;  // of e_i
  std::vector<double> derivatives;
};

// At the values of `own`.
OwnEvidence evidence_of(const OwnRun& run, std::span<const InSituParameter> own);

// The most likely values by runs whose forecasts are as their derivatives say, with 4 digits.
// `runs` of a parameter: those that have a say in it.
std::vector<InSituParameter> own_values(std::span<const OwnEvidence> runs,
                                        std::vector<InSituParameter> prior);

// The same with forecasts that are simulated anew until nothing moves, and the evidence there.
struct OwnEstimate {
  std::vector<InSituParameter> parameters;
  std::vector<OwnEvidence> runs;
};
OwnEstimate estimate_own_values(std::span<const OwnRun> runs, std::vector<InSituParameter> prior);

}  // namespace stepcast
