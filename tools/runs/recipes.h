// SPDX-License-Identifier: Apache-2.0
// Layouts that people chose, among all that a search knows: how many are forecast to be faster, and
// by how much the fastest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/runs/rules.h"
#include "calibrate/runs/run_record.h"

namespace stepcast::accuracy {

// What a layout spends, of the rank that its step waits for.
struct RecipeShares {
  double bubble = 0, exposed = 0, recomputed = 0;
};

struct Recipe {
  std::string id, source;
  int64_t gpus = 0;
  std::string layout;     // "TP 8 PP 4 DP 8 MBS 1"
  double measured_s = 0;  // a step
  double step_s = 0;      // forecast
  int64_t layouts = 0;    // of the same model, cluster and batch
  int64_t faster = 0;     // of these, that fit and leave a tenth of the memory free
  double best_s = 0;      // of the fastest; 0: none was found that fits
  std::string best;       // its layout; empty: none
  bool stopped = false;   // the search ran out of time: there may be better ones
  std::optional<RecipeShares> shares, best_shares;  // where the best is faster by more than kClaim

  double behind() const { return best_s > 0 ? step_s / best_s - 1 : 0; }
};

// A layout that is claimed to be faster by more is listed with what both spend.
inline constexpr double kClaim = 0.10;

// Of runs of a source that differ in layout, schedule and recomputation alone, the one that was
// measured to be fastest: of records whose scenario trains with a schedule that need not be made,
// and whose step was measured.  Then those of scenario files that state a measured step.  A search
// ends after `seconds`.  Throws InputError for a file that is no scenario.
std::vector<Recipe> find_recipes(const std::vector<RunRecord>& records,
                                 const std::vector<RunRule>& rules,
                                 const std::vector<std::string>& scenarios, int threads,
                                 double seconds);

std::string recipes_markdown(const std::vector<Recipe>& recipes);

}  // namespace stepcast::accuracy
