// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/layer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>

#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"
#include "tests/measure/complaint.h"

namespace stepcast::measure::layer_test {
namespace {

using ::testing::HasSubstr;

LayerShape small() {
  LayerShape s;
  s.hidden = 512;
  s.heads = 8;
  s.kv_heads = 4;
  s.ffn = 1536;
  s.seq = 1024;
  s.micro = 2;
  return s;
}

// One GPU, kernels as the program launches them.
std::string scenario_with(const LayerShape& s, int layers) {
  return fmt::format(
      "model:\n  preset: llama\n  num_hidden_layers: {}\n  hidden_size: {}\n"
      "  num_attention_heads: {}\n  num_key_value_heads: {}\n  intermediate_size: {}\n"
      "  vocab_size: 4096\n  max_position_embeddings: {}\n  hidden_act: {}\n  gated_mlp: {}\n"
      "  tie_word_embeddings: false\n"
      "cluster: {{nodes: 1, node: {{gpu: h100-sxm, gpus: 1}}}}\n"
      "parallel: {{tp: 1, pp: 1, dp: 1}}\n"
      "batch: {{global: {}, micro: {}, seq: {}}}\n"
      "precision: bf16-mixed\nrecompute: none\n"
      "kernels: {{attention: flash, dropout: 0, fused_activation: true, fused_norm: true,\n"
      "  gradient_accumulation_fusion: true}}\n",
      layers, s.hidden, s.heads, s.kv_heads, s.ffn, s.seq, s.gated ? "silu" : "gelu", s.gated,
      s.micro, s.micro, s.seq);
}

// How often a step of that many layers launches each work.
std::map<std::string, int> launches(const LayerShape& s, int layers) {
  const Scenario scenario = load_scenario_text(scenario_with(s, layers), "layer.yaml");
  const OpGraph graph =
      lower(scenario.model, scenario.plan, scenario.schedule, {scenario.p2p, false});
  std::map<std::string, int> count;
  for (const Item& item : graph.roles.at(0).items)
    if (item.kind == ItemKind::pass)
      for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops)
        ++count[describe(graph.works[static_cast<size_t>(op.work)])];
  return count;
}

class LayerWorks : public ::testing::TestWithParam<bool> {};

// What a second layer adds to the forecast is, kernel by kernel and byte by byte, what the program
// runs; the optimizer's kernels, which grow with the parameters, are no part of a layer.
TEST_P(LayerWorks, AreThoseThatTheForecastPrices) {
  LayerShape s = small();
  s.gated = GetParam();
  std::map<std::string, int> added = launches(s, 2);
  for (const auto& [work, count] : launches(s, 1)) added[work] -= count;
  std::map<std::string, int> own;
  for (const Work& w : layer_works(s)) ++own[describe(w)];
  for (const auto& [work, count] : own) EXPECT_EQ(added[work], count) << work;
  int compute = 0;
  for (const auto& [work, count] : added)
    if (work.starts_with("gemm") || work.starts_with("attention")) compute += count;
  EXPECT_EQ(compute, 14);
}
INSTANTIATE_TEST_SUITE_P(Mlp, LayerWorks, ::testing::Bool());

std::string refusal(const std::vector<std::string>& arguments) {
  return complaint_of([&] { parse_layer_run(arguments); });
}

TEST(LayerRun, TakesSizes) {
  const std::vector<std::string> arguments{
      "--hidden", "1024", "--heads", "16", "--kv-heads",  "4",       "--ffn", "2048",
      "--seq",    "512",  "--micro", "3",  "--plain-mlp", "--loops", "7"};
  const LayerRun run = parse_layer_run(arguments);
  EXPECT_EQ(run.shape.tokens(), 3 * 512);
  EXPECT_EQ(run.shape.qkv_width(), 24 * 64);
  EXPECT_EQ(run.shape.up_width(), 2048);
  EXPECT_EQ(run.loops, 7);
  EXPECT_TRUE(parse_layer_run(std::vector<std::string>{"--help"}).help);
  EXPECT_THAT(layer_usage(), HasSubstr("--kv-heads N"));
}

TEST(LayerRun, RefusesWhatItCannotRun) {
  EXPECT_THAT(refusal({"--layer", "2"}), HasSubstr("unknown option '--layer'"));
  EXPECT_THAT(refusal({"--seq"}), HasSubstr("--seq needs"));
  EXPECT_THAT(refusal({"--seq", "2x"}), HasSubstr("a whole number, not '2x'"));
  EXPECT_THAT(refusal({"--seq", "8", "--seq", "8"}), HasSubstr("stands twice"));
  EXPECT_THAT(refusal({"--seq", "0"}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal({"--heads", "30"}), HasSubstr("no multiple of --heads 30"));
  EXPECT_THAT(refusal({"--kv-heads", "5"}), HasSubstr("no multiple of --kv-heads 5"));
  EXPECT_THAT(refusal({"--hidden", "32768", "--heads", "128"}), HasSubstr("16384"));
  EXPECT_THAT(refusal({"--ffn", "9"}), HasSubstr("multiple of 8"));
  EXPECT_THAT(refusal({"--seq", "1073741824", "--micro", "1000000"}), HasSubstr("2^40"));
  EXPECT_THAT(refusal({"--loops", "1"}), HasSubstr("from 5"));
}

TEST(LayerText, ComparesEachKernelAndTheirSums) {
  LayerTimes times;
  times.alone_us.assign(kLayerKernels, 10);
  times.inside_us.assign(kLayerKernels, 11);
  times.loop_us = 280;
  const std::string text = layer_text(small(), times);
  EXPECT_THAT(text, HasSubstr("1.100"));
  EXPECT_THAT(text, ::testing::ContainsRegex("matrix products +120.0 +132.0 +1.100"));
  EXPECT_THAT(text, ::testing::ContainsRegex("attention +20.0 +22.0"));
  EXPECT_THAT(text, ::testing::ContainsRegex("bound by memory +120.0"));
  EXPECT_THAT(text, ::testing::ContainsRegex("the loop.* 260.0 +280.0 +1.077"));
}

TEST(LayerText, LeavesOutSumsThatMissAKernel) {
  LayerTimes times;
  times.alone_us.assign(kLayerKernels, 10);
  times.alone_us[static_cast<size_t>(LayerKernel::attention)] = 0;
  times.inside_us.assign(kLayerKernels, 11);
  times.loop_us = 280;
  EXPECT_THAT(layer_text(small(), times), ::testing::ContainsRegex("the loop.* - +280.0 +-"));
}

}  // namespace
}  // namespace stepcast::measure::layer_test
