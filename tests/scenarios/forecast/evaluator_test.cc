// SPDX-License-Identifier: Apache-2.0
// What is shared from layout to layout changes no answer, and bounds are none too high.
#include "scenarios/forecast/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step.h"
#include "scenarios/own_runs.h"
#include "scenarios/pricing_table.h"
#include "sim/memory/memory.h"
#include "tests/random_cases.h"
#include "tests/scenarios/forecast/random_layouts.h"

namespace stepcast::evaluator_test {
namespace {

using stepcast::testing::RandomLayouts;

std::optional<StepOutcome> fresh(const Scenario& s) {
  const auto priced = price_if_possible(lower_step(s, s.schedule), pricing_table(s).table);
  return priced ? evaluate(*priced) : std::nullopt;
}

// Random layouts of one model of four, one after the other through one evaluator.
void compare_random_layouts(size_t model) {
  RandomLayouts random(static_cast<uint32_t>(1000 + model));
  Evaluator evaluator;
  for (uint64_t i = 0; i < stepcast::testing::random_cases(250); ++i) {
    const Scenario s = random.next(model);
    const std::string what = s.schedule.name + ", layout " + std::to_string(i);
    const std::optional<StepOutcome> want = fresh(s), got = evaluator.step(s),
                                     least = evaluator.bound(s);
    ASSERT_EQ(got.has_value(), want.has_value()) << what;
    if (!want) continue;
    ASSERT_EQ(got->time, want->time) << what;
    ASSERT_EQ(got->peak, want->peak) << what;
    ASSERT_TRUE(least.has_value()) << what;
    ASSERT_LE(least->time, want->time) << what;
    ASSERT_LE(least->peak, want->peak) << what;
    ASSERT_GT(least->time, Time{0}) << what;
  }
}

TEST(Evaluator, AgreesWithFreshForecastsOfADenseModel) {
  compare_random_layouts(0);
}
TEST(Evaluator, AgreesWithFreshForecastsOfAGatedModel) {
  compare_random_layouts(1);
}
TEST(Evaluator, AgreesWithFreshForecastsOfAModelWithExperts) {
  compare_random_layouts(2);
}
TEST(Evaluator, AgreesWithFreshForecastsOfUnevenStages) {
  compare_random_layouts(3);
}

// The step of the whole forecast, in which compute and communication slow each other down where
// that was measured.
void compare_with_whole_forecasts(size_t model, uint64_t usual) {
  RandomLayouts random(static_cast<uint32_t>(2000 + model));
  Evaluator evaluator;
  const uint64_t layouts = stepcast::testing::random_cases(usual);
  uint64_t interfering = 0;
  for (uint64_t i = 0; i < layouts; ++i) {
    const Scenario s = random.next(model);
    const std::optional<StepOutcome> step = evaluator.step(s);
    const Result whole = forecast(s, {.what_if = false});
    const std::string what = s.schedule.name + ", layout " + std::to_string(i);
    ASSERT_TRUE(step.has_value()) << what;
    ASSERT_EQ(step->time, whole.step_time) << what;
    Bytes peak{};
    for (const RankMemory& m : whole.memory) peak = std::max(peak, m.memory.peak);
    ASSERT_EQ(step->peak, peak) << what;
    interfering += whole.disturbance && whole.disturbance->interference ? 1 : 0;
  }
  EXPECT_GT(interfering, layouts / 2);
}

TEST(Evaluator, HasTheStepOfTheWholeForecastOfADenseModel) {
  compare_with_whole_forecasts(0, 12);
}
TEST(Evaluator, HasTheStepOfTheWholeForecastOfAGatedModel) {
  compare_with_whole_forecasts(1, 12);
}
TEST(Evaluator, HasTheStepOfTheWholeForecastOfAModelWithExperts) {
  compare_with_whole_forecasts(2, 12);
}

// Models and clusters may change as they like.
TEST(Evaluator, TellsModelsAndClustersApart) {
  RandomLayouts random(7);
  Evaluator evaluator;
  for (uint64_t i = 0; i < stepcast::testing::random_cases(100); ++i) {
    const Scenario s = random.next();
    const std::optional<StepOutcome> want = fresh(s), got = evaluator.step(s);
    ASSERT_EQ(got.has_value(), want.has_value());
    if (want) {
      ASSERT_EQ(got->time, want->time);
    }
  }
}

// Own runs are no part of the cluster, and prices of a bound have them.
TEST(Evaluator, BoundsAreOfTheOwnRunsOfEachScenario) {
  RandomLayouts random(11);
  Scenario plain = random.next();
  Scenario slower = plain;
  auto own = std::make_shared<OwnRuns>();
  own->parameters.assign(in_situ_parameters().begin(), in_situ_parameters().end());
  for (InSituParameter& p : own->parameters)
    if (p.term == InSituTerm::products) p.value *= 1.5;
  slower.own_runs = own;
  Evaluator both, alone;
  const auto long_bound = both.bound(slower), bound = both.bound(plain);
  const auto want = alone.bound(plain);
  ASSERT_TRUE(long_bound && bound && want);
  EXPECT_GT(long_bound->time, want->time);
  EXPECT_EQ(bound->time, want->time);
}

// Everything in the graph, as text.
std::string text_of(const OpGraph& g) {
  std::string t;
  const auto add = [&](auto... x) { ((t += std::to_string(x) + ' '), ...); };
  const auto number = [](auto id) { return static_cast<uint32_t>(id); };
  for (const std::string& label : g.labels) t += label + '\n';
  for (const Work& w : g.works) t += describe(w) + '\n';
  for (const Launch& l : g.launches) t += describe(l) + '\n';
  for (const auto& table : g.tensor_tables) {
    for (const Tensor& x : table)
      add(x.bytes.value, static_cast<int>(x.category), number(x.label), x.becomes_gradient, x.lags);
    t += '\n';
  }
  for (const Pass& p : g.passes) {
    t += p.name + ' ';
    add(number(p.tensors), number(p.second_tensors));
    for (const Op& o : p.ops)
      add(number(o.work), static_cast<int>(o.stream), static_cast<int>(o.phase), number(o.label),
          o.layer, number(o.launch), static_cast<int>(o.role));
    for (const Wait& w : p.waits.all()) add(w.op, w.on, w.from_start, w.delay.count());
    for (const MemoryEvent& e : p.memory) add(e.op, e.tensor, e.allocate, e.second);
    t += '\n';
  }
  for (const Rendezvous& r : g.rendezvous)
    add(number(r.work), r.parties, number(r.label), number(r.launch));
  for (const RoleOps& r : g.roles) {
    t += r.name + ' ';
    add(r.ranks);
    for (const StaticMemory& m : r.memory)
      add(static_cast<int>(m.category), m.bytes.value, m.by_tensor);
    for (const Item& i : r.items)
      add(static_cast<int>(i.kind), static_cast<int>(i.stream), i.host_waits, i.only_sends,
          number(i.pass), number(i.rendezvous), i.event);
    t += '\n';
  }
  return t;
}

TEST(Evaluator, KeptPassesMakeTheSameGraph) {
  RandomLayouts random(11);
  StagePassCache cache;
  for (uint64_t i = 0; i < stepcast::testing::random_cases(100); ++i) {
    const Scenario s = random.next();
    ASSERT_EQ(text_of(lower_step(s, s.schedule, &cache).graph),
              text_of(lower_step(s, s.schedule).graph))
        << s.schedule.name << ", layout " << i;
  }
}

// The memory of one graph becomes that of the next.
TEST(Evaluator, GraphsInTheMemoryOfOthersAreTheSame) {
  RandomLayouts random(12);
  StagePassCache cache;
  GraphMemory memory;
  for (uint64_t i = 0; i < stepcast::testing::random_cases(100); ++i) {
    const Scenario s = random.next();
    OpGraph graph = lower_step(s, s.schedule, &cache, {.memory = &memory}).graph;
    ASSERT_EQ(text_of(graph), text_of(lower_step(s, s.schedule).graph))
        << s.schedule.name << ", layout " << i;
    memory.take(std::move(graph));
  }
}

TEST(Evaluator, GraphsWithoutTextsLackNothingElse) {
  RandomLayouts random(13);
  StagePassCache cache;
  for (uint64_t i = 0; i < stepcast::testing::random_cases(50); ++i) {
    const Scenario s = random.next();
    OpGraph want = lower_step(s, s.schedule).graph;
    want.labels = {""};
    for (Rendezvous& r : want.rendezvous) r.label = {};
    for (auto& table : want.tensor_tables)
      for (Tensor& tensor : table) tensor.label = {};
    for (Pass& pass : want.passes) {
      pass.name.clear();
      for (Op& op : pass.ops) op.label = {};
    }
    ASSERT_EQ(text_of(lower_step(s, s.schedule, &cache, {.texts = false}).graph), text_of(want))
        << s.schedule.name << ", layout " << i;
  }
}

TEST(Evaluator, PeaksAloneAreThoseOfTheWholeTrace) {
  RandomLayouts random(14);
  for (uint64_t i = 0; i < stepcast::testing::random_cases(100); ++i) {
    const Scenario s = random.next();
    const OpGraph graph = lower_step(s, s.schedule).graph;
    std::vector<Bytes> want;
    for (const RoleMemory& role : trace_memory(graph)) want.push_back(role.peak);
    ASSERT_EQ(peak_memory(graph), want) << s.schedule.name << ", layout " << i;
  }
}

TEST(Evaluator, WritesPassesOnceForAllSchedulesChunksAndReplicas) {
  const auto layout = [](const std::string& rest) {
    return load_scenario_text(
        "model: {preset: llama3-8b, num_hidden_layers: 16}\ncluster: dgx-h100 x 2\n" + rest,
        "run.yaml");
  };
  StagePassCache cache;
  const auto written = [&](const std::string& rest) {
    const Scenario s = layout(rest);
    lower_step(s, s.schedule, &cache);
    return cache.written();
  };
  const size_t first = written("parallel: {tp: 2, pp: 4}\nbatch: {global: 32, seq: 2048}\n");
  EXPECT_EQ(first, 3u);  // the first stage, those between, the last
  EXPECT_EQ(written("parallel: {tp: 2, pp: 4}\nbatch: {global: 64, seq: 2048}\n"), first);
  EXPECT_EQ(written("parallel: {tp: 2, pp: 4}\nbatch: {global: 32, seq: 2048}\n"
                    "schedule: gpipe\n"),
            first);
  EXPECT_EQ(written("parallel: {tp: 2, pp: 2, vpp: 2}\nbatch: {global: 32, seq: 2048}\n"
                    "schedule: {kind: interleaved, p2p: async}\n"),
            first);
  EXPECT_EQ(written("parallel: {tp: 4, pp: 4}\nbatch: {global: 32, seq: 2048}\n"), first + 3);
}

// Two ranks with equal stages that lack embedding and head, about: the bound is close.
TEST(Evaluator, BoundsComeCloseToAPipelineThatIsAlwaysFull) {
  const Scenario s = load_scenario_text(
      "model: {preset: llama3-8b, num_hidden_layers: 16}\ncluster: dgx-h100\n"
      "parallel: {tp: 4, pp: 2}\nbatch: {global: 128, seq: 4096}\nin_situ: off\n",
      "run.yaml");
  Evaluator evaluator;
  const auto bound = evaluator.bound(s), step = evaluator.step(s);
  ASSERT_TRUE(bound && step);
  EXPECT_GT(to_seconds(bound->time), 0.9 * to_seconds(step->time));
  EXPECT_GT(bound->peak.value, step->peak.value / 10 * 9);
}

}  // namespace
}  // namespace stepcast::evaluator_test
