// SPDX-License-Identifier: Apache-2.0
// Searches: what is left out is no better, bounds are none too high, threads change nothing, and
// what is wrong with a section is said.
#include "scenarios/search/search.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/forecast/forecast.h"
#include "scenarios/search/bounds.h"
#include "tests/scenarios/loading.h"

namespace stepcast::search_test {
namespace {

ScenarioDocument document(const std::string& text) {
  return ScenarioDocument::of_text(text, "run.yaml", "");
}

// Small models of several kinds, each with some thousand layouts.
struct Space {
  const char* name;
  std::string text;
};

const std::vector<Space>& spaces() {
  static const std::vector<Space> kSpaces{
      {"dense",
       "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 2\n"
       "batch: {global: 32, seq: 2048}\n"
       "search: {memory_margin: 20%, space: {parallel.cp: 1, batch.micro: [1, 2]}}\n"},
      {"experts",
       "model: {preset: mixtral-8x7b, num_hidden_layers: 6}\ncluster: dgx-h100 x 1\n"
       "batch: {global: 16, seq: 2048}\n"
       "search: {space: {parallel.cp: 1, batch.micro: 1}}\n"},
      {"uneven",
       "model: {preset: gpt3-1.3b, num_hidden_layers: 7}\ncluster: dgx-a100-80g x 1\n"
       "batch: {global: 32, seq: 1024}\n"
       "search: {space: {batch.micro: [1, 2]}}\n"},
      {"long context",
       "model: {preset: llama3-8b, num_hidden_layers: 4}\ncluster: dgx-h100 x 2\n"
       "batch: {global: 16, seq: 16384}\n"
       "search: {space: {batch.micro: 1, parallel.split: even}}\n"},
      {"ZeRO-3",
       "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 2\n"
       "batch: {global: 64, seq: 2048}\n"
       "search: {space: {parallel.pp: 1, parallel.zero: [0, 1, 2, 3]}}\n"},
  };
  return kSpaces;
}

using Key = std::tuple<int64_t, int64_t, std::string>;

std::vector<Key> best_of(const SearchAnswer& answer) {
  std::vector<Key> keys;
  for (const FoundLayout& l : answer.result.best) {
    std::string set;
    for (const auto& [path, value] : l.set) set += path + '=' + value + ';';
    keys.emplace_back(l.step_time.count(), l.reserved.value, set);
  }
  return keys;
}

SearchRun quick(bool exhaustive = false, int jobs = 2) {
  SearchRun run;
  run.forecasts = false;
  run.exhaustive = exhaustive;
  run.jobs = jobs;
  return run;
}

TEST(Search, WhatIsLeftOutIsNoBetter) {
  for (const Space& space : spaces()) {
    SCOPED_TRACE(space.name);
    const SearchAnswer all = search_layouts(document(space.text), {}, quick(true));
    const SearchAnswer safe = search_layouts(document(space.text), {}, quick());
    EXPECT_EQ(best_of(safe), best_of(all));
    EXPECT_EQ(safe.result.within_discernment, all.result.within_discernment);
    EXPECT_EQ(all.result.simulated, all.result.layouts);
    EXPECT_LT(safe.result.simulated, all.result.simulated);
    EXPECT_EQ(all.bounds_too_high, 0);
    EXPECT_FALSE(all.result.best.empty());
  }
}

TEST(Search, ThreadsAndTheirNumberChangeNothing) {
  const std::string& text = spaces().front().text;
  const SearchAnswer one = search_layouts(document(text), {}, quick(false, 1));
  for (const int jobs : {2, 3, 8}) {
    const SearchAnswer several = search_layouts(document(text), {}, quick(false, jobs));
    EXPECT_EQ(best_of(several), best_of(one));
    ASSERT_EQ(several.rows.size(), one.rows.size());
    for (size_t i = 0; i < one.rows.size(); ++i) {
      EXPECT_EQ(several.rows[i].layout, one.rows[i].layout);
      EXPECT_EQ(several.rows[i].time, one.rows[i].time);
      EXPECT_EQ(several.rows[i].reserved, one.rows[i].reserved);
    }
    ASSERT_EQ(several.result.decided.size(), one.result.decided.size());
    for (size_t i = 0; i < one.result.decided.size(); ++i)
      EXPECT_EQ(several.result.decided[i].count, one.result.decided[i].count);
  }
}

TEST(Search, PartsOfASpaceMakeTheWhole) {
  const std::string& text = spaces().front().text;
  const SearchAnswer whole = search_layouts(document(text), {}, quick());
  std::set<Key> parts;
  int64_t layouts = 0;
  for (int64_t i = 0; i < 3; ++i) {
    SearchRun run = quick();
    run.shard = {i, 3};
    const SearchAnswer part = search_layouts(document(text), {}, run);
    layouts += part.result.layouts;
    for (const Key& key : best_of(part)) parts.insert(key);
  }
  EXPECT_EQ(layouts, whole.result.layouts);
  for (const Key& key : best_of(whole)) EXPECT_TRUE(parts.contains(key)) << std::get<2>(key);
}

TEST(Search, TheBestIsAScenarioThatRunReproduces) {
  const std::string& text = spaces()[1].text;
  SearchRun run;
  const SearchAnswer answer = search_layouts(document(text), {}, run);
  ASSERT_FALSE(answer.result.best.empty());
  for (size_t i = 0; i < 3; ++i) {
    const FoundLayout& l = answer.result.best[i];
    LoadOptions options;
    options.set = l.set;
    const Result result = forecast(load_scenario_text(text, "run.yaml", options));
    EXPECT_EQ(result.step_time, l.step_time);
    EXPECT_EQ(result.memory_reserved, l.reserved);
    ASSERT_TRUE(l.result.has_value());
    EXPECT_EQ(l.result->step_time, l.step_time);
  }
}

TEST(Search, EveryPointIsCountedOnce) {
  for (const Space& space : spaces()) {
    SCOPED_TRACE(space.name);
    const SearchSpace::Layouts layouts = SearchSpace(document(space.text)).layouts();
    double sum = static_cast<double>(layouts.all.size());
    for (const SearchRule& rule : layouts.rules) sum += static_cast<double>(rule.count);
    EXPECT_EQ(sum, layouts.points);
  }
}

TEST(Search, LayoutsAreScenariosThatDiffer) {
  for (const Space& space : spaces()) {
    SCOPED_TRACE(space.name);
    const SearchSpace s(document(space.text));
    const SearchSpace::Layouts layouts = s.layouts();
    std::set<std::string> keys;
    for (const Layout& l : layouts.all) EXPECT_TRUE(keys.insert(s.key_of(l)).second) << s.key_of(l);
    for (size_t i = 0; i < layouts.all.size(); i += 97) {
      const Layout& l = layouts.all[i];
      const auto resolved = s.scenario(l);
      const Scenario* scenario = std::get_if<Scenario>(&resolved);
      ASSERT_NE(scenario, nullptr) << s.key_of(l) << std::get<InputError>(resolved).what();
      EXPECT_EQ(scenario->plan.dp, s.dp_of(l));
      EXPECT_EQ(scenario->plan.microbatches(), s.microbatches_of(l));
      std::vector<int64_t> layers;
      for (const StageContent& c : scenario->plan.stages) layers.push_back(c.layers);
      EXPECT_EQ(layers, s.layers_of_stages(l)) << s.key_of(l);
    }
  }
}

TEST(Search, ConditionsLeaveLayoutsOut) {
  SearchOptions options;
  options.where = {"tp * pp == 4 and recompute != full"};
  const SearchSpace s(document(spaces().front().text), options);
  const SearchSpace::Layouts layouts = s.layouts();
  ASSERT_FALSE(layouts.all.empty());
  for (const Layout& l : layouts.all) {
    EXPECT_EQ(l.tp * l.pp, 4);
    EXPECT_NE(s.recompute_words()[l.recompute], "full");
  }
}

TEST(Search, SeveralObjectivesAskForTheFront) {
  const std::string text = spaces().front().text + "";
  LoadOptions options;
  options.set = {{"search.objective", "[step_time, peak_memory]"}};
  ScenarioDocument d = document(text);
  d.set(options);
  const SearchAnswer safe = search_layouts(d, {}, quick());
  const SearchAnswer all = search_layouts(d, {}, quick(true));
  EXPECT_EQ(best_of(safe), best_of(all));
  ASSERT_GT(safe.result.best.size(), 1u);
  for (size_t i = 1; i < safe.result.best.size(); ++i) {
    EXPECT_GT(safe.result.best[i].step_time, safe.result.best[i - 1].step_time);
    EXPECT_LT(safe.result.best[i].reserved, safe.result.best[i - 1].reserved);
  }
}

TEST(Search, DaysAndPriceFollowFromTheStep) {
  const std::string text =
      "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 1\n"
      "batch: {global: 32, seq: 2048}\n"
      "job: {tokens: 1T, price: 2.5USD/GPUh}\n"
      "search: {objective: price, top: 3, space: {cluster.nodes: [1, 2], batch.micro: 1, "
      "parallel.cp: 1, parallel.pp: 1}, constraints: 'days <= 1000'}\n";
  const SearchAnswer answer = search_layouts(document(text), {}, quick());
  ASSERT_EQ(answer.result.best.size(), 3u);
  for (const FoundLayout& l : answer.result.best) {
    const double steps = 1e12 / (32.0 * 2048);
    EXPECT_NEAR(l.days, steps * to_seconds(l.step_time) / 86400, 1e-6 * l.days);
    EXPECT_NEAR(l.price, l.days * 24 * static_cast<double>(l.gpus) * 2.5, 1e-6 * l.price);
  }
}

TEST(Search, NothingFitsSaysWhatIsNearest) {
  const std::string text =
      "model: llama3-70b\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n";
  const SearchAnswer answer = search_layouts(document(text), {}, quick());
  EXPECT_TRUE(answer.result.best.empty());
  ASSERT_TRUE(answer.result.nearest.has_value());
  EXPECT_GT(answer.result.nearest->reserved, answer.result.nearest->usable);
}

TEST(Search, StopsWhenItIsTold) {
  SearchRun run = quick();
  run.stop = [] { return true; };
  const SearchAnswer answer = search_layouts(document(spaces().front().text), {}, run);
  EXPECT_TRUE(answer.result.best.empty());
  EXPECT_EQ(answer.result.undecided, answer.result.layouts);
}

testing::Failure failure(const std::string& section) {
  const std::string text =
      "model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 64, seq: 4096}\n" + section;
  return testing::failure_of([&] { SearchSpace(document(text)).layouts(); });
}

TEST(Search, SaysWhatIsWrongWithASection) {
  EXPECT_EQ(failure("search: {space: {parallel.ttp: [1, 2]}}\n").lines,
            std::vector<std::string>{"E102 4:18 'parallel.ttp' is no key that can be searched"});
  EXPECT_EQ(failure("search: {space: {parallel.tp: []}}\n").lines,
            std::vector<std::string>{"E125 4:31 'parallel.tp' lists no values"});
  EXPECT_EQ(failure("search: {space: {parallel.tp: [1, x]}}\n").codes, "E107");
  EXPECT_EQ(failure("search: {space: {parallel.dp: [1, 2]}}\n").codes, "E127");
  EXPECT_EQ(failure("search: {space: {cluster.nodes: auto}}\n").codes, "E125");
  EXPECT_EQ(failure("search: {space: 3}\n").codes, "E107");
  EXPECT_EQ(failure("search: {where: 'tp <= '}\n").codes, "E125");
  EXPECT_EQ(failure("search: {where: 'peak_memory <= 3'}\n").codes, "E125");
  EXPECT_EQ(failure("search: {objective: speed}\n").codes, "E125");
  EXPECT_EQ(failure("search: {objective: energy}\n").codes, "E130");
  EXPECT_EQ(failure("search: {objective: price}\n").codes, "E126 E126");
  EXPECT_EQ(failure("search: {constraints: 'days < 30'}\n").codes, "E126");
  EXPECT_EQ(failure("search: {schedules: [1f1b, zb-9]}\n").codes, "E125");
  EXPECT_EQ(failure("search: {prune: hard}\n").codes, "E125");
  EXPECT_EQ(failure("search: {top: 0}\n").codes, "E121");
  EXPECT_EQ(failure("search: {spce: auto}\n").codes, "E102");
  EXPECT_EQ(failure("job: {price: 3}\n").codes, "E120");
  EXPECT_EQ(failure("objective: step_time\n").codes, "E102");
}

TEST(Search, SaysEverythingThatIsWrongAtOnce) {
  const testing::Failure f = failure(
      "search: {space: {parallel.ttp: 1, parallel.tp: []}, where: 'tq > 1', objective: price}\n"
      "btch: 3\n");
  EXPECT_EQ(f.codes, "E102 E126 E126 E102 E125 E125");
}

TEST(Search, HugeSpacesAreRefused) {
  std::string list = "[1";
  for (int i = 2; i < 3000; ++i) list += ", " + std::to_string(i);
  list += ']';
  const testing::Failure f =
      failure("search: {space: {parallel.tp: " + list + ", parallel.pp: " + list +
              ", batch.micro: " + list + ", parallel.cp: " + list + "}}\n");
  EXPECT_EQ(f.codes, "E123");
  std::string nodes = "search: {space: {cluster.nodes: " + list + "}}\n";
  EXPECT_EQ(failure(nodes).codes, "E123");
}

TEST(Search, ContradictionsLeaveNoLayout) {
  SearchOptions options;
  options.where = {"tp < 2", "tp > 2"};
  const SearchAnswer answer = search_layouts(document(spaces().front().text), options, quick());
  EXPECT_EQ(answer.result.layouts, 0);
  EXPECT_TRUE(answer.result.best.empty());
}

}  // namespace
}  // namespace stepcast::search_test
