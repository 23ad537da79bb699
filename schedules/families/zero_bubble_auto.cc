// SPDX-License-Identifier: Apache-2.0
// ZB-1p, ZB-2p and automatic ZB-V: split backward, the order made for the times and the memory
// given.
//
// The zero-bubble program lets a greedy rule of its own write these lists; here the synthesis of
// synthesis.h does.  Two orders are made, one for a short makespan and one for a short span, which
// is what a step without a barrier costs; the second is taken if its makespan is as good as the
// other's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "schedules/families/families.h"
#include "schedules/synthesis/synthesis.h"

namespace stepcast {
namespace {

constexpr std::string_view kZb1P = "zb-1p-auto";
constexpr std::string_view kZb1PAliases[] = {"zb-1p", "zb1p", "zb1p-auto", "zero-bubble-1p",
                                             "zb-auto"};
constexpr std::string_view kZb2P = "zb-2p-auto";
constexpr std::string_view kZb2PAliases[] = {"zb-2p", "zb2p", "zb2p-auto", "zero-bubble-2p"};
constexpr std::string_view kZbVAuto = "zb-v-auto";
constexpr std::string_view kZbVAutoAliases[] = {"zbv-auto", "zb-v-greedy", "zero-bubble-v-auto"};

constexpr ScheduleParameter kZbAutoParameters[] = {
    {"tF", "time of F of a stage, any unit; one number or one a stage; default 1000"},
    {"tB_input", "time of I, as tF; default 1000"},
    {"tW", "time of W, as tF; default 1000"},
    {"tComm", "latency of a hop between ranks; default 1"},
    {"mem_F", "memory that F adds, any unit; default 303104"},
    {"mem_B", "memory that I adds, mostly negative; default -172032, or in its share of mem_F"},
    {"mem_W", "memory that W adds, negative; default what F and I leave"},
    {"mem_limit_in_activations",
     "most memory of a rank, in mem_F; default p for zb-1p-auto, 2p for zb-2p-auto and zb-v-auto"},
    {"note", "ignored"},
};

// A layer of a transformer with unfused attention: 34h + 5as bytes a token, of which W frees 32h,
// at h = 4096, a = 32 and s = 1024.  Only the ratio matters.
constexpr double kForwardMemory = 303104, kInputMemory = -172032;

// Orders tried for each of the two: few where there is little to choose from, and few where one
// takes long.
constexpr int64_t kActionsVisited = 8'000'000, kOrdersPerAction = 10, kFewestOrders = 60;

// A share of the makespan, 1 / 10,000, that is no loss.
constexpr int64_t kSameLength = 10'000;

// One number a stage.
std::vector<double> stage_numbers(ParamReader& in, std::string_view key, size_t stages,
                                  double otherwise) {
  constexpr double kMost = 1e12;
  std::vector<double> numbers = in.numbers(key);
  if (numbers.empty()) numbers = {otherwise};
  if (numbers.size() == 1) numbers.assign(stages, numbers.front());
  if (numbers.size() != stages) {
    in.refuse(fmt::format("{} has {} numbers: one is needed, or one for each of the {} stages", key,
                          numbers.size(), stages));
    numbers.assign(stages, otherwise);
  }
  for (double& n : numbers)
    if (!(std::abs(n) <= kMost)) {
      in.refuse(fmt::format("{} is out of range: at most 1e12", key));
      n = otherwise;
    }
  return numbers;
}

int64_t rounded(double value) {
  return static_cast<int64_t>(std::floor(value + 0.5));
}

// Any unit of time to picoseconds: times a power of ten, so that decimal numbers stay exact.
class TimeScale {
 public:
  explicit TimeScale(double longest) {
    while (longest * factor_ < 1e8 && factor_ < 1e15) factor_ *= 10;
  }
  Time operator()(double t) const { return Time{rounded(t * factor_)}; }

 private:
  double factor_ = 1;
};

void set_times(PipelineCosts& costs, ParamReader& in) {
  const size_t stages = costs.rank_of_stage.size();
  const std::array times = {stage_numbers(in, "tF", stages, 1000),
                            stage_numbers(in, "tB_input", stages, 1000),
                            stage_numbers(in, "tW", stages, 1000)};
  const double hop = stage_numbers(in, "tComm", 1, 1).front();
  double longest = hop;
  for (const auto& kind : times)
    for (const double t : kind) {
      if (t < 0) in.refuse("tF, tB_input and tW must not be negative");
      longest = std::max(longest, t);
    }
  if (hop < 0) in.refuse("tComm must not be negative");
  const TimeScale scale(std::max(longest, 1e-6));
  for (size_t s = 0; s < stages; ++s) {
    StageTimes t;
    t.forward = scale(times[0][s]);
    t.backward_input = scale(times[1][s]);
    t.backward_weight = scale(times[2][s]);
    costs.times.push_back(t);
  }
  costs.hops.assign(stages - 1, scale(hop));
}

void set_memory(PipelineCosts& costs, ParamReader& in, int64_t activations) {
  const size_t stages = costs.rank_of_stage.size();
  const std::vector<double> forward = stage_numbers(in, "mem_F", stages, kForwardMemory);
  const double share = kInputMemory / kForwardMemory;
  const double limit =
      in.number("mem_limit_in_activations").value_or(static_cast<double>(activations));
  if (!(limit > 0 && limit <= 1e6))
    in.refuse("mem_limit_in_activations must be positive, and at most 1,000,000");
  costs.memory_limit.assign(static_cast<size_t>(costs.pp), 0);
  const std::vector<double> input = stage_numbers(in, "mem_B", stages, 0);
  const std::vector<double> weight = stage_numbers(in, "mem_W", stages, 0);
  const bool has_input = !in.numbers("mem_B").empty();
  const bool has_weight = !in.numbers("mem_W").empty();
  if (in.wrong()) return;
  for (size_t s = 0; s < stages; ++s) {
    StageMemory m;
    m.forward = rounded(forward[s]);
    m.backward_input = has_input    ? rounded(input[s])
                       : has_weight ? -m.forward - rounded(weight[s])
                                    : rounded(forward[s] * share);
    m.backward_weight = has_weight ? rounded(weight[s]) : -m.forward - m.backward_input;
    if (m.forward + m.backward_input + m.backward_weight != 0 || m.forward < 0 ||
        m.backward_weight > 0)
      in.refuse(
          fmt::format("mem_F, mem_B and mem_W of stage {} must add up to 0, with mem_F >= 0 "
                      "and mem_W <= 0",
                      s));
    costs.memory.push_back(m);
    int64_t& most = costs.memory_limit[costs.rank_of_stage[s]];
    most = std::max(most, static_cast<int64_t>(std::floor(limit * forward[s])));
  }
}

// Picks between the shortest makespan and the shortest span.
Synthesis synthesize_both(SynthesisProblem& problem) {
  Synthesis makespan = synthesize(problem);
  problem.objective = SynthesisObjective::span;
  Synthesis span = synthesize(problem);
  const bool as_long = span.makespan <= makespan.makespan + makespan.makespan / kSameLength;
  return span.span < makespan.span && as_long ? span : makespan;
}

// What the parameters ask for: times and memory of all stages, and the limit of the ranks, by
// default that of this many `activations`.
SynthesisProblem synthesis_of(const Schedule& schedule, ParamReader& in, int64_t activations) {
  SynthesisProblem problem;
  PipelineCosts& costs = problem.costs;
  costs.pp = schedule.pp;
  costs.microbatches = schedule.microbatches;
  costs.rank_of_stage = schedule.rank_of_stage;
  set_times(costs, in);
  set_memory(costs, in, activations);
  const int64_t actions =
      3 * schedule.microbatches * static_cast<int64_t>(schedule.rank_of_stage.size());
  problem.effort =
      std::max(std::min(kActionsVisited / actions, kOrdersPerAction * actions), kFewestOrders);
  return problem;
}

std::optional<Diagnostic> check_problem(const Schedule& placed, const ScheduleParams& params,
                                        int64_t activations) {
  ParamReader in(params);
  const SynthesisProblem problem = synthesis_of(placed, in, activations);
  return in.wrong() ? in.wrong() : check_synthesis(problem);
}

Schedule made_order(Schedule schedule, const ScheduleParams& params, int64_t activations) {
  ParamReader in(params);
  SynthesisProblem problem = synthesis_of(schedule, in, activations);
  schedule.ranks = std::move(synthesize_both(problem).schedule.ranks);
  return schedule;
}

std::optional<Diagnostic> check_zb_1p(const ScheduleParams& params) {
  if (auto wrong = check_one_chunk(kZb1P, params, kZbVAuto)) return wrong;
  return check_problem(loop_schedule(kZb1P, params), params, params.pp);
}

Schedule zb_1p_order(const ScheduleParams& params) {
  return made_order(loop_schedule(kZb1P, params), params, params.pp);
}

std::optional<Diagnostic> check_zb_2p(const ScheduleParams& params) {
  if (auto wrong = check_one_chunk(kZb2P, params, kZbVAuto)) return wrong;
  return check_problem(loop_schedule(kZb2P, params), params, 2 * params.pp);
}

Schedule zb_2p_order(const ScheduleParams& params) {
  return made_order(loop_schedule(kZb2P, params), params, 2 * params.pp);
}

std::optional<Diagnostic> check_zb_v_auto(const ScheduleParams& params) {
  if (auto wrong = check_two_chunks(kZbVAuto, params)) return wrong;
  return check_problem(snake_schedule(kZbVAuto, params), params, 2 * params.pp);
}

Schedule zb_v_auto_order(const ScheduleParams& params) {
  return made_order(snake_schedule(kZbVAuto, params), params, 2 * params.pp);
}

constexpr std::string_view kZbAutoSource =
    "Qi et al. 2023 (arXiv:2401.10241); sail-sg zero-bubble, automatic schedule";

}  // namespace

ScheduleFamily zb_1p_auto() {
  return {kZb1P,
          "ZB-1p auto",
          kZb1PAliases,
          "split backward, the order made for the times given; holds the memory of p microbatches; "
          "vpp = 1",
          kZbAutoSource,
          check_zb_1p,
          zb_1p_order,
          kZbAutoParameters,
          P2pStyle::async,
          OrderBy::times};
}

ScheduleFamily zb_2p_auto() {
  return {kZb2P,
          "ZB-2p auto",
          kZb2PAliases,
          "as zb-1p-auto with the memory of 2p microbatches: mostly no bubble within the span; "
          "vpp = 1",
          kZbAutoSource,
          check_zb_2p,
          zb_2p_order,
          kZbAutoParameters,
          P2pStyle::async,
          OrderBy::times};
}

ScheduleFamily zb_v_auto() {
  return {kZbVAuto,
          "ZB-V auto",
          kZbVAutoAliases,
          "two chunks a rank in a V, split backward, the order made for the times given; holds 2p "
          "chunks; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); sail-sg zero-bubble, automatic schedule",
          check_zb_v_auto,
          zb_v_auto_order,
          kZbAutoParameters,
          P2pStyle::async,
          OrderBy::times};
}

}  // namespace stepcast
