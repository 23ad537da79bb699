// SPDX-License-Identifier: Apache-2.0
// Forecasts that several threads make at once are those that one makes.  Other compilers and
// optimisations: tests/golden/determinism.txt, with the same scenarios.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "report/json/result.h"
#include "scenarios/forecast/forecast.h"

namespace stepcast::threads_test {
namespace {

struct Case {
  std::string example;
  std::vector<std::pair<std::string, std::string>> set{};
  bool all_ranks = false;
};

const std::vector<Case> kCases = {
    {"gpt-13b-8xa100"},
    {.example = "gpt3-175b-64xa100", .all_ranks = true},
    {"straggler", {{"replicas", "1"}}},
    {"routing", {{"replicas", "2"}}},
    {"routing", {{"replicas", "1"}, {"contention.interference", "on"}}},
    {"deepseek-v3-2048xh800"},
    {"mpt-13b-8xa100-fsdp"},
    {"llama3-70b-decode-8xh100"},
    {"compare-schedules", {{"schedule", "auto"}, {"parallel.vpp", "1"}}},
    {"compare-schedules", {{"schedule", "zb-2p-auto"}, {"parallel.vpp", "1"}}},
};

std::string answer(const Case& c) {
  const Scenario scenario =
      load_scenario(STEPCAST_SOURCE_DIR "/scenarios/examples/" + c.example + ".yaml",
                    {.set = c.set, .compare_case = {}, .root = {}});
  ForecastOptions options;
  options.all_ranks = c.all_ranks;
  return run_json(forecast(scenario, options), "");
}

std::vector<std::string> answers_of(int threads) {
  std::vector<std::string> answers(kCases.size());
  std::atomic<size_t> next{0};
  std::vector<std::jthread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&] {
      for (size_t i = next++; i < answers.size(); i = next++) answers[i] = answer(kCases[i]);
    });
  running.clear();  // waits
  return answers;
}

TEST(Threads, FourAndOneGiveTheSameAnswers) {
  // Four first: what a process reads once is read while others ask for it.
  const std::vector<std::string> four = answers_of(4), one = answers_of(1);
  for (size_t i = 0; i < kCases.size(); ++i) EXPECT_EQ(four[i], one[i]) << kCases[i].example;
}

}  // namespace
}  // namespace stepcast::threads_test
