// SPDX-License-Identifier: Apache-2.0
// Encoders, encoders with a decoder, and multi-token prediction: from model to step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/parameters.h"
#include "model/passes/stage_passes.h"
#include "schedules/families/families.h"
#include "schedules/lower/lower.h"
#include "sim/diagnostic.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::architectures_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kHidden = 256, kSeq = 128, kEncoderSeq = 512;

// T5: twice as many layers as either stack.
Transformer t5(int64_t layers) {
  Transformer t = sample::gpt(layers, kHidden, 4, 1024, 0);
  t.encoder_layers = layers / 2;
  t.norm = Norm::rms_norm;
  t.positions = Positions::none;
  t.relative_buckets = 32;
  t.attention_bias = t.attention_output_bias = t.mlp_bias = false;
  t.attention_dropout = t.hidden_dropout = 0;
  return t;
}

Transformer bert() {
  Transformer t = sample::gpt(4, kHidden, 4, 1024, 512);
  t.bidirectional = t.embedding_norm = t.masked_head = true;
  t.token_types = 2;
  return t;
}

// DeepSeek-like as far as prediction goes.
Transformer predicting(int64_t modules) {
  Transformer t = sample::llama(4, kHidden, 4, 4, 512, 1024);
  t.mtp_layers = modules;
  return t;
}

Plan plan_of(const Transformer& model, int64_t tp, int64_t pp, int64_t micro = 2) {
  Plan plan = sample::plan(tp, pp, 1, 8, micro, kSeq);
  if (model.encoder_layers > 0) plan.encoder_seq = kEncoderSeq;
  plan.stages = even_stages(model.layers, pp, 1);
  assign_layers(plan.stages, model);
  return plan;
}

Schedule schedule_of(const char* name, const Plan& plan) {
  return find_schedule_family(name)->generate(
      {.pp = plan.pp, .vpp = plan.vpp, .microbatches = plan.microbatches()});
}

OpGraph step(const Transformer& model, const Plan& plan, const char* schedule = "1f1b") {
  OpGraph graph = lower(model, plan, schedule_of(schedule, plan));
  check_graph(graph);
  return graph;
}

const Pass& pass_named(const OpGraph& graph, std::string_view begin) {
  for (const Pass& pass : graph.passes)
    if (pass.name.starts_with(begin)) return pass;
  throw std::runtime_error("no such pass");
}

double flops(const OpGraph& graph, const Pass& pass) {
  double sum = 0;
  for (const Op& op : pass.ops) sum += graph.works[static_cast<size_t>(op.work)].flops.value;
  return sum;
}

int ops_labelled(const OpGraph& graph, const Pass& pass, std::string_view label) {
  int count = 0;
  for (const Op& op : pass.ops) count += graph.text(op.label) == label;
  return count;
}

// Bytes that a forward leaves to its backward.
int64_t kept(const OpGraph& graph, const Pass& pass, std::string_view label) {
  int64_t sum = 0;
  for (const MemoryEvent& e : pass.memory) {
    const Tensor& t = graph.tensor(pass, e);
    if (graph.text(t.label) == label) sum += (e.allocate ? 1 : -1) * t.bytes.value;
  }
  return sum;
}

// Bytes of the transfers between stages, each size once.
std::set<int64_t> transfers(const OpGraph& graph) {
  std::set<int64_t> sizes;
  for (const Rendezvous& r : graph.rendezvous) {
    const Work& w = graph.works[static_cast<size_t>(r.work)];
    if (w.kind == WorkKind::send_recv) sizes.insert(w.bytes.value);
  }
  return sizes;
}

// ------------------------------------------------------------------------------------------ FLOPs
// Unfused attention computes all pairs, so the ops of a forward are the model's FLOPs exactly.
TEST(EncoderAndDecoder, ForwardDoesTheModelsFlops) {
  const Transformer model = t5(8);
  const Plan plan = plan_of(model, 1, 1);
  const OpGraph graph = step(model, plan);
  const double expected = forward_matmul_flops(model, 2, kSeq, false, kEncoderSeq);
  EXPECT_DOUBLE_EQ(flops(graph, pass_named(graph, "forward")), expected);
  EXPECT_DOUBLE_EQ(flops(graph, pass_named(graph, "backward")), 2 * expected);
}

// The decoder's share by hand: own attention and MLP, attention to the encoder with keys and values
// of its tokens (Raffel et al. 2020, section 2.1).
TEST(EncoderAndDecoder, FlopsOfALayerAreTheSumOfItsProducts) {
  const Transformer model = t5(2);
  const double h = kHidden, s = kSeq, e = kEncoderSeq;
  const double mlp = 2 * 2 * h * 4 * h;
  const double encoder = e * (8 * h * h + mlp) + 4 * e * e * h;
  const double own = s * (8 * h * h + mlp) + 4 * s * s * h;
  const double cross = s * 4 * h * h + e * 4 * h * h + 4 * s * e * h;
  EXPECT_DOUBLE_EQ(forward_matmul_flops(model, 3, s, false, e),
                   3 * (encoder + own + cross + 2 * s * h * 1024));
}

TEST(Bert, SeesAllKeysAndHasAHeadOfItsOwn) {
  const Transformer model = bert();
  EXPECT_EQ(forward_matmul_flops(model, 1, kSeq, true),
            forward_matmul_flops(model, 1, kSeq, false));
  const OpGraph graph = step(model, plan_of(model, 1, 1));
  const Pass& forward = pass_named(graph, "forward");
  // The pooler works on one token of each of the two sequences.
  EXPECT_DOUBLE_EQ(flops(graph, forward),
                   forward_matmul_flops(model, 2, kSeq, false) + 2.0 * 2 * kHidden * kHidden);
  EXPECT_EQ(ops_labelled(graph, forward, "embedding norm"), 1);
  EXPECT_EQ(ops_labelled(graph, forward, "final norm"), 0);
}

TEST(Prediction, AddsALayerAProjectionAndAHead) {
  const Transformer one = predicting(1), none = predicting(0);
  const double layer = static_cast<double>(layer_parameters(one, 0) - 2 * kHidden);
  const double more =
      2.0 * kSeq * (layer + 2.0 * kHidden * kHidden + kHidden * 1024) + 4.0 * kSeq * kSeq * kHidden;
  EXPECT_DOUBLE_EQ(
      forward_matmul_flops(one, 1, kSeq, false) - forward_matmul_flops(none, 1, kSeq, false), more);
  for (const int64_t modules : {1, 2}) {
    const Transformer model = predicting(modules);
    const OpGraph graph = step(model, plan_of(model, 1, 1));
    const double expected = forward_matmul_flops(model, 2, kSeq, false);
    EXPECT_DOUBLE_EQ(flops(graph, pass_named(graph, "forward")), expected);
    EXPECT_DOUBLE_EQ(flops(graph, pass_named(graph, "backward")), 2 * expected);
  }
}

// ----------------------------------------------------------------------------------------- memory
TEST(Prediction, KeepsTheLogitsOfEveryDepth) {
  const auto softmax = [](int64_t modules) {
    const Transformer model = predicting(modules);
    const OpGraph graph = step(model, plan_of(model, 1, 1));
    return kept(graph, pass_named(graph, "forward"), "loss softmax");
  };
  EXPECT_EQ(softmax(0), 2 * kSeq * 1024 * 4);
  EXPECT_EQ(softmax(1), 2 * softmax(0));
  EXPECT_EQ(softmax(2), 3 * softmax(0));
}

TEST(EncoderAndDecoder, KeysAndValuesAreKeptAsLongAsTheEncodersSequence) {
  const Transformer model = t5(4);
  const OpGraph graph = step(model, plan_of(model, 1, 1));
  const Pass& forward = pass_named(graph, "forward");
  // Two layers, bf16.
  EXPECT_EQ(kept(graph, forward, "cross keys and values"), 2 * 2 * kEncoderSeq * 2 * kHidden * 2);
  EXPECT_EQ(kept(graph, forward, "cross queries"), 2 * 2 * kSeq * kHidden * 2);
}

struct Variant {
  Transformer model;
  int64_t tp = 1, pp = 1;
  Recompute recompute = Recompute::none;
  const char* schedule = "1f1b";
  bool flash = true;
};

void PrintTo(const Variant& v, std::ostream* out) {
  *out << (v.model.encoder_layers > 0 ? "t5"
           : v.model.bidirectional    ? "bert"
                                      : "mtp")
       << " tp" << v.tp << " pp" << v.pp << ' ' << v.schedule << " recompute "
       << static_cast<int>(v.recompute) << (v.flash ? " flash" : "");
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const Transformer& model : {t5(8), bert(), predicting(2)})
    for (const int64_t tp : {1, 2})
      for (const int64_t pp : {1, 2, 4})
        for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full})
          for (const bool flash : {false, true})
            all.push_back({model, tp, pp, r, pp > 1 && flash ? "zb-h1" : "1f1b", flash});
  return all;
}

class EveryVariant : public ::testing::TestWithParam<Variant> {};

// Each tensor is allocated and freed once (check_graph), and nothing is left.
TEST_P(EveryVariant, ReturnsItsMemory) {
  const Variant& v = GetParam();
  Plan plan = plan_of(v.model, v.tp, v.pp);
  plan.recompute = v.recompute;
  plan.kernels.flash_attention = v.flash;
  const OpGraph graph = step(v.model, plan, v.schedule);
  for (const RoleMemory& memory : trace_memory(graph)) {
    EXPECT_EQ(memory.start, memory.end);
    EXPECT_GT(memory.peak, memory.start);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryVariant, ::testing::ValuesIn(variants()));

// DeepSeek-V3 in small: latent attention, the module's layer has experts.
Transformer deepseek() {
  Transformer t = predicting(1);
  t.experts = 8;
  t.experts_per_token = 2;
  t.moe_ffn = 128;
  t.shared_ffn = 128;
  t.dense_layers = 1;
  t.q_rank = 96;
  t.kv_rank = 64;
  t.qk_nope_dim = t.v_dim = 64;
  t.qk_rope_dim = 32;
  t.head_dim = 96;
  return t;
}

struct Change {
  const char* name;
  void (*make)(Plan&);
};

class EveryChange : public ::testing::TestWithParam<Change> {};

TEST_P(EveryChange, ReturnsItsMemory) {
  for (const Transformer& model : {t5(8), bert(), predicting(2), deepseek()}) {
    for (const int64_t pp : {1, 2}) {
      SCOPED_TRACE(model.encoder_layers > 0 ? "t5" : model.bidirectional ? "bert" : "mtp");
      Plan plan = plan_of(model, 2, pp);
      plan.kernels.flash_attention = true;
      plan.dp = plan.grid.dp = 2;
      plan.global_batch *= 2;
      GetParam().make(plan);
      const OpGraph graph = step(model, plan);
      for (const RoleMemory& memory : trace_memory(graph)) EXPECT_EQ(memory.start, memory.end);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryChange,
    ::testing::Values(Change{"nothing", [](Plan&) {}},
                      Change{"fp8", [](Plan& p) { p.precision.scaling = Scaling::blockwise; }},
                      Change{"delayed", [](Plan& p) { p.precision.scaling = Scaling::delayed; }},
                      Change{"zero3", [](Plan& p) { p.zero = 3; }},
                      Change{"overlap", [](Plan& p) { p.overlap.dp_grad = true, p.zero = 1; }},
                      Change{"perop", [](Plan& p) { p.recompute = Recompute::per_op; }},
                      Change{"modules",
                             [](Plan& p) {
                               p.recompute = Recompute::selective;
                               p.recompute_modules = {
                                   .core_attention = false, .norms = true, .mlp = true};
                             }},
                      Change{"block",
                             [](Plan& p) {
                               p.recompute = Recompute::full;
                               p.recompute_method = RecomputeMethod::block;
                             }},
                      Change{"nosp", [](Plan& p) { p.sp = false; }}),
    [](const auto& param) { return std::string(param.param.name); });

// ------------------------------------------------------------------------------------- parameters
TEST(EncoderAndDecoder, StagesHoldTheModelAndTwoCopiesOfTheEmbedding) {
  const Transformer model = t5(8);
  const Plan plan = plan_of(model, 1, 4);
  int64_t sum = 0;
  for (const StageContent& content : plan.stages) sum += stage_parameters(model, plan, content);
  // Where the decoder begins, and for the tied head.
  EXPECT_EQ(sum, parameters(model) + 2 * 1024 * kHidden);
}

TEST(Bert, StagesHoldTheModelAndACopyOfTheEmbedding) {
  const Transformer model = bert();
  const Plan plan = plan_of(model, 1, 2);
  const int64_t sum =
      stage_parameters(model, plan, plan.stages[0]) + stage_parameters(model, plan, plan.stages[1]);
  EXPECT_EQ(sum, parameters(model) + 1024 * kHidden);
}

TEST(Prediction, ModulesAreHeldBesideACopyOfTheEmbedding) {
  const Transformer model = predicting(2);
  const Plan plan = plan_of(model, 1, 2);
  const int64_t sum =
      stage_parameters(model, plan, plan.stages[0]) + stage_parameters(model, plan, plan.stages[1]);
  EXPECT_EQ(sum, parameters(model) + prediction_parameters(model) + 1024 * kHidden);
  EXPECT_EQ(prediction_parameters(model),
            2 * (layer_parameters(model, 3) + 2 * kHidden * kHidden + 3 * kHidden));
}

// -------------------------------------------------------------------------------------- transfers
TEST(EncoderAndDecoder, TheEncodersOutputTravelsWithTheDecodersStream) {
  const Transformer model = t5(4);
  const OpGraph graph = step(model, plan_of(model, 1, 4));
  const int64_t encoder = 2 * kEncoderSeq * kHidden * 2, decoder = 2 * kSeq * kHidden * 2;
  EXPECT_THAT(transfers(graph), ElementsAre(encoder, encoder + decoder));
}

TEST(EncoderAndDecoder, TheStacksMayMeetInsideAStage) {
  const Transformer model = t5(6);
  Plan plan = plan_of(model, 1, 1);
  plan.pp = plan.grid.pp = 2;
  plan.stages = parse_stage_layout("Ettttt|tL");
  assign_layers(plan.stages, model);
  EXPECT_TRUE(plan.stages[0].encoder_ends && plan.stages[0].decoder_begins);
  EXPECT_TRUE(plan.stages[1].encoded);
  const OpGraph graph = step(model, plan);
  EXPECT_EQ(transfers(graph), std::set<int64_t>{2 * (kEncoderSeq + kSeq) * kHidden * 2});
}

TEST(Prediction, ModulesInAStageOfTheirOwnHandOnAllStreams) {
  const Transformer model = predicting(2);
  Plan plan = plan_of(model, 1, 1);
  plan.pp = plan.grid.pp = 4;
  plan.stages = parse_stage_layout("Ett|tt|mm|L");
  assign_layers(plan.stages, model);
  const OpGraph graph = step(model, plan);
  const int64_t stream = 2 * kSeq * kHidden * 2;
  EXPECT_THAT(transfers(graph), ElementsAre(stream, 3 * stream));
  // The modules' stage has the embedding, the last one the head, which is another matrix.
  EXPECT_EQ(stage_parameters(model, plan, plan.stages[2]),
            prediction_parameters(model) + 1024 * kHidden + kHidden);
  EXPECT_EQ(stage_parameters(model, plan, plan.stages[3]), 1024 * kHidden);
}

TEST(Prediction, ModulesMayStandInSeveralStages) {
  const Transformer model = predicting(2);
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    Plan plan = plan_of(model, 1, 1);
    plan.pp = plan.grid.pp = 4;
    plan.recompute = recompute;
    plan.stages = parse_stage_layout("Etttt,m|m||L");
    assign_layers(plan.stages, model);
    const OpGraph graph = step(model, plan);
    const int64_t stream = 2 * kSeq * kHidden * 2;
    EXPECT_THAT(transfers(graph), ElementsAre(2 * stream, 3 * stream));
    for (const RoleMemory& memory : trace_memory(graph)) EXPECT_EQ(memory.start, memory.end);
    int64_t sum = 0;
    for (const StageContent& content : plan.stages) sum += stage_parameters(model, plan, content);
    EXPECT_EQ(sum, parameters(model) + prediction_parameters(model) + 1024 * kHidden);
  }
}

// Megatron-LM: the gradient of the shared embedding is summed over all stages that have one.
TEST(Prediction, TheEmbeddingsGradientsAreSummedOverItsCopies) {
  const auto parties = [](const Transformer& model, int64_t pp) {
    const OpGraph graph = step(model, plan_of(model, 1, pp));
    for (const Rendezvous& r : graph.rendezvous)
      if (graph.text(r.label) == "embedding gradient all-reduce") return int{r.parties};
    return 0;
  };
  EXPECT_EQ(parties(predicting(0), 2), 0);
  EXPECT_EQ(parties(predicting(1), 2), 2);
  EXPECT_EQ(parties(t5(8), 4), 3);
  EXPECT_EQ(parties(t5(8), 2), 2);
}

// ----------------------------------------------------------------------------------------- layout
TEST(Layout, PredictionModulesFollowTheLayers) {
  const std::vector<StageContent> stages = parse_stage_layout("Et|t,mm|L");
  EXPECT_EQ(stages[1].predictions, 2);
  EXPECT_EQ(stages[1].layers, 1);
  EXPECT_THROW(parse_stage_layout("Et|m|tL"), InputError);
}

TEST(Layout, ModulesThatNoStageHoldsGoBeforeTheHead) {
  std::vector<StageContent> stages = even_stages(4, 2, 1);
  assign_layers(stages, predicting(1));
  EXPECT_EQ(stages[0].predictions, 0);
  EXPECT_EQ(stages[1].predictions, 1);
  EXPECT_EQ(stages[1].predicted, 0);
}

}  // namespace
}  // namespace stepcast::architectures_test
