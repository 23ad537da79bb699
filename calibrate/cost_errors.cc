// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cost_errors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/work_counts.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> cost_error_files();

namespace {

constexpr std::array<std::string_view, kCostFamilies> kNames{"product", "attention", "memory",
                                                             "communication"};

std::string_view take_cell(std::string_view& line) {
  const std::string_view cell = line.substr(0, line.find(','));
  line.remove_prefix(std::min(cell.size() + 1, line.size()));
  return cell;
}

double share(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  STEPCAST_CHECK(error == std::errc() && end == text.data() + text.size() && value > 0 && value < 1,
                 "cost_errors.csv: '" + std::string(text) + "'");
  return value;
}

// Remarks, the header, and one row a family: the shares by origin.
CostErrors read_errors(std::string_view text) {
  CostErrors errors{};
  size_t family = 0;
  bool in_rows = false;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with('#')) continue;
    if (!std::exchange(in_rows, true)) {
      STEPCAST_CHECK(line == "family,measured,interpolated,extrapolated,fitted,roofline",
                     "cost_errors.csv: its header");
      continue;
    }
    STEPCAST_CHECK(family < errors.size() && take_cell(line) == kNames[family],
                   "cost_errors.csv: one row a family, in their order");
    for (double& e : errors[family]) e = share(take_cell(line));
    ++family;
  }
  STEPCAST_CHECK(family == errors.size(), "cost_errors.csv lacks a family");
  return errors;
}

// Of the critical rank.
double seconds_of(const Account& account, bool (*covers)(Spend)) {
  if (account.critical_role >= account.by_role.size()) return 0;
  Time sum{};
  for (int s = 0; s < kSpends; ++s)
    if (covers(static_cast<Spend>(s)))
      sum += account.by_role[account.critical_role][static_cast<size_t>(s)];
  return to_seconds(sum);
}

}  // namespace

std::string_view name_of(CostFamily f) {
  return kNames[static_cast<size_t>(f)];
}

CostFamily family_of(const Work& work) {
  if (is_communication(work.kind)) return CostFamily::communication;
  switch (work.kind) {
    case WorkKind::gemm:
    case WorkKind::grouped_gemm: return CostFamily::product;
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: return CostFamily::attention;
    case WorkKind::expert_wait:
      return work.kernel == Kernel::none ? CostFamily::product : CostFamily::memory;
    default: return CostFamily::memory;
  }
}

const CostErrors& cost_errors() {
  static const CostErrors errors = read_errors(cost_error_files()[0].second);
  return errors;
}

StepCostError step_cost_error(const OpGraph& graph, const Prices& prices, const Account& account,
                              const CostErrors& errors) {
  std::array<double, kCostFamilies> time{}, off{};  // device time, and what of it is open
  const std::vector<double> counts = work_counts(graph);
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto family = static_cast<size_t>(family_of(graph.works[i]));
    const double t = counts[i] * static_cast<double>(prices.by_work[i].time.count());
    time[family] += t;
    off[family] += t * errors[family][static_cast<size_t>(prices.by_work[i].origin)];
  }
  const double compute = seconds_of(account, [](Spend s) { return s < Spend::exposed_tp; });
  const double exposed = seconds_of(account, is_exposed);
  StepCostError step;
  if (compute + exposed <= 0) return step;
  constexpr auto kCommunication = static_cast<size_t>(CostFamily::communication);
  double all_compute = 0;
  for (size_t f = 0; f < kCommunication; ++f) all_compute += time[f];
  double squares = 0;
  for (size_t f = 0; f < time.size(); ++f) {
    const bool communicates = f == kCommunication;
    const double whole = communicates ? time[f] : all_compute;
    if (whole <= 0) continue;
    const double weight = (communicates ? exposed : compute) / (compute + exposed);
    step.parts[f] = weight * off[f] / whole;
    squares += step.parts[f] * step.parts[f];
  }
  step.whole = std::sqrt(squares);
  return step;
}

}  // namespace stepcast
