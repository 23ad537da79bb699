// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/recipes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/runs/convert.h"
#include "calibrate/runs/measured_run.h"
#include "report/text/search.h"
#include "scenarios/forecast/evaluator.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario_document.h"
#include "scenarios/search/search.h"
#include "sim/account/account.h"
#include "sim/graph/spend.h"
#include "tools/runs/run_model.h"
#include "tools/runs/summary.h"

namespace stepcast::accuracy {
namespace {

FoundLayout layout_of(const Scenario& s) {
  FoundLayout l;
  l.gpus = s.plan.grid.world();
  l.tp = s.plan.tp;
  l.cp = s.plan.cp;
  l.pp = s.plan.pp;
  l.vpp = s.plan.vpp;
  l.ep = s.plan.ep;
  l.etp = s.plan.etp;
  l.dp = s.plan.dp;
  l.micro = s.plan.micro_batch;
  l.zero = s.plan.zero;
  for (const Setting& x : s.settings)
    if (x.path == "recompute.granularity") l.recompute = x.value;
  if (l.recompute.empty()) l.recompute = "none";
  return l;
}

RecipeShares shares_of(const Scenario& scenario) {
  const Result r = forecast(scenario, {.what_if = false});
  const SpendTable& critical = r.account.by_role[r.account.critical_role];
  const auto share = [&](bool (*counts)(Spend)) {
    return to_seconds(sum_if(critical, counts)) / to_seconds(r.makespan);
  };
  return {share(is_bubble), share(is_exposed),
          share([](Spend s) { return s == Spend::recompute; })};
}

// A layout that somebody ran, and what its step took.
struct Ran {
  std::string id, source;
  ScenarioDocument document;
  std::string alike;  // the scenario without its layout
  double seconds = 0;
};

// Nothing where the record has no step that trains and was measured.
std::unique_ptr<const Ran> measured_step(const RunRecord& record,
                                         const std::vector<RunRule>& rules) {
  if (!record.problem.empty()) return {};
  const RunConversion run = convert_run(record, rules);
  if (run.skipped || run.scenario.empty()) return {};
  ScenarioDocument document = ScenarioDocument::of_text(run.scenario, record.id + ".yaml", "");
  const auto resolved = document.try_resolve();
  const Scenario* scenario = std::get_if<Scenario>(&resolved);
  if (scenario == nullptr || !scenario->plan.trains() || scenario->to_make) return {};
  const StepSize size = step_size(*scenario);
  const MeasuredRun measured = measured_run(record, &size);
  if (!measured.step_time_s || measured.basis == TimeBasis::layer ||
      measured.out_of_memory.value_or(false))
    return {};
  return std::make_unique<const Ran>(Ran{record.id, record.source, std::move(document),
                                         without_layout(run.scenario), *measured.step_time_s});
}

// Nothing where the step deadlocks.
std::optional<Recipe> find_recipe(const Ran& measured, int threads, double seconds) {
  const ScenarioDocument& document = measured.document;
  const auto resolved = document.try_resolve();
  const Scenario* scenario = std::get_if<Scenario>(&resolved);
  if (scenario == nullptr) return {};
  Recipe recipe;
  recipe.id = measured.id;
  recipe.source = measured.source;
  recipe.gpus = scenario->plan.grid.world();
  recipe.layout = layout_text(layout_of(*scenario));
  recipe.measured_s = measured.seconds;
  const std::optional<StepOutcome> own = Evaluator().step(*scenario);
  if (!own) return {};
  recipe.step_s = to_seconds(own->time);

  ScenarioDocument searched = document;
  searched.set("search", {});
  searched.set("search.top", scalar_value("1"));
  searched.set("search.memory_margin", scalar_value("10%"));
  SearchRun run;
  run.jobs = threads;
  run.forecasts = false;
  run.against = own->time;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  run.stop = [&](std::optional<Time>) {
    return std::chrono::duration<double>(Clock::now() - begin).count() > seconds;
  };
  const SearchAnswer answer = search_layouts(searched, {}, run);
  recipe.layouts = answer.result.layouts;
  recipe.faster = answer.result.faster;
  recipe.stopped = answer.result.undecided > 0 || !answer.result.all_seen;
  if (answer.result.best.empty()) return recipe;
  const FoundLayout& best = answer.result.best.front();
  recipe.best_s = to_seconds(best.step_time);
  recipe.best = layout_text(best);
  if (recipe.behind() > kClaim) {
    recipe.shares = shares_of(*scenario);
    recipe.best_shares = shares_of(answer.documents.front().resolve());
  }
  return recipe;
}

// Nothing where the scenario states no measured step.
std::unique_ptr<const Ran> stated_step(const std::string& file) {
  ScenarioDocument document = ScenarioDocument::of_file(file, "");
  const Scenario scenario = document.resolve();
  for (const Measured& m : scenario.measured)
    if (m.variant.empty() && m.step_time_s)
      return std::make_unique<const Ran>(
          Ran{scenario.name, "scenarios", std::move(document), {}, *m.step_time_s});
  return {};
}

std::string shares_text(const RecipeShares& s) {
  return fmt::format("{} / {} / {}", percent(s.bubble), percent(s.exposed), percent(s.recomputed));
}

}  // namespace

std::vector<Recipe> find_recipes(const std::vector<RunRecord>& records,
                                 const std::vector<RunRule>& rules,
                                 const std::vector<std::string>& scenarios, int threads,
                                 double seconds) {
  std::vector<std::unique_ptr<const Ran>> chosen;
  std::map<std::string, size_t> fastest;  // of what differs in layout alone: index into chosen
  for (const RunRecord& record : records) {
    std::unique_ptr<const Ran> ran = measured_step(record, rules);
    if (!ran) continue;
    const auto [at, fresh] = fastest.try_emplace(ran->source + '/' + ran->alike, chosen.size());
    if (fresh)
      chosen.push_back(std::move(ran));
    else if (ran->seconds < chosen[at->second]->seconds)
      chosen[at->second] = std::move(ran);
  }
  for (const std::string& file : scenarios)
    if (std::unique_ptr<const Ran> ran = stated_step(file)) chosen.push_back(std::move(ran));
  std::vector<Recipe> all;
  for (const auto& ran : chosen) {
    try {
      std::optional<Recipe> recipe = find_recipe(*ran, threads, seconds);
      if (!recipe) continue;
      fmt::print(stderr, "{}: {} of {} layouts are faster, the best by {} %{}\n", recipe->id,
                 recipe->faster, recipe->layouts, percent(recipe->behind()),
                 recipe->stopped ? ", out of time" : "");
      all.push_back(*std::move(recipe));
    } catch (const InputError& e) {  // a scenario that forecasts refuse
      fmt::print(stderr, "{}: {}\n", ran->id, e.what());
    }
  }
  return all;
}

std::string recipes_markdown(const std::vector<Recipe>& recipes) {
  struct Sum {
    int64_t count = 0, compared = 0, near = 0, first = 0, both = 0;
  };
  std::map<std::string, Sum> sums;
  const auto add = [](Sum& s, const Recipe& r) {
    ++s.count;
    if (r.best.empty()) return;
    const bool near = r.behind() <= kClaim;
    const bool first = 10 * r.faster <= r.layouts;
    ++s.compared;
    s.near += near;
    s.first += first;
    s.both += near && first;
  };
  constexpr int64_t kMany = 100;  // of fewer the first tenth is a handful
  Sum whole, of_many;
  for (const Recipe& r : recipes) {
    add(sums[r.source], r);
    add(whole, r);
    if (r.layouts >= kMany) add(of_many, r);
  }
  std::string text =
      "| source | recipes | a layout was found that fits | within 10 % of the best found | in the "
      "first 10 % of layouts | both |\n|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const Sum& s) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", name, s.count, s.compared, s.near,
                        s.first, s.both);
  };
  for (const auto& [name, sum] : sums) line(name, sum);
  line("all", whole);
  line(fmt::format("of these, among {} layouts and more", kMany), of_many);
  text +=
      "\n| recipe | GPUs | layout | measured s | forecast s | best found | forecast s | behind, % "
      "| "
      "layouts faster | of |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Recipe& r : recipes)
    text += fmt::format("| {} | {} | {} | {:.4g} | {:.4g} | {} | {} | {} | {}{} | {} |\n", r.id,
                        r.gpus, r.layout, r.measured_s, r.step_s,
                        !r.best.empty() ? r.best
                        : r.stopped     ? "none in time"
                                        : "none fits",
                        r.best_s > 0 ? fmt::format("{:.4g}", r.best_s) : "-",
                        r.best_s > 0 ? percent(r.behind()) : "-", r.stopped ? "at least " : "",
                        r.faster, r.layouts);
  std::string claims;
  for (const Recipe& r : recipes)
    if (r.shares && r.best_shares)
      claims += fmt::format("| {} | {} | {} | {} |\n", r.id, percent(r.behind()),
                            shares_text(*r.shares), shares_text(*r.best_shares));
  if (!claims.empty())
    text +=
        "\nBubble / exposed communication / recomputation, % of the step, where the best found "
        "is forecast to be\nfaster by more than 10 %:\n\n"
        "| recipe | behind, % | the recipe spends | the best found spends |\n|---|---|---|---|\n" +
        claims;
  return text;
}

}  // namespace stepcast::accuracy
