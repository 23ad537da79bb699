// SPDX-License-Identifier: Apache-2.0
#include "model/host/host_calls.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/passes/stage_passes.h"
#include "sim/graph/host_waits.h"
#include "sim/graph/op_graph.h"
#include "tests/model/sample.h"

namespace stepcast::host_calls_test {
namespace {

// The forward and the last backward of a stage with two layers, launches assigned.
struct Stage {
  OpGraph graph;
  StagePasses passes;

  Stage(const Transformer& model, const Plan& plan, const StageContent& content = {.layers = 2}) {
    GraphBuilder builder(graph);
    builder.label("");
    graph.tensor_tables.emplace_back();
    passes = add_stage_passes(builder, model, plan, content);
    assign_launches(graph, plan);
    check_graph_of_passes();
  }

  void check_graph_of_passes() const {
    for (const Pass& pass : graph.passes)
      for (const Op& op : pass.ops)
        ASSERT_LT(static_cast<size_t>(op.launch), graph.launches.size());
  }

  // Calls of one kind that a pass makes.
  int calls(PassId id, HostCall call) const {
    int sum = 0;
    for (const Op& op : graph.passes[static_cast<size_t>(id)].ops)
      sum += graph.launches[static_cast<size_t>(op.launch)].calls[static_cast<size_t>(call)];
    return sum;
  }
  int all_calls(PassId id) const {
    int sum = 0;
    for (int c = 0; c < kHostCalls; ++c) sum += calls(id, static_cast<HostCall>(c));
    return sum;
  }
};

Transformer model() {
  Transformer t = sample::gpt(2, 512, 8, 1024, 256);
  t.attention_bias = t.attention_output_bias = t.mlp_bias = false;
  return t;
}

Plan plan(Modules modules, int64_t tp = 1) {
  Plan p = sample::plan(tp, 1, 1, 1, 1, 256);
  p.kernels.flash_attention = true;
  p.kernels.modules = modules;
  return p;
}

Transformer with_experts() {
  Transformer t = model();
  t.experts = 8;
  t.experts_per_token = 2;
  t.moe_ffn = 256;
  return t;
}

// Over four ranks, two experts each.
Plan spread(Plan p) {
  p.dp = p.grid.dp = p.ep = p.grid.ep = 4;
  return p;
}

TEST(HostCalls, TransformerEngineMakesOneCallForEachLinearLayerAndForAttention) {
  const Stage s(model(), plan(Modules::transformer_engine));
  // A layer: QKV with its norm, attention, projection, first MLP product with its norm, second.
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::module), 2 * 5);
  EXPECT_EQ(s.calls(s.passes.last_backward, HostCall::module), 2 * 5);
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::product_forward), 0);
  // Activation, and what cuts queries, keys and values apart.
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::function), 2 * 2);
}

TEST(HostCalls, PyTorchsModulesMakeACallForEachOperator) {
  const Stage s(model(), plan(Modules::torch));
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::module), 0);
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::product_forward), 2 * 4);
  EXPECT_EQ(s.calls(s.passes.last_backward, HostCall::product_backward), 2 * 2 * 4);
  // Two norms, attention, activation; both ways.
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::function), 2 * 4);
  EXPECT_EQ(s.calls(s.passes.last_backward, HostCall::function), 2 * 4);
}

TEST(HostCalls, AModuleMakesThePiecesOfItsProductInOneCall) {
  Plan p = plan(Modules::transformer_engine, 4);
  p.sp = true;
  const Stage whole(model(), p);
  p.overlap.tp = TpOverlap::pipelined;
  const Stage pieces(model(), p);
  for (const auto pass : {&StagePasses::forward, &StagePasses::last_backward})
    EXPECT_EQ(pieces.calls(pieces.passes.*pass, HostCall::module),
              whole.calls(whole.passes.*pass, HostCall::module));
  // Four exchanges of all ranks' pieces forward: two products gather, two reduce.
  EXPECT_EQ(pieces.calls(pieces.passes.forward, HostCall::collective), 0);
  EXPECT_GE(pieces.calls(pieces.passes.forward, HostCall::kernel), 2 * 4 * 3 * (1 + 2));
}

// Bias, dropout and residual are compiled by torch.jit, twice a layer, and so is their gradient;
// their kernels are launched by what was compiled and not as operators.
TEST(HostCalls, FunctionsOfTorchJitLaunchTheirKernelsBothWays) {
  Plan p = plan(Modules::megatron);
  p.kernels.fused_bias_dropout_add = true;
  const Stage s(model(), p);
  const int activation = 1;
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::script), 2 * (2 + activation));
  EXPECT_EQ(s.calls(s.passes.last_backward, HostCall::script), 2 * (2 + activation));
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::eager_forward), 0);
  p.kernels.modules = Modules::torch;
  const Stage torch(model(), p);
  EXPECT_EQ(torch.calls(torch.passes.forward, HostCall::script), 0);
  EXPECT_EQ(torch.calls(torch.passes.forward, HostCall::eager_forward), 2 * 2);
}

TEST(HostCalls, FSDP2PreparesEachUnitBeforeItsForward) {
  Plan p = spread(plan(Modules::torch));
  p.ep = p.grid.ep = 1;
  p.zero = 3;
  const Stage s(model(), p);
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::unshard), 2);
  EXPECT_EQ(s.calls(s.passes.last_backward, HostCall::unshard), 0);
  p.sharding.copied_out = false;  // FSDP1
  const Stage views(model(), p);
  EXPECT_EQ(views.calls(views.passes.forward, HostCall::unshard), 0);
}

TEST(HostCalls, DeepSpeedOf2021HandsListsOfTheRanksPartsToItsCollectives) {
  Plan p = spread(plan(Modules::megatron));
  p.ep = p.grid.ep = 1;
  p.zero = 3;
  const Stage units(model(), p);
  p.sharding.in_lists = true;
  const Stage lists(model(), p);
  const auto more = [&](PassId a, PassId b, HostCall call) {
    return lists.calls(a, call) - units.calls(b, call);
  };
  // Two layers are gathered, four weights of each in parts of four ranks.
  const int parts = 2 * 4 * 4;
  EXPECT_EQ(more(lists.passes.forward, units.passes.forward, HostCall::view), parts);
  EXPECT_EQ(more(lists.passes.forward, units.passes.forward, HostCall::node), parts);
  EXPECT_EQ(more(lists.passes.forward, units.passes.forward, HostCall::eager_backward), parts);
  EXPECT_EQ(more(lists.passes.forward, units.passes.forward, HostCall::frame), parts);
  EXPECT_EQ(more(lists.passes.forward, units.passes.forward, HostCall::collective), 2 * 3);
  EXPECT_EQ(lists.calls(lists.passes.forward, HostCall::synchronize), 2);
  EXPECT_EQ(units.calls(units.passes.forward, HostCall::synchronize), 0);
}

TEST(HostCalls, MegatronsLinearLayersAreFunctionsToo) {
  const Stage s(model(), plan(Modules::megatron));
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::product_forward), 2 * 4);
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::function), 2 * (4 + 4));
  EXPECT_EQ(s.calls(s.passes.last_backward, HostCall::function), 2 * (4 + 4));
}

TEST(HostCalls, AViewForwardIsANodeOfTheEngineBackward) {
  Plan p = plan(Modules::megatron);
  const Stage fused(model(), p);
  p.kernels.flash_attention = false;
  const Stage unfused(model(), p);
  // Of fused attention 8; of scores 10, softmax 2, context 4, transpose 2.  Of two residuals 2.
  EXPECT_EQ(fused.calls(fused.passes.forward, HostCall::view), 2 * (8 + 2));
  EXPECT_EQ(unfused.calls(unfused.passes.forward, HostCall::view), 2 * (18 + 2));
  const auto nodes = [](const Stage& s) { return s.calls(s.passes.last_backward, HostCall::node); };
  EXPECT_EQ(nodes(unfused) - nodes(fused), 2 * (18 - 8));
}

TEST(HostCalls, EachParameterHasAnAccumulatorAndMegatronsAHookInPython) {
  Transformer biased = model();
  const Plan p = plan(Modules::megatron);
  const Stage without(biased, p), torch(biased, plan(Modules::torch));
  biased.attention_bias = biased.attention_output_bias = biased.mlp_bias = true;
  const Stage with(biased, p);
  const auto hooks = [](const Stage& s) {
    return s.calls(s.passes.last_backward, HostCall::frame);
  };
  // Four weights and two norms of weight and bias each; four biases.
  EXPECT_EQ(hooks(without), 2 * 8);
  EXPECT_EQ(hooks(with), 2 * 12);
  EXPECT_EQ(hooks(torch), 0);
}

TEST(HostCalls, MegatronsDropoutOfAttentionHasRandomNumbersOfItsOwn) {
  Transformer t = model();
  t.attention_dropout = 0.1;
  for (const Modules modules : {Modules::torch, Modules::megatron}) {
    Plan p = plan(modules);
    p.kernels.flash_attention = false;
    const Stage s(t, p);
    EXPECT_EQ(s.calls(s.passes.forward, HostCall::fork), modules == Modules::torch ? 0 : 2);
  }
}

TEST(HostCalls, ARecomputedLayerIsARegion) {
  for (const Modules modules : {Modules::torch, Modules::megatron, Modules::transformer_engine}) {
    Plan p = plan(modules);
    const Stage kept(model(), p);
    p.recompute = Recompute::full;
    const Stage s(model(), p);
    const HostCall region = modules == Modules::torch ? HostCall::checkpoint : HostCall::region;
    EXPECT_EQ(s.calls(s.passes.last_backward, region), 2);
    EXPECT_EQ(s.calls(s.passes.forward, region), 0);
    EXPECT_EQ(kept.calls(kept.passes.last_backward, region), 0);
  }
}

TEST(HostCalls, UnfusedKernelsAreCallsOfTheirOwn) {
  Plan p = plan(Modules::torch);
  const Stage fused(model(), p);
  p.kernels.flash_attention = false;
  const Stage unfused(model(), p);
  EXPECT_GT(unfused.all_calls(unfused.passes.forward), fused.all_calls(fused.passes.forward));
  // Scores and context of each layer, and two gradients of each.
  EXPECT_EQ(unfused.calls(unfused.passes.forward, HostCall::product_forward), 2 * (4 + 2));
  EXPECT_EQ(unfused.calls(unfused.passes.last_backward, HostCall::product_backward),
            2 * 2 * (4 + 2));
}

TEST(HostCalls, ACollectiveIsACallAndHasAGradientBetweenPyTorchsModules) {
  const Stage torch(model(), plan(Modules::torch, 2));
  const Stage te(model(), plan(Modules::transformer_engine, 2));
  // With sequence parallelism two gathers and two scatters a layer.
  EXPECT_EQ(torch.calls(torch.passes.forward, HostCall::collective), 2 * 4);
  EXPECT_EQ(te.calls(te.passes.forward, HostCall::collective), 2 * 4);
  EXPECT_EQ(torch.calls(torch.passes.forward, HostCall::function), 2 * (4 + 4));
}

TEST(HostCalls, StagesThatReadTheBatchCopyOrReceiveFiveTensors) {
  const StageContent inside{.layers = 2}, first{.layers = 2, .embedding = true};
  for (const int64_t tp : {1, 2}) {
    const Plan p = plan(Modules::transformer_engine, tp);
    const Stage without(model(), p, inside), with(model(), p, first);
    const auto more = [&](HostCall call) {
      return with.calls(with.passes.forward, call) - without.calls(without.passes.forward, call);
    };
    EXPECT_EQ(more(HostCall::eager_backward), 5);
    // The embedding's own reduction over the group is the sixth.
    EXPECT_EQ(more(HostCall::collective), tp == 1 ? 0 : 6);
  }
}

TEST(HostCalls, AGraphOfEachLayerReplacesAllItsCalls) {
  Plan p = plan(Modules::transformer_engine, 2);
  p.kernels.cuda_graph = CudaGraph::layer;
  const Stage s(model(), p);
  for (const PassId pass : {s.passes.forward, s.passes.last_backward}) {
    EXPECT_EQ(s.calls(pass, HostCall::graph), 2);
    EXPECT_EQ(s.calls(pass, HostCall::function), 2);
    EXPECT_EQ(s.calls(pass, HostCall::module), 0);
    EXPECT_EQ(s.calls(pass, HostCall::collective), 0);
  }
}

TEST(HostCalls, PairsThatTakeTurnsReplayEachLayerOnce) {
  const Transformer experts = with_experts();
  Plan p = spread(plan(Modules::transformer_engine));
  p.kernels.cuda_graph = CudaGraph::layer;
  Stage s(experts, p);
  GraphBuilder builder(s.graph);
  const PassId pair = add_pair_pass(builder, s.passes.forward, s.passes.backward);
  assign_launches(s.graph, p);
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::graph), 2);
  EXPECT_EQ(s.calls(pair, HostCall::graph), 4);
}

TEST(HostCalls, TheHostReadsHowManyRowsComeUnlessTheyArePadded) {
  const Transformer experts = with_experts();
  const Plan spread_plan = spread(plan(Modules::transformer_engine));
  for (const Dispatcher dispatcher :
       {Dispatcher::all_to_all, Dispatcher::deepep, Dispatcher::all_gather}) {
    for (const bool alone : {false, true}) {
      Plan p = alone ? plan(Modules::transformer_engine) : spread_plan;
      p.moe.dispatcher = dispatcher;
      const auto reads = [&](PassId StagePasses::*pass) {
        const Stage s(experts, p);
        return s.calls(s.passes.*pass, HostCall::synchronize);
      };
      EXPECT_EQ(reads(&StagePasses::forward), 2) << "once a layer";
      EXPECT_EQ(reads(&StagePasses::backward), 0);
      p.moe.capacity_factor = 1;
      EXPECT_EQ(reads(&StagePasses::forward), 2) << "what is dropped is not known before";
      p.moe.pad_to_capacity = true;
      EXPECT_EQ(reads(&StagePasses::forward), 0);
      p.moe.pad_to_capacity = false;
      p.kernels.cuda_graph = CudaGraph::layer;
      EXPECT_EQ(reads(&StagePasses::forward), 0);
    }
  }
  const Stage dense(model(), plan(Modules::transformer_engine));
  EXPECT_EQ(dense.calls(dense.passes.forward, HostCall::synchronize), 0);
}

TEST(HostCalls, TheHostReadsBeforeTheOpThatNeedsTheCounts) {
  struct Case {
    Dispatcher dispatcher;
    double capacity;
    bool exchange;  // before it, or before the permutation
  };
  for (const Case& c : {Case{Dispatcher::all_to_all, 0, true},
                        {Dispatcher::all_to_all, 1, false},
                        {Dispatcher::deepep, 0, true},
                        {Dispatcher::deepep, 1, true},
                        {Dispatcher::all_gather, 0, false}}) {
    Plan p = spread(plan(Modules::transformer_engine));
    p.moe.dispatcher = c.dispatcher;
    p.moe.capacity_factor = c.capacity;
    const Stage s(with_experts(), p);
    int found = 0;
    for (const Op& op : s.graph.passes[static_cast<size_t>(s.passes.forward)].ops) {
      const Launch& launch = s.graph.launches[static_cast<size_t>(op.launch)];
      if (launch.calls[static_cast<size_t>(HostCall::synchronize)] == 0) continue;
      const Work& work = s.graph.works[static_cast<size_t>(op.work)];
      EXPECT_EQ(work.kind, c.exchange ? WorkKind::all_to_all : WorkKind::memory_bound);
      EXPECT_EQ(work.kernel == Kernel::permute, !c.exchange);
      ++found;
    }
    EXPECT_EQ(found, 2);
  }
}

TEST(HostCalls, ARecomputedDispatchReadsTheCountsAgain) {
  Plan p = spread(plan(Modules::transformer_engine));
  p.recompute = Recompute::full;
  Stage s(with_experts(), p);
  EXPECT_EQ(s.calls(s.passes.forward, HostCall::synchronize), 2);
  EXPECT_EQ(s.calls(s.passes.backward, HostCall::synchronize), 2);
  GraphBuilder builder(s.graph);
  const PassId pair = add_pair_pass(builder, s.passes.forward, s.passes.backward);
  assign_launches(s.graph, p);
  EXPECT_EQ(s.calls(pair, HostCall::synchronize), 4);
}

// The host waits for the counts, not for the tokens.
TEST(HostCalls, TheBackwardOfAPairComputesBesideTheDispatchOfItsForward) {
  for (const Dispatcher dispatcher : {Dispatcher::all_to_all, Dispatcher::deepep}) {
    Plan p = spread(plan(Modules::transformer_engine));
    p.moe.dispatcher = dispatcher;
    Stage s(with_experts(), p);
    GraphBuilder builder(s.graph);
    const PassId pair = add_pair_pass(builder, s.passes.forward, s.passes.backward);
    assign_launches(s.graph, p);
    Prices prices;
    prices.by_launch.assign(s.graph.launches.size(), Time{1});
    add_host_wait_edges(s.graph, prices);
    const Pass& pass = s.graph.passes[static_cast<size_t>(pair)];
    size_t read = 0;
    for (const Wait& wait : pass.waits.all()) {
      if (wait.delay == Time{}) continue;
      ++read;
      EXPECT_EQ(pass.ops[wait.on].stream, Stream::compute);
    }
    EXPECT_GT(read, 0U);
    for (size_t i = 0; i < pass.ops.size(); ++i) {
      const Launch& launch = s.graph.launches[static_cast<size_t>(pass.ops[i].launch)];
      if (launch.calls[static_cast<size_t>(HostCall::synchronize)] == 0) continue;
      EXPECT_EQ(pass.ops[i].stream, Stream::ep) << "not on what the other microbatch does";
    }
  }
}

// Transformer Engine's GroupedLinear
TEST(HostCalls, ProductsOfExpertsAreKernelsOfOneCall) {
  const Plan p = spread(plan(Modules::transformer_engine));
  const Stage s(with_experts(), p);
  const auto grouped = [&](PassId pass, HostCall call) {
    int sum = 0;
    for (const Op& op : s.graph.passes[static_cast<size_t>(pass)].ops) {
      if (s.graph.works[static_cast<size_t>(op.work)].kind != WorkKind::grouped_gemm) continue;
      sum += s.graph.launches[static_cast<size_t>(op.launch)].calls[static_cast<size_t>(call)];
    }
    return sum;
  };
  // Two layers, two products, two experts a rank.
  EXPECT_EQ(grouped(s.passes.forward, HostCall::module), 2 * 2);
  EXPECT_EQ(grouped(s.passes.forward, HostCall::kernel), 2 * 2 * 2);
  EXPECT_EQ(grouped(s.passes.last_backward, HostCall::module), 2 * 2) << "both gradients";
  EXPECT_EQ(grouped(s.passes.last_backward, HostCall::kernel), 2 * 2 * 2 * 2);
  for (const PassId pass : {s.passes.forward, s.passes.last_backward}) {
    EXPECT_EQ(grouped(pass, HostCall::product_forward), 0);
    EXPECT_EQ(grouped(pass, HostCall::product_backward), 0);
  }
}

TEST(HostCalls, ARouterThatIsNotFusedIsAChainOfOperators) {
  Plan p = spread(plan(Modules::transformer_engine));
  const Stage chain(with_experts(), p);
  p.moe.router_fusion = true;
  const Stage fused(with_experts(), p);
  const auto more = [&](PassId StagePasses::*pass, HostCall call) {
    return chain.calls(chain.passes.*pass, call) - fused.calls(fused.passes.*pass, call);
  };
  EXPECT_EQ(more(&StagePasses::forward, HostCall::eager_forward), 2 * 28);
  EXPECT_EQ(more(&StagePasses::forward, HostCall::eager_backward), 2 * 3);
  EXPECT_EQ(more(&StagePasses::last_backward, HostCall::eager_backward), 2 * 7);
}

TEST(HostCalls, EachExpertsWeightsAreParametersOfTheirOwn) {
  Transformer experts = with_experts();
  const auto hooks = [&](Modules modules) {
    const Stage s(experts, spread(plan(modules)));
    return s.calls(s.passes.last_backward, HostCall::frame);
  };
  const int engine = hooks(Modules::transformer_engine), one = hooks(Modules::megatron);
  EXPECT_EQ(engine - one, 2 * 2 * (2 - 1)) << "two layers, two products, two experts for one";
  EXPECT_EQ(hooks(Modules::torch), 0);
  experts.experts *= 2;
  EXPECT_EQ(hooks(Modules::transformer_engine) - engine, 2 * 2 * 2);
  EXPECT_EQ(hooks(Modules::megatron), one);
}

TEST(HostCalls, AGraphOfTheStepLeavesNothingToLaunchInItsPasses) {
  Plan p = plan(Modules::torch, 2);
  p.kernels.cuda_graph = CudaGraph::step;
  const Stage s(model(), p, {.layers = 2, .embedding = true, .head = true});
  EXPECT_EQ(s.all_calls(s.passes.forward), 0);
  EXPECT_EQ(s.all_calls(s.passes.last_backward), 0);
}

TEST(HostCalls, RendezvousAreTransfersAndCollectives) {
  OpGraph graph;
  Work send, sum;
  send.kind = WorkKind::send_recv;
  sum.kind = WorkKind::all_reduce;
  graph.works = {send, sum};
  graph.rendezvous = {{WorkId{0}, 2, LabelId{0}}, {WorkId{1}, 2, LabelId{0}}};
  assign_launches(graph, plan(Modules::torch));
  EXPECT_EQ(describe(graph.launches[static_cast<size_t>(graph.rendezvous[0].launch)]), "transfer");
  EXPECT_EQ(describe(graph.launches[static_cast<size_t>(graph.rendezvous[1].launch)]),
            "collective");
}

// kernels.fused_norm
TEST(SplitNorm, MovesWhatPyTorchsOperatorsReadAndWrite) {
  const Transformer llama = sample::llama(2, 512, 8, 8, 1024, 1024);
  Plan p = plan(Modules::torch);
  const Stage fused(llama, p);
  p.kernels.fused_norm = false;
  const Stage split(llama, p);
  const int64_t x = 256 * 512 * 2;  // bytes of the normed tensor
  const auto moved = [](const Stage& s, PassId pass) {
    int64_t sum = 0;
    for (const Op& op : s.graph.passes[static_cast<size_t>(pass)].ops) {
      const Work& w = s.graph.works[static_cast<size_t>(op.work)];
      if (w.kind == WorkKind::memory_bound) sum += w.bytes.value;
    }
    return sum;
  };
  // Beside values of one a row: 18 passes over the tensor for 2, and 46 for 3; four norms.  What is
  // in fp32 counts twice.
  const double forward =
      static_cast<double>(moved(split, split.passes.forward) - moved(fused, fused.passes.forward));
  const double backward = static_cast<double>(moved(split, split.passes.last_backward) -
                                              moved(fused, fused.passes.last_backward));
  EXPECT_NEAR(forward / static_cast<double>(4 * x), 18 - 2, 0.05);
  EXPECT_NEAR(backward / static_cast<double>(4 * x), 46 - 3, 0.05);
}

// kernels.layer_norm: PyTorch before 1.11 has a kernel that reads and one that reads and writes;
// backward two that read twice, and between them one that writes as well.
TEST(LayerNormOfPyTorchIn2021, IsTwoAndThreeKernelsOfOneCall) {
  for (const Modules modules : {Modules::torch, Modules::megatron}) {
    Plan p = plan(modules);
    const Stage fused(model(), p);
    p.kernels.layer_norm = LayerNormKernel::torch_2021;
    const Stage split(model(), p);
    const auto bytes = [](const Stage& s, PassId pass, Kernel kernel) {
      std::vector<int64_t> all;
      for (const Op& op : s.graph.passes[static_cast<size_t>(pass)].ops) {
        const Work& w = s.graph.works[static_cast<size_t>(op.work)];
        if (w.kind == WorkKind::memory_bound && w.kernel == kernel) all.push_back(w.bytes.value);
      }
      return all;
    };
    const int64_t x = 256 * 512 * 2;
    const PassId forward = split.passes.forward, backward = split.passes.last_backward;
    // Two norms in each of two layers.
    EXPECT_EQ(bytes(fused, forward, Kernel::layer_norm), std::vector<int64_t>(4, 2 * x));
    EXPECT_EQ(bytes(split, forward, Kernel::layer_norm),
              (std::vector<int64_t>{x, 2 * x, x, 2 * x, x, 2 * x, x, 2 * x}));
    const Kernel gradient = Kernel::layer_norm_backward;
    EXPECT_EQ(bytes(fused, backward, gradient), std::vector<int64_t>(4, 3 * x));
    EXPECT_EQ(bytes(split, backward, gradient),
              (std::vector<int64_t>{2 * x, 3 * x, 2 * x, 2 * x, 3 * x, 2 * x, 2 * x, 3 * x, 2 * x,
                                    2 * x, 3 * x, 2 * x}));
    EXPECT_EQ(split.calls(forward, HostCall::kernel), fused.calls(forward, HostCall::kernel) + 4);
    EXPECT_EQ(split.all_calls(forward), fused.all_calls(forward) + 4);
    EXPECT_EQ(split.calls(backward, HostCall::kernel), fused.calls(backward, HostCall::kernel) + 8);
    EXPECT_EQ(split.all_calls(backward), fused.all_calls(backward) + 8);
  }
}

// kernels.fused_input_norm
TEST(SplitNorm, OfTheNormBeforeAttentionAlone) {
  const Transformer llama = sample::llama(2, 512, 8, 8, 1024, 1024);
  Plan p = plan(Modules::torch);
  const Stage fused(llama, p);
  p.kernels.fused_input_norm = false;
  const Stage input(llama, p);
  p.kernels.fused_norm = false;
  const Stage split(llama, p);
  const auto ops = [](const Stage& s) { return s.graph.passes[0].ops.size(); };
  EXPECT_EQ(2 * (ops(input) - ops(fused)), ops(split) - ops(fused));
}

TEST(SplitNorm, LayerNormStaysOneKernel) {
  Plan p = plan(Modules::torch);
  const Stage fused(model(), p);
  p.kernels.fused_norm = false;
  const Stage split(model(), p);
  EXPECT_EQ(split.graph.passes[0].ops.size(), fused.graph.passes[0].ops.size());
}

}  // namespace
}  // namespace stepcast::host_calls_test
