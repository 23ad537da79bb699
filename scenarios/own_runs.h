// SPDX-License-Identifier: Apache-2.0
// Own runs that a scenario names under `calibration`: the in-situ parameters of its cluster, which
// take the place of the published ones (calibrate/fit/own_runs.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "scenarios/scenario.h"

namespace stepcast {

struct OwnRuns {
  std::string file;                 // as messages name it
  std::string hash;                 // 16 hex digits over its text
  std::vector<std::string> prices;  // what the runs were priced by: prices_key() of each
  int64_t runs = 0;                 // that it was made of
  std::string warning;  // that published values are others now; empty: nothing is to be said
  std::vector<InSituParameter> parameters;  // the shipped ones with the runs' in their places
};

// The file of own runs `text`, for a cluster of such nodes and software of the year `libraries`
// (Kernels::libraries).  Throws InputError: E312 for what is no
// such file, or has parameters that this version does not have; E313 if other parameters hold for
// the cluster: its GPUs are of another generation, or its hosts of another kind.
std::shared_ptr<const OwnRuns> read_own_runs(const std::string& text, const std::string& file,
                                             const Node& node, int64_t libraries);

// The parameters that hold for a scenario: those of its own runs, else the shipped ones.
std::span<const InSituParameter> in_situ_parameters_of(const Scenario& scenario);

// Runs of the same model are off alike (OwnRun::model).
std::string own_model_key(const Transformer& model);

// What its kernels are priced by, in a word: "h100-sxm 3abcac2ab717bab0", "roofline".
std::string prices_key(const Scenario& scenario);

// Says that own runs were priced by another table than the scenario is; empty if they were not.
std::string warning_of_other_prices(const Scenario& scenario);

}  // namespace stepcast
