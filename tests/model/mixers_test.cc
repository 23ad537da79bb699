// SPDX-License-Identifier: Apache-2.0
// Layers whose tokens something else than attention to all keys mixes: recurrent mixers, layers of
// one branch, attention to chosen keys, gates.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/parameters.h"
#include "model/passes/forward_only.h"
#include "model/passes/stage_passes.h"
#include "sim/memory/memory.h"
#include "tests/hand_graph.h"
#include "tests/model/sample.h"

namespace stepcast::mixers_test {
namespace {

// One role that runs these passes, one after the other.
void add_role(OpGraph& graph, std::initializer_list<std::pair<PassId, ActionKind>> passes) {
  RoleOps role;
  for (const auto& [pass, kind] : passes) {
    Item item;
    item.pass = pass;
    item.has_action = true;
    item.action.kind = kind;
    role.items.push_back(item);
  }
  graph.roles.push_back(role);
  check_graph(graph);
}

// A step of one stage: forward and backward of one microbatch.
struct OneStage {
  OpGraph graph;
  StagePasses passes;

  OneStage(const Transformer& model, const Plan& plan, StageContent content) {
    content.kinds.clear();
    for (int64_t i = 0; i < content.layers; ++i) content.kinds.push_back(layer_kind(model, i));
    GraphBuilder builder(graph);
    passes = add_stage_passes(builder, model, plan, content);
    add_role(graph,
             {{passes.forward, ActionKind::forward}, {passes.last_backward, ActionKind::backward}});
  }

  double flops(PassId id, const std::function<bool(const std::string&)>& count) const {
    double sum = 0;
    for (const Op& op : graph.passes[static_cast<size_t>(id)].ops)
      if (count(graph.text(op.label))) sum += graph.works[static_cast<size_t>(op.work)].flops.value;
    return sum;
  }
  double flops(PassId id) const {
    return flops(id, [](const std::string&) { return true; });
  }

  // Bytes that the forward leaves behind, without the statistics of norms.
  int64_t kept() const {
    const Pass& pass = graph.passes[static_cast<size_t>(passes.forward)];
    int64_t sum = 0;
    for (const MemoryEvent& e : pass.memory) {
      const Tensor& t = graph.tensor_tables[static_cast<size_t>(pass.tensors)][e.tensor];
      if (graph.text(t.label) != "norm statistics") sum += (e.allocate ? t.bytes : -t.bytes).value;
    }
    return sum;
  }

  // Bytes of gradients that are reduced over dp while the backward runs.
  int64_t reduced() const {
    int64_t sum = 0;
    for (const Op& op : graph.passes[static_cast<size_t>(passes.last_backward)].ops) {
      const Work& work = graph.works[static_cast<size_t>(op.work)];
      if (work.axis == Axis::dp || work.axis == Axis::edp) sum += work.bytes.value;
    }
    return sum;
  }
};

constexpr int64_t kSeq = 1024;

Transformer recurrent(Mixer mixer) {
  Transformer t = sample::llama(4, 1024, 16, 4, 2048, 32000);
  t.recurrence = {.heads = 32,
                  .head_dim = 64,
                  .groups = mixer == Mixer::mamba2 ? 8 : 16,
                  .state = 128,
                  .conv = 4,
                  .conv_bias = mixer == Mixer::mamba2,
                  .chunk = 64};
  t.mixers = {mixer, mixer, mixer, Mixer::attention};
  return t;
}

// Nemotron-H: each layer is one branch.
Transformer one_branch() {
  Transformer t = recurrent(Mixer::mamba2);
  t.experts = 16;
  t.experts_per_token = 2;
  t.moe_ffn = 512;
  t.shared_ffn = 1024;
  t.moe_latent = 256;
  t.mixers = {Mixer::mamba2, Mixer::none, Mixer::attention, Mixer::none};
  t.bare = {1, 0, 1, 0};
  t.expert_layers = {0, 1, 0, 0};
  return t;
}

Transformer chosen() {
  Transformer t = sample::llama(4, 1024, 16, 16, 2048, 32000);
  t.q_rank = 384;
  t.kv_rank = 256;
  t.qk_nope_dim = 64;
  t.qk_rope_dim = 32;
  t.v_dim = 64;
  t.head_dim = 96;
  t.index_topk = 256;
  t.index_heads = 8;
  t.index_dim = 64;
  t.indexers = {1, 0, 1, 1};
  return t;
}

Transformer gated() {
  Transformer t = sample::llama(4, 1024, 16, 4, 2048, 32000);
  t.attention_gate = t.qk_norm = true;
  return t;
}

// Layers with a window and others without one, whose heads are fewer and wider and whose values
// are their keys.
Transformer other_heads() {
  Transformer t = sample::llama(4, 1024, 16, 8, 2048, 32000);
  t.qk_norm = t.value_norm = t.branch_norms = true;
  t.windows = {256, 256, 0, 256};
  t.shapes = {{16, 4, 128, 128, false, true, 2048}};
  t.shape_of = {0, 0, 1, 0};
  return t;
}

// Values of another width than keys; layers with a window have more of both.
Transformer narrow_values() {
  Transformer t = sample::llama(4, 1024, 16, 4, 2048, 32000);
  t.head_dim = 96;
  t.v_dim = 64;
  t.windows = {0, 256, 256, 0};
  t.shapes = {{16, 8, 96, 64, true, false, 2048}};
  t.shape_of = {0, 1, 1, 0};
  return t;
}

// Layers without attention, and MLPs of different widths.
Transformer cut_blocks() {
  Transformer t = sample::llama(4, 1024, 16, 8, 2048, 32000);
  t.mixers = {Mixer::attention, Mixer::none, Mixer::attention, Mixer::none};
  t.shapes = {{16, 8, 64, 64, false, false, 1024}, {16, 4, 64, 64, false, false, 2048}};
  t.shape_of = {0, 1, 2, 0};
  return t;
}

// Gemma 4: an MLP beside the experts of every layer, and norms of their own.
Transformer beside_experts() {
  Transformer t = sample::llama(4, 1024, 16, 8, 2048, 32000);
  t.branch_norms = t.expert_norms = true;
  t.experts = 16;
  t.experts_per_token = 2;
  t.moe_ffn = 512;
  t.shared_ffn = 2048;
  return t;
}

// DeepSeek-V4: a window alone, chosen compressed keys, all compressed keys; four residual streams.
Transformer compressed() {
  Transformer t = sample::llama(4, 1024, 16, 1, 2048, 32000);
  t.q_rank = 256;
  t.qk_rope_dim = 32;
  t.out_groups = 4;
  t.out_rank = 128;
  t.attention_sinks = t.shared_values = true;
  t.sliding_window = 128;
  t.compressions = {0, 4, 128, 4};
  t.index_topk = 64;
  t.index_heads = 8;
  t.index_dim = 32;
  t.streams = 4;
  t.experts = 16;
  t.experts_per_token = 2;
  t.moe_ffn = t.shared_ffn = 512;
  t.dense_layers = 1;
  return t;
}

// Ranks that can split the model's layers, `tp` at most.
int64_t split(const Transformer& t, int64_t tp) {
  return t.compressions.empty() ? tp : 1;
}

std::vector<Transformer> all_models() {
  return {recurrent(Mixer::mamba2),
          recurrent(Mixer::gated_delta_net),
          one_branch(),
          chosen(),
          gated(),
          other_heads(),
          narrow_values(),
          cut_blocks(),
          beside_experts(),
          compressed()};
}

Plan flash(int64_t tp, int64_t dp) {
  Plan plan = sample::plan(tp, 1, dp, 1, 1, kSeq);
  plan.kernels.flash_attention = true;
  return plan;
}

// ------------------------------------------------------------------------------------- parameters

// By hand: z, x, B, C and dt of one projection; the convolution of x, B and C and its bias; A, D
// and the bias of dt; the norm; the projection out; an MLP and two norms.
TEST(Parameters, OfAStateSpaceLayer) {
  const int64_t x = 32 * 64, bc = 8 * 128;
  const int64_t mixer =
      1024 * (2 * x + 2 * bc + 32) + (x + 2 * bc) * (4 + 1) + 3 * 32 + x + x * 1024;
  EXPECT_EQ(layer_parameters(recurrent(Mixer::mamba2), 0), mixer + 3 * 1024 * 2048 + 2 * 1024);
}

// Queries, keys, values and their gate, two gates of each head; A and a bias; a norm that heads
// share.
TEST(Parameters, OfAGatedDeltaLayer) {
  const int64_t v = 32 * 64, k = 16 * 128;
  const int64_t mixer =
      1024 * (2 * k + 2 * v) + 1024 * 2 * 32 + (2 * k + v) * 4 + 2 * 32 + 64 + v * 1024;
  EXPECT_EQ(layer_parameters(recurrent(Mixer::gated_delta_net), 0),
            mixer + 3 * 1024 * 2048 + 2 * 1024);
}

TEST(Parameters, OfLayersOfOneBranchHaveOneNorm) {
  const Transformer t = one_branch();
  EXPECT_EQ(layer_parameters(t, 2), 1024 * (16 + 2 * 4) * 64 + 16 * 64 * 1024 + 1024);
  EXPECT_EQ(layer_parameters(t, 3), 3 * 1024 * 2048 + 1024);
  // Router, latent there and back, experts that read it, a shared one that does not.
  EXPECT_EQ(layer_parameters(t, 1),
            1024 * 16 + 2 * 1024 * 256 + 16 * 3 * 256 * 512 + 3 * 1024 * 1024 + 1024);
}

TEST(Parameters, OfAnIndexerAreThereWhereALayerHasOne) {
  const Transformer t = chosen();
  EXPECT_EQ(layer_parameters(t, 0) - layer_parameters(t, 1),
            384 * 8 * 64 + 1024 * 64 + 2 * 64 + 1024 * 8);
}

TEST(Parameters, OfAGateAreAsManyAsOfQueries) {
  Transformer without = gated();
  without.attention_gate = false;
  EXPECT_EQ(layer_parameters(gated(), 0) - layer_parameters(without, 0), 1024 * 16 * 64);
}

TEST(Parameters, OfLayersOfOtherSizesAreThoseOfTheirHeads) {
  const Transformer gemma = other_heads();
  const int64_t rest = 3 * 1024 * 2048 + 4 * 1024;
  EXPECT_EQ(layer_parameters(gemma, 0), 1024 * (16 + 2 * 8 + 16) * 64 + 2 * 64 + rest);
  // Keys are values, too.
  EXPECT_EQ(layer_parameters(gemma, 2), 1024 * (16 + 4 + 16) * 128 + 2 * 128 + rest);
  const Transformer mimo = narrow_values();
  const int64_t mlp = 3 * 1024 * 2048 + 2 * 1024;
  EXPECT_EQ(layer_parameters(mimo, 0), 1024 * (16 * 96 + 4 * (96 + 64) + 16 * 64) + mlp);
  EXPECT_EQ(layer_parameters(mimo, 1), 1024 * (16 * 96 + 8 * (96 + 64) + 16 * 64) + 16 + mlp);
  EXPECT_EQ(layer_parameters(cut_blocks(), 1), 3 * 1024 * 1024 + 1024);
}

// Four norms as in other layers of Gemma; of the router, before and after the experts, after the
// MLP; a scale of each expert.
TEST(Parameters, OfAnMlpBesideExpertsHaveNormsOfTheirOwn) {
  EXPECT_EQ(layer_parameters(beside_experts(), 0), 1024 * (16 + 2 * 8 + 16) * 64 + 3 * 1024 * 2048 +
                                                       16 * 3 * 1024 * 512 + 1024 * 16 + 8 * 1024 +
                                                       16);
}

// transformers' DeepseekV4Attention: both products of the queries, keys, both of the output, norms
// of latent and keys, a logit a head; a compressor's products, positions and norm.
TEST(Parameters, OfAttentionToCompressedKeys) {
  const Transformer t = compressed();
  const auto attention = [&](int64_t layer) {
    const PartParameters p = compressed_attention_parameters(t, layer_kind(t, layer));
    return p.matrices + p.vectors + p.whole;
  };
  const int64_t window =
      1024 * 256 + 256 * 1024 + 1024 * 64 + 1024 * 128 + 4 * 128 * 1024 + 256 + 64 + 16;
  EXPECT_EQ(attention(0), window);
  EXPECT_EQ(attention(1), window + 2 * 1024 * 128 + 4 * 128 + 64);
  EXPECT_EQ(attention(2), window + 2 * 1024 * 64 + 128 * 64 + 64);
  const int64_t rest = 3 * 1024 * 2048 + 2 * 1024 + 2 * (24 * 4 * 1024 + 24 + 3);
  EXPECT_EQ(layer_parameters(t, 0), window + rest);
  // DeepseekV4Indexer, which layer 2 has not.
  const PartParameters indexer = indexer_parameters(t);
  EXPECT_EQ(indexer.matrices, 256 * 8 * 32 + 1024 * (2 * 64 + 8));
  EXPECT_EQ(indexer.whole, 4 * 64 + 32);
  EXPECT_EQ(layer_parameters(t, 1) - layer_parameters(t, 2),
            attention(1) - attention(2) + indexer.matrices + indexer.whole);
}

TEST(Parameters, OfSeveralStreamsAreWhatWeighsThem) {
  Transformer one = compressed();
  one.streams = 1;
  EXPECT_EQ(parameters(compressed()) - parameters(one),
            4 * 2 * (24 * 4 * 1024 + 24 + 3) + 4 * 4 * 1024 + 4 + 1);
}

// A table chooses instead of the router, whose bias is for that.
TEST(Parameters, OfLayersWhoseExpertsATableChoosesHaveNoBias) {
  Transformer t = compressed();
  t.router_bias = true;
  const int64_t all = parameters(t);
  t.hashed_layers = 3;
  EXPECT_EQ(all - parameters(t), 2 * 16);  // the first layer is dense
}

TEST(Parameters, OfStagesSumToTheModel) {
  for (const Transformer& t : all_models()) {
    int64_t sum = 0;
    std::vector<StageContent> stages{
        {.layers = 1, .embedding = true}, {.layers = 2}, {.layers = 1, .head = true}};
    assign_layers(stages, t);
    for (const StageContent& s : stages) sum += stage_parameters(t, flash(1, 1), s);
    EXPECT_EQ(sum, parameters(t));
  }
}

// ------------------------------------------------------------------------------------------ FLOPs

// Token by token: what is written to the state and what is read from it.
TEST(Flops, OfARecurrenceGrowLinearlyWithTheSequence) {
  const double state = 2.0 * 32 * 64 * 128;
  for (const auto& [mixer, products] :
       {std::pair{Mixer::mamba2, 2.0}, std::pair{Mixer::gated_delta_net, 3.0}}) {
    Transformer t = recurrent(mixer);
    t.mixers.assign(4, mixer);
    const double matrices = static_cast<double>(active_parameters(t));
    const double one = forward_matmul_flops(t, 1, 1024, true);
    EXPECT_DOUBLE_EQ(forward_matmul_flops(t, 1, 2048, true), 2 * one);
    // Vectors and the lookup of the embedding are no products.
    EXPECT_LT(one, 1024 * (2 * matrices + 4 * products * state));
    Transformer wider = t;
    wider.recurrence.state = 0;
    wider.recurrence.groups = 0;
    const double keys = 2.0 * 1024 * (2.0 * static_cast<double>(t.recurrence.keys()) * 1024);
    EXPECT_DOUBLE_EQ(one - forward_matmul_flops(wider, 1, 1024, true),
                     4 * (1024 * products * state + keys));
  }
}

// arXiv 2405.21060, listing 1, of one layer: C B', states, and the output from both.
TEST(Flops, OfTheScanOfAStateSpaceAreThoseOfItsProducts) {
  const OneStage stage(recurrent(Mixer::mamba2), flash(1, 1), {.layers = 1});
  const double q = 64, n = 128, p = 64, tokens = kSeq;
  const auto chunk = [](const std::string& label) { return label.starts_with("chunk"); };
  EXPECT_DOUBLE_EQ(stage.flops(stage.passes.forward, chunk),
                   tokens * 2 * (8 * q * n + 32 * (p * n + p * (q + n))));
  // Twice as much backward, and scores and states once more.
  EXPECT_DOUBLE_EQ(stage.flops(stage.passes.last_backward, chunk),
                   tokens * 2 * (3 * (8 * q * n + 32 * p * n) + 2 * 32 * p * (q + n)));
}

// arXiv 2412.06464, eq. 16-19, of one layer; keys and queries are 128, values 64 wide.
TEST(Flops, OfTheDeltaRuleAreThoseOfItsProducts) {
  const OneStage stage(recurrent(Mixer::gated_delta_net), flash(1, 1), {.layers = 1});
  const auto scan = [](const std::string& label) {
    return label.starts_with("chunk") || label.starts_with("key products") ||
           label.starts_with("query products") || label.starts_with("held");
  };
  const double c = 64, k = 128, v = 64, of_head = 2 * (c * (3 * k + 2 * v) + 3 * k * v);
  EXPECT_DOUBLE_EQ(stage.flops(stage.passes.forward, scan), 32 * kSeq * of_head);
}

TEST(Flops, OfLayersOfOtherSizesAreThoseOfTheirHeads) {
  Transformer t = other_heads();
  const double all = forward_matmul_flops(t, 1, 1024, false);
  t.shapes.clear();
  t.shape_of.clear();
  // Of 1,024 tokens: 128 instead of 64 numbers a head in one layer of four, in products with
  // weights and with keys and values.
  const double weights = 2.0 * 1024 * 1024 * ((16 + 4 + 16) * 128 - (16 + 2 * 8 + 16) * 64);
  EXPECT_DOUBLE_EQ(all - forward_matmul_flops(t, 1, 1024, false),
                   weights + 2.0 * 1024 * 1024 * 16 * (2 * 128 - 2 * 64));
}

TEST(Flops, IndexersLearnFromInputsThatAreCutOff) {
  const Transformer t = chosen();
  const double projections = 2.0 * 1024 * (384 * 8 * 64 + 1024 * (64 + 8));
  EXPECT_DOUBLE_EQ(training_matmul_flops(t, 1, 1024, true),
                   3 * forward_matmul_flops(t, 1, 1024, true) - 3 * projections);
  EXPECT_DOUBLE_EQ(training_matmul_flops(gated(), 1, 1024, true),
                   3 * forward_matmul_flops(gated(), 1, 1024, true));
}

TEST(Flops, OfChosenKeysAreThoseOfTheLatentSpace) {
  Transformer t = chosen();
  t.indexers = {1, 1, 1, 1};
  Transformer none = t;
  none.index_heads = none.index_dim = 0;
  // Half of all pairs are scored.
  const double pairs = 1024.0 * 1024 / 2;
  const double projections = 2.0 * 1024 * (384 * 8 * 64 + 1024 * (64 + 8));
  EXPECT_DOUBLE_EQ(
      forward_matmul_flops(t, 1, 1024, true) - forward_matmul_flops(none, 1, 1024, true),
      4 * (pairs * 2 * 8 * 64 + projections));
  // 256 keys for all but the first queries, of which all heads read 2 x 256 + 32 numbers.
  Transformer fewer = none;
  fewer.index_topk = 128;
  const double band = (1024.0 * 256 - 256.0 * 128) - (1024.0 * 128 - 128.0 * 64);
  EXPECT_DOUBLE_EQ(
      forward_matmul_flops(none, 1, 1024, true) - forward_matmul_flops(fewer, 1, 1024, true),
      4 * band * 2 * 16 * (2 * 256 + 32));
}

// A query's window of 128, and 64 of up to 256 or all of up to 8 compressed keys.
TEST(Flops, OfCompressedKeysAreThoseOfWhatIsSeen) {
  const double window = 1024.0 * 128 - 128.0 * 64;
  const std::vector<double> pairs{window, window + 4 * (256.0 * 64 - 64.0 * 32),
                                  window + 128 * (8.0 * 8 - 8.0 * 4)};
  const auto core = [](const std::string& label) { return label == "attention"; };
  const auto scores = [](const std::string& label) { return label == "indexer scores"; };
  for (size_t i = 0; i < pairs.size(); ++i) {
    Transformer t = compressed();
    t.layers = 1;
    t.compressions = {t.compressions[i]};
    const OneStage stage(t, flash(1, 1), {.layers = 1});
    EXPECT_DOUBLE_EQ(stage.flops(stage.passes.forward, core), 2 * pairs[i] * 16 * (64 + 64));
    // Of a quarter of all keys those that a query sees.
    EXPECT_DOUBLE_EQ(stage.flops(stage.passes.forward, scores),
                     i == 1 ? 2 * (1024.0 * 1024 / 8) * 8 * 32 : 0);
    EXPECT_DOUBLE_EQ(compressed_pairs(t, layer_kind(t, 0), 1024, true), pairs[i]);
  }
  const Transformer t = compressed();
  EXPECT_DOUBLE_EQ(compressed_pairs(t, layer_kind(t, 1), 1024, false), 1024.0 * (128 + 64));
  EXPECT_DOUBLE_EQ(compressed_pairs(t, layer_kind(t, 2), 1024, false), 1024.0 * (128 + 8));
}

// ------------------------------------------------------------------------------------------ passes

TEST(Mixers, BalanceTheirMemoryHoweverTheyAreRun) {
  for (const Transformer& t : all_models()) {
    for (const bool sp : {false, true}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const Scaling scaling : {Scaling::none, Scaling::blockwise}) {
          Plan plan = flash(split(t, 4), 2);
          plan.sp = sp && plan.tp > 1;
          plan.recompute = recompute;
          plan.recompute_modules.norms = scaling == Scaling::none;
          plan.precision.scaling = scaling;
          plan.overlap.dp_grad = true;
          // The constructor checks that each tensor is freed once, by the pass that should.
          const OneStage stage(t, plan, {.layers = 4, .embedding = true, .head = true});
          const RoleMemory memory = trace_memory(stage.graph).front();
          EXPECT_EQ(memory.end, memory.start);
          EXPECT_GT(memory.peak, memory.start);
        }
      }
    }
  }
}

// What follows the core of these reads another tensor than the core's output.
TEST(Mixers, BalanceTheirMemoryWhereTheContextWouldBeCopied) {
  for (const Transformer& t : {chosen(), compressed(), gated()}) {
    Plan plan = flash(1, 2);
    plan.micro_batch = 2;
    plan.kernels.context_copies = true;
    const OneStage stage(t, plan, {.layers = 4});
    const RoleMemory memory = trace_memory(stage.graph).front();
    EXPECT_EQ(memory.end, memory.start);
  }
}

TEST(Mixers, BalanceTheirMemoryInSplitBackwards) {
  for (const Transformer& t : all_models()) {
    OpGraph graph;
    GraphBuilder builder(graph);
    StageContent content{.layers = 4, .embedding = true, .head = true};
    for (int64_t i = 0; i < 4; ++i) content.kinds.push_back(layer_kind(t, i));
    const StagePasses passes =
        add_stage_passes(builder, t, flash(split(t, 2), 1), content, {.split = true});
    add_role(graph, {{passes.forward, ActionKind::forward},
                     {passes.input_gradient, ActionKind::backward_input},
                     {passes.last_weight_gradient, ActionKind::backward_weight}});
    const RoleMemory memory = trace_memory(graph).front();
    EXPECT_EQ(memory.end, memory.start);
  }
}

TEST(Mixers, ReduceEveryGradientOnce) {
  for (const Transformer& t : all_models()) {
    for (const int64_t tp : {1, 2}) {
      Plan plan = flash(split(t, tp), 4);
      plan.overlap.dp_grad = true;
      plan.zero = 1;
      StageContent content{.layers = 4, .embedding = true, .head = true};
      for (int64_t i = 0; i < 4; ++i) content.kinds.push_back(layer_kind(t, i));
      const OneStage stage(t, plan, content);
      EXPECT_EQ(stage.reduced(), 4 * stage_parameters(t, plan, content));
    }
  }
}

TEST(Mixers, SplitOverTensorParallelRanksDoTheSameTogether) {
  const auto scan = [](const std::string& label) { return label.starts_with("chunk"); };
  for (const Mixer mixer : {Mixer::mamba2, Mixer::gated_delta_net}) {
    const OneStage one(recurrent(mixer), flash(1, 1), {.layers = 1});
    const OneStage four(recurrent(mixer), flash(4, 1), {.layers = 1});
    EXPECT_DOUBLE_EQ(one.flops(one.passes.forward, scan),
                     4 * four.flops(four.passes.forward, scan));
    EXPECT_DOUBLE_EQ(one.flops(one.passes.backward), 4 * four.flops(four.passes.backward));
  }
}

// A stage that holds no MLP makes none.
TEST(Mixers, LayersOfOneBranchLaunchIt) {
  const auto launched = [](int64_t layer) {
    Transformer t = one_branch();
    const auto rest = [layer](auto& of) { of = {of[static_cast<size_t>(layer)]}; };
    rest(t.mixers);
    rest(t.bare);
    rest(t.expert_layers);
    t.layers = 1;
    const OneStage stage(t, flash(1, 1), {.layers = 1});
    std::string all;
    for (const Op& op : stage.graph.passes[static_cast<size_t>(stage.passes.forward)].ops)
      all += stage.graph.text(op.label) + ",";
    return all;
  };
  EXPECT_EQ(launched(3), "norm 2,fc1,activation,fc2,mlp residual,");
  EXPECT_EQ(launched(2), "norm 1,qkv,rotary,attention,projection,attention residual,");
  EXPECT_EQ(launched(0),
            "norm 1,mixer in,convolution,decays,chunk states,chunk scores,chunk scan,state passing,"
            "gated norm,mixer out,mixer residual,");
}

// docs/memory.md: what a layer keeps, beside its input and the output of its norm.
TEST(Mixers, KeepWhatTheirBackwardReads) {
  const int64_t h = 1024, v = 32 * 64, n = 32, chunk = 64;
  const auto kept = [](Mixer mixer, int64_t tp) {
    Transformer t = recurrent(mixer);
    t.mixers = {mixer};
    t.bare = {1};
    t.layers = 1;
    return OneStage(t, flash(tp, 1), {.layers = 1}).kept();
  };
  const int64_t space = (2 * v + 2 * 8 * 128 + n) + v + v;
  EXPECT_EQ(kept(Mixer::mamba2, 1), 2 * kSeq * (2 * h + space));
  EXPECT_EQ(kept(Mixer::mamba2, 4), 2 * kSeq * (2 * h + space) / 4);
  const int64_t keys = 16 * 128;
  const int64_t delta = (2 * v + 2 * keys + 2 * n) + (v + 2 * keys) + 2 * v + 2 * n * 128 +
                        n * chunk + v + v + 2 * (2 * n);
  EXPECT_EQ(kept(Mixer::gated_delta_net, 1), 2 * kSeq * (2 * h + delta));
}

TEST(Mixers, LayersThatShareAChoiceScoreNoKeys) {
  const auto scores = [](const std::string& label) { return label.starts_with("indexer"); };
  Transformer t = chosen();
  t.layers = 1;
  t.indexers = {1};
  const OneStage own(t, flash(1, 1), {.layers = 1});
  t.indexers = {0};
  const OneStage shared(t, flash(1, 1), {.layers = 1});
  EXPECT_GT(own.flops(own.passes.forward, scores), 0);
  EXPECT_EQ(shared.flops(shared.passes.forward, scores), 0);
  const auto core = [](const std::string& label) { return label == "attention"; };
  // 256 of up to 1024 keys, in the latent space, for both.
  const double pairs = 1024.0 * 256 - 256.0 * 128;
  EXPECT_DOUBLE_EQ(shared.flops(shared.passes.forward, core), pairs * 2 * 16 * (2 * 256 + 32));
  EXPECT_DOUBLE_EQ(own.flops(own.passes.forward, core), shared.flops(shared.passes.forward, core));
}

TEST(Mixers, ExpertsOfALatentSendNoMoreThanIt) {
  const auto sent = [](int64_t latent) {
    Transformer t = one_branch();
    t.moe_latent = latent;
    Plan plan = flash(1, 4);
    plan.ep = 4;
    const OneStage stage(t, plan, {.layers = 4});
    int64_t bytes = 0;
    for (const Op& op : stage.graph.passes[static_cast<size_t>(stage.passes.forward)].ops) {
      const Work& w = stage.graph.works[static_cast<size_t>(op.work)];
      if (w.kind == WorkKind::all_to_all) bytes += w.bytes.value;
    }
    return bytes;
  };
  EXPECT_EQ(sent(0), 4 * sent(256));
}

// Beside what a layer with shared experts keeps: what the router reads normed, and what both norms
// at the end have read.
TEST(Mixers, NormsOfExpertsKeepWhatTheyRead) {
  const auto kept = [](bool norms) {
    Transformer t = beside_experts();
    t.expert_norms = norms;
    return OneStage(t, flash(1, 1), {.layers = 1}).kept();
  };
  EXPECT_EQ(kept(true) - kept(false), 3 * 2 * kSeq * 1024);
}

// ... which is an activation like any other that is kept.
TEST(Mixers, WhatNormsOfExpertsReadIsKeptAsActivations) {
  for (const Dispatcher dispatcher :
       {Dispatcher::all_to_all, Dispatcher::all_gather, Dispatcher::deepep})
    for (const auto& [ep, etp] : {std::pair{1, 1}, {4, 1}, {1, 2}, {2, 2}}) {
      Plan plan = flash(etp, 4);
      plan.sp = etp > 1;
      plan.ep = ep;
      plan.etp = etp;
      plan.moe.dispatcher = dispatcher;
      const OneStage stage(beside_experts(), plan, {.layers = 1});
      const Pass& pass = stage.graph.passes[static_cast<size_t>(stage.passes.forward)];
      std::map<uint32_t, bool> held;
      for (const MemoryEvent& e : pass.memory) held[e.tensor] = e.allocate;
      for (const auto& [tensor, kept] : held) {
        const Tensor& t = stage.graph.tensor_tables[static_cast<size_t>(pass.tensors)][tensor];
        if (kept) {
          EXPECT_EQ(t.category, MemoryCategory::activations) << stage.graph.text(t.label);
        }
      }
    }
}

// Without sequence parallelism each rank sends its part of the tokens to the experts, norms what
// comes back and hands that on.
TEST(Mixers, NormsOfExpertsAreOfARanksOwnPartOfTheTokens) {
  Plan plan = flash(4, 1);
  plan.mode = StepMode::prefill;
  plan.sp = false;
  StageContent content{.layers = 1};
  const Transformer t = beside_experts();
  content.kinds = {layer_kind(t, 0)};
  OpGraph graph;
  GraphBuilder builder(graph);
  const StagePasses passes = add_inference_passes(builder, t, plan, content);
  add_role(graph, {{passes.forward, ActionKind::forward}});
  const RoleMemory memory = trace_memory(graph).front();
  EXPECT_EQ(memory.end, memory.start);
  std::vector<std::string> order;
  std::map<std::string, int64_t> bytes;
  for (const Op& op : graph.passes[static_cast<size_t>(passes.forward)].ops) {
    order.push_back(graph.text(op.label));
    bytes[order.back()] = graph.works[static_cast<size_t>(op.work)].bytes.value;
  }
  const auto at = [&](const char* label) { return std::ranges::find(order, label); };
  ASSERT_NE(at("combine all-gather"), order.end());
  EXPECT_LT(at("expert output norm"), at("combine all-gather"));
  EXPECT_EQ(bytes["expert output norm"], 2 * 2 * kSeq / 4 * 1024);
}

// What an indexer reads beside the projection stays in 16 bits.
TEST(Mixers, LatentsThatAnIndexerReadsAreNotQuantizedByTheirNorm) {
  for (const Transformer& t : {chosen(), compressed()}) {
    const auto norm = [&](Scaling scaling) {
      Plan plan = flash(1, 1);
      plan.precision.scaling = scaling;
      const OneStage stage(t, plan, {.layers = 4});
      int64_t bytes = 0;
      for (const Op& op : stage.graph.passes[static_cast<size_t>(stage.passes.forward)].ops)
        if (stage.graph.text(op.label) == "query norm")
          bytes += stage.graph.works[static_cast<size_t>(op.work)].bytes.value;
      return bytes;
    };
    EXPECT_GT(norm(Scaling::none), 0);
    EXPECT_EQ(norm(Scaling::delayed), norm(Scaling::none));
  }
}

// docs/memory.md, of a layer with one vector for each 128 tokens.
TEST(Mixers, AttentionToCompressedKeysKeepsWhatItsBackwardReads) {
  Transformer t = compressed();
  t.streams = 1;
  t.layers = 1;
  t.compressions = {128};
  t.bare = {1};
  const int64_t h = 1024, q = 256, d = 64, heads = 16, groups = 4 * 128;
  EXPECT_EQ(OneStage(t, flash(1, 1), {.layers = 1}).kept(),
            2 * kSeq * (2 * h + 2 * q + 3 * heads * d + 2 * d + groups + 2 * heads + 2 * d) +
                2 * (kSeq / 128) * 2 * d);
}

// Four rows in place of one before each branch; of a branch its weights twice in fp32, its input
// and its output.
TEST(Mixers, SeveralStreamsKeepTheirRowsAndWhatBranchesRead) {
  const auto kept = [](int64_t streams) {
    Transformer t = sample::llama(1, 1024, 16, 4, 2048, 32000);
    t.streams = streams;
    return OneStage(t, flash(1, 1), {.layers = 1}).kept();
  };
  EXPECT_EQ(kept(4) - kept(1), kSeq * 2 * (2 * 3 * 1024 + 4 * 2 * 24 + 2 * 2 * 1024));
}

// A stage that begins with a layer which shares the choice of one before receives it: 256 whole
// numbers of 4 bytes a token.
TEST(Mixers, ChoicesOfKeysTravelToStagesThatShareThem) {
  const Transformer t = chosen();
  const auto received = [&](int64_t layer) {
    StageContent content{.layers = 1};
    content.kinds = {layer_kind(t, layer)};
    return received_choice(t, flash(2, 1), content).value;
  };
  EXPECT_EQ(received(1), kSeq * 256 * 4);
  EXPECT_EQ(received(2), 0);
  Transformer latent = t;
  latent.index_topk = 0;
  StageContent content{.layers = 1};
  content.kinds = {layer_kind(latent, 1)};
  EXPECT_EQ(received_choice(latent, flash(2, 1), content).value, 0);
}

// Four streams are handed on.
TEST(Mixers, SeveralStreamsTravelBetweenStages) {
  const Transformer t = compressed();
  const Plan plan = flash(1, 1);
  EXPECT_EQ(received_bytes(t, plan, {.layers = 1}).value, 2 * kSeq * 4 * 1024);
}

TEST(PredictionKind, OfLayersOfOneBranchHasAttentionAndExperts) {
  const LayerKind kind = prediction_kind(one_branch());
  EXPECT_TRUE(kind.attends() && kind.mlp && kind.experts && kind.predicts);
}

}  // namespace
}  // namespace stepcast::mixers_test
