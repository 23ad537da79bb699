// SPDX-License-Identifier: Apache-2.0
// The records of the project: each becomes a scenario, or says why not; a sample is forecast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/diagnostic.h"
#include "tests/accuracy/known_causes.h"
#include "tests/accuracy/records_sample.h"
#include "tests/accuracy/run_report.h"
#include "tests/accuracy/summary.h"

namespace stepcast::accuracy::runs_test {
namespace {

const std::vector<RunRecord>& shipped_records() {
  static const std::vector<RunRecord> records =
      read_run_records({std::string(STEPCAST_TEST_DATA) + "/ground_truth"}).records;
  return records;
}

TEST(ShippedRuns, AreThere) {
  std::set<std::string> sources, ids;
  for (const RunRecord& r : shipped_records()) {
    sources.insert(r.source);
    EXPECT_TRUE(ids.insert(r.id).second) << r.id;
  }
  EXPECT_EQ(shipped_records().size(), 1951u);
  EXPECT_EQ(sources.size(), 22u);
}

TEST(ShippedRuns, EveryKnownCauseIsThatOfARecord) {
  for (const RunRecord& r : shipped_records()) EXPECT_EQ(r.problem, "");
  const std::vector<KnownCause> causes =
      read_known_causes(std::string(STEPCAST_SOURCE_DIR) + "/tests/accuracy/known_causes.yaml");
  EXPECT_FALSE(causes.empty());
  for (const KnownCause& cause : causes)
    EXPECT_TRUE(std::any_of(shipped_records().begin(), shipped_records().end(),
                            [&](const RunRecord& r) { return applies(cause, r); }))
        << "known_causes.yaml:" << cause.line << ": " << cause.cause;
}

TEST(KnownCauses, TheLastOneThatAppliesIsIt) {
  const std::vector<KnownCause> causes = parse_known_causes(
      "- {when: {source: sample}, cause: one}\n"
      "- {when: {source: sample, software: Some}, cause: two}\n"
      "- {when: {source: sampl}, cause: three}\n- {when: {id: other}, cause: four}\n",
      "causes.yaml");
  EXPECT_EQ(cause_of(record_with("", ""), causes), "two");
  EXPECT_EQ(cause_of(record_with("software: Some", "software: Other"), causes), "one");
  EXPECT_EQ(cause_of(record_with("", ""), {}), "");
}

TEST(KnownCauses, BadFilesAreLocated) {
  for (const char* bad : {"{a: 1}", "- {cause: a}", "- {when: {id: a}}", "- {when: 7, cause: a}",
                          "- {when: {id: a}, cause: a, becuase: b}", "- ["}) {
    try {
      parse_known_causes(bad, "causes.yaml");
      ADD_FAILURE() << bad;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), ::testing::StartsWith("causes.yaml:1:")) << bad;
    }
  }
  EXPECT_THROW(read_known_causes("no/such/file.yaml"), InputError);
}

TEST(ShippedRuns, BecomeScenariosOrSayWhyNot) {
  std::map<std::string, size_t> skipped;
  for (const RunRecord& r : shipped_records()) {
    const Conversion c = convert(r, shipped_rules());
    EXPECT_EQ(c.scenario.empty(), c.skipped.has_value()) << r.id;
    if (c.skipped) ++skipped[r.source + ": " + *c.skipped];
  }
  size_t all = 0;
  for (const auto& [why, count] : skipped) all += count;
  EXPECT_LE(all, 4u) << ::testing::PrintToString(skipped);
}

TEST(Scenarios, SayWhatWasAssumed) {
  RunRow row;
  row.scenario = "name: x\n";
  EXPECT_EQ(scenario_text(row), "name: x\n");
  row.assumed = {"zero = 0: not printed", "two\nlines"};
  EXPECT_EQ(scenario_text(row),
            "# assumed: zero = 0: not printed\n# assumed: two lines\nname: x\n");
}

TEST(Reasons, OfWhatIsNoRecordThePlaceOfOneIsTheExample) {
  RunRow row;
  row.id = "runs.yaml:12";
  row.skipped = {"folder/runs.yaml:12:3: E126 a record needs an id"};
  const std::vector<Reason> why = reasons({row});
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0].text, "E126 a record needs an id");
  EXPECT_EQ(why[0].example, "folder/runs.yaml:12:3");
}

// The first record of every GPU, software and precision of a source.
TEST(ShippedRuns, SampleIsForecastWithoutDefects) {
  std::set<std::string> seen;
  std::vector<RunRecord> sample;
  for (const RunRecord& r : shipped_records()) {
    const std::string kind = r.source + '|' + text_at(r.value, "hardware.gpu") + '|' +
                             text_at(r.value, "software") + '|' + text_at(r.value, "precision");
    if (seen.insert(kind).second) sample.push_back(r);
  }
  size_t predicted = 0;
  for (const RunRow& row : predict_all(sample, shipped_rules(), 2)) {
    for (const std::string& why : row.skipped)
      EXPECT_THAT(why, Not(::testing::HasSubstr("internal error"))) << row.id;
    if (!row.step_time_s) continue;
    ++predicted;
    EXPECT_GT(*row.step_time_s, 0) << row.id;
    EXPECT_GT(*row.peak_memory, 0) << row.id;
  }
  EXPECT_GE(predicted, 20u);
}

}  // namespace
}  // namespace stepcast::accuracy::runs_test
