// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "tests/scenarios/loading.h"

namespace stepcast::yaml_test {
namespace {

using ::testing::ElementsAre;
using testing::Failure;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Parsed {
  Value value;
  Failure failure;
};

Parsed parse(std::string text) {
  Problems problems;
  const SourceRef source = problems.add_source({"t.yaml", std::move(text)});
  Parsed p;
  p.value = parse_yaml(problems, source);
  p.failure = testing::failure_of([&] { problems.throw_if_any(); });
  return p;
}

std::string first_line(const Parsed& p) {
  return p.failure.lines.empty() ? "" : p.failure.lines.front();
}

TEST(Yaml, EveryValueKnowsItsPlace) {
  const Value v = parse("a: 1\nb:\n  c: [x, \"y z\"]\n  d: {e: ~}\n").value;
  EXPECT_EQ(v.find("a")->mark.line, 1);
  EXPECT_EQ(v.find("a")->mark.column, 4);
  const Value& c = *v.find("b")->find("c");
  EXPECT_EQ(c.mark.line, 3);
  EXPECT_EQ(c.mark.column, 6);
  EXPECT_EQ(c.items[1].mark.column, 10);
  EXPECT_EQ(v.find("b")->members[0].key_mark.column, 3);
  EXPECT_EQ(v.find("b")->find("d")->find("e")->kind, Value::Kind::null);
}

TEST(Yaml, QuotesMakeText) {
  const Value v = parse("a: '5'\nb: 5\nc: |\n  5\nd: \"null\"\n").value;
  EXPECT_TRUE(v.find("a")->quoted);
  EXPECT_FALSE(v.find("b")->quoted);
  EXPECT_TRUE(v.find("c")->quoted);
  EXPECT_EQ(v.find("d")->kind, Value::Kind::scalar);
}

TEST(Yaml, JsonIsYaml) {
  const Parsed p = parse("{\"a\": [1, 2.5, true, null], \"b\": {\"c\": \"d\"}}");
  EXPECT_THAT(p.failure.lines, IsEmpty());
  EXPECT_EQ(p.value.find("a")->items.size(), 4u);
  EXPECT_EQ(p.value.find("b")->find("c")->text, "d");
}

TEST(Yaml, KeysAreInOrderOfAppearance) {
  const Value v = parse("z: 1\na: 2\nm: 3\n").value;
  EXPECT_EQ(v.members[0].key, "z");
  EXPECT_EQ(v.members[2].key, "m");
}

TEST(Yaml, AKeyGivenTwiceNamesBothPlacesAndKeepsTheFirst) {
  const Parsed p = parse("a: 1\nb: 2\na: 3\nc: {d: 1, d: 2}\n");
  EXPECT_THAT(p.failure.lines,
              ElementsAre("E103 3:1 'a' is given twice", "E103 4:11 'd' is given twice"));
  EXPECT_EQ(p.failure.all[0].help, "first given at 1:1");
  EXPECT_EQ(p.failure.all[1].help, "first given at 4:5");
  EXPECT_EQ(p.value.members.size(), 3u);
  EXPECT_EQ(p.value.find("a")->text, "1");
}

TEST(Yaml, SharingAndTagsAreRefused) {
  EXPECT_EQ(first_line(parse("a: &x 1\n")), "E104 1:4 anchors are not allowed here: '&x'");
  EXPECT_EQ(first_line(parse("a: 1\nb: *x\n")), "E104 2:4 aliases are not allowed here");
  EXPECT_EQ(first_line(parse("a: &x [*x]\n")).substr(0, 8), "E104 1:4");
  EXPECT_EQ(first_line(parse("a: !!str 5\n")), "E104 1:4 tags are not allowed here");
  EXPECT_EQ(first_line(parse("a: ! 5\n")), "E104 1:4 tags are not allowed here");
  EXPECT_EQ(first_line(parse("a: !x {b: 1}\n")), "E104 1:4 tags are not allowed here");
  EXPECT_EQ(first_line(parse("a: {<<: {b: 1}}\n")),
            "E104 1:5 merge keys are not allowed here: '<<'");
}

TEST(Yaml, AnAliasBombIsRefusedAtOnce) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += 'a' + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  // Expanded it would be 10^12 words, for which neither time nor memory would do.
  EXPECT_EQ(first_line(parse(bomb)).substr(0, 8), "E104 1:5");
}

TEST(Yaml, DepthIsLimitedBeforeTheParserRecurses) {
  EXPECT_EQ(first_line(parse("a: " + std::string(100'000, '['))).substr(0, 4), "E105");
  std::string lines = "a:\n", maps;
  for (int i = 0; i < 100'000; ++i) lines += "[\n", maps += "{a: ";
  EXPECT_EQ(first_line(parse(lines)).substr(0, 4), "E105");
  EXPECT_EQ(first_line(parse(maps)).substr(0, 4), "E105");
  std::string dashes, questions;
  for (int i = 0; i < 1000; ++i) dashes += "- ", questions += "? ";
  EXPECT_EQ(first_line(parse(dashes)).substr(0, 4), "E105");
  EXPECT_EQ(first_line(parse(questions)).substr(0, 4), "E105");
}

TEST(Yaml, SixtyFourLevelsAreAllowed) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_THAT(parse(nested(64)).failure.lines, IsEmpty());
  EXPECT_EQ(first_line(parse(nested(65))), "E105 1:65 nested deeper than 64 levels");
}

TEST(Yaml, SizeIsLimited) {
  EXPECT_EQ(first_line(parse("a: " + std::string(17u << 20, 'x'))),
            "E106 0:0 the text is larger than 16 MiB: 17825795 bytes");
  std::string many = "a: [";
  for (int i = 0; i < 1'000'001; ++i) many += "1,";
  EXPECT_EQ(first_line(parse(many + "]")).substr(0, 4), "E106");
}

TEST(Yaml, WhatIsNoTextIsRefused) {
  EXPECT_EQ(first_line(parse(std::string("a: b\0c\n", 7))),
            "E100 1:5 there is a control character in the text: U+0000");
  EXPECT_EQ(first_line(parse("a: \x1b[2J\n")),
            "E100 1:4 there is a control character in the text: U+001B");
  EXPECT_EQ(first_line(parse("a: \xe9\n")), "E100 1:4 this is not UTF-8 text");
  EXPECT_EQ(first_line(parse("a: \xc0\xaf\n")), "E100 1:4 this is not UTF-8 text");
  EXPECT_EQ(first_line(parse("a: \xed\xa0\x80\n")), "E100 1:4 this is not UTF-8 text");
  EXPECT_EQ(first_line(parse(std::string("a\0:\0 \0b\0", 8))).substr(0, 4), "E100");
}

TEST(Yaml, BrokenSyntaxIsReportedWhereReadingStopped) {
  EXPECT_THAT(first_line(parse("a: [1, 2\n")), HasSubstr("E100"));
  EXPECT_THAT(first_line(parse("a: 1\n b: 2\n")), HasSubstr("E100 2:"));
  EXPECT_THAT(first_line(parse("a: \"x\n")), HasSubstr("E100"));
  EXPECT_EQ(first_line(parse("? [a]\n: b\n")), "E100 1:3 a key must be a plain word");
  EXPECT_EQ(first_line(parse("a: 1\n---\nb: 2\n")),
            "E100 2:1 there is a second document in the file");
}

TEST(Yaml, ColumnsCountCharactersNotBytes) {
  const Parsed p = parse("{é: 1, b: 2, b: 3}\n");
  EXPECT_EQ(first_line(p), "E103 1:14 'b' is given twice");
  EXPECT_EQ(p.failure.all[0].source_line, "{é: 1, b: 2, b: 3}");
}

TEST(Yaml, ALineIsShownWithoutItsEnd) {
  const Source s{"x", "one\r\ntwo\nthree"};
  EXPECT_EQ(s.line(1), "one");
  EXPECT_EQ(s.line(3), "three");
  EXPECT_EQ(s.line(4), "");
  EXPECT_EQ(s.line(0), "");
}

TEST(Problems, AreReportedByPlaceAndAtMostTwenty) {
  Problems problems;
  const SourceRef a = problems.add_source({"a", "1\n2\n3\n"});
  const SourceRef b = problems.add_source({"b", "1\n"});
  problems.add("E2", "second file", {b, 1, 1});
  for (int line = 30; line > 0; --line) problems.add("E1", "x", {a, line, 1});
  const Failure f = testing::failure_of([&] { problems.throw_if_any(); });
  ASSERT_EQ(f.all.size(), 20u);
  EXPECT_EQ(f.all.front().line, 1);
  EXPECT_EQ(f.all.back().line, 20);
  EXPECT_EQ(f.exit_status, 2);
}

// Whatever the bytes, the parser returns.
TEST(Yaml, EveryPrefixOfAnExampleParsesOrErrs) {
  std::ifstream file(STEPCAST_SOURCE_DIR "/scenarios/examples/llama3-405b-16384xh100.yaml");
  std::stringstream text;
  text << file.rdbuf();
  const std::string whole = text.str();
  ASSERT_GT(whole.size(), 500u);
  for (size_t n = 0; n < whole.size(); ++n) parse(whole.substr(0, n));
  for (size_t n = 0; n < whole.size(); n += 3) {
    std::string changed = whole;
    changed[n] = "[]{}:,-\"'#&*!|>%@`\n\t"[n % 20];
    parse(changed);
  }
}

}  // namespace
}  // namespace stepcast::yaml_test
