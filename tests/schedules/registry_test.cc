// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedules/schedule.h"

namespace stepcast::registry_test {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

std::string found(std::string_view name) {
  const ScheduleFamily* family = find_schedule_family(name);
  return family == nullptr ? "" : std::string(family->name);
}

TEST(ScheduleRegistry, KnowsTheNamesOfOtherProjects) {
  EXPECT_EQ(found("1F1B"), "1f1b");
  EXPECT_EQ(found("Schedule1F1B"), "1f1b");
  EXPECT_EQ(found("PipeDream-Flush"), "1f1b");
  EXPECT_EQ(found("GPipe"), "gpipe");
  EXPECT_EQ(found("ScheduleGPipe"), "gpipe");
  EXPECT_EQ(found("AFAB"), "gpipe");
  EXPECT_EQ(found("F-then-B"), "gpipe");
  EXPECT_EQ(found("FThenB"), "gpipe");
  EXPECT_EQ(found("interleaved"), "interleaved-1f1b");
  EXPECT_EQ(found("interleaved_1f1b"), "interleaved-1f1b");
  EXPECT_EQ(found("Interleaved 1F1B"), "interleaved-1f1b");
}

TEST(ScheduleRegistry, OrdersMadeForTimesTakeThem) {
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.order_by == OrderBy::rule) continue;
    EXPECT_NE(std::ranges::find(family.parameters, "tF", &ScheduleParameter::key),
              family.parameters.end())
        << family.name;
  }
}

TEST(ScheduleRegistry, PyTorchsInterleavedIsPyTorchsRule) {
  EXPECT_EQ(found("Interleaved1F1B"), "interleaved-1f1b-flex");
  EXPECT_EQ(found("ScheduleInterleaved1F1B"), "interleaved-1f1b-flex");
}

TEST(ScheduleRegistry, KnowsEverySchedulePyTorchHas) {
  const std::pair<const char*, const char*> names[] = {
      {"GPipe", "gpipe"},
      {"1F1B", "1f1b"},
      {"Interleaved1F1B", "interleaved-1f1b-flex"},
      {"LoopedBFS", "looped-bfs"},
      {"InterleavedZeroBubble", "interleaved-zero-bubble"},
      {"ZBVZeroBubble", "zb-v"},
      {"DualPipeV", "dualpipev"},
  };
  for (const auto& [name, family] : names) {
    EXPECT_EQ(found(name), family);
    EXPECT_EQ(found("Schedule" + std::string(name)), family);
  }
}

TEST(ScheduleRegistry, KnowsTheNamesOfPapersAndFrameworks) {
  const std::pair<const char*, const char*> names[] = {
      {"forward_backward_pipelining_without_interleaving", "1f1b"},
      {"forward_backward_pipelining_with_interleaving", "interleaved-1f1b"},
      {"OneForwardOneBackwardSchedule", "1f1b"},
      {"InterleavedSchedule", "interleaved-1f1b"},
      {"TrainSchedule", "1f1b"},
      {"ZBV-formatted", "zb-v"},
      {"zero_bubble_v", "zb-v"},
      {"ZeroBubbleVPipeScheduler", "zb-v"},
      {"zbh1", "zb-h1"},
      {"zb-h1-quick-start", "zb-h1-quickstart"},
      {"DualPipe", "dualpipe"},
      {"dual_pipe_v", "dualpipev"},
      {"Seq1F1B", "seq1f1b"},
      {"seqpipe", "seq1f1b"},
      {"GIS", "group-interleaved"},
      {"Hanayo", "hanayo"},
      {"Chimera", "chimera"},
      {"Eager1F1B", "eager-1f1b"},
      {"overlap_moe_expert_parallel_comm", "interleaved-1f1b-ep-overlap"},
  };
  for (const auto& [name, family] : names) EXPECT_EQ(found(name), family) << name;
}

TEST(ScheduleRegistry, ParametersHaveOneNameAndASummary) {
  for (const ScheduleFamily& family : schedule_families()) {
    std::set<std::string_view> keys;
    for (const ScheduleParameter& parameter : family.parameters) {
      EXPECT_TRUE(keys.insert(parameter.key).second) << family.name << ' ' << parameter.key;
      EXPECT_GE(parameter.summary.size(), 5u) << family.name << ' ' << parameter.key;
    }
  }
}

TEST(ScheduleRegistry, DoesNotGuess) {
  for (const char* name : {"", "1f1", "interleave", "1f1b ", "nonsense", "-"})
    EXPECT_EQ(find_schedule_family(name), nullptr) << name;
}

TEST(ScheduleRegistry, NamesAreCanonicalAndBelongToOneFamily) {
  std::set<std::string_view> all, titles;
  for (const ScheduleFamily& family : schedule_families()) {
    EXPECT_TRUE(all.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.title.empty()) << family.name;
    EXPECT_TRUE(titles.insert(family.title).second) << family.title;
    for (const std::string_view alias : family.aliases)
      EXPECT_TRUE(all.insert(alias).second) << alias;
    EXPECT_FALSE(family.summary.empty()) << family.name;
    EXPECT_FALSE(family.source.empty()) << family.name;
    EXPECT_NE(family.generate, nullptr) << family.name;
    EXPECT_EQ(found(family.name), family.name);
  }
  for (const std::string_view name : all)
    for (const char c : name)
      EXPECT_TRUE(std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-') << name;
}

// docs/schedules.md, "Families": the first column.
TEST(ScheduleRegistry, IsInTheOrderOfThePage) {
  std::ifstream page(STEPCAST_SOURCE_DIR "/docs/schedules.md");
  std::vector<std::string> shown, names;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) inside = line == "## Families";
    if (!inside || !line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" |", 1));
    for (size_t at = cell.find('`'); at != cell.npos; at = cell.find('`', at + 1)) {
      const size_t end = cell.find('`', at + 1);
      shown.push_back(cell.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  EXPECT_EQ(shown, names);
}

TEST(ScheduleRegistry, SuggestsWhatWasMeant) {
  EXPECT_EQ(similar_schedule_names("1f1").at(0), "1f1b");
  EXPECT_EQ(similar_schedule_names("gpip").at(0), "gpipe");
  EXPECT_EQ(similar_schedule_names("GIPE").at(0), "gpipe");
  EXPECT_EQ(similar_schedule_names("interleave").at(0), "interleaved-1f1b");
  EXPECT_EQ(similar_schedule_names("interleaved-1fb1").at(0), "interleaved-1f1b");
  EXPECT_THAT(similar_schedule_names("interleaved-1f1b-flx"), Contains("interleaved-1f1b-flex"));
  EXPECT_LE(similar_schedule_names("interleaved").size(), 3u);
}

TEST(ScheduleRegistry, SuggestsNothingForSomethingElse) {
  for (const std::string& name : {std::string("banana"), std::string(), std::string(100'000, 'x')})
    EXPECT_THAT(similar_schedule_names(name), IsEmpty()) << name.substr(0, 20);
}

}  // namespace
}  // namespace stepcast::registry_test
