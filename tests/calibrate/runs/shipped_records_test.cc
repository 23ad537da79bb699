// SPDX-License-Identifier: Apache-2.0
// The records of the project: each becomes a scenario, or says why not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "calibrate/runs/rules.h"
#include "sim/diagnostic.h"
#include "tests/calibrate/runs/records_sample.h"

namespace stepcast::shipped_records_test {
namespace {

const std::vector<RunRecord>& shipped_records() {
  static const std::vector<RunRecord> records =
      read_run_records({std::string(STEPCAST_SOURCE_DIR) + "/calibrate/runs/records"}).records;
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
      read_known_causes(std::string(STEPCAST_SOURCE_DIR) + "/calibrate/runs/known_causes.yaml");
  EXPECT_FALSE(causes.empty());
  for (const KnownCause& cause : causes)
    EXPECT_TRUE(std::any_of(shipped_records().begin(), shipped_records().end(),
                            [&](const RunRecord& r) { return applies(cause, r); }))
        << "known_causes.yaml:" << cause.line << ": " << cause.cause;
}

TEST(ShippedRuns, BecomeScenariosOrSayWhyNot) {
  std::map<std::string, size_t> skipped;
  for (const RunRecord& r : shipped_records()) {
    const RunConversion c = convert_run(r, shipped_rules());
    EXPECT_EQ(c.scenario.empty(), c.skipped.has_value()) << r.id;
    if (c.skipped) ++skipped[r.source + ": " + *c.skipped];
  }
  size_t all = 0;
  for (const auto& [why, count] : skipped) all += count;
  EXPECT_LE(all, 4u) << ::testing::PrintToString(skipped);
}

}  // namespace
}  // namespace stepcast::shipped_records_test
