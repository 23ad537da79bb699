// SPDX-License-Identifier: Apache-2.0
// The op inventory against the closed forms of the literature.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "model/passes/stage_passes.h"
#include "sim/memory/memory.h"
#include "tests/hand_graph.h"
#include "tests/model/sample.h"

namespace stepcast::stage_passes_test {
namespace {

// A step of one stage: forward and backward of one microbatch.
struct OneStage {
  OpGraph graph;
  StagePasses passes;

  OneStage(const Transformer& model, const Plan& plan, const StageContent& content) {
    GraphBuilder builder(graph);
    passes = add_stage_passes(builder, model, plan, content);
    RoleOps role;
    for (const auto& [pass, kind] : {std::pair{passes.forward, ActionKind::forward},
                                     std::pair{passes.last_backward, ActionKind::backward}}) {
      Item item;
      item.pass = pass;
      item.has_action = true;
      item.action.kind = kind;
      role.items.push_back(item);
    }
    graph.roles.push_back(role);
    check_graph(graph);
  }

  // Bytes that the forward leaves behind, by a choice of labels.
  double kept(const std::function<bool(const std::string&)>& count) const {
    const Pass& pass = graph.passes[static_cast<size_t>(passes.forward)];
    double sum = 0;
    for (const MemoryEvent& e : pass.memory) {
      const Tensor& t = graph.tensor_tables[static_cast<size_t>(pass.tensors)][e.tensor];
      if (!count(graph.text(t.label))) continue;
      sum += static_cast<double>((e.allocate ? t.bytes : -t.bytes).value);
    }
    return sum;
  }
  double kept_without_statistics() const {
    return kept([](const std::string& label) { return label != "norm statistics"; });
  }

  double flops(PassId id) const {
    double sum = 0;
    for (const Op& op : graph.passes[static_cast<size_t>(id)].ops) {
      sum += graph.works[static_cast<size_t>(op.work)].flops.value;
    }
    return sum;
  }
};

constexpr int64_t kSeq = 2048;
constexpr int64_t kHidden = 6144;
constexpr int64_t kHeads = 64;
constexpr int64_t kMicro = 4;
constexpr double kSbh = 1.0 * kSeq * kMicro * kHidden;
constexpr double kScores = 5.0 * kHeads * kSeq / kHidden;  // 5as/h

Transformer gpt22b() {
  return sample::gpt(48, kHidden, kHeads, 51200, kSeq);
}

// Korthikanti et al. 2022, eq. 1-6 and Table 2: bytes of activations per layer.
struct ActivationCase {
  const char* name;
  int64_t tp;
  bool sp;
  Recompute recompute;
  double coefficient;  // of s b h
};

class ActivationsOfALayer : public ::testing::TestWithParam<ActivationCase> {};

TEST_P(ActivationsOfALayer, EqualTheClosedForm) {
  const ActivationCase& c = GetParam();
  Plan plan = sample::plan(c.tp, 1, 1, 1, kMicro, kSeq);
  plan.sp = c.sp;
  plan.recompute = c.recompute;
  const OneStage one(gpt22b(), plan, {.layers = 1});
  const OneStage three(gpt22b(), plan, {.layers = 3});
  EXPECT_EQ(one.kept_without_statistics(), std::round(c.coefficient * kSbh));
  EXPECT_EQ(three.kept_without_statistics(), 3 * std::round(c.coefficient * kSbh));
}

INSTANTIATE_TEST_SUITE_P(
    Korthikanti2022, ActivationsOfALayer,
    ::testing::Values(
        ActivationCase{"no_parallelism", 1, false, Recompute::none, 34 + kScores},
        ActivationCase{"tensor", 8, false, Recompute::none, 10 + 24.0 / 8 + kScores / 8},
        ActivationCase{"tensor_and_sequence", 8, true, Recompute::none, 34.0 / 8 + kScores / 8},
        ActivationCase{"selective", 8, true, Recompute::selective, 34.0 / 8},
        ActivationCase{"selective_without_sequence", 8, false, Recompute::selective, 10 + 24.0 / 8},
        ActivationCase{"full", 8, false, Recompute::full, 2}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(LayerOps, FlashAttentionKeepsNoScores) {
  Plan plan = sample::plan(1, 1, 1, 1, kMicro, kSeq);
  plan.kernels.flash_attention = true;
  const OneStage stage(gpt22b(), plan, {.layers = 1});
  const double log_sum_exp = 4.0 * kSeq * kMicro * kHeads;
  EXPECT_EQ(stage.kept_without_statistics(), 34 * kSbh + log_sum_exp);
}

TEST(LayerOps, WithoutDropoutTheMasksAreGone) {
  Transformer model = gpt22b();
  model.attention_dropout = model.hidden_dropout = 0;
  const Plan plan = sample::plan(1, 1, 1, 1, kMicro, kSeq);
  const OneStage stage(model, plan, {.layers = 1});
  // Two masks of 1 byte per value less; of 5as/h the softmax output (2) alone stays.
  EXPECT_EQ(stage.kept_without_statistics(), (32 + kScores * 2 / 5) * kSbh);
}

TEST(LayerOps, UniformRecomputationKeepsOneInputForEachUnit) {
  Plan plan = sample::plan(8, 1, 1, 1, kMicro, kSeq);
  plan.sp = false;
  plan.recompute = Recompute::full;
  plan.recompute_layers = 2;
  EXPECT_EQ(OneStage(gpt22b(), plan, {.layers = 6}).kept_without_statistics(), 3 * 2 * kSbh);
}

TEST(LayerOps, BlockRecomputationLeavesTheOtherLayersAlone) {
  Plan plan = sample::plan(8, 1, 1, 1, kMicro, kSeq);
  plan.recompute = Recompute::full;
  plan.recompute_method = RecomputeMethod::block;
  plan.recompute_layers = 1;
  const double ordinary = (34.0 / 8 + kScores / 8) * kSbh;
  EXPECT_EQ(OneStage(gpt22b(), plan, {.layers = 3}).kept_without_statistics(),
            2.0 / 8 * kSbh + 2 * std::round(ordinary));
}

// 72 B s L h^2 (1 + s/6h + V/12Lh): Korthikanti et al. 2022, eq. 7; a third of it forward.
TEST(LayerOps, FlopsOfAStageEqualTheClosedForm) {
  const Transformer model = gpt22b();
  const Plan plan = sample::plan(1, 1, 1, 1, kMicro, kSeq);
  const OneStage stage(model, plan, {.layers = 48, .embedding = true, .head = true});
  const double h = kHidden;
  const double s = kSeq;
  const double step = 72 * kMicro * s * 48 * h * h * (1 + s / (6 * h) + 51200 / (12.0 * 48 * h));
  EXPECT_DOUBLE_EQ(stage.flops(stage.passes.forward), step / 3);
  EXPECT_DOUBLE_EQ(stage.flops(stage.passes.backward), step * 2 / 3);
}

// 96 B s L h^2 (1 + s/6h + V/16Lh): Narayanan et al. 2021, eq. 3.
TEST(LayerOps, FlopsWithFullRecomputationEqualTheClosedForm) {
  Plan plan = sample::plan(1, 1, 1, 1, kMicro, kSeq);
  plan.recompute = Recompute::full;
  const OneStage stage(gpt22b(), plan, {.layers = 48, .embedding = true, .head = true});
  const double h = kHidden;
  const double s = kSeq;
  const double step = 96 * kMicro * s * 48 * h * h * (1 + s / (6 * h) + 51200 / (16.0 * 48 * h));
  EXPECT_DOUBLE_EQ(stage.flops(stage.passes.forward) + stage.flops(stage.passes.backward), step);
}

TEST(LayerOps, ParametersOfTheStagesSumToTheModel) {
  const Transformer gpt = gpt22b();
  const Transformer llama = sample::llama(32, 4096, 32, 8, 14336, 128256);
  for (const Transformer& model : {gpt, llama}) {
    const Plan plan = sample::plan(1, 1, 1, 1, 1, kSeq);
    EXPECT_EQ(stage_parameters(model, plan, {model.layers, true, true}), parameters(model));
    const int64_t split = stage_parameters(model, plan, {model.layers / 2, true, false}) +
                          stage_parameters(model, plan, {model.layers / 2, false, true});
    const int64_t second_embedding = model.tied ? model.vocab * model.hidden : 0;
    EXPECT_EQ(split, parameters(model) + second_embedding);
  }
}

TEST(LayerOps, TensorParallelCollectivesOfALayer) {
  const auto count = [](const OneStage& stage, PassId id, WorkKind kind) {
    int n = 0;
    for (const Op& op : stage.graph.passes[static_cast<size_t>(id)].ops) {
      n += stage.graph.works[static_cast<size_t>(op.work)].kind == kind;
    }
    return n;
  };
  Plan plan = sample::plan(8, 1, 1, 1, kMicro, kSeq);
  const OneStage with_sp(gpt22b(), plan, {.layers = 1});
  EXPECT_EQ(count(with_sp, with_sp.passes.forward, WorkKind::all_gather), 2);
  EXPECT_EQ(count(with_sp, with_sp.passes.forward, WorkKind::reduce_scatter), 2);
  // Backward: two gathers of gradients, two of the saved inputs (Korthikanti 2022, section 4.2.2).
  EXPECT_EQ(count(with_sp, with_sp.passes.backward, WorkKind::all_gather), 4);
  EXPECT_EQ(count(with_sp, with_sp.passes.backward, WorkKind::reduce_scatter), 2);
  plan.sp = false;
  const OneStage without(gpt22b(), plan, {.layers = 1});
  EXPECT_EQ(count(without, without.passes.forward, WorkKind::all_reduce), 2);
  EXPECT_EQ(count(without, without.passes.backward, WorkKind::all_reduce), 2);
  EXPECT_EQ(count(without, without.passes.backward, WorkKind::all_gather), 0);
}

TEST(LayerOps, InputAndWeightGradientsShareTheBackwardEvenly) {
  const Plan plan = sample::plan(1, 1, 1, 1, 1, kSeq);
  const OneStage stage(sample::llama(4, 4096, 32, 8, 14336, 128256), plan, {.layers = 4});
  double input = 0;
  double weight = 0;
  for (const Op& op : stage.graph.passes[static_cast<size_t>(stage.passes.backward)].ops) {
    const Work& work = stage.graph.works[static_cast<size_t>(op.work)];
    if (work.kind != WorkKind::gemm || work.heads > 0) continue;
    (op.phase == Phase::backward_weight ? weight : input) += work.flops.value;
  }
  EXPECT_DOUBLE_EQ(input, weight);
}

TEST(LayerOps, EveryConfigurationBalancesItsMemory) {
  for (const bool flash : {false, true}) {
    for (const bool sp : {false, true}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const bool gated : {false, true}) {
          Transformer model = gated ? sample::llama(4, 1024, 16, 4, 4096, 32000) : gpt22b();
          model.qk_norm = gated;
          Plan plan = sample::plan(4, 1, 2, 1, 1, 512);
          plan.sp = sp;
          plan.recompute = recompute;
          plan.kernels.flash_attention = flash;
          plan.overlap.dp_grad = true;
          // The constructor checks that each tensor is freed once, by the pass that should.
          const OneStage stage(model, plan, {.layers = 3, .embedding = true, .head = true});
          const RoleMemory memory = trace_memory(stage.graph).front();
          EXPECT_EQ(memory.end, memory.start);
          EXPECT_GT(memory.peak, memory.start);
        }
      }
    }
  }
}

TEST(LayerOps, OverlappedReductionCoversEveryGradientOnce) {
  const Transformer model = sample::llama(4, 4096, 32, 8, 14336, 128256);
  Plan plan = sample::plan(2, 1, 4, 1, 1, 4096);
  plan.overlap.dp_grad = true;
  plan.zero = 1;
  const StageContent content{.layers = 4, .embedding = true, .head = true};
  const OneStage stage(model, plan, content);
  int64_t reduced = 0;
  int buckets = 0;
  for (const Op& op : stage.graph.passes[static_cast<size_t>(stage.passes.last_backward)].ops) {
    const Work& work = stage.graph.works[static_cast<size_t>(op.work)];
    if (work.axis != Axis::dp) continue;
    EXPECT_EQ(work.kind, WorkKind::reduce_scatter);
    reduced += work.bytes.value;
    ++buckets;
  }
  EXPECT_EQ(reduced, 4 * stage_parameters(model, plan, content));
  EXPECT_GT(buckets, 1);
}

// Into the buckets of DistributedDataParallel and out of them, 2 bytes read and written each time.
TEST(LayerOps, OwnGradientsThatAreAddedLaterAreCopiedThroughBuckets) {
  const Transformer model = sample::llama(4, 4096, 32, 8, 14336, 128256);
  Plan plan = sample::plan(2, 1, 4, 1, 1, 4096);
  plan.overlap.dp_grad = true;
  plan.kernels.gradient_accumulation_fusion = false;
  plan.precision.product_gradients = ProductGradients::backward;
  const StageContent content{.layers = 4, .embedding = true, .head = true};
  const auto copied = [&](bool own) {
    plan.precision.own_gradients = own;
    const OneStage stage(model, plan, content);
    int64_t bytes = 0;
    for (const Op& op : stage.graph.passes[static_cast<size_t>(stage.passes.last_backward)].ops) {
      const Work& work = stage.graph.works[static_cast<size_t>(op.work)];
      if (work.kind == WorkKind::memory_bound && work.kernel == Kernel::copy)
        bytes += work.bytes.value;
    }
    return bytes;
  };
  EXPECT_EQ(copied(true) - copied(false), 2 * 4 * stage_parameters(model, plan, content));
}

TEST(LayerOps, ATiedEmbeddingOnOneStageIsReducedOnce) {
  const Transformer model = gpt22b();  // tied
  Plan plan = sample::plan(1, 1, 8, 1, 1, kSeq);
  plan.overlap.dp_grad = true;
  const StageContent content{.layers = 2, .embedding = true, .head = true};
  const OneStage stage(model, plan, content);
  int64_t reduced = 0;
  for (const Op& op : stage.graph.passes[static_cast<size_t>(stage.passes.last_backward)].ops) {
    const Work& work = stage.graph.works[static_cast<size_t>(op.work)];
    if (work.axis == Axis::dp) reduced += work.bytes.value;
  }
  EXPECT_EQ(reduced, 4 * stage_parameters(model, plan, content));
}

TEST(LayerOps, Fp32LogitsAreNotConverted) {
  Plan plan = sample::plan(1, 1, 1, 1, 1, kSeq);
  plan.precision.params = DType::fp32;
  const OneStage stage(gpt22b(), plan, {.layers = 1, .head = true});
  for (const Work& work : stage.graph.works) EXPECT_NE(work.kernel, Kernel::cast);
}

// -------------------------------------------------------------------------------------------------
constexpr Stream kCompute = Stream::compute;
constexpr Stream kEp = Stream::ep;

PassId pair_of(HandGraph& g, PassId forward, PassId backward) {
  GraphBuilder builder(g.graph);
  return add_pair_pass(builder, forward, backward);
}

void run_pair(HandGraph& g, uint32_t role, PassId pair, const Action& first, const Action& second) {
  g.run(role, pair, first);
  g.graph.roles[role].items.back().has_second = true;
  g.graph.roles[role].items.back().second = second;
}

// A layer of experts: attention, dispatch, experts, combine; and the way back.
struct Experts {
  HandGraph g;
  PassId forward = g.pass({{10, kCompute}, {8, kEp}, {11, kCompute}, {8, kEp}},
                          {{.op = 1, .on = 0}, {.op = 2, .on = 1}, {.op = 3, .on = 2}});
  PassId backward = g.pass({{9, kEp}, {20, kCompute}, {9, kEp}, {21, kCompute}},
                           {{.op = 1, .on = 0}, {.op = 2, .on = 1}, {.op = 3, .on = 2}});
};

TEST(PairPass, TheExchangesOfOneRunBesideTheComputeOfTheOther) {
  Experts e;
  const PassId pair = pair_of(e.g, e.forward, e.backward);
  const uint32_t role = e.g.role();
  run_pair(e.g, role, pair, forward_of(0, 1), backward_of(0, 0));
  const Timeline t = e.g.timeline();
  // communication: combine backward | dispatch, dispatch backward | combine
  // compute:       attention | experts backward, experts | attention backward
  const std::vector<Time> starts{Time{0},  Time{0},  Time{10}, Time{10},
                                 Time{30}, Time{30}, Time{41}, Time{41}};
  EXPECT_EQ(t.roles[role].op_start, starts);
  EXPECT_EQ(t.makespan, Time{10 + 20 + 11 + 21});
}

TEST(PairPass, OneAfterTheOtherTheSameTakesLonger) {
  Experts e;
  const uint32_t role = e.g.role();
  e.g.run(role, e.forward, forward_of(0, 1));
  e.g.run(role, e.backward, backward_of(0, 0));
  EXPECT_GT(e.g.timeline().makespan, Time{10 + 20 + 11 + 21});
}

TEST(PairPass, WithoutExchangesTheForwardGoesFirst) {
  HandGraph g;
  const PassId forward = g.pass({{1}, {2, Stream::tp}, {3}}, {{.op = 2, .on = 1}});
  const PassId backward = g.pass({{4}, {5, Stream::tp}}, {{.op = 1, .on = 0}});
  const PassId pair = pair_of(g, forward, backward);
  const Pass& pass = g.graph.passes[static_cast<size_t>(pair)];
  std::vector<int64_t> prices;
  for (const Op& op : pass.ops) {
    prices.push_back(g.prices.by_work[static_cast<size_t>(op.work)].time.count());
  }
  EXPECT_EQ(prices, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  ASSERT_EQ(pass.waits.all().size(), 2U);
  EXPECT_EQ(pass.waits.all()[0].op, 2U);
  EXPECT_EQ(pass.waits.all()[1].op, 4U);
  EXPECT_EQ(pass.waits.all()[1].on, 3U);
}

TEST(PairPass, OneSideMayHaveMoreExchangesThanTheOther) {
  HandGraph g;
  const PassId forward = g.pass({{1}, {1}});
  const PassId backward = g.pass({{1, kEp}, {1}, {1, kEp}, {1}});
  const PassId pair = pair_of(g, forward, backward);
  std::vector<Stream> streams;
  for (const Op& op : g.graph.passes[static_cast<size_t>(pair)].ops) streams.push_back(op.stream);
  EXPECT_EQ(streams, (std::vector<Stream>{kEp, kCompute, kCompute, kCompute, kEp, kCompute}));
}

// A dense stage with both kinds of backward beside the forward of the next microbatch.
TEST(PairPass, KeepsTheMemoryOfTheTwoMicrobatchesApart) {
  HandGraph g;
  GraphBuilder builder(g.graph);
  const Transformer model = sample::gpt(2, 256, 8, 51200, 256);
  const Plan plan = sample::plan(1, 1, 1, 1, 1, 256);
  const PassChoice split{.split = true};
  const StagePasses lower = add_stage_passes(builder, model, plan, {1, true, false}, split);
  const StagePasses upper = add_stage_passes(builder, model, plan, {1, false, true}, split);
  const PassId same = add_pair_pass(builder, lower.forward, lower.backward);
  const PassId mixed = add_pair_pass(builder, lower.forward, upper.input_gradient);
  const uint32_t role = g.role();
  g.run(role, lower.forward, forward_of(0, 0));
  g.run(role, upper.forward, forward_of(1, 0));
  run_pair(g, role, mixed, forward_of(0, 1), {ActionKind::backward_input, 1, 0});
  g.run(role, upper.weight_gradient, Action{ActionKind::backward_weight, 1, 0});
  run_pair(g, role, same, forward_of(0, 2), backward_of(0, 0));
  g.run(role, lower.backward, backward_of(0, 1));
  g.run(role, lower.backward, backward_of(0, 2));
  check_graph(g.graph);
  const RoleMemory memory = trace_memory(g.graph).front();
  EXPECT_EQ(memory.end, memory.start);
  EXPECT_EQ(memory.peak_in_flight, 3);
  EXPECT_GE(trace_reserved(g.graph, role, kEndlessRoom), memory.peak);
  Bytes held;
  for (const auto& [label, bytes] : peak_by_label(g.graph, role, memory)) held += bytes;
  EXPECT_EQ(held, memory.peak);
}

TEST(PairPass, IsNamedAfterBothActions) {
  Item item;
  item.has_action = true;
  item.action = forward_of(5, 3);
  EXPECT_EQ(action_text(item), "5F3");
  item.has_second = true;
  item.second = backward_of(2, 1);
  EXPECT_EQ(action_text(item), "(5F3;2B1)");
}

}  // namespace
}  // namespace stepcast::stage_passes_test
