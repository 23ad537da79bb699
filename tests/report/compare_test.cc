// SPDX-License-Identifier: Apache-2.0
#include "report/text/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sim/check.h"
#include "tests/report/sample.h"

namespace stepcast::compare_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Result result(int64_t step_us, int64_t peak_gib, bool fits = true) {
  Result r = empty_result();
  r.step_time = r.makespan = r.span = Time{step_us * 1'000'000};
  r.memory.resize(1);
  r.memory[0].name = "stage 0";
  r.memory[0].memory.peak = {peak_gib << 30};
  r.memory_reserved = {peak_gib << 30};
  r.memory_usable = {int64_t{78} << 30};
  r.fits = fits;
  return r;
}

TEST(CompareTable, ShowsEachCaseAgainstTheBaselineAndWhoWins) {
  const std::array results{result(15'210'000, 49), result(13'890'000, 58),
                           result(13'610'000, 91, false)};
  const std::array<std::string, 3> names{"1f1b", "interleaved-3", "zb-h2"};
  EXPECT_EQ(compare_table(results, names, 0),
            "               step s  vs base  bubble  peak GiB  pp rank    MFU\n"
            "1f1b            15.21        -   0.0 %    49.0          0  0.0 %\n"
            "interleaved-3   13.89   -8.7 %   0.0 %    58.0          0  0.0 %\n"
            "zb-h2           13.61  -10.5 %   0.0 %    91.0 !        0  0.0 %\n"
            "\n"
            "fastest        interleaved-3, -8.7 %, 9.0 GiB more than 1f1b\n"
            "least memory   1f1b, 49.0 GiB\n"
            "best per GiB   1f1b, most steps a second for each GiB of its memory\n"
            "does not fit   zb-h2 by 13.0 GiB\n");
}

TEST(CompareTable, MarksWhatMayRunOutOfMemory) {
  std::array results{result(1000, 60), result(900, 76)};
  results[0].fits_share = 0.95;
  results[1].fits_share = 0.35;
  const std::array<std::string, 2> names{"1f1b", "zb-1p"};
  const std::string table = compare_table(results, names, 0);
  EXPECT_THAT(table, HasSubstr("  60.0          0"));
  EXPECT_THAT(table, HasSubstr("  76.0 ?        0"));
  EXPECT_THAT(table, HasSubstr("may run out    zb-1p: 35 % of such steps fit\n"));
}

TEST(CompareTable, SaysWherePricesOfTheCasesAreOfOtherSources) {
  std::array results{result(1000, 60), result(900, 60)};
  results[0].trust = {0.1, 0.7, 0.1, 0.1, 0};
  results[1].trust = {0.1, 0.1, 0, 0.1, 0.7};
  const std::array<std::string, 2> names{"b200", "gb200"};
  EXPECT_THAT(compare_table(results, names, 0),
              HasSubstr("prices, % of the time  measured  interpolated  extrapolated  fitted to "
                        "runs  roofline\n"
                        "  b200                       10            70            10              "
                        "10         0\n"
                        "  gb200                      10            10             0              "
                        "10        70\n"
                        "warning  data sheets price 70 % of the time of gb200 and 0 % of that of "
                        "b200:\n"
                        "         what lies between their steps may be the sources.\n"));
  results[1].trust = {0.1, 0.6, 0.1, 0.1, 0.1};
  EXPECT_THAT(compare_table(results, names, 0), Not(HasSubstr("prices")));
}

TEST(CompareTable, NamesThePeakThatProductsInLowPrecisionPass) {
  std::array results{result(1000, 60), result(900, 60)};
  const std::array<std::string, 2> names{"bf16", "fp8"};
  for (Result& r : results) r.utilization = {0.5, 0.5, 0.5, 0.5, 0.5, "bf16"};
  EXPECT_THAT(compare_table(results, names, 0), HasSubstr("pp rank     MFU\n"));
  results[1].utilization.hfu_own_peaks = 0.3;
  EXPECT_THAT(compare_table(results, names, 0), HasSubstr("pp rank  MFU (bf16)\n"));
  results[0].utilization.format = "fp32";
  EXPECT_THAT(compare_table(results, names, 0), HasSubstr("MFU (of parameters' format)\n"));
}

TEST(CompareTable, WhatIsLeftOutHasALineThatSaysWhy) {
  const std::array results{result(1000, 1), result(900, 2)};
  const std::array<std::string, 2> names{"1f1b", "zb-1p"};
  LeftOut left_out{"zb-v", {{}}};
  left_out.problems.front().message = "60 layers are not a multiple of pp*vpp = 4*2";
  EXPECT_THAT(compare_table(results, names, 0, {}, std::span(&left_out, 1)),
              HasSubstr("zb-1p    0.900  -10.0 %   0.0 %     2.0          0  0.0 %\n"
                        "zb-v   left out: 60 layers are not a multiple of pp*vpp = 4*2\n"));
}

TEST(CompareTable, TellsTheSpanWhereOneGainsByIt) {
  std::array results{result(1000, 1), result(900, 2)};
  results[1].span = Time{800'000'000};
  const std::array<std::string, 2> names{"1f1b", "zb-v"};
  EXPECT_THAT(compare_table(results, names, 0),
              HasSubstr("      step ms  vs base   span  bubble  peak GiB  pp rank    MFU\n"
                        "1f1b    1.000        -  1.000   0.0 %     1.0          0  0.0 %\n"
                        "zb-v    0.900  -10.0 %  0.800   0.0 %     2.0          0  0.0 %\n"));
}

TEST(CompareTable, TellsWhatTheCriticalRankWaitsFor) {
  std::array results{result(1000, 1), result(1000, 2)};
  for (Result& r : results) r.account.by_role.resize(1);
  results[0].account.by_role[0][static_cast<size_t>(Spend::fill)] = Time{20'000'000};
  results[0].account.by_role[0][static_cast<size_t>(Spend::exposed_tp)] = Time{10'000'000};
  results[0].account.by_role[0][static_cast<size_t>(Spend::exposed_dp)] = Time{5'000'000};
  results[1].account.by_role[0][static_cast<size_t>(Spend::exposed_pp)] = Time{5'000'000};
  const std::array<std::string, 2> names{"a", "b"};
  EXPECT_THAT(compare_table(results, names, 0),
              HasSubstr("\n"
                        "waits, % of the step  fill  drain  imbalance  blocked  transfers  "
                        "collectives\n"
                        "  a                    2.0    0.0        0.0      0.0        0.0  "
                        "        1.5\n"
                        "  b                    0.0    0.0        0.0      0.0        0.5  "
                        "        0.0\n"));
}

TEST(CompareTable, SlowerCasesHaveAPlus) {
  const std::array results{result(100, 1), result(110, 1)};
  const std::array<std::string, 2> names{"a", "b"};
  EXPECT_THAT(compare_table(results, names, 0), HasSubstr("+10.0 %"));
}

TEST(CompareTable, StepsOfDifferentWorkAreComparedByTheirRate) {
  std::array results{result(100, 1), result(50, 2)};
  results[0].tokens_per_step = 2000;
  results[0].tokens_per_s_per_gpu = 20;
  results[1].tokens_per_step = 500;
  results[1].tokens_per_s_per_gpu = 10;
  const std::array<std::string, 2> names{"a", "b"};
  const std::string table = compare_table(results, names, 0);
  EXPECT_THAT(table, HasSubstr("tokens/s/GPU"));
  EXPECT_THAT(table, HasSubstr("highest rate   a\nleast memory   a, 1.0 GiB\n"));
  EXPECT_THAT(table, HasSubstr("compare tokens/s/GPU and MFU, not step times"));
  EXPECT_FALSE(comparable_steps(results));
}

TEST(CompareTable, AForwardAloneIsNotComparedWithTraining) {
  std::array results{result(100, 2), result(50, 1)};
  results[1].scenario.mode = "prefill";
  EXPECT_FALSE(comparable_steps(results));
  const Winners w = compare_winners(results);
  EXPECT_FALSE(w.fastest || w.smallest || w.best_per_gib);
  const std::array<std::string, 2> names{"a", "b"};
  const std::string table = compare_table(results, names, 0);
  EXPECT_THAT(table, Not(HasSubstr("least memory")));
  EXPECT_THAT(table, Not(HasSubstr("-50.0 %")));
  EXPECT_THAT(table, HasSubstr("Modes differ (training, prefill): their steps do not compare."));
  results[0].scenario.mode = "decode";
  EXPECT_THAT(compare_table(results, names, 0), HasSubstr("Modes differ (decode, prefill)"));
}

TEST(CompareTable, APaddedVocabularyIsNoOtherWork) {
  std::array results{result(100, 1), result(50, 2)};
  results[0].model_flops_per_step = 1000;
  results[1].model_flops_per_step = 1009;
  EXPECT_TRUE(comparable_steps(results));
  results[1].model_flops_per_step = 1011;
  EXPECT_FALSE(comparable_steps(results));
  std::swap(results[0], results[1]);
  EXPECT_FALSE(comparable_steps(results));
  results[1].model_flops_per_step = 1009;
  EXPECT_TRUE(comparable_steps(results));
  results[1].tokens_per_step += 1;
  EXPECT_FALSE(comparable_steps(results));
}

TEST(CompareTable, LongAndEvilNamesAreTamed) {
  const std::array results{result(1, 1), result(2, 1)};
  const std::array<std::string, 2> names{std::string(200, 'n'), "\x1b[1m"};
  const std::string table = compare_table(results, names, 0);
  EXPECT_THAT(table, HasSubstr(std::string(21, 'n') + "..."));
  EXPECT_THAT(table, HasSubstr("\\x1b[1m"));
}

TEST(CompareTable, ABaselineThatIsNotThereIsABug) {
  EXPECT_THROW(compare_table({}, {}, 0), InternalError);
}

TEST(CompareWinners, TheFirstOfEqualsWinsAndOneCaseAloneWinsNothing) {
  const std::array two{result(5, 2), result(5, 2)};
  const Winners w = compare_winners(two);
  EXPECT_EQ(w.fastest, 0u);
  EXPECT_EQ(w.smallest, 0u);
  EXPECT_EQ(w.best_per_gib, 0u);
  EXPECT_FALSE(compare_winners({two.data(), 1}).fastest);
}

TEST(CompareWinners, OnlyWhatFitsWins) {
  const std::array two{result(5, 80, false), result(6, 79, false)};
  EXPECT_FALSE(compare_winners(two).fastest);
  const std::array<std::string, 2> names{"a", "b"};
  EXPECT_THAT(compare_table(two, names, 0),
              HasSubstr("\ndoes not fit   a by 2.0 GiB, b by 1.0 GiB\n"));
}

const std::vector<CheckedFigure> kFigures{
    {"a", Figure::step_time, 1.05, 1, 0.1, "paper"},
    {"b", Figure::step_time, 1.3, 1, 0.1, ""},
    {"b", Figure::peak_memory, 2.0 * (1 << 30), 2.0 * (1 << 30), 0.05, ""}};

TEST(CheckTable, SaysHowFarEachFigureIsOffAndWhetherThatIsWithinItsTolerance) {
  const std::string text = check_table(kFigures, {});
  EXPECT_THAT(text, HasSubstr("a  step time"));
  EXPECT_THAT(text, HasSubstr("+5.0 %"));
  EXPECT_THAT(text, HasSubstr("+30.0 %  10.0 %  outside\n"));
  EXPECT_THAT(text, HasSubstr("0.0 %  5.0 %\n"));
  EXPECT_THAT(text, HasSubstr("step time: 2 runs, median error 5.0 %, worst 30.0 %\n"));
  EXPECT_THAT(text, Not(HasSubstr("peak memory: 1 runs")));
  EXPECT_THAT(text, Not(HasSubstr("doubts")));
}

TEST(CheckTable, AnErrorNextToItsToleranceHasTheDigitsThatTellThemApart) {
  const auto line = [](double predicted) {
    const CheckedFigure f{"a", Figure::step_time, predicted, 1, 0.05, ""};
    return check_table(std::vector{f}, {});
  };
  EXPECT_THAT(line(0.9498), HasSubstr("-5.02 %  5.00 %  outside"));
  EXPECT_THAT(line(0.9502), HasSubstr("-5.0 %  5.0 %\n"));
  EXPECT_THAT(line(0.9498), Not(HasSubstr("-5.0 %")));
  EXPECT_THAT(line(1.05001), HasSubstr("+5.001 %  5.000 %  outside"));
}

TEST(CheckTable, MemoryThatIsReservedStandsBesideWhatIsAllocated) {
  CheckedFigure held{"a", Figure::reserved_memory, 3.0 * (1 << 30), 4.0 * (1 << 30), 0.1, ""};
  held.interval = {2.0 * (1 << 30), 3.5 * (1 << 30), 0.8};
  const std::vector figures{kFigures[2], held};
  EXPECT_THAT(check_table(figures, {}), HasSubstr("a  reserved"));
  const std::string json = check_json(figures, {}, {});
  EXPECT_THAT(json, HasSubstr("\"figure\": \"reserved_memory_bytes\""));
  EXPECT_THAT(json, HasSubstr("\"low_bytes\": "));
}

TEST(CheckTable, NamesFromFilesAreHarmless) {
  const CheckedFigure bad{"a\x1b[31m", Figure::step_time, 1, 1, 0.1, ""};
  EXPECT_THAT(check_table(std::vector{bad}, {}), Not(HasSubstr("\x1b")));
}

TEST(CheckTable, JsonIsWithinOnlyIfAllFiguresAre) {
  EXPECT_THAT(check_json(kFigures, {}, {}), HasSubstr("\n  \"within\": false,"));
  EXPECT_THAT(check_json(std::vector{kFigures[0]}, {}, {}),
              HasSubstr("\n  \"within\": true,\n  \"errors\": []\n}"));
}

TEST(CheckTable, JsonHasTheReasonsOfFilesThatCouldNotBeChecked) {
  Diagnostic missing;
  missing.code = "E101";
  missing.message = "cannot read 'b.yaml'";
  const std::string json = check_json(kFigures, {}, std::vector{missing});
  EXPECT_THAT(json, HasSubstr("\"run\": \"a\""));
  EXPECT_THAT(json, HasSubstr("\"code\": \"E101\""));
}

TEST(CheckTable, DoubtsAreWorksWithoutMeasuredPricesLongestFirst) {
  const Result r = sample_result();
  const std::vector<Doubt> doubts = largest_doubts("run", 3, r, 2);
  ASSERT_LE(doubts.size(), 2u);
  for (const Doubt& d : doubts) {
    EXPECT_NE(d.origin, "measured");
    EXPECT_NE(d.origin, "interpolated");
  }
  ASSERT_EQ(doubts.size(), 2u);
  EXPECT_GE(doubts[0].share, doubts[1].share);
  EXPECT_EQ(doubts[1].run_index, 3u);
}

TEST(CheckTable, LargestDoubtOfEachRunIsNamedAsSuch) {
  const Doubt a{"one", "product", "extrapolated", "from 16", 0.25},
      b{"one", "norm", "roofline", "", 0.1};
  EXPECT_THAT(check_table({}, std::vector{a, b}),
              HasSubstr("\nlargest doubt: product, extrapolated (from 16), 25.0 % of device time\n"
                        "         next: norm, roofline, 10.0 % of device time\n"));
  const Doubt other{"two", "norm", "roofline", "", 0.2, 1};
  EXPECT_THAT(
      check_table({}, std::vector{a, b, other}),
      HasSubstr("\nlargest doubt: one: product, extrapolated (from 16), 25.0 % of device time\n"
                "         next: norm, roofline, 10.0 % of device time\n"
                "largest doubt: two: norm, roofline, 20.0 % of device time\n"));
}

TEST(CheckTable, RunsOfOneNameHaveTheirDoubtsApart) {
  const Doubt a{"one", "product", "roofline", "", 0.25, 0},
      b{"one", "norm", "roofline", "", 0.1, 1};
  EXPECT_THAT(check_table({}, std::vector{a, b}),
              HasSubstr("\nlargest doubt: one: product, roofline, 25.0 % of device time\n"
                        "largest doubt: one: norm, roofline, 10.0 % of device time\n"));
}

}  // namespace
}  // namespace stepcast::compare_test
