// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "scenarios/forecast/device_memory.h"
#include "scenarios/forecast/evaluator.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step.h"
#include "scenarios/search/bounds.h"
#include "scenarios/search/for_each_item.h"
#include "scenarios/search/shard.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// By which rule a layout was decided, in the order in which they are asked.
enum class Decided : uint8_t {
  open,
  memory_bound,
  time_bound,
  illegal,
  plan_memory_bound,
  plan_time_bound,
  impossible,
  out_of_memory,
  constraint,
  slower,
  fits,
};
constexpr std::array<std::pair<const char*, const char*>, 11> kDecided{
    {{"undecided", "not looked at when the search was stopped"},
     {"memory_bound", "hold more than there is, by a bound in closed form"},
     {"time_bound", "are slower than the best, by a bound in closed form"},
     {"illegal", "break another rule of the layout"},
     {"plan_memory_bound", "hold more than there is, by a bound on their schedule"},
     {"plan_time_bound", "are slower than the best, by a bound on their schedule"},
     {"impossible", "cannot run: a deadlock, or too large to simulate"},
     {"out_of_memory", "simulated: do not fit"},
     {"constraint", "simulated: break a constraint"},
     {"slower", "simulated: slower than the best"},
     {"fits", "simulated: fit"}}};

// What a step of any layout may use at most: communicators of other groups than all ranks take
// some of it too.
Bytes most_usable(const Scenario& s) {
  Bytes usable = s.cluster.node.gpu.memory;
  for (const DeviceMemory& line : device_memory(s))
    if (!line.what.starts_with("communicator of ") ||
        line.what.starts_with("communicator of the world"))
      if (line.what != "DeepEP") usable -= line.bytes;
  return usable;
}

class Searcher {
 public:
  Searcher(const ScenarioDocument& document, const SearchOptions& options, const SearchRun& run)
      : space_(document, options), run_(run), settings_(space_.settings()) {}

  SearchAnswer search() {
    SearchSpace::Layouts layouts = space_.layouts();
    answer_.result.points = layouts.points;
    answer_.result.illegal = std::move(layouts.rules);
    answer_.layouts = std::move(layouts.all);
    take_shard();
    decided_.assign(answer_.layouts.size(), Decided::open);
    for (const SearchPlace& p : space_.places()) {
      most_room_.push_back(room_of(most_usable(*p.scenario)));
    }
    find_bounds();
    simulate();
    describe();
    return std::move(answer_);
  }

 private:
  const std::vector<Layout>& layouts() const { return answer_.layouts; }

  Bytes room_of(Bytes usable) const {
    return {
        static_cast<int64_t>(static_cast<double>(usable.value) * (1 - settings_.memory_margin))};
  }

  void take_shard() {
    if (run_.shard.count <= 1) return;
    std::erase_if(answer_.layouts,
                  [&](const Layout& l) { return !is_in_shard(run_.shard, space_.key_of(l)); });
  }

  void find_bounds() {
    LayoutBounds bounds(space_, layouts());
    const auto threads = static_cast<size_t>(std::max(1, run_.jobs));
    {
      std::vector<BoundCaches> caches(threads);
      constexpr size_t kAtOnce = 256;
      for (size_t from = 0; from < bounds.classes() && !stopped(); from += kAtOnce)
        for_each_item(std::min(kAtOnce, bounds.classes() - from), run_.jobs,
                      [&](size_t i, size_t t) { bounds.prepare(from + i, caches[t]); });
    }
    bounds_.resize(layouts().size());
    constexpr size_t kPart = 1024;
    for_each_item((layouts().size() + kPart - 1) / kPart, run_.jobs, [&](size_t part, size_t) {
      for (size_t i = part * kPart; i < std::min(layouts().size(), (part + 1) * kPart); ++i)
        bounds_[i] = bounds.of(i);
    });
  }

  bool stopped() {
    if (!stopped_ && run_.stop && run_.stop(settings_.budget)) stopped_ = true;
    return stopped_;
  }

  double steps_of(const SearchPlace& p) const {
    const double tokens =
        static_cast<double>(p.global_batch) * static_cast<double>(p.scenario->plan.seq);
    return settings_.tokens / tokens;
  }

  // What a search makes as small as it can.
  double value(SearchObjective objective, uint16_t place, Time time, Bytes memory) const {
    const SearchPlace& p = space_.places()[place];
    const auto gpus = static_cast<double>(p.gpus);
    switch (objective) {
      case SearchObjective::step_time: return static_cast<double>(time.count());
      case SearchObjective::tokens_per_gpu_s:
        return to_seconds(time) * gpus /
               (static_cast<double>(p.global_batch) * static_cast<double>(p.scenario->plan.seq));
      case SearchObjective::peak_memory: return static_cast<double>(memory.value);
      case SearchObjective::days: return to_seconds(time) * steps_of(p) / 86400;
      case SearchObjective::price:
        return to_seconds(time) * steps_of(p) / 3600 * gpus * settings_.price;
    }
    return 0;
  }

  using Values = std::vector<double>;
  Values values(uint16_t place, Time time, Bytes memory) const {
    Values all;
    for (const SearchObjective o : settings_.objectives)
      all.push_back(value(o, place, time, memory));
    return all;
  }

  static bool dominates(const Values& a, const Values& b) {
    bool better = false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] > b[i]) return false;
      better = better || a[i] < b[i];
    }
    return better;
  }

  struct Found {
    Values values;
    uint32_t layout = 0;
    Time time{};
    Bytes reserved{}, usable{};
    friend bool operator<(const Found& a, const Found& b) {
      return std::tie(a.values, a.layout) < std::tie(b.values, b.layout);
    }
  };

  // Whether a layout that takes at least this can be left out.
  bool is_beaten(const Values& least) const {
    if (run_.exhaustive) return false;
    if (settings_.objectives.size() == 1) return least.front() > threshold_;
    return std::ranges::any_of(found_, [&](const Found& f) { return dominates(f.values, least); });
  }

  void add_found(Found f) {
    if (settings_.objectives.size() > 1) {
      if (std::ranges::any_of(found_,
                              [&](const Found& o) { return dominates(o.values, f.values); }))
        return;
      std::erase_if(found_, [&](const Found& o) { return dominates(f.values, o.values); });
    }
    found_.insert(std::ranges::upper_bound(found_, f, std::less<>{}), std::move(f));
  }

  // As good as the k-th best, or closer to the best than forecasts tell apart.
  void set_threshold() {
    if (settings_.objectives.size() > 1) return;
    const auto k = static_cast<size_t>(settings_.top);
    if (found_.size() < k) return;
    threshold_ =
        std::max(found_[k - 1].values.front(), found_.front().values.front() * (1 + kDiscernment));
    while (!found_.empty() && found_.back().values.front() > threshold_) found_.pop_back();
  }

  // The longest step that is of interest.
  Time longest() const {
    const bool time_only = settings_.objectives.size() == 1 &&
                           settings_.objectives.front() == SearchObjective::step_time;
    if (!time_only || run_.exhaustive || !(threshold_ < 9e18)) return Time::max();
    return Time{static_cast<int64_t>(threshold_)};
  }

  struct Trial {
    Decided decided = Decided::open;
    SearchRow row;
    bool simulated = false, bound_too_high = false;
  };

  Trial attempt(uint32_t index, Evaluator& evaluator) const {
    using Outcome = Evaluator::Trial::Outcome;
    const Layout& layout = layouts()[index];
    Trial trial;
    trial.row.layout = index;
    const auto resolved = space_.scenario(layout);
    const Scenario* scenario = std::get_if<Scenario>(&resolved);
    if (scenario == nullptr) {
      trial.decided = Decided::illegal;
      return trial;
    }
    const Bytes room = room_of(usable_memory(*scenario));
    trial.row.usable = usable_memory(*scenario);
    if (!run_.exhaustive) {
      if (const auto bound = evaluator.bound(*scenario)) {
        if (bound->peak > room)
          trial.decided = Decided::plan_memory_bound;
        else if (is_beaten(values(layout.place, bound->time, bound->peak)))
          trial.decided = Decided::plan_time_bound;
        if (trial.decided != Decided::open) return trial;
      }
    }
    const Evaluator::Trial step = run_.remember ? remembered(*scenario, layout, evaluator, room)
                                                : evaluator.attempt(*scenario, room, longest());
    trial.simulated = true;
    trial.row.time = step.time;
    trial.row.peak = step.peak;
    trial.row.reserved = step.reserved;
    const LayoutBound& bound = bounds_[index];
    trial.bound_too_high = (step.outcome != Outcome::impossible && bound.memory > step.peak) ||
                           ((step.outcome == Outcome::slower || step.outcome == Outcome::fits) &&
                            bound.time > step.time);
    switch (step.outcome) {
      case Outcome::impossible: trial.decided = Decided::impossible; break;
      case Outcome::too_large: trial.decided = Decided::out_of_memory; break;
      case Outcome::slower: trial.decided = Decided::slower; break;
      case Outcome::fits:
        trial.decided = is_kept(layout, *scenario, step) ? Decided::fits : Decided::constraint;
        break;
    }
    trial.row.outcome = trial.decided == Decided::impossible      ? SearchRow::Outcome::impossible
                        : trial.decided == Decided::out_of_memory ? SearchRow::Outcome::too_large
                        : trial.decided == Decided::slower        ? SearchRow::Outcome::slower
                        : trial.decided == Decided::constraint
                            ? SearchRow::Outcome::breaks_constraint
                            : SearchRow::Outcome::fits;
    return trial;
  }

  // As Evaluator::attempt(), of a step that is simulated to its end, or was.
  Evaluator::Trial remembered(const Scenario& scenario, const Layout& layout, Evaluator& evaluator,
                              Bytes room) const {
    using Outcome = Evaluator::Trial::Outcome;
    Evaluator::Trial step = run_.remember(scenario, space_.changes(layout), [&] {
      return evaluator.attempt(scenario, Bytes{std::numeric_limits<int64_t>::max()}, Time::max());
    });
    if (step.peak > room) return {Outcome::too_large, {}, step.peak, {}};
    if (step.outcome == Outcome::impossible) return step;
    if (step.time > longest()) return {Outcome::slower, step.time, step.peak, {}};
    step.outcome = step.reserved > room ? Outcome::too_large : Outcome::fits;
    return step;
  }

  bool is_kept(const Layout& layout, const Scenario& scenario, const Evaluator::Trial& step) const {
    if (settings_.constraints.empty()) return true;
    const auto of = [&](SearchObjective o) {
      return value(o, layout.place, step.time, step.reserved);
    };
    return space_.keeps_constraints(
        layout, {to_seconds(step.time), 1 / of(SearchObjective::tokens_per_gpu_s),
                 static_cast<double>(step.reserved.value),
                 static_cast<double>(scenario.cluster.node.gpu.memory.value),
                 of(SearchObjective::days), of(SearchObjective::price)});
  }

  void simulate() {
    std::vector<uint32_t> order;
    std::vector<Values> least(layouts().size());
    for (uint32_t i = 0; i < layouts().size(); ++i) {
      const Layout& l = layouts()[i];
      least[i] = values(l.place, bounds_[i].time, bounds_[i].memory);
      if (bounds_[i].memory > most_room_[l.place] && !run_.exhaustive)
        decided_[i] = Decided::memory_bound;
      else
        order.push_back(i);
    }
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
      return std::tie(least[a], a) < std::tie(least[b], b);
    });
    const auto threads = static_cast<size_t>(std::max(1, run_.jobs));
    std::vector<std::unique_ptr<Evaluator>> evaluators(threads);
    for (auto& e : evaluators) e = std::make_unique<Evaluator>();
    const auto total = static_cast<int64_t>(layouts().size());
    const int64_t before = total - static_cast<int64_t>(order.size());
    size_t next = 0;
    // Small rounds while the k-th best is found, larger ones after that.
    constexpr size_t kFirstRound = 16, kRound = 64;
    for (size_t size = kFirstRound; next < order.size() && !stopped();
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
                    [&](size_t i, size_t t) { trials[i] = attempt(round[i], *evaluators[t]); });
      for (Trial& trial : trials) take(std::move(trial));
      set_threshold();
      if (run_.progress) run_.progress(before + static_cast<int64_t>(next), total);
    }
  }

  void take(Trial trial) {
    const uint32_t index = trial.row.layout;
    decided_[index] = trial.decided;
    if (trial.bound_too_high) ++answer_.bounds_too_high;
    if (trial.simulated) answer_.rows.push_back(trial.row);
    if (trial.decided != Decided::fits) return;
    const Layout& l = layouts()[index];
    add_found({values(l.place, trial.row.time, trial.row.reserved), index, trial.row.time,
               trial.row.reserved, trial.row.usable});
  }

  // --------------------------------------------------------------------------------- the answer

  FoundLayout describe_layout(uint32_t index, Time time, Bytes reserved, Bytes usable) const {
    const Layout& l = layouts()[index];
    const SearchPlace& p = space_.places()[l.place];
    FoundLayout out;
    out.gpus = p.gpus;
    out.nodes = p.nodes;
    out.tp = l.tp;
    out.cp = l.cp;
    out.pp = l.pp;
    out.vpp = l.vpp;
    out.ep = l.ep;
    out.etp = l.etp;
    out.dp = space_.dp_of(l);
    out.micro = l.micro;
    out.microbatches = space_.microbatches_of(l);
    out.zero = l.zero;
    out.recompute = space_.recompute_words()[l.recompute];
    out.schedule = l.pp > 1 ? space_.schedules()[l.schedule] : "none";
    out.split = space_.split_word(l);
    const std::vector<int64_t> layers = space_.layers_of_stages(l);
    if (std::ranges::adjacent_find(layers, std::not_equal_to<>{}) != layers.end())
      out.stage_layers = layers;
    out.set = space_.changes(l);
    out.step_time = time;
    out.reserved = reserved;
    out.usable = usable;
    if (time > Time{}) {
      out.tokens_per_gpu_s = 1 / value(SearchObjective::tokens_per_gpu_s, l.place, time, reserved);
      if (settings_.tokens > 0) out.days = value(SearchObjective::days, l.place, time, reserved);
      if (settings_.tokens > 0 && settings_.price > 0)
        out.price = value(SearchObjective::price, l.place, time, reserved);
    }
    return out;
  }

  void describe() {
    SearchResult& r = answer_.result;
    const Scenario& first = *space_.places().front().scenario;
    r.name = first.name;
    r.file = first.file;
    r.gpu = upper_case(first.cluster.node.gpu.name);
    r.dense = first.model.experts == 0;
    r.objectives = settings_.objectives;
    r.top = settings_.top;
    r.memory_margin = settings_.memory_margin;
    r.layouts = static_cast<int64_t>(layouts().size());
    r.simulated = static_cast<int64_t>(answer_.rows.size());
    std::array<int64_t, kDecided.size()> counts{};
    for (const Decided d : decided_) ++counts[static_cast<size_t>(d)];
    r.undecided = counts[0];
    for (size_t i = 1; i < counts.size(); ++i)
      if (counts[i] > 0) r.decided.push_back({kDecided[i].first, kDecided[i].second, counts[i]});
    const bool front = settings_.objectives.size() > 1;
    for (const Found& f : found_)
      if (f.values.front() <= found_.front().values.front() * (1 + kDiscernment))
        ++r.within_discernment;
    const size_t shown =
        front ? found_.size() : std::min(found_.size(), static_cast<size_t>(settings_.top));
    for (size_t i = 0; i < shown; ++i) {
      const Found& f = found_[i];
      r.best.push_back(describe_layout(f.layout, f.time, f.reserved, f.usable));
      r.best.back().on_front = front;
      answer_.documents.push_back(space_.document(layouts()[found_[i].layout]));
    }
    if (run_.forecasts)
      for_each_item(shown, run_.jobs, [&](size_t i, size_t) {
        auto resolved = space_.scenario(layouts()[found_[i].layout]);
        STEPCAST_CHECK(std::holds_alternative<Scenario>(resolved), "it was resolved before");
        r.best[i].result = forecast(std::get<Scenario>(resolved), {.what_if = false});
      });
    if (found_.empty() && !stopped_) find_nearest();
  }

  // The layout that needs least, of those that need least by their bounds.
  void find_nearest() {
    std::vector<uint32_t> order(layouts().size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    constexpr size_t kLookedAt = 16;
    const size_t count = std::min(order.size(), kLookedAt);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                      order.end(), [&](uint32_t a, uint32_t b) {
                        return std::pair(bounds_[a].memory, a) < std::pair(bounds_[b].memory, b);
                      });
    order.resize(count);
    for (const uint32_t i : order) {
      const auto resolved = space_.scenario(layouts()[i]);
      const Scenario* scenario = std::get_if<Scenario>(&resolved);
      if (scenario == nullptr) continue;
      const std::optional<Result> memory = forecast_memory(*scenario);
      if (!memory) continue;
      std::optional<FoundLayout>& nearest = answer_.result.nearest;
      if (!nearest || memory->memory_reserved < nearest->reserved)
        nearest = describe_layout(i, Time{}, memory->memory_reserved, memory->memory_usable);
    }
  }

  SearchSpace space_;
  const SearchRun& run_;
  const SearchSettings& settings_;
  SearchAnswer answer_;
  std::vector<Bytes> most_room_;  // that a layout of each place can have
  std::vector<LayoutBound> bounds_;
  std::vector<Decided> decided_;
  std::vector<Found> found_;  // best first
  double threshold_ = std::numeric_limits<double>::infinity();
  bool stopped_ = false;
};

}  // namespace

SearchAnswer search_layouts(const ScenarioDocument& document, const SearchOptions& options,
                            const SearchRun& run) {
  return Searcher(document, options, run).search();
}

std::optional<FoundLayout> simple_layout_that_fits(const ScenarioDocument& document) {
  ScenarioDocument simple = document;
  simple.set("search", {});
  simple.set("search.top", scalar_value("1"));
  simple.set("search.space", mapping_value({{"parallel.tp", "auto"},
                                            {"parallel.pp", "auto"},
                                            {"parallel.ep", "auto"},
                                            {"recompute", "auto"},
                                            {"parallel.cp", "1"},
                                            {"parallel.vpp", "1"},
                                            {"parallel.etp", "1"},
                                            {"parallel.zero", "1"},
                                            {"parallel.split", "auto"},
                                            {"schedule", "auto"},
                                            {"batch.micro", "1"}}));
  try {
    SearchRun run;
    run.forecasts = false;
    SearchAnswer answer = search_layouts(simple, {}, run);
    if (!answer.result.best.empty()) return std::move(answer.result.best.front());
  } catch (const InputError&) {  // which the scenario itself is refused for
  }
  return {};
}

}  // namespace stepcast
