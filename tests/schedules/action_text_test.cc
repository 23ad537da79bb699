// SPDX-License-Identifier: Apache-2.0
#include "schedules/action_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepcast {
namespace {

using ::testing::HasSubstr;

constexpr ActionKind kKinds[] = {ActionKind::forward, ActionKind::backward,
                                 ActionKind::backward_input, ActionKind::backward_weight};

TEST(ActionText, IsStageLetterMicrobatch) {
  EXPECT_EQ(to_string({ActionKind::forward, 5, 12}), "5F12");
  EXPECT_EQ(to_string({ActionKind::backward, 0, 0}), "0B0");
  EXPECT_EQ(to_string({ActionKind::backward_input, 65535, 7}), "65535I7");
  EXPECT_EQ(to_string({ActionKind::backward_weight, 10, 4294967294}), "10W4294967294");
}

TEST(ActionText, WhatIsWrittenIsReadBack) {
  for (const ActionKind kind : kKinds)
    for (const uint16_t stage : std::initializer_list<uint16_t>{0, 1, 9, 10, 65535})
      for (const uint32_t microbatch : {0u, 1u, 10u, 999u, 4294967294u}) {
        const Action a{kind, stage, microbatch};
        EXPECT_EQ(parse_action(to_string(a)), a) << to_string(a);
      }
}

std::string refusal(std::string_view text) {
  try {
    parse_action(text);
  } catch (const ActionTextError& e) {
    EXPECT_EQ(e.offset, 0u);
    EXPECT_EQ(e.length, text.size());
    return e.what();
  }
  return "accepted";
}

TEST(ActionText, AnythingElseIsRefused) {
  for (const char* text : {"",         "F",        "0",     "0F",    "F0",
                           "0X0",      "0f0",      "-1F0",  "+1F0",  "0F-1",
                           "0F0 ",     " 0F0",     "0F0x",  "0FF0",  "0BW0",
                           "0F0F0",    "1.5F0",    "0x1F0", "0F1e3", "(0F0;1B0)OVERLAP_F_B",
                           "0SEND_F0", "0UNSHARD", "٣F0"})
    EXPECT_THAT(refusal(text), HasSubstr("write <stage><F, B, I or W><microbatch>, as in `5F12`"))
        << text;
  EXPECT_THAT(refusal("0X0"), HasSubstr("`0X0` is not an action"));
}

TEST(ActionText, NumbersThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal("65536F0"), HasSubstr("the stage must be at most 65535"));
  EXPECT_THAT(refusal("0F4294967295"), HasSubstr("the microbatch must be at most 4294967294"));
  EXPECT_THAT(refusal("0F99999999999999999999999"), HasSubstr("the microbatch must be at most"));
  EXPECT_THAT(refusal("01F0"), HasSubstr("the stage is written with leading zeros"));
  EXPECT_THAT(refusal("1F00"), HasSubstr("the microbatch is written with leading zeros"));
}

TEST(ActionText, LongTextIsQuotedOnlyInPart) {
  EXPECT_LT(refusal(std::string(100'000, '7')).size(), 200u);
}

TEST(ActionRow, IsSeparatedBySpacesOrCommasAndIdleSlotsDoNotCount) {
  const std::vector<Action> expected = {{ActionKind::forward, 0, 0}, {ActionKind::backward, 1, 2}};
  for (const char* row : {"0F0 1B2", "0F0,1B2", " 0F0,\t1B2 ", ",,0F0,,,1B2,", "0F0, 1B2\r"})
    EXPECT_EQ(parse_actions(row), expected) << row;
  EXPECT_TRUE(parse_actions("").empty());
  EXPECT_TRUE(parse_actions(" ,, ").empty());
}

TEST(ActionRow, ErrorsPointAtTheWrongAction) {
  try {
    parse_actions("0F0, 1F0,nonsense,0B0");
    FAIL() << "accepted";
  } catch (const ActionTextError& e) {
    EXPECT_EQ(e.offset, 9u);
    EXPECT_EQ(e.length, 8u);
    EXPECT_THAT(e.what(), HasSubstr("`nonsense`"));
  }
}

}  // namespace
}  // namespace stepcast
