// SPDX-License-Identifier: Apache-2.0
// A step with experts: whose gradients are summed where, and what each rank holds.
#include <gtest/gtest.h>

#include <map>

#include "model/layer_ops.h"
#include "model/replicas.h"
#include "schedules/lower.h"
#include "schedules/schedule.h"
#include "sim/op_graph.h"
#include "tests/model/sample.h"

namespace stepcast {
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

class ExpertGradients : public testing::TestWithParam<bool> {};

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

INSTANTIATE_TEST_SUITE_P(Overlap, ExpertGradients, testing::Bool());

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

}  // namespace
}  // namespace stepcast
