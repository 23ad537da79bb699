// SPDX-License-Identifier: Apache-2.0
#include "report/json/result.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "sim/check.h"
#include "tests/report/sample.h"

namespace stepcast::json_test {
namespace {

using nlohmann::json;

json sample() {
  return json::parse(run_json(sample_result(), "1.2.3"));
}

TEST(RunJson, HasTheAgreedFields) {
  const json j = sample();
  for (const char* field : {"schema_version",
                            "version",
                            "scenario",
                            "step_time_s",
                            "step_time_ps",
                            "span_s",
                            "span_ps",
                            "tokens_per_s_per_gpu",
                            "mfu",
                            "hfu",
                            "bubble",
                            "account",
                            "critical_path",
                            "what_if",
                            "memory",
                            "trust",
                            "calibration",
                            "calibration_hash",
                            "interval",
                            "engine",
                            "warnings"})
    EXPECT_TRUE(j.contains(field)) << field;
  EXPECT_EQ(j["schema_version"], 2);
  EXPECT_EQ(j["version"], "1.2.3");
  EXPECT_EQ(j["scenario"]["hash"], "0123456789abcdef");
  EXPECT_EQ(j["mfu"]["convention"], "full_attention");
  EXPECT_DOUBLE_EQ(j["mfu"]["all"]["causal_attention"], 0.511);
}

TEST(RunJson, HasWhatIsKnownOfAnOrderMadeForTheScenario) {
  EXPECT_TRUE(sample()["synthesis"].is_null());
  Result r = sample_result();
  r.synthesis = {.objective = Time{1'400},
                 .lower_bound = Time{1'380},
                 .gap = 0.0145,
                 .start = "zb-h1",
                 .start_time = Time{1'420},
                 .orders_tried = 40'001,
                 .winner = std::string(kMadeToMeasure)};
  const json j = json::parse(run_json(r, "1.2.3"))["synthesis"];
  EXPECT_EQ(j["objective_ps"], 1'400);
  EXPECT_EQ(j["lower_bound_ps"], 1'380);
  EXPECT_DOUBLE_EQ(j["gap"], 0.0145);
  EXPECT_EQ(j["winner"], "auto");
  EXPECT_EQ(j["start"], "zb-h1");
  EXPECT_EQ(j["start_time_ps"], 1'420);
  EXPECT_EQ(j["orders_tried"], 40'001);
  r.synthesis->lower_bound.reset();
  r.synthesis->gap.reset();
  const json unbounded = json::parse(run_json(r, "1.2.3"))["synthesis"];
  EXPECT_TRUE(unbounded["lower_bound_ps"].is_null());
  EXPECT_TRUE(unbounded["gap"].is_null());
}

TEST(RunJson, SaysWhichWayOpsWentThroughTheEngine) {
  Result r = sample_result();
  r.rank_ops = 200;
  json engine = json::parse(run_json(r, "1.2.3"))["engine"];
  EXPECT_EQ(engine["fast_path_share"], 1);
  EXPECT_EQ(engine["rank_ops"], 200);
  ASSERT_EQ(engine["paths"].size(), 1U);
  EXPECT_EQ(engine["paths"][0]["path"], "fast");
  r.disturbance.emplace();
  r.disturbance->shared_links = true;
  r.event_ops = 50;
  r.flow_events = 7;
  engine = json::parse(run_json(r, "1.2.3"))["engine"];
  EXPECT_EQ(engine["fast_path_share"], 0.75);
  EXPECT_EQ(engine["flow_events"], 7);
  ASSERT_EQ(engine["paths"].size(), 2U);
  EXPECT_EQ(engine["paths"][1]["path"], "events");
  EXPECT_EQ(engine["paths"][1]["rank_ops"], 50);
  EXPECT_EQ(engine["paths"][1]["why"], "they share links with others");
  EXPECT_FALSE(engine.contains("seconds"));  // the file is the same on every machine
}

TEST(RunJson, SaysOfWhichStepWhatIfsAre) {
  Result r = sample_result();
  EXPECT_EQ(json::parse(run_json(r, "1.2.3"))["what_if_of"], "step");
  r.what_if_without_contention = true;
  EXPECT_EQ(json::parse(run_json(r, "1.2.3"))["what_if_of"], "step_without_contention");
}

TEST(RunJson, HasRanksThatDifferAndReplicas) {
  EXPECT_TRUE(sample()["disturbance"].is_null());
  EXPECT_TRUE(sample()["replicas"].is_null());
  Result r = sample_result();
  r.disturbance.emplace();
  r.disturbance->undisturbed = Time{1'200};
  r.disturbance->ranks = 16;
  r.disturbance->slow_ranks = 1;
  r.replicas = ReplicaTimes{.count = 3, .first_seed = 7, .p5 = Time{1'300}, .max = Time{1'500}};
  const json j = json::parse(run_json(r, "1.2.3"));
  EXPECT_EQ(j["disturbance"]["undisturbed_ps"], 1'200);
  EXPECT_EQ(j["disturbance"]["ranks"], 16);
  EXPECT_EQ(j["disturbance"]["slow_ranks"], 1);
  EXPECT_TRUE(j["disturbance"]["without_contention_ps"].is_null());
  EXPECT_EQ(j["replicas"]["count"], 3);
  EXPECT_EQ(j["replicas"]["first_seed"], 7);
  EXPECT_EQ(j["replicas"]["p5_ps"], 1'300);
  EXPECT_EQ(j["replicas"]["max_ps"], 1'500);
}

TEST(RunJson, TimesAgreeInBothUnits) {
  const json j = sample();
  EXPECT_EQ(j["step_time_ps"], 1'510'000'000);
  EXPECT_DOUBLE_EQ(j["step_time_s"], 0.00151);
}

TEST(RunJson, AccountItemsSumToTheStep) {
  const json j = sample();
  ASSERT_EQ(j["account"].size(), 2u);
  for (const json& role : j["account"]) {
    int64_t sum = 0;
    for (const auto& [name, ps] : role["items_ps"].items()) {
      sum += ps.get<int64_t>();
      EXPECT_TRUE(role["items"].contains(name));
    }
    EXPECT_EQ(sum, j["step_time_ps"]);
    EXPECT_EQ(role["ranks"], 4);
  }
  EXPECT_EQ(j["account"][1]["rank"], 1);
  EXPECT_EQ(j["account"][1]["name"], "stage 1");
}

TEST(RunJson, BubbleIsTheSumOfItsCauses) {
  const json j = sample();
  int64_t sum = 0;
  for (const auto& [name, ps] : j["bubble"]["by_cause_ps"].items()) sum += ps.get<int64_t>();
  EXPECT_GT(sum, 0);
  EXPECT_EQ(sum, j["bubble"]["ps"]);
}

TEST(RunJson, CategoriesOfMemorySumToThePeak) {
  const json j = sample();
  EXPECT_EQ(j["memory"]["fits"], true);
  for (const json& stage : j["memory"]["by_rank"]) {
    int64_t sum = 0;
    for (const auto& [name, bytes] : stage["by_category"].items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, stage["peak_bytes"]);
  }
  EXPECT_EQ(j["memory"]["by_rank"][0]["activation_terms"][0]["tensor"], "qkv input");
}

TEST(RunJson, TheLayoutAndTheBatchAreNumbers) {
  Result r = sample_result();
  r.scenario.cp = 3;
  r.scenario.ep = 5;
  r.scenario.etp = 7;
  r.scenario.vpp = 11;
  r.scenario.dp = 13;
  r.scenario.zero = 1;
  r.scenario.global_batch = 64;
  r.scenario.micro_batch = 17;
  r.scenario.mtp_layers = 19;
  const json s = json::parse(run_json(r, "1.2.3"))["scenario"];
  const json expected = {{"name", "sample"},
                         {"hash", "0123456789abcdef"},
                         {"gpu", "TEST-GPU"},
                         {"gpus", 8},
                         {"tp", 4},
                         {"cp", 3},
                         {"ep", 5},
                         {"etp", 7},
                         {"pp", 2},
                         {"vpp", 11},
                         {"dp", 13},
                         {"zero", 1},
                         {"global_batch", 64},
                         {"micro_batch", 17},
                         {"mtp_layers", 19},
                         {"microbatches", 2},
                         {"seq", 128},
                         {"schedule", "1F1B"}};
  EXPECT_EQ(s, expected);
}

TEST(RunJson, ThePeakIsTheLargestOfTheRanksWhoeverReservesMost) {
  Result r = sample_result();
  r.memory[0].memory.peak = Bytes{10'000'000};
  r.memory[1].memory.peak = Bytes{10'100'000};
  r.peak_role = 1;
  r.memory[0].reserved = Bytes{16'000'000};
  const json memory = json::parse(run_json(r, "1.2.3"))["memory"];
  EXPECT_EQ(memory["peak_bytes"], 10'100'000);
  EXPECT_EQ(memory["peak_rank"], 1);
  EXPECT_EQ(memory["reserved_bytes"], 16'000'000);
  EXPECT_EQ(memory["reserved_rank"], 0);
  EXPECT_EQ(memory["by_rank"][1]["rank"], 1);
  EXPECT_EQ(memory["by_rank"][0]["reserved_bytes"], 16'000'000);
  EXPECT_EQ(memory["by_rank"][1]["reserved_bytes"], 15'000'000);
  EXPECT_EQ(memory["by_rank"][1]["peak_op"], "norm in 0F1");
  EXPECT_EQ(memory["interval"], nullptr);
  EXPECT_EQ(memory["fits_share"], nullptr);
}

TEST(RunJson, MemoryHasItsIntervalAndHowSurelyItFits) {
  Result r = sample_result();
  r.fits_share = 0.7;
  r.reserved_interval = MemoryInterval{.low = Bytes{15'500'000},
                                       .high = Bytes{18'000'000},
                                       .like = "memory / reserved",
                                       .runs = 113,
                                       .sources = 4,
                                       .like_low = 0.97,
                                       .like_high = 1.12};
  const json memory = json::parse(run_json(r, "1.2.3"))["memory"];
  EXPECT_EQ(memory["fits_share"], 0.7);
  EXPECT_EQ(memory["interval"]["low_bytes"], 15'500'000);
  EXPECT_EQ(memory["interval"]["high_bytes"], 18'000'000);
  EXPECT_EQ(memory["interval"]["level"], 0.8);
  EXPECT_EQ(memory["interval"]["runs"], 113);
}

TEST(RunJson, TheCriticalPathCoversTheStep) {
  const json j = sample();
  int64_t at = 0;
  for (const json& segment : j["critical_path"]) {
    EXPECT_EQ(segment["begin_ps"], at);
    at = segment["end_ps"];
  }
  EXPECT_EQ(at, j["step_time_ps"]);
}

TEST(RunJson, IsTheSameEveryTime) {
  EXPECT_EQ(run_json(sample_result(), "1"), run_json(sample_result(), "1"));
}

TEST(RunJson, SurvivesAnEmptyResult) {
  const json j = json::parse(run_json(empty_result(), "1"));
  EXPECT_EQ(j["step_time_ps"], 0);
  EXPECT_TRUE(j["account"].empty());
  EXPECT_EQ(j["bubble"]["fraction"], 0.0);
}

TEST(CompareJson, IsOneRunACase) {
  const std::array results{sample_result(), sample_result()};
  const std::array<std::string, 2> names{"a", "b"};
  const json j = json::parse(compare_json(results, names, 1, "1"));
  EXPECT_EQ(j["baseline"], "b");
  ASSERT_EQ(j["cases"].size(), 2u);
  EXPECT_EQ(j["cases"][0]["name"], "a");
  EXPECT_EQ(j["cases"][0]["step_time_ps"], 1'510'000'000);
  EXPECT_TRUE(j["left_out"].empty());
}

TEST(CompareJson, WhatIsLeftOutHasItsErrors) {
  const std::array results{sample_result()};
  const std::array<std::string, 1> names{"a"};
  LeftOut left_out{"zb-v", {{}}};
  left_out.problems.front().code = "E202";
  const json j = json::parse(compare_json(results, names, 0, "1", std::span(&left_out, 1)));
  EXPECT_EQ(j["left_out"][0]["name"], "zb-v");
  EXPECT_EQ(j["left_out"][0]["errors"][0]["code"], "E202");
}

TEST(CompareJson, ABaselineThatIsNotThereIsABug) {
  const std::array results{sample_result()};
  const std::array<std::string, 1> names{"a"};
  EXPECT_THROW(compare_json(results, names, 1, "1"), InternalError);
}

}  // namespace
}  // namespace stepcast::json_test
