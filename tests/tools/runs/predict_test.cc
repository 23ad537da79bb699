// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/calibrate/runs/records_sample.h"
#include "tools/runs/run_report.h"

namespace stepcast::accuracy::predict_test {
namespace {

using ::testing::HasSubstr;

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

// dualpipe has two chunks a rank.
TEST(Predict, StageTimesOfSchedulesThatDoNotFitTheSizesGiveNoStep) {
  const auto step = [](const char* schedule) {
    const std::string text =
        replaced(sample_record(), "schedule: 1f1b", std::string("schedule: ") + schedule) +
        "  profiled_ms: {T_F: 10, T_B: 20, T_W: 5, T_comm: 1}\n";
    return profiled_step_s(parse_run_records(text, "sample.yaml").front().value);
  };
  EXPECT_TRUE(step("1f1b").has_value());
  EXPECT_EQ(step("dualpipe"), std::nullopt);
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
  EXPECT_THAT(r.skipped[0], HasSubstr("contradicts itself"));
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

// Korthikanti et al. 2022, eq. 7: 72 B L s h^2 (1 + s/6h + v/12hL).
double measured_step(const std::string& figures) {
  return predict(record_with("{step_time_s: 1.5}", '{' + figures + '}'), shipped_rules())
      .measured.step_time_s.value();
}

TEST(Predict, FlopRatesByTheClosedForm) {
  const double h = 6144, s = 2048, l = 48, v = 51200;
  const double flops = 72 * 128 * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  EXPECT_NEAR(measured_step("tflops_per_gpu: 100") / (flops / (100e12 * 64)), 1, 1e-9);
  EXPECT_NEAR(measured_step("mfu: 50") / (flops / (156e12 * 64)), 1, 1e-9);
}

// The first record of every GPU, software and precision of a source.
TEST(Predict, ShippedSampleIsForecastWithoutDefects) {
  const std::vector<RunRecord> records =
      read_run_records({std::string(STEPCAST_SOURCE_DIR) + "/calibrate/runs/records"}).records;
  std::set<std::string> seen;
  std::vector<RunRecord> sample;
  for (const RunRecord& r : records) {
    const std::string kind = r.source + '|' + text_at(r.value, "hardware.gpu") + '|' +
                             text_at(r.value, "software") + '|' + text_at(r.value, "precision");
    if (seen.insert(kind).second) sample.push_back(r);
  }
  size_t predicted = 0;
  for (const RunRow& row : predict_all(sample, shipped_rules(), 2)) {
    for (const std::string& why : row.skipped)
      EXPECT_THAT(why, Not(HasSubstr("internal error"))) << row.id;
    if (!row.step_time_s) continue;
    ++predicted;
    EXPECT_GT(*row.step_time_s, 0) << row.id;
    EXPECT_GT(*row.peak_memory, 0) << row.id;
  }
  EXPECT_GE(predicted, 20u);
}

}  // namespace
}  // namespace stepcast::accuracy::predict_test
