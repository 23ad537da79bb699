// SPDX-License-Identifier: Apache-2.0
// Schedules that are made for what the stages cost.
//
// `schedule: auto` on four ranks with eight microbatches, say, goes like this:
//
// 1. Probe.  One microbatch is lowered, priced and run (stage_costs.h): what F, B, I and W of each
//    stage take and hold, what a hop takes, and what each rank has left for activations.
// 2. Candidates.  Every family that has a list for these sizes with the placement of the stages
//    makes one: 1f1b, zb-h1, eager-1f1b, ...  The synthesis finds one more (synthesis.h): the best
//    order by the costs of the probe.  Where nobody has chosen between a loop and a V of two chunks
//    a rank, both placements are tried.
// 3. Evaluation.  The probe knows no collectives that hide behind other work and no gradient
//    reduction.  So every candidate is lowered, priced and run as the whole step (step.h), and
//    candidates are ordered by what that takes: fastest first, then least memory.
// 4. Memory.  The first that fits is taken.  If a synthesized order is faster and only just beyond
//    the memory, it is made again for that much less, twice at most.  If a synthesized order wins,
//    the least memory is sought with which it takes no more than one in a thousand longer.
#include "scenarios/forecast/make_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "scenarios/forecast/stage_costs.h"
#include "scenarios/forecast/step.h"
#include "scenarios/pricing_table.h"
#include "schedules/families/families.h"
#include "schedules/lower/vocabulary.h"
#include "schedules/schedule.h"
#include "schedules/synthesis/synthesis.h"
#include "schedules/transfers/transfers.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

InputError cannot_make(const Scenario& s, const std::string& sentence) {
  return file_error("E205", "schedule '" + s.to_make->family + "': " + sentence, s.file);
}

template <class Of>
int64_t mean_of(size_t count, Of of) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(of(i));
  return count == 0 ? 0 : static_cast<int64_t>(sum / static_cast<double>(count));
}

// The stages' mean costs, as the parameters of a family: nanoseconds and bytes.
std::map<std::string, std::string, std::less<>> mean_params(const PipelineCosts& c) {
  const auto time = [&](Time StageTimes::*field) {
    return mean_of(c.times.size(), [&](size_t s) { return (c.times[s].*field).count() / 1000; });
  };
  const auto bytes = [&](int64_t StageMemory::*field) {
    return mean_of(c.memory.size(), [&](size_t s) { return c.memory[s].*field; });
  };
  const int64_t hop = mean_of(c.hops.size(), [&](size_t s) { return c.hops[s].count() / 1000; });
  const int64_t at_f = bytes(&StageMemory::forward);
  const int64_t at_i = std::min<int64_t>(0, bytes(&StageMemory::backward_input));
  const auto str = [](int64_t n) { return std::to_string(n); };
  return {{"tF", str(time(&StageTimes::forward))},
          {"tB_input", str(time(&StageTimes::backward_input))},
          {"tW", str(time(&StageTimes::backward_weight))},
          {"tComm", str(hop)},
          {"mem_F", str(at_f)},
          {"mem_B", str(at_i)},
          {"mem_W", str(-at_f - at_i)}};
}

bool has_parameter(const ScheduleFamily& family, std::string_view key) {
  return std::any_of(family.parameters.begin(), family.parameters.end(),
                     [&](const ScheduleParameter& p) { return p.key == key; });
}

MadeSchedule make_family(const Scenario& scenario, const PipelineCosts& costs, MadeLists* lists) {
  const ScheduleFamily* family = find_schedule_family(scenario.to_make->family);
  STEPCAST_CHECK(family != nullptr, "the scenario was resolved with this family");
  ScheduleParams params = scenario.to_make->params;
  for (const auto& [key, value] : mean_params(costs)) {
    if (has_parameter(*family, key)) params.more.try_emplace(key, value);
  }
  if (const auto wrong = check_params(*family, params)) throw cannot_make(scenario, wrong->message);
  return {lists != nullptr ? lists->of(*family, params) : generate_schedule(*family, params),
          std::nullopt,
          {}};
}

// The families that have a list for these sizes with this placement, each with its own name, in the
// order of schedule_families(); `prices` are parameters by key, taken by those that know them. Left
// out: two replicas of the model, microbatches in pieces (other actions than the scenario's), and
// families that search for long on their own.
std::vector<Schedule> families_with(const ScheduleParams& sizes,
                                    const std::vector<uint16_t>& rank_of_stage,
                                    const std::map<std::string, std::string, std::less<>>& prices) {
  std::vector<Schedule> found;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.order_by == OrderBy::search) continue;
    ScheduleParams params{sizes.pp, sizes.vpp, sizes.microbatches, 0, {}};
    for (const auto& [key, value] : prices)
      if (has_parameter(family, key)) params.more[key] = value;
    const auto suits = [&](const Schedule& s) {
      // A shared vocabulary is another layout, with stages of other costs.
      return s.rank_of_stage == rank_of_stage && !s.is_bidirectional() && s.seq_splits == 1 &&
             vocabulary_split(s) == VocabularySplit::none;
    };
    // Cost-driven families take time to generate, so the placement is checked first.
    ScheduleParams one = params;
    one.microbatches = 1;
    if (family.order_by == OrderBy::times &&
        (check_params(family, one) || !suits(generate_schedule(family, one))))
      continue;
    if (check_params(family, params)) continue;  // not for these sizes
    Schedule schedule = generate_schedule(family, params);
    if (suits(schedule)) found.push_back(std::move(schedule));
  }
  return found;
}

// What 1F1B holds, for ranks that have less: the least that a pipeline can run with at full speed.
void raise_to_1f1b(PipelineCosts& costs) {
  const auto pp = static_cast<size_t>(costs.pp);
  std::vector<int64_t> chunk(pp), chunks(pp);
  for (size_t s = 0; s < costs.rank_of_stage.size(); ++s) {
    const size_t r = costs.rank_of_stage[s];
    const StageMemory& m = costs.memory[s];
    chunk[r] = std::max({chunk[r], m.forward, m.forward + m.backward_input});
    ++chunks[r];
  }
  for (size_t r = 0; r < pp; ++r) {
    const int64_t in_flight = chunks[r] == 1 ? costs.pp - static_cast<int64_t>(r)
                                             : 2 * (costs.pp - 1) + (chunks[r] - 1) * costs.pp + 1;
    costs.memory_limit[r] = std::max(costs.memory_limit[r], in_flight * chunk[r]);
  }
}

// What one microbatch alone holds on the rank that has least room for it.
std::string least_memory(const PipelineCosts& costs) {
  PipelineCosts one = costs;
  one.microbatches = 1;
  const Schedule schedule = all_forwards_then_backwards(costs.rank_of_stage, costs.pp, 1, true);
  const std::vector<int64_t> peak = peak_memory(one, schedule.ranks);
  size_t worst = 0;
  for (size_t r = 1; r < peak.size(); ++r)
    if (peak[r] - costs.memory_limit[r] > peak[worst] - costs.memory_limit[worst]) worst = r;
  const auto mebibytes = [](int64_t b) { return fmt::format("{}MiB", (b + (1 << 20) - 1) >> 20); };
  return fmt::format("one microbatch holds {} of activations on stage {}, which may have {}",
                     mebibytes(peak[worst]), worst, mebibytes(costs.memory_limit[worst]));
}

// One placement of the stages, and the problem of finding an order for it.
struct PlacedProblem {
  Scenario scenario;
  SynthesisProblem problem;
};

// The placement of the scenario, and, where nobody has chosen between loop and V, the other one.
std::vector<PlacedProblem> placed_problems(const Scenario& scenario, const CostTable* table) {
  const ScheduleToMake& make = *scenario.to_make;
  std::vector<PlacedProblem> placed;
  placed.push_back({scenario, {}});
  if (make.v_placement && make.params.vpp == 2 && !make.params.more.contains("placement")) {
    Scenario& other = placed.emplace_back(placed.front()).scenario;
    other.to_make->v_placement = false;
    other.schedule = all_forwards_then_backwards(loop_schedule("auto", make.params).rank_of_stage,
                                                 make.params.pp, make.params.microbatches);
  }
  for (PlacedProblem& p : placed) {
    p.problem.costs = stage_costs(p.scenario, table);
    if (make.split_backward == true)
      for (StageTimes& t : p.problem.costs.times) t.backward = Time{0};
    p.problem.split_backward = make.split_backward.value_or(true);
    p.problem.objective =
        scenario.post_validation ? SynthesisObjective::span : SynthesisObjective::makespan;
    p.problem.effort = make.effort;
    p.problem.seed = make.seed;
    if (make.memory_limit.value > 0)
      p.problem.costs.memory_limit.assign(static_cast<size_t>(make.params.pp),
                                          make.memory_limit.value);
  }
  return placed;
}

// How many bytes the step with this schedule needs beyond the memory; 0 or less if it fits.
Bytes beyond_memory(const Scenario& scenario, const Schedule& schedule) {
  return memory_of(lower_step(scenario, schedule)).reserved - usable_memory(scenario);
}

// Whether a is better than b: faster, or as fast with less memory.
bool better(const StepOutcome& a, const StepOutcome& b) {
  return std::pair{a.time, a.peak} < std::pair{b.time, b.peak};
}

// A schedule that is compared with the others in whole steps.
struct Candidate {
  Schedule schedule;
  StepOutcome outcome;
  size_t placed = 0;
  std::optional<SynthesisFacts> facts;  // of an order made to measure
  std::vector<int64_t> peak;            // likewise: what its ranks hold
};

bool has_only(const Schedule& schedule, bool split_backward) {
  for (const auto& list : schedule.ranks)
    for (const Action& a : list)
      if (a.kind == (split_backward ? ActionKind::backward : ActionKind::backward_weight))
        return false;
  return true;
}

bool has_pairs(const Schedule& schedule) {
  for (const auto& list : schedule.ranks)
    for (const Action& a : list)
      if (a.overlaps_next) return true;
  return false;
}

// Whether parallel.vpp: 2 alone would do in place of one chunk a rank.
bool could_have_chunks(const Scenario& s) {
  const int64_t stages = 2 * s.plan.pp;
  if (s.plan.vpp > 1 || s.plan.pp == 1 || stages > s.model.layers) return false;
  const auto value = [&](std::string_view path) -> std::string_view {
    for (const Setting& setting : s.settings)
      if (setting.path == path) return setting.value;
    return {};
  };
  if (!value("parallel.layout").empty()) return false;
  return s.model.layers % stages == 0 || value("parallel.split") == "products";
}

class ScheduleSearch {
 public:
  ScheduleSearch(const Scenario& scenario, const CostTable* table)
      : scenario_(scenario), table_(table), placed_(placed_problems(scenario, table)) {}

  MadeSchedule run() {
    for (size_t i = 0; i < placed_.size(); ++i) {
      add_families(i);
      add_synthesis(i);
    }
    const bool enough_room = made_.warnings.empty();
    if (candidates_.empty() && !no_order_.empty()) throw cannot_make(scenario_, no_order_);
    if (candidates_.empty()) return unrunnable();
    size_t best = first_that_fits();
    // Allocators leave gaps: an order made for all of the memory may be just beyond it, and is made
    // again for less.
    constexpr int kMostAttempts = 2;
    for (int i = 0; i < kMostAttempts && enough_room && best > 0 && limits_are_ours(); ++i) {
      const Candidate& beyond = candidates_.front();
      if (!beyond.facts) break;
      const size_t placed = beyond.placed;
      const Bytes more = beyond_memory(placed_[placed].scenario, beyond.schedule);
      const Gpu& gpu = scenario_.cluster.node.gpu;
      for (int64_t& limit : placed_[placed].problem.costs.memory_limit)
        limit = std::max<int64_t>(0, limit - more.value - gpu.memory.value / 200);
      add_synthesis(placed);
      best = first_that_fits();
    }
    if (enough_room && limits_are_ours() && best < candidates_.size() && candidates_[best].facts)
      save_memory(best);
    return outcome(best < candidates_.size() ? best : first_made());
  }

 private:
  bool limits_are_ours() const { return scenario_.to_make->memory_limit.value == 0; }

  // What the whole step takes with the schedule; nothing if it cannot be run: its transfers do not
  // go with the scenario's style, or it deadlocks with them.
  std::optional<StepOutcome> outcome_of(size_t placed, const Schedule& schedule) const {
    const Scenario& scenario = placed_[placed].scenario;
    if (check_transfers(schedule, scenario.p2p)) return {};
    return evaluate(price_step(lower_step(scenario, schedule), table_));
  }

  void add(Candidate candidate) {
    const auto outcome = outcome_of(candidate.placed, candidate.schedule);
    if (!outcome) return;
    candidate.outcome = *outcome;
    const auto at = std::find_if(
        candidates_.begin(), candidates_.end(),
        [&](const Candidate& other) { return better(candidate.outcome, other.outcome); });
    candidates_.insert(at, std::move(candidate));
  }

  void add_families(size_t placed) {
    const ScheduleToMake& make = *scenario_.to_make;
    const PipelineCosts& costs = placed_[placed].problem.costs;
    for (Schedule& s : families_with(make.params, costs.rank_of_stage, mean_params(costs))) {
      if (make.split_backward && !has_only(s, *make.split_backward)) continue;
      if (!limits_are_ours() && !fits_memory(costs, s.ranks)) continue;
      add({std::move(s), {}, placed, std::nullopt, {}});
    }
  }
  // Where the limits leave no room for any order they become what 1F1B would hold, unless the user
  // has set them: then another placement may do.
  void add_synthesis(size_t placed) {
    SynthesisProblem& problem = placed_[placed].problem;
    // Sizes and times are those of the probe, so what is wrong is the memory.
    if (check_synthesis(problem)) {
      const std::string why = "no order fits: " + least_memory(problem.costs);
      if (!limits_are_ours()) {
        no_order_ = why;
        return;
      }
      made_.warnings = {"schedule auto: " + why + "; the order takes what 1F1B would hold"};
      raise_to_1f1b(problem.costs);
      if (const auto wrong = check_synthesis(problem)) throw cannot_make(scenario_, wrong->message);
    }
    no_order_.clear();
    Synthesis found = synthesize(problem);
    bound_ = std::min(bound_, found.lower_bound);
    tried_ += found.orders_tried;
    add_made(placed, std::move(found));
  }
  void add_made(size_t placed, Synthesis found) {
    last_made_ = found.schedule;
    add(candidate_of(placed, std::move(found)));
  }
  Candidate candidate_of(size_t placed, Synthesis found) const {
    const Time time = cost_of(scenario_, found);
    SynthesisFacts facts;
    facts.objective = time;
    facts.start = found.start;
    facts.start_time = found.start_time;
    facts.winner = kMadeToMeasure;
    return {std::move(found.schedule), {}, placed, std::move(facts), std::move(found.peak_memory)};
  }

  // The index of the best; candidates_.size() if none fits.
  size_t first_that_fits() const {
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (beyond_memory(placed_[candidates_[i].placed].scenario, candidates_[i].schedule) <=
          Bytes{})
        return i;
    return candidates_.size();
  }

  // The best of the candidates that were made to need little memory, for when nothing fits.
  size_t first_made() const {
    const auto at = std::find_if(candidates_.begin(), candidates_.end(),
                                 [](const Candidate& e) { return e.facts.has_value(); });
    return at == candidates_.end() ? 0 : static_cast<size_t>(at - candidates_.begin());
  }

  // An order may need less memory than it was given: the least is sought with which the step stays
  // within one in a thousand, and no longer than with any family.
  void save_memory(size_t& best) {
    constexpr int kMostSteps = 4;
    constexpr int64_t kEffort = 2000;
    Time most = candidates_[best].outcome.time + candidates_[best].outcome.time / 1000;
    for (size_t i = best; i < candidates_.size(); ++i)
      if (!candidates_[i].facts) most = std::min(most, candidates_[i].outcome.time);
    const size_t placed = candidates_[best].placed;
    SynthesisProblem problem = placed_[placed].problem;
    problem.effort = problem.effort > 0 ? std::min(problem.effort, kEffort) : kEffort;
    std::vector<int64_t> low(candidates_[best].peak.size()), high = candidates_[best].peak;
    for (int step = 0; step < kMostSteps; ++step) {
      for (size_t r = 0; r < low.size(); ++r)
        problem.costs.memory_limit[r] = low[r] + (high[r] - low[r]) / 2;
      const std::optional<Candidate> next = made_with(placed, problem);
      if (next && next->outcome.time <= most &&
          next->outcome.peak < candidates_[best].outcome.peak) {
        high = next->peak;
        candidates_[best] = *next;
      } else {
        low = problem.costs.memory_limit;
      }
    }
  }
  std::optional<Candidate> made_with(size_t placed, const SynthesisProblem& problem) const {
    if (check_synthesis(problem)) return {};  // that little is not enough for any order
    Candidate candidate = candidate_of(placed, synthesize(problem));
    const auto outcome = outcome_of(placed, candidate.schedule);
    if (!outcome) return {};
    candidate.outcome = *outcome;
    return candidate;
  }

  // No schedule goes with the scenario's transfers: the forecast says why.
  MadeSchedule unrunnable() {
    made_.schedule = std::move(last_made_);
    return std::move(made_);
  }

  MadeSchedule outcome(size_t best) {
    Candidate& candidate = candidates_[best];
    const Time objective = pipeline_time(candidate);
    SynthesisFacts facts;
    if (candidate.facts) facts = *candidate.facts;
    if (!candidate.facts) {
      facts.start = facts.winner = candidate.schedule.name;
      facts.objective = facts.start_time = objective;
    }
    facts.orders_tried = tried_;
    facts.could_have_chunks = could_have_chunks(scenario_);
    if (bound_holds(best)) {
      facts.lower_bound = bound_;
      facts.gap = static_cast<double>((facts.objective - bound_).count()) /
                  static_cast<double>(std::max<int64_t>(1, bound_.count()));
    }
    made_.synthesis = std::move(facts);
    made_.schedule = std::move(candidate.schedule);
    made_.schedule.name = "auto";
    return std::move(made_);
  }
  // The bound adds up passes by themselves.  Pairs that overlap hide communication that it counts,
  // and a host that is slower than its device launches the next pass while the last of this one's
  // kernels run.
  bool bound_holds(size_t best) const {
    return !has_pairs(candidates_[best].schedule) &&
           std::ranges::none_of(candidates_,
                                [this](const Candidate& c) { return c.outcome.time < bound_; });
  }
  Time pipeline_time(const Candidate& candidate) const {
    const auto times =
        time_order(placed_[candidate.placed].problem.costs, candidate.schedule.ranks);
    if (!times) return Time{};
    return cost_of(scenario_, *times);
  }

  const Scenario& scenario_;
  const CostTable* table_;
  std::vector<PlacedProblem> placed_;
  std::vector<Candidate> candidates_;  // best first
  MadeSchedule made_;
  Schedule last_made_;
  std::string no_order_;  // why the memory that the user allows is not enough for any order
  Time bound_ = Time::max();
  int64_t tried_ = 0;
};

}  // namespace

Schedule MadeLists::of(const ScheduleFamily& family, const ScheduleParams& params) {
  constexpr size_t kMostKept = 500'000;  // 6 MB
  const Key key{family.name, params.pp, params.vpp, params.microbatches, params.group, params.more};
  if (const auto at = kept_.find(key); at != kept_.end()) return at->second;
  Schedule made = generate_schedule(family, params);
  for (const auto& list : made.ranks) actions_ += list.size();
  if (actions_ > kMostKept) {
    kept_.clear();
    actions_ = 0;
  } else {
    kept_.emplace(key, made);
  }
  return made;
}

MadeSchedule make_schedule(const Scenario& scenario, const CostTable* table, MadeLists* lists) {
  STEPCAST_CHECK(scenario.to_make, "the schedule is there already");
  if (scenario.to_make->family == "auto") return ScheduleSearch(scenario, table).run();
  return make_family(scenario, stage_costs(scenario, table), lists);
}

Schedule schedule_of(const Scenario& scenario) {
  if (!scenario.to_make) return scenario.schedule;
  return make_schedule(scenario, pricing_table(scenario).table).schedule;
}

}  // namespace stepcast
