// SPDX-License-Identifier: Apache-2.0
#include "calibrate/runs/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/diagnostic.h"
#include "tests/calibrate/runs/records_sample.h"

namespace stepcast::rules_test {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

TEST(Rules, ShippedOnesSayWhereTheyComeFrom) {
  ASSERT_THAT(shipped_rules(), Not(IsEmpty()));
  for (const RunRule& rule : shipped_rules())
    EXPECT_FALSE(rule.source.empty() && rule.assumed.empty() && rule.skip.empty());
}

TEST(Rules, LaterOnesWinAndAllConditionsMustHold) {
  const std::vector<RunRule> rules = parse_run_rules(
      "- {when: {a.b: x}, set: {k: 1}, source: s}\n"
      "- {when: {a.b: x, a.c: y}, set: {k: 2}, source: s}\n",
      "rules.yaml");
  const RunRecord both = record_with("- id: sample", "- id: sample\n  a: {b: xx, c: [z, yy]}");
  const RunRecord one = record_with("- id: sample", "- id: sample\n  a: {b: xx}");
  EXPECT_TRUE(applies(rules[0], both));
  EXPECT_TRUE(applies(rules[1], both));
  EXPECT_FALSE(applies(rules[1], one));
}

TEST(Rules, WordsOfDigitsStandAlone) {
  const auto holds = [](const std::string& word, const std::string& text) {
    const std::vector<RunRule> rules =
        parse_run_rules("- {when: {a: '" + word + "'}, set: {k: 1}, source: s}", "rules.yaml");
    return applies(rules[0], record_with("- id: sample", "- id: sample\n  a: " + text));
  };
  EXPECT_TRUE(holds("1", "1"));
  EXPECT_TRUE(holds("16", "16-bit mixed"));
  EXPECT_TRUE(holds("1", "10 or 1"));
  EXPECT_TRUE(holds("202506", "h100_202506_torchtitan.md"));
  EXPECT_TRUE(holds("1", "[12, 1]"));
  for (const char* other : {"10", "12", "16", "21", "1.5", "2.1", "a1", "1k", "[10, 21]"})
    EXPECT_FALSE(holds("1", other)) << other;
  EXPECT_FALSE(holds("32", "320"));
  EXPECT_FALSE(holds("256", "2560"));
  EXPECT_TRUE(holds("v1", "v10"));  // no number
}

TEST(Rules, OfSeveralWordsAllMustBeThere) {
  const RunRule rule =
      parse_run_rules("- {when: {a: [A100, PCIe]}, set: {k: 1}, source: s}", "rules.yaml").front();
  const auto holds = [&](const std::string& text) {
    return applies(rule, record_with("- id: sample", "- id: sample\n  a: " + text));
  };
  EXPECT_TRUE(holds("A100-80GB-PCIe"));
  EXPECT_FALSE(holds("A100-SXM4-80GB"));
  EXPECT_FALSE(holds("H100 PCIe"));
}

TEST(Rules, BadFilesAreLocated) {
  EXPECT_THROW(parse_run_rules("- {when: {a: []}, skip: s}", "rules.yaml"), InputError);
  EXPECT_THROW(parse_run_rules("- {when: {a: {b: 1}}, skip: s}", "rules.yaml"), InputError);
  EXPECT_THROW(parse_run_rules("{when: 1}", "rules.yaml"), InputError);
  EXPECT_THROW(parse_run_rules("- {set: {a: 1}, source: s}", "rules.yaml"), InputError);
  EXPECT_THROW(parse_run_rules("- {when: {a: b}, set: {a: 1}}", "rules.yaml"), InputError);
  EXPECT_THROW(parse_run_rules("- {when: {a: b}, sett: 1, source: s}", "rules.yaml"), InputError);
  EXPECT_THROW(read_run_rules("no/such/file.yaml"), InputError);
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

}  // namespace
}  // namespace stepcast::rules_test
