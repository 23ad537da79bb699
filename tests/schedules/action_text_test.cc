// SPDX-License-Identifier: Apache-2.0
#include "schedules/formats/action_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/schedules/written_actions.h"

namespace stepcast::action_text_test {
namespace {

using ::testing::HasSubstr;
using testing::parse_actions;

constexpr ActionKind kKinds[] = {ActionKind::forward,        ActionKind::backward,
                                 ActionKind::backward_input, ActionKind::backward_weight,
                                 ActionKind::recompute,      ActionKind::offload,
                                 ActionKind::reload};

TEST(ActionText, IsStageLetterMicrobatch) {
  EXPECT_EQ(to_string({ActionKind::forward, 5, 12}), "5F12");
  EXPECT_EQ(to_string({ActionKind::backward, 0, 0}), "0B0");
  EXPECT_EQ(to_string({ActionKind::backward_input, 65535, 7}), "65535I7");
  EXPECT_EQ(to_string({ActionKind::backward_weight, 10, 4294967294}), "10W4294967294");
}

Action parse_action(std::string_view text) {
  std::vector<WrittenAction> cell;
  parse_cell(text, cell);
  return cell.front().action;
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
  for (const char* text :
       {"",      "F",     "0",        "0F",       "F0",   "0X0",  "0f0",   "-1F0",
        "+1F0",  "0F-1",  "0F0 ",     " 0F0",     "0F0x", "0FF0", "0F0F0", "1.5F0",
        "0x1F0", "0F1e3", "0SEND_F0", "0UNSHARD", "٣F0",  "0F."})
    EXPECT_THAT(
        refusal(text),
        HasSubstr("write <stage><F, B, I, W, R, O, L, S, T, E or G><microbatch>, as in `5F12`"))
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

TEST(ActionText, ZeroBytesDoNotCutTheSentence) {
  const std::string text("0B0\0", 4);
  EXPECT_THAT(refusal(text), HasSubstr("`0B0?` is not an action: write <stage>"));
}

TEST(ActionRow, IsSeparatedBySpacesOrCommasAndIdleSlotsDoNotCount) {
  const std::vector<Action> expected = {{ActionKind::forward, 0, 0}, {ActionKind::backward, 1, 2}};
  for (const char* row : {"0F0 1B2", "0F0,1B2", " 0F0,\t1B2 ", ",,0F0,,,1B2,", "0F0, 1B2\r"})
    EXPECT_EQ(parse_actions(row), expected) << row;
  EXPECT_TRUE(parse_actions("").empty());
  EXPECT_TRUE(parse_actions(" ,, ").empty());
}

TEST(ActionRow, PairsAreTwoActionsTheForwardFirst) {
  const std::vector<Action> expected = {{ActionKind::forward, 5, 3, true},
                                        {ActionKind::backward, 2, 1},
                                        {ActionKind::forward, 0, 0, true},
                                        {ActionKind::backward_input, 0, 1}};
  EXPECT_EQ(parse_actions("(5F3;2B1)OVERLAP_F_B,(0I1;0F0)OVERLAP_F_B"), expected);
  EXPECT_EQ(to_text(expected), "(5F3;2B1)OVERLAP_F_B,(0F0;0I1)OVERLAP_F_B");
}

std::string row_refusal(std::string_view row) {
  try {
    parse_actions(row);
  } catch (const ActionTextError& e) {
    EXPECT_EQ(e.offset, 4u);
    EXPECT_EQ(e.length, row.size() - 4);
    return e.what();
  }
  return "accepted";
}

TEST(ActionRow, WhatIsNoPairIsRefused) {
  for (const char* cell :
       {"(5F3)OVERLAP_F_B", "(5F3;2B1;3F4)OVERLAP_F_B", "(5F3;2B1)", "(5F3;2B1)OVERLAP",
        "(5F3;2B1)OVERLAP_F_B1", "((5F3;2B1)OVERLAP_F_B;3F4)OVERLAP_F_B", "(5F3;2B1", "("})
    EXPECT_THAT(row_refusal("0F0," + std::string(cell)),
                HasSubstr("a pair is (<forward>;<backward>)OVERLAP_F_B"))
        << cell;
  for (const char* cell : {"(5F3;2F1)OVERLAP_F_B", "(5B3;2B1)OVERLAP_F_B", "(5F3;2W1)OVERLAP_F_B",
                           "(5F3;2R1)OVERLAP_F_B"})
    EXPECT_THAT(row_refusal("0F0," + std::string(cell)),
                HasSubstr("a pair is a forward and a backward (B or I)"))
        << cell;
  EXPECT_THAT(row_refusal("0F0,(5F3;2B3)OVERLAP_F_B"), HasSubstr("different microbatches"));
  EXPECT_THAT(row_refusal("0F0,(5F3;2X3)OVERLAP_F_B"), HasSubstr("`2X3` is not an action"));
}

ActionRows rows_of(const std::vector<std::string_view>& texts) {
  std::vector<ActionRowError> errors;
  ActionRows rows = parse_rows(texts, errors);
  EXPECT_TRUE(errors.empty());
  return rows;
}

TEST(ActionRows, SequenceSplitsCountPieces) {
  const ActionRows rows = rows_of({"0F0.0 0F0.1 0F0.2", "1F1.0 (1F2.2;1B0.1)OVERLAP_F_B"});
  EXPECT_EQ(rows.seq_splits, 3);
  EXPECT_EQ(rows.ranks[0].back().microbatch, 2u);
  EXPECT_EQ(rows.ranks[1][0].microbatch, 3u);
  EXPECT_EQ(rows.ranks[1][1].microbatch, 8u);
  EXPECT_EQ(to_text(rows.ranks[1], 3), "1F1.0,(1F2.2;1B0.1)OVERLAP_F_B");
}

TEST(ActionRows, OneSplitIsWrittenIfItWasNamed) {
  const ActionRows rows = rows_of({"0F0.0 (0F1.0;0B0.0)OVERLAP_F_B"});
  EXPECT_EQ(rows.seq_splits, 1);
  EXPECT_TRUE(rows.names_pieces);
  EXPECT_EQ(to_text(rows.ranks[0], 1, true), "0F0.0,(0F1.0;0B0.0)OVERLAP_F_B");
  EXPECT_FALSE(rows_of({"0F0"}).names_pieces);
}

TEST(ActionRows, OnlySomeSplitsAreRefused) {
  std::vector<ActionRowError> errors;
  const std::vector<std::string_view> texts = {"0F0.0", "1F0"};
  EXPECT_THROW(parse_rows(texts, errors), InputError);
  const std::vector<std::string_view> huge = {"0F4294967294.1"};
  EXPECT_THROW(parse_rows(huge, errors), InputError);
  EXPECT_TRUE(errors.empty());
}

// A `BW` anywhere, and every B is the gradient of the input only.
TEST(ActionRows, OldNamesOfBackwardsAreDetected) {
  const ActionRows rows = rows_of({"0F0 0B0 0W0", "1F0 1BW0 1F1 (1F2;1B1)OVERLAP_F_B"});
  EXPECT_EQ(to_text(rows.ranks[0]), "0F0,0I0,0W0");
  EXPECT_EQ(to_text(rows.ranks[1]), "1F0,1B0,1F1,(1F2;1I1)OVERLAP_F_B");
  EXPECT_EQ(to_text(rows_of({"0F0 0B0 0W0"}).ranks[0]), "0F0,0B0,0W0");
}

TEST(ActionRows, EveryWrongActionIsReportedUpToTwenty) {
  std::vector<ActionRowError> errors;
  const std::vector<std::string_view> texts = {"0F0 x 0B0", "1F0 1B0", "1Q0"};
  parse_rows(texts, errors);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].row, 0u);
  EXPECT_EQ(errors[0].error.offset, 4u);
  EXPECT_EQ(errors[1].row, 2u);
  errors.clear();
  std::string many;
  for (int i = 0; i < 100; ++i) many += "x ";
  const std::vector<std::string_view> wrong = {many};
  parse_rows(wrong, errors);
  EXPECT_EQ(errors.size(), 20u);
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
}  // namespace stepcast::action_text_test
