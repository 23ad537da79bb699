// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/accuracy/aims.h"
#include "tests/accuracy/profiled.h"
#include "tests/accuracy/records_sample.h"
#include "tests/accuracy/run_markdown.h"
#include "tests/accuracy/run_report.h"

namespace stepcast::accuracy::summary_test {
namespace {

RunRow row(const std::string& id, double measured, double predicted) {
  RunRow r;
  r.id = id;
  r.source = "some";
  r.hardware = "A100";
  r.group = "g";
  r.tokens_per_gpu = 1000;
  r.measured.step_time_s = measured;
  r.measured.out_of_memory = false;
  r.step_time_s = predicted;
  r.out_of_memory = false;
  return r;
}

TEST(Summary, PercentilesByNearestRank) {
  const Errors e = errors_of({-0.1, 0.05, 0.2, -0.4});
  EXPECT_EQ(e.count, 4u);
  EXPECT_DOUBLE_EQ(e.median, 0.1);
  EXPECT_DOUBLE_EQ(e.p90, 0.4);
  EXPECT_DOUBLE_EQ(e.bias, -0.1);
  EXPECT_DOUBLE_EQ(e.mean, 0.1875);
  EXPECT_DOUBLE_EQ(e.worst, 0.4);
  EXPECT_EQ(errors_of({}).count, 0u);
}

TEST(Summary, CallsOfOutOfMemory) {
  RunRow hit = row("a", 1, 1), missed = hit, fits = hit, alarm = hit;
  hit.measured.out_of_memory = missed.measured.out_of_memory = true;
  hit.out_of_memory = alarm.out_of_memory = true;
  const OutOfMemory oom = summarize({&hit, &missed, &fits, &alarm}).oom;
  EXPECT_EQ(oom.hit, 1u);
  EXPECT_EQ(oom.missed, 1u);
  EXPECT_EQ(oom.fits, 1u);
  EXPECT_EQ(oom.alarms, 1u);
}

Rankings rankings(const std::vector<RunRow>& rows) {
  return summarize(all_of(rows)).rankings;
}

TEST(Summary, WinnersCountIfTheyLeadByMoreThanTwoPercent) {
  const std::vector<RunRow> right = {row("a", 1, 2), row("b", 1.1, 2.2)};
  EXPECT_EQ(rankings(right).winners, 1u);
  EXPECT_NEAR(rankings(right).ratio.median, 0, 1e-12);
  const std::vector<RunRow> wrong = {row("a", 1, 2), row("b", 1.1, 1.9)};
  EXPECT_EQ(rankings(wrong).groups, 1u);
  EXPECT_EQ(rankings(wrong).winners, 0u);
  const std::vector<RunRow> close = {row("a", 1, 2), row("b", 1.01, 1.9)};
  EXPECT_EQ(rankings(close).groups, 0u);
}

TEST(Summary, GroupsOfTwoSourcesAreTwoGroups) {
  std::vector<RunRow> rows = {row("a", 1, 2), row("b", 1.1, 1.9)};
  rows[1].source = "other";
  EXPECT_EQ(rankings(rows).groups, 0u);
  EXPECT_EQ(rankings(rows).ratio.count, 0u);
}

TEST(Summary, MeasuredTimesAreInTheirIntervalsOrBesideThem) {
  std::vector<RunRow> rows = {row("in", 1, 1), row("longer", 2, 1), row("none", 1, 1)};
  rows[0].interval = rows[1].interval = RunInterval{0.9, 1.2, 0.8};
  const InInterval c = summarize(all_of(rows)).coverage;
  EXPECT_EQ(c.runs, 2u);
  EXPECT_EQ(c.inside, 1u);
  EXPECT_EQ(c.above, 1u);
  EXPECT_EQ(c.below, 0u);
  EXPECT_EQ(c.level, 0.8);
}

TEST(Summary, LikeReasonsAreOne) {
  RunRow a = row("a", 1, 1), b = a;
  a.skipped = {"E130 parallel.cp = 2 is not supported yet", "E130 'moe' is not supported yet"};
  b.skipped = {"E130 parallel.cp = 16 is not supported yet"};
  const std::vector<Reason> all = reasons({a, b});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text, "E130 parallel.cp = # is not supported yet");
  EXPECT_EQ(all[0].records, 2u);
  EXPECT_EQ(all[0].alone, 1u);
}

TEST(Report, JsonHasARowForEachRecord) {
  RunRow missing = row("b", 3, 0);
  missing.step_time_s.reset();
  missing.out_of_memory.reset();
  missing.skipped = {"one", "two"};
  RunRow full = row("a", 1, 2);
  full.origins[0] = 1;
  full.interval = RunInterval{1.5, 2.5, 0.8};
  const auto json = nlohmann::json::parse(runs_json({full, missing}));
  ASSERT_EQ(json.size(), 2u);
  for (const char* key : {"id", "source", "measured_step_time_s", "predicted_step_time_s",
                          "measured_peak_memory_bytes", "predicted_peak_memory_bytes",
                          "measured_oom", "predicted_oom", "interval", "cost_origins", "skipped"})
    EXPECT_TRUE(json[0].contains(key)) << key;
  EXPECT_EQ(json[0].size(), 11u);
  EXPECT_EQ(json[0]["predicted_step_time_s"], 2);
  EXPECT_EQ(json[0]["cost_origins"]["measured"], 1);
  EXPECT_EQ(json[0]["interval"]["low_s"], 1.5);
  EXPECT_EQ(json[0]["interval"]["high_s"], 2.5);
  EXPECT_EQ(json[0]["interval"]["level"], 0.8);
  EXPECT_TRUE(json[0]["skipped"].is_null());
  EXPECT_TRUE(json[1]["interval"].is_null());
  EXPECT_TRUE(json[1]["predicted_step_time_s"].is_null());
  EXPECT_EQ(json[1]["skipped"], "one; two");
}

TEST(Report, TextAndMarkdownNameSourcesAndReasons) {
  RunRow missing = row("b", 3, 0);
  missing.step_time_s.reset();
  missing.skipped = {"too hard"};
  const std::vector<RunRow> rows = {row("a", 1, 1.25), missing};
  for (const std::string& text : {runs_text(rows), runs_markdown(rows, "##")}) {
    EXPECT_THAT(text, ::testing::HasSubstr("some"));
    EXPECT_THAT(text, ::testing::HasSubstr("+25.0"));
    EXPECT_THAT(text, ::testing::HasSubstr("too hard"));
  }
}

TEST(Report, MarkdownOfRecordsWithoutForecastsHasNoEmptyTables) {
  RunRow missing;
  missing.id = "a";
  missing.source = "some";
  missing.skipped = {"too | hard"};
  const std::string text = runs_markdown({missing}, "##");
  EXPECT_THAT(text, ::testing::HasSubstr("**0 of 1 records are forecast.**\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("| too / hard | 1 | 1 | a |\n"));
  for (const char* title : {"Choice", "Out of memory", "By size", "By origin", "Furthest"})
    EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr(title)));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("|---|\n\n")));
}

TEST(Report, MarkdownSaysWhyRunsAreFarOffAsFarAsItIsKnown) {
  RunRow a = row("a", 1, 1.25), b = row("b|c", 1, 3);
  b.cause = "the network was shared";
  const std::string text = runs_markdown({a, b}, "##");
  EXPECT_THAT(text,
              ::testing::HasSubstr("| b/c | some | 1 | 3 | +200.0 | the network was shared |\n"
                                   "| a | some | 1 | 1.25 | +25.0 | not known |\n"));
}

TEST(Report, MarkdownHasErrorsBySizeLayoutAndOriginOfPrices) {
  RunRow a = row("a", 1, 1.25), b = row("b", 1, 0.5);
  a.parameters = 7e9;
  a.gpus = 64;
  a.layout = "tp+pp";
  a.origins[static_cast<size_t>(Origin::measured)] = 1;
  b.origins[static_cast<size_t>(Origin::roofline)] = 1;
  const std::string text = runs_markdown({a, b}, "##");
  EXPECT_THAT(text, ::testing::HasSubstr("| 5 to 20 B | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, ::testing::HasSubstr("| 9 to 64 | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, ::testing::HasSubstr("| tp+pp | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, ::testing::HasSubstr("| measured | 50.0 % | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, ::testing::HasSubstr("| roofline | 50.0 % | 1 | 50.0 | 50.0 | -50.0 |"));
}

TEST(Report, MarkdownCountsAllFourCallsOfOutOfMemory) {
  std::vector<RunRow> rows(5, row("a", 1, 1));
  rows[0].measured.out_of_memory = rows[1].measured.out_of_memory = true;
  rows[0].out_of_memory = rows[2].out_of_memory = true;
  EXPECT_THAT(runs_markdown(rows, "##"), ::testing::HasSubstr("| some | 1 | 1 | 1 | 2 |\n"));
}

TEST(Aims, AreThoseTheRowsHaveRunsFor) {
  std::vector<RunRow> rows = {row("korthikanti-t5-x", 1, 1.01), row("korthikanti-t4-y", 1, 2)};
  for (RunRow& r : rows) r.source = "korthikanti_recompute";
  std::map<std::string, Aim> aims;
  for (const Aim& aim : aims_of(rows)) aims[aim.what] = aim;
  const Aim& mean = aims.at("Korthikanti 22B and 175B, mean error");
  EXPECT_NEAR(mean.reached, 1, 1e-9);
  EXPECT_EQ(mean.of, 1u);
  EXPECT_TRUE(mean.is_met);
  EXPECT_EQ(mean.wanted, "at most 3.65");
  EXPECT_FALSE(aims.at("step time, p90 of the error").is_met);
  EXPECT_NEAR(aims.at("runs that fit called so").reached, 100, 1e-9);
  EXPECT_FALSE(aims.contains("vTrain on one node, mean error"));
  EXPECT_FALSE(aims.contains("runs out of memory called so"));
  EXPECT_TRUE(aims_of({}).empty());
}

// Two stages and one microbatch: F and B of both one after the other, two hops between them.
TEST(Predict, StepsFromMeasuredStageTimes) {
  const std::string pipeline =
      replaced(replaced(sample_record(), "pp: 4, vpp: 1, dp: 4, zero: 1, schedule: 1f1b",
                        "pp: 2, vpp: 1, dp: 1, schedule: 1f1b"),
               "num_microbatches: 16", "num_microbatches: 1");
  const auto step = [&](const std::string& profile) {
    return profiled_step_s(
        parse_run_records(pipeline + "  profiled_ms: " + profile + '\n', "sample.yaml")
            .front()
            .value);
  };
  EXPECT_NEAR(step("{T_F: 10, T_B: 20, T_W: 5, T_comm: 1}").value(), 0.072, 1e-12);
  EXPECT_EQ(step("{T_F: 10, T_B: 20, T_W: 5}"), std::nullopt);
  EXPECT_EQ(step("{T_F: 10, T_B: -20, T_W: 5, T_comm: 1}"), std::nullopt);
  EXPECT_EQ(profiled_step_s(record_with("", "").value), std::nullopt);
}

TEST(Predict, WhatIsNoRecordIsListedWithItsPlace) {
  const std::vector<RunRecord> records =
      parse_run_records(sample_record() + "- {id: half, model: {}}\n", "sample.yaml");
  const std::vector<RunRow> rows = predict_all(records, shipped_rules(), 1);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].step_time_s.has_value());
  EXPECT_EQ(rows[1].id, "half");
  ASSERT_EQ(rows[1].skipped.size(), 1u);
  EXPECT_THAT(rows[1].skipped[0], ::testing::StartsWith("sample.yaml:11:3: E126 "));
}

TEST(Predict, OneRecordFromEndToEnd) {
  const RunRow r = predict(record_with("", ""), shipped_rules());
  EXPECT_THAT(r.skipped, ::testing::IsEmpty());
  EXPECT_GT(r.step_time_s.value(), 0.1);
  EXPECT_GT(r.peak_memory.value(), 1e9);
  EXPECT_EQ(r.measured.step_time_s, 1.5);
  EXPECT_EQ(r.gpus, 64);
  EXPECT_DOUBLE_EQ(r.tokens_per_gpu, 128.0 * 2048 / 64);
  EXPECT_EQ(r.hardware, "a100-sxm-80g");
  EXPECT_EQ(r.layout, "tp+pp");
  EXPECT_NEAR(r.parameters, 22e9, 1e9);
}

TEST(Predict, ProblemsOfTheScenarioAreReasons) {
  const RunRow r = predict(record_with("kv_heads: 64", "kv_heads: 48"), shipped_rules());
  EXPECT_FALSE(r.step_time_s.has_value());
  ASSERT_FALSE(r.skipped.empty());
  EXPECT_EQ(r.skipped[0].substr(0, 4), "E127");
}

TEST(Predict, SizesMustAgreeWithThePrintedParameters) {
  const RunRow r = predict(record_with("name: GPT,", "name: GPT, params_b: 2.0,"), shipped_rules());
  ASSERT_EQ(r.skipped.size(), 1u);
  EXPECT_THAT(r.skipped[0], ::testing::HasSubstr("contradicts itself"));
}

// A step of one pipeline rank holds the time of its 48 layers for each of 4 microbatches, and more.
TEST(Predict, OneLayerIsSetBesideOneLayer) {
  const auto one_rank = [](const std::string& measured) {
    const std::string text =
        replaced(replaced(replaced(sample_record(), "pp: 4, vpp: 1, dp: 4", "pp: 1, dp: 16"),
                          "micro: 2, global: 128, num_microbatches: 16",
                          "micro: 2, global: 128, num_microbatches: 4"),
                 "{step_time_s: 1.5}", measured);
    return predict(parse_run_records(text, "sample.yaml").front(), shipped_rules());
  };
  const RunRow layer = one_rank("{layer_total_ms: 20}");
  EXPECT_EQ(layer.measured.basis, TimeBasis::layer);
  EXPECT_DOUBLE_EQ(layer.measured.step_time_s.value(), 0.02);
  EXPECT_FALSE(layer.peak_memory.has_value());
  const double layers = 48 * 4 * layer.step_time_s.value();
  const double step = one_rank("{step_time_s: 1.5}").step_time_s.value();
  EXPECT_LT(layers, step);
  EXPECT_GT(layers, step / 2);
}

TEST(Predict, RowsDoNotDependOnTheNumberOfThreads) {
  std::vector<RunRecord> records;
  for (const char* layers : {"layers: 48", "layers: 24", "layers: 12"})
    records.push_back(record_with("layers: 48", layers));
  EXPECT_EQ(runs_json(predict_all(records, shipped_rules(), 1)),
            runs_json(predict_all(records, shipped_rules(), 3)));
}

}  // namespace
}  // namespace stepcast::accuracy::summary_test
