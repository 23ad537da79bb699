// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace stepcast::measure {
namespace {

TrainingRun parse(const std::vector<std::string>& arguments) {
  return parse_training_run(arguments);
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(TrainingRun, TakesSizesAndChoices) {
  const TrainingRun run = parse({"--layers",       "2",       "--hidden",    "1024",
                                 "--heads",        "16",      "--kv-heads",  "4",
                                 "--ffn",          "2048",    "--vocab",     "1280",
                                 "--seq",          "512",     "--micro",     "3",
                                 "--microbatches", "5",       "--plain-mlp", "--attention",
                                 "unfused",        "--steps", "7",           "--scenario-out",
                                 "x.yaml",         "--gpu",   "h100-sxm",    "--calibration",
                                 "t.csv"});
  EXPECT_EQ(run.shape.layers, 2);
  EXPECT_EQ(run.shape.tokens(), 3 * 512);
  EXPECT_EQ(run.shape.qkv_width(), 24 * 64);
  EXPECT_EQ(run.shape.up_width(), 2048);
  EXPECT_EQ(run.attention, AttentionChoice::unfused);
  EXPECT_EQ(run.steps, 7);
  EXPECT_EQ(run.scenario_out, "x.yaml");
  EXPECT_EQ(run.gpu, "h100-sxm");
  EXPECT_EQ(run.calibration, "t.csv");
}

TEST(TrainingRun, HasUsualSizesOfItsOwn) {
  EXPECT_EQ(parse({}).shape.layers, 4);
  EXPECT_EQ(parse({"--heads", "16"}).shape.kv_heads, 8);
  EXPECT_EQ(parse({"--heads", "4", "--hidden", "512"}).shape.kv_heads, 4);
  EXPECT_TRUE(parse({"--help"}).help);
  EXPECT_THAT(training_step_usage(), testing::HasSubstr("--kv-heads N"));
}

TEST(TrainingRun, RefusesWhatItCannotRun) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal({"--layer", "2"}), HasSubstr("unknown option '--layer'"));
  EXPECT_THAT(refusal({"--layers"}), HasSubstr("--layers needs"));
  EXPECT_THAT(refusal({"--gpu"}), HasSubstr("--gpu needs a value"));
  EXPECT_THAT(refusal({"--layers", "two"}), HasSubstr("a whole number, not 'two'"));
  EXPECT_THAT(refusal({"--layers", "2x"}), HasSubstr("a whole number"));
  EXPECT_THAT(refusal({"--layers", "99999999999999999999"}), HasSubstr("a whole number"));
  EXPECT_THAT(refusal({"--layers", "0"}), HasSubstr("--layers is at least 1"));
  EXPECT_THAT(refusal({"--layers", "-3"}), HasSubstr("--layers is at least 1"));
  EXPECT_THAT(refusal({"--layers", "1", "--layers", "2"}), HasSubstr("stands twice"));
  EXPECT_THAT(refusal({"--hidden", "1000"}), HasSubstr("multiple of --heads"));
  EXPECT_THAT(refusal({"--kv-heads", "5"}), HasSubstr("multiple of --kv-heads"));
  EXPECT_THAT(refusal({"--hidden", "32"}), HasSubstr("multiple of 16 up to 256"));
  EXPECT_THAT(refusal({"--hidden", "32768", "--heads", "256"}), HasSubstr("at most 16384"));
  EXPECT_THAT(refusal({"--vocab", "32001"}), HasSubstr("32128 would do"));
  EXPECT_THAT(refusal({"--ffn", "100"}), HasSubstr("--ffn is a multiple of 8"));
  EXPECT_THAT(refusal({"--seq", "1048576"}), HasSubstr("scores has more than 2^40"));
  EXPECT_THAT(refusal({"--attention", "flash"}), HasSubstr("auto, fused or unfused"));
  EXPECT_THAT(refusal({"--steps", "1"}), HasSubstr("from 2"));
  EXPECT_THAT(refusal({"--learning-rate", "nan"}), HasSubstr("above zero"));
  EXPECT_THAT(refusal({"--device", "-1"}), HasSubstr("from 0"));
}

TEST(ParameterMap, LaysEveryParameterOutOnceWithoutGaps) {
  const TrainingStep s = parse({"--layers", "2"}).shape;
  const ParameterMap map = map_parameters(s);
  std::vector<Parameter> all{map.embedding};
  for (const LayerParameters& l : map.layers)
    for (const Parameter& p : {l.norm1, l.qkv, l.projection, l.norm2, l.up, l.down})
      all.push_back(p);
  all.push_back(map.final_norm);
  all.push_back(map.head);
  int64_t next = 0;
  for (const Parameter& p : all) {
    EXPECT_EQ(p.offset, next);
    EXPECT_EQ(p.offset % 8, 0);
    next += p.count();
  }
  EXPECT_EQ(next, map.count);
  // Each has a beginning, in the same places.
  const std::vector<InitialValue> values = initial_values(s);
  ASSERT_EQ(values.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(values[i].where.offset, all[i].offset);
}

TEST(FixedMicrobatch, IsTheSameAgainAndAnotherForEachIndex) {
  TrainingStep s = parse({"--seq", "64", "--micro", "2", "--vocab", "256"}).shape;
  const Microbatch a = fixed_microbatch(s, 0);
  EXPECT_EQ(a.tokens, fixed_microbatch(s, 0).tokens);
  EXPECT_NE(a.tokens, fixed_microbatch(s, 1).tokens);
  ASSERT_EQ(a.tokens.size(), 128U);
  for (int64_t t = 0; t + 1 < s.seq; ++t)
    EXPECT_EQ(a.targets[static_cast<size_t>(t)], a.tokens[static_cast<size_t>(t + 1)]);
  EXPECT_NE(a.targets[63], a.tokens[64]);  // the next token of the first sequence, not the second's
  EXPECT_LT(*std::max_element(a.tokens.begin(), a.tokens.end()), 256);
  EXPECT_GE(*std::min_element(a.tokens.begin(), a.tokens.end()), 0);
}

}  // namespace
}  // namespace stepcast::measure
