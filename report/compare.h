// SPDX-License-Identifier: Apache-2.0
// Several results side by side, against one of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/format.h"
#include "sim/diagnostic.h"
#include "sim/result.h"

namespace stepcast {

// Whether all results are of the same work, equal tokens and within 1 % the same model FLOPs a step
// (a vocabulary is padded further for more tp ranks): only then do step times compare.
bool comparable_steps(std::span<const Result> results);

// Whether what a step would cost without the optimizer's barrier is worth telling: the schedule
// splits the backward, or it differs by more than 0.5 %.
bool shows_span(const Result& result);

// Cases that distinguish themselves among those that fit, by position; the first of equals.  None
// of one case alone.
struct Winners {
  std::optional<size_t> fastest;       // most tokens a second and GPU if steps do not compare
  std::optional<size_t> smallest;      // least peak memory
  std::optional<size_t> best_per_gib;  // most steps a second for each GiB of the peak
};
Winners compare_winners(std::span<const Result> results);

// A case without a result, and why it has none.
struct LeftOut {
  std::string name;
  std::vector<Diagnostic> problems;  // at least one
};

// One line a case: step time; if any case has several seeds, their mean, p5 and p95; difference to
// the baseline (of means if all cases have them, as who wins); span (if it says something for any),
// bubble, peak memory (with '!' if it does not fit), the rank with the peak, MFU; then what the
// critical rank of each case waits for; then who wins.  Tokens per second and GPU, and a remark, if
// steps do not compare.  What is left out has a line that says why.
// REQUIRES: as many names as results, baseline < results.size().
std::string compare_table(std::span<const Result> results, std::span<const std::string> names,
                          size_t baseline, const TextStyle& style = {},
                          std::span<const LeftOut> left_out = {});

}  // namespace stepcast
