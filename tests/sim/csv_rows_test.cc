// SPDX-License-Identifier: Apache-2.0
#include "sim/csv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepcast {
namespace {

using ::testing::ElementsAre;

std::string refusal(std::string_view text) {
  try {
    for (const CsvRow& row : csv_rows(text, "name,value")) row.number(1);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
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
}

}  // namespace
}  // namespace stepcast
