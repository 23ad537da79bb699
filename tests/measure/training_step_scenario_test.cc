// SPDX-License-Identifier: Apache-2.0
// The written scenario is the run: it loads, its step launches the same work, and check finds what
// was measured in it.
#include "calibrate/measure/training_step_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ostream>

#include "calibrate/measure/training_step_works.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"

namespace stepcast::measure {
namespace {

TrainingStep small() {
  TrainingStep s;
  s.layers = 3;
  s.hidden = 512;
  s.heads = 8;
  s.kv_heads = 8;
  s.ffn = 1536;
  s.vocab = 4096;
  s.seq = 1024;
  s.micro = 1;
  s.microbatches = 2;
  return s;
}

StepMeasurement measurement() {
  StepMeasurement m;
  m.gpu = "h100-sxm";
  m.device = "NVIDIA \"H100\"";
  m.software = "CUDA 13.0\nx";
  m.step_s = 0.0123456;
  m.spread = 0.0123;
  m.steps = 20;
  m.peak_bytes = 3'456'789'012;
  m.first_loss = 10.4;
  m.last_loss = 3.2;
  return m;
}

std::vector<Work> works_of_forecast(const Scenario& scenario) {
  const OpGraph graph =
      lower(scenario.model, scenario.plan, scenario.schedule, {scenario.p2p, false});
  std::vector<Work> works;
  for (const RoleOps& role : graph.roles)
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass)
        for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops) {
          const Work& w = graph.works[static_cast<size_t>(op.work)];
          if (!is_communication(w.kind)) works.push_back(w);
        }
  return works;
}

std::map<std::string, int> counted(const std::vector<Work>& works) {
  std::map<std::string, int> count;
  for (const Work& w : works) ++count[describe(w)];
  return count;
}

double flops_of(const std::vector<Work>& works) {
  double sum = 0;
  for (const Work& w : works) sum += w.flops.value;
  return sum;
}

TEST(TrainingStepScenario, LoadsAsTheRunThatWasMeasured) {
  const TrainingStep s = small();
  const Scenario scenario = load_scenario_text(scenario_text(s, measurement()), "step.yaml");
  EXPECT_THAT(scenario.warnings, testing::IsEmpty());
  EXPECT_EQ(scenario.plan.grid.world(), 1);
  EXPECT_EQ(scenario.plan.global_batch, 2);
  EXPECT_EQ(parameters(scenario.model), map_parameters(s).count);
  ASSERT_EQ(scenario.measured.size(), 1U);
  EXPECT_NEAR(*scenario.measured[0].step_time_s, 0.0123456, 1e-9);
  EXPECT_EQ(scenario.measured[0].peak_memory->value, 3'456'789'012);
  EXPECT_THAT(scenario.measured[0].source, testing::HasSubstr("NVIDIA \"H100\", CUDA 13.0 x"));
}

TEST(TrainingStepScenario, NamesTheCostTableItIsToldTo) {
  StepMeasurement m = measurement();
  EXPECT_THAT(scenario_text(small(), m), testing::Not(testing::HasSubstr("calibration")));
  m.calibration = "my \"own\" table.csv";
  EXPECT_THAT(scenario_text(small(), m),
              testing::HasSubstr("\ncalibration: \"my \\\"own\\\" table.csv\"\n"));
}

struct Case {
  const char* name;
  bool gated, fused;
  int64_t layers;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class SameWork : public testing::TestWithParam<Case> {};

// Kernel by kernel: the forecast prices exactly what the program launches.
TEST_P(SameWork, AsTheForecastPrices) {
  TrainingStep s = small();
  s.gated = GetParam().gated;
  s.fused_attention = GetParam().fused;
  s.layers = GetParam().layers;
  const Scenario scenario = load_scenario_text(scenario_text(s, measurement()), "step.yaml");
  const std::vector<Work> forecast = works_of_forecast(scenario);
  const StepWorks own = step_works(s);
  EXPECT_EQ(counted(own.works), counted(forecast));
  EXPECT_EQ(own.flops, flops_of(forecast));
}

INSTANTIATE_TEST_SUITE_P(Shapes, SameWork,
                         testing::Values(Case{"gated_unfused", true, false, 3},
                                         Case{"plain_unfused", false, false, 1},
                                         Case{"gated_fused", true, true, 2}),
                         [](const auto& param) { return std::string(param.param.name); });

// Several sequences and grouped queries are several batches of the heads' products: as much work.
TEST(TrainingStepScenario, CountsTheSameFlopsWhereProductsAreSplit) {
  TrainingStep s = small();
  s.kv_heads = 2;
  s.micro = 3;
  const Scenario scenario = load_scenario_text(scenario_text(s, measurement()), "step.yaml");
  EXPECT_NEAR(step_works(s).flops / flops_of(works_of_forecast(scenario)), 1, 1e-12);
}

TEST(TrainingStepScenario, IsForecastWithAsMuchMemory) {
  for (const bool fused : {false, true}) {
    TrainingStep s = small();
    s.fused_attention = fused;
    ForecastOptions options;
    options.what_if = false;
    const Result result =
        forecast(load_scenario_text(scenario_text(s, measurement()), "step.yaml"), options);
    EXPECT_GT(to_seconds(result.step_time), 0);
    // Row statistics of the loss and the gradient's transposed copy aside.  What torch.compile
    // writes beside the logits (docs/memory.md), fp32, the program has not.
    const int64_t compiled = s.tokens() * s.vocab * 4;
    const auto predicted = static_cast<double>(result.memory.front().memory.peak.value - compiled);
    EXPECT_NEAR(static_cast<double>(step_works(s).peak_bytes) / predicted, 1, 0.01) << fused;
  }
}

TEST(StepWorks, CountSixFlopsAParameterAndTokenWithoutAttentionAndEmbedding) {
  TrainingStep s = small();
  const StepWorks works = step_works(s);
  const ParameterMap map = map_parameters(s);
  const int64_t norms = (2 * s.layers + 1) * s.hidden;
  const auto weights = static_cast<double>(map.count - map.embedding.count() - norms);
  const auto tokens = static_cast<double>(s.tokens() * s.microbatches);
  // Scores and context, forward and twice backward, every query with every key.
  const auto attention = 12.0 * static_cast<double>(s.layers * s.hidden * s.seq);
  EXPECT_EQ(works.flops, tokens * (6 * weights + attention));
}

TEST(MeasurementText, SaysWhatWasMeasuredAndWhetherItLearned) {
  StepMeasurement m = measurement();
  EXPECT_THAT(measurement_text(small(), m), testing::HasSubstr("12.346 ms, median of 20 steps"));
  EXPECT_THAT(measurement_text(small(), m), testing::Not(testing::HasSubstr("NOT LEARN")));
  EXPECT_TRUE(has_learned(m));
  for (const double bad : {m.first_loss, std::numeric_limits<double>::quiet_NaN()}) {
    m.last_loss = bad;
    EXPECT_FALSE(has_learned(m));
    EXPECT_THAT(measurement_text(small(), m), testing::HasSubstr("DOES NOT LEARN"));
  }
}

}  // namespace
}  // namespace stepcast::measure
