// SPDX-License-Identifier: Apache-2.0
// GEMMs of linear layers in 8 and 4 bits: what runs in them, what is launched and kept beside.
#include "model/low_precision.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/passes/stage_passes.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::low_precision_test {
namespace {

constexpr int64_t kSeq = 512;
constexpr int64_t kHidden = 256;
constexpr int64_t kFfn = 768;
constexpr StageContent kMiddle{.layers = 2};
constexpr StageContent kWhole{.layers = 2, .embedding = true, .head = true};

constexpr Scaling kAll[] = {Scaling::delayed, Scaling::tensorwise, Scaling::blockwise,
                            Scaling::mxfp8,   Scaling::nvfp4,      Scaling::int8};

Transformer llama() {
  return sample::llama(2, kHidden, 8, 4, kFfn, 32000);
}

Plan plan_of(Scaling scaling, int64_t tp = 1, bool transposes = true) {
  Plan plan = sample::plan(tp, 1, 1, 1, 1, kSeq);
  plan.kernels.flash_attention = true;
  plan.precision.scaling = scaling;
  plan.precision.low_transposes = transposes;
  return plan;
}

struct Passes {
  OpGraph graph;
  StagePasses passes;

  Passes(const Transformer& model, const Plan& plan, const StageContent& content,
         const PassChoice& choice = {}) {
    GraphBuilder builder(graph);
    passes = add_stage_passes(builder, model, plan, content, choice);
  }

  const Pass& pass(PassId id) const { return graph.passes[static_cast<size_t>(id)]; }
  const Work& work(const Op& op) const { return graph.works[static_cast<size_t>(op.work)]; }

  template <class Choose>
  int64_t count(PassId id, const Choose& choose) const {
    int64_t n = 0;
    for (const Op& op : pass(id).ops) n += choose(work(op)) ? 1 : 0;
    return n;
  }
  int64_t casts(PassId id) const {
    return count(id, [](const Work& w) { return w.kernel == Kernel::quantize; });
  }
  int64_t gemms(PassId id, DType dtype) const {
    return count(id, [&](const Work& w) { return w.kind == WorkKind::gemm && w.dtype == dtype; });
  }
  Bytes moved(PassId id, WorkKind kind) const {
    Bytes sum{};
    for (const Op& op : pass(id).ops) {
      if (work(op).kind == kind) sum += work(op).bytes;
    }
    return sum;
  }
  // What a forward leaves behind.
  Bytes kept() const {
    Bytes sum{};
    for (const MemoryEvent& e : pass(passes.forward).memory) {
      const Bytes bytes = graph.tensor(pass(passes.forward), e).bytes;
      sum += e.allocate ? bytes : -bytes;
    }
    return sum;
  }

  // One role that does these; check_graph sees that each tensor is allocated and freed in turn.
  void check(const std::vector<PassId>& order, const std::vector<ActionKind>& kinds) {
    graph.roles.assign(1, {});
    for (size_t i = 0; i < order.size(); ++i) {
      Item item;
      item.pass = order[i];
      item.has_action = true;
      item.action = {kinds[i], 0, 0};
      graph.roles[0].items.push_back(item);
    }
    check_graph(graph);
    const RoleMemory memory = trace_memory(graph).front();
    EXPECT_EQ(memory.end, memory.start);
  }
};

TEST(LowPrecision, RunsTheGemmsOfLinearLayersAndNoOthers) {
  for (const Scaling scaling : kAll) {
    const Plan plan = plan_of(scaling);
    const DType low = low_format(plan.precision).dtype;
    const Passes p(llama(), plan, kWhole);
    EXPECT_EQ(p.gemms(p.passes.forward, low), 2 * 4);
    EXPECT_EQ(p.gemms(p.passes.backward, low), 2 * 8);
    EXPECT_EQ(p.gemms(p.passes.forward, DType::bf16), 1);   // the head
    EXPECT_EQ(p.gemms(p.passes.backward, DType::bf16), 2);  // ... its two gradients
    EXPECT_EQ(p.count(p.passes.forward,
                      [](const Work& w) {
                        return w.kind == WorkKind::attention_forward && w.dtype == DType::bf16;
                      }),
              2);
  }
}

TEST(LowPrecision, LayersAtTheEndsCanStayWide) {
  std::vector<StageContent> stages = even_stages(2, 1, 1);
  Plan plan = plan_of(Scaling::mxfp8);
  plan.precision.wide_first_layers = 1;
  assign_wide_layers(stages, llama(), plan.precision);
  const Passes p(llama(), plan, stages.front());
  EXPECT_EQ(p.gemms(p.passes.forward, DType::fp8), 4);
  EXPECT_EQ(p.gemms(p.passes.forward, DType::bf16), 4 + 1);
}

// Kernels of conversion in one layer with four linear layers (Transformer Engine 2.x:
// quantizer.cpp, cast.cpp, normalization.cpp, gemm.cpp).
struct Launches {
  const char* name;
  Scaling scaling;
  bool transposes;
  int64_t forward, backward;
};

class CastsOfALayer : public ::testing::TestWithParam<Launches> {};

TEST_P(CastsOfALayer, AreThoseOfTheRecipe) {
  const Launches& row = GetParam();
  const Passes p(llama(), plan_of(row.scaling, 1, row.transposes), {.layers = 1});
  // Delayed scaling updates its scales once a pass.
  const int64_t update = row.scaling == Scaling::delayed ? 1 : 0;
  EXPECT_EQ(p.casts(p.passes.forward), row.forward + update);
  EXPECT_EQ(p.casts(p.passes.backward), row.backward + update);
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, CastsOfALayer,
    ::testing::Values(
        // Norms write fp8; their transposes, and casts of the inputs of projection and fc2.
        Launches{"delayed_hopper", Scaling::delayed, true, 2 + 2, 4},
        Launches{"delayed_blackwell", Scaling::delayed, false, 2, 4},
        // Maximum, scale, cast of each.
        Launches{"tensorwise_hopper", Scaling::tensorwise, true, 3 * 4, 3 * 4},
        Launches{"tensorwise_blackwell", Scaling::tensorwise, false, 3 * 4, 3 * 4},
        Launches{"blockwise", Scaling::blockwise, true, 4, 4},
        // One cast each, and the scales of two operands for each GEMM.
        Launches{"mxfp8", Scaling::mxfp8, false, 4 + 2 * 4, 4 + 2 * 8},
        // Maximum, scale, a cast along rows and one along columns.
        Launches{"nvfp4", Scaling::nvfp4, false, 4 * 4 + 2 * 4, 4 * 4 + 2 * 8},
        Launches{"int8", Scaling::int8, true, 2 * 4, 2 * 4}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(LowPrecision, ACastReadsSixteenBitsAndWritesCopiesWithTheirScales) {
  constexpr int64_t n = 128 * 1024;
  const auto bytes = [&](Scaling scaling, bool transposes) {
    const LowFormat f = low_format(plan_of(scaling, 1, transposes).precision);
    return quantize_bytes(f, n, DType::bf16, f.two_copies ? 2 : 1);
  };
  EXPECT_EQ(bytes(Scaling::delayed, false), Bytes{3 * n});
  EXPECT_EQ(bytes(Scaling::delayed, true), Bytes{4 * n});
  EXPECT_EQ(bytes(Scaling::mxfp8, false), Bytes{4 * n + 2 * n / 32});
  EXPECT_EQ(bytes(Scaling::blockwise, true), Bytes{4 * n + 2 * n / 128 * 4});
  EXPECT_EQ(bytes(Scaling::nvfp4, false), Bytes{2 * n + n + 2 * n / 16});
}

// The inputs of linear layers are kept in one byte a value instead of two; fused attention keeps
// its output in two as well.
TEST(LowPrecision, KeepsTheInputsOfLinearLayersInEightBits) {
  const Passes wide(llama(), plan_of(Scaling::none), kMiddle);
  for (const bool transposes : {true, false}) {
    const Passes low(llama(), plan_of(Scaling::tensorwise, 1, transposes), kMiddle);
    const int64_t saved = kHidden + kHidden + kFfn - kHidden;  // both norms, activation; context
    EXPECT_EQ(wide.kept() - low.kept(), Bytes{2 * kSeq * saved});
    const Passes delayed(llama(), plan_of(Scaling::delayed, 1, transposes), kMiddle);
    EXPECT_EQ(delayed.kept(), low.kept());
  }
  Plan unfused = plan_of(Scaling::none);
  unfused.kernels.flash_attention = false;
  const Passes wide_unfused(llama(), unfused, kMiddle);
  unfused.precision.scaling = Scaling::delayed;
  const Passes low_unfused(llama(), unfused, kMiddle);
  EXPECT_EQ(wide_unfused.kept() - low_unfused.kept(), Bytes{2 * kSeq * (3 * kHidden + kFfn)});
}

// By default as computed, and quantized for the projection: 2 + 1 bytes a value.
TEST(LowPrecision, TheOutputOfAttentionCanBeKeptOnce) {
  const int64_t values = kSeq * kHidden, scales = values / 128 * 4;
  Plan plan = plan_of(Scaling::blockwise);
  const Passes usual(llama(), plan, {.layers = 1});
  const auto saved = [&](KeptFormat format) {
    plan.precision.attention_output = format;
    Passes p(llama(), plan, {.layers = 1}, {.split = true});
    const StagePasses& s = p.passes;
    p.check({s.forward, s.backward}, {ActionKind::forward, ActionKind::backward});
    p.check({s.forward, s.input_gradient, s.weight_gradient},
            {ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight});
    return (usual.kept() - p.kept()).value;
  };
  EXPECT_EQ(saved(KeptFormat::params), values + scales);
  EXPECT_EQ(saved(KeptFormat::fp8), 2 * values);
  EXPECT_EQ(saved(KeptFormat::e5m6), 2 * values - values / 2);
}

TEST(LowPrecision, FullRecomputationKeepsTheInputAloneAndCastsForTheProductOnly) {
  Plan plan = plan_of(Scaling::mxfp8);
  plan.recompute = Recompute::full;
  const Passes p(llama(), plan, kMiddle);
  EXPECT_EQ(p.kept(), Bytes{2 * kSeq * kHidden * 2});
  const LowFormat f = low_format(plan.precision);
  const Bytes one_copy = quantize_bytes(f, kSeq * kHidden, DType::bf16, 1);
  EXPECT_GT(p.count(p.passes.forward, [&](const Work& w) { return w.bytes == one_copy; }), 0);
}

// Sequence parallelism: two gathers a layer forward; backward those two again and those of the
// gradients of projection and fc2.
TEST(LowPrecision, GathersMoveTheFormatAndSumsDoNot) {
  const Passes wide(llama(), plan_of(Scaling::none, 4), kMiddle);
  const Passes low(llama(), plan_of(Scaling::tensorwise, 4), kMiddle);
  const Bytes full{kSeq * kHidden * 2};
  EXPECT_EQ(wide.moved(wide.passes.forward, WorkKind::all_gather), full * 4);
  EXPECT_EQ(low.moved(low.passes.forward, WorkKind::all_gather), full * 2);
  EXPECT_EQ(low.moved(low.passes.backward, WorkKind::all_gather), full * 4);
  EXPECT_EQ(low.moved(low.passes.forward, WorkKind::reduce_scatter),
            wide.moved(wide.passes.forward, WorkKind::reduce_scatter));
  // Scales for blocks along rows: gradients are gathered in both copies.
  const Passes blocks(llama(), plan_of(Scaling::blockwise, 4), kMiddle);
  const Bytes copy = low_format(plan_of(Scaling::blockwise).precision).bytes(kSeq * kHidden);
  EXPECT_EQ(blocks.moved(blocks.passes.forward, WorkKind::all_gather), copy * 4);
  EXPECT_EQ(blocks.moved(blocks.passes.backward, WorkKind::all_gather), copy * (4 + 8));
}

TEST(LowPrecision, BIsIAndWAndMemoryReturnsToItsStart) {
  for (const Scaling scaling : kAll) {
    for (int bits = 0; bits < 32; ++bits) {
      Plan plan = plan_of(scaling, (bits & 1) != 0 ? 4 : 1, (bits & 2) != 0);
      plan.sp = (bits & 4) != 0 && plan.tp > 1;
      plan.kernels.flash_attention = (bits & 8) != 0;
      plan.recompute = (bits & 16) != 0 ? Recompute::selective : Recompute::none;
      const Transformer model = (bits & 2) != 0 ? llama() : sample::gpt(2, 256, 8, 51200, kSeq);
      Passes p(model, plan, kWhole, {.split = true});
      const StagePasses& s = p.passes;
      EXPECT_EQ(p.pass(s.backward).ops.size(),
                p.pass(s.input_gradient).ops.size() + p.pass(s.weight_gradient).ops.size());
      p.check({s.forward, s.backward}, {ActionKind::forward, ActionKind::backward});
      p.check({s.forward, s.input_gradient, s.weight_gradient},
              {ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight});
    }
  }
}

TEST(LowPrecision, ExpertsHaveItTooAndTheirRouterNot) {
  Transformer model = llama();
  model.experts = 4;
  model.experts_per_token = 2;
  model.moe_ffn = 512;
  model.shared_ffn = 256;
  model.shared_gate = true;
  for (const Scaling scaling : kAll) {
    const Plan plan = plan_of(scaling);
    const DType low = low_format(plan.precision).dtype;
    Passes p(model, plan, {.layers = 2, .kinds = {layer_kind(model, 0), layer_kind(model, 1)}},
             {.split = true});
    const auto grouped = [&](PassId id) {
      return p.count(
          id, [&](const Work& w) { return w.kind == WorkKind::grouped_gemm && w.dtype == low; });
    };
    EXPECT_EQ(grouped(p.passes.forward), 2 * 2);
    EXPECT_EQ(grouped(p.passes.backward), 2 * 4);
    EXPECT_EQ(p.gemms(p.passes.forward, low), 2 * 4);          // attention, shared experts
    EXPECT_EQ(p.gemms(p.passes.forward, DType::bf16), 2 * 2);  // router, gate
    EXPECT_EQ(p.gemms(p.passes.backward, DType::bf16), 2 * 4);
    const StagePasses& s = p.passes;
    p.check({s.forward, s.backward}, {ActionKind::forward, ActionKind::backward});
    p.check({s.forward, s.input_gradient, s.weight_gradient},
            {ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight});
  }
}

TEST(LowPrecision, WeightsAreThoseOfTheLinearLayers) {
  const Plan plan = plan_of(Scaling::tensorwise);
  const Passes p(llama(), plan, kWhole);
  int64_t sum = 0;
  for (const int64_t values : low_weights(p.graph, p.passes.forward)) sum += values;
  const int64_t qkv = kHidden * (kHidden + 2 * kHidden / 2);
  EXPECT_EQ(sum, 2 * (qkv + kHidden * kHidden + 3 * kHidden * kFfn));
}

TEST(LowPrecision, KeptWeightsNeedATransposeAtMost) {
  for (const bool transposes : {true, false}) {
    Plan plan = plan_of(Scaling::tensorwise, 1, transposes);
    const Transformer model = llama();
    const Shard shard(model, plan);
    EXPECT_EQ(weight_casts(shard, 1024).size(), 3U);
    plan.precision.low_params = true;
    EXPECT_EQ(weight_casts(shard, 1024).size(), transposes ? 1U : 0U);
  }
}

}  // namespace
}  // namespace stepcast::low_precision_test
