// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/whole_path.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "report/json/result.h"
#include "report/text/explain.h"
#include "report/text/run.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/interference.h"
#include "sim/check.h"

namespace stepcast::fuzz {
namespace {

// Every rank's account is the whole step, without anything below zero.
void check_account(const Result& r) {
  STEPCAST_CHECK(r.account.critical_role < r.account.by_role.size(), "a critical role");
  for (const SpendTable& table : r.account.by_role) {
    const Time sum = std::accumulate(table.begin(), table.end(), Time{});
    STEPCAST_CHECK(sum == r.step_time, "the account of a rank is " + std::to_string(sum.count()) +
                                           " of a step of " + std::to_string(r.step_time.count()));
    for (const Time part : table) STEPCAST_CHECK(part >= Time{}, "a negative item of the account");
  }
}

void check_path(const Result& r) {
  Time at{};
  for (const PathSegment& s : r.critical_path) {
    STEPCAST_CHECK(s.begin == at && s.end >= s.begin, "stretches of the critical path touch");
    at = s.end;
  }
  STEPCAST_CHECK(at == r.makespan, "the critical path ends with the step");
}

void check_memory(const Result& r) {
  for (const RankMemory& m : r.memory) {
    STEPCAST_CHECK(m.memory.start == m.memory.end, "memory returns to where it started");
    STEPCAST_CHECK(m.memory.peak >= m.memory.start, "the peak is the most");
    STEPCAST_CHECK(m.memory.start.value >= 0, "memory is not negative");
  }
  STEPCAST_CHECK(r.memory_reserved >= r.memory[r.peak_role].memory.peak,
                 "what is reserved holds what is allocated");
}

void check_figures(const Result& r) {
  STEPCAST_CHECK(r.step_time > Time{} && r.step_time <= r.makespan, "a step takes time");
  for (const double x : {r.tokens_per_step, r.tokens_per_s_per_gpu, r.model_flops_per_step,
                         r.utilization.mfu_full_attention, r.utilization.mfu_causal_attention,
                         r.utilization.hfu, r.utilization.hfu_korthikanti})
    STEPCAST_CHECK(std::isfinite(x) && x >= 0, "figures are finite");
  const double trust = std::accumulate(r.trust.begin(), r.trust.end(), 0.0);
  STEPCAST_CHECK(std::abs(trust - 1) < 1e-9, "shares of trust sum to 1");
  if (r.interval) STEPCAST_CHECK(r.interval->low <= r.interval->high, "an interval has two ends");
}

}  // namespace

bool is_small(const Scenario& s) {
  const Plan& p = s.plan;
  const bool by_rank = is_perturbed(s) || s.interference == Scenario::Interference::on;
  const int64_t lanes = by_rank ? p.grid.world() : p.pp;
  const int64_t layers = s.model.layers;
  return p.microbatches() * p.pp * p.vpp <= 2048 && layers <= 200 && lanes * s.replicas <= 1024;
}

Result check_whole_path(const Scenario& scenario) {
  Result r = forecast(scenario);
  check_account(r);
  check_path(r);
  check_memory(r);
  check_figures(r);
  STEPCAST_CHECK(text_report(r).ends_with('\n'), "a report is lines");
  STEPCAST_CHECK(nlohmann::json::accept(run_json(r, "0")), "JSON");
  explain_memory(r, {});
  explain_bubble(r);
  explain_critical_path(r);
  explain_costs(r);
  return r;
}

}  // namespace stepcast::fuzz
