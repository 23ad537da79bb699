// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/cost_errors.h"

#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/csv.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/spend.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> cost_error_files();

namespace {

constexpr std::array<std::string_view, kCostFamilies> kNames{"product", "attention", "memory",
                                                             "communication"};

// One row a family: the shares by origin.
CostErrors read_errors(std::string_view text) {
  CostErrors errors{};
  const std::vector<CsvRow> rows =
      csv_rows(text, "family,measured,interpolated,extrapolated,fitted,roofline");
  STEPCAST_CHECK(rows.size() == errors.size(), "cost_errors.csv: a row for each family");
  for (size_t family = 0; family < errors.size(); ++family) {
    STEPCAST_CHECK(rows[family].cells[0] == kNames[family], "cost_errors.csv: families in order");
    for (size_t origin = 0; origin < errors[family].size(); ++origin) {
      const double share = rows[family].number(origin + 1);
      STEPCAST_CHECK(share > 0 && share < 1, "cost_errors.csv: shares");
      errors[family][origin] = share;
    }
  }
  return errors;
}

// Of the critical rank.
double seconds_of(const Account& account, bool (*counts)(Spend)) {
  if (account.critical_role >= account.by_role.size()) return 0;
  return to_seconds(sum_if(account.by_role[account.critical_role], counts));
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
  const double compute = seconds_of(account, is_compute);
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
