// SPDX-License-Identifier: Apache-2.0
// Own runs that a scenario names under `calibration`.
#include "scenarios/own_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/fit/own_runs.h"
#include "calibrate/fit/own_runs_text.h"
#include "calibrate/table/cost_table.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/observed_errors.h"
#include "sim/diagnostic.h"
#include "tests/temporary_folder.h"

namespace stepcast::scenario_own_runs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::string kScenario =
    "model: llama3-8b\n"
    "cluster: dgx-h100 x 2\n"
    "parallel: {tp: 2, pp: 2}\n"
    "batch: {global: 32, micro: 1, seq: 4096}\n";

// Own runs by the shipped table, where products take `factor` times as long as published.
std::string own_text(double factor, const std::string& cluster = "dgx-h100 x 2") {
  LoadOptions options;
  options.set = {{"cluster", cluster}};
  const Scenario s = load_scenario_text(kScenario, "run.yaml", options);
  OwnRunsText own{s.cluster.node.gpu.name,
                  {prices_key(s)},
                  3,
                  {},
                  own_prior(in_situ_parameters(), s.cluster.node, s.plan.kernels.libraries)};
  for (InSituParameter& p : own.parameters)
    if (p.term == InSituTerm::products) p.value *= factor;
  return write_own_runs(own);
}

struct Files {
  testing::TemporaryFolder folder;
  Scenario load(const std::string& calibration) const {
    return load_scenario(
        folder.write("run.yaml", kScenario + "calibration: " + calibration + '\n'));
  }
  std::string refusal(const std::string& calibration) const {
    try {
      load(calibration);
    } catch (const InputError& e) {
      return e.diagnostics.front().code + ' ' + e.diagnostics.front().message;
    }
    return "";
  }
};

double seconds(const Scenario& s) {
  return to_seconds(forecast(s, {.what_if = false}).step_time);
}

TEST(ScenarioOwnRuns, TakeThePlaceOfThePublishedValues) {
  const Files files;
  files.folder.write("mine.csv", own_text(1.2));
  files.folder.write("same.csv", own_text(1));
  const double plain = seconds(load_scenario_text(kScenario, "run.yaml"));
  const Scenario own = files.load("[h100-sxm, mine.csv]");
  EXPECT_THAT(own.warnings, IsEmpty());
  EXPECT_GT(seconds(own), 1.1 * plain);
  EXPECT_EQ(seconds(files.load("mine.csv")), seconds(own));
  EXPECT_NEAR(seconds(files.load("same.csv")), plain, 1e-6 * plain);
  const Result result = forecast(own, {.what_if = false});
  EXPECT_THAT(result.calibration, HasSubstr("3 own runs in "));
  EXPECT_EQ(result.own_runs_hash.size(), 16u);
}

TEST(ScenarioOwnRuns, StandBesideATableOfOnesOwn) {
  const Files files;
  files.folder.write("mine.csv", own_text(1.2));
  files.folder.write("table.csv", shipped_table_text("h100-sxm"));
  const Scenario s = files.load("[table.csv, mine.csv]");
  EXPECT_THAT(s.warnings, IsEmpty());  // the table is the one that the runs were priced by
  ASSERT_NE(s.calibration, nullptr);
  ASSERT_NE(s.own_runs, nullptr);
  EXPECT_EQ(seconds(s), seconds(files.load("mine.csv")));
}

TEST(ScenarioOwnRuns, OtherPricesThanTheRunsHadAreWarnedOf) {
  const Files files;
  files.folder.write("mine.csv", own_text(1.2));
  std::string table(shipped_table_text("h100-sxm"));
  files.folder.write("table.csv", table + "\n");
  EXPECT_THAT(files.load("[table.csv, mine.csv]").warnings,
              ElementsAre(HasSubstr("were priced by the table h100-sxm")));
  // A table of that name is another one, whatever its name ends with.
  std::string other = own_text(1.2);
  other.insert(other.find("# prices: ") + 10, "my ");
  files.folder.write("other.csv", other);
  EXPECT_THAT(files.load("other.csv").warnings,
              ElementsAre(HasSubstr("were priced by the table my h100-sxm")));
  const Scenario off = load_scenario(
      files.folder.write("off.yaml", kScenario + "calibration: mine.csv\nin_situ: off\n"));
  EXPECT_THAT(off.warnings, ElementsAre(HasSubstr("in_situ: off leaves out")));
}

TEST(ScenarioOwnRuns, ValuesOfAnotherVersionAreWarnedOf) {
  const Files files;
  std::string text = own_text(1);
  const size_t row = text.find("host calls,");
  ASSERT_NE(row, text.npos);
  // The prior is the fifth cell after the term.
  size_t cell = row;
  for (int i = 0; i < 5; ++i) cell = text.find(',', cell) + 1;
  text.replace(cell, text.find(',', cell) - cell, "7.5");
  files.folder.write("mine.csv", text);
  EXPECT_THAT(files.load("mine.csv").warnings, ElementsAre(HasSubstr("of another version")));
}

TEST(ScenarioOwnRuns, OfAnotherGpuTwiceOrDamagedAreRefused) {
  const Files files;
  files.folder.write("mine.csv", own_text(1.2));
  files.folder.write("other.csv", own_text(1.2, "dgx-a100-80g x 2"));
  files.folder.write("cut.csv", own_text(1.2).substr(0, 60));
  EXPECT_THAT(files.refusal("other.csv"), StartsWith("E313 these runs were on a100-sxm-80g"));
  EXPECT_THAT(files.refusal("[mine.csv, mine.csv]"), StartsWith("E127 there are two files of own"));
  EXPECT_THAT(files.refusal("[h100-sxm, h100-sxm]"), StartsWith("E127 there are two cost tables"));
  EXPECT_THAT(files.refusal("cut.csv"), StartsWith("E312"));
  EXPECT_THAT(files.refusal("none.csv"), StartsWith("E101"));
}

TEST(ScenarioOwnRuns, HaveIntervalsOfTheirOwn) {
  const Files files;
  files.folder.write("mine.csv", own_text(1));
  const Result plain = forecast(load_scenario_text(kScenario, "run.yaml"), {.what_if = false});
  const Result own = forecast(files.load("mine.csv"), {.what_if = false});
  ASSERT_TRUE(plain.interval && own.interval);
  EXPECT_EQ(plain.interval->own_runs, 0);
  const ClassErrors* with = errors_like(own_run_errors(), plain.interval->like, 3);
  ASSERT_NE(with, nullptr);
  EXPECT_EQ(own.interval->own_runs, 3);
  EXPECT_EQ(own.interval->like, with->name);
}

TEST(OwnRunErrors, GoByTheNumberOfRunsThenAsOthersDo) {
  const std::vector<ClassErrors> table = parse_own_run_errors(
      "own_runs,class,runs,sources,low,high,cost_error\n1,training,9,3,0.9,1.1,0.1\n"
      "1,training / long kernels,5,2,0.9,1.1,0.1\n3,training,9,3,0.9,1.1,0.1\n");
  EXPECT_EQ(errors_like(table, "training / long kernels / experts", 1), &table[1]);
  EXPECT_EQ(errors_like(table, "training / short kernels", 2), &table[0]);
  EXPECT_EQ(errors_like(table, "training / long kernels", 7), &table[2]);
  EXPECT_EQ(errors_like(table, "training", 0), nullptr);
  EXPECT_EQ(errors_like(table, "", 1), nullptr);
  EXPECT_THROW(parse_own_run_errors("own_runs,class,runs,sources,low,high,cost_error\n"
                                    "2,training,9,3,0.9,1.1,0.1\n"),
               InputError);
  for (const int64_t known : {1, 3})
    EXPECT_NE(errors_like(own_run_errors(), "training", known), nullptr);
}

}  // namespace
}  // namespace stepcast::scenario_own_runs_test
