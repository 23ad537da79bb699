// SPDX-License-Identifier: Apache-2.0
// The bound of a step.
//
// Time: a rank runs its list on one stream, so a step takes at least what the list takes on it,
// each pass as if nothing held it up (UndisturbedPass).  Before a rank's first forward, of stage s,
// the forwards of all stages before s have run for the same microbatch, one after the other, and
// after its last backward those of all stages before s follow.  Take two ranks, F = 1, B = 2 and
// four microbatches: both take 12 on their own; the second begins no sooner than 1, and ends 2
// before the end.  No step takes less than 15.
//
// Memory: what a rank holds through the step, and the sum of what its passes allocate and free, in
// the order of the list (sim/memory/memory.cc).  What precedes and follows the list is left out.
#include "scenarios/forecast/evaluator.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "scenarios/pricing_table.h"
#include "sim/graph/program.h"
#include "sim/memory/memory.h"
#include "sim/saturating.h"

namespace stepcast {

// What bound() needs of a plan with stages in these places.
struct Evaluator::KnownPlan {
  // Of one pass: no less than it takes of the compute stream, alone and beside another pass; what
  // it leaves allocated, and how far it rises above its begin.
  struct PassBound {
    int64_t alone = 0, beside = 0;
    int64_t net = 0, rise = 0;

    PassBound least(const PassBound& o) const {
      return {std::min(alone, o.alone), std::min(beside, o.beside), std::min(net, o.net),
              std::min(rise, o.rise)};
    }
  };
  // By kind of action, the least of the versions that a stage has of its pass.
  using StageBounds = std::array<PassBound, kActionKinds>;

  Transformer model;
  Plan plan;
  std::vector<uint16_t> rank_of_stage, reverse_rank_of_stage;
  int64_t seq_splits = 1;
  PassChoice choice;
  bool countable = true;

  std::vector<StageBounds> stages;  // and, of each, every piece of a sequence
  std::vector<Bytes> held;          // by rank
};

namespace {

int64_t alone_of(const CompiledPass& pass, int64_t busy) {
  if (pass.undisturbed.slack != PassStep::kNever)
    for (const auto& [stream, end] : pass.undisturbed.ends)
      if (stream == Stream::compute) return end;
  return busy;
}

std::vector<PassId> versions_of(const StagePasses& p, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return {p.forward};
    case ActionKind::backward:
      return {p.backward, p.last_backward, p.backward_after_recompute,
              p.last_backward_after_recompute};
    case ActionKind::backward_input: return {p.input_gradient, p.input_gradient_after_recompute};
    case ActionKind::backward_weight:
      return {p.weight_gradient, p.last_weight_gradient, p.weight_gradient_after_recompute,
              p.last_weight_gradient_after_recompute};
    case ActionKind::recompute: return {p.recompute};
    default: return {};  // copies beside compute, and shares of a vocabulary: as if they were free
  }
}

// Whether each action of the schedule is one whose memory the versions of a pass agree on.
bool adds_memory_up(const Schedule& schedule, const PassChoice& choice) {
  if (choice.recompute || choice.offload) return false;
  return std::ranges::all_of(schedule.ranks, [](const std::vector<Action>& list) {
    return std::ranges::all_of(list, [](const Action& a) {
      return a.kind == ActionKind::forward || is_backward(a.kind) ||
             a.kind == ActionKind::backward_weight;
    });
  });
}

PassChoice choice_in(const Schedule& schedule) {
  PassChoice choice;
  for (const std::vector<Action>& list : schedule.ranks)
    for (const Action& a : list) {
      choice.split = choice.split || a.kind == ActionKind::backward_weight;
      choice.recompute = choice.recompute || a.kind == ActionKind::recompute;
      choice.offload = choice.offload || a.kind == ActionKind::offload;
    }
  return choice;
}

}  // namespace

Evaluator::Evaluator() = default;
Evaluator::~Evaluator() = default;

// Forgets everything where the scenario is of another cluster.  The model is a part of what passes
// are known by.
void Evaluator::begin(const Scenario& scenario) {
  const bool same = cluster_ && scenario.cluster == *cluster_ && scenario.placement == placement_ &&
                    scenario.calibration == calibration_;
  if (!same) {
    cluster_ = scenario.cluster;
    placement_ = scenario.placement;
    calibration_ = scenario.calibration;
    table_ = pricing_table(scenario).table;
    prices_ = {};
  }
  if (!same || in_situ_ != scenario.in_situ || own_runs_ != scenario.own_runs) plans_.clear();
  in_situ_ = scenario.in_situ;
  own_runs_ = scenario.own_runs;
}

std::optional<StepOutcome> Evaluator::step(const Scenario& scenario) {
  begin(scenario);
  std::optional<PricedStep> priced = price_if_possible(
      lower_step(scenario, scenario.schedule, &passes_, {.texts = false, .memory = &memory_}),
      table_, &prices_);
  if (!priced) return {};
  std::optional<StepOutcome> outcome = evaluate(*priced, Time::max(), &lone_passes_);
  memory_.take(std::move(priced->graph));
  return outcome;
}

Evaluator::Trial Evaluator::attempt(const Scenario& scenario, Bytes room, Time most) {
  begin(scenario);
  Trial trial;
  LoweredStep lowered =
      lower_step(scenario, scenario.schedule, &passes_, {.texts = false, .memory = &memory_});
  trial.peak = std::ranges::max(peak_memory(lowered.graph));
  if (trial.peak > room) {
    trial.outcome = Trial::Outcome::too_large;
    memory_.take(std::move(lowered.graph));
    return trial;
  }
  std::optional<PricedStep> priced = price_if_possible(std::move(lowered), table_, &prices_);
  std::optional<StepOutcome> step;
  try {
    if (priced) step = evaluate(*priced, most, &lone_passes_);
  } catch (const TooLongForLanes&) {  // as impossible as what cannot be priced
  }
  if (!step) return trial;
  trial.time = step->time;
  trial.outcome = Trial::Outcome::slower;
  if (trial.time <= most) {
    trial.reserved = memory_of(scenario, priced->graph).reserved;
    trial.outcome = trial.reserved > room ? Trial::Outcome::too_large : Trial::Outcome::fits;
  }
  memory_.take(std::move(priced->graph));
  return trial;
}

const Evaluator::KnownPlan* Evaluator::known_plan(const Scenario& s) {
  const PassChoice choice = choice_in(s.schedule);
  for (const KnownPlan& k : plans_)
    if (k.seq_splits == s.schedule.seq_splits && k.choice == choice && k.plan == s.plan &&
        k.rank_of_stage == s.schedule.rank_of_stage &&
        k.reverse_rank_of_stage == s.schedule.reverse_rank_of_stage && k.model == s.model)
      return &k;
  constexpr size_t kMostPlans = 16;
  if (plans_.size() == kMostPlans) plans_.pop_front();
  KnownPlan& k = plans_.emplace_back();
  k.model = s.model;
  k.plan = s.plan;
  k.rank_of_stage = s.schedule.rank_of_stage;
  k.reverse_rank_of_stage = s.schedule.reverse_rank_of_stage;
  k.seq_splits = s.schedule.seq_splits;
  k.choice = choice;
  StepParts parts = lower_parts(s.model, s.plan, s.schedule, &passes_);
  std::optional<Prices> prices = prices_of_parts(parts.graph, s, table_, prices_);
  k.countable = prices.has_value();
  if (!prices) return &k;
  const Program program = compile(parts.graph, *prices);
  k.held = std::move(parts.held);
  for (const StagePasses& passes : parts.passes) {
    KnownPlan::StageBounds& bounds = k.stages.emplace_back();
    for (size_t kind = 0; kind < bounds.size(); ++kind) {
      bool first = true;
      for (const PassId id : versions_of(passes, static_cast<ActionKind>(kind))) {
        if (id == kNoPass) continue;
        const CompiledPass& compiled = program.passes[static_cast<size_t>(id)];
        const Pass& pass = parts.graph.passes[static_cast<size_t>(id)];
        const PassBytes bytes = bytes_of(parts.graph, pass);
        const int64_t busy = compute_time(pass, *prices).count();
        const KnownPlan::PassBound own{alone_of(compiled, busy), busy, bytes.left.value,
                                       bytes.rise.value};
        bounds[kind] = std::exchange(first, false) ? own : bounds[kind].least(own);
      }
    }
  }
  return &k;
}

std::optional<StepOutcome> Evaluator::bound(const Scenario& scenario) {
  begin(scenario);
  const KnownPlan& known = *known_plan(scenario);
  if (!known.countable) return {};
  const Schedule& schedule = scenario.schedule;
  const auto splits = static_cast<size_t>(schedule.seq_splits);
  const auto of = [&](const Action& a) -> const KnownPlan::PassBound& {
    return known.stages[a.stage * splits + a.microbatch % splits][static_cast<size_t>(a.kind)];
  };
  // What the stages before one take for one microbatch, one after the other.
  std::vector<int64_t> forwards_before{0}, backwards_before{0};
  for (size_t s = 0; s * splits < known.stages.size(); ++s) {
    const KnownPlan::StageBounds& kinds = known.stages[s * splits];
    const auto at = [&](ActionKind kind) { return kinds[static_cast<size_t>(kind)].beside; };
    forwards_before.push_back(forwards_before.back() + at(ActionKind::forward));
    const int64_t whole = at(ActionKind::backward), half = at(ActionKind::backward_input);
    backwards_before.push_back(backwards_before.back() +
                               (known.choice.split ? std::min(whole, half) : whole));
  }
  const bool barrier = !scenario.post_validation && splits == 1;
  const bool sums = adds_memory_up(schedule, known.choice);
  StepOutcome out;
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::vector<Action>& list = schedule.ranks[r];
    int64_t time = 0, level = known.held[r].value, peak = level;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto& pass = of(list[i]);
      const bool paired = list[i].overlaps_next || (i > 0 && list[i - 1].overlaps_next);
      time = saturating_sum(time, paired ? pass.beside : pass.alone);
      // Within a pair both rise together, in turns.
      if (!paired) peak = std::max(peak, level + pass.rise);
      level += pass.net;
      if (!list[i].overlaps_next) peak = std::max(peak, level);
      if (!sums) peak = level = known.held[r].value;
    }
    if (barrier && !list.empty()) {
      const Action &first = list.front(), &last = list.back();
      if (first.kind == ActionKind::forward)
        time = saturating_sum(time, forwards_before[first.stage]);
      if (is_backward(last.kind)) time = saturating_sum(time, backwards_before[last.stage]);
    }
    out.time = std::max(out.time, Time{time});
    out.peak = std::max(out.peak, Bytes{peak});
  }
  return out;
}

}  // namespace stepcast
