// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "calibrate/runs/run_record.h"
#include "sim/diagnostic.h"
#include "tests/tools/runs/rows.h"
#include "tools/runs/text_file.h"

namespace stepcast::accuracy::summary_test {
namespace {

using ::testing::HasSubstr;

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

TEST(Summary, LossOfLargerRunsOfOneSetting) {
  const auto of = [](int64_t gpus, const char* parallel, double measured, double predicted) {
    RunRow r = row("a", measured, predicted);
    r.gpus = gpus;
    r.tokens_per_gpu = 1000;
    r.scenario = "name: n" + std::to_string(gpus) +
                 "\ncluster: {preset: c, nodes: " + std::to_string(gpus / 8) +
                 "}\nmodel: m\nbatch: {global: " + std::to_string(gpus) + "}\nparallel: {" +
                 parallel + ", dp: " + std::to_string(gpus) + "}\n";
    return r;
  };
  const std::vector<RunRow> rows{of(64, "tp: 1", 2, 4), of(8, "tp: 1", 1, 1),
                                 of(16, "tp: 1", 1.25, 1), of(16, "tp: 2", 1, 1),
                                 of(8, "tp: 2", 1, 1)};
  const std::vector<Scaling> found = scalings(rows);
  ASSERT_EQ(found.size(), 1u);  // of the other setting there is only twice as many
  ASSERT_EQ(found[0].size(), 3u);
  EXPECT_EQ(found[0][0].row->gpus, 8);
  EXPECT_DOUBLE_EQ(found[0][0].measured, 0);
  EXPECT_NEAR(found[0][1].measured, 0.2, 1e-9);
  EXPECT_NEAR(found[0][1].predicted, 0, 1e-9);
  EXPECT_EQ(found[0][2].row->gpus, 64);
  EXPECT_NEAR(found[0][2].measured, 0.5, 1e-9);
  EXPECT_NEAR(found[0][2].predicted, 0.75, 1e-9);
}

TEST(Summary, RegretOfWhatForecastsChoose) {
  const auto of = [](const char* layout, double predicted, double measured, double free) {
    RunRow r = row("a", measured, predicted);
    r.tokens_per_gpu = 1000;
    r.memory_free = free;
    r.scenario =
        std::string("model: m\nbatch: {global: 8, micro: 1}\nparallel: {") + layout + "}\n";
    return r;
  };
  // Forecast fastest and to fit is the second, which was measured to take 1.1 times the best.
  RunRow large = of("tp: 1", 0.5, 1, -0.1), chosen = of("tp: 2", 1.0, 2.2, 0.2),
         best = of("tp: 4", 1.1, 2.0, 0.2);
  Regret r = summarize({&large, &chosen, &best}).regret;
  EXPECT_EQ(r.groups, 1u);
  EXPECT_NEAR(r.mean, 1.2, 1e-9);  // the one that was called out of memory took 1
  EXPECT_EQ(r.out_of_memory, 0u);
  ASSERT_EQ(r.choices.size(), 1u);
  EXPECT_EQ(r.choices.front().chosen, &chosen);
  EXPECT_EQ(r.choices.front().fastest, &large);
  // One that ran out of memory is counted and passed over.
  large.memory_free = 0.2;
  large.measured.out_of_memory = true;
  large.measured.step_time_s.reset();
  r = summarize({&large, &chosen, &best}).regret;
  EXPECT_EQ(r.out_of_memory, 1u);
  EXPECT_NEAR(r.mean, 0.1, 1e-9);
  EXPECT_NEAR(r.worst, 0.1, 1e-9);
  // As a search does, it passes over what leaves less than the margin free ...
  large.memory_free = chosen.memory_free = 0.02;
  r = summarize({&large, &chosen, &best}).regret;
  EXPECT_EQ(r.out_of_memory, 0u);
  EXPECT_NEAR(r.mean, 0, 1e-9);
  // ... unless nothing leaves more.
  best.memory_free = 0.02;
  r = summarize({&large, &chosen, &best}).regret;
  EXPECT_EQ(r.out_of_memory, 1u);
  EXPECT_NEAR(r.mean, 0.1, 1e-9);
  // Nothing that is forecast to fit is no answer.
  chosen.memory_free = best.memory_free = large.memory_free = -0.1;
  EXPECT_EQ(summarize({&large, &chosen, &best}).regret.no_answer, 1u);
  // Another batch is another group.
  best.scenario = "model: m\nbatch: {global: 16}\n";
  EXPECT_EQ(summarize({&chosen, &best}).regret.groups, 0u);
}

TEST(Summary, LayoutsInWords) {
  EXPECT_EQ(layout_words("parallel: {split: modules, tp: 2, pp: 1, dp: 8}\n"
                         "batch: {global: 8, micro: 1}\nrecompute: {granularity: full}\n"),
            "tp 2 dp 8 micro 1 full recomputation");
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

TEST(Summary, OfReasonsWhatIsNoRecordThePlaceOfOneIsTheExample) {
  RunRow row;
  row.id = "runs.yaml:12";
  row.skipped = {"folder/runs.yaml:12:3: E126 a record needs an id"};
  const std::vector<Reason> why = reasons({row});
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0].text, "E126 a record needs an id");
  EXPECT_EQ(why[0].example, "folder/runs.yaml:12:3");
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

// ---- what was reached before

RunRow run(const char* source, double measured, double predicted) {
  RunRow row;
  row.id = std::string(source) + "-<1>";
  row.source = source;
  row.measured.step_time_s = measured;
  row.step_time_s = predicted;
  return row;
}

TEST(Reached, TableHasErrorsBySourceAndOfAll) {
  EXPECT_THAT(reached_csv({run("a", 1, 1.1), run("b", 2, 1)}),
              ::testing::EndsWith("source,predicted,time_median,time_p90,time_bias,left_out_median,"
                                  "left_out_p90,left_out_bias,memory_median,memory_p90,ratio,"
                                  "winners,oom_found,false_alarms,covered,"
                                  "profiled_median,profiled_worst\n"
                                  "a,1,10.0,10.0,10.0,,,,,,,,,,,,\n"
                                  "b,1,50.0,50.0,-50.0,,,,,,,,,,,,\n"
                                  "all,2,10.0,50.0,-50.0,,,,,,,,,,,,\n"));
}

TEST(Reached, TableHasMemoryCallsGroupsIntervalsAndStageTimes) {
  RunRow a = run("a", 1, 1), b = run("a", 2, 3);
  for (RunRow* row : {&a, &b}) {
    row->group = "g";
    row->tokens_per_gpu = 1;
    row->measured.out_of_memory = row->out_of_memory = row == &b;
    row->measured.peak_memory = 100;
    row->peak_memory = 90;
  }
  a.left_out_s = 1.1;
  a.interval = RunInterval{0.9, 1.1, 0.8};
  a.profiled_step_s = 0.98;
  const std::string table = reached_csv({a, b});
  EXPECT_THAT(table, HasSubstr("a,2,0.0,50.0,0.0,10.0,10.0,10.0,10.0,10.0,33.3,1,1,0,,,\n"));
  EXPECT_THAT(table,
              HasSubstr("all,2,0.0,50.0,0.0,10.0,10.0,10.0,10.0,10.0,33.3,1,1,0,100.0,2.0,2.0\n"));
}

TEST(Reached, OnlyWhatIsWorseIsNamed) {
  const std::string before = reached_csv({run("a", 1, 1.1), run("b", 2, 1)});
  EXPECT_EQ(worse_than_reached(before, before), "");
  EXPECT_EQ(worse_than_reached(before, reached_csv({run("a", 1, 1.05), run("b", 2, 1.5)})), "");
  const std::string worse = worse_than_reached(before, reached_csv({run("a", 1, 1.2)}));
  EXPECT_THAT(worse, HasSubstr("a: median error of step time 20, was 10\n"));
  EXPECT_THAT(worse, HasSubstr("a: bias of step time 20, was 10\n"));
  EXPECT_THAT(worse, HasSubstr("b: runs predicted gone, was 1\n"));
  EXPECT_THAT(worse, HasSubstr("all: runs predicted 1, was 2\n"));
}

// ---- one row, by hand ----

std::string table_of(const std::string& cells) {
  const std::string header = reached_csv({});
  return header.substr(0, header.find("all,")) + "x," + cells + '\n';
}

TEST(Reached, BiasMayChangeItsSignAndIntervalsMustHoldAboutFourInFive) {
  const std::string before = table_of("2,,,-3.0,,,,,,,1,1,1,81.0,,");
  EXPECT_EQ(worse_than_reached(before, table_of("2,,,2.9,,,,,,,1,1,1,85.0,,")), "");
  EXPECT_EQ(worse_than_reached(before, table_of("2,,,3.0,,,,,,,2,2,0,75.0,,")), "");
  EXPECT_EQ(worse_than_reached(before, table_of("2,,,-3.1,,,,,,,0,0,2,85.1,,")),
            "x: bias of step time -3.1, was -3\n"
            "x: winners of groups named right 0, was 1\n"
            "x: runs out of memory called so 0, was 1\n"
            "x: false alarms of out of memory 2, was 1\n"
            "x: times in their intervals 85.1, was 81\n");
  const std::string far = table_of("2,,,,,,,,,,,,,60.0,,");
  EXPECT_EQ(worse_than_reached(far, table_of("2,,,,,,,,,,,,,100.0,,")), "");
  EXPECT_NE(worse_than_reached(far, table_of("2,,,,,,,,,,,,,59.9,,")), "");
}

TEST(Reached, WhatIsNoTableIsRefused) {
  const std::string good = reached_csv({run("a", 1, 1.1)});
  for (const std::string& bad : {std::string(), std::string("x\n"), good + "b\n", good + "b,1\n",
                                 good + "b,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,x\n",
                                 good + "b,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n"})
    EXPECT_THROW(worse_than_reached(bad, good), InputError) << bad;
}

// docs/accuracy.md and reached.csv are written by one command; cells of `line` of the table.
std::vector<std::string> cells_of(const std::string& line, char separator) {
  std::vector<std::string> cells;
  std::stringstream in(line);
  for (std::string cell; std::getline(in, cell, separator);) {
    const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
    cells.push_back(begin == cell.npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

// The first row of the section "By source" that begins with `name`.
std::vector<std::string> shown_row(const std::string& shown, const std::string& name) {
  const size_t at = shown.find("\n| " + name + " |", shown.find("### By source"));
  if (at == shown.npos) return {};
  return cells_of(shown.substr(at + 1, shown.find('\n', at + 1) - at - 1), '|');
}

TEST(Reached, WhatTheDocumentShowsIsWhatWasReached) {
  const std::string root = STEPCAST_SOURCE_DIR;
  const std::string document = root + "/docs/accuracy.md";
  const std::string shown = between_marks(read_text_file(document), "runs", document);
  std::stringstream reached(read_text_file(root + "/tools/runs/reached.csv"));
  size_t rows = 0;
  for (std::string line; std::getline(reached, line);) {
    if (line.starts_with('#') || line.starts_with("source,")) continue;
    std::vector<std::string> figures = cells_of(line + ",", ',');
    ASSERT_EQ(figures.size(), 17u) << line;
    for (std::string& figure : figures)
      if (figure.empty()) figure = "-";
    // "", source, records, predicted, times, median, p90, bias, memories, median, p90, bias
    const std::vector<std::string> cells = shown_row(shown, figures[0]);
    ASSERT_EQ(cells.size(), 12u) << figures[0];
    EXPECT_EQ(cells[3], figures[1]) << figures[0];
    EXPECT_EQ(cells[5], figures[2]) << figures[0];
    EXPECT_EQ(cells[6], figures[3]) << figures[0];
    EXPECT_EQ(cells[9], figures[8]) << figures[0];
    EXPECT_EQ(cells[10], figures[9]) << figures[0];
    ++rows;
  }
  EXPECT_EQ(rows, 23u);
}

}  // namespace
}  // namespace stepcast::accuracy::summary_test
