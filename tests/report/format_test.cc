// SPDX-License-Identifier: Apache-2.0
#include "report/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

namespace stepcast::format_test {
namespace {

using namespace literals;
using ::testing::ElementsAre;

TEST(Fixed, RoundsToNearestAndNeverShowsMinusZero) {
  EXPECT_EQ(fixed(12.345, 2), "12.35");
  EXPECT_EQ(fixed(0.05, 1), "0.1");
  EXPECT_EQ(fixed(-0.01, 1), "0.0");
  EXPECT_EQ(fixed(-1.26, 1), "-1.3");
  EXPECT_EQ(fixed(std::numeric_limits<double>::quiet_NaN(), 1), "-");
  EXPECT_EQ(fixed(std::numeric_limits<double>::infinity(), 1), "-");
  EXPECT_EQ(fixed(1e300, 0).size(), 301u);
}

TEST(Grouped, PutsACommaEveryThreeDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
}

TEST(RateText, LosesItsDecimalWhenItIsLarge) {
  EXPECT_EQ(rate_text(150.43), "150.4");
  EXPECT_EQ(rate_text(9996.9), "9,997");
  EXPECT_EQ(rate_text(1e300), "above 9e15");
  EXPECT_EQ(rate_text(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(FormatTime, TakesTheUnitThatReadsWell) {
  EXPECT_EQ(format_time(13'620'000_us), "13.62 s");
  EXPECT_EQ(format_time(1'234'500_us), "1.235 s");
  EXPECT_EQ(format_time(812_us), "812.0 us");
  EXPECT_EQ(format_time(Time{1'500}), "1.500 ns");
  EXPECT_EQ(format_time(Time{7}), "0.007 ns");
  EXPECT_EQ(format_time(Time{0}), "0 s");
  EXPECT_EQ(format_time(Time{-13'620'000'000'000}), "-13.62 s");
}

TEST(FormatTime, RoundsHalfUpAndCarries) {
  EXPECT_EQ(format_time(Time{1'234'499'999'999}), "1.234 s");
  EXPECT_EQ(format_time(Time{9'999'999'999'999}), "10.000 s");
}

TEST(FormatBytes, IsBinaryAndCarriesToTheNextUnit) {
  EXPECT_EQ(format_bytes({512}), "512 B");
  EXPECT_EQ(format_bytes({1536}), "1.5 KiB");
  EXPECT_EQ(format_bytes({(int64_t{1} << 30) - 1}), "1.0 GiB");
  EXPECT_EQ(format_bytes({-(int64_t{3} << 30)}), "-3.0 GiB");
  EXPECT_EQ(gib({int64_t{59} << 30}), "59.0");
}

TEST(Percent, SaysThatSomethingSmallIsNotNothing) {
  EXPECT_EQ(percent(0.081), "8.1 %");
  EXPECT_EQ(percent(0), "0.0 %");
  EXPECT_EQ(percent(0.0001), "<0.1 %");
}

TEST(Apportion, AddsUpToTheUnits) {
  const std::array parts{1_ps, 1_ps, 1_ps};
  EXPECT_THAT(apportion(parts, 1000), ElementsAre(334, 333, 333));
  const std::array uneven{Time{999'999}, Time{1}, Time{0}};
  EXPECT_THAT(apportion(uneven, 1000), ElementsAre(1000, 0, 0));
}

TEST(Apportion, HoldsForTheLongestTimes) {
  const Time longest{std::numeric_limits<int64_t>::max() / 2};
  const std::array parts{longest, longest};
  EXPECT_THAT(apportion(parts, 1'000'000), ElementsAre(500'000, 500'000));
}

TEST(Apportion, OfNothingIsNothing) {
  const std::array parts{0_ps, 0_ps};
  EXPECT_THAT(apportion(parts, 1000), ElementsAre(0, 0));
  EXPECT_TRUE(apportion({}, 1000).empty());
}

TEST(DisplayWidth, CountsWhatIsSeen) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("\x1b[1;31mabc\x1b[0m"), 3);
  EXPECT_EQ(display_width("\xc3\xa9t\xc3\xa9"), 3);
  EXPECT_EQ(pad_left("\x1b[1mab\x1b[0m", 4), "  \x1b[1mab\x1b[0m");
  EXPECT_EQ(pad_right("abc", 2), "abc");
}

TEST(TerminalText, KeepsLinesTabsAndColoursOnly) {
  EXPECT_EQ(terminal_text("a\n\tb \x1b[1;31mred\x1b[0m G\xc3\xb6"),
            "a\n\tb \x1b[1;31mred\x1b[0m G\xc3\xb6");
  EXPECT_EQ(terminal_text("\x1b]0;title\x07\r\x1b[2J\x1b[K\x7f"),
            "\\x1b]0;title\\x07\\x0d\\x1b[2J\\x1b[K\\x7f");
  EXPECT_EQ(terminal_text("\xff\xe2\x80\xae\xc2\x9b\x1b["), "\\xff\\u202e\\u009b\\x1b[");
}

TEST(EscapeText, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(escape_text("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(escape_text("a\nb\r\x7f"), "a\\x0ab\\x0d\\x7f");
  EXPECT_EQ(escape_text(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(escape_text("abc\xe2\x80\xae"
                        "def"),
            "abc\\u202edef");
  EXPECT_EQ(escape_text("\xe2\x80\x8b"), "\\u200b");
  EXPECT_EQ(escape_text("\xf3\xa0\x80\x81"), "\\U000e0001");
  EXPECT_EQ(escape_text("\xc2\x9b"), "\\u009b");  // C1: a one-character ESC [
}

TEST(EscapeText, KeepsOtherLettersAndMarksBrokenOnes) {
  EXPECT_EQ(escape_text("G\xc3\xb6ttingen \xe6\xa8\xa1"), "G\xc3\xb6ttingen \xe6\xa8\xa1");
  EXPECT_EQ(escape_text("\xff"
                        "a"),
            "\\xffa");
  EXPECT_EQ(escape_text("\xe2\x80"), "\\xe2\\x80");           // cut off
  EXPECT_EQ(escape_text("\xc0\x80"), "\\xc0\\x80");           // overlong
  EXPECT_EQ(escape_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(escape_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Flow, BreaksBetweenPieces) {
  const std::array<std::string, 4> pieces{"aaaa", "", "bbbb", "cccc"};
  EXPECT_EQ(flow(pieces, 80), "aaaa   bbbb   cccc\n");
  EXPECT_EQ(flow(pieces, 11), "aaaa   bbbb\ncccc\n");
  EXPECT_EQ(flow(pieces, 1), "aaaa\nbbbb\ncccc\n");
  EXPECT_EQ(flow({}, 80), "");
}

TEST(Wrap, IndentsWhatFollows) {
  EXPECT_EQ(wrap("one two three", "> ", 9), "> one two\n  three\n");
  EXPECT_EQ(wrap("unbreakable", "> ", 4), "> unbreakable\n");
  EXPECT_EQ(wrap("", "> ", 4), "> \n");
}

TEST(Paint, DoesNothingWithoutColor) {
  EXPECT_EQ(paint("x", Tone::bad, {}), "x");
  EXPECT_EQ(paint("x", Tone::bad, {.color = true}), "\x1b[1;31mx\x1b[0m");
  EXPECT_EQ(paint("x", Tone::plain, {.color = true}), "x");
}

}  // namespace
}  // namespace stepcast::format_test
