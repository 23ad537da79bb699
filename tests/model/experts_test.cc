// SPDX-License-Identifier: Apache-2.0
// Layers with experts: what travels, what is computed, what is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "model/layers/layers.h"
#include "model/parameters.h"
#include "model/passes/stage_passes.h"
#include "model/replicas.h"
#include "model/shard.h"
#include "sim/graph/work.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::experts_test {
namespace {

using enum ActionKind;

constexpr int64_t kSeq = 256;
constexpr int64_t kHidden = 512;
constexpr int64_t kExperts = 16;
constexpr int64_t kChosen = 4;
constexpr int64_t kWidth = 384;

Transformer mixture() {
  Transformer t = sample::llama(2, kHidden, 8, 4, 1024, 32'000);
  t.experts = kExperts;
  t.experts_per_token = kChosen;
  t.moe_ffn = kWidth;
  return t;
}

Plan plan_of(int64_t tp, int64_t ep, int64_t etp, int64_t dp) {
  Plan p = sample::plan(tp, 1, dp, 1, 2, kSeq);
  p.ep = p.grid.ep = ep;
  p.etp = p.grid.etp = etp;
  p.kernels.flash_attention = true;
  return p;
}

Routing zipf(double exponent) {
  Routing routing;
  routing.kind = Routing::Kind::zipf;
  routing.exponent = exponent;
  return routing;
}

struct Passes {
  OpGraph graph;
  StagePasses passes;

  Passes(const Transformer& model, const Plan& plan, const PassChoice& choice = {}) {
    GraphBuilder builder(graph);
    passes = add_stage_passes(builder, model, plan, {.layers = 2}, choice);
  }

  const Pass& pass(PassId id) const { return graph.passes[static_cast<size_t>(id)]; }
  const Work& work(const Op& op) const { return graph.works[static_cast<size_t>(op.work)]; }

  std::vector<Op> ops(PassId id, const std::string& label) const {
    std::vector<Op> found;
    for (const Op& op : pass(id).ops)
      if (graph.text(op.label) == label) found.push_back(op);
    return found;
  }
  bool has(PassId id, const std::string& label) const { return !ops(id, label).empty(); }

  Bytes bytes(PassId id, WorkKind kind, Axis axis) const {
    Bytes sum;
    for (const Op& op : pass(id).ops)
      if (work(op).kind == kind && work(op).axis == axis) sum += work(op).bytes;
    return sum;
  }
  double flops(PassId id) const {
    double sum = 0;
    for (const Op& op : pass(id).ops) sum += work(op).flops.value;
    return sum;
  }
  // What the forward leaves behind, by label.
  Bytes kept(const std::function<bool(const std::string&)>& count) const {
    Bytes sum;
    const Pass& forward = pass(passes.forward);
    for (const MemoryEvent& e : forward.memory) {
      const Tensor& t = graph.tensor(forward, e);
      if (count(graph.text(t.label))) sum += e.allocate ? t.bytes : -t.bytes;
    }
    return sum;
  }
  Bytes kept() const {
    return kept([](const std::string&) { return true; });
  }

  // All of these in one role; check_graph sees that each tensor is allocated and freed in turn.
  RoleMemory run(const std::vector<ActionKind>& kinds) {
    graph.roles.assign(1, {});
    for (const ActionKind kind : kinds) {
      Item item;
      item.pass = pass_of(passes, kind, false, false);
      item.has_action = true;
      item.action.kind = kind;
      graph.roles[0].items.push_back(item);
    }
    check_graph(graph);
    return trace_memory(graph).front();
  }
};

// The goal's closed form: bytes on the wire = tokens * k * h * dtype * (the part that leaves).
TEST(Moe, AllToAllBytesAreTokensTimesExpertsTimesWidthTimesWhatLeavesTheRank) {
  for (const int64_t ep : {2, 4, 8, 16}) {
    const Passes p(mixture(), plan_of(1, ep, 1, 16));
    const auto sent =
        static_cast<double>(p.bytes(p.passes.forward, WorkKind::all_to_all, Axis::ep).value);
    const double tokens = 2.0 * kSeq;
    const double leaving = static_cast<double>(ep - 1) / static_cast<double>(ep);
    // nccl-tests counts what stays, too; two exchanges in each of two layers.
    EXPECT_EQ(sent * leaving, 4 * tokens * kChosen * kHidden * 2 * leaving);
    EXPECT_EQ(p.bytes(p.passes.backward, WorkKind::all_to_all, Axis::ep).value, sent);
  }
}

TEST(Moe, NothingTravelsWhereEachRankHoldsAllExperts) {
  const Passes p(mixture(), plan_of(1, 1, 1, 4));
  for (const Op& op : p.pass(p.passes.forward).ops) EXPECT_NE(op.stream, Stream::ep);
}

TEST(Moe, TokensInFp8TravelWithTheirScales) {
  Plan plan = plan_of(1, 8, 1, 8);
  const Passes wide(mixture(), plan);
  plan.moe.dispatch = DType::fp8;
  const Passes low(mixture(), plan);
  const auto dispatch = [](const Passes& p) {
    return p.work(p.ops(p.passes.forward, "dispatch all-to-all").at(0));
  };
  // Half the bytes and 4 more for 128 values (arXiv 2412.19437, section 3.3).
  EXPECT_EQ(dispatch(low).bytes.value,
            dispatch(wide).bytes.value / 2 + 2 * kSeq * kChosen * kHidden / 128 * 4);
  EXPECT_EQ(low.work(low.ops(low.passes.forward, "combine all-to-all").at(0)),
            wide.work(wide.ops(wide.passes.forward, "combine all-to-all").at(0)));
}

TEST(Moe, TokensAreConvertedOnBothSidesOfAnExchangeInFp8) {
  Plan plan = plan_of(1, 8, 1, 8);
  plan.moe.dispatch = DType::fp8;
  const Passes p(mixture(), plan);
  const int64_t values = 2 * kSeq * kChosen * kHidden;
  for (const char* label : {"dispatch quantize", "dispatch dequantize"}) {
    const std::vector<Op> ops = p.ops(p.passes.forward, label);
    ASSERT_EQ(ops.size(), 2u) << label;
    EXPECT_EQ(p.work(ops[0]).kernel, Kernel::quantize);
    EXPECT_EQ(p.work(ops[0]).bytes.value, values * (2 + 1) + values / 128 * 4);
  }
  EXPECT_EQ(p.ops(p.passes.backward, "combine backward quantize").size(), 2u);
  EXPECT_EQ(p.ops(p.passes.backward, "combine backward dequantize").size(), 2u);
  EXPECT_FALSE(p.has(p.passes.forward, "combine quantize"));
  plan.moe.combine = DType::fp8;
  const Passes back(mixture(), plan);
  EXPECT_EQ(back.ops(back.passes.forward, "combine quantize").size(), 2u);
  EXPECT_EQ(back.ops(back.passes.backward, "dispatch backward dequantize").size(), 2u);
}

TEST(Moe, BlockwiseProductsTakeTheFp8TokensThatArrive) {
  Plan plan = plan_of(1, 8, 1, 8);
  plan.precision.scaling = Scaling::blockwise;
  const Passes wide(mixture(), plan);
  EXPECT_TRUE(wide.has(wide.passes.forward, "expert fc1 input quantize"));
  for (const Dispatcher dispatcher :
       {Dispatcher::all_to_all, Dispatcher::deepep, Dispatcher::all_gather}) {
    plan.moe.dispatcher = dispatcher;
    plan.moe.dispatch = DType::fp8;
    Passes low(mixture(), plan);
    const PassId forward_pass = low.passes.forward;
    EXPECT_TRUE(low.has(forward_pass, "dispatch quantize"));
    EXPECT_FALSE(low.has(forward_pass, "dispatch dequantize"));
    EXPECT_FALSE(low.has(forward_pass, "expert fc1 input quantize"));
    EXPECT_TRUE(low.has(forward_pass, "expert fc1 input transpose"));
    EXPECT_TRUE(low.has(forward_pass, "expert fc2 input quantize"));
    EXPECT_FALSE(low.has(low.passes.backward, "expert fc2 gradient quantize"));
    EXPECT_TRUE(low.has(low.passes.backward, "expert fc2 gradient transpose"));
    EXPECT_LE(low.kept(), wide.kept());
    const RoleMemory whole = low.run({forward, backward});
    EXPECT_EQ(whole.end.value, whole.start.value);
  }
}

TEST(Moe, ForwardMultipliesEachTokenWithItsExpertsAndTheRouter) {
  Plan plan = plan_of(1, 4, 1, 4);
  const Passes p(mixture(), plan);
  Transformer dense = mixture();
  dense.experts = 0;
  dense.ffn = kChosen * kWidth;
  const Passes d(dense, plan_of(1, 1, 1, 4));
  const double router = 2 * (2.0 * 2 * kSeq * kHidden * kExperts);
  EXPECT_EQ(p.flops(p.passes.forward), d.flops(d.passes.forward) + router);
  EXPECT_EQ(p.flops(p.passes.backward), d.flops(d.passes.backward) + 2 * router);
}

TEST(Moe, GroupedProductsAreOneLaunchOrOneForEachExpert) {
  Plan plan = plan_of(1, 4, 1, 4);
  const Passes grouped(mixture(), plan);
  plan.moe.grouped_gemm = false;
  const Passes single(mixture(), plan);
  const std::string label = "expert fc1";
  EXPECT_EQ(grouped.ops(grouped.passes.forward, label).size(), 2u);
  EXPECT_EQ(single.ops(single.passes.forward, label).size(), 2u * kExperts / 4);
  EXPECT_EQ(grouped.work(grouped.ops(grouped.passes.forward, label).at(0)).batch, kExperts / 4);
  EXPECT_EQ(grouped.flops(grouped.passes.forward), single.flops(single.passes.forward));
}

TEST(Moe, KeepsTheInputsOfProductsAndActivationForEachCopy) {
  const Passes p(mixture(), plan_of(1, 4, 1, 4));
  const double copies = 2.0 * kSeq * kChosen;
  const auto of = [&](const std::string& start) {
    return static_cast<double>(
        p.kept([&](const std::string& label) { return label.starts_with(start); }).value);
  };
  EXPECT_EQ(of("dispatch"), 2 * copies * kHidden * 2);
  EXPECT_EQ(of("expert fc1 output"), 2 * copies * 2 * kWidth * 2);
  EXPECT_EQ(of("expert activation output"), 2 * copies * kWidth * 2);
  EXPECT_EQ(of("router probabilities"), 2 * 2.0 * kSeq * kExperts * 4);
  EXPECT_EQ(of("combine"), 0);
  EXPECT_EQ(of("expert fc2"), 0);
}

TEST(Moe, RecomputedModulesAreNotKept) {
  Plan plan = plan_of(1, 4, 1, 4);
  Transformer model = mixture();
  model.shared_ffn = 512;
  const Bytes all = Passes(model, plan).kept();
  plan.recompute = Recompute::selective;
  plan.recompute_modules = {.core_attention = false};
  const double copies = 2.0 * kSeq * kChosen;
  const auto saved = [&](bool RecomputeModules::*module) {
    Plan p = plan;
    p.recompute_modules.*module = true;
    return static_cast<double>((all - Passes(model, p).kept()).value);
  };
  EXPECT_EQ(saved(&RecomputeModules::moe_activation), 2 * copies * kWidth * 2);
  EXPECT_EQ(saved(&RecomputeModules::shared_experts), 2 * 2.0 * kSeq * 3 * 512 * 2);
  EXPECT_EQ(saved(&RecomputeModules::moe),
            2 * (copies * (kHidden + 3 * kWidth) * 2 + 2.0 * kSeq * (3 * 512 * 2 + kExperts * 5)));
}

// ----------------------------------------------------------- every dispatcher in every combination
using Combination = std::tuple<Dispatcher, std::array<int64_t, 4>, bool, int, bool>;

class MoeCombinations : public ::testing::TestWithParam<Combination> {
 protected:
  Plan plan() const {
    const auto& [dispatcher, sizes, skewed, recompute, overlap] = GetParam();
    Plan p = plan_of(sizes[0], sizes[1], sizes[2], sizes[3]);
    p.moe.dispatcher = dispatcher;
    p.moe.shared_overlap = overlap;
    p.moe.permute_fusion = !overlap;
    if (skewed) p.moe.routing = zipf(0.8);
    p.recompute = recompute == 0   ? Recompute::none
                  : recompute == 4 ? Recompute::full
                                   : Recompute::selective;
    p.recompute_modules = {.norms = recompute == 2,
                           .moe = recompute == 3,
                           .moe_activation = recompute == 1,
                           .shared_experts = recompute == 2};
    return p;
  }
  static Transformer model() {
    Transformer t = mixture();
    t.shared_ffn = 512;
    t.shared_gate = true;
    return t;
  }
};

TEST_P(MoeCombinations, EveryTensorIsFreed) {
  Passes p(model(), plan(), {.split = true});
  const RoleMemory whole = p.run({forward, backward});
  EXPECT_EQ(whole.end.value, whole.start.value);
  const RoleMemory split = p.run({forward, backward_input, backward_weight});
  EXPECT_EQ(split.end.value, split.start.value);
}

TEST_P(MoeCombinations, BackwardIsInputGradientAndWeightGradient) {
  const Passes p(model(), plan(), {.split = true});
  EXPECT_EQ(p.flops(p.passes.backward),
            p.flops(p.passes.input_gradient) + p.flops(p.passes.weight_gradient));
  for (const WorkKind kind :
       {WorkKind::all_to_all, WorkKind::all_gather, WorkKind::reduce_scatter}) {
    EXPECT_EQ(p.bytes(p.passes.backward, kind, Axis::ep),
              p.bytes(p.passes.input_gradient, kind, Axis::ep));
  }
}

TEST_P(MoeCombinations, MultipliesTheSame) {
  const Passes p(model(), plan());
  Plan simple = plan_of(1, 1, 1, 1);
  const Passes alone(model(), simple);
  const auto routed = [](const Passes& of) {
    double sum = 0;
    for (const Op& op : of.pass(of.passes.forward).ops) {
      const Work& w = of.work(op);
      if (w.kind == WorkKind::grouped_gemm) sum += w.flops.value;
    }
    return sum;
  };
  const auto& [dispatcher, sizes, skewed, recompute, overlap] = GetParam();
  // Each rank its share of the tokens of tp ranks that see the same sequence.
  EXPECT_EQ(routed(p) * static_cast<double>(sizes[0]), routed(alone));
}

INSTANTIATE_TEST_SUITE_P(
    All, MoeCombinations,
    ::testing::Combine(
        ::testing::Values(Dispatcher::all_to_all, Dispatcher::deepep, Dispatcher::all_gather),
        ::testing::Values(std::array<int64_t, 4>{1, 4, 1, 4}, std::array<int64_t, 4>{2, 4, 2, 4},
                          std::array<int64_t, 4>{4, 16, 1, 4}, std::array<int64_t, 4>{2, 1, 2, 2}),
        ::testing::Bool(), ::testing::Range(0, 5), ::testing::Bool()));

// ------------------------------------------------------------------------------------- parameters
TEST(Moe, RanksTogetherHoldEachParameterOfTheExpertsOnce) {
  const Transformer model = mixture();
  for (const auto& [ep, etp] : {std::pair{1, 1}, {4, 1}, {16, 1}, {4, 2}}) {
    const StageContent content{.layers = 2, .embedding = true, .head = true};
    const Plan plan = plan_of(1, ep, etp, 16);
    const int64_t experts = expert_parameters(model, plan, content);
    EXPECT_EQ(experts * ep * etp, 2 * kExperts * 3 * kHidden * kWidth);
    EXPECT_EQ(stage_parameters(model, plan, content) - experts + experts * ep * etp,
              parameters(model));
  }
}

TEST(Moe, ExpertsHaveFewerReplicasThanTheRest) {
  Plan plan = plan_of(2, 4, 1, 8);
  plan.zero = 1;
  EXPECT_EQ(dense_replicas(plan).shards, 8);
  EXPECT_EQ(expert_replicas(plan).shards, 4);
  EXPECT_EQ(expert_replicas(plan).shard_axis, Axis::edp);
}

// Biases are reduced with the weights.
TEST(Moe, AllGradientsOfTheExpertsAreReduced) {
  Transformer model = mixture();
  Plan plan = plan_of(1, 4, 1, 16);
  plan.overlap.dp_grad = true;
  for (const bool bias : {false, true}) {
    model.mlp_bias = bias;
    const Passes p(model, plan);
    const Bytes reduced = p.bytes(p.passes.last_backward, WorkKind::all_reduce, Axis::edp);
    EXPECT_EQ(static_cast<double>(reduced.value),
              static_cast<double>(expert_parameters(model, plan, {.layers = 2})) *
                  bytes_per_element(plan.precision.gradients));
  }
}

// ---------------------------------------------------------------------------------------- routing
double busiest_by_mean(const Plan& plan) {
  const Transformer model = mixture();
  const Shard shard(model, plan);
  const ExpertShard x = expert_shard(shard);
  return static_cast<double>(x.busiest) / static_cast<double>(x.rows);
}

TEST(Routing, BalancedRanksAllGetTheSame) {
  EXPECT_EQ(busiest_by_mean(plan_of(1, 8, 1, 8)), 1);
}

TEST(Routing, SharesSumToOneAndNoExpertGetsATokenTwice) {
  Plan plan = plan_of(1, 8, 1, 8);
  for (const double exponent : {0.0, 0.5, 1.0, 2.0, 5.0}) {
    plan.moe.routing = zipf(exponent);
    const std::vector<double> shares = expert_shares(mixture(), plan);
    double sum = 0;
    for (const double s : shares) {
      sum += s;
      EXPECT_LE(s, 1.0 / kChosen + 1e-12);
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(Routing, ASteeperZipfLoadsTheBusiestRankMore) {
  double before = 1;
  for (const double exponent : {0.25, 0.5, 1.0}) {
    Plan plan = plan_of(1, 8, 1, 8);
    plan.moe.routing = zipf(exponent);
    const double now = busiest_by_mean(plan);
    EXPECT_GT(now, before);
    before = now;
  }
}

TEST(Routing, WrittenSharesAreOfTheExpertsAsTheyLieOnTheRanks) {
  Plan plan = plan_of(1, 4, 1, 4);
  plan.moe.routing.kind = Routing::Kind::shares;
  plan.moe.routing.shares.assign(kExperts, 0.5 / (kExperts - 4));
  std::fill_n(plan.moe.routing.shares.begin(), 4, 0.125);  // half for the first of four ranks
  EXPECT_NEAR(busiest_by_mean(plan), 2, 1e-3);
}

TEST(Routing, WholeSequencesChooseInsteadOfTokens) {
  Plan plan = plan_of(1, 16, 1, 16);
  plan.moe.routing.by_sequence = true;
  plan.micro_batch = 1;  // 16 sequences choose 4 of 16 experts each: all alike
  EXPECT_EQ(busiest_by_mean(plan), 1);
  plan.ep = 8;
  plan.cp = 8;  // one sequence on the 8 ranks: 4 of its 16 experts get everything
  EXPECT_GT(busiest_by_mean(plan), 1.9);
}

TEST(Routing, RanksWaitForTheBusiestBeforeTokensReturn) {
  Plan plan = plan_of(1, 8, 1, 8);
  const Passes even(mixture(), plan);
  EXPECT_FALSE(even.has(even.passes.forward, "busiest expert rank"));
  plan.moe.routing = zipf(0.5);
  const Passes skewed(mixture(), plan);
  const std::vector<Op> waits = skewed.ops(skewed.passes.forward, "busiest expert rank");
  // In each layer sort, fc1, activation, fc2, sort, and where compute joins.
  ASSERT_EQ(waits.size(), 2u * 6);
  EXPECT_EQ(skewed.work(waits[1]).kind, WorkKind::expert_wait);
  EXPECT_GT(skewed.work(waits[1]).busiest, skewed.work(waits[1]).m);
  EXPECT_GT(skewed.kept().value, even.kept().value);
}

// What is here is converted, with room for what the busiest rank gets, which is waited for.
TEST(Routing, InputsOfTheMeanAreQuantized) {
  Plan plan = plan_of(1, 8, 1, 8);
  plan.precision.scaling = Scaling::blockwise;
  const Passes even(mixture(), plan);
  plan.moe.routing = zipf(0.5);
  const Passes skewed(mixture(), plan);
  const auto bytes = [](const Passes& p, PassId pass, const std::string& label) {
    return static_cast<double>(p.work(p.ops(pass, label).at(0)).bytes.value);
  };
  for (const char* label : {"expert fc1 input quantize", "expert fc2 input quantize"}) {
    const double balanced = bytes(even, even.passes.forward, label);
    EXPECT_NEAR(bytes(skewed, skewed.passes.forward, label) / balanced, 1, 1e-3) << label;
  }
  int waits = 0;
  for (const Op& op : skewed.ops(skewed.passes.forward, "busiest expert rank")) {
    const Work& w = skewed.work(op);
    if (w.kind != WorkKind::expert_wait || w.kernel != Kernel::quantize) continue;
    EXPECT_GT(w.busiest, w.bytes.value);
    ++waits;
  }
  EXPECT_EQ(waits, 2 * 2);
  EXPECT_GT(skewed.kept().value, even.kept().value);
}

TEST(Routing, CapacityDropsWhatIsAboveAndPaddingFillsWhatIsBelow) {
  Plan plan = plan_of(1, 8, 1, 8);
  plan.moe.routing = zipf(1);
  const Transformer model = mixture();
  const auto of = [&] {
    const Shard shard(model, plan);
    return expert_shard(shard);
  };
  const int64_t all = 2 * kSeq * kChosen;
  EXPECT_NEAR(static_cast<double>(of().copies), static_cast<double>(all), 1);
  plan.moe.capacity_factor = 1;
  EXPECT_LT(of().copies, all);
  EXPECT_LE(of().busiest, all);
  plan.moe.pad_to_capacity = true;
  EXPECT_EQ(of().copies, all);
  EXPECT_EQ(of().busiest, all);
  plan.moe.capacity_factor = 1.5;
  EXPECT_EQ(of().copies, all * 3 / 2);
}

TEST(Routing, PlacesReachedAreThoseOfADrawWithoutReturning) {
  EXPECT_DOUBLE_EQ(expected_destinations(1, 16, 4), 1);
  EXPECT_DOUBLE_EQ(expected_destinations(16, 16, 4), 4);
  EXPECT_DOUBLE_EQ(expected_destinations(2, 4, 2), 2 * (1 - 1.0 / 6));
  EXPECT_DOUBLE_EQ(expected_destinations(8, 256, 1), 1);
  EXPECT_NEAR(expected_destinations(8, 256, 8), 8 * (1 - 0.3385), 0.01);
}

// ------------------------------------------------------------------------------------ dispatchers
TEST(Dispatch, DeepepSendsATokenOnceToEachRank) {
  Plan plan = plan_of(1, 4, 1, 4);
  const Passes all(mixture(), plan);
  plan.moe.dispatcher = Dispatcher::deepep;
  const Passes once(mixture(), plan);
  const auto bytes = [](const Passes& p) {
    return static_cast<double>(p.bytes(p.passes.forward, WorkKind::all_to_all, Axis::ep).value);
  };
  EXPECT_NEAR(bytes(once) / bytes(all), expected_destinations(4, kExperts, kChosen) / kChosen,
              1e-3);
  const Work& w = once.work(once.ops(once.passes.forward, "dispatch all-to-all").at(0));
  EXPECT_EQ(w.m, kChosen);
  EXPECT_EQ(w.n, kExperts);
}

TEST(Dispatch, AllGatherBringsEveryTokenToEveryRank) {
  Plan plan = plan_of(1, 8, 1, 8);
  plan.moe.dispatcher = Dispatcher::all_gather;
  const Passes p(mixture(), plan);
  const Bytes gathered = p.bytes(p.passes.forward, WorkKind::all_gather, Axis::ep);
  EXPECT_EQ(gathered.value, 2 * (8 * 2 * kSeq) * kHidden * 2);
  EXPECT_EQ(p.bytes(p.passes.forward, WorkKind::reduce_scatter, Axis::ep), gathered);
}

TEST(Dispatch, ExpertsThatAreSplitOverEtpGatherAndReduce) {
  const Passes p(mixture(), plan_of(2, 4, 2, 4));
  const Bytes copies{2 * (2 * kSeq / 2) * kChosen * 2 * kHidden * 2};  // two layers, etp = 2
  EXPECT_EQ(p.bytes(p.passes.forward, WorkKind::all_gather, Axis::etp), copies);
  EXPECT_EQ(p.bytes(p.passes.forward, WorkKind::reduce_scatter, Axis::etp), copies);
}

// Both ways as much as the busiest rank has.
TEST(Dispatch, AsMuchIsReducedOverEtpAsWasGathered) {
  Plan plan = plan_of(2, 4, 2, 4);
  plan.moe.routing = zipf(0.5);
  for (const Dispatcher dispatcher :
       {Dispatcher::all_to_all, Dispatcher::deepep, Dispatcher::all_gather}) {
    plan.moe.dispatcher = dispatcher;
    const Passes p(mixture(), plan);
    for (const PassId pass : {p.passes.forward, p.passes.backward}) {
      EXPECT_GT(p.bytes(pass, WorkKind::all_gather, Axis::etp).value, 0);
      EXPECT_EQ(p.bytes(pass, WorkKind::all_gather, Axis::etp),
                p.bytes(pass, WorkKind::reduce_scatter, Axis::etp));
    }
  }
}

TEST(Dispatch, AsManyRowsArePickedAsArePutBack) {
  Plan plan = plan_of(1, 8, 1, 8);
  plan.moe.routing = zipf(0.5);
  for (const Dispatcher dispatcher : {Dispatcher::deepep, Dispatcher::all_gather}) {
    plan.moe.dispatcher = dispatcher;
    const Passes p(mixture(), plan);
    EXPECT_EQ(p.work(p.ops(p.passes.forward, "dispatch permute").at(0)).bytes,
              p.work(p.ops(p.passes.forward, "combine unpermute").at(0)).bytes);
    int waits = 0;
    for (const Op& op : p.ops(p.passes.forward, "busiest expert rank")) {
      const Work& w = p.work(op);
      waits += w.kernel == Kernel::permute || w.kernel == Kernel::unpermute ? 1 : 0;
    }
    EXPECT_EQ(waits, 2 * 2);
  }
}

// Megatron-Core's second permutation asks for several experts, not for several ranks.
TEST(Dispatch, TokensAreSortedAgainWhereARankHoldsSeveralExperts) {
  for (const int64_t ep : {1, 4, 16}) {
    const Passes p(mixture(), plan_of(1, ep, 1, 16));
    EXPECT_EQ(p.has(p.passes.forward, "dispatch sort"), ep < kExperts) << ep;
    EXPECT_EQ(p.has(p.passes.forward, "combine sort"), ep < kExperts) << ep;
  }
}

// A forward alone: tp ranks see the same tokens, each exchanges its part of them.
TEST(Dispatch, WithoutSequenceParallelismEachRankTakesItsPartOfTheTokens) {
  Plan plan = plan_of(2, 4, 1, 4);
  const Passes split(mixture(), plan);
  plan.sp = false;
  const Passes whole(mixture(), plan);
  EXPECT_EQ(whole.bytes(whole.passes.forward, WorkKind::all_to_all, Axis::ep),
            split.bytes(split.passes.forward, WorkKind::all_to_all, Axis::ep));
  EXPECT_EQ(whole.ops(whole.passes.forward, "combine all-gather").size(), 2u);
  EXPECT_FALSE(split.has(split.passes.forward, "combine all-gather"));
}

TEST(Dispatch, SharedExpertsRunBesideTheExchanges) {
  Plan plan = plan_of(1, 8, 1, 8);
  Transformer model = mixture();
  model.shared_ffn = 512;
  const auto first_layer = [](const Passes& p, const std::string& label) {
    const Pass& pass = p.pass(p.passes.forward);
    for (size_t i = 0; i < pass.ops.size(); ++i)
      if (p.graph.text(pass.ops[i].label) == label) return i;
    return pass.ops.size();
  };
  const auto after = [&](const Passes& p, const std::string& a, const std::string& b) {
    return first_layer(p, a) > first_layer(p, b);
  };
  const Passes before(model, plan);
  EXPECT_FALSE(after(before, "shared fc1", "dispatch all-to-all"));
  plan.moe.shared_overlap = true;
  const Passes beside(model, plan);
  EXPECT_TRUE(after(beside, "shared fc1", "dispatch all-to-all"));
  EXPECT_TRUE(after(beside, "expert fc1", "shared fc1"));
  EXPECT_TRUE(after(beside, "shared fc2", "combine all-to-all"));
  // It does not wait for the tokens.
  const Pass& pass = beside.pass(beside.passes.forward);
  const auto shared = static_cast<uint32_t>(first_layer(beside, "shared fc1"));
  EXPECT_TRUE(pass.waits.of(shared).empty());
}

TEST(Dispatch, PairsOfPassesTakeTurnsAtTheExchanges) {
  Plan plan = plan_of(1, 8, 1, 8);
  Passes p(mixture(), plan);
  GraphBuilder builder(p.graph);
  const PassId pair = add_pair_pass(builder, p.passes.forward, p.passes.backward);
  const Pass& merged = p.pass(pair);
  // Between two exchanges of the forward there is compute of the backward.
  const auto count = [&](const std::string& label) { return p.ops(pair, label).size(); };
  EXPECT_EQ(count("dispatch all-to-all"), 2u);
  EXPECT_EQ(count("combine backward all-to-all"), 2u);
  size_t turns = 0;
  bool exchanged = false;
  for (const Op& op : merged.ops) {
    if (op.stream == Stream::ep) {
      EXPECT_FALSE(exchanged) << "two exchanges in a row";
      exchanged = true;
      ++turns;
    } else if (op.stream == Stream::compute) {
      exchanged = false;
    }
  }
  EXPECT_EQ(turns, 8u);
}

}  // namespace
}  // namespace stepcast::experts_test
