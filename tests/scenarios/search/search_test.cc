// SPDX-License-Identifier: Apache-2.0
// Searches: what is left out is no better, bounds are none too high, threads change nothing, and
// what is wrong with a section is said.
#include "scenarios/search/search.h"
#include "job/power.h"
#include "job/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "report/text/search.h"
#include "scenarios/forecast/comparison.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/search/bounds.h"
#include "scenarios/search/nearest.h"
#include "scenarios/search/sweep.h"
#include "sim/results/step_ranking.h"
#include "tests/random_cases.h"
#include "tests/scenarios/loading.h"

namespace stepcast::search_test {
namespace {

ScenarioDocument document(const std::string& text) {
  return ScenarioDocument::of_text(text, "run.yaml", "");
}

// Small models of several kinds, each with some hundred layouts of thousands of points.
struct Space {
  const char* name;
  std::string text;
};
// What the test framework calls a space.
void PrintTo(const Space& space, std::ostream* out) {
  *out << space.name;
}

std::string scenario(const std::string& model, int layers, const std::string& cluster, int global,
                     int seq, const std::string& space, const std::string& more = "") {
  return "model: {preset: " + model + ", num_hidden_layers: " + std::to_string(layers) +
         "}\ncluster: " + cluster + "\nbatch: {global: " + std::to_string(global) +
         ", seq: " + std::to_string(seq) + "}\nsearch: {" + space + "}\n" + more;
}

const std::vector<Space>& spaces() {
  const std::string narrow = "space: {parallel.cp: 1, batch.micro: 1}";
  static const std::vector<Space> kSpaces{
      {"Dense", scenario("llama3-8b", 8, "dgx-h100 x 2", 32, 2048,
                         "memory_margin: 20%, space: {parallel.cp: 1, batch.micro: [1, 2]}")},
      {"Experts", scenario("mixtral-8x7b", 6, "dgx-h100 x 1", 16, 2048, narrow)},
      {"Uneven",
       scenario("gpt3-1.3b", 7, "dgx-a100-80g x 1", 32, 1024, "space: {batch.micro: [1, 2]}")},
      {"LongContext", scenario("llama3-8b", 4, "dgx-h100 x 2", 16, 16384,
                               "space: {batch.micro: 1, parallel.split: even}")},
      {"FullSharding", scenario("llama3-8b", 8, "dgx-h100 x 2", 64, 2048,
                                "space: {parallel.pp: 1, parallel.zero: [0, 1, 2, 3]}")},
      {"TightMemory", scenario("llama3-70b", 8, "dgx-a100-40g x 2", 16, 4096, narrow)},
      {"Tied", scenario("gpt2-xl", 12, "dgx-a100-40g x 1", 24, 1024,
                        "space: {parallel.cp: 1, batch.micro: [1, 2, 3]}")},
      {"LatentAttention",
       scenario("deepseek-v2-lite", 5, "dgx-h100 x 1", 16, 2048, narrow + ", where: 'ep != 2'")},
      {"Windows", scenario("gpt-oss-20b", 6, "dgx-h100 x 1", 16, 8192, narrow)},
      {"Overlapped",
       scenario("llama3-8b", 8, "dgx-h100 x 2", 32, 4096, narrow, "software: nemo\n")},
      {"Bridge", scenario("qwen3-30b-a3b", 4, "dgx-b200 x 1", 16, 4096,
                          narrow + ", where: 'ep >= 4'", "software: megatron-bridge\n")},
      {"Torchtitan",
       scenario("llama3-8b", 8, "dgx-h100 x 1", 16, 2048, narrow, "software: torchtitan\n")},
      {"OldMegatron", scenario("gpt3-1.3b", 8, "dgx-a100-80g x 1", 16, 2048,
                               "space: {batch.micro: [1, 2, 4]}", "software: megatron-lm-2021\n")},
      {"ZeroBubble", scenario("gpt3-1.3b", 8, "dgx-a100-80g x 1", 32, 1024,
                              narrow + ", schedules: [1f1b, zb-h1, zb-v, gpipe]")},
      {"PostValidation", scenario("gpt3-1.3b", 8, "dgx-a100-80g x 1", 32, 1024,
                                  narrow + ", schedules: [1f1b, zb-h1, zb-h2]",
                                  "schedule: {post_validation: true}\n")},
      {"EightBits",
       scenario("llama3-8b", 8, "dgx-h100 x 1", 16, 4096, narrow, "precision: fp8-delayed\n")},
      {"FewMicrobatches", scenario("llama3-8b", 12, "dgx-h100 x 2", 24, 2048,
                                   narrow + ", where: 'microbatches <= 6'")},
      {"OtherOrder",
       scenario("mixtral-8x7b", 4, "dgx-h100 x 2", 32, 2048,
                narrow + ", where: 'ep == 1 or ep == 8'", "parallel: {order: tp-cp-ep-pp-dp}\n")},
      {"PairsOfPasses",
       scenario("mixtral-8x7b", 8, "dgx-h100 x 1", 16, 2048,
                narrow + ", where: 'vpp > 1 and ep > 1'", "overlap: {ep: true}\n")},
      {"Block",
       scenario("llama3-8b", 8, "dgx-h100 x 1", 16, 4096, narrow, "recompute: {method: block}\n")},
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

int64_t illegal_of(const SearchAnswer& answer) {
  for (const SearchRule& rule : answer.result.decided)
    if (rule.name == "illegal") return rule.count;
  return 0;
}

class Spaces : public ::testing::TestWithParam<Space> {};

TEST_P(Spaces, WhatIsLeftOutIsNoBetter) {
  const SearchAnswer all = search_layouts(document(GetParam().text), {}, quick(true));
  const SearchAnswer safe = search_layouts(document(GetParam().text), {}, quick());
  EXPECT_EQ(best_of(safe), best_of(all));
  EXPECT_EQ(safe.result.within_discernment, all.result.within_discernment);
  EXPECT_EQ(all.result.simulated + illegal_of(all), all.result.layouts);
  EXPECT_LT(safe.result.simulated, all.result.simulated);
  EXPECT_EQ(all.bounds_too_high, 0);
  EXPECT_FALSE(all.result.best.empty());
  EXPECT_GE(all.result.points, 2000);
}

// The first of them by default, all with `tools/test -C full`.
std::vector<Space> spaces_here() {
  const uint64_t count = std::min<uint64_t>(spaces().size(), stepcast::testing::random_cases(7));
  return {spaces().begin(), spaces().begin() + static_cast<std::ptrdiff_t>(count)};
}

INSTANTIATE_TEST_SUITE_P(Search, Spaces, ::testing::ValuesIn(spaces_here()),
                         [](const auto& space) { return std::string(space.param.name); });

TEST(SearchPoints, AreAllThatWasSimulatedToItsEndBestFirst) {
  const ScenarioDocument asked = document(scenario("llama3-8b", 8, "dgx-h100 x 1", 16, 2048,
                                                   "space: {parallel.cp: 1, batch.micro: [1, 2]}"));
  SearchRun run;
  run.points = true;
  const SearchAnswer answer = search_layouts(asked, {}, run);
  const StepPoints& points = answer.points;
  ASSERT_FALSE(points.rows.empty());
  ASSERT_FALSE(answer.result.best.empty());
  const FoundLayout& best = answer.result.best.front();
  const StepRow& first = points.rows.front();
  EXPECT_EQ(first.step_time_ps, best.step_time.count());
  EXPECT_EQ(first.reserved_bytes, best.reserved.value);
  EXPECT_EQ(first.settings, settings_text(best.set));
  EXPECT_DOUBLE_EQ(first.tokens_per_gpu_s.value_or(0), best.tokens_per_gpu_s);
  const auto fit = std::ranges::count(answer.rows, SearchRow::Outcome::fits, &SearchRow::outcome);
  EXPECT_GE(static_cast<int64_t>(points.counted), fit);
  for (size_t i = 1; i < points.counted; ++i)
    EXPECT_LE(points.rows[i - 1].step_time_ps, points.rows[i].step_time_ps);
  ASSERT_FALSE(points.steps.empty());
  for (const StepPoints::Step& step : points.steps) EXPECT_LT(step.row, points.rows.size());
  EXPECT_TRUE(search_layouts(asked).points.rows.empty());
}

TEST(SearchPoints, DoNotDependOnThreads) {
  const ScenarioDocument asked =
      document(scenario("llama3-8b", 8, "dgx-h100 x 1", 16, 2048, "space: {parallel.cp: 1}"));
  SearchRun run;
  run.points = true;
  const StepPoints one = search_layouts(asked, {}, run).points;
  run.jobs = 4;
  const StepPoints four = search_layouts(asked, {}, run).points;
  EXPECT_EQ(one.rows, four.rows);
  EXPECT_EQ(one.counted, four.counted);
}

TEST(SearchPoints, WhatBreaksAConstraintIsBehindWhatCounts) {
  const ScenarioDocument asked = document(scenario(
      "llama3-8b", 8, "dgx-h100 x 1", 16, 2048,
      "constraints: ['peak_memory <= 0.5 * gpu.memory'], space: {parallel.cp: 1, batch.micro: 1}"));
  SearchRun run;
  run.points = true;
  const StepPoints points = search_layouts(asked, {}, run).points;
  ASSERT_GT(points.counted, 0u);
  for (size_t i = 0; i < points.rows.size(); ++i)
    EXPECT_EQ(*points.rows[i].reserved_bytes <= (int64_t{40} << 30), i < points.counted) << i;
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
    EXPECT_EQ(result.memory_usable, l.usable);
    EXPECT_TRUE(result.fits);
    ASSERT_TRUE(l.result.has_value());
    EXPECT_EQ(l.result->step_time, l.step_time);
  }
}

TEST(Search, TheBestOfAFileWithALayoutOfItsOwnRunsAsFound) {
  const std::string text =
      "model: {preset: gpt3-1.3b, num_hidden_layers: 8}\ncluster: dgx-a100-80g x 1\n"
      "batch: {global: 32, micro: 2, seq: 2048}\n"
      "parallel: {tp: 2, pp: 2, vpp: 2, dp: 2, zero: 1, sp: true}\n"
      "schedule: {kind: interleaved-1f1b, group: 4}\n"
      "recompute: {granularity: full, layers: 1}\n"
      "contention: {links: on}\nreplicas: 2\n"
      "perturb: [{ranks: 0, speed: 0.5}]\n";
  LoadOptions given;
  given.set = {{"batch.seq", "1024"},
               {"parallel.tp", "4"},
               {"search.top", "4"},
               {"search.space",
                "{parallel.tp: auto, parallel.pp: auto, parallel.cp: 1, "
                "batch.micro: auto, recompute: auto, schedule: auto, "
                "parallel.vpp: auto}"}};
  ScenarioDocument d = document(text);
  d.set(given);
  SearchOptions options;
  options.given = given.set;
  const SearchAnswer answer = search_layouts(d, options, quick());
  ASSERT_EQ(answer.result.best.size(), 4u);
  bool takes_back = false;
  for (const FoundLayout& l : answer.result.best) {
    LoadOptions set;
    set.set = l.set;
    const Result result = forecast(load_scenario_text(text, "run.yaml", set), {.what_if = false});
    EXPECT_EQ(result.step_time, l.step_time);
    EXPECT_EQ(result.memory_reserved, l.reserved);
    EXPECT_FALSE(result.replicas.has_value());
    std::set<std::string> paths;
    for (const auto& [path, value] : l.set) {
      EXPECT_TRUE(paths.insert(path).second) << path;
      takes_back = takes_back || value == "null";
    }
    EXPECT_TRUE(paths.contains("batch.seq"));
    EXPECT_FALSE(paths.contains("search.top"));
  }
  EXPECT_TRUE(takes_back);
}

TEST(Search, WhatIsListedTwiceIsLookedAtOnce) {
  LoadOptions twice;
  twice.set = {{"search.schedules", "[1f1b, gpipe, 1f1b]"},
               {"search.space",
                "{cluster.nodes: [1, 2, 1], parallel.tp: [2, 2, 1], batch.micro: 1, "
                "recompute: [none, none], parallel.split: [even, even]}"}};
  ScenarioDocument d = document(spaces().front().text);
  d.set(twice);
  const SearchSpace space(d);
  EXPECT_EQ(space.places().size(), 2u);
  EXPECT_EQ(space.schedules(), (std::vector<std::string>{"1f1b", "gpipe"}));
  EXPECT_EQ(space.recompute_words(), std::vector<std::string>{"none"});
}

TEST(Search, ConditionsKnowWordsThatNoLayoutOfTheSpaceHas) {
  LoadOptions narrow;
  narrow.set = {{"search.space", "{recompute: [none, full], parallel.cp: 1, batch.micro: 1}"}};
  ScenarioDocument d = document(spaces().front().text);
  d.set(narrow);
  SearchOptions options;
  options.where = {"recompute != selective and schedule != gpipe and split != last"};
  EXPECT_EQ(SearchSpace(d, options).layouts().all.size(), SearchSpace(d).layouts().all.size());
  options.where = {"recompute == selective"};
  EXPECT_TRUE(SearchSpace(d, options).layouts().all.empty());
  options.where = {"recompute == some"};
  EXPECT_EQ(testing::failure_of([&] { SearchSpace(d, options).layouts(); }).codes, "E125");
}

TEST(Search, BoundsOfStepsThatNeverEndAreNotNegative) {
  LoadOptions slow;
  slow.set = {{"batch.global", "1000000"},
              {"cluster.node.intra.bw", "1MB/s"},
              {"cluster.node.nics.bw", "1MB/s"},
              {"search.space", "{parallel.cp: 1, batch.micro: 1, recompute: none}"}};
  ScenarioDocument d = document(scenario("gpt3-1.3b", 8, "dgx-a100-80g x 1", 32, 1024, ""));
  d.set(slow);
  const SearchSpace space(d);
  const SearchSpace::Layouts layouts = space.layouts();
  ASSERT_FALSE(layouts.all.empty());
  LayoutBounds bounds(space, layouts.all);
  BoundCaches caches;
  for (size_t i = 0; i < bounds.classes(); ++i) bounds.prepare(i, caches);
  bool long_step = false;
  for (size_t i = 0; i < layouts.all.size(); ++i) {
    EXPECT_GE(bounds.of(i).time, Time{});
    EXPECT_GE(bounds.of(i).memory, Bytes{});
    long_step = long_step || bounds.of(i).time == Time::max();
  }
  EXPECT_TRUE(long_step);
}

TEST(Search, NearTwinsShareALine) {
  const std::string text =
      scenario("gpt3-1.3b", 24, "dgx-a100-80g x 1", 256, 1024,
               "top: 4, space: {parallel.tp: 1, parallel.pp: [2, 4], parallel.vpp: auto, "
               "parallel.cp: 1, batch.micro: 1, recompute: none}");
  const SearchAnswer answer = search_layouts(document(text), {}, quick());
  EXPECT_EQ(best_of(answer), best_of(search_layouts(document(text), {}, quick(true))));
  ASSERT_FALSE(answer.result.best.empty());
  EXPECT_LE(answer.result.best.size(), 4u);
  size_t twins = 0;
  for (const FoundLayout& l : answer.result.best) {
    for (const FoundLayout& twin : l.twins) {
      ++twins;
      EXPECT_EQ(std::tuple(twin.tp, twin.cp, twin.pp, twin.ep, twin.etp, twin.micro, twin.zero),
                std::tuple(l.tp, l.cp, l.pp, l.ep, l.etp, l.micro, l.zero));
      EXPECT_EQ(std::tie(twin.recompute, twin.schedule), std::tie(l.recompute, l.schedule));
      EXPECT_GE(twin.step_time, l.step_time);
      EXPECT_LE(to_seconds(twin.step_time), to_seconds(l.step_time) * (1 + kTwins));
    }
  }
  EXPECT_GT(twins, 0u);
  EXPECT_EQ(std::ssize(answer.result.best), answer.result.top);
}

TEST(Search, WhichRanksLieNextToEachOtherIsAnAxis) {
  LoadOptions order;
  order.set = {{"search.space",
                "{parallel.order: auto, parallel.tp: 1, parallel.cp: 1, "
                "parallel.pp: 4, batch.micro: 1, recompute: none}"}};
  ScenarioDocument d = document(spaces().front().text);
  d.set(order);
  const SearchAnswer answer = search_layouts(d, {}, quick());
  EXPECT_EQ(SearchSpace(d).places().size(), 2u);
  std::set<std::string> orders;
  for (const FoundLayout& l : answer.result.best)
    for (const auto& [path, value] : l.set)
      if (path == "parallel.order") orders.insert(value);
  EXPECT_EQ(orders, (std::set<std::string>{"tp-cp-dp-pp", "tp-cp-pp-dp"}));
  EXPECT_EQ(best_of(answer), best_of(search_layouts(d, {}, quick(true))));
}

TEST(Search, WhatIsWorthMeasuringIsFastAndUnlike) {
  SearchRun run = quick();
  run.next = 3;
  const SearchAnswer answer = search_layouts(document(spaces().front().text), {}, run);
  const std::vector<FoundLayout>& next = answer.result.next;
  ASSERT_EQ(next.size(), 3u);
  ASSERT_EQ(answer.next.size(), 3u);
  EXPECT_EQ(next.front().set, answer.result.best.front().set);
  const auto axes = [](const FoundLayout& l) {
    return std::vector<std::string>{
        std::to_string(l.tp),    std::to_string(l.cp),   std::to_string(l.pp), std::to_string(l.ep),
        std::to_string(l.micro), std::to_string(l.zero), l.recompute};
  };
  for (size_t i = 0; i < next.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(axes(next[i]), axes(next[j]));
  // The list is that of a search without.
  EXPECT_EQ(best_of(answer), best_of(search_layouts(document(spaces().front().text), {}, quick())));
}

TEST(Search, OneStepFromTheFirstIsTheNextValueOfAnAxis) {
  SearchRun run;
  run.jobs = 2;
  const SearchAnswer answer = search_layouts(document(spaces().front().text), {}, run);
  ASSERT_FALSE(answer.result.best.empty());
  const FoundLayout& first = answer.result.best.front();
  std::set<std::string> axes;
  std::set<std::vector<std::pair<std::string, std::string>>> once;
  ASSERT_FALSE(answer.result.steps.empty());
  for (const SearchStep& s : answer.result.steps) {
    axes.insert(s.axis);
    EXPECT_NE(s.from, s.to) << s.axis;
    EXPECT_NE(s.layout.set, first.set);
    EXPECT_TRUE(once.insert(s.layout.set).second) << s.axis;
    if (s.axis == "TP") {
      EXPECT_EQ(s.from, std::to_string(first.tp));
      EXPECT_EQ(s.to, std::to_string(s.layout.tp));
      EXPECT_TRUE(s.layout.tp == 2 * first.tp || 2 * s.layout.tp == first.tp);
      EXPECT_EQ(s.layout.pp, first.pp);
    }
    if (s.fits && s.searched) {
      EXPECT_GE(s.layout.step_time, first.step_time) << s.axis << ' ' << s.to;
    }
    EXPECT_EQ(s.fits, s.layout.step_time > Time{});
  }
  EXPECT_TRUE(axes.contains("TP"));
  EXPECT_TRUE(axes.contains("MBS"));
  EXPECT_TRUE(axes.contains("recompute"));
}

// Of the steps from the first layout those on this axis.
std::vector<SearchStep> steps_on(const SearchAnswer& answer, const std::string& axis) {
  std::vector<SearchStep> found;
  for (const SearchStep& s : answer.result.steps)
    if (s.axis == axis) found.push_back(s);
  return found;
}

TEST(Search, WhatSwitchesThatAreNotSearchedWouldSaveIsAStepOfItsOwn) {
  const std::string space =
      "space: {parallel.tp: 2, parallel.pp: 1, parallel.cp: 1, batch.micro: 1}";
  const SearchAnswer answer =
      search_layouts(document(scenario("llama3-8b", 4, "dgx-h100 x 1", 16, 2048, space)));
  const std::vector<SearchStep> gradients = steps_on(answer, "overlap.dp_grad");
  ASSERT_EQ(gradients.size(), 2U);  // alone, and with the others that save something
  EXPECT_FALSE(gradients[0].searched);
  EXPECT_LT(gradients[0].layout.step_time, answer.result.best.front().step_time);
  EXPECT_LT(gradients[1].layout.step_time, gradients[0].layout.step_time);
  EXPECT_FALSE(gradients[1].too.empty());
  // Its settings make what it says.
  LoadOptions options;
  options.set = gradients[1].layout.set;
  const Scenario all = load_scenario_text(scenario("llama3-8b", 4, "dgx-h100 x 1", 16, 2048, space),
                                          "run.yaml", options);
  EXPECT_EQ(forecast(all).makespan, gradients[1].layout.step_time);
}

// Megatron-LM has exchanges beside the shared experts or beside another microbatch, not both.
TEST(Search, OfSwitchesThatExcludeEachOtherOneIsAmongThoseTogether) {
  const SearchAnswer answer = search_layouts(document(scenario(
      "deepseek-v2-lite", 8, "dgx-h100 x 1", 64, 2048,
      "space: {parallel.tp: 1, parallel.pp: 2, parallel.vpp: 2, parallel.cp: 1, parallel.ep: 4, "
      "parallel.split: even, batch.micro: 1}")));
  const std::vector<SearchStep> one = steps_on(answer, "overlap.ep"),
                                other = steps_on(answer, "moe.shared_overlap");
  ASSERT_FALSE(one.empty());
  ASSERT_FALSE(other.empty());
  for (const SearchStep& step : answer.result.steps) {
    std::string all = step.axis;
    for (const std::string& too : step.too) all += ' ' + too;
    EXPECT_TRUE(all.find("overlap.ep") == std::string::npos ||
                all.find("moe.shared_overlap") == std::string::npos)
        << all;
  }
}

// The head of 128,256 tokens has the products of 2.2 layers.
TEST(Search, BalancedStagesCountTheHeadAndPredictionModules) {
  const auto layers_of = [](const std::string& more, int vpp) {
    const SearchSpace s(document("model: {preset: llama3-8b, num_hidden_layers: 8" + more +
                                 "}\ncluster: dgx-h100 x 1\nbatch: {global: 64, seq: 2048}\n"
                                 "search: {space: {parallel.pp: 2, parallel.vpp: " +
                                 std::to_string(vpp) + ", parallel.split: [balanced]}}\n"));
    return s.layers_of_stages(s.layouts().all.at(0));
  };
  EXPECT_EQ(layers_of("", 1), (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(layers_of("", 2), (std::vector<int64_t>{2, 3, 3, 0}));
  EXPECT_EQ(layers_of(", num_nextn_predict_layers: 1", 1), (std::vector<int64_t>{7, 1}));
}

TEST(Search, SwitchesThatAreOnOrThatTheSoftwareLacksAreNoSteps) {
  const std::string space =
      "space: {parallel.tp: 2, parallel.pp: 1, parallel.cp: 1, batch.micro: 1}";
  for (const char* more : {"overlap: {dp_grad: true}\n", "software: megatron-lm-2021\n"}) {
    SCOPED_TRACE(more);
    const SearchAnswer answer =
        search_layouts(document(scenario("gpt3-1.3b", 4, "dgx-h100 x 1", 16, 2048, space, more)));
    ASSERT_FALSE(answer.result.best.empty());
    EXPECT_TRUE(steps_on(answer, "overlap.dp_grad").empty());
  }
}

TEST(Search, AxesBesideTheLayoutStandInTheAnswerAndAreSteps) {
  const SearchAnswer answer = search_layouts(document(
      scenario("llama3-8b", 4, "dgx-h100 x 1", 16, 2048,
               "space: {parallel.tp: 2, parallel.pp: 1, parallel.cp: 1, batch.micro: 1, precision: "
               "[bf16-mixed], overlap.dp_grad: [false, true]}")));
  ASSERT_GE(answer.result.best.size(), 2U);
  using Beside = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(answer.result.best.front().beside, (Beside{{"overlap.dp_grad", "true"}}));
  const std::vector<SearchStep> steps = steps_on(answer, "overlap.dp_grad");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_TRUE(steps.front().searched);
  EXPECT_EQ(steps.front().to, "false");
  const std::string text = search_text(answer.result, {});
  EXPECT_NE(text.find("  overlap.dp_grad"), std::string::npos) << text;
  EXPECT_EQ(text.find("  precision"), std::string::npos) << text;
}

TEST(Search, StepsBesideTheLayoutAreToTheNextNumberAndOfTheSameBatch) {
  const SearchAnswer answer = search_layouts(document(
      scenario("llama3-8b", 4, "dgx-h100 x 1", 16, 2048,
               "space: {parallel.tp: 2, parallel.pp: 1, parallel.cp: 1, batch.micro: 1, "
               "overlap.bucket: [10000000, 40000000, 80000000, 160000000], batch.global: [16, 32]}",
               "overlap: {dp_grad: true}\n")));
  EXPECT_LE(steps_on(answer, "overlap.bucket").size(), 2U);
  EXPECT_GE(steps_on(answer, "overlap.bucket").size(), 1U);
  EXPECT_TRUE(steps_on(answer, "batch.global").empty());
}

TEST(Search, StepsThatBreakAConstraintSaySo) {
  const std::string space =
      "constraints: 'step_time > 0.2', space: {parallel.tp: 2, parallel.pp: 1, parallel.cp: 1, "
      "batch.micro: 1}";
  const SearchAnswer free = search_layouts(document(
      scenario("llama3-8b", 4, "dgx-h100 x 1", 16, 2048, space.substr(space.find("space")))));
  const double first = to_seconds(free.result.best.front().step_time);
  const SearchAnswer held = search_layouts(
      document(scenario("llama3-8b", 4, "dgx-h100 x 1", 16, 2048,
                        "constraints: 'step_time >= " + std::to_string(0.999 * first) + "', " +
                            space.substr(space.find("space")))));
  const std::vector<SearchStep> faster = steps_on(held, "overlap.dp_grad");
  ASSERT_FALSE(faster.empty());
  EXPECT_TRUE(faster.front().fits);
  EXPECT_FALSE(faster.front().keeps);
  EXPECT_NE(search_text(held.result, {}).find("breaks a constraint"), std::string::npos);
  EXPECT_EQ(search_text(held.result, {}).find("Not searched, and"), std::string::npos);
}

TEST(Search, StoppedAmongLayoutsThatBreakAConstraintItSaysWhatItHasSeen) {
  SearchRun run;
  const std::string text = scenario("llama3-8b", 4, "dgx-h100 x 2", 16, 2048,
                                    "constraints: 'step_time < 0.0001', space: {parallel.cp: 1}");
  const SearchAnswer whole = search_layouts(document(text), {}, run);
  ASSERT_TRUE(whole.result.breaking.has_value());
  EXPECT_FALSE(whole.result.stopped);
  bool any = false;
  run.progress = [&](int64_t decided, int64_t total) { any = any || decided < total; };
  run.stop = [&](std::optional<Time>) { return any; };
  const SearchAnswer part = search_layouts(document(text), {}, run);
  ASSERT_TRUE(part.result.breaking.has_value());
  EXPECT_TRUE(part.result.stopped);
  EXPECT_NE(search_text(part.result, {}).find("The best of those looked at before the stop"),
            std::string::npos);
}

TEST(Search, WhatTheFileStatesAndTheSpaceLeavesOutIsSaid) {
  const std::string file =
      "model: {preset: llama3-8b, num_hidden_layers: 4}\ncluster: dgx-h100 x 1\n"
      "batch: {global: 16, micro: 1, seq: 2048}\nparallel: {tp: 4, dp: 2}\n";
  const SearchAnswer all = search_layouts(document(file));
  EXPECT_TRUE(all.result.kept.empty());
  const SearchAnswer some =
      search_layouts(document(file + "search: {space: {overlap.dp_grad: [false, true]}}\n"));
  using Kept = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(some.result.kept, (Kept{{"parallel.tp", "4"}, {"batch.micro", "1"}}));
  const std::string text = search_text(some.result, {});
  EXPECT_NE(text.find("Kept as the file states: parallel.tp 4, batch.micro 1."), std::string::npos)
      << text;
}

TEST(Search, StoppedBeforeAllElseItStillNamesALayoutThatFits) {
  SearchRun run;
  run.stop = [](std::optional<Time>) { return true; };
  const SearchAnswer answer = search_layouts(document(spaces().front().text), {}, run);
  EXPECT_TRUE(answer.result.best.empty());
  ASSERT_TRUE(answer.result.simple.has_value());
  EXPECT_LE(answer.result.simple->reserved, answer.result.simple->usable);
  EXPECT_NE(search_text(answer.result, {})
                .find("A simple one that does is " + layout_text(*answer.result.simple)),
            std::string::npos);
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

TEST(Search, AConditionOnAResultIsAConstraint) {
  SearchOptions options;
  options.where = {"tp <= 8 and days <= 60"};
  const testing::Failure f =
      testing::failure_of([&] { SearchSpace(document(spaces().front().text), options).layouts(); });
  ASSERT_EQ(f.codes, "E125");
  EXPECT_EQ(f.all[0].message, "'days' is known of a layout once it has been simulated");
  EXPECT_EQ(f.all[0].help,
            "what an answer must keep is one of search.constraints: -s "
            "'search.constraints=tp <= 8 and days <= 60'");
  EXPECT_EQ(f.all[0].column, 13);
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
  for (size_t i = 0; i < answer.result.best.size(); ++i) {
    const FoundLayout& l = answer.result.best[i];
    const double steps = 1e12 / (32.0 * 2048);
    EXPECT_GT(l.days, steps * to_seconds(l.step_time) / 86400);
    const TrainingResult whole = train(answer.documents[i]);
    EXPECT_EQ(l.days, whole.times.wall / 86400);
    EXPECT_EQ(l.price, whole.price);
    const std::vector<ComparedScenario> one{{"my.yaml", answer.documents[i]},
                                            {"b", answer.documents[i]}};
    CompareOptions options;
    options.each = [&](const ScenarioDocument& d, const Scenario& scenario, const Result& result) {
      const auto plan = whole_run(read_job(d), scenario, result);
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->wall, whole.times.wall);
      EXPECT_EQ(plan->price, whole.price);
    };
    compare_scenarios(one, options);
    EXPECT_NEAR(l.price, l.days * 24 * static_cast<double>(l.gpus) * 2.5, 1e-6 * l.price);
  }
}

TEST(Search, DaysAndPriceCountTheLossesThatTheJobStates) {
  const std::string text =
      "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 1\n"
      "batch: {global: 32, seq: 2048}\n"
      "job: {tokens: 1T, failures: {mtbf: 4h, restart: 20min}}\n"
      "search: {objective: days, top: 1, space: {batch.micro: 1, parallel.cp: 1, parallel.pp: "
      "1}}\n";
  const SearchAnswer answer = search_layouts(document(text), {}, quick());
  ASSERT_EQ(answer.result.best.size(), 1u);
  const FoundLayout& best = answer.result.best.front();
  const double steps_alone = 1e12 / (32.0 * 2048) * to_seconds(best.step_time) / 86400;
  EXPECT_GT(best.days, 1.08 * steps_alone);
  const TrainingResult whole = train(answer.documents.front());
  EXPECT_NEAR(best.days, whole.times.wall / 86400, 1e-6 * best.days);
  // So do the rows that a store keeps.
  SearchRun run = quick();
  run.points = true;
  const StepPoints points = search_layouts(document(text), {}, run).points;
  ASSERT_FALSE(points.rows.empty());
  EXPECT_NEAR(points.rows.front().days().value(), best.days, 1e-9 * best.days);
}

std::string for_energy(const std::string& more) {
  return scenario("llama3-8b", 4, "dgx-h100 x 1", 16, 2048,
                  "top: 3, objective: energy, space: {parallel.cp: 1, parallel.zero: 1}, "
                  "where: 'vpp <= 2 and micro <= 2 and recompute != selective'" +
                      more);
}

TEST(Search, TheLeastEnergyIsThatOfAllLayouts) {
  const ScenarioDocument asked = document(for_energy(""));
  const SearchAnswer all = search_layouts(asked, {}, quick(true));
  const SearchAnswer safe = search_layouts(asked, {}, quick());
  EXPECT_EQ(best_of(safe), best_of(all));
  EXPECT_EQ(all.bounds_too_high, 0);
  EXPECT_LT(safe.result.simulated, all.result.simulated);
  ASSERT_FALSE(safe.result.best.empty());
  const auto scenario = safe.documents.front().try_resolve();
  const Scenario& best = std::get<Scenario>(scenario);
  const auto energy = step_energy(best.cluster.node.gpu, forecast(best));
  ASSERT_TRUE(energy.has_value());
  EXPECT_DOUBLE_EQ(safe.result.best.front().joules_per_token, energy->joules_per_token);
  for (const FoundLayout& l : safe.result.best)
    EXPECT_GE(l.joules_per_token, safe.result.best.front().joules_per_token);
}

TEST(Search, EnergyMayBeAConstraint) {
  const SearchAnswer free = search_layouts(document(for_energy("")), {}, quick());
  const double least = free.result.best.front().joules_per_token;
  const std::string limit = ", constraints: 'energy <= " + std::to_string(1.01 * least) + "'";
  LoadOptions fastest;
  fastest.set = {{"search.objective", "step_time"}};
  ScenarioDocument asked = document(for_energy(limit));
  asked.set(fastest);
  const SearchAnswer answer = search_layouts(asked, {}, quick());
  ASSERT_FALSE(answer.result.best.empty());
  for (const FoundLayout& l : answer.result.best) EXPECT_LE(l.joules_per_token, 1.01 * least);
  EXPECT_EQ(best_of(answer), best_of(search_layouts(asked, {}, quick(true))));
}

// What breaks a constraint by its bounds is not simulated, and the list is the same.
TEST(Search, ConstraintsLeaveOutWhatCannotKeepThem) {
  for (const char* constraint :
       {"step_time <= 0.2s", "peak_memory <= 20GiB", "tokens_per_gpu_s >= 20000",
        "not (step_time > 0.2s or peak_memory / gpu.memory > 30%)", "energy <= 0.045"}) {
    SCOPED_TRACE(constraint);
    LoadOptions hard;
    hard.set = {{"search.constraints", constraint}, {"search.objective", "peak_memory"}};
    ScenarioDocument d = document(scenario(
        "llama3-8b", 8, "dgx-h100 x 2", 32, 2048,
        "memory_margin: 20%, space: {parallel.cp: 1, batch.micro: 1, parallel.tp: [1, 4]}"));
    d.set(hard);
    const SearchAnswer safe = search_layouts(d, {}, quick());
    const SearchAnswer all = search_layouts(d, {}, quick(true));
    EXPECT_EQ(best_of(safe), best_of(all));
    EXPECT_LT(safe.result.simulated, all.result.simulated);
    const auto rule = std::ranges::find(safe.result.decided, "constraint_bound", &SearchRule::name);
    ASSERT_NE(rule, safe.result.decided.end());
    EXPECT_GT(rule->count, 0);
  }
}

TEST(Search, EnergyNeedsThePowerOfTheGpu) {
  LoadOptions unknown;
  unknown.set = {{"cluster.node.gpu.arch", "other"}};
  for (const char* asks : {"objective: energy", "constraints: 'energy <= 1'"}) {
    ScenarioDocument asked =
        document("model: llama3-8b\ncluster: dgx-h100\nbatch: {global: 16, seq: 2048}\nsearch: {" +
                 std::string(asks) + "}\n");
    EXPECT_NO_THROW(SearchSpace{asked}) << asks;
    asked.set(unknown);
    EXPECT_EQ(testing::failure_of([&] { SearchSpace space(asked); }).codes, "E126") << asks;
  }
}

// torchtitan shards by FSDP alone and beside a pipeline keeps what it has gathered.
TEST(Search, OfTorchtitanLayoutsShardBesideAPipelineToo) {
  const std::string head =
      "model: {preset: llama3-8b, num_hidden_layers: 8}\nsoftware: torchtitan\n"
      "cluster: dgx-h100 x 2\nbatch: {global: 32, seq: 2048}\n";
  // What a file says of its own layout is no choice for another.
  const std::string file = head + "parallel: {tp: 2, reshard_after_forward: true}\n";
  for (const std::string& text : {head, file}) {
    const SearchSpace space(document(text + "search: {space: {parallel.cp: 1, batch.micro: 1}}\n"));
    EXPECT_THAT(space.recompute_words(), ::testing::ElementsAre("none", "per-op", "full"));
    bool piped = false;
    const SearchSpace::Layouts all = space.layouts();
    for (const Layout& l : all.all) {
      EXPECT_EQ(l.zero, 3);
      const auto s = std::get<Scenario>(space.scenario(l));
      EXPECT_EQ(s.plan.sharding.reshard_after_forward, l.pp == 1);
      piped = piped || (l.pp > 1 && space.dp_of(l) > 1);
    }
    EXPECT_TRUE(piped);
  }
}

TEST(Search, SchedulesAreThoseOfLayoutsWithAPipeline) {
  const std::string text =
      "model: {preset: llama3-8b, num_hidden_layers: 4}\ncluster: dgx-h100 x 1\n"
      "batch: {global: 16, seq: 2048}\n";
  EXPECT_THAT(search_layouts(document(text), {}, quick()).result.schedules,
              ::testing::ElementsAre("1f1b", "interleaved-1f1b"));
  for (const char* alone : {"software: pytorch-fsdp\n", "search: {space: {parallel.pp: 1}}\n"})
    EXPECT_THAT(search_layouts(document(text + alone), {}, quick()).result.schedules,
                ::testing::IsEmpty())
        << alone;
}

// Of a step of ever so many microbatches it is soon known, and a batch that shares less with the
// replicas has the layouts that its own allows.
TEST(Search, ALayoutThatFitsIsThatOfAnyMultipleOfTheBatch) {
  const auto found = [](const char* global) {
    const auto layout = simple_layout_that_fits(
        document(std::string("model: llama3-8b\ncluster: dgx-h100 x 8\nbatch: {global: ") + global +
                 ", seq: 8192}\n"));
    EXPECT_TRUE(layout.has_value()) << global;
    return layout ? std::pair(layout->pp, layout->dp) : std::pair<int64_t, int64_t>();
  };
  const auto few = found("2048");
  EXPECT_EQ(found("1048576"), few);
  EXPECT_EQ(found("1048384"), few);  // 64 x 16381
}

TEST(Search, NothingFitsSaysWhatIsNearest) {
  const std::string text =
      "model: llama3-70b\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 4096}\n";
  const SearchAnswer answer = search_layouts(document(text), {}, quick());
  EXPECT_TRUE(answer.result.best.empty());
  ASSERT_TRUE(answer.result.nearest.has_value());
  EXPECT_GT(answer.result.nearest->reserved, answer.result.nearest->usable);
  const std::optional<FoundLayout>& more = answer.result.on_more_nodes;
  ASSERT_TRUE(more.has_value());
  EXPECT_GE(more->gpus, 16);
  EXPECT_LE(more->gpus, 64);
  EXPECT_LE(more->reserved, more->usable);
}

// ZeRO-3 holds the states on as few GPUs as any; orders that go back and forth over the ranks had
// no bound, and what has none looked as if it needed least.
TEST(Search, TheNearestIsNotTheOneThatIsLeastKnown) {
  const SearchAnswer answer = search_layouts(
      document("model: llama3-70b\ncluster: dgx-h100 x 1\nbatch: {global: 8, seq: 8192}\n"
               "software: torchtitan\noverlap: {dp_grad: true}\noptimizer: {kernel: fused}\n"),
      {}, quick());
  ASSERT_TRUE(answer.result.nearest.has_value());
  EXPECT_EQ(answer.result.nearest->zero, 3);
  EXPECT_LT(answer.result.nearest->reserved, Bytes{int64_t{150} << 30});
  ASSERT_TRUE(answer.result.on_more_nodes.has_value());
  EXPECT_EQ(answer.result.on_more_nodes->gpus, 16);
  // Of two directions at once no bound is known.
  const SearchAnswer several = search_layouts(
      document("model: llama3-70b\ncluster: dgx-h100 x 1\nbatch: {global: 32, seq: 8192}\n"
               "search: {schedules: [1f1b, dualpipe]}\n"),
      {}, quick());
  ASSERT_TRUE(several.result.nearest.has_value());
  EXPECT_LT(several.result.nearest->reserved, Bytes{int64_t{150} << 30});
}

// A backward in one piece takes less than its two halves; zb-h1-quickstart has both.
TEST(Search, BoundsOfOrdersThatMixBackwardsAreNotAboveTheStep) {
  const SearchAnswer answer = search_layouts(
      document("model: {preset: llama3-8b, num_hidden_layers: 6}\ncluster: dgx-b200 x 3\n"
               "batch: {global: 48, seq: 2048}\n"
               "search: {schedules: [zb-h1-quickstart], space: {parallel.tp: 8, parallel.cp: 1, "
               "parallel.pp: 3, batch.micro: [1, 8]}}\n"),
      {}, quick(true));
  EXPECT_GT(answer.result.simulated, 0);
  EXPECT_EQ(answer.bounds_too_high, 0);
}

// 125 nodes give replicas of a multiple of 125 ranks, which no batch of 1,024 sequences has.
TEST(Search, WithoutALegalLayoutTheNearestNumbersOfGpusThatHaveSomeAreNamed) {
  const std::string text =
      "model: llama3-70b\ncluster: dgx-h100 x 32\nbatch: {global: 1024, seq: 4096}\n";
  SearchOptions options;
  options.fewest_gpus = options.most_gpus = 1000;
  const SearchResult none = search_layouts(document(text), options, quick()).result;
  EXPECT_EQ(none.layouts, 0);
  ASSERT_EQ(none.legal_gpus.size(), 2);
  EXPECT_EQ(none.legal_gpus, (std::vector<int64_t>{992, 1008}));
  for (const int64_t gpus : none.legal_gpus) {
    options.fewest_gpus = options.most_gpus = gpus;
    EXPECT_FALSE(SearchSpace(document(text), options).layouts().all.empty()) << gpus;
  }
  EXPECT_NE(search_text(none).find("On 992 and on 1,008 GPUs there are"), std::string::npos);
}

// Of a batch that everything divides there are more layouts than a search takes.
TEST(Search, NumbersOfGpusWithTooManyLayoutsHaveSome) {
  SearchOptions options;
  options.fewest_gpus = options.most_gpus = 1024;
  const SearchSpace space(
      document(
          "model: deepseek-v3\ncluster: dgx-h100 x 32\nbatch: {global: 5160960, seq: 4096}\n"
          "search: {space: {parallel.tp: auto, parallel.cp: auto, parallel.pp: auto, "
          "parallel.vpp: auto, parallel.ep: auto, parallel.etp: auto, parallel.zero: [0, 1, 2, 3], "
          "batch.micro: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20]}}\n"),
      options);
  EXPECT_TRUE(space.any_layout());
  EXPECT_FALSE(space.any_layout([] { return true; }));
}

TEST(Search, OnNamedNodesTheirGpusAreSearched) {
  const SearchSpace space(
      document("model: llama3-8b\nbatch: {global: 128, seq: 4096}\n"
               "cluster: {preset: dgx-h100, nodes: 8, placement: {nodes: [0, 2, 4-5]}}\n"));
  ASSERT_EQ(space.places().size(), 1);
  EXPECT_EQ(space.places()[0].gpus, 32);
  EXPECT_TRUE(space.any_layout());
  EXPECT_EQ(testing::failure_of([&] {
              SearchSpace(
                  document("model: llama3-8b\nbatch: {global: 128, seq: 4096}\n"
                           "cluster: {preset: dgx-h100, nodes: 8, placement: {nodes: [0, 9]}}\n"));
            }).codes,
            "E240");
}

// Of unlike nodes as many GPUs are different numbers of nodes.
TEST(Search, AsManyGpusAreThoseOfEachPlacesNodes) {
  SearchOptions options;
  options.fewest_gpus = options.most_gpus = 64;
  const SearchSpace space(
      document("model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 128, seq: 8192}\n"
               "search: {space: {cluster.node.gpus: [4, 8]}}\n"),
      options);
  ASSERT_EQ(space.places().size(), 2);
  for (const SearchPlace& place : space.places()) EXPECT_EQ(place.gpus, 64);
  EXPECT_EQ(space.places()[0].nodes, 16);
  EXPECT_EQ(space.places()[1].nodes, 8);
}

// What `where` leaves out is no matter of how many GPUs there are.
TEST(Search, WithoutALegalLayoutByWhereNoNumbersOfGpusAreNamed) {
  const std::string text =
      "model: llama3-70b\ncluster: dgx-h100 x 32\nbatch: {global: 1024, seq: 4096}\n";
  SearchOptions options;
  options.where = {"tp > 100"};
  const SearchResult none = search_layouts(document(text), options, quick()).result;
  EXPECT_EQ(none.layouts, 0);
  EXPECT_TRUE(none.legal_gpus.empty());
}

TEST(Search, OnMoreNodesALayoutOfTheSoftwareIsNamed) {
  ScenarioDocument d = document(
      "model: llama3-70b\ncluster: dgx-h100 x 1\nbatch: {global: 128, micro: 1, seq: 4096}\n"
      "software: pytorch-fsdp\n");
  const std::optional<FoundLayout> more = search_layouts(d, {}, quick()).result.on_more_nodes;
  ASSERT_TRUE(more.has_value());
  d.set("cluster.nodes", scalar_value(std::to_string(more->gpus / 8)));
  LoadOptions options;
  options.set = more->set;
  d.set(options);
  const Plan plan = d.resolve().plan;
  EXPECT_EQ(plan.grid.tp, 1);
  EXPECT_EQ(plan.grid.pp, 1);
  EXPECT_GE(plan.zero, 2);
}

TEST(Search, WhereAllLayoutsBreakAConstraintTheBestOfThemIsNamed) {
  LoadOptions hard;
  hard.set = {{"search.constraints", "['peak_memory <= 1GiB', 'step_time < 1h']"}};
  ScenarioDocument d = document(spaces().front().text);
  d.set(hard);
  const SearchAnswer answer = search_layouts(d, {}, quick());
  EXPECT_TRUE(answer.result.best.empty());
  EXPECT_FALSE(answer.result.nearest.has_value());
  ASSERT_TRUE(answer.result.breaking.has_value());
  EXPECT_EQ(answer.result.broken_constraints, std::vector<std::string>{"peak_memory <= 1GiB"});
  const SearchAnswer without = search_layouts(document(spaces().front().text), {}, quick());
  EXPECT_EQ(answer.result.breaking->step_time, without.result.best.front().step_time);
}

TEST(Search, AConstraintMayAskHowManySuchStepsFit) {
  LoadOptions sure;
  sure.set = {{"search.constraints", "fits >= 90%"}, {"search.memory_margin", "0%"}};
  ScenarioDocument d = document(spaces()[5].text);  // where memory is short
  d.set(sure);
  SearchRun run;
  run.jobs = 2;
  const SearchAnswer answer = search_layouts(d, {}, run);
  ASSERT_FALSE(answer.result.best.empty());
  for (const FoundLayout& l : answer.result.best) {
    ASSERT_TRUE(l.result.has_value());
    EXPECT_GE(l.result->fits_share.value_or(0), 0.9);
  }
  const bool broken = std::ranges::any_of(answer.result.decided, [](const SearchRule& r) {
    return r.name == "constraint" && r.count > 0;
  });
  EXPECT_TRUE(broken);
}

TEST(Search, StopsWhenItIsTold) {
  // Asked for the first time while layouts are enumerated, later between bounds and rounds.
  int64_t most = 0;
  for (const int64_t after : {0, 1, 400, 450, 480, 1'000'000}) {
    SearchRun run = quick(false, 1);
    int64_t asked = 0;
    run.stop = [&](std::optional<Time>) { return asked++ >= after; };
    const SearchAnswer answer = search_layouts(document(spaces().front().text), {}, run);
    if (after == 0) {
      EXPECT_EQ(answer.result.layouts, 0);
      EXPECT_FALSE(answer.result.all_seen);
    }
    EXPECT_GE(answer.result.layouts, most);
    most = answer.result.layouts;
    if (after > asked) {
      EXPECT_EQ(answer.result.undecided, 0);
      EXPECT_TRUE(answer.result.all_seen);
      EXPECT_FALSE(answer.result.best.empty());
    }
  }
}

TEST(Search, StoppedBeforeTheForecastsOnlyTheFirstIsMade) {
  const ScenarioDocument d = document(spaces().front().text);
  int64_t questions = 0;
  SearchRun count = quick(false, 1);
  count.stop = [&](std::optional<Time>) { return ++questions < 0; };
  search_layouts(d, {}, count);
  SearchRun run;
  run.jobs = 1;
  int64_t asked = 0;
  run.stop = [&](std::optional<Time>) { return ++asked > questions; };
  const SearchAnswer answer = search_layouts(d, {}, run);
  ASSERT_GT(answer.result.best.size(), 1u);
  EXPECT_TRUE(answer.result.best[0].result.has_value());
  EXPECT_FALSE(answer.result.best[1].result.has_value());
}

TEST(Search, OneLayoutThatFitsIsFoundWithoutTheOthers) {
  const ScenarioDocument d = document(spaces().front().text);
  SearchRun run = quick();
  run.any = true;
  const SearchAnswer one = search_layouts(d, {}, run), all = search_layouts(d, {}, quick());
  ASSERT_FALSE(one.result.best.empty());
  EXPECT_LT(one.result.simulated, all.result.simulated);
  EXPECT_TRUE(simple_layout_that_fits(d).has_value());
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
  EXPECT_EQ(f.codes, "E102 E125 E125 E126 E126 E102");
}

TEST(Search, AWrongValueOfAnyAxisIsShownWhereItStands) {
  const ScenarioDocument d = document(
      "model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 128, seq: 8192}\nsearch:\n"
      "  space:\n    cluster.nodes: [2, x]\n    precision: [fp7]\n");
  try {
    const SearchSpace space(d);
    FAIL();
  } catch (const InputError& e) {
    ASSERT_EQ(e.diagnostics.size(), 2);
    EXPECT_EQ(e.diagnostics[0].line, 6);
    EXPECT_EQ(e.diagnostics[0].source_line, "    cluster.nodes: [2, x]");
    EXPECT_EQ(e.diagnostics[1].line, 7);
    EXPECT_EQ(e.diagnostics[1].column, 17);
  }
}

TEST(Search, AWrongKeyOfAnAxisIsShownWhereItStands) {
  const ScenarioDocument d = document(
      "model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 128, seq: 8192}\nsearch:\n"
      "  space:\n    model.heads: [32, 64]\n");
  const testing::Failure f = testing::failure_of([&] { SearchSpace{d}; });
  EXPECT_EQ(f.lines.front().substr(0, 10), "E102 6:11 ") << f.lines.front();
}

TEST(Search, HugeSpacesAreRefused) {
  std::string list = "[1";
  for (int i = 2; i < 3000; ++i) list += ", " + std::to_string(i);
  list += ']';
  const testing::Failure f =
      failure("search: {space: {parallel.tp: " + list + ", parallel.pp: " + list +
              ", batch.micro: " + list + ", parallel.cp: " + list + "}}\n");
  EXPECT_EQ(f.codes, "E123");
  EXPECT_EQ(f.all.front().line, 4);
  std::string nodes = "search: {space: {cluster.nodes: " + list + "}}\n";
  EXPECT_EQ(failure(nodes).codes, "E123");
}

// How many combinations of the axes went by that rule, and layouts with context parallelism.
struct ContextOfASpace {
  int64_t refused = 0, layouts = 0;
};
ContextOfASpace context_of(const std::string& model, const std::string& more) {
  const SearchSpace::Layouts found =
      SearchSpace(document("model: " + model + "\ncluster: dgx-h100 x 2\n" +
                           "batch: {global: 32, seq: 8192}\n" + more))
          .layouts();
  ContextOfASpace all;
  for (const SearchRule& rule : found.rules)
    if (rule.name == "context") all.refused = rule.count;
  all.layouts = std::ranges::count_if(found.all, [](const Layout& l) { return l.cp > 1; });
  EXPECT_FALSE(found.all.empty());
  return all;
}

TEST(Search, LayersThatNeedWholeSequencesHaveNoContextParallelism) {
  for (const char* model :
       {"{model_type: nemotron_h, hidden_size: 2048, intermediate_size: 4096, "
        "num_attention_heads: 16, num_key_value_heads: 8, mamba_num_heads: 32, n_groups: 8, "
        "hybrid_override_pattern: 'M-M-M*-M-M-M*-M-'}",
        "{model_type: qwen3_5_text, hidden_size: 2048, intermediate_size: 4096, "
        "num_hidden_layers: 12, num_attention_heads: 16, num_key_value_heads: 8}",
        "{model_type: deepseek_v32, hidden_size: 2048, intermediate_size: 4096, "
        "num_hidden_layers: 8, num_attention_heads: 16, n_routed_experts: 16, "
        "moe_intermediate_size: 1024, num_experts_per_tok: 4, n_group: 1, topk_group: 1}"}) {
    SCOPED_TRACE(model);
    for (const char* more : {"", "search: {space: {parallel.cp: [1, 2, 4], batch.micro: 1}}\n"}) {
      const ContextOfASpace found = context_of(model, more);
      EXPECT_GT(found.refused, 0);
      EXPECT_EQ(found.layouts, 0);
    }
  }
  const ContextOfASpace dense = context_of("llama3-8b", "");
  EXPECT_EQ(dense.refused, 0);
  EXPECT_GT(dense.layouts, 0);
}

// Each layout says which exchange it has, also where the file states it beside no cp.
TEST(Search, SlidingWindowsGoWithContextParallelismWithoutARing) {
  EXPECT_EQ(context_of("gpt-oss-20b", "").layouts, 0);
  EXPECT_GT(context_of("gpt-oss-20b", "").refused, 0);
  for (const char* more : {"parallel: {cp_comm: allgather}\n",
                           "search: {space: {parallel.cp_comm: [p2p, allgather], batch.micro: 1, "
                           "parallel.cp: [1, 2]}}\n"})
    EXPECT_GT(context_of("gpt-oss-20b", more).layouts, 0) << more;
}

// Lists of any length are read in no time: with a comparison of each with each these take minutes.
TEST(Search, LongListsAreRead) {
  std::string numbers = "[1, 1, 1";
  for (int i = 1; i < 10'000; ++i) numbers += ", " + std::to_string(i);
  EXPECT_EQ(failure("search: {space: {parallel.tp: " + numbers + "], parallel.pp: " + numbers +
                    "], parallel.cp: " + numbers + "]}}\n")
                .codes,
            "E123");
  EXPECT_EQ(failure("search: {space: {cluster.nodes: " + numbers + "]}}\n").codes, "E123");
}

TEST(Search, ContradictionsLeaveNoLayout) {
  SearchOptions options;
  options.where = {"tp < 2", "tp > 2"};
  const SearchAnswer answer = search_layouts(document(spaces().front().text), options, quick());
  EXPECT_EQ(answer.result.layouts, 0);
  EXPECT_TRUE(answer.result.best.empty());
}

TEST(Search, GoesOnWhereAStepIsTooLongForInterference) {
  SearchRun run;
  run.forecasts = false;
  const SearchAnswer answer = search_layouts(
      document("model: llama3-8b\ncluster: dgx-h100 x 1\nbatch: {global: 65536, seq: 8192}\n"
               "contention: {interference: on}\n"
               "search: {space: {parallel.pp: 1, parallel.cp: 1, batch.micro: 1}}\n"),
      {}, run);
  EXPECT_TRUE(answer.result.best.empty());
  const auto rule = std::ranges::find(answer.result.decided, "impossible", &SearchRule::name);
  ASSERT_NE(rule, answer.result.decided.end());
  EXPECT_GT(rule->count, 0);
}

}  // namespace
}  // namespace stepcast::search_test
