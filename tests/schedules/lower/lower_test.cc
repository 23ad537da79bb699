// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/parameters.h"
#include "schedules/families/families.h"
#include "sim/account/account.h"
#include "sim/engine/run.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"
#include "tests/schedules/lower/lower_sample.h"

namespace stepcast::lower_test {
namespace {

using sample::cost_of;
using sample::only_products;
using sample::small_gpt;

Schedule schedule_of(const char* name, const Plan& plan, int64_t group = 0) {
  return find_schedule_family(name)->generate(
      {.pp = plan.pp, .vpp = plan.vpp, .microbatches = plan.microbatches(), .group = group});
}

// Stages without embedding and head, all alike; nothing but matrix products takes time.
Plan equal_stages(int64_t pp, int64_t vpp, int64_t microbatches) {
  Plan plan = sample::plan(1, pp, 1, microbatches, 1, 256);
  plan.vpp = vpp;
  plan.stages.assign(static_cast<size_t>(pp * vpp), StageContent{.layers = 2});
  return plan;
}

struct StepCase {
  const char* schedule;
  int64_t pp, vpp, microbatches;
  bool overlapped;
};

// The teacher's windows begin at the third of four stages that are alike in the student.
TEST(Distillation, EveryStageRunsItsOwnLayersOfTheTeacher) {
  const Transformer model = small_gpt();
  Plan plan = equal_stages(4, 1, 4);
  plan.kernels.flash_attention = true;
  plan.teacher = model;
  plan.teacher->layers = 8;
  plan.teacher->windows = {0, 0, 0, 0, 16, 16, 16, 16};
  plan.teacher_stages = even_stages(8, 4, 1);
  assign_layers(plan.teacher_stages, *plan.teacher);
  const OpGraph graph = lower(model, plan, schedule_of("1f1b", plan));
  check_graph(graph);
  std::vector<double> flops;
  for (const RoleOps& role : graph.roles) {
    double sum = 0;
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass)
        for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops)
          sum += graph.works[static_cast<size_t>(op.work)].flops.value;
    flops.push_back(sum);
  }
  EXPECT_DOUBLE_EQ(flops[1], flops[0]);
  EXPECT_LT(flops[2], flops[1]);
  EXPECT_GT(flops[3], flops[2]);  // and its head
}

// The second stage begins with a layer of the teacher that takes the choice of keys of the layer
// before: 16 whole numbers of 4 bytes a token travel with both streams.
TEST(Distillation, ATeachersChoiceOfKeysTravelsWithItsStream) {
  const Transformer model = small_gpt();
  const auto sent = [&](std::vector<uint8_t> indexers) {
    Plan plan = equal_stages(2, 1, 2);
    plan.kernels.flash_attention = true;
    Transformer teacher = model;
    teacher.layers = 4;
    teacher.q_rank = teacher.kv_rank = 64;
    teacher.qk_nope_dim = teacher.qk_rope_dim = 32;
    teacher.v_dim = teacher.head_dim = 64;
    teacher.kv_heads = teacher.heads;
    teacher.index_topk = 16;
    teacher.index_heads = 2;
    teacher.index_dim = 32;
    teacher.indexers = std::move(indexers);
    plan.teacher = teacher;
    plan.teacher_stages = even_stages(4, 2, 1);
    assign_layers(plan.teacher_stages, *plan.teacher);
    const OpGraph graph = lower(model, plan, schedule_of("1f1b", plan));
    check_graph(graph);
    int64_t most = 0;
    for (const Rendezvous& r : graph.rendezvous)
      if (graph.text(r.label) == "send activation")
        most = std::max(most, graph.works[static_cast<size_t>(r.work)].bytes.value);
    return most;
  };
  EXPECT_EQ(sent({1, 1, 0, 1}) - sent({1, 0, 1, 1}), 256 * 16 * 4);
}

// Each of 4 ranks sends a quarter over the network, and what was received is gathered before the
// pass that reads it: activations by stages 1 to 3, gradients by stages 0 to 2.
TEST(ScatterGather, SendsPartsAndGathersEachTensorOnce) {
  const Transformer model = small_gpt();
  Plan plan = equal_stages(4, 1, 4);
  plan.tp = 4;
  const auto lowered = [&](bool split) {
    plan.scatter_gather = split;
    const OpGraph graph = lower(model, plan, schedule_of("1f1b", plan));
    check_graph(graph);
    return graph;
  };
  const auto sent = [](const OpGraph& graph) {
    return graph.works[static_cast<size_t>(graph.rendezvous.front().work)].bytes.value;
  };
  const auto gathered = [](const OpGraph& graph) {
    int count = 0;
    for (const RoleOps& role : graph.roles)
      for (const Item& item : role.items)
        count += item.kind == ItemKind::pass &&
                 graph.passes[static_cast<size_t>(item.pass)].name.starts_with("received");
    return count;
  };
  const OpGraph whole = lowered(false), split = lowered(true);
  EXPECT_EQ(sent(whole), 4 * sent(split));
  EXPECT_EQ(gathered(whole), 0);
  EXPECT_EQ(gathered(split), 2 * 3 * 4);
  plan.sp = true;  // parts of the sequence are sent
  EXPECT_EQ(gathered(lowered(true)), 0);
}

class EqualStages : public ::testing::TestWithParam<StepCase> {};

// (v m + p - 1)(tF + tB) in times of one chunk: GPipe and 1F1B with v = 1, interleaved 1F1B.
TEST_P(EqualStages, TakeTheClosedFormToThePicosecond) {
  const StepCase& c = GetParam();
  const Transformer model = small_gpt();
  const Plan plan = equal_stages(c.pp, c.vpp, c.microbatches);
  const P2pStyle style = c.overlapped ? P2pStyle::async : P2pStyle::megatron;
  const OpGraph graph = lower(model, plan, schedule_of(c.schedule, plan), {.p2p = style});
  check_graph(graph);
  const Prices prices = only_products(graph);
  const Time both = cost_of(graph, prices, "forward") + cost_of(graph, prices, "backward");
  const Program program = compile(graph, prices);
  const Timeline timeline = run(program);
  EXPECT_EQ(timeline.makespan, both * (c.vpp * c.microbatches + c.pp - 1));
  // Every rank works v m (tF + tB); the rest of its step is bubble.
  const Account account = make_account(program, timeline);
  for (const SpendTable& table : account.by_role) {
    Time bubble{};
    for (int s = 0; s < kSpends; ++s) {
      if (is_bubble(static_cast<Spend>(s)) || static_cast<Spend>(s) == Spend::idle_end) {
        bubble += table[static_cast<size_t>(s)];
      }
    }
    EXPECT_EQ(bubble, both * (c.pp - 1));
    EXPECT_EQ(table[static_cast<size_t>(Spend::exposed_pp)].count(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    ClosedForms, EqualStages,
    ::testing::Values(StepCase{"1f1b", 1, 1, 3, true}, StepCase{"1f1b", 4, 1, 2, true},
                      StepCase{"1f1b", 4, 1, 8, true}, StepCase{"1f1b", 8, 1, 13, true},
                      StepCase{"1f1b", 2, 1, 4, false}, StepCase{"1f1b", 4, 1, 8, false},
                      StepCase{"1f1b", 8, 1, 3, false}, StepCase{"gpipe", 4, 1, 8, true},
                      StepCase{"interleaved-1f1b", 2, 2, 4, true},
                      StepCase{"interleaved-1f1b", 4, 3, 8, true},
                      StepCase{"interleaved-1f1b", 8, 4, 16, true}),
    [](const auto& param) {
      std::string name = param.param.schedule;
      for (char& ch : name) ch = ch == '-' ? '_' : ch;
      return name + "_pp" + std::to_string(param.param.pp) + "_vpp" +
             std::to_string(param.param.vpp) + "_m" + std::to_string(param.param.microbatches) +
             (param.param.overlapped ? "" : "_blocking");
    });

TEST(Lower, BlockingExchangesExposeTwoTransfersForEachMicrobatch) {
  // docs/schedules.md: 2m + 2p - 5 transfers exposed for Megatron's 1F1B with p > 2, at equal
  // stages.
  const Transformer model = small_gpt();
  const Plan plan = equal_stages(4, 1, 8);
  const OpGraph graph = lower(model, plan, schedule_of("1f1b", plan), {.p2p = P2pStyle::megatron});
  Prices prices = only_products(graph);
  const Time both = cost_of(graph, prices, "forward") + cost_of(graph, prices, "backward");
  for (size_t w = 0; w < graph.works.size(); ++w) {
    if (graph.works[w].kind == WorkKind::send_recv) prices.by_work[w].time = Time{7};
  }
  const Timeline timeline = run(compile(graph, prices));
  EXPECT_EQ(timeline.makespan, both * (8 + 4 - 1) + Time{7} * (2 * 8 + 2 * 4 - 5));
}

// Megatron's timers are around forwards and backwards; what else a list names is not timed.
TEST(Lower, TheHostWaitsAroundForwardsAndBackwardsAlone) {
  Plan plan = sample::plan(1, 1, 1, 2, 1, 256);
  plan.stages = even_stages(8, 1, 1);
  Schedule schedule = loop_schedule("own", {1, 1, 2, 0});
  schedule.ranks = {{forward_of(0, 0),
                     {ActionKind::offload, 0, 0},
                     forward_of(0, 1),
                     backward_of(0, 1),
                     {ActionKind::reload, 0, 0},
                     {ActionKind::backward_input, 0, 0},
                     {ActionKind::backward_weight, 0, 0}}};
  const auto syncs = [&](HostWaits waits) {
    plan.kernels.host_waits = waits;
    const OpGraph graph = lower(small_gpt(), plan, schedule);
    const std::vector<Item>& items = graph.roles[0].items;
    return std::count_if(items.begin(), items.end(),
                         [](const Item& item) { return item.kind == ItemKind::sync; });
  };
  EXPECT_EQ(syncs(HostWaits::none), 0);
  EXPECT_EQ(syncs(HostWaits::forward), 2);
  EXPECT_EQ(syncs(HostWaits::passes), 2 + 5);  // after each F, B, I and W as well
  EXPECT_EQ(syncs(HostWaits::launches), 2 + 5);
}

// A stage of the embedding alone ends with a reduction, after which there is nothing to compute.
TEST(Lower, WhatAnEmbeddingAloneReducesIsSentWhenItIsThere) {
  Plan plan = sample::plan(2, 2, 1, 2, 1, 256);
  plan.stages = {{.embedding = true}, {.layers = 2, .head = true}};
  const Transformer model = sample::llama(2, 512, 8, 8, 1024, 1024);
  const OpGraph graph = lower(model, plan, schedule_of("1f1b", plan));
  Prices prices = only_products(graph);
  for (size_t w = 0; w < graph.works.size(); ++w) {
    if (graph.works[w].axis == Axis::tp) prices.by_work[w].time = Time{1000};
  }
  const Timeline timeline = run(compile(graph, prices));
  ASSERT_FALSE(timeline.rendezvous.empty());
  EXPECT_GE(timeline.rendezvous[0].begin, Time{1000});
}

TEST(Lower, ActivationsInFlightFollowTheSchedule) {
  const Transformer model = small_gpt();
  const Plan plan = equal_stages(4, 1, 8);
  const std::vector<RoleMemory> memory =
      trace_memory(lower(model, plan, schedule_of("1f1b", plan)));
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(memory[r].peak_in_flight, 4 - static_cast<int>(r));
    EXPECT_EQ(memory[r].start, memory[r].end);
  }
}

// 18 bytes a parameter with fp32 gradients and Adam in mixed precision; 6 + 12/d with ZeRO-1.
TEST(Lower, StaticMemoryFollowsTheRuleOfBytesForEachParameter) {
  const Transformer model = small_gpt();
  for (const auto& [zero, dp] : {std::pair{0, 4}, std::pair{1, 4}}) {
    Plan plan = sample::plan(1, 1, dp, 2, 1, 256);
    plan.zero = zero;
    plan.stages = {{.layers = 8, .embedding = true, .head = true}};
    const OpGraph graph = lower(model, plan, schedule_of("1f1b", plan));
    int64_t bytes = 0;
    for (const StaticMemory& m : graph.roles[0].memory) bytes += m.bytes.value;
    const int64_t n = parameters(model);
    EXPECT_EQ(bytes, zero == 0 ? 18 * n : 6 * n + 12 * ((n + dp - 1) / dp));
  }
}

TEST(Lower, GradientsOfTheBackwardsMayStayBesideTheMainOnes) {
  const auto gradients = [](bool own, DType main) {
    Plan plan = sample::plan(1, 1, 4, 2, 1, 256);
    plan.zero = 1;
    plan.precision.own_gradients = own;
    plan.precision.gradients = main;
    plan.stages = {{.layers = 8, .embedding = true, .head = true}};
    const OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
    int64_t bytes = 0;
    for (const StaticMemory& m : graph.roles[0].memory)
      bytes += m.category == MemoryCategory::gradients ? m.bytes.value : 0;
    return bytes / parameters(small_gpt());
  };
  EXPECT_EQ(gradients(false, DType::fp32), 4);
  EXPECT_EQ(gradients(true, DType::fp32), 4 + 2);
  EXPECT_EQ(gradients(true, DType::bf16), 2);  // they are the main ones
}

// Kernels::held_logits: those of the microbatches before, through the whole step, where the head
// is.
TEST(Lower, LogitsOfEarlierMicrobatchesMayStay) {
  const auto logits = [](int64_t held, int64_t microbatches) {
    Plan plan = sample::plan(2, 2, 1, microbatches, 1, 256);
    plan.kernels.held_logits = held;
    plan.kernels.loss = Loss::torch_gathered;
    plan.stages = {{.layers = 4, .embedding = true}, {.layers = 4, .head = true}};
    const OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
    std::vector<double> sets;  // of each rank, of the whole vocabulary
    for (const RoleOps& role : graph.roles) {
      int64_t bytes = 0;
      for (const StaticMemory& m : role.memory)
        bytes += m.category == MemoryCategory::logits ? m.bytes.value : 0;
      sets.push_back(static_cast<double>(bytes) / static_cast<double>(2 * 256 * small_gpt().vocab));
    }
    return sets;
  };
  EXPECT_EQ(logits(1, 4), (std::vector<double>{0, 0}));
  EXPECT_EQ(logits(2, 4), (std::vector<double>{0, 1}));
  EXPECT_EQ(logits(4, 3), (std::vector<double>{0, 2}));  // there are no more
}

TEST(Lower, TheFp32CopyOfAllParametersMayBeOnEveryRank) {
  Plan plan = sample::plan(1, 1, 4, 2, 1, 256);
  plan.zero = 1;
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  const auto states = [&](bool whole) {
    plan.whole_master = whole;
    const OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
    int64_t bytes = 0;
    for (const StaticMemory& m : graph.roles[0].memory)
      bytes += m.category == MemoryCategory::optimizer_state ? m.bytes.value : 0;
    return bytes;
  };
  const int64_t n = parameters(small_gpt()), share = (n + 3) / 4;
  EXPECT_EQ(states(false), 12 * share);
  EXPECT_EQ(states(true), 8 * share + 4 * n);
}

// What the optimizer's passes allocate, in bytes for each parameter of the share.
double copied_by_optimizer(GradientCopies copies, DType main) {
  Plan plan = sample::plan(1, 1, 1, 2, 1, 256);
  plan.precision.gradients = main;
  plan.gradient_copies = copies;
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  const OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
  int64_t most = 0;
  for (const Pass& pass : graph.passes) {
    if (pass.ops.front().phase != Phase::optimizer) continue;
    int64_t now = 0;
    for (const MemoryEvent& e : pass.memory) {
      now += (e.allocate ? 1 : -1) * graph.tensor(pass, e).bytes.value;
      most = std::max(most, now);
    }
  }
  return static_cast<double>(most) / static_cast<double>(parameters(small_gpt()));
}

TEST(Lower, NarrowGradientsAreCopiedBeforeTheOptimizer) {
  EXPECT_DOUBLE_EQ(copied_by_optimizer(GradientCopies::none, DType::fp32), 0);
  EXPECT_DOUBLE_EQ(copied_by_optimizer(GradientCopies::none, DType::fp16), 4);
  EXPECT_DOUBLE_EQ(copied_by_optimizer(GradientCopies::flat, DType::fp16), 4 + 4);
  // Each tensor to fp64 takes less than all of them in fp32.
  EXPECT_DOUBLE_EQ(copied_by_optimizer(GradientCopies::by_tensor, DType::fp16), 4);
}

// Bytes of the tensors that become gradients, and whether the main gradients are those.
std::pair<int64_t, bool> gradients_by_tensor(const Plan& plan) {
  const OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
  int64_t bytes = 0;
  for (const std::vector<Tensor>& table : graph.tensor_tables)
    for (const Tensor& tensor : table) bytes += tensor.becomes_gradient ? tensor.bytes.value : 0;
  return {bytes, graph.roles[0].memory[1].by_tensor};
}

TEST(Lower, GradientsByTensorAreNotPartOfAFlatBuffer) {
  Plan plan = sample::plan(1, 1, 1, 2, 1, 256);
  plan.kernels.gradient_accumulation_fusion = false;
  plan.precision.gradients = plan.precision.params;
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  EXPECT_EQ(gradients_by_tensor(plan), std::pair(int64_t{0}, false));
  plan.precision.product_gradients = ProductGradients::tensors;
  const auto [bytes, main] = gradients_by_tensor(plan);
  EXPECT_GT(bytes, parameters(small_gpt()));  // two bytes of nearly all
  EXPECT_TRUE(main);
}

// Products add into the main gradients, which are wider, or shards.
TEST(Lower, GradientsThatAutogradDoesNotMakeAreNoTensors) {
  Plan plan = sample::plan(1, 1, 1, 2, 1, 256);
  plan.kernels.gradient_accumulation_fusion = false;
  plan.precision.gradients = plan.precision.params;
  plan.precision.product_gradients = ProductGradients::tensors;
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  Plan fused = plan, wide = plan, sharded = plan;
  fused.kernels.gradient_accumulation_fusion = true;
  wide.precision.gradients = DType::fp32;
  sharded.zero = 2;
  for (const Plan& other : {fused, wide, sharded})
    EXPECT_EQ(gradients_by_tensor(other), std::pair(int64_t{0}, false));
  // Beside wider main ones they are those of each backward.
  wide.precision.own_gradients = true;
  const auto [bytes, main] = gradients_by_tensor(wide);
  EXPECT_GT(bytes, parameters(small_gpt()));
  EXPECT_FALSE(main);
}

TEST(Lower, GradientsOfABackwardMayAllStayToItsEnd) {
  Plan plan = sample::plan(1, 1, 1, 1, 1, 256);
  plan.kernels.gradient_accumulation_fusion = false;
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  const auto memory = [&](ProductGradients how) {
    plan.precision.product_gradients = how;
    const OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
    check_graph(graph);
    const RoleMemory m = trace_memory(graph).front();
    EXPECT_EQ(m.start, m.end);
    return m.peak.value;
  };
  EXPECT_GT(memory(ProductGradients::backward), memory(ProductGradients::added));
}

int count_works(const OpGraph& graph, Axis axis, WorkKind kind) {
  int count = 0;
  for (const Pass& pass : graph.passes) {
    for (const Op& op : pass.ops) {
      const Work& w = graph.works[static_cast<size_t>(op.work)];
      count += w.axis == axis && w.kind == kind;
    }
  }
  return count;
}

// The two inputs of a layer whole instead of half, and no gathers in the backward.
TEST(Lower, GatheredInputsMayStayUntilTheirBackward) {
  Plan plan = sample::plan(2, 1, 1, 1, 1, 256);
  plan.overlap.tp = TpOverlap::none;
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  const auto of = [&](bool keep) {
    plan.kernels.keep_gathered = keep;
    OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
    check_graph(graph);
    return graph;
  };
  const OpGraph again = of(false), kept = of(true);
  EXPECT_EQ(count_works(again, Axis::tp, WorkKind::all_gather) -
                count_works(kept, Axis::tp, WorkKind::all_gather),
            2 * 8);
  const auto after_forward = [](const OpGraph& graph) {
    const RoleMemory memory = trace_memory(graph).front();
    EXPECT_EQ(memory.start, memory.end);
    int64_t most = 0;
    for (const MemoryPoint& point : memory.curve) most = std::max(most, point.allocated.value);
    return most;
  };
  EXPECT_EQ(after_forward(kept) - after_forward(again), 2 * 8 * 256 / 2 * small_gpt().hidden * 2);
}

TEST(Lower, DataParallelCollectivesFollowTheZeroStage) {
  const Transformer model = small_gpt();
  Plan plan = sample::plan(1, 1, 4, 2, 1, 256);
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  const Schedule schedule = schedule_of("1f1b", plan);
  const OpGraph replicated = lower(model, plan, schedule);
  EXPECT_EQ(count_works(replicated, Axis::dp, WorkKind::all_reduce), 1);
  EXPECT_EQ(count_works(replicated, Axis::dp, WorkKind::all_gather), 0);
  plan.zero = 1;
  const OpGraph sharded = lower(model, plan, schedule);
  EXPECT_EQ(count_works(sharded, Axis::dp, WorkKind::reduce_scatter), 1);
  EXPECT_EQ(count_works(sharded, Axis::dp, WorkKind::all_gather), 1);
}

TEST(Lower, TiedEmbeddingGradientsAreSummedOverFirstAndLastStage) {
  Transformer model = small_gpt();
  model.tied = true;
  Plan plan = sample::plan(1, 4, 1, 4, 1, 256);
  plan.stages.assign(4, StageContent{.layers = 2});
  plan.stages.front().embedding = true;
  plan.stages.back().head = true;
  const OpGraph graph = lower(model, plan, schedule_of("1f1b", plan));
  check_graph(graph);
  std::vector<int> posts(4);
  for (size_t r = 0; r < 4; ++r) {
    for (const Item& item : graph.roles[r].items) {
      if (item.kind != ItemKind::post) continue;
      const Rendezvous& met = graph.rendezvous[static_cast<size_t>(item.rendezvous)];
      const Work& w = graph.works[static_cast<size_t>(met.work)];
      if (w.axis != Axis::embedding) continue;
      ++posts[r];
      EXPECT_EQ(w.bytes.value, 4 * model.vocab * model.hidden);
    }
  }
  EXPECT_EQ(posts, (std::vector<int>{1, 0, 0, 1}));
}

int count_label(const OpGraph& graph, const std::string& label) {
  int count = 0;
  for (const Pass& pass : graph.passes) {
    for (const Op& op : pass.ops) count += graph.text(op.label) == label;
  }
  return count;
}

OpGraph one_stage(const Plan& plan, const Transformer& model) {
  Plan whole = plan;
  whole.stages = {{.layers = 8, .embedding = true, .head = true}};
  OpGraph graph = lower(model, whole, schedule_of("1f1b", whole));
  check_graph(graph);
  return graph;
}

TEST(Lower, NormGradientsAreSummedOverTheTensorGroupWithSequenceParallelism) {
  Plan plan = sample::plan(4, 1, 1, 2, 1, 256);
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "norm gradient all-reduce"), 1);
  plan.sp = false;
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "norm gradient all-reduce"), 0);
}

TEST(Lower, GradientNormSpansTheReplicasThatShareTheOptimizer) {
  Plan plan = sample::plan(1, 1, 4, 2, 1, 256);
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "gradient norm over replicas"), 0);
  plan.zero = 1;
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "gradient norm over replicas"), 1);
}

TEST(Lower, Fp16UnscalesAndNarrowGradientsAreCopied) {
  Plan plan = sample::plan(1, 1, 1, 2, 1, 256);
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "gradient unscaling"), 0);
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "gradient copy"), 0);
  plan.precision.params = plan.precision.gradients = DType::fp16;
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "gradient unscaling"), 1);
  EXPECT_EQ(count_label(one_stage(plan, small_gpt()), "gradient copy"), 1);
}

// What the optimizer's pass allocates, in bytes a parameter.
double optimizer_bytes(const Plan& plan) {
  const OpGraph graph = one_stage(plan, small_gpt());
  int64_t bytes = 0;
  for (const Pass& pass : graph.passes) {
    if (pass.name != "optimizer") continue;
    for (const MemoryEvent& e : pass.memory)
      bytes += e.allocate ? graph.tensor(pass, e).bytes.value : 0;
  }
  return static_cast<double>(bytes) / static_cast<double>(parameters(small_gpt()));
}

TEST(Lower, TheOptimizerHoldsWideGradientsAndWhatItsKernelsNeed) {
  Plan plan = sample::plan(1, 1, 1, 2, 1, 256);
  EXPECT_DOUBLE_EQ(optimizer_bytes(plan), 0);
  plan.optimizer_kernel = OptimizerKernel::foreach;
  EXPECT_DOUBLE_EQ(optimizer_bytes(plan), 4);
  plan.optimizer_kernel = OptimizerKernel::flat;
  EXPECT_DOUBLE_EQ(optimizer_bytes(plan), 8);
  plan.precision.gradients = DType::bf16;
  EXPECT_DOUBLE_EQ(optimizer_bytes(plan), 8 + 4);
}

// What the pass "gradient norm" allocates, in bytes a parameter and as so many tensors.
std::pair<double, int64_t> norm_copies(const Plan& plan) {
  const OpGraph graph = lower(small_gpt(), plan, schedule_of("1f1b", plan));
  int64_t bytes = 0, tensors = 0;
  for (const Pass& pass : graph.passes) {
    if (pass.name != "gradient norm") continue;
    for (const MemoryEvent& e : pass.memory) {
      bytes += e.allocate ? graph.tensor(pass, e).bytes.value : 0;
      tensors += e.allocate ? 1 : 0;
    }
  }
  return {static_cast<double>(bytes) / static_cast<double>(parameters(small_gpt())), tensors};
}

TEST(Lower, TheNormMayBeOfCopiesInFp32) {
  Plan plan = sample::plan(1, 1, 1, 2, 1, 256);
  plan.stages = {{.layers = 8, .embedding = true, .head = true}};
  plan.precision.gradients = DType::bf16;
  EXPECT_EQ(norm_copies(plan), std::pair(4.0, int64_t{1}));  // what Adam works on
  plan.gradient_copies = GradientCopies::for_norm;
  const auto [bytes, tensors] = norm_copies(plan);
  EXPECT_DOUBLE_EQ(bytes, 4 + 4);
  EXPECT_EQ(tensors, 1 + parameter_tensors(small_gpt(), plan, plan.stages.front()).count);
  plan.optimizer_kernel = OptimizerKernel::flat;
  EXPECT_DOUBLE_EQ(norm_copies(plan).first, 4 + 4 + 2);  // side by side before they are widened
  plan.precision.gradients = DType::fp32;
  EXPECT_DOUBLE_EQ(norm_copies(plan).first, 0);
}

}  // namespace
}  // namespace stepcast::lower_test
