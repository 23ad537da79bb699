// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/search.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "scenarios/forecast/evaluator.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step.h"
#include "scenarios/search/funnel.h"
#include "scenarios/search/nearest.h"
#include "scenarios/search/objectives.h"
#include "scenarios/search/shard.h"
#include "scenarios/search/steps.h"
#include "scenarios/search/sweep.h"
#include "sim/check.h"
#include "sim/for_each_item.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// A funnel that has been run, in words.
class Description {
 public:
  Description(const SearchSpace& space, const Objectives& objectives, const SearchRun& run,
              Funnel& funnel, SearchAnswer& answer)
      : space_(space),
        objectives_(objectives),
        run_(run),
        settings_(space.settings()),
        funnel_(funnel),
        answer_(answer) {}

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
    r.stopped = funnel_.was_stopped();
    r.layouts = static_cast<int64_t>(layouts().size());
    r.simulated = static_cast<int64_t>(funnel_.rows().size());
    r.decided = funnel_.rules();
    r.undecided = std::ranges::count(funnel_.decided(), Decided::open);
    r.part = run_.shard.index + 1;
    r.parts = run_.shard.count;
    const bool front = settings_.objectives.size() > 1;
    for (const FoundStep& f : found())
      if (f.values.front() <= found().front().values.front() * (1 + kDiscernment))
        ++r.within_discernment;
    const std::vector<size_t> lines =
        funnel_.heads(front ? found().size() : static_cast<size_t>(settings_.top));
    for (const size_t head : lines) {
      const FoundStep& f = found()[head];
      FoundLayout& line = r.best.emplace_back(describe_found(f));
      line.on_front = front;
      for (size_t i = head + 1; !front && i < found().size(); ++i)
        if (found()[i].family == f.family && is_twin(found()[i], f) &&
            std::ranges::count(lines, i) == 0)
          line.twins.push_back(describe_found(found()[i]));
      answer_.documents.push_back(space_.document(layouts()[f.layout]));
    }
    if (run_.forecasts) {
      forecast_lines(lines);
      if (!lines.empty()) {
        find_steps(found()[lines.front()].layout);
        if (!funnel_.stopped()) find_switches(found()[lines.front()]);
      }
    }
    if (run_.against)
      r.faster = std::ranges::count_if(
          found(), [&](const FoundStep& f) { return f.figures.time < *run_.against; });
    choose_next();
    rank_points();
    if (found().empty() && funnel_.breaking())
      describe_breaking();
    else if (found().empty() && !funnel_.was_stopped())
      find_nearest();
  }

 private:
  const std::vector<Layout>& layouts() const { return funnel_.layouts(); }
  const std::vector<FoundStep>& found() const { return funnel_.found(); }

  FoundLayout describe_layout(uint32_t index, const StepFigures& figures, Bytes usable) const {
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
      out.tokens_per_gpu_s =
          1 / objectives_.value(SearchObjective::tokens_per_gpu_s, l.place, figures);
      if (settings_.tokens > 0)
        out.days = objectives_.value(SearchObjective::days, l.place, figures);
      if (settings_.tokens > 0 && settings_.price > 0)
        out.price = objectives_.value(SearchObjective::price, l.place, figures);
    }
    return out;
  }

  FoundLayout describe_found(const FoundStep& f) const {
    return describe_layout(f.layout, f.figures, f.usable);
  }

  void forecast_lines(const std::vector<size_t>& lines) {
    for (size_t from = 0; from < lines.size() && (from == 0 || !funnel_.stopped());) {
      const size_t count = funnel_.stopped() ? 1 : std::min(funnel_.threads(), lines.size() - from);
      for_each_item(count, run_.jobs, [&](size_t i, size_t) {
        auto resolved = space_.scenario(layouts()[found()[lines[from + i]].layout]);
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
      for (size_t i = 0; i < found().size(); ++i) {
        if (std::ssize(chosen) >= run_.next || (funnel_.stopped() && !chosen.empty())) return;
        const Layout& layout = layouts()[found()[i].layout];
        if (std::ranges::any_of(chosen, [&](size_t c) {
              return unlike(layouts()[found()[c].layout], layout) < axes;
            }))
          continue;
        const auto resolved = space_.scenario(layout);
        const std::optional<Result> memory = forecast_memory(std::get<Scenario>(resolved));
        if (memory && memory->fits_share.value_or(1) < kLikely) continue;
        chosen.push_back(i);
        answer_.result.next.push_back(describe_found(found()[i]));
        answer_.next.push_back(space_.document(layout));
      }
    }
  }

  // In the order of the answer: those that fit and keep the constraints, best first.
  void rank_points() {
    struct Ranked {
      bool counts = false;
      FoundStep found;  // values and layout alone
    };
    std::vector<Ranked> order;
    for (const auto& [index, row] : funnel_.points()) {
      const Layout& l = layouts()[index];
      const StepFigures figures{Time{*row.step_time_ps}, Bytes{*row.reserved_bytes},
                                funnel_.joules(index, Time{*row.step_time_ps})};
      // One that was looked at as a step alone is not decided by that.
      const bool counts = funnel_.decided()[index] == Decided::fits ||
                          (funnel_.decided()[index] != Decided::constraint &&
                           figures.memory <= objectives_.room_of(Bytes{row.usable_bytes}) &&
                           keeps_constraints(index, figures));
      order.push_back({counts, {objectives_.values(l.place, figures), index, {}, {}, {}}});
    }
    std::ranges::sort(order, [](const Ranked& a, const Ranked& b) {
      return a.counts != b.counts ? a.counts : a.found < b.found;
    });
    StepPoints& points = answer_.points;
    std::map<uint32_t, size_t> places;
    for (const Ranked& r : order) {
      if (r.counts) ++points.counted;
      places.emplace(r.found.layout, points.rows.size());
      points.rows.push_back(std::move(funnel_.points().at(r.found.layout)));
    }
    for (const auto& [layout, axis] : steps_) points.steps.push_back({axis, places.at(layout)});
  }

  bool keeps_constraints(uint32_t index, const StepFigures& figures) const {
    if (settings_.constraints.empty()) return true;
    const auto resolved = space_.scenario(layouts()[index]);
    const Scenario* scenario = std::get_if<Scenario>(&resolved);
    return scenario != nullptr &&
           objectives_.broken_by(layouts()[index], *scenario, figures).empty();
  }

  // What the layouts next to the first take and hold, whatever the bounds say of them.
  void find_steps(uint32_t first) {
    const std::vector<LayoutStep> steps = steps_from(space_, layouts(), first);
    std::vector<std::optional<SearchStep>> found(steps.size());
    std::vector<std::optional<StepRow>> points(steps.size());
    for (size_t from = 0; from < steps.size() && !funnel_.stopped();) {
      const size_t count = std::min(4 * funnel_.threads(), steps.size() - from);
      for_each_item(count, run_.jobs, [&](size_t i, size_t t) {
        found[from + i] = take_step(steps[from + i], funnel_.evaluator(t), points[from + i]);
      });
      from += count;
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!found[i]) continue;
      if (points[i]) funnel_.points().emplace(steps[i].layout, *std::move(points[i]));
      if (funnel_.points().contains(steps[i].layout))
        steps_.emplace_back(steps[i].layout, found[i]->axis);
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
    const auto known = std::ranges::find(funnel_.rows(), step.layout, &SearchRow::layout);
    if (known != funnel_.rows().end() && known->outcome == SearchRow::Outcome::fits)
      return SearchStep{
          step.axis,
          step.from,
          step.to,
          step.too,
          true,
          true,
          describe_layout(step.layout,
                          {known->time, known->reserved, funnel_.joules(step.layout, known->time)},
                          usable),
          keeps_constraints(step.layout, {known->time, known->reserved,
                                          funnel_.joules(step.layout, known->time)})};
    const Evaluator::Trial trial =
        evaluator.attempt(*scenario, objectives_.room_of(usable), Time::max());
    using Outcome = Evaluator::Trial::Outcome;
    if (trial.outcome == Outcome::impossible) return {};
    point = funnel_.point_of(*scenario, layouts()[step.layout], trial);
    const bool fits = trial.outcome == Outcome::fits;
    const StepFigures figures{fits ? trial.time : Time{}, std::max(trial.reserved, trial.peak),
                              fits ? objectives_.joules_of(*scenario) : 0};
    return SearchStep{
        step.axis,
        step.from,
        step.to,
        step.too,
        fits,
        true,
        describe_layout(step.layout, figures, usable),
        !fits || objectives_.broken_by(layouts()[step.layout], *scenario, figures).empty()};
  }

  // What the first layout would take with a switch of the software on that is no axis of the space,
  // and with those on together that make it faster, the best first: some exclude others.
  void find_switches(const FoundStep& first) {
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
        funnel_.evaluator(0).attempt(*scenario, objectives_.room_of(usable), Time::max());
    if (trial.outcome == Evaluator::Trial::Outcome::impossible) return {};
    SearchStep step{set.front().first,
                    from,
                    set.front().second,
                    {},
                    trial.outcome == Evaluator::Trial::Outcome::fits,
                    false,
                    {}};
    for (size_t i = 1; i < set.size(); ++i) step.too.push_back(set[i].first + ' ' + set[i].second);
    const StepFigures figures{step.fits ? trial.time : Time{}, std::max(trial.reserved, trial.peak),
                              step.fits ? objectives_.joules_of(*scenario) : 0};
    step.layout =
        describe_layout(static_cast<uint32_t>(&layout - layouts().data()), figures, usable);
    step.keeps = !step.fits || objectives_.broken_by(layout, *scenario, figures).empty();
    step.layout.set.insert(step.layout.set.end(), set.begin(), set.end());
    return step;
  }

  // Layouts fit, and none keeps the constraints.
  void describe_breaking() {
    const FoundStep& f = *funnel_.breaking();
    const Layout& layout = layouts()[f.layout];
    answer_.result.breaking = describe_found(f);
    const auto resolved = space_.scenario(layout);
    answer_.result.broken_constraints =
        objectives_.broken_by(layout, std::get<Scenario>(resolved), f.figures);
  }

  // The layout that needs least, of those that need least by their bounds; what has none comes
  // last.
  void find_nearest() {
    std::vector<uint32_t> order(layouts().size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](uint32_t i) {
      const Bytes bound = funnel_.bound(i).memory;
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

  const SearchSpace& space_;
  const Objectives& objectives_;
  const SearchRun& run_;
  const SearchSettings& settings_;
  Funnel& funnel_;
  SearchAnswer& answer_;
  std::vector<std::pair<uint32_t, std::string>> steps_;  // layout, axis
};

SearchAnswer search_space(const ScenarioDocument& document, const SearchOptions& options,
                          const SearchRun& run) {
  const SearchSpace space(document, options);
  const Objectives objectives(space, document);
  const std::optional<Time> budget = space.settings().budget;
  bool stopped = false;
  SearchSpace::Layouts layouts = space.layouts([&] {
    stopped = stopped || (run.stop && run.stop(budget));
    return stopped;
  });
  SearchAnswer answer;
  answer.result.all_seen = layouts.all_seen;
  answer.result.points = layouts.points;
  answer.result.illegal = std::move(layouts.rules);
  if (run.shard.count > 1)
    std::erase_if(layouts.all,
                  [&](const Layout& l) { return !is_in_shard(run.shard, space.key_of(l)); });
  Funnel funnel(space, objectives, run, std::move(layouts.all));
  if (stopped) funnel.stop();
  funnel.run();
  Description(space, objectives, run, funnel, answer).describe();
  answer.bounds_too_high = funnel.bounds_too_high();
  answer.rows = funnel.take_rows();
  answer.layouts = funnel.take_layouts();
  return answer;
}

}  // namespace

SearchAnswer search_layouts(const ScenarioDocument& document, const SearchOptions& options,
                            const SearchRun& run) {
  SearchAnswer answer = search_space(document, options, run);
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
