// SPDX-License-Identifier: Apache-2.0
// Labels are for display: nothing about a step changes when they read otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/host/host_calls.h"
#include "model/host/library_memory.h"
#include "model/low_precision.h"
#include "model/passes/stage_passes.h"
#include "tests/model/sample.h"

namespace stepcast::labels_test {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

struct Stage {
  OpGraph graph;
  StagePasses passes;
};

void add_passes(Stage& stage, const Transformer& model, const Plan& plan) {
  GraphBuilder builder(stage.graph);
  const StageContent all{.layers = 2, .embedding = true, .head = true};
  stage.passes = add_stage_passes(builder, model, plan, all, {.split = true});
}

// What is decided about the ops of a stage after they have been written.
struct Decisions {
  int64_t library_memory = 0;
  std::vector<int64_t> low_weights;
  std::vector<LaunchId> launches;
  bool operator==(const Decisions&) const = default;
};

Decisions decisions_of(Stage& stage, const Plan& plan) {
  Decisions d;
  const StagePasses& p = stage.passes;
  d.library_memory = library_memory(stage.graph, plan, {p.forward, p.backward}).value;
  d.low_weights = low_weights(stage.graph, p.forward);
  assign_launches(stage.graph, plan);
  for (const Pass& pass : stage.graph.passes)
    for (const Op& op : pass.ops) d.launches.push_back(op.launch);
  return d;
}

// The same labels for all, or words that mean something elsewhere.
void expect_labels_decide_nothing(const Transformer& model, const Plan& plan) {
  Stage usual;
  add_passes(usual, model, plan);
  const Decisions expected = decisions_of(usual, plan);
  EXPECT_GT(expected.library_memory, 0);
  for (const std::string name : {"x", "head", "router", "fc1 reduce-scatter", ""}) {
    Stage renamed;
    add_passes(renamed, model, plan);
    for (std::string& label : renamed.graph.labels) label = name;
    EXPECT_EQ(decisions_of(renamed, plan), expected) << name;
  }
}

Plan plan_of(Scaling scaling) {
  Plan plan = sample::plan(4, 1, 1, 1, 1, 128);
  plan.kernels.flash_attention = true;
  plan.kernels.blas_workspace = Bytes{1000};
  plan.kernels.engine_workspace = Bytes{100};
  plan.kernels.gradient_placeholders = true;
  plan.precision.scaling = scaling;
  return plan;
}

TEST(Labels, DecideNothingOfADenseModel) {
  expect_labels_decide_nothing(sample::llama(2, 256, 8, 8, 512, 1024), plan_of(Scaling::none));
}

TEST(Labels, DecideNothingOfExperts) {
  Transformer model = sample::llama(2, 256, 8, 8, 512, 1024);
  model.experts = 4;
  model.experts_per_token = 2;
  model.moe_ffn = 256;
  expect_labels_decide_nothing(model, plan_of(Scaling::none));
}

TEST(Labels, DecideNothingOfProductsInPieces) {
  Plan plan = plan_of(Scaling::delayed);
  plan.overlap.tp = TpOverlap::pipelined;
  expect_labels_decide_nothing(sample::llama(2, 256, 8, 8, 512, 1024), plan);
}

TEST(Labels, WeightsOfAProductInPiecesAreCountedOnce) {
  const Transformer model = sample::llama(2, 256, 8, 8, 512, 1024);
  const Plan whole = plan_of(Scaling::delayed);
  Plan pieces = whole;
  pieces.overlap.tp = TpOverlap::pipelined;
  Stage one, cut;
  add_passes(one, model, whole);
  add_passes(cut, model, pieces);
  EXPECT_THAT(low_weights(one.graph, one.passes.forward), Not(IsEmpty()));
  EXPECT_EQ(low_weights(cut.graph, cut.passes.forward), low_weights(one.graph, one.passes.forward));
}

}  // namespace
}  // namespace stepcast::labels_test
