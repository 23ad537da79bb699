// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/attention_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/plan.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"

namespace stepcast::measure::attention_grid_test {
namespace {

// All works of a step of this model.
std::set<Work> works_of(const std::string& model, const std::string& kernels) {
  const Scenario s = load_scenario_text(
      "model: {preset: llama, num_hidden_layers: 1, vocab_size: 32000, intermediate_size: 11008, " +
          model +
          "}\ncluster: {nodes: 1, node: {gpu: h100-sxm, gpus: "
          "1}}\nbatch: {global: 1, micro: 1, seq: "
          "4096}\nkernels: {" +
          kernels + "}\n",
      "run.yaml");
  const OpGraph graph = lower(s.model, s.plan, s.schedule, {s.p2p, false});
  return {graph.works.begin(), graph.works.end()};
}

TEST(AttentionGrid, HasTheWorkOfAModelOfItsShape) {
  const std::set<Work> model = works_of(
      "hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 8", "attention: flash");
  int found = 0;
  for (const Work& w : attention_grid(false)) found += model.contains(w) ? 1 : 0;
  EXPECT_EQ(found, 2);  // forward and backward of 4096 tokens
}

// What is timed is the softmax of all scores; a fused one for causal masks reads half of them.
TEST(AttentionGrid, HasThePartsOfAttentionThatIsNotFused) {
  const std::set<Work> model =
      works_of("hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 32",
               "attention: unfused, fused_softmax: false, softmax_fp32: false");
  int found = 0;
  for (const Work& w : unfused_attention_grid(false)) found += model.contains(w) ? 1 : 0;
  EXPECT_EQ(found, 5);  // scores, context, gradients of keys and values; softmax and its gradient
}

TEST(AttentionGrid, HasNoShapeTwiceAndTheSmallOneWithinTheFull) {
  for (const auto grid : {attention_grid, unfused_attention_grid}) {
    const std::vector<Work> small = grid(false), full = grid(true);
    const std::set<Work> all(full.begin(), full.end());
    EXPECT_EQ(all.size(), full.size());
    EXPECT_LT(small.size(), full.size());
    for (const Work& w : small) EXPECT_TRUE(all.contains(w));
  }
  const std::vector<Work> full = attention_grid(true);
  EXPECT_TRUE(std::ranges::any_of(full, [](const Work& w) { return w.value_dim == 128; }));
  EXPECT_TRUE(std::ranges::any_of(full, [](const Work& w) { return w.k == 64 && !w.causal; }));
}

}  // namespace
}  // namespace stepcast::measure::attention_grid_test
