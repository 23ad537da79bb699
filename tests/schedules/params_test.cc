// SPDX-License-Identifier: Apache-2.0
#include "schedules/families/families.h"

#include <gtest/gtest.h>

namespace stepcast::params_test {
namespace {

ScheduleParams given(std::string_view value) {
  ScheduleParams params;
  params.more.emplace("key", value);
  return params;
}

// A reader of one value.
struct In {
  explicit In(std::string_view value) : params(given(value)) {}
  const ScheduleParams params;
  ParamReader read{params};
};

// The sentence with which `read` is refused, given a ParamReader of this value.
template <typename Read>
std::string refusal(std::string_view value, Read read) {
  In in(value);
  read(in.read);
  return in.read.wrong() ? in.read.wrong()->message : "accepted";
}

TEST(FamilyParameter, IsNotSetIfAbsentOrNone) {
  const ScheduleParams nothing;
  EXPECT_EQ(ParamReader(nothing).whole("key"), std::nullopt);
  for (const char* none : {"", "  ", "none", "None", "null", "NULL", "default"}) {
    EXPECT_EQ(In(none).read.whole("key"), std::nullopt) << none;
    EXPECT_EQ(In(none).read.flag("key"), std::nullopt) << none;
    EXPECT_EQ(In(none).read.number("key"), std::nullopt) << none;
    EXPECT_TRUE(In(none).read.numbers("key").empty()) << none;
  }
}

TEST(FamilyParameter, WholeNumbersAreReadStrictly) {
  EXPECT_EQ(In("4").read.whole("key"), 4);
  EXPECT_EQ(In(" 4.0 ").read.whole("key"), 4);
  EXPECT_EQ(In("-3").read.whole("key", -5), -3);
  for (const char* wrong : {"4.5", "four", "4 4", "0x4", ".0", "99999999999999999999", "1e3", "+"})
    EXPECT_NE(refusal(wrong, [](ParamReader& in) { in.whole("key"); }), "accepted") << wrong;
  EXPECT_EQ(refusal("0", [](ParamReader& in) { in.whole("key"); }),
            "key = 0 must be a whole number from 1");
  EXPECT_EQ(refusal("9", [](ParamReader& in) { in.whole("key", 1, 8); }),
            "key = 9 must be a whole number from 1 to 8");
}

TEST(FamilyParameter, LongTextsAreCutInMessages) {
  const std::string why = refusal(std::string(1000, 'x'), [](ParamReader& in) { in.whole("key"); });
  EXPECT_LT(why.size(), 100u);
}

TEST(FamilyParameter, FlagsTakeTheUsualWords) {
  for (const char* yes : {"true", "True", "YES", "on", "1"})
    EXPECT_EQ(In(yes).read.flag("key"), true) << yes;
  for (const char* no : {"false", "False", "no", "OFF", "0"})
    EXPECT_EQ(In(no).read.flag("key"), false) << no;
  EXPECT_EQ(refusal("maybe", [](ParamReader& in) { in.flag("key"); }),
            "key = maybe must be true or false");
}

TEST(FamilyParameter, WordsAreOneOfAList) {
  EXPECT_EQ(In("Up").read.word("key", {"up", "down"}), "up");
  EXPECT_EQ(refusal("left",
                    [](ParamReader& in) {
                      in.word("key", {"up", "down"});
                    }),
            "key = left must be up or down");
}

TEST(FamilyParameter, NumbersMayBeSeveral) {
  EXPECT_EQ(In("-172032").read.number("key"), -172032);
  EXPECT_EQ(In("0.5").read.number("key"), 0.5);
  EXPECT_EQ(In("1200").read.numbers("key"), std::vector<double>{1200});
  EXPECT_EQ(In("[10, 10,14.5]").read.numbers("key"), (std::vector<double>{10, 10, 14.5}));
  for (const char* wrong : {"x", "1,", ",1", "[1", "[]", "nan", "inf", "1e999", "1 2"})
    EXPECT_NE(refusal(wrong, [](ParamReader& in) { in.numbers("key"); }), "accepted") << wrong;
}

TEST(FamilyParameter, AGroupHasTwoNamesThatMustAgree) {
  ScheduleParams params = given("4");
  EXPECT_EQ(ParamReader(params).group("key"), 4);
  EXPECT_EQ(ParamReader(params).group("other"), std::nullopt);
  params.group = 4;
  EXPECT_EQ(ParamReader(params).group("key"), 4);
  EXPECT_EQ(ParamReader(params).group("other"), 4);
  params.group = 5;
  ParamReader in(params);
  in.group("key");
  EXPECT_EQ(in.wrong()->message, "key = 4 and group = 5 are the same parameter and must agree");
}

}  // namespace
}  // namespace stepcast::params_test
