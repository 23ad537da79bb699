// SPDX-License-Identifier: Apache-2.0
#include "report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sim/check.h"
#include "tests/report/sample.h"

namespace stepcast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result result(int64_t step_us, int64_t peak_gib, bool fits = true) {
  Result r = empty_result();
  r.step_time = Time{step_us * 1'000'000};
  r.memory.resize(1);
  r.memory[0].name = "stage 0";
  r.memory[0].memory.peak = {peak_gib << 30};
  r.memory_reserved = {peak_gib << 30};
  r.memory_usable = {int64_t{78} << 30};
  r.fits = fits;
  return r;
}

TEST(CompareTable, ShowsEachCaseAgainstTheBaseline) {
  const std::array results{result(15'210'000, 49), result(13'890'000, 58),
                           result(13'610'000, 91, false)};
  const std::array<std::string, 3> names{"1f1b", "interleaved-3", "zb-h2"};
  EXPECT_EQ(compare_table(results, names, 0),
            "               step s  vs base  bubble  peak GiB  on         MFU\n"
            "1f1b            15.21        -   0.0 %    49.0    stage 0  0.0 %  least memory\n"
            "interleaved-3   13.89   -8.7 %   0.0 %    58.0    stage 0  0.0 %  fastest that fits\n"
            "zb-h2           13.61  -10.5 %   0.0 %    91.0 !  stage 0  0.0 %  does not fit by "
            "13.0 GiB\n");
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
  EXPECT_THAT(table, HasSubstr("highest rate, least memory"));
  EXPECT_THAT(table, HasSubstr("compare tokens/s/GPU and MFU, not step times"));
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

TEST(CompareNotes, TheFirstOfEqualsWinsAndOneCaseAloneWinsNothing) {
  const std::array two{result(5, 2), result(5, 2)};
  EXPECT_THAT(compare_notes(two), ElementsAre("fastest, least memory", ""));
  EXPECT_THAT(compare_notes({two.data(), 1}), ElementsAre(""));
}

TEST(CompareNotes, NothingFits) {
  const std::array two{result(5, 80, false), result(6, 79, false)};
  EXPECT_THAT(compare_notes(two),
              ElementsAre("does not fit by 2.0 GiB", "does not fit by 1.0 GiB"));
}

}  // namespace
}  // namespace stepcast
