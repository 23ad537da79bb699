// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "calibrate/price/roofline.h"
#include "calibrate/table/cost_table.h"
#include "model/passes/forward_only.h"
#include "scenarios/forecast/device_memory.h"
#include "scenarios/forecast/interference.h"
#include "scenarios/forecast/make_schedule.h"
#include "scenarios/forecast/perturbed_step.h"
#include "scenarios/forecast/step.h"
#include "scenarios/forecast/what_if.h"
#include "scenarios/highest_mfu.h"
#include "scenarios/memory_errors.h"
#include "scenarios/observed_errors.h"
#include "scenarios/older_software.h"
#include "scenarios/own_runs.h"
#include "scenarios/pricing_table.h"
#include "sim/account/account.h"
#include "sim/diagnostic.h"
#include "sim/engine/run.h"
#include "sim/for_each_item.h"
#include "sim/graph/op_graph.h"
#include "sim/text.h"

namespace stepcast {
namespace {

ScenarioSummary summary_of(const Scenario& s) {
  const Plan& p = s.plan;
  ScenarioSummary t;
  t.name = s.name;
  t.file = s.file;
  t.hash = s.hash;
  t.warnings = s.warnings;
  t.gpu = upper_case(s.cluster.node.gpu.name);
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
  t.mtp_layers = p.trains() ? s.model.mtp_layers : 0;
  t.microbatches = p.microbatches();
  t.seq = p.seq;
  t.schedule = s.schedule_title;
  if (p.mode == StepMode::prefill) t.mode = "prefill";
  if (p.mode == StepMode::decode) t.mode = "decode";
  return t;
}

// Share of all device time by the origin of its price.
std::array<double, kOrigins> trust_of(const PricedStep& step) {
  std::array<double, kOrigins> sum{};
  const std::vector<double> counts = work_counts(step.graph);
  for (size_t i = 0; i < counts.size(); ++i) {
    const Price& p = step.prices.by_work[i];
    const Time fitted = std::max(Time{}, p.in_situ);
    sum[static_cast<size_t>(p.origin)] +=
        counts[i] * static_cast<double>((p.time - fitted).count());
    sum[static_cast<size_t>(Origin::fitted)] += counts[i] * static_cast<double>(fitted.count());
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

// What the step holds, and how much larger it could be.
struct MemoryForecast {
  StepMemory step;
  double room = 0;  // room_to_grow(), of a step that trains
};

// Whether runs like it were compared, so that it is known how surely the step fits: those that
// train were.
const MemoryErrors* errors_of_reserved(const Scenario& scenario) {
  return scenario.plan.trains() ? memory_errors_like(memory_errors(), kReservedMemory) : nullptr;
}

MemoryForecast with_room(const Scenario& scenario, const OpGraph& graph, StepMemory step,
                         int jobs) {
  MemoryForecast memory{std::move(step)};
  if (errors_of_reserved(scenario) != nullptr)
    memory.room =
        room_to_grow(scenario, graph, memory.step, kLeastMemoryRoom, kMostMemoryRoom, jobs);
  return memory;
}

void trust_memory(const Scenario& scenario, const MemoryForecast& memory, Result& result) {
  if (!scenario.plan.trains()) return;
  if (const MemoryErrors* like = memory_errors_like(memory_errors(), kAllocatedMemory))
    result.allocated_interval = make_memory_interval(memory.step.peak, *like);
  const MemoryErrors* like = errors_of_reserved(scenario);
  if (like == nullptr) return;
  result.reserved_interval = make_memory_interval(memory.step.reserved, *like);
  result.memory_room = memory.room;
  result.fits_share = share_that_fits(*like, result.memory_room);
}

void fill_memory(const Scenario& scenario, const OpGraph& graph, MemoryForecast forecast,
                 Result& result) {
  trust_memory(scenario, forecast, result);
  StepMemory& memory = forecast.step;
  result.memory_usable = usable_memory(scenario);
  result.device_memory = device_memory(scenario);
  result.peak_role = memory.peak_role;
  result.reserved_role = memory.reserved_role;
  result.memory_reserved = memory.reserved;
  for (uint32_t r = 0; r < memory.by_role.size(); ++r) {
    RankMemory stage;
    stage.name = graph.roles[r].name;
    for (const auto& [label, bytes] : peak_by_label(graph, r, memory.by_role[r])) {
      stage.activation_terms.emplace_back(graph.text(label), bytes);
    }
    stage.memory = std::move(memory.by_role[r]);
    stage.peak_at = place_of_peak(graph, r, stage.memory);
    stage.reserved = memory.reserved_by_role[r];
    result.memory.push_back(std::move(stage));
  }
  result.fits = result.memory_reserved <= result.memory_usable;
}

// Floating-point operations of a step under each convention, over all ranks.
struct StepFlops {
  // Of the model: every query meets every key (Korthikanti et al. 2022, eq. 7) ...
  double full_attention = 0;
  // ... or only the keys it sees.
  double causal_attention = 0;
  // Matrix products and attention as the ops execute them, recomputation included.
  double executed = 0;
  // Korthikanti's hardware FLOPs: selective recomputation turns s/6h into s/3h (eq. 8), full
  // recomputation adds one forward.
  double korthikanti = 0;
};

// The sum of a quantity of works over all ops of all ranks.
template <class Quantity>
double sum_over_ops(const OpGraph& graph, const Quantity& of) {
  std::vector<double> per_pass(graph.passes.size());
  for (size_t p = 0; p < per_pass.size(); ++p)
    for (const Op& op : graph.passes[p].ops)
      per_pass[p] += of(graph.works[static_cast<size_t>(op.work)]);
  double total = 0;
  for (const RoleOps& role : graph.roles) {
    double of_role = 0;
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::pass) of_role += per_pass[static_cast<size_t>(item.pass)];
    }
    total += of_role * static_cast<double>(role.ranks);
  }
  return total;
}

double executed_flops(const OpGraph& graph) {
  return sum_over_ops(graph, [](const Work& w) { return w.flops.value; });
}

// GPU-seconds of the same work at the peak of each work's own format.
double seconds_at_peak(const OpGraph& graph, const Gpu& gpu) {
  return sum_over_ops(graph, [&](const Work& w) {
    const double peak = w.flops.value > 0 ? peak_rate(gpu, w.dtype) : 0;
    return peak > 0 ? w.flops.value / peak : 0;
  });
}

// Of a training step.
double full_attention_flops(const Transformer& model, const Plan& plan) {
  return training_matmul_flops(model, static_cast<double>(plan.global_batch),
                               static_cast<double>(plan.seq), false,
                               static_cast<double>(plan.encoder_seq)) +
         teacher_flops(plan, false);
}

StepFlops step_flops(const Transformer& model, const Plan& plan, const OpGraph& graph) {
  if (!plan.trains()) {
    StepFlops flops;
    flops.full_attention = flops.korthikanti = inference_flops(model, plan, false);
    flops.causal_attention = inference_flops(model, plan, true);
    flops.executed = executed_flops(graph);
    return flops;
  }
  const auto sequences = static_cast<double>(plan.global_batch);
  const auto seq = static_cast<double>(plan.seq);
  const auto encoder = static_cast<double>(plan.encoder_seq);
  const double forward = forward_matmul_flops(model, sequences, seq, false, encoder);
  StepFlops flops;
  flops.full_attention = full_attention_flops(model, plan);
  flops.causal_attention =
      training_matmul_flops(model, sequences, seq, true, encoder) + teacher_flops(plan, true);
  flops.executed = executed_flops(graph);
  flops.korthikanti = flops.full_attention;
  if (plan.recompute == Recompute::selective && plan.recompute_modules.core_attention) {
    // Attention products alone: what a model of twice the sequence would add.
    const bool sparse = chooses_latents(model);
    const double keys = sparse ? std::min(seq, static_cast<double>(model.index_topk)) : seq;
    int64_t width = 0;  // of all heads of all layers
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      const LayerKind kind = layer_kind(model, layer);
      const LayerShape shape = layer_shape(model, kind);
      if (kind.attends() && !model.compressions.empty())
        flops.korthikanti += 3 * 2 * sequences * compressed_pairs(model, kind, seq, false) *
                             static_cast<double>(shape.heads * attended_width(model, shape));
      else if (kind.attends())
        width += shape.heads * attended_width(model, shape);
    }
    const double attention = 2 * sequences * seq * keys * static_cast<double>(width);
    flops.korthikanti += 3 * attention;
  } else if (plan.recompute == Recompute::full) {
    flops.korthikanti += forward - head_matmul_flops(model, sequences, seq);
  }
  return flops;
}

void fill_rates(const PricedStep& priced, Result& result) {
  const Scenario& s = *priced.scenario;
  const double step = to_seconds(result.step_time);
  const auto world = static_cast<double>(s.plan.grid.world());
  result.tokens_per_step = static_cast<double>(step_tokens(s.plan));
  result.tokens_per_s_per_gpu = step > 0 ? result.tokens_per_step / step / world : 0;
  const StepFlops flops = step_flops(s.model, s.plan, priced.graph);
  result.model_flops_per_step = flops.full_attention;
  const auto peak = s.cluster.node.gpu.peak.find(s.plan.precision.params);
  if (step <= 0 || peak == s.cluster.node.gpu.peak.end()) return;
  const double available = step * world * peak->second.value;
  result.utilization = {flops.full_attention / available,
                        flops.causal_attention / available,
                        flops.executed / available,
                        flops.korthikanti / available,
                        seconds_at_peak(priced.graph, s.cluster.node.gpu) / (step * world),
                        name_of(s.plan.precision.params)};
}

InputError deadlock_error(const Scenario& scenario, const OpGraph& graph,
                          const Deadlock& deadlock) {
  std::string help;
  for (const Deadlock::Waiting& w : deadlock.waiting) {
    if (!help.empty()) help += "; ";
    const Rendezvous& r = graph.rendezvous[static_cast<size_t>(w.rendezvous)];
    help += graph.roles[w.role].name + " waits for '" + graph.text(r.label) + "'";
  }
  return file_error("E401", "the schedule deadlocks", scenario.file, std::move(help));
}

// Without a barrier the next step of a rank follows its own last action, so that a step costs the
// span and every rank has `cut` less to wait, first at its end, then at its begin.
void cut_waiting(Account& account, Time cut) {
  constexpr std::array kOrder{Spend::idle_end,   Spend::fill,          Spend::exposed_pp,
                              Spend::blocked,    Spend::imbalance,     Spend::launch,
                              Spend::exposed_dp, Spend::exposed_other, Spend::drain,
                              Spend::straggler,  Spend::contention};
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

// The same schedule without a barrier, on the same prices.
PricedStep without_barrier(const PricedStep& step, const Schedule& schedule) {
  return price_step(lower_without_barrier(*step.scenario, schedule), step.table);
}

// What the step would cost without the barrier.  Where no weight gradients are put off, the first
// rank is both first to start and last to end, and waits for nobody.  Without the barrier a rank
// does at its end what precedes its first action else, and hides less with it: the launches of that
// action below zeroed gradients, a gather of parameters beside it.  Where that takes more than the
// barrier, the step with it is an order without one, too.
Time span_of(const PricedStep& step, const Schedule& schedule, const Result& result) {
  if (step.scenario->post_validation || !splits_backward(schedule)) return result.timeline.span;
  const PricedStep free = without_barrier(step, schedule);
  return std::min(result.makespan, run(compile(free.graph, free.prices), Record::nothing).span);
}

// Up to so many ops another simulation is a matter of milliseconds.
constexpr int64_t kQuickOps = 4'000'000;

// Whether one answer to "if it were free" takes longer than that.  Lanes count as far as they
// differ.
bool has_long_what_ifs(const Scenario& scenario, const LaneSet& lanes, const LaneResult& ranks) {
  const int64_t simulated = scenario.perturb.empty() ? 1 : ranks.lanes_run;
  return ranks.rank_ops / std::max<int64_t>(1, lanes.lanes()) * simulated > kQuickOps;
}

// Replicas that would run for much longer than a minute, as one step tells: in ops of lanes, of
// which some 80 million a second run where kernel times vary, or what takes as long.
void check_replicas(const Scenario& scenario, const RankRun& one) {
  constexpr int64_t kMostOps = 5'000'000'000, kOpsAFlowEvent = 200, kOpsASlowedOp = 80;
  const LaneResult& lanes = one.ranks.lanes;
  const int64_t ops_of_lanes = lanes.rank_ops + kOpsASlowedOp * one.ranks.shared_ops;
  const int64_t ops = ops_of_lanes / std::max<int64_t>(1, one.lanes.lanes()) * lanes.lanes_run +
                      kOpsAFlowEvent * one.ranks.flow_events;
  const int64_t most = std::max<int64_t>(1, kMostOps / std::max<int64_t>(1, ops));
  if (scenario.replicas > most)
    throw file_error("E123",
                     fmt::format("{} replicas of this step are too many: at most {} are possible, "
                                 "which take about a minute",
                                 scenario.replicas, most),
                     scenario.file, fmt::format("replicas: {}", most));
}

// Replaces the result of the run with equal ranks by that of the run of every rank.
void run_every_rank(const PricedStep& priced, const std::optional<Interference>& interference,
                    const Schedule& schedule, const ForecastOptions& options,
                    const Program& program, const Account& levelled, Result& result) {
  const Scenario& scenario = *priced.scenario;
  const LaneOptions lane_options{.fold = !options.all_ranks, .record = true, .ops = options.trace};
  RankRun now = RankSimulation(priced, interference).run(scenario.seed, lane_options);
  // Of equal ranks without shared links nothing is drawn: one step is all of them.
  const bool has_replicas = scenario.replicas > 1 && is_perturbed(scenario);
  if (has_replicas) check_replicas(scenario, now);
  LaneResult& ranks = now.ranks.lanes;
  const Account undisturbed = std::move(result.account);
  result.timeline = std::move(ranks.timeline);
  result.account = make_account(program, result.timeline);
  book_longer_waits(result.account, undisturbed,
                    scenario.perturb.empty() ? Spend::contention : Spend::straggler);
  separate_imbalance(result.account, levelled);
  const Time before = cost_of(scenario, result);
  result.makespan = ranks.makespan;
  result.span = ranks.span;
  if (!scenario.post_validation && splits_backward(schedule)) {
    const PricedStep free = without_barrier(priced, schedule);
    result.span = std::min(result.makespan, RankSimulation(free, interference)
                                                .run(scenario.seed, {.fold = !options.all_ranks})
                                                .ranks.lanes.span);
  }
  const Time step = cost_of(scenario, result);
  const bool contended = now.shared_links || now.interference;
  std::optional<StepTimes> times;
  if (options.what_if || !contended) times = step_times(priced, contended, before, step);
  result.disturbance =
      compare_with_equal_ranks(priced, now, undisturbed, before,
                               times ? std::optional(times->without_contention) : std::nullopt);
  result.disturbance->critical_rank =
      rank_name(priced, result.account.critical_role, ranks.last_lane);
  if (options.trace)
    result.traced = options.trace_ranks.empty()
                        ? std::vector{all_stages(priced, ranks.last_lane, result.timeline)}
                        : trace_ranks(priced, interference, options.trace_ranks, lane_options);
  if (options.what_if) {
    const SpendTable& critical = result.account.by_role[result.account.critical_role];
    result.what_if_left_out =
        !options.every_what_if && has_long_what_ifs(scenario, now.lanes, ranks);
    if (!result.what_if_left_out) result.what_if = what_if_of_ranks(priced, critical, *times);
    result.what_if_without_contention = contended;
    if (contended) result.disturbance->without_contention = times->without_contention;
  }
  result.rank_ops = ranks.rank_ops;
  result.flow_events = now.ranks.flow_events;
  result.event_ops = now.ranks.shared_ops;
  if (has_replicas) result.replicas = run_replicas(priced, interference, options.progress);
}

// The same, without interference where it is left open and would take long.
void run_ranks_if_quick(const PricedStep& step, const std::optional<Interference>& interference,
                        const Schedule& schedule, const ForecastOptions& options,
                        const Program& program, const Account& levelled, Result& result) {
  const Scenario& scenario = *step.scenario;
  const bool is_open = interference && may_leave_out_interference(scenario);
  if (is_open) {
    Result slowed = result;
    try {
      run_every_rank(step, interference, schedule, options, program, levelled, slowed);
      result = std::move(slowed);
      return;
    } catch (const TooManyTurns&) {
      result.scenario.warnings.push_back(interference_left_out(
          "where ranks differ or share links and that takes more than some seconds; on simulates "
          "it all the same"));
    } catch (const TooLongForLanes&) {
      result.scenario.warnings.push_back(
          interference_left_out("where ranks differ and take more than 19 minutes with it"));
    }
  }
  run_every_rank(step, is_open ? std::nullopt : interference, schedule, options, program, levelled,
                 result);
}

// The run of equal ranks, then of those that differ.
void run_step(const PricedStep& step, const Schedule& schedule, const ForecastOptions& options,
              Result& result) {
  const Scenario& scenario = *step.scenario;
  // A trace needs the start of every op, hence unmerged instructions; the times are the same.
  const Program program = compile(step.graph, step.prices, {}, !options.trace);
  result.timeline = run(program, options.trace ? Record::all : Record::account);
  result.account = make_account(program, result.timeline);
  const Variation levels = level_stages(step, program);
  const Program equal_stages = compile(step.graph, step.prices, levels);
  const Account levelled = make_account(equal_stages, run(equal_stages));
  separate_imbalance(result.account, levelled);
  result.makespan = result.timeline.makespan;
  result.rank_ops = result.timeline.rank_ops;
  InterferenceChoice interference =
      choose_interference(scenario, step.table, result.timeline.makespan);
  if (!interference.left_out.empty())
    result.scenario.warnings.push_back(std::move(interference.left_out));
  if (is_perturbed(scenario) || interference.factors || options.all_ranks ||
      !options.trace_ranks.empty()) {
    result.span = result.timeline.span;
    run_ranks_if_quick(step, interference.factors, schedule, options, program, levelled, result);
    result.critical_path = critical_path(program, result.timeline);
    return;
  }
  result.span = span_of(step, schedule, result);
  if (options.what_if) {
    const SpendTable& critical = result.account.by_role[result.account.critical_role];
    const auto varied = [&](const Variation& v) {
      return cost_of(scenario, run(compile(step.graph, step.prices, v), Record::nothing));
    };
    result.what_if = what_if(critical, levels, cost_of(scenario, result.timeline), varied);
  }
  result.critical_path = critical_path(program, result.timeline);
}

// Warns of perturbations that begin only after the step has ended.
void warn_late_windows(const Scenario& scenario, Result& result) {
  for (size_t i = 0; i < scenario.perturb.size(); ++i) {
    if (scenario.perturb[i].from < std::max(Time{1}, result.makespan)) continue;
    result.scenario.warnings.push_back(
        fmt::format("item {} of perturb begins after the end of the step and changes nothing", i));
  }
}

// Of a scenario that leaves it open whether links are shared: can they be?
bool may_share_links(const Scenario& scenario, const ForecastOptions& options) {
  return scenario.links == Scenario::Links::automatic && scenario.perturb.empty() &&
         scenario.replicas == 1 && scenario.cluster.nodes > 1 && !options.all_ranks &&
         options.trace_ranks.empty();
}

// Why links are not shared, what it would take, and what the step takes if every transfer is spread
// over all equal routes, which makes ranks alike.  `reached`: of the step, in about a second;
// nothing: it was not tried.
std::string remark_on_links(const PricedStep& step, const std::optional<Interference>& interference,
                            std::optional<Time> reached, Time makespan) {
  const Scenario& scenario = *step.scenario;
  std::string remark = "contention.links: auto leaves out that transfers share links: ";
  if (!reached)
    return remark + fmt::format("there are more than {} ranks; on simulates it", kQuickRanks);
  const double seconds = to_seconds(makespan) / std::max(1e-12, to_seconds(*reached));
  remark += fmt::format("ranks differ by their routes, and on would take about {:.0f} s",
                        std::max(2.0, seconds));
  if (scenario.cluster.fabric.adaptive) return remark;
  try {
    Scenario spread = scenario;
    spread.cluster.fabric.adaptive = spread.share_links = true;
    const PricedStep alike{&spread, step.table, step.graph, step.prices};
    const Time with =
        cost_of(spread, RankSimulation(alike, interference).run(spread.seed, {}).ranks.lanes);
    spread.share_links = false;
    const Time without =
        cost_of(spread, RankSimulation(alike, interference).run(spread.seed, {}).ranks.lanes);
    remark += fmt::format("; with cluster.fabric.routing: adaptive they cost {:.1f} %",
                          100 * (to_seconds(with) / to_seconds(without) - 1));
  } catch (const TooManyTurns&) {     // not even then
  } catch (const TooLongForLanes&) {  // nor could its time be counted
  }
  return remark;
}

// The step with shared links if that is quick, otherwise without.
void run_with_links_if_quick(PricedStep& step, const Schedule& schedule,
                             const ForecastOptions& options, Result& result) {
  const Scenario& scenario = *step.scenario;
  Scenario sharing = scenario;
  sharing.share_links = true;
  std::optional<Time> reached;
  if (scenario.plan.grid.world() <= kQuickRanks) {
    Result shared = result;
    step.scenario = &sharing;
    try {
      run_step(step, schedule, options, shared);
      step.scenario = &scenario;
      result = std::move(shared);
      return;
    } catch (const TooManyTurns& e) {
      reached = e.reached;
      step.scenario = &scenario;
    } catch (const TooLongForLanes&) {
      step.scenario = &scenario;
      run_step(step, schedule, options, result);
      result.scenario.warnings.emplace_back(
          "contention.links: auto leaves out that transfers share links: the step is longer than "
          "19 minutes, in which ranks are not simulated one by one");
      return;
    }
  }
  run_step(step, schedule, options, result);
  const InterferenceChoice interference =
      choose_interference(scenario, step.table, result.timeline.makespan);
  result.scenario.warnings.push_back(
      remark_on_links(step, interference.factors, reached, result.makespan));
}

Result explain(PricedStep step, const Schedule& schedule, const ForecastOptions& options) {
  const Scenario& scenario = *step.scenario;
  Result result;
  result.scenario = summary_of(scenario);
  // Memory hangs on the order of the passes, the run on their prices: neither needs the other.
  MemoryTraces traces(scenario, step.graph);
  try {
    for_each_item(1 + traces.stages(), options.jobs, [&](size_t part, size_t) {
      if (part > 0)
        traces.trace(part - 1);
      else if (may_share_links(scenario, options))
        run_with_links_if_quick(step, schedule, options, result);
      else
        run_step(step, schedule, options, result);
    });
  } catch (const Deadlock& deadlock) {
    throw deadlock_error(scenario, step.graph, deadlock);
  }
  warn_late_windows(scenario, result);
  result.splits_backward = splits_backward(schedule);
  result.step_time = cost_of(scenario, result);
  cut_waiting(result.account, result.makespan - result.step_time);
  const SpendTable& critical = result.account.by_role[result.account.critical_role];
  result.bubble = sum_if(critical, is_bubble);
  fill_memory(scenario, step.graph,
              with_room(scenario, step.graph, std::move(traces).memory(), options.jobs), result);
  fill_rates(step, result);
  if (auto remark = remark_on_mfu(scenario, result.utilization.mfu_full_attention))
    result.scenario.warnings.push_back(std::move(*remark));
  result.trust = trust_of(step);
  result.graph = std::make_shared<const OpGraph>(std::move(step.graph));
  result.prices = std::make_shared<const Prices>(std::move(step.prices));
  result.interval = interval_of(scenario, result);
  return result;
}

// The same step with software of another time, if that is worth a remark.
std::optional<OlderSoftware> with_older_software(const Scenario& scenario, Time today) {
  if (!scenario.with_older_software || is_perturbed(scenario)) return {};
  const Scenario& older = *scenario.with_older_software;
  try {
    const PricingTable pricing = pricing_table(older);
    const auto then = evaluate(price_step(lower_step(older, older.schedule), pricing.table));
    if (!then) return {};
    return compare_with_older_software(older.software, today, then->time,
                                       then->peak <= usable_memory(older));
  } catch (const InputError&) {  // it cannot be simulated: there is nothing to compare with
    return {};
  }
}

}  // namespace

double training_mfu(const Scenario& s, Time step) {
  const auto peak = s.cluster.node.gpu.peak.find(s.plan.precision.params);
  if (step <= Time{} || peak == s.cluster.node.gpu.peak.end()) return 0;
  const double available =
      to_seconds(step) * static_cast<double>(s.plan.grid.world()) * peak->second.value;
  return full_attention_flops(s.model, s.plan) / available;
}

std::optional<Result> forecast_memory(const Scenario& scenario) {
  if (scenario.to_make) return {};
  LoweredStep step = lower_step(scenario, scenario.schedule);
  if (is_too_large(step)) return {};
  Result result;
  result.scenario = summary_of(scenario);
  fill_memory(scenario, step.graph,
              with_room(scenario, step.graph, memory_of(scenario, step.graph), 1), result);
  result.graph = std::make_shared<const OpGraph>(std::move(step.graph));
  return result;
}

Result forecast(const Scenario& scenario, const ForecastOptions& options) {
  const PricingTable pricing = pricing_table(scenario);
  MadeSchedule made;
  if (scenario.to_make) made = make_schedule(scenario, pricing.table, options.lists);
  const Schedule& schedule = scenario.to_make ? made.schedule : scenario.schedule;
  PricedStep priced = price_step(lower_step(scenario, schedule), pricing.table);
  Result result = explain(std::move(priced), schedule, options);
  result.older_software = with_older_software(scenario, result.step_time);
  result.calibration = pricing.title;
  if (scenario.own_runs != nullptr)
    result.calibration +=
        fmt::format("; {} own {} in {}", scenario.own_runs->runs,
                    scenario.own_runs->runs == 1 ? "run" : "runs", scenario.own_runs->file);
  if (pricing.table != nullptr) {
    const std::string remark = remark_on_fits(pricing, *result.graph, *result.prices);
    if (!remark.empty()) result.calibration += "; " + remark;
  }
  result.calibration_hash = pricing.hash;
  if (scenario.own_runs != nullptr) result.own_runs_hash = scenario.own_runs->hash;
  result.synthesis = std::move(made.synthesis);
  for (std::string& w : made.warnings) result.scenario.warnings.push_back(std::move(w));
  if (result.older_software && options.remark_on_older_software)
    result.scenario.warnings.push_back(remark_on_older_software({&*result.older_software, 1}));
  return result;
}

}  // namespace stepcast
