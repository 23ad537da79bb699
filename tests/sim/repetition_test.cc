// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/repetition.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stepcast::repetition_test {
namespace {

// "F3 B0" of stage 0; forwards are pass 0, backwards pass 1; "u" is a pass without an action.
std::vector<Item> list(const std::string& text) {
  std::vector<Item> items;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    Item item;
    item.kind = ItemKind::pass;
    if (text[i] == 'u') {
      item.pass = PassId{2};
    } else {
      const bool forward = text[i] == 'F';
      const auto microbatch = static_cast<uint32_t>(std::stoi(text.substr(i + 1)));
      item.pass = PassId{forward ? 0u : 1u};
      item.has_action = true;
      item.action = {forward ? ActionKind::forward : ActionKind::backward, 0, microbatch};
      i = std::min(text.find(' ', i), text.size());
    }
    items.push_back(item);
  }
  return items;
}

std::string found(const std::string& text) {
  const auto r = find_repetition(list(text));
  if (!r) return "none";
  return std::to_string(r->begin) + " to " + std::to_string(r->end) + " by " +
         std::to_string(r->length) + " shift " + std::to_string(r->shift);
}

TEST(Repetition, OfOneForwardOneBackward) {
  EXPECT_EQ(found("F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 B5 B6 u"), "2 to 12 by 2 shift 1");
}

TEST(Repetition, MicrobatchesMayComeInTurns) {
  EXPECT_EQ(found("F0 F1 B1 B0 F2 F3 B3 B2 F4 F5 B5 B4 F6 F7 B7 B6"), "0 to 16 by 4 shift 2");
}

TEST(Repetition, LastsForThreeLengths) {
  EXPECT_EQ(found("F0 B0 F1 B1 u u"), "none");
  EXPECT_EQ(found("F0 B0 F1 B1 F2 B2"), "0 to 6 by 2 shift 1");
}

TEST(Repetition, IsBrokenByAnotherMicrobatch) {
  EXPECT_EQ(found("F0 B0 F1 B1 F2 B2 F3 B4 F4 B3"), "0 to 7 by 2 shift 1");
  EXPECT_EQ(found("F0 B0 F1 B1 F3 B3 F4 B4"), "none");
}

TEST(Repetition, OfPassesWithoutAnActionIsNone) {
  EXPECT_EQ(found("u u u u u u"), "none");
  EXPECT_EQ(found(""), "none");
}

TEST(Repetition, PassesWithoutAnActionMayBePartOfOne) {
  EXPECT_EQ(found("F0 u B0 F1 u B1 F2 u B2"), "0 to 9 by 3 shift 1");
}

}  // namespace
}  // namespace stepcast::repetition_test
