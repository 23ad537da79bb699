// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/recipes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/runs/convert.h"
#include "report/text/search.h"
#include "scenarios/forecast/evaluator.h"
#include "scenarios/scenario_document.h"
#include "scenarios/search/search.h"
#include "sim/account/account.h"
#include "sim/graph/spend.h"

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

// Nothing where there is nothing to compare.
std::optional<Recipe> find_recipe(const RunRecord& record, const std::string& text, int threads,
                                  double seconds) {
  const ScenarioDocument document = ScenarioDocument::of_text(text, record.id + ".yaml", "");
  const auto resolved = document.try_resolve();
  const Scenario* scenario = std::get_if<Scenario>(&resolved);
  if (scenario == nullptr || !scenario->plan.trains() || scenario->to_make) return {};
  Recipe recipe;
  recipe.id = record.id;
  recipe.source = record.source;
  recipe.gpus = scenario->plan.grid.world();
  recipe.layout = layout_text(layout_of(*scenario));
  const std::optional<StepOutcome> own = Evaluator().step(*scenario);
  if (!own) return {};
  recipe.step_s = to_seconds(own->time);

  ScenarioDocument searched = document;
  searched.set("search", {});
  searched.set("search.top", scalar_value("1"));
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

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string shares_text(const RecipeShares& s) {
  return fmt::format("{} / {} / {}", percent(s.bubble), percent(s.exposed), percent(s.recomputed));
}

}  // namespace

std::vector<Recipe> find_recipes(const std::vector<RunRecord>& records,
                                 const std::vector<RunRule>& rules, int threads, double seconds) {
  std::vector<Recipe> all;
  std::set<std::string> seen;
  for (const RunRecord& record : records) {
    if (!record.problem.empty()) continue;
    const RunConversion run = convert_run(record, rules);
    if (run.skipped || run.scenario.empty()) continue;
    try {
      std::optional<Recipe> recipe = find_recipe(record, run.scenario, threads, seconds);
      if (!recipe) continue;
      const std::string key =
          fmt::format("{} {} {} {}", recipe->source, recipe->gpus, recipe->layout, recipe->step_s);
      if (!seen.insert(key).second) continue;
      fmt::print(stderr, "{}: {} of {} layouts are faster, the best by {} %\n", recipe->id,
                 recipe->faster, recipe->layouts, percent(recipe->behind()));
      all.push_back(*std::move(recipe));
    } catch (const InputError& e) {  // a scenario that forecasts refuse
      fmt::print(stderr, "{}: {}\n", record.id, e.what());
    }
  }
  return all;
}

std::string recipes_markdown(const std::vector<Recipe>& recipes) {
  struct Sum {
    int64_t count = 0, near = 0, first = 0, both = 0;
  };
  std::map<std::string, Sum> sums;
  const auto add = [](Sum& s, const Recipe& r) {
    const bool near = r.behind() <= kClaim;
    const bool first = 10 * r.faster <= r.layouts;
    ++s.count;
    s.near += near;
    s.first += first;
    s.both += near && first;
  };
  Sum whole;
  for (const Recipe& r : recipes) {
    add(sums[r.source], r);
    add(whole, r);
  }
  std::string text =
      "| source | recipes | within 10 % of the best found | in the first 10 % of layouts | both "
      "|\n|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const Sum& s) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name, s.count, s.near, s.first, s.both);
  };
  for (const auto& [name, sum] : sums) line(name, sum);
  line("all", whole);
  text +=
      "\n| recipe | GPUs | layout | forecast s | best found | forecast s | behind, % | layouts "
      "faster | of |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const Recipe& r : recipes)
    text += fmt::format("| {} | {} | {} | {:.4g} | {} | {} | {} | {}{} | {} |\n", r.id, r.gpus,
                        r.layout, r.step_s, r.best.empty() ? "none fits" : r.best,
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
