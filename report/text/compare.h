// SPDX-License-Identifier: Apache-2.0
// Several results side by side: scenarios against one of them (`stepcast compare`), and what is
// forecast beside what was measured (`stepcast check`).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/format.h"
#include "report/json/writer.h"
#include "sim/diagnostic.h"
#include "sim/results/result.h"

namespace stepcast {

// --- stepcast compare

// Whether all results are of one mode: what a forward alone takes says nothing about a training
// step, nor a prompt about a token.
bool same_mode(std::span<const Result> results);

// Of results of several modes, for a reader: their names, and that steps do not compare.
std::string modes_remark(std::span<const Result> results);

// Whether all results are of the same work, of one mode, equal tokens and within 1 % the same model
// FLOPs a step (a vocabulary is padded further for more tp ranks): only then do step times compare.
bool comparable_steps(std::span<const Result> results);

// Whether what a step would cost without the optimizer's barrier is worth telling: the schedule
// splits the backward, or it differs by more than 0.5 %.
bool shows_span(const Result& result);

// Of several seeds their mean says more than the first, if all cases have them.
bool compares_means(std::span<const Result> results);

// What of a result is compared: its mean over seeds, or its step time.  REQUIRES: replicas, for
// means.
Time compared_time(const Result& result, bool means);

// "+4.2 %" of the time of `base`.
std::string versus_base(const Result& result, const Result& base, bool means);

// The best of the cases that fit, by position; of equal ones the first.  A single case wins
// nothing, nor do cases of several modes.
struct Winners {
  std::optional<size_t> fastest;       // most tokens a second and GPU if steps do not compare
  std::optional<size_t> smallest;      // least memory, of the fullest rank
  std::optional<size_t> best_per_gib;  // most steps a second for each GiB of it
};
Winners compare_winners(std::span<const Result> results);

// A table with one line a case, then what the critical rank of each case waits for, then the
// winners. The columns are the step time; mean, p5 and p95 if any case has several seeds; the
// difference to the baseline; the span if shows_span() is true for any case; bubble, peak memory
// as reserved (with '!' if it does not fit, '?' if it may not), the fullest rank, MFU.  Where all
// cases have a mean, it is the mean that is compared.  Where step times do not compare, there are
// tokens per second and GPU and a remark.  A case that was left out has a line that says why.
// REQUIRES: as many names as results, baseline < results.size().
std::string compare_table(std::span<const Result> results, std::span<const std::string> names,
                          size_t baseline, const TextStyle& style = {},
                          std::span<const LeftOut> left_out = {});

// --- stepcast check

enum class Figure : uint8_t { step_time, tokens_per_gpu_s, peak_memory, reserved_memory };

// Where a figure is expected to be measured, in its unit: Interval of the step time, MemoryInterval
// of what is allocated or reserved.
struct FigureInterval {
  double low = 0, high = 0, level = 0;
};

// One figure of a run: seconds, tokens a second and GPU, or bytes.
struct CheckedFigure {
  std::string run;  // name of the scenario, with that of its variant
  Figure figure = Figure::step_time;
  double predicted = 0, measured = 0;  // > 0
  double tolerance = 0;                // share
  std::string source;                  // where it was published; may be empty
  std::optional<FigureInterval> interval = std::nullopt;

  double error() const { return predicted / measured - 1; }
  bool within() const { return error() <= tolerance && error() >= -tolerance; }
  bool in_interval() const {
    return interval && interval->low <= measured && measured <= interval->high;
  }
};

// Time of a run whose price was not measured, as far as one work causes it.
struct Doubt {
  std::string run, work, origin, basis;
  double share = 0;      // of the run's device time
  size_t run_index = 0;  // tells runs of the same name apart
};

// The works of largest time among those whose prices are neither measured nor interpolated; at most
// `most`.  REQUIRES: result.graph and result.prices.
std::vector<Doubt> largest_doubts(const std::string& run, size_t run_index, const Result& result,
                                  size_t most);

// One line a figure, then median and worst error of each kind if there are several, then the doubts
// of each run: "largest doubt: product 8192 x 1024 x 4096, extrapolated (...), 12.3 % of device
// time".  REQUIRES: doubts of one run beside each other.
std::string check_table(std::span<const CheckedFigure> figures, std::span<const Doubt> doubts,
                        const TextStyle& style = {});
// {"figures": [{run, figure, predicted, measured, error, tolerance, within, source,
//               interval {low_s, high_s, level}, in_interval}],   of a rate: {low, high, level}, of
//               memory {low_bytes, ...}
//  "doubts": [{run, work, origin, basis, share}], "within": whether all figures are,
//  "errors": [...]}   why other files could not be checked, as in diagnostics_json
std::string check_json(std::span<const CheckedFigure> figures, std::span<const Doubt> doubts,
                       std::span<const Diagnostic> errors);

}  // namespace stepcast
