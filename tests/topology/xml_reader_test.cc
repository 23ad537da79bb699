// SPDX-License-Identifier: Apache-2.0
#include "topology/import/imported_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/importing.h"

namespace stepcast {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<XmlElement> read(const std::string& text) {
  return read_xml(text, lines_of(text, "file"));
}

std::string refusal(const std::string& text) {
  return test::problems([&] { read(text); });
}

TEST(XmlReader, ElementsComeInOrderWithTheirPlaces) {
  const std::string text =
      "<?xml version=\"1.0\"?>\n<!-- a > b -->\n<a x='1' y=\"&lt;&amp;&gt;\">text\n  <b/>\n"
      "<c><d z = \"\" /></c></a>\n";
  const std::vector<XmlElement> e = read(text);
  ASSERT_EQ(e.size(), 4U);
  EXPECT_EQ(e[0].name, "a");
  EXPECT_EQ(e[0].parent, -1);
  EXPECT_EQ(e[0].value_of("y"), "<&>");
  EXPECT_EQ(e[0].find("z"), nullptr);
  EXPECT_EQ(e[1].name, "b");
  EXPECT_EQ(e[1].line, 4);
  EXPECT_EQ(e[1].column, 3);
  EXPECT_EQ(e[3].parent, 2);
  EXPECT_EQ(e[3].attributes[0].column, 7);
}

TEST(XmlReader, WhatIsNotWellFormedIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal("<a>\n  <b></a>"), "E321 2:6 <b> of line 2 should be closed here\n");
  EXPECT_EQ(refusal("<a x=1/>"), "E321 1:6 a value in quotes should stand here\n");
  EXPECT_EQ(refusal("<a x='1' x='2'/>"), "E321 1:10 'x' is given twice\n");
  EXPECT_EQ(refusal("<a/><b/>"), "E321 1:5 a second outermost element\n");
  EXPECT_EQ(refusal("</a>"), "E321 1:1 nothing is open that could be closed\n");
  EXPECT_EQ(refusal("hello <a/>"), "E321 1:1 text outside of any element\n");
  EXPECT_EQ(refusal("<a b='<'/>"), "E321 1:7 '<' inside a value: a quote is missing before\n");
  EXPECT_THAT(refusal("<a b='&x;'/>"), StartsWith("E321 1:7 '&' that begins none of"));
  EXPECT_THAT(refusal("<!DOCTYPE a [<!ENTITY x \"y\">]><a/>"), HasSubstr("not read"));
  EXPECT_EQ(refusal("<!-- -->"), "E320 1:9 no element in this file\n");
}

TEST(XmlReader, CutOffNamesTheInnermostOpenElement) {
  EXPECT_EQ(refusal("<a>\n<b>\n\n"),
            "E322 2:3 the file ends too early: <b> of line 2 is not closed\n");
  EXPECT_THAT(refusal("<a>\n<b x=\"1"), StartsWith("E322 2:7 the file ends too early: <a>"));
  EXPECT_THAT(refusal("<!-- never closed"), StartsWith("E322 1:17"));
}

TEST(XmlReader, DepthAndNumberOfElementsAreLimited) {
  std::string deep, many = "<a>";
  for (int i = 0; i < 65; ++i) deep += "<a>";
  EXPECT_EQ(refusal(deep), "E321 1:193 more than 64 levels\n");
  for (int i = 0; i < 100'000; ++i) many += "<b/>";
  EXPECT_THAT(refusal(many), HasSubstr("more than 100,000 elements"));
}

}  // namespace
}  // namespace stepcast
