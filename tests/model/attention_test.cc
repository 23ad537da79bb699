// SPDX-License-Identifier: Apache-2.0
// Attention in its forms: sequences split over ranks, latent keys and values, windows, beside the
// MLP.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "model/parameters.h"
#include "model/passes/stage_passes.h"
#include "model/shard.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::attention_test {
namespace {

constexpr int64_t kSeq = 1024, kMicro = 2;
constexpr int64_t kHidden = 256, kHeads = 8;

Transformer gpt() {
  return sample::gpt(4, kHidden, kHeads, 51200, kSeq);
}

Transformer llama() {
  return sample::llama(4, kHidden, kHeads, 4, 768, 51200);
}

// The attention of DeepSeek-V3 (arXiv 2412.19437, section 4.2) with fewer heads in a narrow model.
Transformer latent(int64_t q_rank = 96) {
  Transformer t = sample::llama(4, kHidden, kHeads, kHeads, 768, 51200);
  t.q_rank = q_rank;
  t.kv_rank = 64;
  t.qk_nope_dim = 32;
  t.qk_rope_dim = 16;
  t.v_dim = 32;
  return t;
}

Plan flash(int64_t tp = 1) {
  Plan p = sample::plan(tp, 1, 1, 1, kMicro, kSeq);
  p.kernels.flash_attention = true;
  return p;
}

Plan split(int64_t cp, CpComm how, int64_t inner = 1) {
  Plan p = flash();
  p.cp = cp;
  p.cp_comm = how;
  p.cp_inner = inner;
  return p;
}

struct Stage {
  OpGraph graph;
  StagePasses passes;

  Stage(const Transformer& model, const Plan& plan, const StageContent& content,
        const PassChoice& choice = {}) {
    GraphBuilder builder(graph);
    passes = add_stage_passes(builder, model, plan, content, choice);
  }

  const Pass& pass(PassId id) const { return graph.passes[static_cast<size_t>(id)]; }
  const Work& work(const Op& op) const { return graph.works[static_cast<size_t>(op.work)]; }

  double kept() const {
    double sum = 0;
    for (const MemoryEvent& e : pass(passes.forward).memory) {
      const auto bytes = static_cast<double>(graph.tensor(pass(passes.forward), e).bytes.value);
      sum += e.allocate ? bytes : -bytes;
    }
    return sum;
  }

  double flops(PassId id) const {
    double sum = 0;
    for (const Op& op : pass(id).ops) sum += work(op).flops.value;
    return sum;
  }

  std::vector<Work> works(PassId id, WorkKind kind, Axis axis = Axis::none) const {
    std::vector<Work> found;
    for (const Op& op : pass(id).ops)
      if (work(op).kind == kind && work(op).axis == axis) found.push_back(work(op));
    return found;
  }
  size_t count(PassId id, WorkKind kind, Axis axis) const { return works(id, kind, axis).size(); }

  using OpText = std::tuple<std::string, WorkId, int>;
  template <class Choose>
  std::vector<OpText> ops(PassId id, const Choose& choose) const {
    std::vector<OpText> out;
    for (const Op& op : pass(id).ops)
      if (choose(op)) out.emplace_back(graph.text(op.label), op.work, static_cast<int>(op.stream));
    return out;
  }

  // Bytes that a step leaves behind.
  int64_t left_by(const std::vector<ActionKind>& actions) {
    graph.roles.assign(1, {});
    bool recomputed = false;
    for (const ActionKind kind : actions) {
      recomputed = recomputed || kind == ActionKind::recompute;
      Item item;
      item.pass = pass_of(passes, kind, false, recomputed);
      item.has_action = true;
      item.action.kind = kind;
      graph.roles[0].items.push_back(item);
    }
    check_graph(graph);
    int64_t left = 0;
    for (const Item& item : graph.roles[0].items)
      for (const MemoryEvent& e : pass(item.pass).memory) {
        const int64_t bytes = graph.tensor(pass(item.pass), e).bytes.value;
        left += e.allocate ? bytes : -bytes;
      }
    return left;
  }
};

constexpr StageContent kWhole{.layers = 4, .embedding = true, .head = true};
constexpr StageContent kLayer{.layers = 1};
constexpr int64_t kTensor = kSeq * kMicro * kHidden * 2;  // bytes of all heads' queries

// ------------------------------------------------------------------------- context parallelism ---
struct ContextSplit {
  CpComm how;
  int64_t inner;
};
const std::vector<ContextSplit> kContextSplits{
    {CpComm::p2p, 1}, {CpComm::all_gather, 1}, {CpComm::all_to_all, 1}, {CpComm::hierarchical, 2}};

// Every rank has 1/cp of the tokens and keeps 1/cp of everything.
TEST(ContextParallel, HalvesAndQuartersWhatIsKept) {
  const double whole = Stage(gpt(), flash(), kWhole).kept();
  for (const int64_t cp : {2, 4}) {
    for (const ContextSplit& context : kContextSplits) {
      const Stage part(gpt(), split(cp, context.how, context.inner), kWhole);
      EXPECT_EQ(part.kept() * static_cast<double>(cp), whole)
          << cp << ' ' << static_cast<int>(context.how);
    }
  }
}

TEST(ContextParallel, RanksTogetherComputeWhatOneDoes) {
  const Stage one(llama(), flash(), kWhole);
  for (const int64_t cp : {2, 4}) {
    for (const ContextSplit& context : kContextSplits) {
      const Stage part(llama(), split(cp, context.how, context.inner), kWhole);
      const auto ranks = static_cast<double>(cp);
      EXPECT_NEAR(part.flops(part.passes.forward) * ranks / one.flops(one.passes.forward), 1,
                  1e-12);
      EXPECT_NEAR(part.flops(part.passes.backward) * ranks / one.flops(one.passes.backward), 1,
                  1e-12);
    }
  }
}

// Transformer Engine, AttnFuncWithCPAndKVP2P: keys and values to the next rank but in the last
// step; backward keys and values again, then both with their gradients, then these alone.
TEST(ContextParallel, RingPassesKeysAndValuesOnBesideEachStep) {
  const Stage s(llama(), split(4, CpComm::p2p), kLayer);
  const int64_t kv = kTensor / 4;  // half as many key heads as heads, keys and values, 4 ranks
  const std::vector<Work> there = s.works(s.passes.forward, WorkKind::shift, Axis::cp);
  ASSERT_EQ(there.size(), 3u);
  for (const Work& w : there) EXPECT_EQ(w.bytes.value, kv);
  const std::vector<Work> back = s.works(s.passes.backward, WorkKind::shift, Axis::cp);
  ASSERT_EQ(back.size(), 4u);
  EXPECT_EQ(back[0].bytes.value, kv);
  EXPECT_EQ(back[1].bytes.value, 2 * kv);
  EXPECT_EQ(back[2].bytes.value, 2 * kv);
  EXPECT_EQ(back[3].bytes.value, kv);
  EXPECT_EQ(s.works(s.passes.forward, WorkKind::attention_forward).size(), 4u);
  EXPECT_EQ(s.works(s.passes.backward, WorkKind::attention_backward).size(), 4u);
}

// The transfer is launched before the attention that it runs beside, and the next one waits for it.
TEST(ContextParallel, StepsOfTheRingWaitForTheTransferBefore) {
  const Stage s(llama(), split(2, CpComm::p2p), kLayer);
  const Pass& pass = s.pass(s.passes.forward);
  std::vector<uint32_t> attention;
  uint32_t transfer = 0;
  for (uint32_t i = 0; i < pass.ops.size(); ++i) {
    if (s.work(pass.ops[i]).kind == WorkKind::shift) transfer = i;
    if (s.work(pass.ops[i]).kind == WorkKind::attention_forward) attention.push_back(i);
  }
  ASSERT_EQ(attention.size(), 2u);
  EXPECT_LT(transfer, attention[0]);
  const auto waits_for_transfer = [&](uint32_t op) {
    return std::ranges::any_of(pass.waits.of(op), [&](const Wait& w) { return w.on == transfer; });
  };
  EXPECT_FALSE(waits_for_transfer(attention[0]));
  // The op behind the first step's attention, on the compute stream, is the second step's.
  EXPECT_TRUE(waits_for_transfer(attention[1]));
}

// DeepSpeed-Ulysses (Jacobs et al. 2023, arXiv 2309.14509, section 3.1): queries, keys, values,
// context.  Transformer Engine keeps the context as it comes back and exchanges it once more in the
// backward, with its gradient.
TEST(ContextParallel, UlyssesMakesFourExchangesALayer) {
  const Stage s(llama(), split(4, CpComm::all_to_all), kLayer);
  EXPECT_EQ(s.count(s.passes.forward, WorkKind::all_to_all, Axis::cp), 4u);
  EXPECT_EQ(s.count(s.passes.backward, WorkKind::all_to_all, Axis::cp), 5u);
  const Work w = s.works(s.passes.forward, WorkKind::attention_forward).front();
  EXPECT_EQ(w.m, kSeq);
  EXPECT_EQ(w.n, kSeq);
  EXPECT_EQ(w.heads, kHeads / 4);
  EXPECT_EQ(w.kv_heads, 1);
}

TEST(ContextParallel, GatheredKeysAreGatheredAgainAndTheirGradientsScattered) {
  const Stage s(llama(), split(4, CpComm::all_gather), kLayer);
  EXPECT_EQ(s.count(s.passes.forward, WorkKind::all_gather, Axis::cp), 2u);
  EXPECT_EQ(s.count(s.passes.backward, WorkKind::all_gather, Axis::cp), 2u);
  EXPECT_EQ(s.count(s.passes.backward, WorkKind::reduce_scatter, Axis::cp), 2u);
  // Of all tokens, as nccl-tests counts.
  EXPECT_EQ(s.works(s.passes.forward, WorkKind::all_gather, Axis::cp).front().bytes.value,
            kTensor / 2);
}

TEST(ContextParallel, BothExchangesInsideAndPassesOnOutside) {
  const Stage s(llama(), split(8, CpComm::hierarchical, 2), kLayer);
  EXPECT_EQ(s.count(s.passes.forward, WorkKind::all_to_all, Axis::cp_inner), 4u);
  EXPECT_EQ(s.count(s.passes.forward, WorkKind::shift, Axis::cp_outer), 3u);
  EXPECT_EQ(s.count(s.passes.backward, WorkKind::shift, Axis::cp_outer), 4u);
  EXPECT_EQ(s.works(s.passes.forward, WorkKind::attention_forward).front().heads, kHeads / 2);
}

// A selectively recomputed core exchanges and passes on once more.
TEST(ContextParallel, RecomputedCoreCommunicatesAgain) {
  Plan plan = split(4, CpComm::p2p);
  plan.recompute = Recompute::selective;
  const Stage s(llama(), plan, kLayer);
  EXPECT_EQ(s.count(s.passes.backward, WorkKind::shift, Axis::cp), 3u + 4u);
}

// ------------------------------------------------------------------------------ latent attention -
TEST(LatentAttention, StagesHoldTheParametersOfTheModel) {
  for (const int64_t q_rank : {0, 96}) {
    const Transformer t = latent(q_rank);
    EXPECT_EQ(stage_parameters(t, flash(), kWhole), parameters(t));
    // Over tensor-parallel ranks what each holds whole is counted as often.
    const int64_t whole = shared_parameters(t, kWhole);
    EXPECT_EQ(4 * stage_parameters(t, flash(4), kWhole) - 3 * whole, parameters(t));
  }
}

TEST(LatentAttention, FlopsEqualTheClosedForm) {
  for (const int64_t q_rank : {0, 96}) {
    const Transformer t = latent(q_rank);
    const Stage s(t, flash(), kWhole);
    const double closed = forward_matmul_flops(t, kMicro, kSeq, true);
    EXPECT_NEAR(s.flops(s.passes.forward) / closed, 1, 1e-12);
    // Backward twice the products, and the scores once more.
    const double scores = 4 * 2.0 * kMicro * kHeads * (kSeq * kSeq / 2.0) * (32 + 16);
    EXPECT_NEAR(s.flops(s.passes.backward) / (2 * closed + scores), 1, 1e-12);
  }
}

// Per token, in values: the input, its norm, both latents before and after their norms, queries and
// keys of 48 and values of 32 a head, the context; the MLP keeps input, norm, up and activation.
TEST(LatentAttention, KeepsBothLatentsAndAllHeads) {
  const Stage s(latent(), flash(), kLayer);
  const double values = kHidden * 2 + (96 + 64 + 16) + (96 + 64) + kHeads * (48 + 48 + 32) +
                        kHeads * 32 + kHidden * 2 + 3 * 768;
  const double statistics = 4.0 * (4 + kHeads);  // four RMS norms, log-sum-exp
  EXPECT_EQ(s.kept(), kSeq * kMicro * (2 * values + statistics));
}

// Nor the norms of the latents, which are a part of the up projections.
TEST(LatentAttention, RecomputedUpProjectionsKeepNoHeads) {
  Plan plan = flash();
  plan.recompute = Recompute::selective;
  const double with = Stage(latent(), plan, kLayer).kept();
  plan.recompute_modules.mla_up_projection = true;
  Stage s(latent(), plan, kLayer, {.split = true, .recompute = true});
  EXPECT_EQ(with - s.kept(), 2.0 * kSeq * kMicro * (kHeads * (48 + 48 + 32) + 96 + 64));
  using enum ActionKind;
  EXPECT_EQ(s.left_by({forward, backward}), 0);
  EXPECT_EQ(s.left_by({forward, recompute, backward}), 0);
  EXPECT_EQ(s.left_by({forward, backward_input, backward_weight}), 0);
}

// Megatron-LM: down projections are whole on every rank, so that with sequence parallelism the
// latents and the shared part of the keys are gathered, not the residual stream.
TEST(LatentAttention, GathersLatentsUnderSequenceParallelism) {
  const Stage s(latent(), flash(4), kLayer);
  std::vector<int64_t> widths;
  for (const Work& w : s.works(s.passes.forward, WorkKind::all_gather, Axis::tp))
    widths.push_back(w.bytes.value / (kSeq * kMicro * 2));
  EXPECT_EQ(widths, (std::vector<int64_t>{16, 96, 64, kHidden}));  // the last: fc1
}

TEST(LatentAttention, ValuesAreNarrowerThanQueries) {
  const Stage s(latent(), flash(), kLayer);
  const Work w = s.works(s.passes.forward, WorkKind::attention_forward).front();
  EXPECT_EQ(w.k, 48);
  EXPECT_EQ(w.value_dim, 32);
  EXPECT_EQ(w.kv_heads, kHeads);
}

// ----------------------------------------------------------------------------------------- windows
TEST(Windows, OfEachLayerLimitItsPairs) {
  Transformer t = llama();
  t.windows = {128, 0, 128, 0};
  std::vector<StageContent> stages{{.layers = 4}};
  assign_layers(stages, t);
  const Stage s(t, flash(), stages[0]);
  const std::vector<Work> works = s.works(s.passes.forward, WorkKind::attention_forward);
  ASSERT_EQ(works.size(), 4u);
  const double all = kSeq * kSeq / 2.0, band = kSeq * 128 - 128 * 128 / 2.0;
  EXPECT_DOUBLE_EQ(works[0].flops.value / works[1].flops.value, band / all);
  EXPECT_EQ(works[0], works[2]);
  EXPECT_EQ(works[1], works[3]);
}

// ---------------------------------------------------------------------------------- parallel block
size_t all_reduces(const Transformer& t, PassId StagePasses::*pass) {
  Plan plan = flash(4);
  plan.sp = false;
  const Stage s(t, plan, kLayer);
  return s.count(s.passes.*pass, WorkKind::all_reduce, Axis::tp);
}

// Shoeybi et al. 2019 (arXiv 1909.08053), figure 4: four all-reduces a layer, two each way.
TEST(ParallelBlock, SavesOneOfTheFourAllReducesOfALayer) {
  EXPECT_EQ(all_reduces(llama(), &StagePasses::forward), 2u);
  EXPECT_EQ(all_reduces(llama(), &StagePasses::backward), 2u);
  Transformer t = llama();
  t.parallel_block = true;
  EXPECT_EQ(all_reduces(t, &StagePasses::forward), 1u);
  EXPECT_EQ(all_reduces(t, &StagePasses::backward), 2u);
}

// Neither the residual stream between attention and MLP nor the second norm is kept.
TEST(ParallelBlock, KeepsOneResidualStreamLess) {
  Transformer t = llama();
  const double usual = Stage(t, flash(), kLayer).kept();
  t.parallel_block = true;
  EXPECT_EQ(usual - Stage(t, flash(), kLayer).kept(), 1.0 * kTensor);
  t.shared_norm = true;
  EXPECT_EQ(usual - Stage(t, flash(), kLayer).kept(), 2.0 * kTensor + 4 * kSeq * kMicro);
  EXPECT_EQ(stage_parameters(t, flash(), kWhole), parameters(t));
}

// The projection's bias and the second product's, where kernels of their own add them.
TEST(ParallelBlock, EachBranchAddsItsBias) {
  const auto biases = [](bool attention, Kernel kernel, PassId StagePasses::*pass) {
    Transformer t = gpt();
    t.parallel_block = true;
    t.attention_output_bias = attention;
    Plan plan = flash();
    plan.kernels.fused_bias_dropout_add = false;
    const Stage s(t, plan, kLayer);
    int64_t count = 0;
    for (const Op& op : s.graph.passes[static_cast<size_t>(s.passes.*pass)].ops) {
      const Work& w = s.graph.works[static_cast<size_t>(op.work)];
      count += w.kind == WorkKind::memory_bound && w.kernel == kernel;
    }
    return count;
  };
  for (const auto& [kernel, pass] : {std::pair{Kernel::bias_add, &StagePasses::forward},
                                     std::pair{Kernel::bias_backward, &StagePasses::backward}})
    EXPECT_EQ(biases(true, kernel, pass), biases(false, kernel, pass) + 1);
}

TEST(ParallelBlock, FlopsAreThoseOfAnyLayer) {
  Transformer t = llama();
  const Stage usual(t, flash(), kWhole);
  t.parallel_block = t.shared_norm = true;
  const Stage s(t, flash(), kWhole);
  EXPECT_EQ(s.flops(s.passes.forward), usual.flops(usual.passes.forward));
  EXPECT_EQ(s.flops(s.passes.backward), usual.flops(usual.passes.backward));
}

// -------------------------------------------------------------------------- everything, every pass
std::vector<std::pair<Transformer, Plan>> variants() {
  std::vector<std::pair<Transformer, Plan>> out;
  Transformer beside = llama(), beside_shared = gpt();
  beside.parallel_block = true;
  beside_shared.parallel_block = beside_shared.shared_norm = true;
  Transformer normed = llama();
  normed.qk_norm = true;
  for (const Transformer& t : {gpt(), normed, latent(), latent(0), beside, beside_shared}) {
    for (const int layout : {0, 1, 2}) {
      std::vector<Plan> plans{flash(layout > 0 ? 4 : 1)};
      plans[0].sp = layout > 1;
      if (layout == 0) {
        for (const ContextSplit& context : kContextSplits)
          plans.push_back(split(4, context.how, context.inner));
      }
      for (Plan& p : plans) {
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          p.recompute = recompute;
          out.emplace_back(t, p);
        }
      }
    }
  }
  return out;
}

TEST(EveryAttention, LeavesNothingBehind) {
  using enum ActionKind;
  for (const auto& [model, plan] : variants()) {
    Stage s(model, plan, kWhole, {.split = true, .recompute = true});
    EXPECT_EQ(s.left_by({forward, backward}), 0);
    EXPECT_EQ(s.left_by({forward, backward_input, backward_weight}), 0);
    EXPECT_EQ(s.left_by({forward, recompute, backward}), 0);
    EXPECT_EQ(s.left_by({forward, recompute, backward_input, backward_weight}), 0);
  }
}

TEST(EveryAttention, BIsIAndThenWOpByOp) {
  const auto of_weights = [](const Op& op) { return op.phase == Phase::backward_weight; };
  const auto others = [&](const Op& op) { return !of_weights(op); };
  for (const auto& [model, plan] : variants()) {
    const Stage s(model, plan, kWhole, {.split = true});
    EXPECT_EQ(s.ops(s.passes.input_gradient, others), s.ops(s.passes.backward, others));
    auto weights = s.ops(s.passes.weight_gradient, of_weights);
    auto same = s.ops(s.passes.backward, of_weights);
    std::ranges::sort(weights);
    std::ranges::sort(same);
    EXPECT_EQ(weights, same);
  }
}

}  // namespace
}  // namespace stepcast::attention_test
