// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "job/power.h"
#include "job/training.h"
#include "scenarios/forecast/device_memory.h"
#include "scenarios/forecast/evaluator.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step.h"
#include "scenarios/search/bounds.h"
#include "scenarios/search/nearest.h"
#include "scenarios/search/shard.h"
#include "scenarios/search/steps.h"
#include "scenarios/search/sweep.h"
#include "sim/check.h"
#include "sim/for_each_item.h"
#include "sim/step_ranking.h"
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
  constraint_bound,
  impossible,
  out_of_memory,
  constraint,
  slower,
  fits,
};
constexpr std::array<std::pair<const char*, const char*>, 12> kDecided{
    {{"undecided", "not looked at when the search was stopped"},
     {"memory_bound", "hold more than there is, by a bound in closed form"},
     {"time_bound", "are slower than the best, by a bound in closed form"},
     {"illegal", "break another rule of the layout"},
     {"plan_memory_bound", "hold more than there is, by a bound on their schedule"},
     {"plan_time_bound", "are slower than the best, by a bound on their schedule"},
     {"constraint_bound", "break a constraint, by a bound"},
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
    if (line.of != DeviceMemory::Of::group) usable -= line.bytes;
  return usable;
}

class Searcher {
 public:
  Searcher(const ScenarioDocument& document, const SearchOptions& options, const SearchRun& run)
      : space_(document, options),
        run_(run),
        settings_(space_.settings()),
        job_(read_job(document)),
        facts_(job_of(document)) {}

  SearchAnswer search() {
    SearchSpace::Layouts layouts = space_.layouts([this] { return stopped(); });
    answer_.result.all_seen = layouts.all_seen;
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
    {
      std::vector<BoundCaches> caches(threads());
      constexpr size_t kAtOnce = 64;  // after which it can be stopped
      for (size_t from = 0; from < bounds.classes() && !stopped(); from += kAtOnce) {
        for_each_item(std::min(kAtOnce, bounds.classes() - from), run_.jobs,
                      [&](size_t i, size_t t) { bounds.prepare(from + i, caches[t]); });
        if (run_.progress_of_bounds)
          run_.progress_of_bounds(static_cast<int64_t>(from),
                                  static_cast<int64_t>(bounds.classes()));
      }
    }
    bounds_.resize(layouts().size());
    constexpr size_t kPart = 1024, kParts = 64;
    for (size_t from = 0; from < layouts().size() && !stopped(); from += kPart * kParts) {
      const size_t to = std::min(layouts().size(), from + kPart * kParts);
      for_each_item((to - from + kPart - 1) / kPart, run_.jobs, [&](size_t part, size_t) {
        const size_t begin = from + part * kPart;
        for (size_t i = begin; i < std::min(to, begin + kPart); ++i) bounds_[i] = bounds.of(i);
      });
    }
  }

  size_t threads() const { return static_cast<size_t>(std::max(1, run_.jobs)); }

  bool stopped() {
    if (!stopped_ && run_.stop && run_.stop(settings_.budget)) stopped_ = true;
    return stopped_;
  }

  double steps_of(const SearchPlace& p) const { return settings_.tokens / tokens_of(p); }

  // Of a step: what is found, or at least.
  struct Figures {
    Time time{};
    Bytes memory{};
    double joules = 0;      // a token; 0: nobody asks
    bool at_least = false;  // bounds
  };

  // Seconds of the whole job.  A longer step may take less of it: checkpoints are made after whole
  // steps, and may then come closer to their best interval.  The steps alone are what it takes at
  // least.
  double job_time(const SearchPlace& p, const Figures& f) const {
    const double step = to_seconds(f.time);
    return f.at_least ? step * steps_of(p) : job_seconds(job_, *p.scenario, step, steps_of(p));
  }

  // Joules a token of a step of so many seconds, if its compute draws `drawn` beyond standing idle
  // and all else as little as it can.
  double least_joules(uint16_t place, Time time, double drawn) const {
    if (!space_.asks_for_energy()) return 0;
    const SearchPlace& p = space_.places()[place];
    const Gpu& gpu = p.scenario->cluster.node.gpu;
    const double watts = *gpu_watts(gpu, Draw::idle) + *host_watts(gpu);
    return (drawn + watts * static_cast<double>(p.gpus) * to_seconds(time)) / tokens_of(p);
  }

  // As forecast; 0 if nobody asks.
  double joules_of(const Scenario& scenario) const {
    if (!space_.asks_for_energy()) return 0;
    return joules_per_token(scenario);
  }

  static double tokens_of(const SearchPlace& p) {
    return static_cast<double>(p.global_batch) * static_cast<double>(p.scenario->plan.seq);
  }

  // What a search makes as small as it can.
  double value(SearchObjective objective, uint16_t place, const Figures& f) const {
    const SearchPlace& p = space_.places()[place];
    const auto gpus = static_cast<double>(p.gpus);
    switch (objective) {
      case SearchObjective::step_time: return static_cast<double>(f.time.count());
      case SearchObjective::tokens_per_gpu_s: return to_seconds(f.time) * gpus / tokens_of(p);
      case SearchObjective::peak_memory: return static_cast<double>(f.memory.value);
      case SearchObjective::days: return job_time(p, f) / 86400;
      case SearchObjective::price: return job_time(p, f) / 3600 * gpus * settings_.price;
      case SearchObjective::energy: return f.joules;
    }
    return 0;
  }

  using Values = std::vector<double>;
  Values values(uint16_t place, const Figures& figures) const {
    Values all;
    for (const SearchObjective o : settings_.objectives) all.push_back(value(o, place, figures));
    return all;
  }

  struct Found {
    Values values;
    uint32_t layout = 0;
    Figures figures;  // memory: reserved
    Bytes usable{};
    Layout family;  // the layout, with chunks and split left out
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

  static Layout family_of(Layout l) {
    l.vpp = 1;
    l.split = StageSplit::even;
    return l;
  }

  // Which of found_ begin a line of the answer, as far as `most` lines: each stands for those of
  // its family that take up to kTwins more.  A layout that is found in addition never lets the k-th
  // line begin later: of one family as few lines as possible cover all, and more layouts need no
  // fewer.
  std::vector<size_t> heads(size_t most) const {
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
  static bool is_twin(const Found& f, const Found& head) {
    return f.values.front() <= head.values.front() * (1 + kTwins);
  }

  // Of a layout that is to be measured: so much longer than the first it may be forecast.
  static constexpr double kWorthMeasuring = 0.05;

  // As good as the k-th line with its twins, or closer to the best than forecasts tell apart.
  void set_threshold() {
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
    double joules = 0;  // a token; 0: not worked out
    std::optional<StepRow> point{};
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
        else if (const Figures least{bound->time, bound->peak,
                                     least_joules(layout.place, bound->time, bounds_[index].joules),
                                     true};
                 is_beaten(values(layout.place, least)))
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
                        : trial.decided == Decided::constraint
                            ? SearchRow::Outcome::breaks_constraint
                            : SearchRow::Outcome::fits;
    trial.point = point_of(*scenario, layout, step);
    return trial;
  }

  // Of a step that fits.  What it draws takes a forecast, which is made only of those that may be
  // among the best.
  Decided judge(const Layout& layout, const Scenario& scenario, const Evaluator::Trial& step,
                const LayoutBound& bound, Trial& trial) const {
    Figures figures{step.time, step.reserved, least_joules(layout.place, step.time, bound.joules)};
    if (space_.asks_for_energy()) {
      if (is_beaten(values(layout.place, figures))) return Decided::slower;
      const double least = figures.joules;
      figures.joules = run_.remember_energy
                           ? run_.remember_energy(scenario, space_.settings_of(layout), facts_,
                                                  [&] { return joules_of(scenario); })
                           : joules_of(scenario);
      trial.bound_too_high = trial.bound_too_high || least > figures.joules;
    }
    trial.joules = figures.joules;
    return broken_by(layout, scenario, figures).empty() ? Decided::fits : Decided::constraint;
  }

  // Of what was simulated to its end, where points are asked for.
  std::optional<StepRow> point_of(const Scenario& scenario, const Layout& layout,
                                  const Evaluator::Trial& step) const {
    using Outcome = Evaluator::Trial::Outcome;
    const bool ended = step.outcome == Outcome::fits || step.outcome == Outcome::too_large;
    if (!run_.points || !ended || step.time <= Time{} || step.reserved.value <= 0) return {};
    return step_row(scenario, Hash128{}, settings_text(space_.settings_of(layout)), step, facts_);
  }

  // As Evaluator::attempt(), of a step that is simulated to its end, or was.
  Evaluator::Trial remembered(const Scenario& scenario, const Layout& layout, Evaluator& evaluator,
                              Bytes room) const {
    using Outcome = Evaluator::Trial::Outcome;
    Evaluator::Trial step = run_.remember(scenario, space_.settings_of(layout), facts_, [&] {
      return evaluator.attempt(scenario, Bytes{std::numeric_limits<int64_t>::max()}, Time::max());
    });
    if (step.peak > room) return {Outcome::too_large, {}, step.peak, {}};
    if (step.outcome == Outcome::impossible) return step;
    if (step.time > longest()) return {Outcome::slower, step.time, step.peak, {}};
    step.outcome = step.reserved > room ? Outcome::too_large : Outcome::fits;
    return step;
  }

  // What constraints ask, but for the share of such steps that fit.
  SearchMeasure measure_of(const Layout& layout, const Figures& figures) const {
    const auto of = [&](SearchObjective o) { return value(o, layout.place, figures); };
    const Gpu& gpu = space_.places()[layout.place].scenario->cluster.node.gpu;
    return {.step_time_s = to_seconds(figures.time),
            .tokens_per_gpu_s = 1 / of(SearchObjective::tokens_per_gpu_s),
            .peak_memory = static_cast<double>(figures.memory.value),
            .gpu_memory = static_cast<double>(gpu.memory.value),
            .days = settings_.tokens > 0 ? of(SearchObjective::days) : 0,
            .price = settings_.tokens > 0 ? of(SearchObjective::price) : 0,
            .energy = figures.joules};
  }

  // Whether a layout that takes at least this may keep the constraints.
  bool may_keep(const Layout& layout, const Figures& least) const {
    return settings_.constraints.empty() || run_.exhaustive || breaking_only_ ||
           space_.may_keep_constraints(layout, measure_of(layout, least));
  }

  std::vector<std::string> broken_by(const Layout& layout, const Scenario& scenario,
                                     const Figures& figures) const {
    if (settings_.constraints.empty()) return {};
    SearchMeasure measure = measure_of(layout, figures);
    measure.fits = fits_of(scenario);
    return space_.broken_constraints(layout, measure);
  }

  // As observed of forecasts of memory; 1 where nobody asks.
  double fits_of(const Scenario& scenario) const {
    if (!space_.asks_whether_it_fits()) return 1;
    const std::optional<Result> memory = forecast_memory(scenario);
    return memory ? memory->fits_share.value_or(1) : 1;
  }

  void simulate() {
    std::vector<uint32_t> order;
    std::vector<Values> least(layouts().size());
    for (uint32_t i = 0; i < layouts().size(); ++i) {
      const Layout& l = layouts()[i];
      const LayoutBound& b = bounds_[i];
      const Figures figures{b.time, b.memory, least_joules(l.place, b.time, b.joules), true};
      least[i] = values(l.place, figures);
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
    for (uint32_t i = 0; i < layouts().size(); ++i)
      if (decided_[i] == Decided::constraint_bound) breaking.push_back(i);
    breaking_only_ = true;
    set_threshold();
    simulate(breaking, least);
    // Whatever else is the matter with them.
    for (const uint32_t i : breaking)
      if (decided_[i] != Decided::fits) decided_[i] = Decided::constraint_bound;
  }

  void simulate(std::vector<uint32_t> order, const std::vector<Values>& least) {
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
      return std::tie(least[a], a) < std::tie(least[b], b);
    });
    while (evaluators_.size() < threads()) evaluators_.push_back(std::make_unique<Evaluator>());
    const auto total = static_cast<int64_t>(layouts().size());
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

  void take(Trial trial) {
    const uint32_t index = trial.row.layout;
    decided_[index] = trial.decided;
    if (trial.bound_too_high) ++answer_.bounds_too_high;
    if (trial.simulated) answer_.rows.push_back(trial.row);
    if (trial.point) points_.emplace(index, *std::move(trial.point));
    if (trial.decided != Decided::fits && trial.decided != Decided::constraint) return;
    const Layout& l = layouts()[index];
    const Figures figures{trial.row.time, trial.row.reserved, trial.joules};
    Found found{values(l.place, figures), index, figures, trial.row.usable, family_of(l)};
    if (trial.joules > 0) joules_.emplace(index, trial.joules);
    if (trial.decided == Decided::fits)
      add_found(std::move(found));
    else if (!breaking_ || found < *breaking_)
      breaking_ = std::move(found);
  }

  // --------------------------------------------------------------------------------- the answer

  FoundLayout describe_layout(uint32_t index, const Figures& figures, Bytes usable) const {
    const Layout& l = layouts()[index];
    const Time time = figures.time;
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
    out.beside = space_.beside(l);
    out.set = space_.settings_of(l);
    out.step_time = time;
    out.reserved = figures.memory;
    out.joules_per_token = figures.joules;
    out.usable = usable;
    if (time > Time{}) {
      out.tokens_per_gpu_s = 1 / value(SearchObjective::tokens_per_gpu_s, l.place, figures);
      if (settings_.tokens > 0) out.days = value(SearchObjective::days, l.place, figures);
      if (settings_.tokens > 0 && settings_.price > 0)
        out.price = value(SearchObjective::price, l.place, figures);
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
    if (std::ranges::any_of(layouts(), [](const Layout& l) { return l.pp > 1; }))
      r.schedules = space_.schedules();
    r.schedules_stated = space_.schedules_stated();
    r.kept = space_.kept();
    r.stopped = stopped_;
    r.layouts = static_cast<int64_t>(layouts().size());
    r.simulated = static_cast<int64_t>(answer_.rows.size());
    std::array<int64_t, kDecided.size()> counts{};
    for (const Decided d : decided_) ++counts[static_cast<size_t>(d)];
    r.undecided = counts[0];
    r.part = run_.shard.index + 1;
    r.parts = run_.shard.count;
    for (size_t i = 1; i < counts.size(); ++i)
      if (counts[i] > 0)
        r.decided.push_back({kDecided[i].first, kDecided[i].second, counts[i],
                             static_cast<Decided>(i) == Decided::fits ? SearchRule::Kind::keeps
                                                                      : SearchRule::Kind::drops});
    const bool front = settings_.objectives.size() > 1;
    for (const Found& f : found_)
      if (f.values.front() <= found_.front().values.front() * (1 + kDiscernment))
        ++r.within_discernment;
    const std::vector<size_t> lines =
        heads(front ? found_.size() : static_cast<size_t>(settings_.top));
    for (const size_t head : lines) {
      const Found& f = found_[head];
      FoundLayout& line = r.best.emplace_back(describe_found(f));
      line.on_front = front;
      for (size_t i = head + 1; !front && i < found_.size(); ++i)
        if (found_[i].family == f.family && is_twin(found_[i], f) &&
            std::ranges::count(lines, i) == 0)
          line.twins.push_back(describe_found(found_[i]));
      answer_.documents.push_back(space_.document(layouts()[f.layout]));
    }
    if (run_.forecasts) {
      forecast_lines(lines);
      if (!lines.empty()) {
        find_steps(found_[lines.front()].layout);
        if (!stopped()) find_switches(found_[lines.front()]);
      }
    }
    if (run_.against)
      r.faster = std::ranges::count_if(
          found_, [&](const Found& f) { return f.figures.time < *run_.against; });
    choose_next();
    rank_points();
    if (found_.empty() && breaking_)
      describe_breaking();
    else if (found_.empty() && !stopped_)
      find_nearest();
  }

  FoundLayout describe_found(const Found& f) const {
    return describe_layout(f.layout, f.figures, f.usable);
  }

  void forecast_lines(const std::vector<size_t>& lines) {
    for (size_t from = 0; from < lines.size() && (from == 0 || !stopped());) {
      const size_t count = stopped() ? 1 : std::min(threads(), lines.size() - from);
      for_each_item(count, run_.jobs, [&](size_t i, size_t) {
        auto resolved = space_.scenario(layouts()[found_[lines[from + i]].layout]);
        STEPCAST_CHECK(std::holds_alternative<Scenario>(resolved), "it was resolved before");
        answer_.result.best[from + i].result =
            forecast(std::get<Scenario>(resolved), {.what_if = false});
      });
      from += count;
    }
  }

  // How many of the axes differ that decide what is computed and communicated.
  static int64_t unlike(const Layout& a, const Layout& b) {
    return (a.place != b.place) + (a.tp != b.tp) + (a.cp != b.cp) + (a.pp != b.pp) +
           (a.ep != b.ep) + (a.micro != b.micro) + (a.zero != b.zero) +
           (a.recompute != b.recompute);
  }

  // The error of a forecast is much the same for layouts that are alike, so that measuring two of
  // them says little more than one.  The best first, then the next best that differs from all
  // chosen in two axes; if there are too few, in one.  One that will likely run out of memory is
  // worth no job.
  void choose_next() {
    constexpr double kLikely = 0.5;
    std::vector<size_t> chosen;
    for (const int64_t axes : {2, 1}) {
      for (size_t i = 0; i < found_.size(); ++i) {
        if (std::ssize(chosen) >= run_.next || (stopped() && !chosen.empty())) return;
        const Layout& layout = layouts()[found_[i].layout];
        if (std::ranges::any_of(chosen, [&](size_t c) {
              return unlike(layouts()[found_[c].layout], layout) < axes;
            }))
          continue;
        const auto resolved = space_.scenario(layout);
        const std::optional<Result> memory = forecast_memory(std::get<Scenario>(resolved));
        if (memory && memory->fits_share.value_or(1) < kLikely) continue;
        chosen.push_back(i);
        answer_.result.next.push_back(describe_found(found_[i]));
        answer_.next.push_back(space_.document(layout));
      }
    }
  }

  // In the order of the answer: those that fit and keep the constraints, best first.
  void rank_points() {
    struct Ranked {
      bool counts = false;
      Found found;  // values and layout alone
    };
    std::vector<Ranked> order;
    for (const auto& [index, row] : points_) {
      const Layout& l = layouts()[index];
      const Figures figures{Time{*row.step_time_ps}, Bytes{*row.reserved_bytes},
                            known_joules(index, Time{*row.step_time_ps})};
      // One that was looked at as a step alone is not decided by that.
      const bool counts =
          decided_[index] == Decided::fits ||
          (decided_[index] != Decided::constraint &&
           figures.memory <= room_of(Bytes{row.usable_bytes}) && keeps_constraints(index, figures));
      order.push_back({counts, {values(l.place, figures), index, {}, {}, {}}});
    }
    std::ranges::sort(order, [](const Ranked& a, const Ranked& b) {
      return a.counts != b.counts ? a.counts : a.found < b.found;
    });
    StepPoints& points = answer_.points;
    std::map<uint32_t, size_t> places;
    for (const Ranked& r : order) {
      if (r.counts) ++points.counted;
      places.emplace(r.found.layout, points.rows.size());
      points.rows.push_back(std::move(points_.at(r.found.layout)));
    }
    for (const auto& [layout, axis] : steps_) points.steps.push_back({axis, places.at(layout)});
  }

  // As forecast, or at least.
  double known_joules(uint32_t index, Time time) const {
    const auto known = joules_.find(index);
    return known != joules_.end()
               ? known->second
               : least_joules(layouts()[index].place, time, bounds_[index].joules);
  }

  bool keeps_constraints(uint32_t index, const Figures& figures) const {
    if (settings_.constraints.empty()) return true;
    const auto resolved = space_.scenario(layouts()[index]);
    const Scenario* scenario = std::get_if<Scenario>(&resolved);
    return scenario != nullptr && broken_by(layouts()[index], *scenario, figures).empty();
  }

  // What the layouts next to the first take and hold, whatever the bounds say of them.
  void find_steps(uint32_t first) {
    const std::vector<LayoutStep> steps = steps_from(space_, layouts(), first);
    std::vector<std::optional<SearchStep>> found(steps.size());
    std::vector<std::optional<StepRow>> points(steps.size());
    for (size_t from = 0; from < steps.size() && !stopped();) {
      const size_t count = std::min(4 * threads(), steps.size() - from);
      for_each_item(count, run_.jobs, [&](size_t i, size_t t) {
        found[from + i] = take_step(steps[from + i], *evaluators_[t], points[from + i]);
      });
      from += count;
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!found[i]) continue;
      if (points[i]) points_.emplace(steps[i].layout, *std::move(points[i]));
      if (points_.contains(steps[i].layout)) steps_.emplace_back(steps[i].layout, found[i]->axis);
      answer_.result.steps.push_back(*std::move(found[i]));
    }
  }

  // Nothing if the layout is illegal or cannot run.  What is simulated anew is a point too.
  std::optional<SearchStep> take_step(const LayoutStep& step, Evaluator& evaluator,
                                      std::optional<StepRow>& point) const {
    const auto resolved = space_.scenario(layouts()[step.layout]);
    const Scenario* scenario = std::get_if<Scenario>(&resolved);
    if (scenario == nullptr) return {};
    const Bytes usable = usable_memory(*scenario);
    const auto known = std::ranges::find(answer_.rows, step.layout, &SearchRow::layout);
    if (known != answer_.rows.end() && known->outcome == SearchRow::Outcome::fits)
      return SearchStep{
          step.axis,
          step.from,
          step.to,
          step.too,
          true,
          true,
          describe_layout(step.layout,
                          {known->time, known->reserved, known_joules(step.layout, known->time)},
                          usable),
          keeps_constraints(
              step.layout, {known->time, known->reserved, known_joules(step.layout, known->time)})};
    const Evaluator::Trial trial = evaluator.attempt(*scenario, room_of(usable), Time::max());
    using Outcome = Evaluator::Trial::Outcome;
    if (trial.outcome == Outcome::impossible) return {};
    point = point_of(*scenario, layouts()[step.layout], trial);
    const bool fits = trial.outcome == Outcome::fits;
    const Figures figures{fits ? trial.time : Time{}, std::max(trial.reserved, trial.peak),
                          fits ? joules_of(*scenario) : 0};
    return SearchStep{step.axis,
                      step.from,
                      step.to,
                      step.too,
                      fits,
                      true,
                      describe_layout(step.layout, figures, usable),
                      !fits || broken_by(layouts()[step.layout], *scenario, figures).empty()};
  }

  // What the first layout would take with a switch of the software on that is no axis of the space,
  // and with those on together that make it faster, the best first: some exclude others.
  void find_switches(const Found& first) {
    if (!space_.overlaps_if_told()) return;
    const Layout& layout = layouts()[first.layout];
    const auto resolved = space_.scenario(layout);
    const Scenario& scenario = std::get<Scenario>(resolved);
    const Plan& plan = scenario.plan;
    struct Switch {
      const char *path, *from, *to;
      bool off;                // and the software has it for this layout
      bool exchanges = false;  // beside other work: by one of them
    };
    // NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py, __post_init__.
    const bool exchanges = plan.ep > 1 && !plan.overlap.ep && !plan.moe.shared_overlap;
    const bool replicas = plan.dp > 1 && plan.zero <= 1;
    const std::array<Switch, 5> switches{
        {{"overlap.dp_grad", "false", "true", replicas && !plan.overlap.dp_grad},
         {"overlap.dp_param", "false", "true",
          replicas && plan.zero == 1 && !plan.overlap.dp_param},
         {"overlap.tp", "backward", "pipelined",
          plan.tp > 1 && plan.overlap.tp == TpOverlap::backward},
         {"overlap.ep", "false", "true",
          exchanges && plan.recompute != Recompute::full && scenario.model.mtp_layers <= 1, true},
         {"moe.shared_overlap", "false", "true", exchanges && scenario.model.shared_ffn > 0,
          true}}};
    std::vector<std::pair<Time, const Switch*>> helpful;
    for (const Switch& s : switches) {
      if (!s.off || is_axis(s.path)) continue;
      std::optional<SearchStep> step = take_switches(layout, {{s.path, s.to}}, s.from);
      if (!step || step->layout.step_time == first.figures.time) continue;
      if (step->fits && step->layout.step_time < first.figures.time)
        helpful.emplace_back(step->layout.step_time, &s);
      answer_.result.steps.push_back(*std::move(step));
    }
    if (helpful.empty()) return;
    std::ranges::stable_sort(helpful, {}, [](const auto& h) { return h.first; });
    std::vector<std::pair<std::string, std::string>> on;
    std::optional<SearchStep> together;
    Time best = Time::max();
    bool beside = false;  // exchanges are already
    for (const auto& [time, s] : helpful) {
      if (s->exchanges && beside) continue;
      on.emplace_back(s->path, s->to);
      std::optional<SearchStep> step =
          on.size() == 1 ? std::nullopt : take_switches(layout, on, helpful.front().second->from);
      const Time now = on.size() == 1 ? time : step && step->fits ? step->layout.step_time : best;
      if (now < best) {
        best = now;
        together = std::move(step);
        beside = beside || s->exchanges;
      } else {
        on.pop_back();
      }
    }
    if (together) answer_.result.steps.push_back(*std::move(together));
  }

  bool is_axis(std::string_view path) const {
    const SearchPlace& place = space_.places().front();
    return std::ranges::any_of(place.set, [&](const auto& set) { return set.first == path; });
  }

  // Nothing if it is illegal or cannot run.
  std::optional<SearchStep> take_switches(
      const Layout& layout, const std::vector<std::pair<std::string, std::string>>& set,
      const char* from) const {
    ScenarioDocument document = space_.document(layout);
    for (const auto& [path, value] : set) document.set(path, scalar_value(value));
    const auto resolved = document.try_resolve();
    const Scenario* scenario = std::get_if<Scenario>(&resolved);
    if (scenario == nullptr) return {};
    const Bytes usable = usable_memory(*scenario);
    const Evaluator::Trial trial =
        evaluators_.front()->attempt(*scenario, room_of(usable), Time::max());
    if (trial.outcome == Evaluator::Trial::Outcome::impossible) return {};
    SearchStep step{set.front().first,
                    from,
                    set.front().second,
                    {},
                    trial.outcome == Evaluator::Trial::Outcome::fits,
                    false,
                    {}};
    for (size_t i = 1; i < set.size(); ++i) step.too.push_back(set[i].first + ' ' + set[i].second);
    const Figures figures{step.fits ? trial.time : Time{}, std::max(trial.reserved, trial.peak),
                          step.fits ? joules_of(*scenario) : 0};
    step.layout =
        describe_layout(static_cast<uint32_t>(&layout - layouts().data()), figures, usable);
    step.keeps = !step.fits || broken_by(layout, *scenario, figures).empty();
    step.layout.set.insert(step.layout.set.end(), set.begin(), set.end());
    return step;
  }

  // Layouts fit, and none keeps the constraints.
  void describe_breaking() {
    const Found& f = *breaking_;
    const Layout& layout = layouts()[f.layout];
    answer_.result.breaking = describe_found(f);
    const auto resolved = space_.scenario(layout);
    answer_.result.broken_constraints = broken_by(layout, std::get<Scenario>(resolved), f.figures);
  }

  // The layout that needs least, of those that need least by their bounds; what has none comes
  // last.
  void find_nearest() {
    std::vector<uint32_t> order(layouts().size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](uint32_t i) {
      const Bytes bound = bounds_[i].memory;
      return std::tuple(bound == Bytes{}, bound, i);
    });
    constexpr int kLookedAt = 16, kTried = 16 * kLookedAt;  // some are illegal after all
    int looked_at = 0, tried = 0;
    for (const uint32_t i : order) {
      if (looked_at == kLookedAt || ++tried > kTried) break;
      const auto resolved = space_.scenario(layouts()[i]);
      const Scenario* scenario = std::get_if<Scenario>(&resolved);
      if (scenario == nullptr) continue;
      const std::optional<Result> memory = forecast_memory(*scenario);
      if (!memory) continue;
      ++looked_at;
      std::optional<FoundLayout>& nearest = answer_.result.nearest;
      if (!nearest || memory->memory_reserved < nearest->reserved)
        nearest = describe_layout(i, {Time{}, memory->memory_reserved, 0}, memory->memory_usable);
    }
  }

  SearchSpace space_;
  const SearchRun& run_;
  const SearchSettings& settings_;
  const Job job_;         // what the section `job` makes of a step
  const JobFacts facts_;  // what rows of it say
  SearchAnswer answer_;
  std::vector<Bytes> most_room_;  // that a layout of each place can have
  std::vector<LayoutBound> bounds_;
  std::vector<Decided> decided_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;  // of each thread
  std::vector<Found> found_;                            // best first
  std::optional<Found> breaking_;  // the best of those that fit and break a constraint
  bool breaking_only_ = false;     // what is looked at now keeps none
  double threshold_ = std::numeric_limits<double>::infinity();
  std::map<uint32_t, double> joules_;                    // a token, by layout
  std::map<uint32_t, StepRow> points_;                   // by layout
  std::vector<std::pair<uint32_t, std::string>> steps_;  // layout, axis
  bool stopped_ = false;
};

}  // namespace

SearchAnswer search_layouts(const ScenarioDocument& document, const SearchOptions& options,
                            const SearchRun& run) {
  SearchAnswer answer = Searcher(document, options, run).search();
  SearchResult& result = answer.result;
  const bool ended = result.undecided == 0 && result.all_seen;
  if (!ended && result.best.empty() && !result.breaking && !run.any)
    result.simple = simple_layout_that_fits(document);
  const std::optional<FoundLayout>& nearest = answer.result.nearest;
  const auto stopped = [&] { return run.stop && run.stop({}); };
  const bool by_where =
      std::ranges::count(result.illegal, SearchRule::Kind::where, &SearchRule::kind) > 0;
  if (ended && result.layouts == 0 && !by_where && !run.any)
    result.legal_gpus = nearest_legal_gpus(document, options, stopped);
  constexpr int64_t kMostTimes = 64;
  for (int64_t times = 2; nearest && nearest->reserved > nearest->usable && times <= kMostTimes &&
                          !answer.result.on_more_nodes && !run.any && !stopped();
       times *= 2) {
    ScenarioDocument larger = document;
    larger.set("cluster.nodes", scalar_value(fmt::to_string(nearest->nodes * times)));
    answer.result.on_more_nodes = simple_layout_that_fits(larger);
  }
  return answer;
}

}  // namespace stepcast
