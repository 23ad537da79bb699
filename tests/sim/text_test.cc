// SPDX-License-Identifier: Apache-2.0
#include "sim/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepcast::text_test {
namespace {

using ::testing::ElementsAre;

TEST(Text, IsTrimmedAndSplit) {
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(trim("\ta ", " "), "\ta");
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split_words("  a\tb  c "), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(split_words(" ").empty());
  EXPECT_THAT(split_lines("a\r\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_THAT(split_lines("a\n"), ElementsAre("a"));
}

TEST(Text, IsJoinedToLists) {
  const std::vector<std::string> words{"1", "2", "4"};
  EXPECT_EQ(join(words), "1, 2, 4");
  EXPECT_EQ(join(words, "/"), "1/2/4");
  EXPECT_EQ(or_list(words), "1, 2 or 4");
  EXPECT_EQ(or_list(std::span(words).first(1)), "1");
  EXPECT_EQ(or_list({}), "");
}

TEST(Text, ChangesTheCaseOfAsciiAlone) {
  EXPECT_EQ(lower_case("aBZ9\xC3\x84"), "abz9\xC3\x84");
  EXPECT_EQ(upper_case("abz9"), "ABZ9");
}

TEST(Text, ReadsNumbersThatTakeUpTheWholeOfIt) {
  EXPECT_EQ(parse_number<int64_t>("-12"), -12);
  EXPECT_EQ(parse_number<double>("1e3"), 1000);
  EXPECT_FALSE(parse_number<int64_t>("12 "));
  EXPECT_FALSE(parse_number<int64_t>("99999999999999999999"));
  EXPECT_FALSE(parse_number<double>("inf"));
  EXPECT_FALSE(parse_number<double>(""));
}

TEST(Text, WritesNumbersWithoutZerosAtTheirEnd) {
  EXPECT_EQ(short_decimal(12.5, 2), "12.5");
  EXPECT_EQ(short_decimal(1.995, 2), "2");
  EXPECT_EQ(short_decimal(100, 0), "100");
  EXPECT_EQ(short_decimal(-0.25, 6), "-0.25");
  EXPECT_EQ(exact_text(0.1), "0.1");
  EXPECT_EQ(exact_text(1.2e11), "120000000000");
}

TEST(Text, EscapesWhatMovesOrHidesText) {
  EXPECT_EQ(escape_text("a\x1b[1m\n"), "a\\x1b[1m\\x0a");
  EXPECT_EQ(escape_text("\xE2\x80\xAE\xC2\x9B\xFF"), "\\u202e\\u009b\\xff");
}

TEST(EditDistance, CountsWhatIsToBeInsertedDeletedReplacedOrSwapped) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "ab"), 1u);
  EXPECT_EQ(edit_distance("mirco", "micro"), 1u);
  EXPECT_EQ(edit_distance("zb-h1", "zb-h1"), 0u);
}

TEST(DidYouMean, NamesWhatGoesOnBeforeTheClosestAndThatBeforeWhatContainsIt) {
  constexpr std::string_view kNames[] = {"bf16", "bf16-mixed", "dgx-h100", "fp8"};
  EXPECT_EQ(closest("BF_16", kNames), "bf16");
  EXPECT_EQ(did_you_mean("bf16", kNames), "did you mean 'bf16-mixed'?");
  EXPECT_EQ(did_you_mean("h100", kNames), "did you mean 'dgx-h100'?");
  EXPECT_EQ(did_you_mean("fp9", kNames), "did you mean 'fp8'?");
  EXPECT_EQ(did_you_mean("zero", kNames), "");
}

// Vectors of draft-eastlake-fnv, appendix C.
TEST(Hash, IsFnv1aOf64Bits) {
  EXPECT_EQ(hex_of(hash_text("")), "cbf29ce484222325");
  EXPECT_EQ(hex_of(hash_text("a")), "af63dc4c8601ec8c");
  EXPECT_EQ(hex_of(hash_text("foobar")), "85944171f73967e8");
}

TEST(Hash, GoesOnFromWhatStandsBefore) {
  EXPECT_EQ(hash_text("bar", hash_text("foo")), hash_text("foobar"));
}

}  // namespace
}  // namespace stepcast::text_test
