// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/forecast.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "calibrate/table/cost_table.h"
#include "model/passes/forward_only.h"
#include "scenarios/forecast/disturbed_step.h"
#include "scenarios/forecast/make_schedule.h"
#include "scenarios/forecast/step_memory.h"
#include "scenarios/forecast/step_prices.h"
#include "scenarios/forecast/utilization.h"
#include "scenarios/forecast/what_if.h"
#include "scenarios/observed_errors.h"
#include "scenarios/pricing_table.h"
#include "schedules/lower/lower.h"
#include "sim/account/account.h"
#include "sim/diagnostic.h"
#include "sim/engine/run.h"
#include "sim/graph/op_graph.h"

namespace stepcast {
namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

ScenarioSummary summary_of(const Scenario& s) {
  const Plan& p = s.plan;
  ScenarioSummary t;
  t.name = s.name;
  t.file = s.file;
  t.hash = s.hash;
  t.warnings = s.warnings;
  t.gpu = upper(s.cluster.node.gpu.name);
  t.gpus = p.grid.world();
  t.tp = p.tp;
  t.cp = p.cp;
  t.ep = p.ep;
  t.etp = p.etp;
  t.pp = p.pp;
  t.vpp = p.vpp;
  t.dp = p.dp;
  t.zero = p.zero;
  t.global_batch = p.global_batch;
  t.micro_batch = p.micro_batch;
  t.microbatches = p.microbatches();
  t.seq = p.seq;
  t.schedule = s.schedule_title;
  return t;
}

// Share of all device time by the origin of its price.
std::array<double, kOrigins> trust_of(const OpGraph& graph, const Prices& prices) {
  std::array<double, kOrigins> sum{};
  const std::vector<double> counts = work_counts(graph);
  for (size_t i = 0; i < counts.size(); ++i) {
    const Price& p = prices.by_work[i];
    sum[static_cast<size_t>(p.origin)] += counts[i] * static_cast<double>(p.time.count());
  }
  double total = 0;
  for (double s : sum) total += s;
  if (total > 0) {
    for (double& s : sum) s /= total;
  }
  return sum;
}

std::string place_of_peak(const OpGraph& graph, uint32_t role, const RoleMemory& memory) {
  if (memory.peak_item >= graph.roles[role].items.size()) return "all the time";
  const Item& item = graph.roles[role].items[memory.peak_item];
  if (item.kind != ItemKind::pass) return "all the time";
  const Pass& pass = graph.passes[static_cast<size_t>(item.pass)];
  const std::string op =
      memory.peak_op < pass.ops.size() ? graph.text(pass.ops[memory.peak_op].label) : "";
  return op + " in " + (item.has_action ? action_text(item) : pass.name);
}

void fill_memory(const Scenario& scenario, const OpGraph& graph, Result& result) {
  std::vector<RoleMemory> memory = trace_memory(graph);
  const Gpu& gpu = scenario.cluster.node.gpu;
  result.memory_usable = gpu.memory - gpu.reserve;
  const StepMemory step = step_memory(graph, memory, result.memory_usable);
  result.peak_role = step.peak_role;
  result.reserved_role = step.reserved_role;
  result.memory_reserved = step.reserved;
  for (uint32_t r = 0; r < memory.size(); ++r) {
    RankMemory stage;
    stage.name = graph.roles[r].name;
    for (const auto& [label, bytes] : peak_by_label(graph, r, memory[r])) {
      stage.activation_terms.emplace_back(graph.text(label), bytes);
    }
    stage.memory = std::move(memory[r]);
    result.memory.push_back(std::move(stage));
  }
  result.peak_op = place_of_peak(graph, step.peak_role, result.memory[step.peak_role].memory);
  result.fits = result.memory_reserved <= result.memory_usable;
}

void fill_rates(const Scenario& s, const OpGraph& graph, Result& result) {
  const double step = to_seconds(result.step_time);
  const auto world = static_cast<double>(s.plan.grid.world());
  result.tokens_per_step = static_cast<double>(step_tokens(s.plan));
  result.tokens_per_s_per_gpu = step > 0 ? result.tokens_per_step / step / world : 0;
  const StepFlops flops = step_flops(s.model, s.plan, graph);
  result.model_flops_per_step = flops.full_attention;
  const auto peak = s.cluster.node.gpu.peak.find(s.plan.precision.params);
  if (step <= 0 || peak == s.cluster.node.gpu.peak.end()) return;
  const double available = step * world * peak->second.value;
  result.utilization = {flops.full_attention / available, flops.causal_attention / available,
                        flops.executed / available, flops.korthikanti / available};
}

InputError deadlock_error(const OpGraph& graph, const Deadlock& deadlock, const Scenario& s) {
  std::string help;
  for (const Deadlock::Waiting& w : deadlock.waiting) {
    if (!help.empty()) help += "; ";
    const Rendezvous& r = graph.rendezvous[static_cast<size_t>(w.rendezvous)];
    help += graph.roles[w.role].name + " waits for '" + graph.text(r.label) + "'";
  }
  return file_error("E401", "the schedule deadlocks", s.file, std::move(help), 4);
}

// The order that is run, and how it came about.
struct Chosen {
  const Schedule& schedule;
  const CostTable* table = nullptr;
};

OpGraph lowered(const Scenario& s, const Schedule& schedule, bool post_validation) {
  try {
    return lower(s.model, s.plan, schedule, {.p2p = s.p2p, .post_validation = post_validation});
  } catch (const InputError& e) {
    throw file_error("E127", e.what(), s.file);
  }
}

// Without a barrier the next step of a rank follows its own last action, so that a step costs the
// span and every rank has `cut` less to wait, first at its end, then at its begin.
void cut_waiting(Account& account, Time cut) {
  constexpr std::array kOrder{Spend::idle_end,   Spend::fill,          Spend::exposed_pp,
                              Spend::blocked,    Spend::imbalance,     Spend::launch,
                              Spend::exposed_dp, Spend::exposed_other, Spend::drain};
  for (SpendTable& table : account.by_role) {
    Time left = cut;
    for (const Spend spend : kOrder) {
      Time& here = table[static_cast<size_t>(spend)];
      const Time taken = std::min(left, here);
      here -= taken;
      left -= taken;
    }
  }
}

bool splits_backward(const Schedule& schedule) {
  for (const auto& list : schedule.ranks)
    for (const Action& a : list)
      if (a.kind == ActionKind::backward_weight) return true;
  return false;
}

// What the step would cost without the barrier.  Where no weight gradients are put off, the first
// rank is both first to start and last to end, and waits for nobody.
Time span_of(const Scenario& scenario, const Chosen& chosen, const Result& result) {
  if (!splits_backward(chosen.schedule)) return result.timeline.span;
  OpGraph graph = lowered(scenario, chosen.schedule, true);
  const Prices prices = price_step(graph, scenario, chosen.table);
  return run(compile(graph, prices), Record::nothing).span;
}

// Up to so many ops another simulation is a matter of milliseconds.
constexpr int64_t kQuickOps = 4'000'000;

// Whether each answer to "if it were free" takes longer than that: lanes as far as they differ.
bool has_long_what_ifs(const Scenario& scenario, const LaneSet& lanes, const LaneResult& ranks) {
  const int64_t simulated = scenario.perturb.empty() ? 1 : ranks.lanes_run;
  return ranks.rank_ops / std::max<int64_t>(1, lanes.lanes()) * simulated > kQuickOps;
}

// Puts the run of every rank in the place of that of equal ranks.
void disturb(const Scenario& scenario, const ForecastOptions& options, const Chosen& chosen,
             const Program& program, const Prices& prices, const Account& levelled,
             Result& result) {
  const OpGraph& graph = *program.graph;
  const bool by_span = scenario.post_validation;
  const StepInputs in{scenario, graph, prices, chosen.table};
  const LaneOptions lane_options{.fold = !options.all_ranks, .record = true, .ops = options.trace};
  RankRun now = run_ranks(in, scenario.seed, lane_options);
  LaneResult& ranks = now.ranks.lanes;
  const Account undisturbed = std::move(result.account);
  result.timeline = std::move(ranks.timeline);
  result.account = make_account(program, result.timeline);
  book_longer_waits(result.account, undisturbed,
                    scenario.perturb.empty() ? Spend::contention : Spend::straggler);
  separate_imbalance(result.account, levelled);
  const Time before = by_span ? result.span : result.makespan;
  result.makespan = ranks.makespan;
  result.span = ranks.span;
  if (!by_span && splits_backward(chosen.schedule)) {
    OpGraph free = lowered(scenario, chosen.schedule, true);
    const Prices costs = price_step(free, scenario, chosen.table);
    const StepInputs without_barrier{scenario, free, costs, chosen.table};
    result.span =
        run_ranks(without_barrier, scenario.seed, {.fold = !options.all_ranks}).ranks.lanes.span;
  }
  const auto step_of = by_span ? &LaneResult::span : &LaneResult::makespan;
  const Time step = by_span ? result.span : result.makespan;
  result.disturbance = compare_with_equal_ranks(in, now, undisturbed, step, before);
  result.disturbance->critical_rank = rank_name(in, result.account.critical_role, ranks.last_lane);
  if (options.trace)
    result.traced = options.trace_ranks.empty()
                        ? std::vector{all_stages(in, ranks.last_lane, result.timeline)}
                        : trace_ranks(in, options.trace_ranks, lane_options);
  if (options.what_if) {
    const SpendTable& critical = result.account.by_role[result.account.critical_role];
    const StepTimes times = step_times(in, step_of, before, step);
    result.what_if_left_out =
        !options.every_what_if && has_long_what_ifs(scenario, now.lanes, ranks);
    if (!result.what_if_left_out) result.what_if = what_if_of_ranks(in, critical, step_of, times);
    result.what_if_without_contention = now.shared_links || now.interference;
    if (result.what_if_without_contention)
      result.disturbance->without_contention = times.without_contention;
  }
  result.rank_ops = ranks.rank_ops;
  result.flow_events = now.ranks.flow_events;
  result.event_ops = now.ranks.shared_ops;
  if (scenario.replicas > 1) result.replicas = run_replicas(in, step_of, options.progress);
}

// The run of equal ranks, then of those that differ.
void run_step(const Scenario& scenario, const ForecastOptions& options, const Chosen& chosen,
              const OpGraph& graph, const Prices& prices, Result& result) {
  // A trace needs the start of every op, hence unmerged instructions; the times are the same.
  const Program program = compile(graph, prices, {}, !options.trace);
  result.timeline = run(program, options.trace ? Record::all : Record::account);
  result.account = make_account(program, result.timeline);
  const Program equal_stages = compile(graph, prices, level_stages(graph, prices));
  const Account levelled = make_account(equal_stages, run(equal_stages));
  separate_imbalance(result.account, levelled);
  result.makespan = result.timeline.makespan;
  result.rank_ops = result.timeline.rank_ops;
  result.span = scenario.post_validation ? result.timeline.span : span_of(scenario, chosen, result);
  const auto step = scenario.post_validation ? &Timeline::span : &Timeline::makespan;
  if (is_disturbed(scenario) || options.all_ranks || !options.trace_ranks.empty()) {
    disturb(scenario, options, chosen, program, prices, levelled, result);
  } else if (options.what_if) {
    const SpendTable& critical = result.account.by_role[result.account.critical_role];
    const auto varied = [&](const Variation& v) {
      return run(compile(graph, prices, v), Record::nothing).*step;
    };
    result.what_if = what_if(graph, prices, critical, result.timeline.*step, varied);
  }
  result.critical_path = critical_path(program, result.timeline);
}

// The step is over before anything happens.
void warn_late_windows(const Scenario& scenario, Result& result) {
  for (size_t i = 0; i < scenario.perturb.size(); ++i) {
    if (scenario.perturb[i].from < std::max(Time{1}, result.makespan)) continue;
    result.scenario.warnings.push_back("item " + std::to_string(i) +
                                       " of perturb begins after the end of the step and changes "
                                       "nothing");
  }
}

Result simulate(const Scenario& scenario, const ForecastOptions& options, const Chosen& chosen) {
  Result result;
  auto graph =
      std::make_shared<OpGraph>(lowered(scenario, chosen.schedule, scenario.post_validation));
  auto prices = std::make_shared<Prices>(price_step(*graph, scenario, chosen.table));
  try {
    run_step(scenario, options, chosen, *graph, *prices, result);
  } catch (const Deadlock& deadlock) {
    throw deadlock_error(*graph, deadlock, scenario);
  }
  result.scenario = summary_of(scenario);
  warn_late_windows(scenario, result);
  result.splits_backward = splits_backward(chosen.schedule);
  result.step_time = scenario.post_validation ? result.span : result.makespan;
  cut_waiting(result.account, result.makespan - result.step_time);
  const SpendTable& critical = result.account.by_role[result.account.critical_role];
  for (int i = 0; i < kSpends; ++i) {
    if (is_bubble(static_cast<Spend>(i))) result.bubble += critical[static_cast<size_t>(i)];
  }
  fill_memory(scenario, *graph, result);
  fill_rates(scenario, *graph, result);
  result.trust = trust_of(*graph, *prices);
  result.graph = std::move(graph);
  result.prices = std::move(prices);
  result.interval = interval_of(scenario, result);
  return result;
}

}  // namespace

Result forecast(const Scenario& scenario, const ForecastOptions& options) {
  const PricingTable pricing = pricing_table(scenario);
  MadeSchedule made;
  if (scenario.to_make) made = make_schedule(scenario, pricing.table);
  Result result = simulate(scenario, options,
                           {scenario.to_make ? made.schedule : scenario.schedule, pricing.table});
  result.calibration = pricing.title;
  if (pricing.table != nullptr) {
    const std::string remark = remark_on_fits(*pricing.table, *result.graph, *result.prices);
    if (!remark.empty()) result.calibration += "; " + remark;
  }
  result.calibration_hash = pricing.hash;
  result.synthesis = std::move(made.synthesis);
  for (std::string& w : made.warnings) result.scenario.warnings.push_back(std::move(w));
  return result;
}

}  // namespace stepcast
