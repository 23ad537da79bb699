// SPDX-License-Identifier: Apache-2.0
// A step with experts: whose gradients are summed where, and what each rank holds.
#include <gtest/gtest.h>

#include <map>

#include "model/parameters.h"
#include "model/passes/stage_passes.h"
#include "model/replicas.h"
#include "schedules/lower/lower.h"
#include "schedules/schedule.h"
#include "sim/graph/op_graph.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::experts_lower_test {
namespace {

Transformer mixture() {
  Transformer t = sample::llama(4, 512, 8, 4, 1024, 32'000);
  t.experts = 16;
  t.experts_per_token = 4;
  t.moe_ffn = 384;
  t.dense_layers = 1;
  return t;
}

Plan plan_of(int zero, bool overlapped) {
  Plan p = sample::plan(1, 2, 8, 4, 1, 256);
  p.kernels.flash_attention = true;
  p.ep = p.grid.ep = 4;
  p.zero = zero;
  p.overlap.dp_grad = overlapped;
  p.stages = even_stages(4, 2, 1);
  assign_layers(p.stages, mixture());
  return p;
}

struct Step {
  Transformer model = mixture();
  Plan plan;
  OpGraph graph;

  explicit Step(Plan p) : plan(std::move(p)) {
    ScheduleParams params{2, 1, 4, 0, {}};
    graph = lower(model, plan, generate_schedule(*find_schedule_family("1f1b"), params));
  }

  // Bytes of collectives of a role along an axis.
  int64_t bytes(size_t role, WorkKind kind, Axis axis) const {
    int64_t sum = 0;
    for (const Item& item : graph.roles[role].items) {
      if (item.kind != ItemKind::pass) continue;
      for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops) {
        const Work& w = graph.works[static_cast<size_t>(op.work)];
        if (w.kind == kind && w.axis == axis) sum += w.bytes.value;
      }
    }
    return sum;
  }
  int64_t held(size_t role, MemoryCategory category) const {
    int64_t sum = 0;
    for (const StaticMemory& m : graph.roles[role].memory)
      if (m.category == category) sum += m.bytes.value;
    return sum;
  }
  int64_t experts(size_t role) const { return expert_parameters(model, plan, plan.stages[role]); }
  int64_t dense(size_t role) const {
    return stage_parameters(model, plan, plan.stages[role]) - experts(role);
  }
};

// The pass of the first role's first action.
PassId first_forward(const OpGraph& graph) {
  for (const Item& item : graph.roles[0].items)
    if (item.kind == ItemKind::pass && item.has_action) return item.pass;
  return kNoPass;
}

class ExpertGradients : public ::testing::TestWithParam<bool> {};

TEST_P(ExpertGradients, AreSummedOverTheirOwnReplicas) {
  const Step step(plan_of(0, GetParam()));
  for (const size_t role : {0u, 1u}) {
    EXPECT_GT(step.experts(role), 0);
    EXPECT_EQ(step.bytes(role, WorkKind::all_reduce, Axis::edp), 4 * step.experts(role));
    EXPECT_EQ(step.bytes(role, WorkKind::all_reduce, Axis::dp), 4 * step.dense(role));
  }
}

TEST_P(ExpertGradients, AreScatteredAndParametersGatheredThere) {
  const Step step(plan_of(1, GetParam()));
  for (const size_t role : {0u, 1u}) {
    EXPECT_EQ(step.bytes(role, WorkKind::reduce_scatter, Axis::edp), 4 * step.experts(role));
    EXPECT_EQ(step.bytes(role, WorkKind::reduce_scatter, Axis::dp), 4 * step.dense(role));
    EXPECT_EQ(step.bytes(role, WorkKind::all_gather, Axis::edp), 2 * step.experts(role));
    EXPECT_EQ(step.bytes(role, WorkKind::all_gather, Axis::dp), 2 * step.dense(role));
  }
}

INSTANTIATE_TEST_SUITE_P(Overlap, ExpertGradients, ::testing::Bool());

// 2 bytes a parameter, 4 a gradient, and 12 of the optimizer over 8 replicas, or 2 of experts.
TEST(ExpertMemory, ShardsOptimizerStatesOverTheReplicasOfExperts) {
  const Step step(plan_of(1, false));
  for (const size_t role : {0u, 1u}) {
    const int64_t all = step.experts(role) + step.dense(role);
    EXPECT_EQ(step.held(role, MemoryCategory::parameters), 2 * all);
    EXPECT_EQ(step.held(role, MemoryCategory::gradients), 4 * all);
    EXPECT_EQ(step.held(role, MemoryCategory::optimizer_state),
              12 * (step.dense(role) / 8 + step.experts(role) / 2));
  }
}

TEST(ExpertMemory, WithoutReplicasNothingIsSharded) {
  Plan plan = plan_of(1, false);
  plan.ep = plan.grid.ep = 8;
  const Step step(plan);
  EXPECT_EQ(step.bytes(0, WorkKind::reduce_scatter, Axis::edp), 0);
  EXPECT_EQ(step.held(0, MemoryCategory::optimizer_state),
            12 * (step.dense(0) / 8 + step.experts(0)));
}

// Four tensor ranks hold all experts whole: these have four replicas, the rest has none.
Plan plan_of_tensor_ranks(int zero, bool overlapped) {
  Plan p = plan_of(zero, overlapped);
  p.tp = p.grid.tp = 4;
  p.dp = p.grid.dp = 1;
  p.ep = p.grid.ep = 1;
  p.sp = true;
  p.global_batch = 4;
  return p;
}

TEST_P(ExpertGradients, AreSummedWhereNothingElseHasReplicas) {
  const Step summed(plan_of_tensor_ranks(0, GetParam()));
  const Step scattered(plan_of_tensor_ranks(1, GetParam()));
  for (const size_t role : {0u, 1u}) {
    EXPECT_EQ(summed.bytes(role, WorkKind::all_reduce, Axis::edp), 4 * summed.experts(role));
    EXPECT_EQ(scattered.bytes(role, WorkKind::reduce_scatter, Axis::edp),
              4 * scattered.experts(role));
    EXPECT_EQ(scattered.bytes(role, WorkKind::reduce_scatter, Axis::dp), 0);
  }
}

TEST_P(ExpertGradients, AreReducedInEveryMicrobatchWhereNothingElseHasReplicas) {
  const Step step(plan_of_tensor_ranks(2, GetParam()));
  for (const size_t role : {0u, 1u}) {
    EXPECT_EQ(step.bytes(role, WorkKind::reduce_scatter, Axis::edp), 4 * 4 * step.experts(role));
    EXPECT_EQ(step.held(role, MemoryCategory::gradients),
              4 * (step.dense(role) + step.experts(role) / 4));
  }
}

// With stage 3 the dense parameters are cast from fp32 for each pass, whose unit they are part of.
TEST(ExpertMemory, ExpertsAreGatheredByUnitWhereNothingElseHasReplicas) {
  const Step step(plan_of_tensor_ranks(3, true));
  check_graph(step.graph);
  const std::vector<RoleMemory> memory = trace_memory(step.graph);
  for (const size_t role : {0u, 1u}) {
    // In the forward and the backward of each of four microbatches.
    EXPECT_EQ(step.bytes(role, WorkKind::all_gather, Axis::edp), 8 * 2 * step.experts(role));
    EXPECT_EQ(step.bytes(role, WorkKind::all_gather, Axis::dp), 0);
    EXPECT_EQ(step.held(role, MemoryCategory::parameters),
              4 * (step.dense(role) + step.experts(role) / 4));
    EXPECT_EQ(memory[role].start, memory[role].end);
  }
  int64_t casts = 0;
  for (const Op& op : step.graph.passes[static_cast<size_t>(first_forward(step.graph))].ops)
    if (step.graph.text(op.label) == "parameter cast")
      casts += step.graph.works[static_cast<size_t>(op.work)].bytes.value;
  EXPECT_EQ(casts, (4 + 2) * step.dense(0));
}

TEST(ExpertMemory, CopiesOfTheRestDoNotKeepExpertsFromTheirShards) {
  Plan plan = plan_of(3, true);
  plan.dp_replicate = plan.grid.replicas = 8;
  const Step step(plan);
  check_graph(step.graph);
  EXPECT_EQ(step.bytes(0, WorkKind::all_gather, Axis::edp), 8 * 2 * step.experts(0));
  EXPECT_EQ(step.held(0, MemoryCategory::parameters), 4 * (step.dense(0) + step.experts(0) / 2));
}

// Of experts with one replica a pass computes with 16-bit copies all the same.
TEST(ExpertMemory, ExpertsWithoutReplicasAreCastFromTheirShards) {
  Plan plan = plan_of(3, true);
  plan.ep = plan.grid.ep = 8;
  const Step step(plan);
  check_graph(step.graph);
  EXPECT_EQ(step.bytes(0, WorkKind::all_gather, Axis::edp), 0);
  int64_t casts = 0, units = 0;
  const Pass& pass = step.graph.passes[static_cast<size_t>(first_forward(step.graph))];
  for (const Op& op : pass.ops)
    if (step.graph.text(op.label) == "parameter cast")
      casts += step.graph.works[static_cast<size_t>(op.work)].bytes.value;
  for (const MemoryEvent& e : pass.memory) {
    const Tensor& tensor = step.graph.tensor(pass, e);
    if (e.allocate && tensor.category == MemoryCategory::parameters) units += tensor.bytes.value;
  }
  EXPECT_EQ(casts, (4 + 2) * step.experts(0));
  EXPECT_EQ(units, 2 * (step.experts(0) + step.dense(0)));
}

// What a rank keeps of its weights in fp8: two copies with a scale for 128 values, 16 bits of what
// is in no linear layer.
class LowWeightsOfExperts : public ::testing::TestWithParam<bool> {};

TEST_P(LowWeightsOfExperts, ReplaceThoseInSixteenBits) {
  Plan plan = plan_of(GetParam() ? 3 : 1, GetParam());
  plan.sharding.reshard_after_forward = false;
  plan.precision.scaling = Scaling::blockwise;
  plan.precision.low_params = true;
  const Step step(plan);
  for (const size_t role : {0u, 1u}) {
    // Layers' weights but for norms and the router.
    const int64_t attention = 512 * (512 + 2 * 4 * 64) + 512 * 512;
    const int64_t dense_layers = role == 0 ? 1 : 0;
    const int64_t low = 2 * attention + dense_layers * 3 * 512 * 1024 + step.experts(role);
    const int64_t all = step.dense(role) + step.experts(role);
    const int64_t shards = step.dense(role) / 8 + step.experts(role) / 2;
    EXPECT_EQ(step.held(role, MemoryCategory::parameters),
              2 * (all - low) + 2 * low + 2 * low / 128 * 4 + (GetParam() ? 4 * shards : 0));
  }
}

INSTANTIATE_TEST_SUITE_P(KeptGathered, LowWeightsOfExperts, ::testing::Bool());

TEST(ExpertMemory, ATeacherKeepsItsSixteenBits) {
  const auto held = [](bool low, bool teacher) {
    Plan plan = plan_of(1, false);
    plan.precision.scaling = Scaling::blockwise;
    plan.precision.low_params = low;
    if (teacher) {
      plan.teacher = mixture();
      plan.teacher_stages = plan.stages;
    }
    return Step(plan).held(0, MemoryCategory::parameters);
  };
  EXPECT_EQ(held(false, true) - held(true, true), held(false, false) - held(true, false));
}

}  // namespace
}  // namespace stepcast::experts_lower_test
