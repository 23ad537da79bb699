// SPDX-License-Identifier: Apache-2.0
// Pruned models and distillation, from the scenario to the forecast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/parameters.h"
#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"

namespace stepcast::variants_test {
namespace {

Scenario scenario_of(const std::string& more, const std::string& cluster = "dgx-h100 x 1",
                     const std::string& parallel = "{tp: 8}") {
  return load_scenario_text("model: llama3.2-1b\ncluster: " + cluster + "\nparallel: " + parallel +
                                "\nbatch: {global: 16, micro: 1, seq: 2048}\n" + more + "\n",
                            "test.yaml");
}

std::string code_of(const std::string& more, const std::string& parallel = "{tp: 8}") {
  try {
    scenario_of(more, "dgx-h100 x 1", parallel);
  } catch (const InputError& e) {
    return e.diagnostics.front().code;
  }
  return "none";
}

Result run_of(const Scenario& s) {
  return forecast(s, {.what_if = false});
}

double held(const Result& r, size_t role, MemoryCategory category) {
  return static_cast<double>(r.memory[role].memory.at_peak[static_cast<size_t>(category)].value);
}

std::string origin_of(const Scenario& s, const std::string& path) {
  const auto found = std::find_if(s.settings.begin(), s.settings.end(),
                                  [&](const Setting& x) { return x.path == path; });
  return found == s.settings.end() ? "absent" : found->value + ", " + found->origin;
}

// ----------------------------------------------------------------------------------------- pruning
TEST(PrunedScenario, IsTheSmallerModel) {
  const Scenario pruned = scenario_of("prune: {layers: 50%, ffn: 0.25}");
  EXPECT_EQ(pruned.model.layers, 8);
  EXPECT_EQ(pruned.model.ffn, 6144);
  EXPECT_EQ(origin_of(pruned, "model.num_hidden_layers"),
            "8, derived: 16, of which `prune` takes 8");
  const Scenario stated = load_scenario_text(
      "model: {preset: llama3.2-1b, num_hidden_layers: 8, intermediate_size: 6144}\n"
      "cluster: dgx-h100 x 1\nparallel: {tp: 8}\nbatch: {global: 16, micro: 1, seq: 2048}\n",
      "test.yaml");
  EXPECT_EQ(run_of(pruned).step_time, run_of(stated).step_time);
  EXPECT_NE(pruned.hash, scenario_of("").hash);
}

TEST(PrunedScenario, RefusesSharesOfEverything) {
  EXPECT_EQ(code_of("prune: {layers: 25%}"), "none");
  EXPECT_EQ(code_of("prune: {layers: 100%}"), "E121");
  EXPECT_EQ(code_of("prune: {layer: 10%}"), "E102");
  EXPECT_EQ(code_of("prune: {layers: -1}"), "E122");
  EXPECT_EQ(code_of("prune: {experts: 50%}"), "E127");  // of a dense model
}

// ------------------------------------------------------------------------------------ distillation
TEST(Distillation, AddsAForwardOfTheTeacher) {
  const Scenario alone = scenario_of("", "dgx-h100 x 1", "{tp: 1}");
  const Scenario taught = scenario_of("distill: llama3-8b", "dgx-h100 x 1", "{tp: 1}");
  ASSERT_TRUE(taught.plan.teacher.has_value());
  const Result a = run_of(alone), b = run_of(taught);
  const double forward = forward_matmul_flops(*taught.plan.teacher, 16, 2048, false);
  EXPECT_NEAR(b.model_flops_per_step - a.model_flops_per_step, forward, 1e6);
  // Eight times the student's forward, at the utilization of forwards of that size at least.
  const double peak = 989.4e12 * 8;
  EXPECT_GT(to_seconds(b.step_time - a.step_time), forward / peak);
  EXPECT_LT(to_seconds(b.step_time - a.step_time), 4 * forward / peak);
}

// No gradients, no optimizer: 2 bytes a parameter, or what they are stored in.
TEST(Distillation, TheTeacherHoldsItsWeightsAlone) {
  const Result a = run_of(scenario_of(""));
  const Scenario taught = scenario_of("distill: llama3-8b");
  const Result b = run_of(taught);
  const Transformer& teacher = *taught.plan.teacher;
  const auto own =
      static_cast<double>(stage_parameters(teacher, taught.plan, taught.plan.teacher_stages[0]));
  EXPECT_EQ(held(b, 0, MemoryCategory::parameters) - held(a, 0, MemoryCategory::parameters),
            own * 2);
  for (const MemoryCategory same : {MemoryCategory::gradients, MemoryCategory::optimizer_state})
    EXPECT_EQ(held(a, 0, same), held(b, 0, same));
  const Result narrow = run_of(scenario_of("distill: llama3-8b\nprecision: {weights: int4}"));
  EXPECT_LT(held(narrow, 0, MemoryCategory::parameters), held(b, 0, MemoryCategory::parameters));
}

TEST(Distillation, TravelsAlongThePipeline) {
  const Scenario alone = scenario_of("", "dgx-h100 x 1", "{pp: 4}");
  const Scenario taught = scenario_of("distill: llama3-8b", "dgx-h100 x 1", "{pp: 4}");
  const auto sent = [](const Result& r, const char* label) {
    double most = 0;
    for (const Rendezvous& x : r.graph->rendezvous)
      if (r.graph->text(x.label) == label)
        most = std::max(
            most, static_cast<double>(r.graph->works[static_cast<size_t>(x.work)].bytes.value));
    return most;
  };
  const Result a = run_of(alone), b = run_of(taught);
  EXPECT_EQ(sent(a, "send activation"), 2.0 * 2048 * 2048);
  EXPECT_EQ(sent(b, "send activation"), 2.0 * 2048 * (2048 + 4096));
  EXPECT_EQ(sent(b, "send gradient"), sent(a, "send gradient"));
  for (const RankMemory& rank : b.memory) EXPECT_EQ(rank.memory.start, rank.memory.end);
}

// The logits of every microbatch in flight on the last stage: one with 1F1B.
TEST(Distillation, TheLossKeepsTheTeachersLogits) {
  const Result a = run_of(scenario_of("", "dgx-h100 x 1", "{pp: 4}"));
  const Result b = run_of(scenario_of("distill: llama3-8b", "dgx-h100 x 1", "{pp: 4}"));
  const double logits = 2.0 * 2048 * 128'256;
  EXPECT_GE(held(b, 3, MemoryCategory::logits) - held(a, 3, MemoryCategory::logits), logits);
}

TEST(Distillation, RunsWithEverySortOfBackward) {
  for (const char* more : {"recompute: full", "recompute: selective", "schedule: zb-h1"}) {
    const Result r =
        run_of(scenario_of(std::string("distill: llama3-8b\n") + more, "dgx-h100 x 1", "{pp: 4}"));
    for (const RankMemory& rank : r.memory) EXPECT_EQ(rank.memory.start, rank.memory.end) << more;
  }
}

TEST(Distillation, RefusesTeachersThatDoNotSuit) {
  EXPECT_EQ(code_of("distill: llama3-8b"), "none");
  EXPECT_EQ(code_of("distill: {teacher: {preset: llama3-8b, num_hidden_layers: 8}}"), "none");
  EXPECT_EQ(code_of("distill: llama9-8b"), "E125");
  EXPECT_EQ(code_of("distill: llama2-7b"), "E127");  // another vocabulary
  EXPECT_EQ(code_of("distill: llama3-8b\nmode: prefill"), "E127");
  EXPECT_EQ(code_of("distill: {teacher: {preset: llama3-8b, num_hidden_layers: 30}}", "{pp: 4}"),
            "E202");
}

// What the student would be refused for.
TEST(Distillation, TeachersMustSuitTheLayoutAsTheStudentDoes) {
  const auto code = [](const std::string& model, const std::string& parallel,
                       const std::string& teacher, const std::string& more = "") {
    try {
      load_scenario_text("model: " + model + "\ncluster: dgx-h100 x 1\nparallel: " + parallel +
                             "\nbatch: {global: 16, micro: 1, seq: 8192}\ndistill: {teacher: " +
                             teacher + "}\n" + more + "\n",
                         "test.yaml");
    } catch (const InputError& e) {
      return e.diagnostics.front().code;
    }
    return std::string("none");
  };
  EXPECT_EQ(code("mixtral-8x7b", "{ep: 8}", "mixtral-8x7b"), "none");
  EXPECT_EQ(code("mixtral-8x7b", "{ep: 8}", "{preset: mixtral-8x7b, num_local_experts: 4}"),
            "E206");
  EXPECT_EQ(
      code("mixtral-8x7b", "{tp: 8, etp: 8}", "{preset: mixtral-8x7b, intermediate_size: 1001}"),
      "E206");
  const std::string shares = "moe: {routing: {shares: [2, 1, 1, 1, 1, 1, 1, 1]}}";
  EXPECT_EQ(code("mixtral-8x7b", "{ep: 2}", "mixtral-8x7b", shares), "none");
  EXPECT_EQ(code("mixtral-8x7b", "{ep: 2}", "{preset: mixtral-8x7b, num_local_experts: 4}", shares),
            "E127");
  EXPECT_EQ(code("llama3-8b", "{tp: 2, sp: false}", "{preset: mixtral-8x7b, vocab_size: 128256}"),
            "E127");
  EXPECT_EQ(code("llama3-8b", "{cp: 8, cp_comm: a2a}", "llama3-8b"), "none");
  EXPECT_EQ(
      code("llama3-8b", "{cp: 8, cp_comm: a2a}", "{preset: llama3-8b, num_key_value_heads: 4}"),
      "E210");
  const std::string windows = "{preset: llama3-8b, sliding_window: 512, max_window_layers: 8}";
  EXPECT_EQ(code("llama3-8b", "{cp: 2, cp_comm: allgather}", windows), "none");
  EXPECT_EQ(code("llama3-8b", "{cp: 2, cp_comm: p2p}", windows), "E127");
  EXPECT_EQ(code("llama3-8b", "{tp: 8}", "{preset: gpt3-13b, vocab_size: 128256}"), "E211");
}

}  // namespace
}  // namespace stepcast::variants_test
