// SPDX-License-Identifier: Apache-2.0
#include "report/text/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "report/text/roles.h"
#include "tests/report/sample.h"

namespace stepcast::run_test {
namespace {

using namespace literals;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Sum of what `pattern`'s first group matches, in units of its last decimal.
int64_t sum_of(const std::string& text, const std::string& pattern) {
  const std::regex r(pattern);
  int64_t sum = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), r), end; it != end; ++it) {
    std::string digits = (*it)[1];
    std::erase(digits, '.');
    sum += std::stoll(digits);
  }
  return sum;
}

TEST(TextReport, AnswersTheFirstQuestions) {
  const std::string text = text_report(sample_result());
  EXPECT_THAT(text, StartsWith("sample   8 x TEST-GPU   TP 4  PP 2  DP 1   GBS 2  MBS 1  seq 128"));
  EXPECT_THAT(text, HasSubstr("step time      1.510 ms"));
  EXPECT_THAT(text, HasSubstr("tokens/s/GPU  150.4"));
  EXPECT_THAT(text, HasSubstr("MFU            51.9 %"));
  EXPECT_THAT(text, HasSubstr("fits, 50 % free"));
  EXPECT_THAT(text, HasSubstr("usable on stage 0: fits, 50 % free\n"));
  EXPECT_THAT(text, HasSubstr("allocated at norm in 0F1"));
  EXPECT_THAT(text, HasSubstr("91 % of the time measured, 7 % interpolated, 2 % roofline"));
  EXPECT_THAT(text, HasSubstr("(table test)"));
}

TEST(TextReport, TellsWhichOrderWonTheContest) {
  Result r = sample_result();
  EXPECT_THAT(text_report(r), Not(HasSubstr("lower bound")));
  r.synthesis = {.objective = Time{1'400'000'000},
                 .lower_bound = Time{1'380'000'000},
                 .gap = 0.0145,
                 .start = "zb-h1",
                 .start_time = Time{1'420'000'000},
                 .orders_tried = 40'001,
                 .winner = std::string(kMadeToMeasure)};
  EXPECT_THAT(text_report(r),
              HasSubstr("auto        order alone 1.400 ms, 1.5 % above its lower bound\n"));
  EXPECT_THAT(text_report(r), HasSubstr("search from zb-h1 at 1.420 ms won; 40,001 orders tried"));
  r.synthesis->winner = "zb-v";
  EXPECT_THAT(text_report(r), HasSubstr("  zb-v won as it is; 40,001 orders tried"));
  EXPECT_THAT(text_report(r), Not(HasSubstr("V-shaped")));
  r.synthesis->could_have_chunks = true;
  EXPECT_THAT(text_report(r), HasSubstr("one chunk a rank; parallel.vpp: 2 allows V-shaped"));
}

TEST(TextReport, NoBoundIsToldThatPairsMayBeat) {
  Result r = sample_result();
  r.synthesis.emplace().objective = Time{1'600'000'000};
  r.synthesis->winner = "dualpipev";
  EXPECT_THAT(text_report(r), HasSubstr("auto        pairs hide communication: no lower bound"));
  EXPECT_THAT(text_report(r), Not(HasSubstr("1.600 ms")));
}

TEST(TextReport, TellsWhichRanksDifferAndWhoWaits) {
  Result r = sample_result();
  EXPECT_THAT(text_report(r), Not(HasSubstr("undisturbed")));
  Disturbance d;
  d.undisturbed = r.step_time * 4 / 5;
  d.ranks = 16;
  d.slow_ranks = 1;
  d.last_rank = "rank 3 (stage 0, tp 3)";
  d.waiting = 15;
  d.mean_wait = Time{300'000'000};
  r.disturbance = d;
  r.replicas = ReplicaTimes{.count = 20, .mean = Time{5'000'000'000}, .p95 = Time{6'000'000'000}};
  const std::string text = text_report(r);
  EXPECT_THAT(text, HasSubstr("ranks that differ cost 25.0 %"));
  EXPECT_THAT(text, HasSubstr("rank 3 (stage 0, tp 3) ends last; 1 rank slower than"));
  EXPECT_THAT(text, HasSubstr("ranks wait 300.0 us longer on average"));
  EXPECT_THAT(text, HasSubstr("20 seeds"));
  EXPECT_THAT(text, HasSubstr("mean 5.000 ms"));
  EXPECT_THAT(text, HasSubstr("p95 6.000 ms"));
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 80) << line;
}

TEST(TextReport, TellsRanksThatDifferFromContention) {
  Result r = sample_result();
  r.step_time = Time{2'000'000'000};
  Disturbance d;
  d.undisturbed = Time{1'000'000'000};
  d.slow_ranks = 1;
  d.last_rank = "rank 0 (stage 0)";
  d.critical_rank = "rank 7 (stage 7)";
  d.shared_links = true;
  r.disturbance = d;
  EXPECT_THAT(text_report(r), HasSubstr("ranks that differ and contention cost 100.0 %"));
  EXPECT_THAT(text_report(r), HasSubstr("rank 0 (stage 0) ends last; critical in its pipeline is"));
  r.disturbance->without_contention = Time{1'950'000'000};
  EXPECT_THAT(text_report(r), HasSubstr("ranks that differ cost 95.0 %, contention 5.0 %"));
  r.disturbance->slow_ranks = 0;
  r.disturbance->critical_rank = d.last_rank;
  EXPECT_THAT(text_report(r), HasSubstr("contention costs 100.0 %"));
  EXPECT_THAT(text_report(r), Not(HasSubstr("critical in")));
}

TEST(TextReport, SaysThatWhatIfsAreWithoutContention) {
  Result r = sample_result();
  EXPECT_THAT(text_report(r), Not(HasSubstr("(without contention)")));
  r.what_if_without_contention = true;
  EXPECT_THAT(text_report(r), HasSubstr("(without contention)\n"));
}

TEST(TextReport, SaysHowToGetWhatIfsThatWereLeftOut) {
  Result r = sample_result();
  EXPECT_THAT(text_report(r), Not(HasSubstr("--what-if")));
  r.what_if.clear();
  r.what_if_left_out = true;
  EXPECT_THAT(text_report(r),
              HasSubstr("\n  if it were free: left out where so many ranks differ"));
  for (const std::string& line : lines_of(text_report(r))) EXPECT_LE(display_width(line), 80);
}

TEST(TextReport, StaysWithinEightyColumns) {
  for (const std::string& line : lines_of(text_report(sample_result())))
    EXPECT_LE(display_width(line), 80) << line;
}

TEST(TextReport, HasNoTrailingBlanksAndNoEscapesWithoutColor) {
  const std::string text = text_report(sample_result());
  for (const std::string& line : lines_of(text)) EXPECT_FALSE(line.ends_with(' ')) << line;
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(TextReport, ColorsChangeNothingButColors) {
  const std::string colored = text_report(sample_result(), {.color = true});
  EXPECT_THAT(colored, HasSubstr("\x1b["));
  EXPECT_EQ(std::regex_replace(colored, std::regex("\x1b\\[[0-9;]*m"), ""),
            text_report(sample_result()));
}

TEST(TextReport, TheAccountAddsUpAsShown) {
  const Result r = sample_result();
  const std::string text = text_report(r);
  const std::string table = text.substr(text.find("where the step goes"));
  EXPECT_EQ(sum_of(table, R"(ms +([0-9]+\.[0-9]) %)"), 1000);
  EXPECT_EQ(sum_of(table, R"(([0-9]+\.[0-9]+) ms +[0-9.]+ %)"), 1510);
}

TEST(TextReport, ShowsTheWhatIfBesideItsLine) {
  const std::string text = text_report(sample_result());
  EXPECT_TRUE(std::regex_search(text, std::regex("TP exposed .* -0\\.132 ms\n"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("optimizer .* -0\\.050 ms\n"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("matrix products .* -\n"))) << text;
}

TEST(TextReport, AWhatIfThatMakesItSlowerSaysSo) {
  Result r = sample_result();
  r.what_if = {{Spend::exposed_tp, Time{-10'000'000}}};
  EXPECT_TRUE(std::regex_search(text_report(r), std::regex("TP exposed .* \\+0\\.010 ms\n")));
}

TEST(TextReport, UnevenStagesThatSuitTheScheduleSaySo) {
  Result r = sample_result();
  r.account.by_role[r.account.critical_role][static_cast<size_t>(Spend::imbalance)] = Time{100};
  r.what_if = {{Spend::imbalance, Time{-10'000'000}}};
  EXPECT_TRUE(std::regex_search(text_report(r), std::regex("imbalance .* \\+0\\.010 ms\n")))
      << text_report(r);
  EXPECT_THAT(text_report(r), HasSubstr("stages of equal times would make the step longer\n"));
  r.what_if = {{Spend::imbalance, Time{10'000'000}}};
  EXPECT_THAT(text_report(r), Not(HasSubstr("stages of equal times")));
}

TEST(TextReport, LinesThatWouldShowNothingAreLeftOut) {
  Result r = sample_result();
  auto& table = r.account.by_role[r.account.critical_role];
  table[static_cast<size_t>(Spend::blocked)] = Time{5};
  EXPECT_THAT(text_report(r), Not(HasSubstr("blocked sends")));
  r.what_if = {{Spend::blocked, 100_us}};
  EXPECT_THAT(text_report(r), HasSubstr("blocked sends"));
  table[static_cast<size_t>(Spend::blocked)] = Time{0};
  EXPECT_TRUE(std::regex_search(text_report(r),
                                std::regex("blocked sends +0\\.000 ms +0\\.0 % .* -0\\.100 ms\n")))
      << text_report(r);
  r.what_if = {{Spend::blocked, Time{5}}};
  EXPECT_THAT(text_report(r), Not(HasSubstr("blocked sends")));
  table[static_cast<size_t>(Spend::blocked)] = Time{5};
  EXPECT_THAT(text_report(r), Not(HasSubstr("blocked sends")));
}

TEST(TextReport, WithoutWhatIfThereIsNoColumnForIt) {
  Result r = sample_result();
  r.what_if.clear();
  EXPECT_THAT(text_report(r), Not(HasSubstr("if it were free")));
}

TEST(TextReport, NamesTheStageThatReservesMostWhereAnotherAllocatesMost) {
  Result r = sample_result();
  r.peak_role = 0, r.reserved_role = 1;
  r.memory[1].peak_at = "loss in 1F0";
  EXPECT_THAT(text_report(r), HasSubstr("usable on stage 1: fits"));
  EXPECT_THAT(text_report(r), HasSubstr("allocated at loss in 1F0"));
}

MemoryInterval around_memory(const Result& r) {
  return {.low = Bytes{r.memory_reserved.value / 10 * 9},
          .high = Bytes{r.memory_reserved.value / 10 * 12},
          .like = "memory / reserved",
          .runs = 113,
          .sources = 4,
          .like_low = 0.9,
          .like_high = 1.2};
}

TEST(TextReport, SaysHowSurelyAStepFits) {
  Result r = sample_result();
  r.memory_usable = {int64_t{70} << 30};
  r.memory_reserved = {int64_t{60} << 30};
  r.reserved_interval = around_memory(r);
  const auto verdict = [&](double share, bool fits) {
    r.fits = fits;
    r.fits_share = share;
    return memory_verdict(r);
  };
  EXPECT_EQ(verdict(0.95, true), "fits, 14 % free");
  EXPECT_EQ(verdict(0.7, true), "probably fits: 70 % of such steps do");
  EXPECT_EQ(verdict(0.45, true), "may run out of memory: 45 % of such steps fit");
  EXPECT_EQ(verdict(0.3, false), "may run out of memory: 30 % of such steps fit");
  EXPECT_THAT(verdict(0.05, false), StartsWith("does NOT fit: out of memory by"));
  for (const double share : {0.95, 0.7, 0.3}) {
    r.fits_share = share;
    r.fits = share > 0.5;
    for (const std::string& line : lines_of(text_report(r)))
      EXPECT_LE(display_width(line), 80) << line;
  }
  EXPECT_THAT(text_report(r),
              HasSubstr("\n  memory, 80 %   54.0 to 72.0 GiB   -10 % to +20 %, as 113 runs of 4 "
                        "sources\n"));
}

TEST(TextReport, OutOfMemoryIsLoud) {
  Result r = sample_result();
  r.memory_usable = {int64_t{70} << 30};
  r.memory_reserved = {(int64_t{70} << 30) + (int64_t{16} << 30) / 5};
  r.fits = false;
  const std::string text = text_report(r);
  EXPECT_THAT(text, HasSubstr("does NOT fit: out of memory by 3.2 GiB on stage 0"));
  EXPECT_THAT(text,
              HasSubstr("next     `stepcast explain --memory FILE` lists what fills stage 0"));
}

TEST(TextReport, WarningsAreWrappedAndEscaped) {
  Result r = sample_result();
  r.scenario.warnings = {"evil\x1b[2J", std::string(100, 'x') + " " + std::string(60, 'y')};
  const std::string text = text_report(r);
  EXPECT_THAT(text, HasSubstr("warning  evil\\x1b[2J\n"));
  EXPECT_THAT(text, HasSubstr("x\n           yyy"));
}

TEST(TextReport, NamesCannotEscapeTheirLine) {
  Result r = sample_result();
  r.scenario.name = "a\nb\xe2\x80\xae";
  EXPECT_THAT(text_report(r), StartsWith("a\\x0ab\\u202e   8 x TEST-GPU"));
}

TEST(TextReport, SurvivesAnEmptyResult) {
  const std::string text = text_report(empty_result());
  EXPECT_THAT(text, StartsWith("nothing   "));
  EXPECT_THAT(text, HasSubstr("step time      0 s"));
}

// --- account lines ---

TEST(AccountLines, AddUpToTheStepAndLeaveOutZeros) {
  const Result r = sample_result();
  for (uint32_t role = 0; role < 2; ++role) {
    Time sum{};
    for (const AccountLine& l : account_lines(r, role)) {
      EXPECT_GT(l.time.count(), 0) << l.title;
      sum += l.time;
    }
    EXPECT_EQ(sum, r.step_time);
  }
}

Result with_account(const SpendTable& table) {
  Result r = empty_result();
  r.account.by_role = {table};
  for (const Time t : table) r.step_time += t;
  return r;
}

TEST(AccountLines, SmallComputeItemsAreGrouped) {
  SpendTable t{};
  t[static_cast<size_t>(Spend::matmul)] = Time{9900};
  t[static_cast<size_t>(Spend::norm)] = Time{60};
  t[static_cast<size_t>(Spend::elementwise)] = Time{40};
  const auto lines = account_lines(with_account(t), 0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].title, "other compute");
  EXPECT_EQ(lines[1].time, Time{100});
}

TEST(AccountLines, OneSmallItemKeepsItsName) {
  SpendTable t{};
  t[static_cast<size_t>(Spend::matmul)] = Time{9990};
  t[static_cast<size_t>(Spend::norm)] = Time{10};
  EXPECT_EQ(account_lines(with_account(t), 0).back().title, title_of(Spend::norm));
}

TEST(AccountLines, ASmallItemWithALargeSavingIsNotHidden) {
  SpendTable t{};
  t[static_cast<size_t>(Spend::matmul)] = Time{9'999'000};
  t[static_cast<size_t>(Spend::exposed_pp)] = Time{500};
  t[static_cast<size_t>(Spend::exposed_tp)] = Time{500};
  Result r = with_account(t);
  EXPECT_EQ(account_lines(r, 0).back().title, "other waiting");
  r.what_if = {{Spend::exposed_pp, Time{1'000'000}}};
  EXPECT_EQ(account_lines(r, 0)[1].title, title_of(Spend::exposed_pp));
}

// --- hints ---

TEST(NextStep, NamesAStageThatComputesLonger) {
  const std::string hint = next_step(sample_result());
  EXPECT_THAT(hint, StartsWith("stage 1 computes 9 % longer than stage 0"));
}

TEST(NextStep, OfAStepThatDoesNotFitItIsACommandThatRuns) {
  Result r = sample_result();
  r.fits = false;
  EXPECT_THAT(next_step(r, "my.yaml -s parallel.tp=2"),
              StartsWith("`stepcast explain --memory my.yaml -s parallel.tp=2` lists what fills "));
  EXPECT_THAT(text_report(r, {}, "my.yaml"), HasSubstr("stepcast explain --memory my.yaml"));
}

TEST(NextStep, ComparesManyStagesWithTheMedian) {
  SpendTable t{}, slow{};
  t[static_cast<size_t>(Spend::matmul)] = Time{800};
  slow[static_cast<size_t>(Spend::matmul)] = Time{880};
  Result r = with_account(t);
  r.account.by_role = {t, t, slow, t};
  EXPECT_THAT(next_step(r), StartsWith("stage 2 computes 10 % longer than the median one"));
}

TEST(NextStep, PointsAtFillAndDrainOfEqualStages) {
  SpendTable t{};
  t[static_cast<size_t>(Spend::matmul)] = Time{800};
  t[static_cast<size_t>(Spend::fill)] = Time{150};
  t[static_cast<size_t>(Spend::drain)] = Time{50};
  Result r = with_account(t);
  r.account.by_role.push_back(t);
  EXPECT_THAT(next_step(r), StartsWith("pipeline fill and drain take 20.0 % of the step"));
}

TEST(NextStep, SaysNothingWhenThereIsNothingToSay) {
  SpendTable t{};
  t[static_cast<size_t>(Spend::matmul)] = Time{800};
  Result r = with_account(t);
  r.account.by_role.push_back(t);
  EXPECT_EQ(next_step(r), "");
  EXPECT_THAT(text_report(r), Not(HasSubstr("next")));
}

TEST(Losses, TellWhatTheOthersWaitIfTheCriticalRankWaitsLeast) {
  SpendTable critical{}, other{};
  critical[static_cast<size_t>(Spend::matmul)] = Time{900};
  critical[static_cast<size_t>(Spend::fill)] = Time{100};
  other[static_cast<size_t>(Spend::matmul)] = Time{800};
  other[static_cast<size_t>(Spend::fill)] = Time{200};
  Result r = with_account(critical);
  EXPECT_THAT(text_report(r), Not(HasSubstr("which is critical")));
  r.account.by_role.push_back(other);
  EXPECT_THAT(text_report(r), HasSubstr("on stage 0, which is critical; 20.0 % on the other\n"));
  other[static_cast<size_t>(Spend::fill)] = Time{150};
  r.account.by_role.push_back(other);
  EXPECT_THAT(text_report(r), HasSubstr("; 15.0 to 20.0 % on others\n"));
  // Of a forward alone the last stage is critical, for which the others do not wait: they are done.
  other[static_cast<size_t>(Spend::fill)] = Time{0};
  other[static_cast<size_t>(Spend::idle_end)] = Time{150};
  r.account.by_role.push_back(other);
  EXPECT_THAT(text_report(r), Not(HasSubstr("which is critical")));
}

TEST(TrustSentence, ShowsTinySharesAsTiny) {
  Result r = sample_result();
  r.trust = {0.998, 0, 0, 0, 0.002};
  EXPECT_THAT(trust_sentence(r), StartsWith("100 % of the time measured, <1 % roofline"));
}

}  // namespace
}  // namespace stepcast::run_test
