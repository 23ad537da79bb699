// SPDX-License-Identifier: Apache-2.0
// The passes that only some schedules run: B in two halves, recomputation and offloading apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "model/parameters.h"
#include "model/passes/stage_passes.h"
#include "model/shard.h"
#include "sim/check.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::split_passes_test {
namespace {

constexpr int64_t kSeq = 512;
constexpr StageContent kWhole{.layers = 2, .embedding = true, .head = true};

struct Step {
  ActionKind kind;
  uint32_t microbatch = 0;
  bool last = false;
};
using enum ActionKind;

struct Passes {
  OpGraph graph;
  StagePasses passes;

  Passes(const Transformer& model, const Plan& plan, const StageContent& content,
         const PassChoice& choice = {.split = true, .recompute = true, .offload = true}) {
    GraphBuilder builder(graph);
    passes = add_stage_passes(builder, model, plan, content, choice);
  }

  const Pass& pass(PassId id) const { return graph.passes[static_cast<size_t>(id)]; }

  // One role that does these; check_graph sees that each tensor is allocated and freed in turn.
  RoleMemory memory_of(const std::vector<Step>& steps) {
    graph.roles.assign(1, {});
    std::vector<uint32_t> recomputed;
    for (const Step& s : steps) {
      if (s.kind == recompute) recomputed.push_back(s.microbatch);
      Item item;
      item.pass = pass_of(passes, s.kind, s.last, std::ranges::count(recomputed, s.microbatch) > 0);
      item.has_action = true;
      item.action = {s.kind, 0, s.microbatch};
      graph.roles[0].items.push_back(item);
    }
    check_graph(graph);
    return trace_memory(graph).front();
  }

  // What a pass leaves behind, norm statistics aside.
  double net(PassId id) const {
    double sum = 0;
    for (const MemoryEvent& e : pass(id).memory) {
      const Tensor& t = graph.tensor(pass(id), e);
      if (graph.text(t.label) == "norm statistics") continue;
      sum += static_cast<double>(e.allocate ? t.bytes.value : -t.bytes.value);
    }
    return sum;
  }

  using OpText = std::tuple<std::string, WorkId, int, int>;
  template <class Choose>
  std::vector<OpText> ops(PassId id, const Choose& choose) const {
    std::vector<OpText> out;
    for (const Op& op : pass(id).ops) {
      if (!choose(op)) continue;
      out.emplace_back(graph.text(op.label), op.work, static_cast<int>(op.stream), op.layer);
    }
    return out;
  }
};

// Everything that changes which ops a backward has.
std::vector<std::pair<std::string, std::pair<Transformer, Plan>>> variants() {
  std::vector<std::pair<std::string, std::pair<Transformer, Plan>>> out;
  for (int bits = 0; bits < 64; ++bits) {
    const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
    Transformer model =
        bit(0) ? sample::llama(2, 256, 8, 4, 768, 32000) : sample::gpt(2, 256, 8, 51200, kSeq);
    model.qk_norm = bit(0);
    model.attention_bias = model.attention_output_bias = model.mlp_bias = bit(1);
    model.attention_dropout = model.hidden_dropout = bit(2) ? 0.1 : 0;
    // One rank; tensor parallelism; with split sequences; without overlap of its collectives.
    const int layout = bits >> 3 & 3;
    Plan plan = sample::plan(layout > 0 ? 4 : 1, 1, 2, 1, 2, kSeq);
    plan.sp = layout > 1;
    plan.overlap.tp = layout == 3 ? TpOverlap::none : TpOverlap::backward;
    plan.kernels.flash_attention = bit(5);
    plan.kernels.gradient_accumulation_fusion = bit(1);
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      plan.recompute = recompute;
      out.push_back({std::to_string(bits) + "/" + std::to_string(static_cast<int>(recompute)),
                     {model, plan}});
    }
  }
  return out;
}

bool of_weights(const Op& op) {
  return op.phase == Phase::backward_weight;
}
bool of_compute(const Op& op) {
  return op.stream == Stream::compute;
}

TEST(SplitPasses, BIsIAndThenWOpByOp) {
  for (const auto& [name, both] : variants()) {
    const Passes p(both.first, both.second, kWhole, {.split = true});
    const StagePasses& s = p.passes;
    const auto all = [](const Op&) { return true; };
    EXPECT_EQ(p.ops(s.input_gradient, all), p.ops(s.backward, [](const Op& op) {
      return !of_weights(op);
    })) << name;
    EXPECT_TRUE(std::ranges::all_of(p.pass(s.weight_gradient).ops, of_weights)) << name;
    EXPECT_EQ(p.ops(s.weight_gradient, of_compute), p.ops(s.backward, [](const Op& op) {
      return of_weights(op) && of_compute(op);
    })) << name;
    // W gathers the inputs it reads, a little earlier than B does.
    auto gathers = p.ops(s.weight_gradient, [](const Op& op) { return !of_compute(op); });
    auto same = p.ops(s.backward, [](const Op& op) { return of_weights(op) && !of_compute(op); });
    std::ranges::sort(gathers);
    std::ranges::sort(same);
    EXPECT_EQ(gathers, same) << name;
  }
}

TEST(SplitPasses, RAndTheBackwardAfterItAreTheRecomputingBackwardOpByOp) {
  for (const auto& [name, both] : variants()) {
    const Passes p(both.first, both.second, kWhole);
    const StagePasses& s = p.passes;
    const auto again = [](const Op& op) { return op.phase == Phase::recompute; };
    const auto first = [](const Op& op) { return op.phase != Phase::recompute; };
    const auto works = [&](PassId id, auto choose) {
      auto ops = p.ops(id, choose);
      std::ranges::sort(ops);
      return ops;
    };
    if (both.second.recompute == Recompute::none) {
      ASSERT_EQ(p.pass(s.recompute).ops.size(), 1U) << name;
      EXPECT_EQ(p.graph.text(p.pass(s.recompute).ops[0].label), "pass through");
    } else {
      EXPECT_EQ(works(s.recompute, again), works(s.backward, again)) << name;
    }
    EXPECT_EQ(works(s.backward_after_recompute, first), works(s.backward, first)) << name;
    EXPECT_TRUE(works(s.backward_after_recompute, again).empty()) << name;
    EXPECT_TRUE(works(s.input_gradient_after_recompute, again).empty()) << name;
    EXPECT_EQ(works(s.weight_gradient_after_recompute, first), works(s.weight_gradient, first));
  }
}

TEST(SplitPasses, MemoryReturnsToItsStartHoweverTheyFollowEachOther) {
  const std::vector<std::vector<Step>> orders{
      {{forward}, {backward, 0, true}},
      {{forward}, {backward_input}, {backward_weight, 0, true}},
      {{forward}, {recompute}, {backward}},
      {{forward}, {recompute}, {backward_input}, {backward_weight, 0, true}},
      {{forward}, {offload}, {reload}, {backward}},
      {{forward},
       {offload},
       {forward, 1},
       {reload},
       {backward_input},
       {backward_input, 1},
       {backward_weight, 1},
       {backward_weight, 0, true}},
      {{forward}, {offload}, {reload}, {recompute}, {backward_input}, {backward_weight}},
  };
  for (const auto& [name, both] : variants()) {
    Plan plan = both.second;
    plan.overlap.dp_grad = true;
    Passes p(both.first, plan, kWhole);
    for (const std::vector<Step>& order : orders) {
      const RoleMemory memory = p.memory_of(order);
      EXPECT_EQ(memory.start, memory.end) << name;
      EXPECT_EQ(memory.peak_in_flight, order.size() == 8 ? 2 : 1) << name;
    }
  }
}

TEST(SplitPasses, PutOffWeightGradientsHoldMemory) {
  const Transformer model = sample::llama(3, 256, 8, 4, 768, 32000);
  Passes p(model, sample::plan(1, 1, 1, 1, 1, kSeq), {.layers = 3});
  const Bytes at_once = p.memory_of({{forward},
                                     {backward_input},
                                     {backward_weight},
                                     {forward, 1},
                                     {backward_input, 1},
                                     {backward_weight, 1}})
                            .peak;
  const Bytes put_off = p.memory_of({{forward},
                                     {backward_input},
                                     {forward, 1},
                                     {backward_input, 1},
                                     {backward_weight},
                                     {backward_weight, 1}})
                            .peak;
  // The second microbatch finds there what the first one's W still needs.
  EXPECT_EQ(static_cast<double>((put_off - at_once).value), -p.net(p.passes.weight_gradient));
}

// What F, I and W do to the memory of one layer of the classic transformer, in bytes for a token
// (s b of them) with 2-byte activations: +34h + 5as, -(2h + 5as), -32h (zero bubble's accounting).
// Of the 34h, W needs the 14h of the linear layers' inputs: 2h norm 1, 2h context, 2h norm 2, 8h
// activation.  I adds their output gradients: 6h qkv, 2h projection, 8h fc1, 2h fc2, 18h together.
// The norms' statistics, fp32 mean and deviation, 16 B a token, are not part of the accounting.
struct Deltas {
  double f = 0, i = 0, w = 0;
};

constexpr int64_t kHidden = 1024;
constexpr int64_t kHeads = 16;
constexpr int64_t kMicro = 2;
constexpr double kSb = 1.0 * kSeq * kMicro;

Deltas deltas_of(const Transformer& model, const Plan& plan) {
  const Passes p(model, plan, {.layers = 1}, {.split = true});
  return {p.net(p.passes.forward) / kSb, p.net(p.passes.input_gradient) / kSb,
          p.net(p.passes.weight_gradient) / kSb};
}

TEST(SplitPasses, MemoryOfAClassicLayerIsThatOfTheZeroBubblePaper) {
  const Transformer model = sample::gpt(1, kHidden, kHeads, 51200, kSeq);
  const double h = kHidden;
  const double as = kHeads * kSeq;
  const Deltas d = deltas_of(model, sample::plan(1, 1, 1, 1, kMicro, kSeq));
  EXPECT_EQ(d.f, 34 * h + 5 * as);
  EXPECT_EQ(d.i, -(2 * h + 5 * as));
  EXPECT_EQ(d.w, -32 * h);
}

TEST(SplitPasses, WithFlashAttentionTheInputGradientFreesAlmostNothing) {
  Plan plan = sample::plan(1, 1, 1, 1, kMicro, kSeq);
  plan.kernels.flash_attention = true;
  const Deltas d = deltas_of(sample::gpt(1, kHidden, kHeads, 51200, kSeq), plan);
  const double h = kHidden;
  const double log_sum_exp = 4.0 * kHeads;
  EXPECT_EQ(d.f, 34 * h + log_sum_exp);
  EXPECT_EQ(d.i, -(2 * h + log_sum_exp));
  EXPECT_EQ(d.w, -32 * h);
}

TEST(SplitPasses, WithTensorParallelismOutputGradientsOfRowParallelLayersAreWhole) {
  const Transformer model = sample::gpt(1, kHidden, kHeads, 51200, kSeq);
  const double h = kHidden;
  const double as = kHeads * kSeq;
  Plan plan = sample::plan(8, 1, 1, 1, kMicro, kSeq);
  plan.sp = false;
  const Deltas tensor = deltas_of(model, plan);
  // Norm outputs (4h) and the gradients of projection and fc2 (4h) are whole on each rank.
  EXPECT_EQ(tensor.w, -(8 + 24.0 / 8) * h);
  EXPECT_EQ(tensor.f + tensor.i, -tensor.w);
  plan.sp = true;
  const Deltas sequence = deltas_of(model, plan);
  // The gradients of projection and fc2 are kept as gathered, 4h, and each bias gradient reads the
  // split one beside, 4h / 8; the rest is divided.
  EXPECT_EQ(sequence.f, (34 * h + 5 * as) / 8);
  EXPECT_EQ(sequence.w, -(4 * h + (28 + 4) * h / 8));
  EXPECT_EQ(sequence.f + sequence.i, -sequence.w);
}

TEST(SplitPasses, WeightGradientsHoldInputAndOutputOfEachLinearLayer) {
  Transformer model = sample::llama(1, kHidden, kHeads, 4, 2816, 32000);
  const Plan plan = sample::plan(1, 1, 1, 1, kMicro, kSeq);
  const Shard s(model, plan);
  const int64_t inputs = s.hidden + s.q + s.hidden + s.ffn;
  const int64_t outputs = s.qkv + s.hidden + s.up + s.hidden;
  EXPECT_EQ(deltas_of(model, plan).w, -2.0 * static_cast<double>(inputs + outputs));
}

TEST(SplitPasses, TheLastWeightGradientReducesEveryGradientOnce) {
  for (const bool tied : {false, true}) {
    const Transformer model =
        tied ? sample::gpt(3, 2048, 16, 51200, kSeq) : sample::llama(3, 2048, 16, 8, 8192, 128256);
    Plan plan = sample::plan(2, 1, 4, 1, 1, kSeq);
    plan.overlap.dp_grad = true;
    plan.bucket_parameters = 10'000'000;
    const Passes p(model, plan, kWhole);
    for (const PassId id :
         {p.passes.last_weight_gradient, p.passes.last_weight_gradient_after_recompute}) {
      int64_t reduced = 0;
      int buckets = 0;
      for (const Op& op : p.pass(id).ops) {
        if (op.stream != Stream::dp) continue;
        reduced += p.graph.works[static_cast<size_t>(op.work)].bytes.value;
        ++buckets;
      }
      EXPECT_EQ(reduced, 4 * stage_parameters(model, plan, kWhole));
      EXPECT_GT(buckets, 3);
    }
    const auto beside = [](const Op& op) { return op.stream != Stream::dp; };
    EXPECT_EQ(p.ops(p.passes.last_weight_gradient, beside),
              p.ops(p.passes.weight_gradient, beside));
  }
}

TEST(SplitPasses, WithSplitSequencesGathersRunBesideEarlierWeightGradients) {
  Plan plan = sample::plan(4, 1, 1, 1, 1, kSeq);
  const Passes p(sample::llama(1, 1024, 16, 4, 4096, 32000), plan, {.layers = 1});
  std::vector<std::string> order;
  for (const Op& op : p.pass(p.passes.weight_gradient).ops) order.push_back(p.graph.text(op.label));
  EXPECT_EQ(order, (std::vector<std::string>{"fc1 input all-gather", "fc2 weight gradient",
                                             "fc1 weight gradient", "qkv input all-gather",
                                             "projection weight gradient", "qkv weight gradient"}));
  // Nothing stands between the gather and its end but the GEMM of the other layer.
  const Pass& pass = p.pass(p.passes.weight_gradient);
  EXPECT_TRUE(std::ranges::none_of(pass.waits.of(1), [](const Wait& w) { return w.on == 0; }));
  EXPECT_TRUE(std::ranges::any_of(pass.waits.of(2), [](const Wait& w) { return w.on == 0; }));
}

TEST(SplitPasses, OffloadCopiesWhatTheForwardLeaves) {
  Plan plan = sample::plan(1, 1, 1, 1, 1, kSeq);
  const Passes p(sample::gpt(3, 256, 8, 51200, kSeq), plan, {.layers = 3});
  int64_t kept = 0;
  for (const MemoryEvent& e : p.pass(p.passes.forward).memory) {
    const int64_t bytes = p.graph.tensor(p.pass(p.passes.forward), e).bytes.value;
    kept += e.allocate ? bytes : -bytes;
  }
  for (const PassId id : {p.passes.offload, p.passes.reload}) {
    ASSERT_EQ(p.pass(id).ops.size(), 1U);
    const Op& op = p.pass(id).ops[0];
    const Work& work = p.graph.works[static_cast<size_t>(op.work)];
    EXPECT_EQ(op.stream, Stream::copy);
    EXPECT_EQ(work.kind, WorkKind::host_copy);
    EXPECT_EQ(work.bytes.value, kept);
  }
}

TEST(SplitPasses, OnlyWhatIsAskedForIsBuilt) {
  const Transformer model = sample::gpt(3, 256, 8, 51200, kSeq);
  const Plan plan = sample::plan(1, 1, 1, 1, 1, kSeq);
  EXPECT_EQ(Passes(model, plan, kWhole, {}).graph.passes.size(), 2U);
  EXPECT_EQ(Passes(model, plan, kWhole, {.split = true}).graph.passes.size(), 4U);
  const Passes offloads(model, plan, kWhole, {.offload = true});
  EXPECT_EQ(offloads.graph.passes.size(), 4U);
  EXPECT_EQ(pass_of(offloads.passes, reload, false, false), offloads.passes.reload);
  for (const ActionKind kind : {backward_input, backward_weight, recompute}) {
    EXPECT_THROW(pass_of(offloads.passes, kind, false, false), InternalError);
  }
  EXPECT_THROW(pass_of(offloads.passes, backward, false, true), InternalError);
}

TEST(SplitPasses, AStageWithoutWorkHasThemAll) {
  const Transformer model = sample::gpt(3, 256, 8, 51200, kSeq);
  Passes p(model, sample::plan(1, 1, 1, 1, 1, kSeq), {});
  const RoleMemory memory = p.memory_of(
      {{forward}, {offload}, {reload}, {recompute}, {backward_input}, {backward_weight}});
  EXPECT_EQ(memory.start, memory.end);
}

}  // namespace
}  // namespace stepcast::split_passes_test
