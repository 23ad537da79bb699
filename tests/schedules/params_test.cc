// SPDX-License-Identifier: Apache-2.0
#include "schedules/families/families.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace stepcast {
namespace {

ScheduleParams given(std::string_view value) {
  ScheduleParams params;
  params.more.emplace("key", value);
  return params;
}

template <typename Read>
std::string refusal(Read read) {
  try {
    (void)read();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(FamilyParameter, IsNotSetIfAbsentOrNone) {
  EXPECT_EQ(whole_param({}, "key"), std::nullopt);
  for (const char* none : {"", "  ", "none", "None", "null", "NULL", "default"}) {
    EXPECT_EQ(whole_param(given(none), "key"), std::nullopt) << none;
    EXPECT_EQ(flag_param(given(none), "key"), std::nullopt) << none;
    EXPECT_EQ(number_param(given(none), "key"), std::nullopt) << none;
    EXPECT_TRUE(numbers_param(given(none), "key").empty()) << none;
  }
}

TEST(FamilyParameter, WholeNumbersAreReadStrictly) {
  EXPECT_EQ(whole_param(given("4"), "key"), 4);
  EXPECT_EQ(whole_param(given(" 4.0 "), "key"), 4);
  EXPECT_EQ(whole_param(given("-3"), "key", -5), -3);
  for (const char* wrong : {"4.5", "four", "4 4", "0x4", ".0", "99999999999999999999", "1e3", "+"})
    EXPECT_NE(refusal([&] { return whole_param(given(wrong), "key"); }), "accepted") << wrong;
  EXPECT_EQ(refusal([] { return whole_param(given("0"), "key"); }),
            "key = 0 must be a whole number from 1");
  EXPECT_EQ(refusal([] { return whole_param(given("9"), "key", 1, 8); }),
            "key = 9 must be a whole number from 1 to 8");
}

TEST(FamilyParameter, LongTextsAreCutInMessages) {
  const std::string why = refusal([] { return whole_param(given(std::string(1000, 'x')), "key"); });
  EXPECT_LT(why.size(), 100u);
}

TEST(FamilyParameter, FlagsTakeTheUsualWords) {
  for (const char* yes : {"true", "True", "YES", "on", "1"})
    EXPECT_EQ(flag_param(given(yes), "key"), true) << yes;
  for (const char* no : {"false", "False", "no", "OFF", "0"})
    EXPECT_EQ(flag_param(given(no), "key"), false) << no;
  EXPECT_EQ(refusal([] { return flag_param(given("maybe"), "key"); }),
            "key = maybe must be true or false");
}

TEST(FamilyParameter, WordsAreOneOfAList) {
  EXPECT_EQ(word_param(given("Up"), "key", {"up", "down"}), "up");
  EXPECT_EQ(refusal([] {
              return word_param(given("left"), "key", {"up", "down"});
            }),
            "key = left must be up or down");
}

TEST(FamilyParameter, NumbersMayBeSeveral) {
  EXPECT_EQ(number_param(given("-172032"), "key"), -172032);
  EXPECT_EQ(number_param(given("0.5"), "key"), 0.5);
  EXPECT_EQ(numbers_param(given("1200"), "key"), std::vector<double>{1200});
  EXPECT_EQ(numbers_param(given("[10, 10,14.5]"), "key"), (std::vector<double>{10, 10, 14.5}));
  for (const char* wrong : {"x", "1,", ",1", "[1", "[]", "nan", "inf", "1e999", "1 2"})
    EXPECT_NE(refusal([&] { return numbers_param(given(wrong), "key"); }), "accepted") << wrong;
}

TEST(FamilyParameter, AGroupHasTwoNamesThatMustAgree) {
  ScheduleParams params = given("4");
  EXPECT_EQ(group_param(params, "key"), 4);
  EXPECT_EQ(group_param(params, "other"), std::nullopt);
  params.group = 4;
  EXPECT_EQ(group_param(params, "key"), 4);
  EXPECT_EQ(group_param(params, "other"), 4);
  params.group = 5;
  EXPECT_EQ(refusal([&] { return group_param(params, "key"); }),
            "key = 4 and group = 5 are the same parameter and must agree");
}

}  // namespace
}  // namespace stepcast
