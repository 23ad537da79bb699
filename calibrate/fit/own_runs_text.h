// SPDX-License-Identifier: Apache-2.0
// A file of own runs: the values of the in-situ parameters that `stepcast calibrate runs` found on
// one cluster, for the `calibration` of a scenario.
//
//   # stepcast own runs
//   # format: 1
//   # gpu: h100-sxm
//   # prices: h100-sxm 3abc2ab717bab0ff
//   # runs: 2
//   term,scope,unit,value,sd,prior,prior_sd,runs,sources,prior_source
//   products,Hopper,x,1.121,0.041,1.072,0.058,2,1,"published runs, and how far clusters lie apart"
//
// The rows are those of calibrate/in_situ.csv; other remarks are for readers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/price/in_situ.h"

namespace stepcast {

struct OwnRunsText {
  std::string gpu;                  // names of the runs' GPUs, "h100-sxm, h200-sxm"
  std::vector<std::string> prices;  // of their kernels, without repeats: tables with their hashes
  int64_t runs = 0;                 // that were used
  std::vector<std::string> remarks;
  std::vector<InSituParameter> parameters;
};

bool is_own_runs(std::string_view text);
std::string write_own_runs(const OwnRunsText& own);
// Remarks are left out.  Throws InputError E312 with `file` for what is no such file, or a damaged
// one.
OwnRunsText parse_own_runs(std::string_view text, const std::string& file);

}  // namespace stepcast
