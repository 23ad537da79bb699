// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/recipes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/runs/convert.h"
#include "calibrate/runs/measured_run.h"
#include "report/text/search.h"
#include "scenarios/forecast/evaluator.h"
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

// A record that can be a recipe.
struct Measured {
  const RunRecord* record = nullptr;
  std::string scenario;
  double seconds = 0;
};

// Nothing where the record has no step that trains and was measured.
std::optional<Measured> measured_step(const RunRecord& record, const std::vector<RunRule>& rules) {
  if (!record.problem.empty()) return {};
  const RunConversion run = convert_run(record, rules);
  if (run.skipped || run.scenario.empty()) return {};
  const auto resolved =
      ScenarioDocument::of_text(run.scenario, record.id + ".yaml", "").try_resolve();
  const Scenario* scenario = std::get_if<Scenario>(&resolved);
  if (scenario == nullptr || !scenario->plan.trains() || scenario->to_make) return {};
  const StepSize size = step_size(*scenario);
  const MeasuredRun measured = measured_run(record, &size);
  if (!measured.step_time_s || measured.basis == TimeBasis::layer ||
      measured.out_of_memory.value_or(false))
    return {};
  return Measured{&record, run.scenario, *measured.step_time_s};
}

// Nothing where the step deadlocks.
std::optional<Recipe> find_recipe(const Measured& measured, int threads, double seconds) {
  const RunRecord& record = *measured.record;
  const ScenarioDocument document =
      ScenarioDocument::of_text(measured.scenario, record.id + ".yaml", "");
  const auto resolved = document.try_resolve();
  const Scenario* scenario = std::get_if<Scenario>(&resolved);
  if (scenario == nullptr) return {};
  Recipe recipe;
  recipe.id = record.id;
  recipe.source = record.source;
  recipe.gpus = scenario->plan.grid.world();
  recipe.layout = layout_text(layout_of(*scenario));
  recipe.measured_s = measured.seconds;
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

std::string shares_text(const RecipeShares& s) {
  return fmt::format("{} / {} / {}", percent(s.bubble), percent(s.exposed), percent(s.recomputed));
}

}  // namespace

std::vector<Recipe> find_recipes(const std::vector<RunRecord>& records,
                                 const std::vector<RunRule>& rules, int threads, double seconds) {
  std::map<std::string, Measured> fastest;  // of what differs in layout alone
  std::vector<std::string> order;
  for (const RunRecord& record : records) {
    std::optional<Measured> m = measured_step(record, rules);
    if (!m) continue;
    const std::string key = record.source + '/' + without_layout(m->scenario);
    const auto [at, fresh] = fastest.try_emplace(key, *m);
    if (fresh) order.push_back(key);
    if (m->seconds < at->second.seconds) at->second = *std::move(m);
  }
  std::vector<Recipe> all;
  for (const std::string& key : order) {
    const Measured& m = fastest.at(key);
    try {
      std::optional<Recipe> recipe = find_recipe(m, threads, seconds);
      if (!recipe) continue;
      fmt::print(stderr, "{}: {} of {} layouts are faster, the best by {} %\n", recipe->id,
                 recipe->faster, recipe->layouts, percent(recipe->behind()));
      all.push_back(*std::move(recipe));
    } catch (const InputError& e) {  // a scenario that forecasts refuse
      fmt::print(stderr, "{}: {}\n", m.record->id, e.what());
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
      "\n| recipe | GPUs | layout | measured s | forecast s | best found | forecast s | behind, % "
      "| "
      "layouts faster | of |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Recipe& r : recipes)
    text +=
        fmt::format("| {} | {} | {} | {:.4g} | {:.4g} | {} | {} | {} | {}{} | {} |\n", r.id, r.gpus,
                    r.layout, r.measured_s, r.step_s, r.best.empty() ? "none fits" : r.best,
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
