// SPDX-License-Identifier: Apache-2.0
// How the search spends its effort, counted in orders that are timed.
//
//   1. One microbatch after the other through the pipeline: slow, but it holds least.  If that does
//      not fit the memory, nothing does, and check_synthesis() has said so.
//   2. Every fixed family with this placement, as it is and with its backwards split or joined:
//      some twenty orders.
//   3. Half of what is left for list schedules (list_scheduling.h), each of which counts as ten
//      orders: plain rules first, then drawn ones, then variations of the best.
//   4. The rest for local search (local_search.h): a sixth of what is left from each of the four
//      best so far, and then from the best of all.
//
// For example, 4 ranks with a stage each and 64 microbatches make 768 actions, for which the
// default effort is 40,000 orders: some 20 for the families, 2,000 list schedules, and 20,000 tries
// of the local search.
//
// It ends early when the lower bound is reached.

#include "schedules/synthesis/synthesis.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/check.h"
#include "schedules/synthesis/list_scheduling.h"
#include "schedules/synthesis/local_search.h"
#include "schedules/synthesis/order_timing.h"
#include "sim/check.h"
#include "sim/random.h"

namespace stepcast {
namespace {

// About what a second allows: actions of all orders, and orders at most.
constexpr int64_t kActionsByDefault = 80'000'000;
constexpr int64_t kMostOrders = 40'000;
constexpr int64_t kFewestOrders = 100;
constexpr int64_t kListCost = 10;  // tries of the local search that one list schedule stands for

struct Candidate {
  Order order;
  OrderTimes times;
  std::string name;
};

struct RuledCandidate {
  ListRules rules;
  std::pair<Time, Time> times;
};

int64_t actions_of(const SynthesisProblem& problem) {
  return problem.costs.microbatches * static_cast<int64_t>(problem.costs.rank_of_stage.size()) *
         (problem.split_backward ? 3 : 2);
}

// The order that holds least: one microbatch after the other through each rank, every weight
// gradient at once.
Order one_at_a_time(const PipelineCosts& c, bool split_backward) {
  std::vector<std::vector<size_t>> stages(static_cast<size_t>(c.pp));
  for (size_t s = 0; s < c.rank_of_stage.size(); ++s) stages[c.rank_of_stage[s]].push_back(s);
  Order order(stages.size());
  for (size_t r = 0; r < stages.size(); ++r)
    for (int64_t m = 0; m < c.microbatches; ++m) {
      for (const size_t s : stages[r]) order[r].push_back(forward_of(static_cast<int64_t>(s), m));
      for (size_t k = stages[r].size(); k-- > 0;) {
        Action a = backward_of(static_cast<int64_t>(stages[r][k]), m);
        if (split_backward) {
          a.kind = ActionKind::backward_input;
          order[r].push_back(a);
          a.kind = ActionKind::backward_weight;
        }
        order[r].push_back(a);
      }
    }
  return order;
}

std::string stage_refusal(const PipelineCosts& c, size_t s) {
  if (c.rank_of_stage[s] >= c.pp) return " is on a rank that does not exist";
  const StageTimes& t = c.times[s];
  if (std::min({t.forward, t.backward_input, t.backward_weight}) < Time{0})
    return " has a negative time";
  const StageMemory& m = c.memory[s];
  if (m.forward < 0 || m.forward + m.backward_input + m.backward_weight != 0 ||
      m.backward_weight > 0)
    return fmt::format(
        ": what the forward adds to memory ({}) must be what the input gradient ({}) "
        "and the weight gradient ({}) free together",
        m.forward, m.backward_input, m.backward_weight);
  if (s > 0 && c.hops[s - 1] < Time{0}) return ": a hop takes negative time";
  return {};
}

// Why the sizes, times or memory of the problem make no sense; empty if they do.
std::string size_refusal(const SynthesisProblem& problem) {
  const PipelineCosts& c = problem.costs;
  const size_t stages = c.rank_of_stage.size();
  if (c.pp < 1 || c.microbatches < 1 || stages < 1)
    return "a pipeline needs at least one rank, one stage and one microbatch";
  if (c.times.size() != stages || c.memory.size() != stages || c.hops.size() != stages - 1)
    return fmt::format("times, memory and hops must be given for each of the {} stages", stages);
  if (!c.memory_limit.empty() && c.memory_limit.size() != static_cast<size_t>(c.pp))
    return fmt::format("a memory limit must be given for each of the {} ranks", c.pp);
  const int64_t most = most_microbatches(static_cast<int64_t>(stages));
  if (c.microbatches > most)
    return fmt::format("{} microbatches in {} stages: at most {} are possible", c.microbatches,
                       stages, most);
  const int64_t actions = actions_of(problem);
  if (problem.effort < 0 || problem.effort > most_effort(actions))
    return fmt::format("an effort of {} orders: at most {} are possible with {} actions",
                       problem.effort, most_effort(actions), actions);
  for (size_t s = 0; s < stages; ++s)
    if (const std::string why = stage_refusal(c, s); !why.empty())
      return fmt::format("stage {}{}", s, why);
  return {};
}

// What one microbatch alone needs, where that is more than a rank may hold; empty if it fits.  Any
// order that holds less than one microbatch at a time is none.
std::string memory_refusal(const SynthesisProblem& problem) {
  PipelineCosts one = problem.costs;
  one.microbatches = 1;
  if (fits_memory(one, one_at_a_time(one, problem.split_backward))) return {};
  const Order whole = one_at_a_time(one, false);
  if (fits_memory(one, whole)) return {};
  const std::vector<int64_t> least = peak_memory(one, whole);
  std::string ranks;
  for (size_t r = 0; r < least.size(); ++r)
    if (least[r] > one.memory_limit[r])
      ranks += fmt::format("{}{} on rank {} (limit {})", ranks.empty() ? "" : ", ", least[r], r,
                           one.memory_limit[r]);
  return "no order of these actions fits the memory limit: one microbatch alone needs " + ranks;
}

// The same order in the actions that the problem allows, or with B split where `split`.
Order converted(const Order& order, bool split) {
  Order out(order.size());
  for (size_t r = 0; r < order.size(); ++r)
    for (Action a : order[r]) {
      a.overlaps_next = false;
      if (split && a.kind == ActionKind::backward) {
        a.kind = ActionKind::backward_input;
        out[r].push_back(a);
        a.kind = ActionKind::backward_weight;
      } else if (!split && a.kind == ActionKind::backward_input) {
        a.kind = ActionKind::backward;
      } else if (!split && a.kind == ActionKind::backward_weight) {
        continue;
      }
      out[r].push_back(a);
    }
  return out;
}

// Every input gradient that its weight gradient follows at once as a whole backward, where that
// takes less than both.
Order joined(const PipelineCosts& c, const Order& order) {
  Order out(order.size());
  for (size_t r = 0; r < order.size(); ++r)
    for (const Action& a : order[r]) {
      const StageTimes& t = c.times[a.stage];
      const bool follows = a.kind == ActionKind::backward_weight && !out[r].empty() &&
                           out[r].back().kind == ActionKind::backward_input &&
                           out[r].back().stage == a.stage &&
                           out[r].back().microbatch == a.microbatch;
      if (follows && whole_backward(t) < t.backward_input + t.backward_weight)
        out[r].back().kind = ActionKind::backward;
      else
        out[r].push_back(a);
    }
  return out;
}

class Synthesizer {
 public:
  explicit Synthesizer(const SynthesisProblem& problem)
      : problem_(problem), costs_(problem.costs), actions_(actions_of(problem)) {
    effort_ = problem.effort > 0
                  ? problem.effort
                  : std::clamp(kActionsByDefault / actions_, kFewestOrders, kMostOrders);
    bounds_ = schedule_bounds(costs_, problem.split_backward);
    const auto pays = [](const StageTimes& t) {
      return whole_backward(t) < t.backward_input + t.backward_weight;
    };
    mixes_ = problem.split_backward && std::any_of(costs_.times.begin(), costs_.times.end(), pays);
    bound_ = key(bounds_).first;
  }

  Synthesis run() {
    begin();
    add_fixed_families();
    add_list_schedules();
    improve();
    return outcome();
  }

 private:
  std::pair<Time, Time> key(const OrderTimes& t) const {
    return problem_.objective == SynthesisObjective::span ? std::pair{t.span, t.makespan}
                                                          : std::pair{t.makespan, t.span};
  }
  bool done() const { return key(starts_.front().times).first <= bound_ || tried_ >= effort_; }

  bool at_bounds(const OrderTimes& t) const {
    return t.makespan <= bounds_.makespan && t.span <= bounds_.span;
  }

  void begin() {
    Order order = one_at_a_time(costs_, problem_.split_backward);
    // An input gradient may add memory, which a whole backward frees again at once.
    if (!fits_memory(costs_, order)) order = one_at_a_time(costs_, false);
    const std::optional<OrderTimes> times = time_order(costs_, order);
    STEPCAST_CHECK(times.has_value(), "one microbatch after the other gets stuck");
    starts_.push_back({std::move(order), *times, "one microbatch after the other"});
  }
  // Keeps the four best, the best of them first.
  bool add(Order order, const OrderTimes& times, std::string name) {
    constexpr size_t kMost = 4;
    const auto worse = [&](const Candidate& c) { return key(times) < key(c.times); };
    const auto same = [&](const Candidate& c) { return key(times) == key(c.times); };
    if (std::any_of(starts_.begin(), starts_.end(), same)) return false;
    const auto at = std::find_if(starts_.begin(), starts_.end(), worse);
    if (at == starts_.end() && starts_.size() >= kMost) return false;
    starts_.insert(at, {std::move(order), times, std::move(name)});
    if (starts_.size() > kMost) starts_.pop_back();
    return true;
  }

  void add_fixed_families() {
    std::vector<int64_t> stages(static_cast<size_t>(costs_.pp), 0);
    for (const uint16_t r : costs_.rank_of_stage) ++stages[r];
    const int64_t vpp = *std::max_element(stages.begin(), stages.end());
    for (const ScheduleFamily& family : schedule_families()) {
      if (family.order_by != OrderBy::rule) continue;
      add_family(family, {costs_.pp, vpp, costs_.microbatches, 0});
      if (family.name != "interleaved-1f1b" || vpp == 1) continue;
      for (const int64_t group : {2 * costs_.pp, costs_.microbatches})
        add_family(family, {costs_.pp, vpp, costs_.microbatches, group});
    }
  }
  void add_family(const ScheduleFamily& family, const ScheduleParams& params) {
    if (check_params(family, params)) return;  // not for these sizes
    Schedule schedule = family.generate(params);
    if (schedule.rank_of_stage != costs_.rank_of_stage || schedule.is_bidirectional() ||
        schedule.seq_splits != 1)
      return;
    for (const auto& list : schedule.ranks)
      for (const Action& a : list)
        if (a.kind > ActionKind::backward_weight) return;
    Order order = converted(schedule.ranks, problem_.split_backward);
    if (mixes_) add_timed(converted(schedule.ranks, false), schedule.name);
    if (problem_.split_backward && (mixes_ || !fits_memory(costs_, order)))
      add_timed(std::move(schedule.ranks), schedule.name);
    add_timed(std::move(order), schedule.name);
  }
  void add_timed(Order order, const std::string& name) {
    ++tried_;
    if (mixes_) order = joined(costs_, order);
    if (!fits_memory(costs_, order)) return;
    if (const auto times = time_order(costs_, order)) add(std::move(order), *times, name);
  }

  // --- list schedules ---
  void add_list_schedules() {
    const std::vector<int64_t> entry = memory_to_enter(costs_, problem_.split_backward);
    for (size_t s = 0; s < entry.size(); ++s)
      if (!costs_.memory_limit.empty() && entry[s] > costs_.memory_limit[costs_.rank_of_stage[s]])
        return;
    const RulesToTry rules(costs_, problem_.split_backward, mixes_);
    const int64_t begin = tried_, share = (effort_ - tried_) / 4;
    CountedRandom random(problem_.seed);
    for (size_t i = 0; !done() && tried_ < begin + share; ++i)
      try_rules(i < rules.plain_count() ? rules.plain(i) : rules.drawn(random));
    while (!done() && tried_ < begin + 2 * share)
      try_rules(rules.varied(best_rules_.rules, random));
  }
  bool try_rules(const ListRules& rules) {
    tried_ += kListCost;
    Order order = list_schedule(costs_, rules);
    if (mixes_) order = joined(costs_, order);
    const std::optional<OrderTimes> times = time_order(costs_, order);
    STEPCAST_CHECK(times.has_value(), "a list schedule gets stuck");
    const std::pair<Time, Time> length = key(*times);
    const bool best = best_rules_.rules.ranks.empty() || length <= best_rules_.times;
    if (best) best_rules_ = {rules, length};
    add(std::move(order), *times, "list schedule");
    return best;
  }

  // --- local search ---
  void improve() {
    const std::vector<Candidate> starts = starts_;
    best_ = starts.front();
    start_ = {best_.name, key(best_.times).first};
    for (size_t i = 0; i < starts.size() && !reached(); ++i)
      search(starts[i], std::max<int64_t>(1, (effort_ - tried_) / 6));
    while (!reached() && tried_ < effort_) search(best_, (effort_ - tried_ + 1) / 2 + 1);
  }
  bool reached() const { return at_bounds(best_.times); }
  void search(const Candidate& from, int64_t tries) {
    if (tries <= 0 || tried_ >= effort_) return;
    SearchGoal goal;
    goal.split_backward = problem_.split_backward;
    goal.span_first = problem_.objective == SynthesisObjective::span;
    goal.good_enough = bounds_;
    goal.tries = tries;
    goal.seed = problem_.seed + static_cast<uint64_t>(++searches_);
    const std::string name = from.name;
    const Time length = key(from.times).first;
    SearchOutcome found = improve_order(costs_, from.order, goal);
    tried_ += std::max<int64_t>(found.tries, 1);
    if (key(found.times) < key(best_.times)) {
      if (&from != &best_) start_ = {name, length};
      best_ = {std::move(found.order), found.times, name};
    }
  }

  Synthesis outcome() {
    Synthesis result;
    Schedule& schedule = result.schedule;
    schedule.name = "auto";
    schedule.pp = costs_.pp;
    schedule.microbatches = costs_.microbatches;
    schedule.rank_of_stage = costs_.rank_of_stage;
    std::vector<int64_t> stages(static_cast<size_t>(costs_.pp), 0);
    for (const uint16_t r : costs_.rank_of_stage) ++stages[r];
    schedule.vpp = *std::max_element(stages.begin(), stages.end());
    result.peak_memory = peak_memory(costs_, best_.order);
    schedule.ranks = std::move(best_.order);
    result.makespan = best_.times.makespan;
    result.span = best_.times.span;
    result.lower_bound = bound_;
    const Time reached = key(best_.times).first;
    result.gap = bound_ > Time{0} ? to_seconds(reached) / to_seconds(bound_) - 1 : 0;
    result.start = start_.first;
    result.start_time = start_.second;
    result.orders_tried = tried_;
    return result;
  }

  const SynthesisProblem& problem_;
  const PipelineCosts& costs_;
  bool mixes_ = false;  // B split and whole: some stage's whole backward takes less than I and W
  int64_t actions_ = 0;
  int64_t effort_ = 0;
  int64_t tried_ = 0;
  int64_t searches_ = 0;
  OrderTimes bounds_;
  Time bound_{};                   // of the objective
  std::vector<Candidate> starts_;  // best first
  RuledCandidate best_rules_;
  Candidate best_;
  std::pair<std::string, Time> start_;
};

}  // namespace

std::optional<Diagnostic> check_synthesis(const SynthesisProblem& problem) {
  std::string why = size_refusal(problem);
  if (why.empty()) why = memory_refusal(problem);
  if (why.empty()) return {};
  return refusal(std::move(why));
}

Synthesis synthesize(const SynthesisProblem& problem) {
  if (auto wrong = check_synthesis(problem)) throw InputError(*std::move(wrong));
  return Synthesizer(problem).run();
}

}  // namespace stepcast
