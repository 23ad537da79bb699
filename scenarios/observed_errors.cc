// SPDX-License-Identifier: Apache-2.0
#include "scenarios/observed_errors.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <embedded/observed_error_files.h>
#include <embedded/own_run_error_files.h>

#include "calibrate/price/cost_errors.h"
#include "scenarios/own_runs.h"
#include "sim/csv.h"
#include "sim/graph/op_graph.h"
#include "sim/log_exp.h"

namespace stepcast {

namespace {

constexpr std::string_view kHeader = "class,runs,sources,low,high,cost_error";
constexpr std::string_view kOwnHeader = "own_runs,class,runs,sources,low,high,cost_error";

// Below the first a kernel takes about as long as its launch, above the second a launch is lost in
// it (calibrate/data/host_costs.csv: an operator takes 5 to 20 us of the host, a module 40 to 100).
constexpr double kVeryShortKernel = 50e-6, kShortKernel = 100e-6;

double mean_kernel(const OpGraph& graph, const Prices& prices) {
  const std::vector<double> counts = work_counts(graph);
  double kernels = 0, seconds = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const WorkKind kind = graph.works[i].kind;
    if (is_communication(kind) || kind == WorkKind::expert_wait) continue;
    if (prices.by_work[i].time <= Time{}) continue;
    kernels += counts[i];
    seconds += counts[i] * to_seconds(prices.by_work[i].time);
  }
  return kernels > 0 ? seconds / kernels : 0;
}

// Of rows that begin with the class in column `first`.
ClassErrors read_row(const CsvRow& row, size_t first) {
  ClassErrors c;
  c.name = row.cells[first];
  c.runs = row.number<int64_t>(first + 1);
  c.sources = row.number<int64_t>(first + 2);
  c.low = row.number(first + 3);
  c.high = row.number(first + 4);
  c.cost_error = row.number(first + 5);
  const bool finite = std::isfinite(c.high) && std::isfinite(c.cost_error);
  if (c.name.empty() || c.runs < 1 || c.sources < 1 || c.sources > c.runs || !finite ||
      !(c.low > 0) || !(c.low <= c.high) || !(c.cost_error >= 0))
    refuse("'" + c.name + "': figures that no runs have");
  return c;
}

}  // namespace

std::string run_class(const Scenario& scenario, const Result& result) {
  if (!scenario.plan.trains()) return {};
  std::string name = "training / ";
  const double kernel = mean_kernel(*result.graph, *result.prices);
  if (kernel < kVeryShortKernel) return name + "short kernels / below 50 us";
  if (kernel < kShortKernel) return name + "short kernels / 50 to 100 us";
  name += "long kernels";
  if (scenario.model.experts > 0) return name + " / experts";
  if (scenario.plan.zero == 3) return name + " / sharded parameters";
  const std::string_view gpus = architecture(scenario.cluster.node.gpu.arch).error_class;
  return gpus.empty() ? name : name + " / " + std::string(gpus);
}

std::vector<ClassErrors> parse_observed_errors(std::string_view text) {
  std::vector<ClassErrors> table;
  for (const CsvRow& row : csv_rows(text, kHeader)) table.push_back(read_row(row, 0));
  return table;
}

std::vector<ClassErrors> parse_own_run_errors(std::string_view text) {
  std::vector<ClassErrors> table;
  for (const CsvRow& row : csv_rows(text, kOwnHeader)) {
    table.push_back(read_row(row, 1));
    table.back().own_runs = row.number<int64_t>(0);
    if (table.back().own_runs != 1 && table.back().own_runs != 3)
      refuse("own_runs are one or three");
  }
  return table;
}

std::span<const ClassErrors> observed_errors() {
  static const std::vector<ClassErrors> table =
      parse_observed_errors(observed_error_files()[0].second);
  return table;
}

std::span<const ClassErrors> own_run_errors() {
  static const std::vector<ClassErrors> table =
      parse_own_run_errors(own_run_error_files()[0].second);
  return table;
}

const ClassErrors* errors_like(std::span<const ClassErrors> table, std::string_view run_class,
                               int64_t own_runs) {
  const int64_t known = own_runs == 2 ? 1 : std::min<int64_t>(own_runs, 3);
  while (!run_class.empty()) {
    for (const ClassErrors& c : table)
      if (c.own_runs == known && c.name == run_class) return &c;
    const size_t cut = run_class.rfind(" / ");
    run_class = run_class.substr(0, cut == run_class.npos ? 0 : cut);
  }
  return nullptr;
}

Interval make_interval(Time step, double cost_error, const ClassErrors& like) {
  Interval i;
  i.cost_error = cost_error;
  i.like = like.name;
  i.runs = like.runs;
  i.sources = like.sources;
  i.like_low = like.low;
  i.like_high = like.high;
  i.like_cost_error = like.cost_error;
  const double low = exact_log2(i.like_low), high = exact_log2(i.like_high);
  const double half = (high - low) / 2;
  const double open = exact_log2(1 + i.cost_error), theirs = exact_log2(1 + i.like_cost_error);
  const double more = std::max(0.0, open * open - theirs * theirs);
  const double wider = std::sqrt(half * half + more) - half;
  const auto times = [&](double logarithm) {
    constexpr double kLongest = 9e6;  // s, that a Time holds
    return time_from_seconds(std::min(kLongest, to_seconds(step) * exact_exp2(logarithm)));
  };
  i.low = times(low - wider);
  i.high = times(high + wider);
  return i;
}

std::optional<Interval> interval_of(const Scenario& scenario, const Result& result) {
  if (!scenario.in_situ) return {};  // the table is of forecasts with in-situ parameters
  const std::string name = run_class(scenario, result);
  const int64_t own = scenario.own_runs != nullptr ? scenario.own_runs->runs : 0;
  const ClassErrors* like = errors_like(observed_errors(), name);
  const ClassErrors* with_own = own > 0 ? errors_like(own_run_errors(), name, own) : nullptr;
  if (with_own != nullptr) like = with_own;
  if (like == nullptr) return {};
  const StepCostError costs = step_cost_error(*result.graph, *result.prices, result.account);
  Interval i = make_interval(result.step_time, costs.whole, *like);
  i.own_runs = like == with_own ? own : 0;
  for (size_t f = 0; f < costs.parts.size(); ++f)
    i.cost_parts.emplace_back(name_of(static_cast<CostFamily>(f)), costs.parts[f]);
  return i;
}

}  // namespace stepcast
