// SPDX-License-Identifier: Apache-2.0
// Closed forms of sharded data parallelism: memory and bytes on the wire of each ZeRO stage
// (Rajbhandari et al. 2020, arXiv 1910.02054, table 1 and section 7), what gathers hide behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "model/parameters.h"
#include "model/replicas.h"
#include "schedules/families/families.h"
#include "schedules/lower/lower.h"
#include "schedules/lower/round_gradients.h"
#include "sim/engine/run.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"
#include "tests/schedules/lower/lower_sample.h"

namespace stepcast::sharding_test {
namespace {

using sample::small_gpt;

OpGraph lowered(const Plan& plan) {
  const Schedule schedule = find_schedule_family("1f1b")->generate(
      {.pp = plan.pp, .vpp = plan.vpp, .microbatches = plan.microbatches()});
  OpGraph graph = lower(small_gpt(), plan, schedule);
  check_graph(graph);
  return graph;
}

// fp16 parameters and gradients, fp32 copy and moments: K = 12 bytes of optimizer states.
Plan fp16_plan(int zero, int64_t dp, int64_t microbatches = 1, int64_t pp = 1) {
  Plan plan = sample::plan(1, pp, dp, microbatches, 1, 256);
  plan.stages = even_stages(8, pp, 1);
  plan.zero = zero;
  plan.precision = {.params = DType::fp16, .gradients = DType::fp16, .reduce = DType::fp16};
  plan.overlap.dp_grad = zero == 3;
  plan.sharding.wide = false;
  return plan;
}

int64_t static_bytes(const OpGraph& graph) {
  int64_t bytes = 0;
  for (const StaticMemory& m : graph.roles[0].memory) bytes += m.bytes.value;
  return bytes;
}

int64_t parameters(const Plan& plan) {
  return stage_parameters(small_gpt(), plan, plan.stages[0]);
}

TEST(Sharding, Table1OfZeroModelStatesOfEachStage) {
  for (const int64_t n : {1, 4, 64}) {
    const int64_t psi = parameters(fp16_plan(0, n));
    const int64_t share = (psi + n - 1) / n;
    EXPECT_EQ(static_bytes(lowered(fp16_plan(0, n))), 16 * psi);
    EXPECT_EQ(static_bytes(lowered(fp16_plan(1, n))), 4 * psi + 12 * share);
    EXPECT_EQ(static_bytes(lowered(fp16_plan(2, n))), 2 * psi + 14 * share);
    EXPECT_EQ(static_bytes(lowered(fp16_plan(3, n))), 16 * share);
  }
}

// PyTorch's FSDP keeps the optimizer's fp32 parameters alone: 4 + 4 + 8 bytes with fp32 gradients.
TEST(Sharding, ShardsOfPyTorchAreTheOptimizersOwnParameters) {
  Plan plan = fp16_plan(3, 8);
  plan.sharding.wide = true;
  plan.precision = {};
  const int64_t share = (parameters(plan) + 7) / 8;
  EXPECT_EQ(static_bytes(lowered(plan)), 16 * share);
}

// Elements that a rank of a large group sends in a step: an all-reduce is a reduce-scatter and an
// all-gather.
int64_t elements_sent(const OpGraph& graph) {
  int64_t bytes = 0;
  for (const Item& item : graph.roles[0].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops) {
      const Work& work = graph.works[static_cast<size_t>(op.work)];
      if (op.stream != Stream::dp || work.bytes.value == 4) continue;
      bytes += work.bytes.value * (work.kind == WorkKind::all_reduce ? 2 : 1);
    }
  }
  return bytes / 2;
}

TEST(Sharding, Section7OfZeroBytesOnTheWire) {
  const Plan plain = fp16_plan(0, 4);
  const int64_t psi = parameters(plain);
  StageContent ends = plain.stages[0];
  ends.layers = 0;
  const int64_t root = stage_parameters(small_gpt(), plain, ends);
  EXPECT_EQ(elements_sent(lowered(plain)), 2 * psi);
  EXPECT_EQ(elements_sent(lowered(fp16_plan(1, 4))), 2 * psi);
  EXPECT_EQ(elements_sent(lowered(fp16_plan(2, 4))), 2 * psi);
  // What lies outside the layers stays from the forward to the backward.
  EXPECT_EQ(elements_sent(lowered(fp16_plan(3, 4))), 3 * psi - root);
  Plan kept = fp16_plan(3, 4);
  kept.sharding.reshard_after_forward = false;
  EXPECT_EQ(elements_sent(lowered(kept)), 2 * psi);
}

// Stages 2 and 3 have no room for gradients of more than one microbatch's bucket.
TEST(Sharding, GradientsAreReducedInEveryMicrobatchFromStage2On) {
  const int64_t psi = parameters(fp16_plan(0, 4));
  EXPECT_EQ(elements_sent(lowered(fp16_plan(1, 4, 3))), 2 * psi);
  EXPECT_EQ(elements_sent(lowered(fp16_plan(2, 4, 3))), 4 * psi);
  EXPECT_EQ(elements_sent(lowered(fp16_plan(3, 4, 3))),
            3 * elements_sent(lowered(fp16_plan(3, 4))));
}

// Stages 1 and 0 take turns, whatever forwards run between.
TEST(Rounds, EndWhereAnotherStageHasItsTurn) {
  std::vector<Action> actions;
  for (const uint16_t stage : std::vector<uint16_t>{1, 1, 0, 0, 1, 1, 0, 0}) {
    actions.push_back({ActionKind::forward, 0, 0});
    actions.push_back({ActionKind::backward, stage, 0});
  }
  const Rounds rounds = rounds_of(actions);
  EXPECT_EQ(rounds.first, (std::vector<size_t>{1, 5, 9, 13}));
  EXPECT_EQ(rounds.last, (std::vector<size_t>{3, 7, 11, 15}));
  EXPECT_TRUE(rounds_of({}).first.empty());
}

// Two chunks on each of two ranks, 8 microbatches in groups of 4.
OpGraph by_round(bool overlapped, int zero = 2) {
  Plan plan = fp16_plan(zero, 4, 8, 2);
  plan.vpp = 2;
  plan.stages = even_stages(8, 2, 2);
  plan.zero_reduce = ZeroReduce::round;
  plan.overlap.dp_grad = overlapped;
  const Schedule schedule = find_schedule_family("interleaved-1f1b")
                                ->generate({.pp = 2, .vpp = 2, .microbatches = 8, .group = 4});
  OpGraph graph = lower(small_gpt(), plan, schedule);
  check_graph(graph);
  return graph;
}

// Between one reduction a step (stage 1) and one each microbatch: a gather of the parameters, and a
// reduction of each chunk in each of two rounds.
TEST(Rounds, ReduceOnceEach) {
  Plan plan = fp16_plan(2, 4, 8, 2);
  plan.stages = even_stages(8, 2, 2);
  const int64_t psi = stage_parameters(small_gpt(), plan, plan.stages[0]) +
                      stage_parameters(small_gpt(), plan, plan.stages[2]);
  EXPECT_EQ(elements_sent(by_round(true)), (2 + 1) * psi);
  EXPECT_EQ(elements_sent(by_round(false)), (2 + 1) * psi);
  EXPECT_EQ(elements_sent(by_round(true, 1)), (1 + 1) * psi);
}

// Nothing but the shares is held throughout; at most two chunks have gradients at a time.
TEST(Rounds, HoldTheGradientsOfTwoChunks) {
  const OpGraph graph = by_round(true);
  Plan plan = fp16_plan(2, 4, 8, 2);
  plan.stages = even_stages(8, 2, 2);
  const int64_t chunk = stage_parameters(small_gpt(), plan, plan.stages[1]);
  int64_t held = 0, most = 0;
  for (const Item& item : graph.roles[1].items) {
    if (item.kind != ItemKind::pass || item.has_action) continue;
    const Pass& pass = graph.passes[static_cast<size_t>(item.pass)];
    for (const MemoryEvent& e : pass.memory) {
      const Tensor& t = graph.tensor(pass, e);
      if (graph.text(t.label) != "unsharded gradients") continue;
      held += e.allocate ? t.bytes.value : -t.bytes.value;
      most = std::max(most, held);
    }
  }
  EXPECT_EQ(held, 0);
  const int64_t with_head = stage_parameters(small_gpt(), plan, plan.stages[3]);
  EXPECT_EQ(most, 2 * (chunk + with_head));
}

TEST(Sharding, CompressedGradientsSendTheirShareOfBytes) {
  Plan plan = fp16_plan(2, 4);
  const int64_t whole = elements_sent(lowered(plan));
  plan.precision.gradient_ratio = 0.25;
  const int64_t psi = parameters(plan);
  EXPECT_NEAR(static_cast<double>(elements_sent(lowered(plan))),
              static_cast<double>(whole - psi + psi / 4), 4);
}

// Works on the data-parallel stream of the step, and copies of gradients on the compute stream.
std::vector<Work> works_of(const OpGraph& graph, WorkKind kind) {
  std::vector<Work> works;
  for (const Item& item : graph.roles[0].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops) {
      const Work& work = graph.works[static_cast<size_t>(op.work)];
      if (work.kind == kind && op.phase != Phase::forward) works.push_back(work);
    }
  }
  return works;
}

int64_t copied_bytes(const OpGraph& graph) {
  int64_t bytes = 0;
  for (const Work& work : works_of(graph, WorkKind::memory_bound))
    if (work.kernel == Kernel::cast) bytes += work.bytes.value;
  return bytes;
}

// Every rank has all sums: 2 Psi of gradients and Psi of parameters on the wire, and gradients go
// to a bucket and back.
TEST(Sharding, GradientsThatAreAllReducedGoThroughBuckets) {
  for (const bool overlapped : {false, true}) {
    Plan plan = fp16_plan(1, 4, 2);
    plan.overlap.dp_grad = overlapped;
    plan.bucket_parameters = 1000;
    const int64_t psi = parameters(plan);
    const int64_t others = copied_bytes(lowered(plan));
    plan.zero_exchange = ZeroExchange::all_reduce;
    const OpGraph graph = lowered(plan);
    EXPECT_EQ(elements_sent(graph), 3 * psi);
    EXPECT_TRUE(works_of(graph, WorkKind::reduce_scatter).empty());
    EXPECT_EQ(works_of(graph, WorkKind::all_gather).size(), 1u);
    EXPECT_EQ(copied_bytes(graph) - others, 2 * 4 * psi);
    EXPECT_EQ(static_bytes(graph), 4 * psi + 12 * ((psi + 3) / 4));
  }
}

// The last weight gradients free what their input gradients left, as all others do, and have a
// bucket beside that; the step's sums and peak are those of whole backwards.
TEST(Sharding, TheLastWeightGradientsOfASplitBackwardHaveTheirBuckets) {
  for (const ZeroExchange exchange : {ZeroExchange::all_reduce, ZeroExchange::broadcast}) {
    Plan plan = fp16_plan(1, 4, 4, 2);
    plan.overlap.dp_grad = true;
    plan.zero_exchange = exchange;
    const int64_t whole = copied_bytes(lowered(plan));
    for (const char* family : {"zb-h1", "zb-v", "dualpipe"}) {
      Plan split = plan;
      split.vpp = std::string_view(family) == "zb-h1" ? 1 : 2;
      const Schedule schedule = find_schedule_family(family)->generate(
          {.pp = 2, .vpp = split.vpp, .microbatches = split.microbatches()});
      split.stages = even_stages(8, 2, static_cast<int64_t>(schedule.rank_of_stage.size()) / 2);
      const OpGraph graph = lower(small_gpt(), split, schedule);
      check_graph(graph);
      if (split.vpp == 1) {
        EXPECT_EQ(copied_bytes(graph), whole) << family;
      }
      for (const RoleMemory& role : trace_memory(graph)) {
        EXPECT_EQ(role.end.value, role.start.value) << family;
      }
    }
  }
}

// Whole tensors have one owner: it sends them, ranks beyond the number of tensors have none, and
// the owner of the largest keeps its optimizer states alone.
TEST(Sharding, TensorsWithOneOwnerAreBroadcast) {
  Plan plan = fp16_plan(1, 4);
  plan.zero_exchange = ZeroExchange::broadcast;
  const int64_t psi = parameters(plan);
  const std::vector<Work> few = works_of(lowered(plan), WorkKind::broadcast);
  ASSERT_EQ(few.size(), 4u);
  EXPECT_EQ(few[0].bytes.value, 2 * ((psi + 3) / 4));
  EXPECT_TRUE(works_of(lowered(plan), WorkKind::all_gather).empty());

  const ParameterTensors tensors = parameter_tensors(small_gpt(), plan, plan.stages[0]);
  Plan large = fp16_plan(1, 4096);
  large.zero_exchange = ZeroExchange::broadcast;
  const OpGraph graph = lowered(large);
  EXPECT_EQ(works_of(graph, WorkKind::broadcast).size(), static_cast<size_t>(tensors.count));
  EXPECT_EQ(static_bytes(graph), 4 * psi + 12 * tensors.largest);
}

// The tensors of experts are owned by ranks that hold the same experts, the others by all replicas.
TEST(Sharding, TensorsOfExpertsHaveOwnersOfTheirOwn) {
  Transformer model = small_gpt();
  model.experts = 8;
  model.experts_per_token = 2;
  model.moe_ffn = 4096;
  Plan plan = fp16_plan(1, 64);
  plan.ep = 2;
  plan.grid.ep = 2;
  plan.zero_exchange = ZeroExchange::broadcast;
  const StageContent& stage = plan.stages[0];
  const ParameterTensors dense = parameter_tensors(model, plan, stage);
  const ParameterTensors experts = expert_tensors(model, plan, stage);
  EXPECT_EQ(dense.count, 8 * 9 + 2 + 3);  // without an MLP, with a router
  EXPECT_EQ(experts.count, 8 * 4 * 4);    // 4 experts here, two products with biases each
  EXPECT_EQ(experts.largest, 512 * 4096);
  EXPECT_EQ(dense.largest, std::max(512 * 3 * 512, 1024 * 512));

  plan.dp = plan.grid.dp = 2048;
  plan.global_batch = plan.dp;
  const OpGraph graph =
      lower(model, plan, find_schedule_family("1f1b")->generate({.pp = 1, .microbatches = 1}));
  check_graph(graph);
  EXPECT_EQ(works_of(graph, WorkKind::broadcast).size(),
            static_cast<size_t>(dense.count + experts.count));
  EXPECT_EQ(static_bytes(graph),
            4 * stage_parameters(model, plan, stage) + 12 * (dense.largest + experts.largest));
}

// A GPT layer: queries, keys and values, projection, two of the MLP, two norms, each with a bias.
TEST(Sharding, TensorsOfGpt) {
  const Plan plan = fp16_plan(1, 4);
  const ParameterTensors tensors = parameter_tensors(small_gpt(), plan, plan.stages[0]);
  EXPECT_EQ(tensors.count, 8 * 12 + 2 + 3);  // the last norm; words, positions, untied head
}

// Hybrid sharding: reduce-scatter among the shards, all-reduce of a share among the copies.
TEST(Sharding, HybridShardsReduceAmongCopiesWhatIsLeft) {
  Plan plan = fp16_plan(3, 8);
  plan.dp_replicate = plan.grid.replicas = 2;
  const ReplicaGroup group = dense_replicas(plan);
  EXPECT_EQ(group.shards, 4);
  EXPECT_EQ(group.copies, 2);
  const std::vector<Work> works = gradient_reduction(group, 1000, plan.precision);
  ASSERT_EQ(works.size(), 2u);
  EXPECT_EQ(works[0].kind, WorkKind::reduce_scatter);
  EXPECT_EQ(works[0].axis, Axis::shard);
  EXPECT_EQ(works[0].bytes.value, 2000);
  EXPECT_EQ(works[1].kind, WorkKind::all_reduce);
  EXPECT_EQ(works[1].axis, Axis::replica);
  EXPECT_EQ(works[1].bytes.value, 500);
  EXPECT_EQ(static_bytes(lowered(plan)), 16 * ((parameters(plan) + 3) / 4));
}

TEST(Sharding, ContextParallelRanksHoldShardsToo) {
  Plan plan = fp16_plan(1, 4);
  plan.cp = plan.grid.cp = 2;
  plan.kernels.flash_attention = true;
  EXPECT_EQ(dense_replicas(plan).shards, 8);
  EXPECT_EQ(dense_replicas(plan).shard_axis, Axis::data);
}

TEST(Sharding, GatheredUnitsComeAndGo) {
  for (const bool copied_out : {false, true}) {
    for (const bool reshard : {false, true}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        Plan plan = fp16_plan(3, 8, 2);
        plan.sharding.copied_out = copied_out;
        plan.sharding.reshard_after_forward = reshard;
        plan.recompute = recompute;
        const RoleMemory memory = trace_memory(lowered(plan))[0];
        EXPECT_EQ(memory.start, memory.end);
        plan.zero = 2;
        EXPECT_LT(memory.start, trace_memory(lowered(plan))[0].start);
      }
    }
  }
}

// Of eight layers three at most are there at once: the one that computes, the next, and the buffer
// of a gather.
TEST(Sharding, FewUnitsAreThereAtOnce) {
  Plan plan = fp16_plan(3, 64, 1);
  plan.recompute = Recompute::full;
  plan.kernels.flash_attention = true;
  plan.seq = 16;  // activations of no weight
  const auto most = [&](bool reshard) {
    plan.sharding.reshard_after_forward = reshard;
    const RoleMemory memory = trace_memory(lowered(plan))[0];
    return (memory.peak - memory.start).value;
  };
  StageContent layer{.layers = 1};
  const int64_t unit = 2 * stage_parameters(small_gpt(), plan, layer);
  EXPECT_GE(most(false) - most(true), 4 * unit);
}

// Gathers take `gather`, products m + n + k, the rest nothing.
Time step_with_gathers(const Plan& plan, Time gather) {
  const OpGraph graph = lowered(plan);
  Prices prices = sample::only_products(graph);
  for (size_t w = 0; w < graph.works.size(); ++w)
    if (graph.works[w].kind == WorkKind::all_gather) prices.by_work[w].time = gather;
  return run(compile(graph, prices)).makespan;
}

TEST(Sharding, OneUnitAheadHidesAllGathersButTheFirst) {
  Plan plan = fp16_plan(3, 4);
  const Time free = step_with_gathers(plan, Time{0});
  const Time gather{100};  // less than the products of a layer, or of the head
  // What lies outside the layers, and the first layer.
  EXPECT_EQ(step_with_gathers(plan, gather), free + gather * 2);
  plan.sharding.prefetch = 0;
  EXPECT_EQ(step_with_gathers(plan, gather), free + gather * (1 + 2 * 8));
}

TEST(Sharding, UnitsOfSeveralLayersAreGatheredTogether) {
  Plan plan = fp16_plan(3, 4);
  plan.sharding.unit_layers = 3;
  plan.sharding.prefetch = 0;
  const Time gather{100};
  EXPECT_EQ(step_with_gathers(plan, gather),
            step_with_gathers(plan, Time{0}) + gather * (1 + 2 * 3));
}

TEST(Sharding, PipelineStagesMayKeepWhatTheyGathered) {
  Plan plan = fp16_plan(3, 4, 4, 2);
  plan.sharding.reshard_after_forward = false;
  // Once a step: a gather and a reduction.
  EXPECT_EQ(elements_sent(lowered(plan)), 2 * parameters(plan));
  const int64_t psi = parameters(plan);
  EXPECT_EQ(static_bytes(lowered(plan)), 4 * psi + 16 * ((psi + 3) / 4));
  plan.sharding.reshard_after_forward = true;
  EXPECT_GT(elements_sent(lowered(plan)), 8 * psi);
}

TEST(Sharding, GathersAfterTheOptimizerGoByBucket) {
  Plan plan = fp16_plan(1, 4);
  plan.gather_bucket = 10'000'000;
  const OpGraph graph = lowered(plan);
  size_t gathers = 0;
  for (const Pass& pass : graph.passes)
    if (pass.name == "parameter gather") gathers = pass.ops.size();
  EXPECT_EQ(gathers, static_cast<size_t>((parameters(plan) + 9'999'999) / 10'000'000));
  EXPECT_EQ(elements_sent(graph), 2 * parameters(plan));
}

TEST(Sharding, AnOffloadedOptimizerLeavesItsShareOnTheHost) {
  Plan plan = fp16_plan(1, 4);
  const int64_t share = (parameters(plan) + 3) / 4;
  const int64_t all = static_bytes(lowered(plan));
  plan.offload.optimizer = 1;
  const OpGraph graph = lowered(plan);
  EXPECT_EQ(static_bytes(graph), all - 12 * share);
  int64_t copied = 0, updated = 0;
  for (const Work& work : graph.works) {
    if (work.kind == WorkKind::host_copy) copied += work.bytes.value;
    if (work.kind == WorkKind::host_adam) updated += work.bytes.value;
  }
  // Gradients and parameters are one work: both are `share` fp16 values.
  EXPECT_EQ(copied, 2 * share);
  EXPECT_EQ(updated, 28 * share);
}

// Bytes that go between device and host in a step.
int64_t host_copies(const OpGraph& graph) {
  int64_t bytes = 0;
  for (const Item& item : graph.roles[0].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops) {
      const Work& work = graph.works[static_cast<size_t>(op.work)];
      if (work.kind == WorkKind::host_copy) bytes += work.bytes.value;
    }
  }
  return bytes;
}

// Parameters of the shares of all units, each rounded up: of the eight layers and what is beside
// them.
int64_t in_units(const Plan& plan) {
  StageContent layer = plan.stages[0], ends = plan.stages[0];
  layer = StageContent{.layers = 1};
  ends.layers = 0;
  const ReplicaGroup group = dense_replicas(plan);
  const auto share = [&](const StageContent& unit) {
    return group.share(stage_parameters(small_gpt(), plan, unit));
  };
  return 8 * share(layer) + share(ends);
}

// 16-bit shards that come over for one microbatch: of layers for the forward and for the backward.
int64_t fetched_bytes(const Plan& plan) {
  StageContent ends = plan.stages[0];
  ends.layers = 0;
  const int64_t root = dense_replicas(plan).share(stage_parameters(small_gpt(), plan, ends));
  return 2 * (2 * in_units(plan) - root);
}

TEST(Sharding, OffloadedParametersComeBeforeEachGather) {
  Plan plan = fp16_plan(3, 4);
  plan.offload.parameters = true;
  const OpGraph graph = lowered(plan);
  size_t fetches = 0, gathers = 0;
  for (const Pass& pass : graph.passes)
    for (const Op& op : pass.ops) {
      fetches += graph.text(op.label) == "parameter fetch" ? 1u : 0u;
      gathers += graph.text(op.label) == "parameter gather" ? 1u : 0u;
    }
  EXPECT_GT(gathers, 16u);
  EXPECT_EQ(fetches, gathers);
}

// 2 bytes a parameter of the share leave the device, of any number of ranks.
TEST(Sharding, OffloadedParametersAreNotOnTheDevice) {
  for (const int64_t n : {1, 4}) {
    Plan plan = fp16_plan(3, n);
    const int64_t share = (parameters(plan) + n - 1) / n;
    plan.sharding.copied_out = false;  // Megatron's units
    EXPECT_EQ(static_bytes(lowered(plan)), 16 * share);
    plan.offload.parameters = true;
    EXPECT_EQ(static_bytes(lowered(plan)), 14 * share);
    const RoleMemory memory = trace_memory(lowered(plan))[0];
    EXPECT_EQ(memory.start, memory.end);
    // The GPU's optimizer sends what it has written.
    EXPECT_EQ(host_copies(lowered(plan)), fetched_bytes(plan) + 2 * share);
  }
}

// Kept for a step, they come once: of a single rank too, whose host has updated them.
TEST(Sharding, OffloadedParametersThatAreKeptComeOverOnceAStep) {
  for (const int64_t n : {1, 4}) {
    Plan plan = fp16_plan(3, n, 2, 2);
    plan.sharding.reshard_after_forward = false;
    plan.offload.optimizer = 1;
    const int64_t of_the_optimizer = host_copies(lowered(plan));
    plan.offload.parameters = true;
    EXPECT_EQ(host_copies(lowered(plan)), of_the_optimizer) << n;
  }
}

// DeepSpeed's buffer of gradients is where its optimizer is: nothing is left on the device.
TEST(Sharding, DeepSpeedSumsGradientsWhereItsOptimizerIs) {
  for (const int64_t microbatches : {1, 3}) {
    Plan plan = fp16_plan(3, 4, microbatches);
    const int64_t share = (parameters(plan) + 3) / 4;
    plan.offload.optimizer = 0.5;
    const int64_t host = share / 2;
    EXPECT_EQ(static_bytes(lowered(plan)), 2 * share + 14 * (share - host));
    plan.offload.optimizer = 1;
    EXPECT_EQ(static_bytes(lowered(plan)), 2 * share);
    // To the buffer and back in every backward; from the last one in fp32 to the optimizer, which
    // sends 16-bit parameters.
    const int64_t shares = in_units(plan);
    EXPECT_EQ(host_copies(lowered(plan)), microbatches * 4 * shares + 4 * shares + 2 * share);
    plan.offload.parameters = true;
    EXPECT_EQ(static_bytes(lowered(plan)), 0);
    EXPECT_EQ(host_copies(lowered(plan)),
              microbatches * 4 * shares + 4 * shares + microbatches * fetched_bytes(plan));
  }
}

// FSDP's CPUOffloadPolicy: shards, gradients and states are in the host's memory.
TEST(Sharding, PyTorchKeepsNothingOnTheDeviceBesideOffloadedParameters) {
  Plan plan = fp16_plan(3, 4);
  plan.sharding.wide = true;
  plan.precision = {};
  plan.offload.parameters = true;
  plan.offload.optimizer = 1;
  EXPECT_EQ(static_bytes(lowered(plan)), 0);
  // Parameters come in fp32, gradients go once.
  EXPECT_EQ(host_copies(lowered(plan)), 2 * fetched_bytes(plan) + 4 * in_units(plan));
}

// Bytes of all works of this label; the optimizer's copy to 16 bits is a cast.
int64_t bytes_of(const OpGraph& graph, std::string_view label) {
  int64_t bytes = 0;
  for (const Item& item : graph.roles[0].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops) {
      const Work& work = graph.works[static_cast<size_t>(op.work)];
      const bool of_optimizer = label == "parameter copy" && work.kernel == Kernel::cast;
      if (graph.text(op.label) == label && !of_optimizer) bytes += work.bytes.value;
    }
  }
  return bytes;
}

// A single rank's fp32 parameters are not gathered, but computed with in 16 bits all the same.
TEST(Sharding, WhatASingleRankFetchesInFp32IsCast) {
  for (const bool copied_out : {true, false}) {
    Plan plan = fp16_plan(3, 1);
    plan.sharding.wide = true;
    plan.sharding.copied_out = copied_out;
    plan.precision = {};
    plan.offload.parameters = true;
    plan.offload.optimizer = 1;
    const OpGraph graph = lowered(plan);
    EXPECT_EQ(bytes_of(graph, "parameter fetch"), 2 * fetched_bytes(plan));
    EXPECT_EQ(bytes_of(graph, "parameter cast"), 3 * fetched_bytes(plan));  // 4 read, 2 written
    EXPECT_EQ(bytes_of(graph, "parameter copy"), 0);
    const RoleMemory memory = trace_memory(graph)[0];
    EXPECT_EQ(memory.start, memory.end);
  }
}

// Of a unit whose experts are on one rank, what is gathered is copied out, and no more.
TEST(Sharding, FetchedExpertsOfASingleRankAreNotCopiedOut) {
  Transformer model = small_gpt();
  model.experts = 8;
  model.experts_per_token = 2;
  model.moe_ffn = 4096;
  Plan plan = fp16_plan(3, 4);
  plan.ep = plan.grid.ep = 4;
  ASSERT_EQ(expert_replicas(plan).shards, 1);
  plan.offload.parameters = true;
  const OpGraph graph =
      lower(model, plan, find_schedule_family("1f1b")->generate({.pp = 1, .microbatches = 1}));
  check_graph(graph);
  EXPECT_GT(bytes_of(graph, "parameter gather"), 0);
  EXPECT_EQ(bytes_of(graph, "parameter copy"), 2 * bytes_of(graph, "parameter gather"));
  const RoleMemory memory = trace_memory(graph)[0];
  EXPECT_EQ(memory.start, memory.end);
}

TEST(Sharding, OffloadedActivationsLeaveRoomOnTheDevice) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    Plan plan = fp16_plan(0, 1, 2);
    plan.micro_batch = 64;  // activations that outweigh the optimizer's workspace
    plan.global_batch = 128;
    plan.recompute = recompute;
    const RoleMemory before = trace_memory(lowered(plan))[0];
    plan.offload.activation_layers = 6;
    const RoleMemory after = trace_memory(lowered(plan))[0];
    EXPECT_EQ(after.start, after.end);
    EXPECT_LT(after.peak, before.peak);
    plan.pp = plan.grid.pp = 2;
    plan.stages = even_stages(8, 2, 1);
    for (const RoleMemory& m : trace_memory(lowered(plan))) EXPECT_EQ(m.start, m.end);
  }
}

TEST(Sharding, OffloadedActivationsDoNotKeepGatheredUnits) {
  Plan plan = fp16_plan(3, 64);
  plan.kernels.flash_attention = true;
  plan.recompute = Recompute::full;
  const RoleMemory before = trace_memory(lowered(plan))[0];
  plan.offload.activation_layers = 8;
  EXPECT_LE(trace_memory(lowered(plan))[0].peak, before.peak);
}

}  // namespace
}  // namespace stepcast::sharding_test
