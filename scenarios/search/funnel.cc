// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/funnel.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <variant>

#include "scenarios/forecast/device_memory.h"
#include "scenarios/forecast/step.h"
#include "scenarios/search/shard.h"
#include "scenarios/search/sweep.h"
#include "sim/for_each_item.h"

namespace stepcast {
namespace {

struct DecidedBy {
  Decided decided{};
  const char *name, *words;
  SearchRule::Kind kind = SearchRule::Kind::drops;
};
// In the order in which they are told.
constexpr std::array kDecided{
    DecidedBy{Decided::memory_bound, "memory_bound",
              "hold more than there is, by a bound in closed form"},
    DecidedBy{Decided::time_bound, "time_bound",
              "are slower than the best, by a bound in closed form"},
    DecidedBy{Decided::illegal, "illegal", "break another rule of the layout"},
    DecidedBy{Decided::plan_memory_bound, "plan_memory_bound",
              "hold more than there is, by a bound on their schedule"},
    DecidedBy{Decided::plan_time_bound, "plan_time_bound",
              "are slower than the best, by a bound on their schedule"},
    DecidedBy{Decided::constraint_bound, "constraint_bound", "break a constraint, by a bound"},
    DecidedBy{Decided::impossible, "impossible",
              "cannot run: a deadlock, or too large to simulate"},
    DecidedBy{Decided::out_of_memory, "out_of_memory", "simulated: do not fit"},
    DecidedBy{Decided::constraint, "constraint", "simulated: break a constraint"},
    DecidedBy{Decided::slower, "slower", "simulated: slower than the best"},
    DecidedBy{Decided::fits, "fits", "simulated: fit", SearchRule::Kind::keeps}};

// Of a layout that is to be measured: so much longer than the first it may be forecast.
constexpr double kWorthMeasuring = 0.05;

// What a step of any layout may use at most: communicators of other groups than all ranks take
// some of it too.
Bytes most_usable(const Scenario& s) {
  Bytes usable = s.cluster.node.gpu.memory;
  for (const DeviceMemory& line : device_memory(s))
    if (line.of != DeviceMemory::Of::group) usable -= line.bytes;
  return usable;
}

Layout family_of(Layout l) {
  l.vpp = 1;
  l.split = StageSplit::even;
  return l;
}

}  // namespace

bool is_twin(const FoundStep& found, const FoundStep& head) {
  return found.values.front() <= head.values.front() * (1 + kTwins);
}

Funnel::Funnel(const SearchSpace& space, const Objectives& objectives, const SearchRun& run,
               std::vector<Layout> layouts)
    : space_(space),
      objectives_(objectives),
      run_(run),
      settings_(space.settings()),
      layouts_(std::move(layouts)),
      decided_(layouts_.size(), Decided::open) {
  for (const SearchPlace& p : space_.places())
    most_room_.push_back(objectives_.room_of(most_usable(*p.scenario)));
}

void Funnel::run() {
  find_bounds();
  simulate_all();
}

std::vector<SearchRule> Funnel::rules() const {
  std::vector<SearchRule> rules;
  for (const DecidedBy& rule : kDecided) {
    const auto count = std::ranges::count(decided_, rule.decided);
    if (count > 0) rules.push_back({rule.name, rule.words, count, rule.kind});
  }
  return rules;
}

void Funnel::find_bounds() {
  LayoutBounds bounds(space_, layouts_);
  {
    std::vector<BoundCaches> caches(threads());
    constexpr size_t kAtOnce = 64;  // after which it can be stopped
    for (size_t from = 0; from < bounds.classes() && !stopped(); from += kAtOnce) {
      for_each_item(std::min(kAtOnce, bounds.classes() - from), run_.jobs,
                    [&](size_t i, size_t t) { bounds.prepare(from + i, caches[t]); });
      if (run_.progress_of_bounds)
        run_.progress_of_bounds(static_cast<int64_t>(from), static_cast<int64_t>(bounds.classes()));
    }
  }
  bounds_.resize(layouts_.size());
  constexpr size_t kPart = 1024, kParts = 64;
  for (size_t from = 0; from < layouts_.size() && !stopped(); from += kPart * kParts) {
    const size_t to = std::min(layouts_.size(), from + kPart * kParts);
    for_each_item((to - from + kPart - 1) / kPart, run_.jobs, [&](size_t part, size_t) {
      const size_t begin = from + part * kPart;
      for (size_t i = begin; i < std::min(to, begin + kPart); ++i) bounds_[i] = bounds.of(i);
    });
  }
}

size_t Funnel::threads() const {
  return static_cast<size_t>(std::max(1, run_.jobs));
}

bool Funnel::stopped() {
  if (!stopped_ && run_.stop && run_.stop(settings_.budget)) stopped_ = true;
  return stopped_;
}

// Whether a layout that takes at least this can be left out.
bool Funnel::is_beaten(const ObjectiveValues& least) const {
  if (run_.exhaustive) return false;
  if (settings_.objectives.size() == 1) return least.front() > threshold_;
  return std::ranges::any_of(found_,
                             [&](const FoundStep& f) { return dominates(f.values, least); });
}

void Funnel::add_found(FoundStep f) {
  if (settings_.objectives.size() > 1) {
    if (std::ranges::any_of(found_,
                            [&](const FoundStep& o) { return dominates(o.values, f.values); }))
      return;
    std::erase_if(found_, [&](const FoundStep& o) { return dominates(f.values, o.values); });
  }
  found_.insert(std::ranges::upper_bound(found_, f, std::less<>{}), std::move(f));
}

std::vector<size_t> Funnel::heads(size_t most) const {
  std::vector<size_t> all;
  for (size_t i = 0; i < found_.size() && all.size() < most; ++i) {
    const bool twin =
        settings_.objectives.size() == 1 && std::ranges::any_of(all, [&](size_t h) {
          return found_[h].family == found_[i].family && is_twin(found_[i], found_[h]);
        });
    if (!twin) all.push_back(i);
  }
  return all;
}

// As good as the k-th line with its twins, or closer to the best than forecasts tell apart.
void Funnel::set_threshold() {
  if (settings_.objectives.size() > 1) return;
  if (breaking_only_ && breaking_) threshold_ = breaking_->values.front();
  const auto k = static_cast<size_t>(settings_.top);
  const std::vector<size_t> lines = heads(k);
  if (lines.size() < k) return;
  const double last = found_[lines.back()].values.front() * (1 + kTwins);
  const double kept = run_.next > 0 ? kWorthMeasuring : kDiscernment;
  threshold_ = std::max(last, found_.front().values.front() * (1 + kept));
  if (run_.against) threshold_ = std::max(threshold_, static_cast<double>(run_.against->count()));
  while (!found_.empty() && found_.back().values.front() > threshold_) found_.pop_back();
}

// The longest step that is of interest.
Time Funnel::longest() const {
  const bool time_only = settings_.objectives.size() == 1 &&
                         settings_.objectives.front() == SearchObjective::step_time;
  if (!time_only || run_.exhaustive || !(threshold_ < 9e18)) return Time::max();
  return Time{static_cast<int64_t>(threshold_)};
}

Funnel::Trial Funnel::attempt(uint32_t index, Evaluator& evaluator) const {
  using Outcome = Evaluator::Trial::Outcome;
  const Layout& layout = layouts_[index];
  Trial trial;
  trial.row.layout = index;
  const auto resolved = space_.scenario(layout);
  const Scenario* scenario = std::get_if<Scenario>(&resolved);
  if (scenario == nullptr) {
    trial.decided = Decided::illegal;
    return trial;
  }
  const Bytes room = objectives_.room_of(usable_memory(*scenario));
  trial.row.usable = usable_memory(*scenario);
  if (!run_.exhaustive) {
    if (const auto bound = evaluator.bound(*scenario)) {
      if (bound->peak > room)
        trial.decided = Decided::plan_memory_bound;
      else if (const StepFigures least{
                   bound->time, bound->peak,
                   objectives_.least_joules(layout.place, bound->time, bounds_[index].joules),
                   true};
               is_beaten(objectives_.values(layout.place, least)))
        trial.decided = Decided::plan_time_bound;
      else if (!may_keep(layout, least))
        trial.decided = Decided::constraint_bound;
      if (trial.decided != Decided::open) return trial;
    }
  }
  const Evaluator::Trial step = run_.remember ? remembered(*scenario, layout, evaluator, room)
                                              : evaluator.attempt(*scenario, room, longest());
  trial.simulated = true;
  trial.row.time = step.time;
  trial.row.peak = step.peak;
  trial.row.reserved = step.reserved;
  if (run_.exhaustive && step.outcome != Outcome::impossible) {
    const auto own = evaluator.bound(*scenario);
    trial.bound_too_high = own && (own->peak > step.peak ||
                                   (step.outcome != Outcome::too_large && own->time > step.time));
  }
  const LayoutBound& bound = bounds_[index];
  trial.bound_too_high = trial.bound_too_high ||
                         (step.outcome != Outcome::impossible && bound.memory > step.peak) ||
                         ((step.outcome == Outcome::slower || step.outcome == Outcome::fits) &&
                          bound.time > step.time);
  switch (step.outcome) {
    case Outcome::impossible: trial.decided = Decided::impossible; break;
    case Outcome::too_large: trial.decided = Decided::out_of_memory; break;
    case Outcome::slower: trial.decided = Decided::slower; break;
    case Outcome::fits: trial.decided = judge(layout, *scenario, step, bound, trial); break;
  }
  trial.row.outcome = trial.decided == Decided::impossible      ? SearchRow::Outcome::impossible
                      : trial.decided == Decided::out_of_memory ? SearchRow::Outcome::too_large
                      : trial.decided == Decided::slower        ? SearchRow::Outcome::slower
                      : trial.decided == Decided::constraint ? SearchRow::Outcome::breaks_constraint
                                                             : SearchRow::Outcome::fits;
  trial.point = point_of(*scenario, layout, step);
  return trial;
}

// Of a step that fits.  What it draws takes a forecast, which is made only of those that may be
// among the best.
Decided Funnel::judge(const Layout& layout, const Scenario& scenario, const Evaluator::Trial& step,
                      const LayoutBound& bound, Trial& trial) const {
  StepFigures figures{step.time, step.reserved,
                      objectives_.least_joules(layout.place, step.time, bound.joules)};
  if (space_.asks_for_energy()) {
    if (is_beaten(objectives_.values(layout.place, figures))) return Decided::slower;
    const double least = figures.joules;
    figures.joules =
        run_.remember_energy
            ? run_.remember_energy(scenario, space_.settings_of(layout), objectives_.facts(),
                                   [&] { return objectives_.joules_of(scenario); })
            : objectives_.joules_of(scenario);
    trial.bound_too_high = trial.bound_too_high || least > figures.joules;
  }
  trial.joules = figures.joules;
  return objectives_.broken_by(layout, scenario, figures).empty() ? Decided::fits
                                                                  : Decided::constraint;
}

std::optional<StepRow> Funnel::point_of(const Scenario& scenario, const Layout& layout,
                                        const Evaluator::Trial& step) const {
  using Outcome = Evaluator::Trial::Outcome;
  const bool ended = step.outcome == Outcome::fits || step.outcome == Outcome::too_large;
  if (!run_.points || !ended || step.time <= Time{} || step.reserved.value <= 0) return {};
  return step_row(scenario, Hash128{}, settings_text(space_.settings_of(layout)), step,
                  objectives_.facts());
}

// As Evaluator::attempt(), of a step that is simulated to its end, or was.
Evaluator::Trial Funnel::remembered(const Scenario& scenario, const Layout& layout,
                                    Evaluator& evaluator, Bytes room) const {
  using Outcome = Evaluator::Trial::Outcome;
  Evaluator::Trial step =
      run_.remember(scenario, space_.settings_of(layout), objectives_.facts(), [&] {
        return evaluator.attempt(scenario, Bytes{std::numeric_limits<int64_t>::max()}, Time::max());
      });
  if (step.peak > room) return {Outcome::too_large, {}, step.peak, {}};
  if (step.outcome == Outcome::impossible) return step;
  if (step.time > longest()) return {Outcome::slower, step.time, step.peak, {}};
  step.outcome = step.reserved > room ? Outcome::too_large : Outcome::fits;
  return step;
}

bool Funnel::may_keep(const Layout& layout, const StepFigures& least) const {
  return run_.exhaustive || breaking_only_ || objectives_.may_keep(layout, least);
}

void Funnel::simulate_all() {
  std::vector<uint32_t> order;
  std::vector<ObjectiveValues> least(layouts_.size());
  for (uint32_t i = 0; i < layouts_.size(); ++i) {
    const Layout& l = layouts_[i];
    const LayoutBound& b = bounds_[i];
    const StepFigures figures{b.time, b.memory, objectives_.least_joules(l.place, b.time, b.joules),
                              true};
    least[i] = objectives_.values(l.place, figures);
    if (bounds_[i].memory > most_room_[l.place] && !run_.exhaustive)
      decided_[i] = Decided::memory_bound;
    else if (!may_keep(l, figures))
      decided_[i] = Decided::constraint_bound;
    else
      order.push_back(i);
  }
  simulate(std::move(order), least);
  if (!found_.empty() || run_.any || stopped()) return;
  // None keeps the constraints: the best that breaks one is looked for among all.
  std::vector<uint32_t> breaking;
  for (uint32_t i = 0; i < layouts_.size(); ++i)
    if (decided_[i] == Decided::constraint_bound) breaking.push_back(i);
  breaking_only_ = true;
  set_threshold();
  simulate(breaking, least);
  // Whatever else is the matter with them.
  for (const uint32_t i : breaking)
    if (decided_[i] != Decided::fits) decided_[i] = Decided::constraint_bound;
}

void Funnel::simulate(std::vector<uint32_t> order, const std::vector<ObjectiveValues>& least) {
  std::ranges::sort(
      order, [&](uint32_t a, uint32_t b) { return std::tie(least[a], a) < std::tie(least[b], b); });
  while (evaluators_.size() < threads()) evaluators_.push_back(std::make_unique<Evaluator>());
  const auto total = static_cast<int64_t>(layouts_.size());
  const int64_t before = total - static_cast<int64_t>(order.size());
  size_t next = 0;
  // Small rounds while the k-th best is found, larger ones after that.
  constexpr size_t kFirstRound = 16, kRound = 32;
  for (size_t size = run_.any ? 1 : kFirstRound;
       next < order.size() && !stopped() && !(run_.any && !found_.empty());
       size = std::min(kRound, size * 2)) {
    std::vector<uint32_t> round;
    for (; next < order.size() && round.size() < size; ++next) {
      if (is_beaten(least[order[next]]))
        decided_[order[next]] = Decided::time_bound;
      else
        round.push_back(order[next]);
    }
    std::vector<Trial> trials(round.size());
    for_each_item(round.size(), run_.jobs,
                  [&](size_t i, size_t t) { trials[i] = attempt(round[i], *evaluators_[t]); });
    for (Trial& trial : trials) take(std::move(trial));
    set_threshold();
    if (run_.progress) run_.progress(before + static_cast<int64_t>(next), total);
  }
}

void Funnel::take(Trial trial) {
  const uint32_t index = trial.row.layout;
  decided_[index] = trial.decided;
  if (trial.bound_too_high) ++bounds_too_high_;
  if (trial.simulated) rows_.push_back(trial.row);
  if (trial.point) points_.emplace(index, *std::move(trial.point));
  if (trial.decided != Decided::fits && trial.decided != Decided::constraint) return;
  const Layout& l = layouts_[index];
  const StepFigures figures{trial.row.time, trial.row.reserved, trial.joules};
  FoundStep found{objectives_.values(l.place, figures), index, figures, trial.row.usable,
                  family_of(l)};
  if (trial.joules > 0) joules_.emplace(index, trial.joules);
  if (trial.decided == Decided::fits)
    add_found(std::move(found));
  else if (!breaking_ || found < *breaking_)
    breaking_ = std::move(found);
}

double Funnel::joules(uint32_t layout, Time time) const {
  const auto known = joules_.find(layout);
  return known != joules_.end()
             ? known->second
             : objectives_.least_joules(layouts_[layout].place, time, bounds_[layout].joules);
}

}  // namespace stepcast
