// SPDX-License-Identifier: Apache-2.0
// Conditions on layouts: what they mean, and what is wrong with bad ones.
#include "scenarios/search/expression.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

namespace stepcast::expression_test {
namespace {

const std::vector<std::string> kWords{"none", "selective", "1f1b"};
const std::vector<ExpressionName> kNames{{"tp", {}}, {"peak_memory", {}}, {"recompute", kWords}};

std::optional<Expression> parse(const std::string& text, ExpressionProblem& problem) {
  return parse_expression(text, kNames, problem);
}

bool holds(const std::string& text, double tp = 4, double memory = 0, double word = 0) {
  ExpressionProblem problem;
  const auto e = parse(text, problem);
  EXPECT_TRUE(e.has_value()) << text << ": " << problem.message;
  const std::vector<double> values{tp, memory, word};
  return e && e->holds(values);
}

std::string problem_of(const std::string& text) {
  ExpressionProblem problem;
  EXPECT_FALSE(parse(text, problem).has_value()) << text;
  EXPECT_LE(problem.offset, text.size());
  return problem.message;
}

TEST(Expression, ComparesNumbers) {
  EXPECT_TRUE(holds("tp == 4"));
  EXPECT_TRUE(holds("tp<=4"));
  EXPECT_TRUE(holds("tp >= 4"));
  EXPECT_TRUE(holds("tp != 3"));
  EXPECT_FALSE(holds("tp < 4"));
  EXPECT_FALSE(holds("tp > 4"));
}

TEST(Expression, BindsAsArithmeticDoes) {
  EXPECT_TRUE(holds("2 + 3 * tp == 14"));
  EXPECT_TRUE(holds("(2 + 3) * tp == 20"));
  EXPECT_TRUE(holds("10 - 4 - 3 == 3"));
  EXPECT_TRUE(holds("16 / tp / 2 == 2"));
  EXPECT_TRUE(holds("7 % tp == 3"));
  EXPECT_TRUE(holds("-tp + 5 == 1"));
  EXPECT_TRUE(holds("not tp > 4 and tp > 1 or tp == 100"));
  EXPECT_TRUE(holds("tp == 100 or not (tp > 4) and tp > 1"));
  EXPECT_FALSE(holds("not (tp > 1 or tp == 100)"));
}

TEST(Expression, ReadsUnits) {
  EXPECT_TRUE(holds("peak_memory <= 80GiB", 1, 80.0 * (int64_t{1} << 30)));
  EXPECT_FALSE(holds("peak_memory <= 80GB", 1, 80.0 * (int64_t{1} << 30)));
  EXPECT_TRUE(holds("2.5ms == 2500us"));
  EXPECT_TRUE(holds("90% == 0.9"));
  EXPECT_TRUE(holds("400kUSD == 400000USD and 400000USD == 0.4MUSD and 2USD == 2"));
  EXPECT_TRUE(holds("90% == 0.9 and tp%3 == 1"));
}

TEST(Expression, ComparesWords) {
  EXPECT_TRUE(holds("recompute == none"));
  EXPECT_FALSE(holds("recompute != none"));
  EXPECT_TRUE(holds("recompute == selective", 1, 0, 1));
  EXPECT_TRUE(holds("recompute == '1f1b'", 1, 0, 2));
}

TEST(Expression, WhatHasNoValueFulfilsNothing) {
  EXPECT_FALSE(holds("tp / 0 == tp / 0"));
  EXPECT_FALSE(holds("tp / 0 != 1"));
  EXPECT_FALSE(holds("tp % 0 >= 0"));
}

TEST(Expression, SaysWhatIsWrong) {
  EXPECT_EQ(problem_of("tq <= 8"), "there is no 'tq' in a condition");
  EXPECT_EQ(problem_of("tp = 8"), "'=' sets a value");
  EXPECT_EQ(problem_of("tp"), "this is a value, not a condition");
  EXPECT_EQ(problem_of("tp <="), "the condition ends where a value is due");
  EXPECT_EQ(problem_of(""), "the condition ends where a value is due");
  EXPECT_EQ(problem_of("(tp <= 8"), "a bracket is not closed");
  EXPECT_EQ(problem_of("tp <= 8 8"), "'8' is not understood here");
  EXPECT_EQ(problem_of("tp <= 8parsec"), "there is no unit 'parsec'");
  EXPECT_EQ(problem_of("recompute == ful"), "'recompute' cannot be 'ful'");
  EXPECT_EQ(problem_of("recompute < none"), "words are == or != another, and have no order");
  EXPECT_EQ(problem_of("recompute + 1 > 2"), "only numbers are added, multiplied and ordered");
  EXPECT_EQ(problem_of("tp and 3"), "'and' and 'or' join conditions, not values");
  EXPECT_EQ(problem_of("not tp"), "'not' stands before a condition, not a value");
  EXPECT_EQ(problem_of("tp <= 8 ; rm"), "'; rm' is not understood here");
}

TEST(Expression, HasBounds) {
  EXPECT_EQ(problem_of(std::string(1001, ' ')), "a condition has at most 1000 characters");
  EXPECT_EQ(problem_of(std::string(60, '(') + "tp == 1" + std::string(60, ')')),
            "more than 50 brackets in one another");
  EXPECT_TRUE(holds(std::string(40, '(') + "tp == 4" + std::string(40, ')')));
}

// What may not hold for ranges of values holds for none of them.
TEST(Expression, MayHoldWhereAnyValuesDo) {
  const auto may = [](const std::string& text, ValueRange tp) {
    ExpressionProblem problem;
    const auto e = parse(text, problem);
    EXPECT_TRUE(e.has_value()) << text << ": " << problem.message;
    return e && e->may_hold(std::vector<ValueRange>{tp, {1e9, 1e9}, {1, 1}});
  };
  constexpr double kAny = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(may("tp <= 8", {8, kAny}));
  EXPECT_FALSE(may("tp < 8", {8, kAny}));
  EXPECT_FALSE(may("2 * tp + 1 <= 16", {8, kAny}));
  EXPECT_FALSE(may("10 / tp > 2", {8, kAny}));
  EXPECT_FALSE(may("-tp > -8", {8, kAny}));
  EXPECT_FALSE(may("not tp >= 8", {8, kAny}));
  EXPECT_FALSE(may("tp == 7 or tp < 3", {8, 9}));
  EXPECT_TRUE(may("tp == 7 or tp > 3", {8, 9}));
  EXPECT_TRUE(may("tp != 8", {8, 9}));
  EXPECT_FALSE(may("tp != 8", {8, 8}));
  EXPECT_TRUE(may("not 1 / (tp - 9) > 0", {8, kAny}));  // it may have no value
  EXPECT_TRUE(may("tp % 3 == 0", {8, 9}));
  EXPECT_FALSE(may("tp % 3 == 0", {8, 8}));
}

TEST(Expression, NothingThatHoldsIsRuledOut) {
  constexpr std::string_view kPieces[] = {"tp", "tp",  "tp", "and", "or", "not", "(", ")", "==",
                                          "<",  "<=",  ">",  ">=",  "!=", "+",   "-", "*", "/",
                                          "%",  "0.5", "0",  "2",   "3",  "tp",  "(", ")"};
  std::mt19937 random(11);
  int held = 0, ruled_out = 0;
  for (int i = 0; i < 300'000; ++i) {
    std::string text;
    for (size_t n = 3 + random() % 9; n > 0; --n)
      text += std::string(kPieces[random() % std::size(kPieces)]) + ' ';
    ExpressionProblem problem;
    const auto e = parse(text, problem);
    if (!e) continue;
    const double least = static_cast<double>(random() % 7) - 3;
    const double most = least + static_cast<double>(random() % 4);
    const bool may = e->may_hold(std::vector<ValueRange>{{least, most}, {1e9, 1e9}, {1, 1}});
    ruled_out += !may;
    for (double x = least; x <= most; x += 0.5) {
      if (!e->holds(std::vector<double>{x, 1e9, 1})) continue;
      ++held;
      ASSERT_TRUE(may) << text << " holds for " << x;
    }
  }
  EXPECT_GT(held, 100);
  EXPECT_GT(ruled_out, 100);
}

// Whatever is written is either a condition or refused, and a condition has a value.
TEST(Expression, TakesAnyText) {
  constexpr std::string_view kPieces[] = {"tp",  "recompute", "none", "and", "or", "not", "(",  ")",
                                          "==",  "<",         "<=",   "!=",  "+",  "-",   "*",  "/",
                                          "%",   "8",         "1.5",  "GiB", " ",  "'",   "\"", ".",
                                          "1e9", "=",         "\x80", "\n",  "s",  "_"};
  std::mt19937 random(7);
  const std::vector<double> values{4, 1e9, 1};
  int conditions = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += kPieces[random() % std::size(kPieces)];
    ExpressionProblem problem;
    const auto e = parse(text, problem);
    if (!e) {
      ASSERT_FALSE(problem.message.empty()) << text;
      ASSERT_LE(problem.offset, text.size()) << text;
      continue;
    }
    ++conditions;
    static_cast<void>(e->holds(values));
  }
  EXPECT_GT(conditions, 10);
}

}  // namespace
}  // namespace stepcast::expression_test
