// SPDX-License-Identifier: Apache-2.0
#include "sim/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepcast::csv_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::string refusal(std::string_view text) {
  try {
    for (const CsvRow& row : csv_rows(text, "name,value")) row.number(1);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(CsvFields, AreWhatStandsBetweenCommasWithoutBlanksAndQuotes) {
  EXPECT_THAT(csv_fields("a, b ,,d"), ElementsAre("a", "b", "", "d"));
  EXPECT_THAT(csv_fields(""), ElementsAre(""));
  EXPECT_THAT(csv_fields("a,"), ElementsAre("a", ""));
  EXPECT_THAT(csv_fields("\"a,b\" ,\" c \",x\"y"), ElementsAre("a,b", "c", "x\"y"));
  EXPECT_THAT(csv_fields("\"a,b"), ElementsAre("\"a", "b")) << "a quote that nothing closes";
  EXPECT_THAT(csv_fields("\"a\"b\",c"), ElementsAre("a\"b", "c"));
}

TEST(CsvFields, HaveTheirPlaceInTheLine) {
  const std::string_view line = " a,\tb, \" c\",";
  CsvPlace place;
  EXPECT_EQ(next_field(line, place)->offset, 1u);
  EXPECT_EQ(next_field(line, place)->offset, 4u);
  EXPECT_EQ(next_field(line, place)->offset, 9u);
  EXPECT_EQ(next_field(line, place)->text, "");
  EXPECT_FALSE(next_field(line, place));
}

// Would take hours if each of the quotes were looked for to the end of the line.
TEST(CsvFields, TakeNoLongerWhereNoQuoteIsClosed) {
  std::string line = "\"a\"";
  for (int i = 0; i < 1'000'000; ++i) line += ",\"x";
  const std::vector<std::string_view> cells = csv_fields(line);
  ASSERT_EQ(cells.size(), 1'000'001u);
  EXPECT_EQ(cells.front(), "a");
  EXPECT_EQ(cells.back(), "\"x");
}

TEST(CsvLines, EndWithOrWithoutCarriageReturnsAndBeginBehindAByteOrderMark) {
  EXPECT_THAT(split_csv_lines("\xEF\xBB\xBF"
                              "a\r\n\nb\n \n\n"),
              ElementsAre("a", "", "b"));
  EXPECT_TRUE(split_csv_lines("").empty());
}

TEST(CsvRows, AreTheLinesBehindTheHeaderWithoutRemarksAndEmptyOnes) {
  const std::vector<CsvRow> rows =
      csv_rows("# of then\n\nname,value\na b,1.5\n# more\n\n,-2\n", "name,value");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].cells, ElementsAre("a b", "1.5"));
  EXPECT_EQ(rows[0].line, 4);
  EXPECT_EQ(rows[0].number(1), 1.5);
  EXPECT_THAT(rows[1].cells, ElementsAre("", "-2"));
  EXPECT_EQ(rows[1].number<int64_t>(1), -2);
  EXPECT_TRUE(csv_rows("name,value", "name,value").empty());
}

TEST(CsvRows, WhatIsNoSuchTableIsRefusedByItsLine) {
  EXPECT_EQ(refusal(""), "line 1: name,value expected");
  EXPECT_EQ(refusal("# remarks alone\n"), "line 2: name,value expected");
  EXPECT_EQ(refusal("value,name\n"), "line 1: name,value expected");
  EXPECT_EQ(refusal("name,value\na\n"), "line 2: name,value expected");
  EXPECT_EQ(refusal("name,value\na,1,2\n"), "line 2: name,value expected");
  EXPECT_EQ(refusal("name,value\na,1\nb,\n"), "line 3: '' is no number");
  EXPECT_EQ(refusal("name,value\na,1x\n"), "line 2: '1x' is no number");
  EXPECT_EQ(refusal("name,value\na,inf\n"), "line 2: 'inf' is no number");
}

TEST(CsvRecords, NameTheirCellsByTheFirstLine) {
  const auto records = csv_records("# of then\nname,value\na,\"1,5\"\n");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_THAT(records[0], ElementsAre(Pair("name", "a"), Pair("value", "1,5")));
  EXPECT_THROW(csv_records("name,value\na\n"), InputError);
}

}  // namespace
}  // namespace stepcast::csv_test
