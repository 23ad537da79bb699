// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "calibrate/runs/run_record.h"
#include "sim/diagnostic.h"
#include "tests/tools/runs/rows.h"
#include "tools/runs/plots.h"
#include "tools/runs/text_file.h"

namespace stepcast::accuracy::run_report_test {
namespace {

using ::testing::HasSubstr;

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
                          "measured_oom", "predicted_oom", "memory_class", "memory_free",
                          "memory_room", "interval", "cost_origins", "skipped"})
    EXPECT_TRUE(json[0].contains(key)) << key;
  EXPECT_EQ(json[0].size(), 16u);
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
    EXPECT_THAT(text, HasSubstr("some"));
    EXPECT_THAT(text, HasSubstr("+25.0"));
    EXPECT_THAT(text, HasSubstr("too hard"));
  }
}

TEST(Report, MarkdownOfRecordsWithoutForecastsHasNoEmptyTables) {
  RunRow missing;
  missing.id = "a";
  missing.source = "some";
  missing.skipped = {"too | hard"};
  const std::string text = runs_markdown({missing}, "##");
  EXPECT_THAT(text, HasSubstr("**0 of 1 records are forecast.**\n"));
  EXPECT_THAT(text, HasSubstr("| too / hard | 1 | 1 | a |\n"));
  for (const char* title : {"Choice", "Out of memory", "By size", "By origin", "Furthest"})
    EXPECT_THAT(text, ::testing::Not(HasSubstr(title)));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("|---|\n\n")));
}

TEST(Report, MarkdownSaysWhyRunsAreFarOffAsFarAsItIsKnown) {
  RunRow a = row("a", 1, 1.25), b = row("b|c", 1, 3);
  b.cause = "the network was shared";
  const std::string text = runs_markdown({a, b}, "##");
  EXPECT_THAT(text, HasSubstr("| b/c | some | 1 | 3 | +200.0 | the network was shared |\n"
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
  EXPECT_THAT(text, HasSubstr("| 5 to 20 B | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, HasSubstr("| 9 to 64 | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, HasSubstr("| tp+pp | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, HasSubstr("| measured | 50.0 % | 1 | 25.0 | 25.0 | +25.0 |"));
  EXPECT_THAT(text, HasSubstr("| roofline | 50.0 % | 1 | 50.0 | 50.0 | -50.0 |"));
}

TEST(Report, MarkdownCountsAllFourCallsOfOutOfMemory) {
  std::vector<RunRow> rows(5, row("a", 1, 1));
  rows[0].measured.out_of_memory = rows[1].measured.out_of_memory = true;
  rows[0].out_of_memory = rows[2].out_of_memory = true;
  EXPECT_THAT(runs_markdown(rows, "##"), HasSubstr("| some | 1 | 1 | 1 | 2 |\n"));
}

TEST(Report, ScenariosSayWhatWasAssumed) {
  RunRow row;
  row.scenario = "name: x\n";
  EXPECT_EQ(scenario_text(row), "name: x\n");
  row.assumed = {"zero = 0: not printed", "two\nlines"};
  EXPECT_EQ(scenario_text(row),
            "# assumed: zero = 0: not printed\n# assumed: two lines\nname: x\n");
}

// ---- pictures

RunRow run(const char* source, double measured, double predicted) {
  RunRow row;
  row.id = std::string(source) + "-<1>";
  row.source = source;
  row.measured.step_time_s = measured;
  row.step_time_s = predicted;
  return row;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Plots, EveryTimedRunIsAMarkAndNamesAreEscaped) {
  std::vector<RunRow> rows{run("a", 1, 1.1), run("b", 200, 0.02)};
  rows[0].parameters = 7e9;
  rows[1].parameters = 1e15;  // at the edge
  for (const std::string& svg : {scatter_svg(rows), errors_svg(rows), sizes_svg(rows)}) {
    EXPECT_EQ(count_of(svg, "fill-opacity=\"0.6\""), 2u);
    EXPECT_THAT(svg, HasSubstr("a-&lt;1&gt;"));
  }
  for (const std::string& svg : {scatter_svg({}), errors_svg({}), sizes_svg({})})
    EXPECT_THAT(svg, HasSubstr("</svg>"));
}

TEST(Plots, SourcesBeyondTheColoursHaveAnotherMark) {
  std::vector<RunRow> rows;
  for (char name = 'a'; name <= 'm'; ++name)
    rows.push_back(run(std::string(1, name).c_str(), 1, 1.1));
  EXPECT_EQ(count_of(scatter_svg(rows), "fill-opacity=\"0.6\""), 13u);
  EXPECT_EQ(count_of(scatter_svg(rows), "<path"), 2u);  // the 13th, and in the legend
}

// ---- files

TEST(TextFiles, OnlyThePartBetweenTheMarksIsReplaced) {
  const std::string path = ::testing::TempDir() + "text_file_test.md";
  write_text_file(path, "before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n");
  put_between_marks(path, "x", "new\n");
  const std::string text = read_text_file(path);
  EXPECT_EQ(text, "before\n<!-- x: begin -->\nnew\n<!-- x: end -->\nafter\n");
  EXPECT_EQ(between_marks(text, "x", path), "new\n");
  EXPECT_THROW(put_between_marks(path, "y", ""), InputError);
  EXPECT_THROW(read_text_file(path + ".none"), InputError);
}

}  // namespace
}  // namespace stepcast::accuracy::run_report_test
