// SPDX-License-Identifier: Apache-2.0
// Steps that only run forward: what they hold, what they cost, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/passes/forward_only.h"
#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"

namespace stepcast::inference_test {
namespace {

Scenario scenario_of(const std::string& mode, const std::string& more = "",
                     const std::string& model = "llama3-8b",
                     const std::string& batch = "{global: 8, micro: 8, seq: 4096}") {
  const std::string text =
      "model: " + model +
      "\ncluster: {preset: dgx-h100, nodes: 1, node: {gpus: 1}}\nbatch: " + batch + "\n" + mode +
      "\n" + more + "\n";
  return load_scenario_text(text, "test.yaml");
}

Scenario on_gpus(int gpus, const std::string& mode, const std::string& parallel,
                 const std::string& batch = "{global: 8, micro: 8, seq: 4096}") {
  return load_scenario_text(
      "model: llama3-8b\ncluster: {preset: dgx-h100, nodes: 1, node: {gpus: " +
          std::to_string(gpus) + "}}\nbatch: " + batch + "\nmode: " + mode +
          "\nparallel: " + parallel + "\n",
      "test.yaml");
}

std::string code_of(const std::string& mode, const std::string& more = "",
                    const std::string& model = "llama3-8b") {
  try {
    scenario_of(mode, more, model);
  } catch (const InputError& e) {
    return e.diagnostics.front().code;
  }
  return "none";
}

Result run_of(const Scenario& s) {
  return forecast(s, {.what_if = false});
}

double held(const Result& r, MemoryCategory category) {
  const RoleMemory& m = r.memory.front().memory;
  return static_cast<double>(m.at_peak[static_cast<size_t>(category)].value);
}

// ------------------------------------------------------------------------------------------ memory
// Llama-2-7B: 6,738,415,616 parameters, of which 2 x 131,072,000 are embedding and head and 266,240
// norms; the weights of linear layers take 4, 2, 1 or 0.5 bytes.
TEST(Inference, StoredWeightsTakeFourToHalfAByteEach) {
  constexpr double kLinear = 6'738'415'616 - 2 * 131'072'000 - 266'240;
  constexpr double kRest = 2 * 131'072'000 + 266'240;
  for (const auto& [format, bytes] :
       std::map<std::string, double>{{"fp32", 4}, {"bf16", 2}, {"int8", 1}, {"int4", 0.5}}) {
    const Result r = run_of(scenario_of("mode: decode", "precision: {weights: " + format + "}",
                                        "llama2-7b", "{global: 1, micro: 1, seq: 128}"));
    EXPECT_DOUBLE_EQ(held(r, MemoryCategory::parameters), kLinear * bytes + kRest * 2) << format;
    EXPECT_EQ(held(r, MemoryCategory::gradients), 0);
    EXPECT_EQ(held(r, MemoryCategory::optimizer_state), 0);
  }
}

// 2 x 32 layers x 8 heads x 128 x 2 bytes a token.
TEST(Inference, TheCacheHoldsKeysAndValuesOfAllTokens) {
  const Scenario s = scenario_of("mode: prefill");
  EXPECT_EQ(cache_bytes(s.model, s.plan, s.plan.stages.front(), 1).value, 131'072);
  const Result r = run_of(s);
  EXPECT_GE(held(r, MemoryCategory::activations), 131'072.0 * 8 * 4096);
  const Scenario narrow = scenario_of("mode: prefill", "precision: {kv_cache: fp8}");
  EXPECT_EQ(cache_bytes(narrow.model, narrow.plan, narrow.plan.stages.front(), 1).value, 65'536);
}

// DeepSeek-V2, table 1: 9/2 d_h layers elements a token, as 2.25 groups of grouped queries would
// need: 512 of the latent and 64 of the rotary part.
TEST(Inference, LatentAttentionCachesCompressedKeysAndReadsThem) {
  const Scenario s =
      scenario_of("mode: decode", "", "deepseek-v3", "{global: 1, micro: 1, seq: 32768}");
  EXPECT_EQ(cache_bytes(s.model, s.plan, s.plan.stages.front(), 1).value, 61 * (512 + 64) * 2);
  const Result r = run_of(s);
  Bytes read{};
  for (const Work& w : r.graph->works)
    if (w.kind == WorkKind::attention_forward) read = std::max(read, w.bytes);
  EXPECT_NEAR(static_cast<double>(read.value), 32768.0 * 576 * 2, 0.01 * 32768 * 576 * 2);
}

TEST(Inference, TensorParallelRanksShareTheCacheByHeads) {
  for (const int tp : {2, 4, 8}) {
    const Scenario s = on_gpus(tp, "decode", "{tp: " + std::to_string(tp) + "}");
    EXPECT_EQ(cache_bytes(s.model, s.plan, s.plan.stages.front(), 1).value, 131'072 / tp);
    EXPECT_FALSE(s.plan.sp);
  }
}

TEST(Inference, KeepsNothingForABackward) {
  const Result train = run_of(scenario_of("", "", "gpt3-1.3b", "{global: 1, micro: 1, seq: 2048}"));
  const Result prefill =
      run_of(scenario_of("mode: prefill", "", "gpt3-1.3b", "{global: 1, micro: 1, seq: 2048}"));
  const double cache = 2.0 * 24 * 2048 * 2 * 2048;
  EXPECT_LT(held(prefill, MemoryCategory::activations) - cache,
            0.1 * held(train, MemoryCategory::activations));
}

// -------------------------------------------------------------------------------------------- time
// Every weight of the layers and the head is read once: no token comes sooner than memory allows.
TEST(Inference, OneTokenTakesAsLongAsReadingTheWeights) {
  const Result r =
      run_of(scenario_of("mode: decode", "", "llama3-8b", "{global: 1, micro: 1, seq: 128}"));
  const double read = (8'030'261'248.0 - 128'256.0 * 4096) * 2 / 3.352e12;
  EXPECT_GT(to_seconds(r.step_time), read);
  EXPECT_LT(to_seconds(r.step_time), 2 * read);
}

TEST(Inference, FewerBitsDecodeFaster) {
  const std::string batch = "{global: 1, micro: 1, seq: 128}";
  const auto time = [&](const std::string& precision) {
    return run_of(scenario_of("mode: decode", precision, "llama2-70b", batch)).step_time;
  };
  const Time wide = time("");
  const Time int8 = time("precision: {weights: int8}");
  const Time int4 = time("precision: {weights: int4}");
  EXPECT_LT(int8.count(), 0.6 * static_cast<double>(wide.count()));
  EXPECT_LT(int4.count(), 0.7 * static_cast<double>(int8.count()));
}

// A long context is read by every token of every sequence.
TEST(Inference, DecodingSlowsDownWithWhatIsInTheCache) {
  const auto time = [&](const char* seq) {
    return run_of(scenario_of("mode: decode", "", "llama3-8b",
                              std::string("{global: 16, micro: 16, seq: ") + seq + "}"))
        .step_time;
  };
  const Time none = time("16");
  const Time longer = time("16384");
  const double read = 131'072.0 * 16 * (16384 - 16) / 3.352e12;
  EXPECT_GT(to_seconds(longer - none), read);
  EXPECT_LT(to_seconds(longer - none), 2 * read);
}

TEST(Inference, PrefillComputesAThirdOfAStep) {
  const std::string batch = "{global: 8, micro: 1, seq: 2048}";
  const Scenario train = scenario_of("in_situ: off", "", "gpt3-1.3b", batch);
  const Scenario prefill = scenario_of("mode: prefill", "", "gpt3-1.3b", batch);
  const Result a = run_of(train), b = run_of(prefill);
  EXPECT_LT(b.step_time.count() * 2, a.step_time.count());
  EXPECT_GT(b.step_time.count() * 5, a.step_time.count());
  const double head = head_matmul_flops(train.model, 8, 2047);
  EXPECT_NEAR(b.model_flops_per_step, a.model_flops_per_step / 3 - head, 1e6);
}

TEST(Inference, DecodeCountsTheFlopsOfOneTokenASequence) {
  const Scenario s = scenario_of("mode: decode");
  const Transformer& m = s.model;
  const double weights = static_cast<double>(parameters(m) - 2 * 4096 * 32 - 4096) -
                         static_cast<double>(m.vocab * m.hidden);
  const double attention = 4.0 * 4096 * 32 * 4096;
  EXPECT_NEAR(inference_flops(m, s.plan, false), 8 * (2 * weights + attention), 1e3);
  EXPECT_EQ(step_tokens(s.plan), 8);
}

// The experts' products read all of them, in whatever format they are stored.
TEST(Inference, WeightsInTheFormatOfTheModelChangeNothing) {
  for (const char* model : {"mixtral-8x7b", "{preset: deepseek-v3, num_hidden_layers: 5}"}) {
    const std::string batch = "{global: 64, micro: 64, seq: 128}";
    const Result plain = run_of(scenario_of("mode: decode", "", model, batch));
    const Result stored =
        run_of(scenario_of("mode: decode", "precision: {weights: bf16}", model, batch));
    EXPECT_NEAR(to_seconds(stored.step_time), to_seconds(plain.step_time),
                0.02 * to_seconds(plain.step_time))
        << model;
  }
}

// Of 8 experts, 2 for each token: 8 (1 - (3/4)^tokens) are met.
TEST(Inference, ExpertsThatNoTokenChoseAreNotRead) {
  const auto experts = [](int64_t tokens, const std::string& more) {
    const std::string n = std::to_string(tokens);
    const Result r = run_of(scenario_of("mode: decode", more, "mixtral-8x7b",
                                        "{global: " + n + ", micro: " + n + ", seq: 128}"));
    int64_t most = 0;
    for (const Work& w : r.graph->works)
      if (w.kind == WorkKind::grouped_gemm) most = std::max(most, w.batch);
    return most;
  };
  EXPECT_EQ(experts(1, ""), 2);
  EXPECT_EQ(experts(2, ""), 4);  // 3.5
  EXPECT_EQ(experts(4, ""), 5);  // 5.47
  EXPECT_EQ(experts(64, ""), 8);
  EXPECT_EQ(experts(64, "moe: {routing: \"zipf(8)\"}"), 3);
}

TEST(Inference, RanksOfTensorParallelismDoNotAddTokens) {
  const auto rows = [](int gpus) {
    const std::string n = std::to_string(gpus);
    const Scenario s = load_scenario_text(
        "model: mixtral-8x7b\ncluster: {preset: dgx-h100, nodes: 1, node: {gpus: " + n +
            "}}\nbatch: {global: 1, micro: 1, seq: 128}\nmode: decode\nparallel: {tp: " + n + "}\n",
        "test.yaml");
    const Result r = run_of(s);
    int64_t most = 0;
    for (const Work& w : r.graph->works)
      if (w.kind == WorkKind::grouped_gemm) most = std::max(most, w.batch * w.m);
    return most;
  };
  EXPECT_EQ(rows(1), 2);
  EXPECT_EQ(rows(8), 2);
}

// A copy in 8 bits in place of the one in 16, made when the weights are loaded.
TEST(Inference, LowPrecisionKeepsOneCopyOfTheWeights) {
  const Result wide = run_of(scenario_of("mode: decode"));
  const Transformer model = scenario_of("mode: decode").model;
  const double linear =
      static_cast<double>(parameters(model) - 2 * model.vocab * model.hidden - 65 * model.hidden);
  for (const char* precision : {"fp8-tensorwise", "int8"}) {
    const Result r = run_of(scenario_of("mode: decode", std::string("precision: ") + precision));
    EXPECT_NEAR(held(r, MemoryCategory::parameters),
                held(wide, MemoryCategory::parameters) - linear, 1e3)
        << precision;
    for (const Pass& pass : r.graph->passes)
      for (const Op& op : pass.ops) EXPECT_NE(r.graph->text(op.label), "weight cast") << precision;
  }
}

TEST(Inference, ModulesThatPredictFurtherTokensDoNotRun) {
  const std::string batch = "{global: 1, micro: 1, seq: 128}";
  const std::string model = "{preset: deepseek-v3, num_hidden_layers: 5";
  for (const char* mode : {"mode: prefill", "mode: decode"}) {
    const Result without = run_of(scenario_of(mode, "", model + "}", batch));
    const Result with =
        run_of(scenario_of(mode, "", model + ", num_nextn_predict_layers: 1}", batch));
    EXPECT_EQ(with.model_flops_per_step, without.model_flops_per_step) << mode;
    EXPECT_EQ(held(with, MemoryCategory::parameters), held(without, MemoryCategory::parameters));
    EXPECT_EQ(with.step_time, without.step_time) << mode;
  }
}

// The token sees 4,096 of 32,768 keys in every layer.
TEST(Inference, DecodeBehindAWindowCountsTheKeysInIt) {
  const std::string batch = "{global: 8, micro: 8, seq: 32768}";
  const Scenario s =
      scenario_of("mode: decode", "", "{preset: llama3-8b, sliding_window: 4096}", batch);
  const double attention = 8 * 4.0 * 4096 * 32 * (32768 - 4096);
  EXPECT_NEAR(inference_flops(s.model, s.plan, false) - inference_flops(s.model, s.plan, true),
              attention, 1e3);
  const Result r = run_of(s);
  EXPECT_LE(r.utilization.mfu_causal_attention, r.utilization.hfu * (1 + 1e-9));
}

// A layer without attention has neither keys to keep, nor biases of their projection, nor a window.
TEST(Inference, LayersWithoutAttentionHaveNoCache) {
  const auto load = [](const std::string& second, const std::string& more) {
    const std::string block = "{attention: {n_heads_in_group: 4}, ffn: {ffn_mult: 1.0}}";
    return scenario_of("mode: decode", "precision: {weights: int8}",
                       "{model_type: nemotron-nas, hidden_size: 1024, num_hidden_layers: 2, "
                       "num_attention_heads: 8, vocab_size: 32000, " +
                           more + "block_configs: [" + block + ", " + second + "]}");
  };
  const std::string attends = "{attention: {n_heads_in_group: 4}, ffn: {ffn_mult: 1.0}}";
  const std::string none = "{attention: {no_op: true}, ffn: {ffn_mult: 1.0}}";
  const Scenario both = load(attends, ""), one = load(none, "");
  const auto cache = [](const Scenario& s) {
    return cache_bytes(s.model, s.plan, s.plan.stages.front(), 1).value;
  };
  EXPECT_EQ(cache(both), 2 * 2 * 2 * 128 * 2);
  EXPECT_EQ(cache(one), 2 * 2 * 128 * 2);
  const auto linear = [](const Scenario& s) {
    return linear_parameters(s.model, s.plan, s.plan.stages.front());
  };
  EXPECT_EQ(linear(load(none, "attention_bias: true, ")), linear(one));
  const Scenario windows = load(none, "sliding_window: 1024, ");
  const double pair = 2 * 8 * (128 + 128);
  EXPECT_NEAR(inference_flops(windows.model, windows.plan, false) -
                  inference_flops(windows.model, windows.plan, true),
              8 * pair * (4096 - 1024), 1);
  EXPECT_DOUBLE_EQ(held(run_of(both), MemoryCategory::activations) -
                       held(run_of(one), MemoryCategory::activations),
                   8.0 * 4096 * 2 * 2 * 128 * 2);
}

// Its tokens see those after them: none is made from a cache.
TEST(Inference, BidirectionalModelsHaveNoCache) {
  const std::string batch = "{global: 8, micro: 8, seq: 512}";
  EXPECT_THROW(scenario_of("mode: decode", "", "bert-large", batch), InputError);
  const Scenario s = scenario_of("mode: prefill", "", "bert-large", batch);
  EXPECT_EQ(cache_bytes(s.model, s.plan, s.plan.stages.front(), 512).value, 0);
}

// -------------------------------------------------------------------------------------- layouts
TEST(Inference, TwoAllReducesALayer) {
  const Result r = run_of(on_gpus(4, "decode", "{tp: 4}"));
  int reduced = 0;
  for (const Pass& pass : r.graph->passes)
    for (const Op& op : pass.ops)
      reduced += r.graph->works[static_cast<size_t>(op.work)].kind == WorkKind::all_reduce ? 1 : 0;
  EXPECT_EQ(reduced, 2 * 32 + 1);  // and the embedding's
}

TEST(Inference, RunsThroughAPipelineAndOnReplicas) {
  const std::string batch = "{global: 8, micro: 1, seq: 1024}";
  for (const char* mode : {"prefill", "decode"}) {
    const Result one = run_of(on_gpus(1, mode, "{tp: 1}", batch));
    const Result pipeline = run_of(on_gpus(4, mode, "{pp: 4}", batch));
    const Result chunks = run_of(on_gpus(4, mode, "{pp: 4, vpp: 2}", batch));
    const Result replicas = run_of(on_gpus(4, mode, "{tp: 1}", batch));
    EXPECT_LT(pipeline.step_time, one.step_time) << mode;
    EXPECT_LT(chunks.step_time, one.step_time) << mode;
    EXPECT_LT(replicas.step_time, one.step_time) << mode;
    EXPECT_GT(pipeline.bubble, Time{}) << mode;
    for (const RankMemory& rank : pipeline.memory)
      EXPECT_EQ(rank.memory.start, rank.memory.end) << mode;
  }
}

// --------------------------------------------------------------------------------- what is refused
TEST(Inference, RefusesWhatOnlyTrainingHas) {
  EXPECT_EQ(code_of("mode: prefill"), "none");
  EXPECT_EQ(code_of("mode: generate"), "E125");
  EXPECT_EQ(code_of("mode: prefill", "recompute: full"), "E127");
  EXPECT_EQ(code_of("mode: decode", "parallel: {zero: 1}"), "E127");
  EXPECT_EQ(code_of("mode: decode", "schedule: auto"), "E127");
  EXPECT_EQ(code_of("mode: decode", "offload: {optimizer: 0.5}"), "E127");
  EXPECT_EQ(code_of("mode: prefill", "offload: {activation_layers: 2}"), "E127");
  EXPECT_EQ(code_of("mode: decode", "offload: {optimizer: 0}"), "none");
  EXPECT_EQ(code_of("", "precision: {weights: int8}"), "E127");
  EXPECT_EQ(code_of("", "precision: {kv_cache: fp8}"), "E127");
}

}  // namespace
}  // namespace stepcast::inference_test
