// SPDX-License-Identifier: Apache-2.0
// Several scenarios side by side, on several threads.
#include "scenarios/forecast/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "report/json/result.h"
#include "tests/scenarios/loading.h"

namespace stepcast::comparison_test {
namespace {

// Minimal scenarios that differ in tp; 3 does not divide the heads.
std::vector<ComparedScenario> cases(const std::vector<int>& tps) {
  std::vector<ComparedScenario> all;
  for (const int tp : tps) {
    LoadOptions options;
    options.set = {{"parallel.tp", std::to_string(tp)}, {"model.num_hidden_layers", "8"}};
    all.push_back(
        {"tp" + std::to_string(tp), ScenarioDocument::of_text(testing::kMinimal, "run.yaml", "")});
    all.back().document.set(options);
  }
  return all;
}

std::string answer(const std::vector<ComparedScenario>& scenarios, int jobs,
                   std::vector<std::string>& seen) {
  CompareOptions options;
  options.jobs = jobs;
  options.keep_names = true;
  const std::thread::id caller = std::this_thread::get_id();
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    seen.push_back(std::to_string(done) + " of " + std::to_string(total));
  };
  options.each = [&](const ScenarioDocument&, const Scenario& s, const Result& r) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_FALSE(r.graph->roles.front().items.empty());
    seen.push_back("tp " + std::to_string(s.plan.tp));
  };
  const Comparison c = compare_scenarios(scenarios, options);
  return compare_json(c.results, c.names, c.baseline, "0", c.left_out, {});
}

TEST(Compare, AnswersTheSameOnAnyNumberOfThreads) {
  const std::vector<ComparedScenario> scenarios = cases({1, 2, 4, 8, 2, 1, 4, 1, 2, 8, 4, 2, 1, 8});
  std::vector<std::string> alone;
  const std::string expected = answer(scenarios, 1, alone);
  EXPECT_EQ(alone[0], "0 of 14");
  EXPECT_EQ(alone[1], "tp 1");
  for (const int jobs : {2, 3, 64}) {
    std::vector<std::string> seen;
    EXPECT_EQ(answer(scenarios, jobs, seen), expected) << jobs;
    EXPECT_EQ(seen.size(), alone.size());
    std::erase_if(seen, [](const std::string& s) { return s.find(" of ") != std::string::npos; });
    EXPECT_THAT(
        seen, ::testing::ElementsAre("tp 1", "tp 2", "tp 4", "tp 8", "tp 2", "tp 1", "tp 4", "tp 1",
                                     "tp 2", "tp 8", "tp 4", "tp 2", "tp 1", "tp 8"));
  }
}

TEST(Compare, SaysWhatIsWrongWithEveryCaseOnAnyNumberOfThreads) {
  const std::vector<ComparedScenario> scenarios = cases({1, 3, 2, 5, 4});
  for (const int jobs : {1, 4}) {
    std::vector<std::string> seen;
    const testing::Failure f = testing::failure_of([&] { answer(scenarios, jobs, seen); });
    EXPECT_THAT(f.lines, ::testing::Contains(::testing::HasSubstr("tp = 3"))) << jobs;
    EXPECT_THAT(f.lines, ::testing::Contains(::testing::HasSubstr("tp = 5"))) << jobs;
  }
}

// A schedule of one chunk is tried with the scenario's two, which it refuses, and then with one,
// with which something else is wrong: that is what has to be mended.
TEST(Compare, SaysWhyAScheduleIsLeftOutWithTheChunksThatItHasAnOrderOf) {
  std::vector<ComparedScenario> scenarios = cases({1});
  LoadOptions options;
  options.set = {{"parallel.vpp", "2"}, {"parallel.zero", "2"}};
  scenarios[0].document.set(options);
  CompareOptions compared;
  compared.schedules = {"interleaved-1f1b", "vocab-1f1b"};
  const Comparison c = compare_scenarios(scenarios, compared);
  ASSERT_EQ(c.left_out.size(), 1u);
  ASSERT_EQ(c.left_out[0].problems.size(), 1u);
  EXPECT_EQ(c.left_out[0].problems[0].code, "E127");
  EXPECT_THAT(c.left_out[0].problems[0].message, ::testing::HasSubstr("parallel.zero 2 or 3"));
}

// What a caller throws to stop it, between cases.
TEST(Compare, EndsWhereTheCallerStopsIt) {
  CompareOptions options;
  options.jobs = 4;
  struct Stop {};
  options.progress = [](int64_t done, int64_t) {
    if (done == 3) throw Stop{};
  };
  EXPECT_THROW(compare_scenarios(cases({1, 2, 4, 8, 2, 1}), options), Stop);
}

}  // namespace
}  // namespace stepcast::comparison_test
