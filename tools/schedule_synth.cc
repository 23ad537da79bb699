// SPDX-License-Identifier: Apache-2.0
// stepcast schedule synth: an order made for given costs and memory.
#include <algorithm>
#include <limits>
#include <optional>

#include "report/json/writer.h"
#include "schedules/families/families.h"
#include "schedules/formats/action_text.h"
#include "schedules/formats/schedule_csv.h"
#include "schedules/synthesis/synthesis.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/schedule.h"
#include "tools/schedule_source.h"
#include "tools/schedule_timing.h"

namespace stepcast::cli {
namespace {

// An empty schedule that has the placement.
Schedule placed(const ScheduleArguments& a, const ScheduleParams& params) {
  const bool loop = parse_word("--placement", a.placement, {"loop", "v"}) == 0;
  std::optional<Diagnostic> wrong = check_sizes(params);
  if (!wrong && !loop) wrong = check_two_chunks("synth", params);
  if (wrong) usage_error("E205", wrong->message);
  return loop ? loop_schedule("synth", params) : snake_schedule("synth", params);
}

StageTimes times_of(int64_t forward, int64_t input, int64_t weight) {
  StageTimes times;
  times.forward = Time{forward};
  times.backward_input = Time{input};
  times.backward_weight = Time{weight};
  return times;
}

// What 1F1B holds: pp microbatches of the rank that needs most for one.
int64_t default_limit(const Schedule& empty, const ScheduleCosts& costs) {
  if (costs.by_stage.empty()) return empty.pp * empty.vpp;
  std::vector<int64_t> held(static_cast<size_t>(empty.pp));
  for (size_t s = 0; s < costs.by_stage.size(); ++s)
    held[empty.rank_of_stage[s]] +=
        std::max(costs.by_stage[s].after_forward, costs.by_stage[s].after_input);
  const int64_t most = *std::max_element(held.begin(), held.end());
  if (most > std::numeric_limits<int64_t>::max() / 4 / empty.pp)
    usage_error("E004", "what the stages of --stages hold is beyond what can be counted",
                "write it in a larger unit");
  return most * empty.pp;
}

// An activation of a chunk counts 1 from its forward to its weight gradient.
SynthesisProblem problem_of(const ScheduleArguments& a, const ScheduleCosts& costs) {
  if (a.pp.empty() || a.microbatches.empty())
    usage_error("E003", "synth needs --pp and --microbatches",
                "for example: --pp 4 --microbatches 8 --costs 10,12,7,1");
  ScheduleParams params;
  params.pp = parse_count("--pp", a.pp, 1);
  params.vpp = !a.vpp.empty() ? parse_count("--vpp", a.vpp, 1) : a.placement == "v" ? 2 : 1;
  params.microbatches = parse_count("--microbatches", a.microbatches, 1);
  require_few_actions(params);
  const Schedule empty = placed(a, params);
  require_stages(empty.rank_of_stage.size(), costs);
  const int64_t limit = a.memory_limit.empty() ? default_limit(empty, costs)
                                               : parse_count("--memory-limit", a.memory_limit, 1);
  SynthesisProblem problem;
  problem.costs = level_costs(params.pp, params.microbatches, empty.rank_of_stage,
                              times_of(costs.forward, costs.backward_input, costs.backward_weight),
                              {.forward = 1, .backward_input = 0, .backward_weight = -1},
                              Time{costs.hop}, limit);
  for (size_t s = 0; s < costs.by_stage.size(); ++s) {
    const StageCosts& stage = costs.by_stage[s];
    problem.costs.times[s] = times_of(stage.forward, stage.backward_input, stage.backward_weight);
    problem.costs.times[s].backward = Time{stage.backward};
    problem.costs.memory[s] = {.forward = stage.after_forward,
                               .backward_input = stage.after_input - stage.after_forward,
                               .backward_weight = -stage.after_input};
  }
  if (!a.effort.empty()) problem.effort = parse_count("--effort", a.effort, 1);
  require_countable(empty, costs);
  return problem;
}

std::string answer_json(const ChosenSchedule& chosen, const Synthesis& s,
                        const ScheduleTiming& timing, const ScheduleCosts& costs) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    write_times(json, timing, costs);
    write_time(json, "lower_bound", s.lower_bound, costs);
    json.member("gap", s.gap);
    json.member("start", s.start);
    write_time(json, "start_makespan", s.start_time, costs);
    json.member("orders_tried", s.orders_tried);
    size_t rank = 0;
    json.objects("ranks", timing.ranks, [&](const RankTiming& t) {
      json.member("peak_in_flight", t.peak_in_flight);
      json.member("actions", to_text(chosen.schedule.ranks[rank++]));
    });
  });
}

std::string answer_text(const ChosenSchedule& chosen, const Synthesis& s,
                        const ScheduleTiming& timing, const ScheduleCosts& costs, int width) {
  const auto time = [&](Time t) { return exact_decimal(t.count(), costs.per_unit); };
  std::vector<std::string> facts = facts_of(timing, costs);
  int64_t peak = 0;
  for (const RankTiming& rank : timing.ranks) peak = std::max(peak, rank.peak_in_flight);
  facts.push_back("lower bound " + time(s.lower_bound) + ", gap " + percent(s.gap));
  facts.push_back("in flight at most " + std::to_string(peak));
  facts.push_back("begun with " + s.start + ", makespan " + time(s.start_time));
  return wrap(chosen.title + ": " + sizes_of(chosen.schedule), "", width) + flow(facts, width);
}

}  // namespace

int schedule_synth_command(const Arguments& args, const Terminal& terminal) {
  const ScheduleArguments& a = args.schedule;
  const ScheduleCosts costs = parse_costs(a.costs, "", read_stages(a));
  const SynthesisProblem problem = problem_of(a, costs);
  if (const auto wrong = check_synthesis(problem)) usage_error("E205", wrong->message);
  const Synthesis synthesis = synthesize(problem);
  const ChosenSchedule chosen{synthesis.schedule, "auto", {}};
  const ScheduleTiming timing = time_schedule(chosen.schedule, costs, P2pStyle::async);
  if (!args.output.empty()) deliver(write_schedule_csv(chosen.schedule), args.output, args.force);
  if (args.output == "-") return 0;
  write_stdout(args.json ? answer_json(chosen, synthesis, timing, costs)
                         : answer_text(chosen, synthesis, timing, costs, terminal.out.width));
  return 0;
}

}  // namespace stepcast::cli
