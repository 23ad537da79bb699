// SPDX-License-Identifier: Apache-2.0
// Recomputation by module, by op and with split checkpoints: what stays after a forward, what is
// computed again, and that every way of running it returns all memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/passes/stage_passes.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::recompute_test {
namespace {

constexpr int64_t kSeq = 512;
constexpr int64_t kHidden = 256;
constexpr int64_t kFfn = 768;
constexpr StageContent kMiddle{.layers = 1};
constexpr int64_t kToken = 2 * kSeq;  // bytes of one 16-bit value for each token

Transformer llama() {
  return sample::llama(2, kHidden, 8, 4, kFfn, 32000);
}

Plan plan_of(Recompute recompute) {
  Plan plan = sample::plan(1, 1, 1, 1, 1, kSeq);
  plan.kernels.flash_attention = true;
  plan.recompute = recompute;
  plan.recompute_modules.core_attention = false;
  return plan;
}

Plan with(bool RecomputeModules::*module) {
  Plan plan = plan_of(Recompute::selective);
  plan.recompute_modules.*module = true;
  return plan;
}

struct Passes {
  OpGraph graph;
  StagePasses passes;

  Passes(const Transformer& model, const Plan& plan, const StageContent& content = kMiddle,
         const PassChoice& choice = {}) {
    GraphBuilder builder(graph);
    passes = add_stage_passes(builder, model, plan, content, choice);
  }

  const Pass& pass(PassId id) const { return graph.passes[static_cast<size_t>(id)]; }
  int64_t kept() const {
    int64_t sum = 0;
    for (const MemoryEvent& e : pass(passes.forward).memory) {
      const int64_t bytes = graph.tensor(pass(passes.forward), e).bytes.value;
      sum += e.allocate ? bytes : -bytes;
    }
    return sum;
  }
  double flops(PassId id) const {
    double sum = 0;
    for (const Op& op : pass(id).ops) sum += graph.works[static_cast<size_t>(op.work)].flops.value;
    return sum;
  }
  void check(const std::vector<ActionKind>& kinds) {
    graph.roles.assign(1, {});
    bool recomputed = false;
    for (const ActionKind kind : kinds) {
      Item item;
      item.pass = pass_of(passes, kind, false, recomputed);
      item.has_action = true;
      item.action = {kind, 0, 0};
      graph.roles[0].items.push_back(item);
      recomputed = recomputed || kind == ActionKind::recompute;
    }
    check_graph(graph);
    const RoleMemory memory = trace_memory(graph).front();
    EXPECT_EQ(memory.end, memory.start);
  }
};

TEST(RecomputeModules, ASetWithoutTheCoreKeepsIt) {
  const Passes none(llama(), plan_of(Recompute::none));
  const Passes empty(llama(), plan_of(Recompute::selective));
  EXPECT_EQ(none.kept(), empty.kept());
  EXPECT_EQ(none.flops(none.passes.backward), empty.flops(empty.passes.backward));
}

TEST(RecomputeModules, NormsLeaveTheirOutputsOut) {
  const Passes none(llama(), plan_of(Recompute::none));
  const Passes norms(llama(), with(&RecomputeModules::norms));
  EXPECT_EQ(none.kept() - norms.kept(), 2 * kToken * kHidden);
  EXPECT_EQ(norms.pass(norms.passes.backward).ops.size(),
            none.pass(none.passes.backward).ops.size() + 2);
}

TEST(RecomputeModules, TheMlpKeepsItsInputAlone) {
  const Passes none(llama(), plan_of(Recompute::none));
  const Passes mlp(llama(), with(&RecomputeModules::mlp));
  // Output and statistics of the norm, both halves of fc1, the product.
  EXPECT_EQ(none.kept() - mlp.kept(), kToken * (kHidden + 3 * kFfn) + kSeq * 4);
  const double forward = 2.0 * kSeq * kHidden * 3 * kFfn;
  EXPECT_DOUBLE_EQ(mlp.flops(mlp.passes.backward) - none.flops(none.passes.backward), forward);
}

// torchtitan's policy: attention's output, and every second matrix product: of wq, wk, wv, wo, w1,
// w3, w2 the first, third, fifth, seventh; the layer's input.
TEST(PerOpRecomputation, KeepsAttentionAndEverySecondProduct) {
  const Passes per_op(llama(), plan_of(Recompute::per_op));
  const int64_t key = kHidden / 2;
  const int64_t kept = kHidden                             // input
                       + kHidden + key                     // queries, values
                       + kHidden                           // attention's output
                       + kFfn + kHidden;                   // gate, fc2
  EXPECT_EQ(per_op.kept(), kToken * kept + kSeq * 8 * 4);  // and a log-sum-exp a head
  const Passes none(llama(), plan_of(Recompute::none));
  const double again = 2.0 * kSeq * kHidden * (key + kHidden + kFfn);  // wk, wo, w3
  EXPECT_DOUBLE_EQ(per_op.flops(per_op.passes.backward) - none.flops(none.passes.backward), again);
}

TEST(PerOpRecomputation, WithoutAGateFc1IsTheThirdProductAndKept) {
  Transformer model = llama();
  model.gated = false;
  const Passes per_op(model, plan_of(Recompute::per_op));
  const Passes none(model, plan_of(Recompute::none));
  const double again = 2.0 * kSeq * kHidden * (kHidden / 2 + kHidden + kFfn);  // wk, wo, fc2
  EXPECT_DOUBLE_EQ(per_op.flops(per_op.passes.backward) - none.flops(none.passes.backward), again);
}

TEST(DistributedCheckpoints, KeepAShareOfEachUnitsInput) {
  Plan plan = plan_of(Recompute::full);
  plan.tp = plan.grid.tp = 4;
  plan.sp = false;
  const Passes whole(llama(), plan);
  plan.recompute_distribute = true;
  const Passes split(llama(), plan);
  EXPECT_EQ(whole.kept(), kToken * kHidden);
  EXPECT_EQ(split.kept(), kToken * kHidden / 4);
}

TEST(Recomputation, NothingOfATeacherIsKeptForIt) {
  Plan plan = plan_of(Recompute::per_op), taught = plan;
  taught.teacher = llama();
  taught.teacher_stages = {kMiddle};
  EXPECT_EQ(Passes(llama(), taught).kept(), Passes(llama(), plan).kept());
}

TEST(Recomputation, EveryKindReturnsAllMemoryHoweverItRuns) {
  using enum ActionKind;
  std::vector<Plan> plans{plan_of(Recompute::per_op), with(&RecomputeModules::norms),
                          with(&RecomputeModules::mlp)};
  plans.push_back(with(&RecomputeModules::norms));
  plans.back().recompute_modules.mlp = plans.back().recompute_modules.core_attention = true;
  plans.push_back(plan_of(Recompute::full));
  plans.back().recompute_distribute = true;
  for (Plan plan : plans) {
    for (int bits = 0; bits < 16; ++bits) {
      plan.tp = plan.grid.tp = (bits & 1) != 0 ? 4 : 1;
      plan.sp = (bits & 2) != 0 && plan.tp > 1;
      plan.kernels.flash_attention = (bits & 4) != 0;
      plan.precision.scaling = (bits & 8) != 0 ? Scaling::tensorwise : Scaling::none;
      for (const Transformer& model : {llama(), sample::gpt(2, 256, 8, 51200, kSeq)}) {
        Passes p(model, plan, {.layers = 2, .embedding = true, .head = true},
                 {.split = true, .recompute = true});
        p.check({forward, backward});
        p.check({forward, backward_input, backward_weight});
        p.check({forward, recompute, backward});
        p.check({forward, recompute, backward_input, backward_weight});
      }
    }
  }
}

Transformer latent_mixture() {
  Transformer model = llama();
  model.kv_heads = model.heads;
  model.q_rank = 96;
  model.kv_rank = 64;
  model.qk_nope_dim = model.v_dim = 32;
  model.qk_rope_dim = 16;
  model.experts = 4;
  model.experts_per_token = 2;
  model.moe_ffn = 512;
  model.shared_ffn = 256;
  return model;
}

// Megatron-Core: linear layers behind a norm that is recomputed keep no quantized input either
// (set_save_original_input).
TEST(RecomputeModules, NormsLeaveOutTheirQuantizedCopiesToo) {
  const Transformer model = latent_mixture();
  const StageContent content{.layers = 1, .kinds = {layer_kind(model, 0)}};
  const auto kept = [&](bool norms) {
    Plan plan = plan_of(Recompute::selective);
    plan.recompute_modules.norms = norms;
    plan.precision.scaling = Scaling::blockwise;
    return Passes(model, plan, content).kept();
  };
  // Inputs of both down projections and of the shared experts, a byte a value and a scale for each
  // 128; the router's in 16 bits.
  EXPECT_EQ(kept(false) - kept(true),
            3 * (kSeq * kHidden + kSeq * kHidden / 128 * 4) + kToken * kHidden);
}

// DeepSeek-V3, arXiv 2412.19437, sections 3.2.3 and 3.3.3: of a layer with experts stay the
// residual stream, both latents, attention's output in 12 bits, tokens and the input of SwiGLU in
// fp8, and what is small.
TEST(RecomputeModules, OfDeepSeekV3KeepWhatItsReportSays) {
  using enum ActionKind;
  const Transformer model = latent_mixture();
  const StageContent content{.layers = 1, .kinds = {layer_kind(model, 0)}};
  Plan plan = plan_of(Recompute::selective);
  plan.recompute_modules = {
      .core_attention = false, .norms = true, .mla_up_projection = true, .moe_activation = true};
  plan.precision.scaling = Scaling::blockwise;
  plan.precision.attention_output = KeptFormat::e5m6;
  plan.moe.activation_input = KeptFormat::fp8;
  Passes p(model, plan, content, {.split = true, .recompute = true});
  const auto scaled = [](int64_t values, int64_t bits) {
    return values * bits / 8 + values / 128 * 4;
  };
  const int64_t rows = 2 * kSeq;
  const int64_t streams = 2 * kToken * kHidden;
  const int64_t latents = kToken * (96 + 64 + 16);
  const int64_t context = scaled(kSeq * 8 * 32, 12);
  const int64_t experts = scaled(rows * kHidden, 8) + scaled(rows * 2 * 512, 8);
  const int64_t shared = scaled(kSeq * 2 * 256, 8);
  const int64_t statistics = kSeq * 4 * (4 + 8);  // four norms; the log-sum-exp of each head
  const int64_t router = kSeq * 4 * (4 + 1);
  EXPECT_EQ(p.kept(), streams + latents + context + experts + shared + statistics + router);
  p.check({forward, backward});
  p.check({forward, backward_input, backward_weight});
  p.check({forward, recompute, backward});
}

TEST(Recomputation, MixturesOfExpertsReturnAllMemoryToo) {
  using enum ActionKind;
  Transformer model = llama();
  model.experts = 4;
  model.experts_per_token = 2;
  model.moe_ffn = 512;
  model.shared_ffn = 256;
  const StageContent content{.layers = 2, .kinds = {layer_kind(model, 0), layer_kind(model, 1)}};
  std::vector<Plan> plans{plan_of(Recompute::per_op), plan_of(Recompute::full)};
  for (const auto module : {&RecomputeModules::moe, &RecomputeModules::moe_activation,
                            &RecomputeModules::shared_experts, &RecomputeModules::norms})
    plans.push_back(with(module));
  for (size_t i = 0, count = plans.size(); i < count; ++i) {
    plans.push_back(plans[i]);
    plans.back().moe.activation_input = KeptFormat::fp8;
  }
  for (Plan plan : plans) {
    for (const Scaling scaling : {Scaling::none, Scaling::delayed, Scaling::mxfp8}) {
      plan.precision.scaling = scaling;
      Passes p(model, plan, content, {.split = true, .recompute = true});
      p.check({forward, backward});
      p.check({forward, backward_input, backward_weight});
      p.check({forward, recompute, backward});
    }
  }
}

TEST(Recomputation, LatentAttentionReturnsAllMemoryToo) {
  using enum ActionKind;
  Transformer model = llama();
  model.kv_heads = model.heads;
  model.q_rank = 96;
  model.kv_rank = 64;
  model.qk_nope_dim = model.v_dim = 32;
  model.qk_rope_dim = 16;
  std::vector<Plan> plans{plan_of(Recompute::none), plan_of(Recompute::per_op),
                          plan_of(Recompute::full)};
  for (const auto module : {&RecomputeModules::mla_up_projection, &RecomputeModules::norms,
                            &RecomputeModules::core_attention})
    plans.push_back(with(module));
  for (Plan plan : plans) {
    for (const Scaling scaling : {Scaling::none, Scaling::delayed, Scaling::mxfp8}) {
      for (const int64_t tp : {1, 4}) {
        plan.tp = plan.grid.tp = tp;
        plan.sp = tp > 1;
        plan.precision.scaling = scaling;
        Passes p(model, plan, {.layers = 2}, {.split = true, .recompute = true});
        p.check({forward, backward});
        p.check({forward, backward_input, backward_weight});
        p.check({forward, recompute, backward});
      }
    }
  }
}

// Korthikanti et al. 2022 (arXiv:2205.05198), figure 7: together, sequence parallelism and
// selective recomputation keep about a fifth of what tensor parallelism alone does; Table 2 has
// (34 / t) against (10 + 24 / t + 5 a s / (h t)) for each s b h.
TEST(Recomputation, SelectiveWithSequenceParallelismKeepsAFifth) {
  struct Row {
    int64_t hidden, heads;
    double least, most;
  };
  for (const Row& row : {Row{6144, 64, 0.15, 0.18}, Row{12288, 96, 0.17, 0.20},
                         Row{20480, 128, 0.19, 0.21}, Row{25600, 160, 0.19, 0.21}}) {
    const Transformer model = sample::gpt(1, row.hidden, row.heads, 51200, 2048);
    Plan plan = sample::plan(8, 1, 1, 1, 1, 2048);
    plan.kernels.flash_attention = false;
    plan.sp = false;
    const Passes alone(model, plan);
    plan.sp = true;
    plan.recompute = Recompute::selective;
    const Passes together(model, plan);
    const double share = static_cast<double>(together.kept()) / static_cast<double>(alone.kept());
    EXPECT_GT(share, row.least) << row.hidden;
    EXPECT_LT(share, row.most) << row.hidden;
  }
}

TEST(RecomputedUnits, DeepSpeedOf2021GathersThemAgainForTheirBackward) {
  using enum ActionKind;
  Plan plan = plan_of(Recompute::full);
  plan.dp = plan.grid.dp = 4;
  plan.zero = 3;
  plan.sharding.prefetch = 0;
  const auto gathers = [&](PassId StagePasses::*id, bool in_lists) {
    plan.sharding.in_lists = in_lists;
    Passes p(llama(), plan);
    p.check({forward, backward});
    int count = 0;
    for (const Op& op : p.pass(p.passes.*id).ops)
      count += p.graph.works[static_cast<size_t>(op.work)].kind == WorkKind::all_gather ? 1 : 0;
    return count;
  };
  EXPECT_EQ(gathers(&StagePasses::forward, false), 1);
  EXPECT_EQ(gathers(&StagePasses::forward, true), 1);
  EXPECT_EQ(gathers(&StagePasses::backward, false), 1);
  EXPECT_EQ(gathers(&StagePasses::backward, true), 2);
}

}  // namespace
}  // namespace stepcast::recompute_test
