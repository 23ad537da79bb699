// SPDX-License-Identifier: Apache-2.0
#include "report/text/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepcast::search_report_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FoundLayout layout(int64_t tp, int64_t pp, double seconds, int64_t gibibytes) {
  FoundLayout l;
  l.gpus = 16;
  l.tp = tp;
  l.pp = pp;
  l.dp = 16 / (tp * pp);
  l.zero = 1;
  l.recompute = "none";
  l.schedule = pp > 1 ? "1f1b" : "none";
  l.split = "even";
  l.set = {{"parallel.tp", std::to_string(tp)}, {"parallel.layout", "Et|(t*3|)*2tL"}};
  l.step_time = time_from_seconds(seconds);
  l.tokens_per_gpu_s = 1000 / seconds;
  l.reserved = Bytes{gibibytes << 30};
  l.usable = Bytes{int64_t{80} << 30};
  return l;
}

SearchResult sample() {
  SearchResult r;
  r.name = "run";
  r.file = "run.yaml";
  r.gpu = "H100-SXM";
  r.objectives = {SearchObjective::step_time};
  r.memory_margin = 0.1;
  r.points = 1000;
  r.layouts = 12;
  r.illegal = {{"gpus", "does not divide the GPUs", 988}};
  r.decided = {{"memory_bound", "hold more than there is", 4},
               {"fits", "simulated: fit", 8, SearchRule::Kind::keeps}};
  r.simulated = 8;
  r.within_discernment = 2;
  r.best = {layout(2, 4, 10, 70), layout(4, 1, 10.1, 40)};
  return r;
}

TEST(SearchText, CountsAddUpBeforeTheTable) {
  const std::string text = search_text(sample());
  EXPECT_THAT(text, HasSubstr("              1,000  points"));
  EXPECT_THAT(text, HasSubstr("              - 988  does not divide the GPUs"));
  EXPECT_THAT(text, HasSubstr("                 12  layouts"));
  EXPECT_THAT(text, HasSubstr("+1.0 %"));
  EXPECT_THAT(text, Not(HasSubstr("ETP")));
}

TEST(SearchText, SaysWhatIsAsGoodAndWhatIsLighter) {
  const std::string text = search_text(sample(), {.width = 200});
  EXPECT_THAT(text, HasSubstr("2 layouts lie within 2 % of the first"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "Lighter and simpler: #2, TP 4 DP 4 MBS 1 ZeRO-1, 30.0 GiB less and fewer features for"));
}

TEST(SearchText, ShowsHowToRunTheFirst) {
  EXPECT_THAT(search_text(sample()), HasSubstr("stepcast run run.yaml -s parallel.tp=2 -s "
                                               "'parallel.layout=Et|(t*3|)*2tL'\n"));
}

TEST(SearchText, WithoutALayoutThatFitsSaysWhatIsNearest) {
  SearchResult r = sample();
  r.best.clear();
  r.nearest = layout(8, 2, 0, 76);
  const std::string text = search_text(r);
  EXPECT_THAT(text, HasSubstr("no layout fits with 10 % of the memory left free"));
  EXPECT_THAT(text, HasSubstr("Nearest is TP 8 PP 2 MBS 1 ZeRO-1: 76.0 GiB of 80.0 usable."));
  EXPECT_THAT(text, HasSubstr("search.memory_margin: at most 5%"));
  r.nearest->reserved = Bytes{int64_t{100} << 30};
  EXPECT_THAT(search_text(r), HasSubstr("`stepcast size`"));
}

TEST(SearchText, WhereAllBreakAConstraintNothingIsSaidOfMemory) {
  SearchResult r = sample();
  r.breaking = r.best.front();
  r.broken_constraints = {"step_time <= 5s"};
  r.best.clear();
  const std::string text = search_text(r, {.width = 200});
  EXPECT_THAT(text, HasSubstr("layouts fit, but none keeps the constraints"));
  EXPECT_THAT(text, HasSubstr("10.000 s a step, 70.0 GiB of 80.0 usable. It breaks "
                              "'step_time <= 5s'."));
  EXPECT_THAT(text, Not(HasSubstr("no layout fits")));
  EXPECT_THAT(text, Not(HasSubstr("stepcast size")));
  EXPECT_THAT(search_json(r, "0.1"), HasSubstr("\"step_time \\u003c= 5s\""));
}

TEST(SearchText, NamesAllObjectives) {
  SearchResult r = sample();
  r.objectives = {SearchObjective::step_time, SearchObjective::peak_memory};
  EXPECT_THAT(search_text(r), HasSubstr("for the least step_time and peak_memory\n"));
  r.objectives = {SearchObjective::tokens_per_gpu_s, SearchObjective::peak_memory};
  EXPECT_THAT(search_text(r),
              HasSubstr("for the most tokens_per_gpu_s and the least peak_memory\n"));
}

TEST(SearchText, SchedulesAreSaidWhereTheUserListsNone) {
  SearchResult r = sample();
  r.schedules = {"1f1b", "interleaved-1f1b"};
  constexpr const char* kSaid = "Schedules tried: 1f1b, interleaved-1f1b, as this software runs;";
  EXPECT_THAT(search_text(r, {.width = 200}), HasSubstr(kSaid));
  EXPECT_THAT(search_json(r, "0.1"), HasSubstr("\"schedules\": ["));
  r.schedules_stated = true;
  EXPECT_THAT(search_text(r, {.width = 200}), Not(HasSubstr("Schedules tried")));
}

TEST(SearchText, WhatTheShellWouldTakeApartStandsInQuotes) {
  SearchResult r = sample();
  r.run_words = {"--root", "..", "my run's.yaml"};
  r.best.front().set = {{"moe", "{ep: 4}"}, {"parallel.vpp", "null"}, {"name", "a;b"}};
  EXPECT_THAT(search_text(r), HasSubstr("stepcast run --root .. 'my run'\\''s.yaml' -s "
                                        "'moe={ep: 4}' -s parallel.vpp=null -s 'name=a;b'\n"));
}

TEST(SearchText, WhatWasNotForecastWholeHasNoShares) {
  const std::string text = search_text(sample());
  EXPECT_THAT(text, Not(HasSubstr("bubble %")));
  EXPECT_THAT(text, HasSubstr("#1 is TP 2 PP 4 DP 2 MBS 1 ZeRO-1."));
}

TEST(SearchText, StoppedEarlyItDoesNotSayThatNothingFits) {
  SearchResult r = sample();
  r.best.clear();
  r.undecided = 7;
  const std::string text = search_text(r);
  EXPECT_THAT(text, HasSubstr("- 7  not looked at: the search was stopped"));
  EXPECT_THAT(text, HasSubstr("was stopped before it came to a layout that fits"));
  EXPECT_THAT(text, Not(HasSubstr("no layout fits")));
}

TEST(SearchText, NamesFromFilesCannotDriveTheTerminal) {
  SearchResult r = sample();
  r.file = "a\x1b[31m.yaml";
  EXPECT_THAT(search_text(r), Not(HasSubstr("\x1b")));
}

TEST(SearchCsv, HasALineForEachLayout) {
  const std::string text = search_csv(sample());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(text, HasSubstr("\n1,16,2,1,4,1,1,1,2,1,1,1,none,1f1b,,10,100,,75161927680,"));
}

TEST(SearchJson, HasCountsAndLayouts) {
  const std::string text = search_json(sample(), "0.1");
  EXPECT_THAT(text, HasSubstr("\"rule\": \"memory_bound\""));
  EXPECT_THAT(text, HasSubstr("\"parallel.tp=2\""));
  EXPECT_THAT(text, HasSubstr("\"nearest\": null"));
}

TEST(SearchText, SaysThatItIsOfAPart) {
  SearchResult r = sample();
  EXPECT_THAT(search_text(r), Not(HasSubstr("part ")));
  r.part = 2;
  r.parts = 5;
  EXPECT_THAT(search_text(r), HasSubstr("\npart 2 of 5: its layouts alone\n"));
  EXPECT_THAT(search_json(r, "0.1"), HasSubstr("\"parts\": 5"));
}

TEST(LayersText, CountsThoseThatAreAlike) {
  EXPECT_EQ(layers_text(""), "");
  EXPECT_EQ(layers_text("9 9 8 6"), "2x9 8 6");
  EXPECT_EQ(layers_text("1 3 3 3 1"), "1 3x3 1");
  EXPECT_EQ(layers_text("11 1 1"), "11 2x1");
}

}  // namespace
}  // namespace stepcast::search_report_test
