// SPDX-License-Identifier: Apache-2.0
#include "job/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "job/power.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario_document.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

using ::testing::HasSubstr;
using Sets = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kSmall =
    "model: llama3-8b\n"
    "cluster: dgx-h100 x 2\n"
    "parallel: {tp: 2, pp: 2}\n"
    "batch: {global: 64, micro: 1, seq: 8192}\n";

ScenarioDocument document_of(const char* text, const Sets& set) {
  ScenarioDocument document = ScenarioDocument::of_text(text, "my.yaml", "");
  LoadOptions options;
  options.set = {{"model.num_hidden_layers", "4"}};
  options.set.insert(options.set.end(), set.begin(), set.end());
  document.set(options);
  return document;
}

TrainingResult trained(const Sets& set, const TrainOptions& options = {}) {
  return train(document_of(kSmall, set), options);
}

// "E127 message".
std::string failure(const Sets& set) {
  try {
    trained(set);
  } catch (const InputError& e) {
    const Diagnostic& d = e.diagnostics.front();
    return d.code + ' ' + d.file + ' ' + d.message;
  }
  return {};
}

double sum(const TrainingTimes& t) {
  return t.useful + t.slow_ranks + t.evaluation + t.checkpoint + t.redo + t.restart + t.wait;
}

TEST(Train, PartsAddUpToTheWallTime) {
  const Sets job{{"job.tokens", "1T"},
                 {"job.failures.replace.repair", "1d"},
                 {"job.spares", "0"},
                 {"job.evaluation", "{every: 1000 steps, takes: 1min}"},
                 {"perturb", "[{where: gpu 0, compute: 0.3}]"}};
  const TrainingResult r = trained(job);
  EXPECT_NEAR(sum(r.times), r.times.wall, 1e-9 * r.times.wall);
  EXPECT_GT(r.times.slow_ranks, 0);
  EXPECT_GT(r.times.evaluation, 0);
  EXPECT_GT(r.times.wait, 0);
  EXPECT_GT(r.times.redo, 0);
  EXPECT_NEAR(r.gpu_hours, r.times.wall / 3600 * 16, 1e-6 * r.gpu_hours);
}

TEST(Train, UsefulTimeIsStepsOfTheForecast) {
  const Sets job{{"job.tokens", "1T"}};
  const TrainingResult r = trained(job);
  const Result step = forecast(document_of(kSmall, job).resolve());
  EXPECT_NEAR(r.times.useful, 1e12 / (64.0 * 8192) * to_seconds(step.step_time), 1);
  EXPECT_FALSE(r.price);
  ASSERT_TRUE(r.wall_low && r.wall_high);
  EXPECT_LT(*r.wall_low, *r.wall_high);
}

TEST(Train, OfRunsThatAreInterruptedAllTheTimeFewerAreDrawn) {
  const auto drawn = [](const char* mtbf) {
    const TrainingResult r =
        trained({{"job.tokens", "1T"},
                 {"job.failures", std::string("{mtbf: ") + mtbf + ", restart: 1s}"},
                 {"job.checkpoint", "{mode: sync, memory_copies: 1, memory_every: 10s}"}});
    return r.replicas ? r.replicas->count : 0;
  };
  EXPECT_EQ(drawn("1d"), 1000);
  EXPECT_LT(drawn("2min"), 1000);
  EXPECT_GE(drawn("2min"), 10);
}

TEST(Train, MtbfAndRestartAreThoseOfTheWholeJob) {
  const TrainingResult r =
      trained({{"job.tokens", "100B"}, {"job.failures", "{mtbf: 3.1h, restart: 10min}"}});
  EXPECT_NEAR(r.mtbf, 3.1 * 3600, 1e-6);
  EXPECT_NEAR(r.recovery, 600 + r.checkpoint.load, 1e-6);
}

TEST(Train, TheBestIntervalIsNoWorseThanAStatedOne) {
  for (const char* every : {"20 steps", "2000 steps", "4h"}) {
    const TrainingResult r = trained({{"job.tokens", "1T"},
                                      {"job.failures.mtbf", "5h"},
                                      {"job.checkpoint", std::string("{every: ") + every + "}"}});
    EXPECT_FALSE(r.checkpoint.automatic);
    EXPECT_LT(r.checkpoint.best_wall, r.times.wall) << every;
  }
}

// What explain lists of a job is what train reckons with.
TEST(Train, WhatTheSectionLeavesOutIsDerivedAsTheRunHasIt) {
  const ScenarioDocument document = document_of(kSmall, {{"job.tokens", "1T"}});
  std::map<std::string, std::string> derived;
  for (const TrainingFact& f : derived_settings(read_job(document), document.resolve()))
    derived[f.name] = f.value;
  const TrainingResult r = train(document);
  EXPECT_EQ(derived.at("job.checkpoint.write_bw"), "1.953 GB/s");
  EXPECT_EQ(derived.at("job.checkpoint.block"), fmt::format("{:.1f} s", r.checkpoint.block));
  EXPECT_EQ(derived.at("job.checkpoint.load"), fmt::format("{:.1f} s", r.checkpoint.load));
  EXPECT_EQ(derived.count("job.power.node"), 1u);
  const ScenarioDocument stated = document_of(
      kSmall,
      {{"job", "{tokens: 1T, checkpoint: {block: 1s, save: 2s, load: 3s}, power: {node: 10kW}}"}});
  EXPECT_TRUE(derived_settings(read_job(stated), stated.resolve()).empty());
}

TEST(Train, AsynchronousCheckpointsBlockForACopyToTheHost) {
  const Sets sync{{"job.tokens", "1T"}, {"job.failures.mtbf", "5h"}};
  Sets async = sync;
  async.emplace_back("job.checkpoint.mode", "async");
  const TrainingResult a = trained(async), s = trained(sync);
  EXPECT_LT(a.checkpoint.block, 0.2 * s.checkpoint.block);
  EXPECT_EQ(a.checkpoint.save, s.checkpoint.save);
  EXPECT_LT(a.times.wall, s.times.wall);
  EXPECT_GE(a.checkpoint.every, a.checkpoint.save - a.checkpoint.block);
}

TEST(Train, CopiesInMemoryAreDrawn) {
  const TrainingResult r = trained(
      {{"job.tokens", "1T"}, {"job.failures.mtbf", "1h"}, {"job.checkpoint.memory_copies", "2"}});
  EXPECT_TRUE(r.by_replicas);
  EXPECT_NEAR(sum(r.times), r.times.wall, 1e-9 * r.times.wall);
}

// Storage is seldom read then, so that its checkpoints are made less often than without copies.
TEST(Train, WithCopiesInMemoryTheIntervalIsThatOfTheDrawnRuns) {
  Sets job{{"job.tokens", "1T"}, {"job.failures.mtbf", "1h"}};
  const double alone = trained(job).checkpoint.every;
  job.emplace_back("job.checkpoint.memory_copies", "2");
  const TrainingResult r = trained(job);
  EXPECT_GE(r.checkpoint.every, 4 * alone);
  EXPECT_EQ(r.checkpoint.every, r.checkpoint.best_every);
  // Restarts read the copies, not the storage.
  EXPECT_NEAR(r.recovery, r.times.restart / r.interruptions, 1e-9);
  job.emplace_back("job.checkpoint.every", "30min");
  const TrainingResult often = trained(job);
  EXPECT_GT(often.times.wall, r.times.wall);
  EXPECT_GT(often.checkpoint.best_every, often.checkpoint.every);
}

// How far the drawn runs lie apart is the chance of failures alone, and far less than the doubts of
// the step.
TEST(Train, WithCopiesInMemoryTheIntervalIsThatOfTheForecast) {
  for (const char* failures : {"{mtbf: 1h}", "{fleet: rsc-1}"}) {
    Sets job{{"job.tokens", "1T"}, {"job.failures", failures}};
    const TrainingResult alone = trained(job);
    job.emplace_back("job.checkpoint.memory_copies", "2");
    const TrainingResult r = trained(job);
    ASSERT_TRUE(alone.wall_low && alone.wall_high && r.wall_low && r.wall_high && r.replicas);
    EXPECT_LT(*r.wall_low, r.replicas->p10);
    EXPECT_GT(*r.wall_high, r.replicas->p90);
    EXPECT_NEAR(*r.wall_low / r.times.wall, *alone.wall_low / alone.times.wall, 0.01);
    EXPECT_NEAR(*r.wall_high / r.times.wall, *alone.wall_high / alone.times.wall, 0.01);
    EXPECT_EQ(r.published_rates, alone.published_rates);
  }
}

TEST(Train, NumbersOfGpusAreComparedWithTheCopiesInMemory) {
  Sets job{{"job.tokens", "1T"}, {"job.failures.mtbf", "1h"}};
  TrainOptions options;
  options.gpus = {8, 16, 32};
  const TrainingResult alone = trained(job, options);
  job.emplace_back("job.checkpoint.memory_copies", "2");
  const TrainingResult r = trained(job, options);
  ASSERT_EQ(r.plans.size(), 2u);
  EXPECT_THAT(r.plans_left_out,
              ::testing::ElementsAre("8 GPUs are left out: 2 copies in the memory of one node"));
  EXPECT_EQ(r.plans[0].wall, r.times.wall);
  EXPECT_GT(r.plans[1].useful_share, alone.plans[2].useful_share + 0.01);
  EXPECT_LT(r.plans[1].useful_share, r.plans[0].useful_share);
  EXPECT_THAT(r.warnings, ::testing::IsEmpty());
}

TEST(Train, RowsOfOtherNumbersOfGpusSayWhatTheyLeaveOut) {
  TrainOptions options;
  options.gpus = {12, 16};
  options.days = 0.01;
  const TrainingResult r =
      trained({{"job.tokens", "1T"}, {"job.rampup", "[{tokens: 1B, batch: 32}]"}}, options);
  EXPECT_THAT(r.plans_left_out,
              ::testing::ElementsAre("12 GPUs are left out: nodes have 8 GPUs",
                                     HasSubstr("no number of GPUs that this layout takes"),
                                     "these rows leave out the ramp"));
  EXPECT_THAT(r.warnings, ::testing::IsEmpty());
}

TEST(Train, AStatedTimeBetweenFailuresIsOfTheNodesThatTheJobHas) {
  TrainOptions options;
  options.gpus = {16, 32};
  const TrainingResult r = trained({{"job.tokens", "1T"}, {"job.failures.mtbf", "5h"}}, options);
  ASSERT_EQ(r.plans.size(), 2U);
  EXPECT_NEAR(r.plans[0].useful_share, r.useful_share, 1e-9);
  EXPECT_THAT(r.warnings, ::testing::IsEmpty());
  EXPECT_LT(r.plans[1].useful_share, r.plans[0].useful_share);
}

TEST(Train, CausesHaveTimesOfTheirOwn) {
  const TrainingResult r = trained({{"job.tokens", "1T"},
                                    {"job.failures.causes",
                                     "[{name: GPU, per_node_day: 0.1, detect: 1min, replace: 4min, "
                                     "repair: 2d}, {name: software, "
                                     "per_job_day: 0.2, detect: 10s}]"}});
  EXPECT_NEAR(r.mtbf, 86400 / (2 * 0.1 + 0.2), 1e-6);
  EXPECT_NEAR(r.recovery, (300 + 10) / 2.0 + r.checkpoint.load, 1e-6);
  ASSERT_TRUE(r.spares_for_99);
  EXPECT_GE(*r.spares_for_99, 1);
}

TEST(Train, APhaseMayLeaveTheBatchAsItIs) {
  const TrainingResult r =
      trained({{"job.tokens", "1T"}, {"job.rampup", "[{tokens: 10B, batch: null, seq: null}]"}});
  ASSERT_EQ(r.phases.size(), 2u);
  EXPECT_EQ(r.phases.front().global_batch, r.phases.back().global_batch);
  EXPECT_EQ(r.phases.front().seq, r.phases.back().seq);
}

// Every thousand steps are so many pauses, whatever the steps of a ramp take.
TEST(Train, OfARampStepsAreCountedNotTimes) {
  const TrainingResult r = trained({{"job.tokens", "1T"},
                                    {"job.failures.mtbf", "100d"},
                                    {"job.rampup", "[{tokens: 900B, batch: 16}]"},
                                    {"job.checkpoint.mode", "sync"},
                                    {"job.checkpoint.block", "60s"},
                                    {"job.checkpoint.every", "1000 steps"},
                                    {"job.evaluation", "{every: 1000 steps, takes: 60s}"}});
  EXPECT_NEAR(r.times.checkpoint, r.times.evaluation, 0.01 * r.times.evaluation);
  EXPECT_EQ(r.checkpoint.steps, 1000);
  // Twenty steps of the ramp are over before a checkpoint is made.
  EXPECT_THAT(failure({{"job.tokens", "1T"},
                       {"job.rampup", "[{tokens: 900B, batch: 16}]"},
                       {"job.checkpoint.block", "600s"},
                       {"job.checkpoint.every", "20 steps"}}),
              HasSubstr("E127"));
}

TEST(Train, RampsArePhasesWithStepsOfTheirOwn) {
  const TrainingResult r =
      trained({{"job.tokens", "1T"},
               {"job.rampup", "[{tokens: 10B, batch: 16, seq: 4096}, {tokens: 20B, batch: 32}]"}});
  ASSERT_EQ(r.phases.size(), 3u);
  EXPECT_EQ(r.phases[0].seq, 4096);
  EXPECT_EQ(r.phases[1].global_batch, 32);
  EXPECT_EQ(r.phases[2].global_batch, 64);
  EXPECT_LT(r.phases[0].step, r.phases[2].step);
  EXPECT_NEAR(r.phases[0].tokens + r.phases[1].tokens + r.phases[2].tokens, 1e12, 1);
}

// Why a search takes the steps alone for the least that a training takes: checkpoints come after
// whole steps, 49 of them here below a step of 4 h / 48.5 and 48 above.
TEST(Train, OfLongerStepsMayTakeLessWhereCheckpointsComeAfterWholeSteps) {
  const ScenarioDocument document =
      document_of(kSmall, {{"job.tokens", "40T"},
                           {"job.checkpoint", "{every: 4h, save: 60s, block: 60s}"},
                           {"job.failures", "{mtbf: 10h}"}});
  const Job job = read_job(document);
  ScenarioDocument resolved = document;
  const Scenario s = std::move(resolved).resolve();
  const double jump = 4 * 3600 / 48.5, steps = 1e6;
  const double shorter = job_seconds(job, s, jump * (1 - 1e-7), steps),
               longer = job_seconds(job, s, jump * (1 + 1e-7), steps);
  EXPECT_LT(longer, shorter);
  EXPECT_GT(longer, steps * jump);
}

TEST(Train, SaysWhatThePhaseThatNeedsMostMemoryNeeds) {
  const Sets long_first{{"job.tokens", "1T"},
                        {"model.max_position_embeddings", "262144"},
                        {"job.rampup", "[{tokens: 1B, seq: 262144}]"}};
  const TrainingResult r = trained(long_first);
  EXPECT_FALSE(r.fullest.fits);
  EXPECT_GT(r.fullest.memory_reserved, r.fullest.memory_usable);
  const TrainingResult fits = trained({{"job.tokens", "1T"}});
  EXPECT_TRUE(fits.fullest.fits);
  EXPECT_LT(fits.fullest.memory_reserved, r.fullest.memory_reserved);
}

TEST(Train, PlansBothWays) {
  TrainOptions options;
  options.gpus = {8, 32};
  const TrainingResult r = trained({{"job.tokens", "1T"}, {"job.price", "2USD/GPUh"}}, options);
  ASSERT_EQ(r.plans.size(), 2u);
  EXPECT_GT(r.plans[0].wall, r.times.wall);
  EXPECT_LT(r.plans[1].wall, r.times.wall);
  EXPECT_TRUE(r.plans[0].price);
  options.gpus.clear();
  options.days = r.times.wall / 86400 * 1.0001;
  const TrainingResult found = trained({{"job.tokens", "1T"}}, options);
  int chosen = 0;
  for (const TrainingPlan& p : found.plans) {
    if (!p.chosen) continue;
    ++chosen;
    EXPECT_EQ(p.gpus, 16);
  }
  EXPECT_EQ(chosen, 1);
}

TEST(Train, WhatIsNotStatedHasNoFigure) {
  const TrainingResult bare = trained({{"job.tokens", "1T"}});
  ASSERT_TRUE(bare.energy);
  EXPECT_FALSE(bare.energy->pue);
  EXPECT_FALSE(bare.energy->tonnes_of_co2());
  const TrainingResult said = trained(
      {{"job.tokens", "1T"}, {"job.power", "{node: 10.2kW, pue: 1.1}"}, {"job.carbon", "57g/kWh"}});
  EXPECT_NEAR(said.energy->joules, 10'200.0 * 2 * said.times.wall, 1);
  EXPECT_EQ(said.energy->pue, 1.1);
  EXPECT_EQ(said.energy->grams_per_kwh, 57);
  EXPECT_DOUBLE_EQ(said.energy->mwh_with_pue(), said.energy->joules / 3.6e9 * 1.1);
  EXPECT_DOUBLE_EQ(*said.energy->tonnes_of_co2(), said.energy->mwh_with_pue() * 57 / 1000);
}

TEST(Train, BadJobsAreRefusedWithTheirPlace) {
  EXPECT_THAT(failure({}), HasSubstr("E126 my.yaml it is not said how many tokens"));
  EXPECT_THAT(failure({{"job.tokens", "0"}}), HasSubstr("E121 --set job.tokens"));
  EXPECT_THAT(failure({{"job.tokens", "2"}}),
              HasSubstr("E127 --set job.tokens 2 tokens are less than the 524288 of one step"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.price", "-2USD/GPUh"}}),
              HasSubstr("E120 --set job.price"));
  EXPECT_THAT(
      failure({{"job.tokens", "1T"}, {"job.failures.mtbf", "20s"}}),
      HasSubstr("E127 --set job.failures.mtbf the run never ends: it is interrupted every"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.failures.per_node_day", "5000"}}),
              HasSubstr("the run never ends"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.checkpoint", "{every: 500ms, save: 10ms}"}}),
              HasSubstr("E127 --set job.checkpoint a checkpoint every 500 ms is more than one"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.checkpoint", "{every: 2 steps, save: 1h}"}}),
              HasSubstr("E127 --set job.checkpoint a checkpoint takes"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.checkpoint.every", "sometimes"}}),
              HasSubstr("--set job.checkpoint.every"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.checkpoint.every", "1000"}}),
              HasSubstr("E120 --set job.checkpoint.every 'every' needs a unit"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.failures", "nobody"}}),
              HasSubstr("E125 --set job.failures there is no fleet 'nobody'"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.spares", "2"}}),
              HasSubstr("E126 --set job.spares"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.failures", "{mtbf: 1h, per_node_day: 1}"}}),
              HasSubstr("E127 --set job.failures mtbf is beside rates"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.failures", "{restart: 1h, detect: 1min}"}}),
              HasSubstr("E127 --set job.failures restart is beside its own parts"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.power.pue", "0.9"}}),
              HasSubstr("E125 --set job.power.pue"));
  EXPECT_EQ(trained({{"job.tokens", "1T"}, {"job.carbon", "0g/kWh"}}).energy->tonnes_of_co2(), 0);
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.carbon", "57"}}),
              HasSubstr("E120 --set job.carbon"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.rampup", "5"}}),
              HasSubstr("E107 --set job.rampup a ramp is a list"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.failures.causes", "5"}}),
              HasSubstr("E125 --set job.failures.causes there are no causes"));
  EXPECT_THAT(failure({{"job.tokens", "1T"}, {"job.rampup", "[{tokens: 2T, batch: 16}]"}}),
              HasSubstr("E127 --set job.rampup the ramp takes more tokens"));
}

// Every problem of a scenario and of its job, as "E127 message", in the order of the file.
std::vector<std::string> problems_of(const std::string& job, const std::string& more = "") {
  const ScenarioDocument document =
      ScenarioDocument::of_text(std::string(kSmall) + more + "job:\n" + job, "my.yaml", "");
  std::vector<Diagnostic> found;
  const auto resolved = document.try_resolve();
  if (const InputError* error = std::get_if<InputError>(&resolved)) found = error->diagnostics;
  add_job_problems(found, document, std::get_if<Scenario>(&resolved));
  std::vector<std::string> words;
  for (const Diagnostic& d : found) {
    EXPECT_EQ(d.file, "my.yaml");
    EXPECT_GT(d.line, 4) << d.message;
    words.push_back(d.code + ' ' + d.message);
  }
  return words;
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JobProblems, AreAllFoundAtOnceWithoutAStep) {
  EXPECT_THAT(
      problems_of("  tokens: 1T\n  price: 2USD/GPUh\n  failures: {mtbf: 3h, restart: 5min}\n"
                  "  checkpoint: {every: 500 steps, mode: async}\n"),
      IsEmpty());
  EXPECT_THAT(
      problems_of("  tokens: 0\n  price: -2USD/GPUh\n"
                  "  failures: {mtbf: 1h, per_node_day: -1, replace: {spare: -3min, repair: 1d}}\n"
                  "  spares: 9\n"
                  "  checkpoint: {every: 10s, memory_block: 1s, block: 20s, save: 10s}\n"
                  "  power: {pue: 0.5}\n"),
      ElementsAre(HasSubstr("E121 'tokens' must be above 0"), HasSubstr("E120 '-2USD/GPUh'"),
                  HasSubstr("E127 mtbf is beside rates"),
                  HasSubstr("E122 'per_node_day' must not be negative"),
                  HasSubstr("E122 'spare' must not be negative"),
                  HasSubstr("E127 9 spares stand by for 2 nodes"),
                  HasSubstr("E127 a checkpoint takes 20.0 s, longer than the 10.0 s"),
                  HasSubstr("E126 memory_block is of copies in memory"),
                  HasSubstr("E127 training stands longer"), HasSubstr("E125 a building takes")));
}

TEST(JobProblems, OfARampNameItsPhaseWhereItIsWritten) {
  const std::string text = std::string(kSmall) +
                           "job:\n  tokens: 1T\n  rampup:\n"
                           "    - {tokens: 1B, batch: 16}\n    - {tokens: 1B, batch: 17}\n";
  const ScenarioDocument document = document_of(text.c_str(), {});
  std::vector<Diagnostic> found;
  const Scenario scenario = document.resolve();
  add_job_problems(found, document, &scenario);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "E203");
  EXPECT_EQ(found[0].file, "my.yaml");
  EXPECT_EQ(found[0].line, 9);
  EXPECT_EQ(found[0].source_line, "    - {tokens: 1B, batch: 17}");
  EXPECT_THAT(found[0].note, HasSubstr("phase 2 of job.rampup"));
  try {
    trained({{"job.tokens", "1T"}, {"job.rampup", "[{tokens: 100B, batch: 17}]"}});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.diagnostics.front().file, HasSubstr("job.rampup"));
    EXPECT_THAT(e.diagnostics.front().note, HasSubstr("phase 1 of job.rampup"));
  }
}

TEST(JobProblems, StandBesideThoseOfTheScenario) {
  EXPECT_THAT(problems_of("  price: free\n", "schedule: 2f2b\n"),
              ElementsAre(HasSubstr("2f2b"), HasSubstr("E120 'free' is no price")));
}

TEST(JobProblems, ARunThatNeverEndsIsKnownWithoutAStep) {
  EXPECT_THAT(
      problems_of("  failures: {mtbf: 20s, restart: 5min}\n"),
      ElementsAre(HasSubstr("E127 the run never ends: it is interrupted every 20.0 s, while "
                            "a restart takes")));
  // However short the steps are.
  EXPECT_THAT(problems_of("  failures: {mtbf: 20s, restart: 5min}\n  checkpoint: 5 steps\n"),
              ElementsAre(HasSubstr("E127 the run never ends")));
  EXPECT_THAT(problems_of("  failures: {mtbf: 20min, restart: 0s}\n  checkpoint: 6h\n"),
              ElementsAre(HasSubstr("and a checkpoint comes every 6.0 h")));
  // Copies in memory shorten what is done again.
  EXPECT_THAT(problems_of("  failures: {mtbf: 1min, restart: 0s}\n"
                          "  checkpoint: {every: 1h, memory_copies: 2}\n"),
              IsEmpty());
  EXPECT_THAT(problems_of("  failures: {mtbf: 20s, restart: 5min}\n"
                          "  checkpoint: {every: 1h, memory_copies: 2}\n"),
              ElementsAre(HasSubstr("E127 the run never ends")));
}

TEST(JobProblems, ARunThatIsShorterThanTheCheckpointIntervalMayEnd) {
  const std::string often = "  failures: {mtbf: 20min, restart: 0s}\n  checkpoint: 6h\n";
  EXPECT_THAT(problems_of(often + "  tokens: 1M\n"), IsEmpty());
  EXPECT_THAT(problems_of(often + "  tokens: 1T\n"),
              ElementsAre(HasSubstr("E127 the run never ends")));
}

TEST(JobProblems, KeysThatContradictEachOther) {
  EXPECT_THAT(problems_of("  checkpoint: {every: 1h, memory_copies: 3, memory_every: 2h}\n"),
              ElementsAre(HasSubstr("E127 3 copies in the memory of 2 nodes"),
                          HasSubstr("E127 copies in memory are made less often")));
  EXPECT_THAT(problems_of("  tokens: 1T\n  rampup: [{tokens: 600B, batch: 16}, {tokens: 400B}]\n"),
              ElementsAre(HasSubstr("E127 the ramp takes more tokens")));
  EXPECT_THAT(problems_of("  rampup: [{tokens: many}]\n  checkpoint: {mode: [], every: {}}\n"
                          "  failures: {warmup: soon, per_job_day: often, fleet: [], causes: 3}\n"),
              Not(IsEmpty()));
}

TEST(Train, TheCurveOfIntervalsIsLeastAtTheBest) {
  const TrainingResult r = trained(
      {{"job.tokens", "1T"}, {"job.failures.mtbf", "5h"}, {"job.checkpoint", "{every: 4h}"}});
  ASSERT_GT(r.intervals.size(), 20u);
  bool best = false, stated = false;
  for (size_t i = 0; i < r.intervals.size(); ++i) {
    const TrainingInterval& at = r.intervals[i];
    if (i > 0) {
      EXPECT_GT(at.every, r.intervals[i - 1].every);
    }
    EXPECT_GE(at.wall, r.checkpoint.best_wall * (1 - 1e-12));
    best = best || (at.every == r.checkpoint.best_every && at.wall == r.checkpoint.best_wall);
    stated = stated || (at.every == r.checkpoint.every && at.wall == r.times.wall);
  }
  EXPECT_TRUE(best && stated);
  EXPECT_TRUE(
      trained({{"job.tokens", "1T"}, {"job.checkpoint.memory_copies", "2"}}).intervals.empty());
}

TEST(Train, CheckpointsHoldWhatTheOptimizerHas) {
  const Scenario s = load_scenario_text(
      "model: llama3-405b\ncluster: dgx-h100 x 2048\n"
      "parallel: {tp: 8}\n"
      "batch: {global: 2048, micro: 1, seq: 8192}\n",
      "405b.yaml");
  EXPECT_NEAR(checkpoint_bytes(s), 14 * 405'853'388'800.0, 1e-4 * 5.68e12);  // padded vocabulary
}

// GPU-hours from our own steps.  Of LLaMA-65B the layout, of MPT-7B the microbatch is not
// published: docs/training_runs.md says what they are taken from, and what each source counts.
struct PublishedRun {
  const char* name;
  std::string text;
  double tokens = 0, gpu_hours = 0;
  bool steps_alone = false;  // the source reckons with the rate of its steps
};

std::string example(const std::string& name) {
  const std::string path = STEPCAST_SOURCE_DIR "/scenarios/examples/" + name;
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PublishedRuns, GpuHoursFollowFromTheStep) {
  const PublishedRun runs[] = {
      {"Llama 3.1 405B", example("llama3-405b-16384xh100.yaml"), 15.6e12, 30.84e6},
      {"DeepSeek-V3", example("deepseek-v3-2048xh800.yaml"), 14.8e12, 2.664e6, true},
      {"LLaMA-65B",
       "model: {preset: llama2-13b, num_hidden_layers: 80, hidden_size: 8192, "
       "num_attention_heads: 64, num_key_value_heads: 64, head_dim: 128, intermediate_size: 22016, "
       "max_position_embeddings: 2048}\n"
       "cluster: dgx-a100-80g x 256\nparallel: {tp: 4, pp: 8, zero: 1}\n"
       "batch: {global: 2048, micro: 1, seq: 2048}\nschedule: 1f1b\n",
       1.4e12, 1.022362e6},
      {"MPT-7B",
       "model: {preset: mpt-13b, num_hidden_layers: 32, hidden_size: 4096, num_attention_heads: "
       "32, num_key_value_heads: 32, head_dim: 128, intermediate_size: 16384}\n"
       "cluster: dgx-a100-40g x 55\nsoftware: llm-foundry\nparallel: {zero: 3}\n"
       "batch: {global: 1760, micro: 4, seq: 2048}\nrecompute: full\n",
       1e12, 100'320}};
  for (const PublishedRun& run : runs) {
    ScenarioDocument document = ScenarioDocument::of_text(run.text, "run.yaml", "");
    LoadOptions set;
    set.set = {{"job.tokens", std::to_string(static_cast<int64_t>(run.tokens))}};
    document.set(set);
    const TrainingResult r = train(document);
    const double hours = run.gpu_hours * 3600 / static_cast<double>(r.gpus);
    EXPECT_NEAR((run.steps_alone ? r.times.useful : r.times.wall) / hours, 1, 0.15) << run.name;
    if (run.steps_alone) {
      const Result step = forecast(document.resolve());
      ASSERT_TRUE(step.interval);
      const double steps = r.times.useful / to_seconds(step.step_time);
      EXPECT_LT(steps * to_seconds(step.interval->low), hours) << run.name;
      EXPECT_GT(steps * to_seconds(step.interval->high), hours) << run.name;
      // A known miss: what is lost to failures, which the source does not count, comes on top.
      EXPECT_GT(r.times.wall / hours, 1.15) << run.name;
      EXPECT_LT(r.times.wall / hours, 1.18) << run.name;
      continue;
    }
    ASSERT_TRUE(r.wall_low && r.wall_high);
    EXPECT_LT(*r.wall_low, hours) << run.name;
    EXPECT_GT(*r.wall_high, hours) << run.name;
  }
}

// --- power

TEST(Power, TablesOfNonsenseAreRefused) {
  const std::string header = "what,architecture,value,known\n";
  const std::string rest =
      "compute,,1,published\nmemory,,0.6,assumed\ncommunication,,0.5,published\nidle,,0.2,"
      "derived\n";
  EXPECT_NO_THROW(parse_power(header + rest + "host_drawn,,0.6,derived\n"));
  EXPECT_THROW(parse_power(header + rest), InputError);
  EXPECT_THROW(parse_power(header + rest + "host_drawn,,1.6,derived\n"), InputError);
  EXPECT_THROW(parse_power(header + rest + "host_drawn,,0.6,guessed\n"), InputError);
  EXPECT_THROW(parse_power(header + rest + "host_rated,abacus,100,derived\n"), InputError);
  EXPECT_THROW(parse_power(header + rest + "fans,,1,derived\n"), InputError);
}

TEST(Power, FiguresWithoutASourceAreCalledAssumed) {
  Gpu gpu;
  gpu.arch = GpuArch::hopper;
  EXPECT_EQ(assumed_power(gpu), "memory-bound kernels at 65 % of the rating");
  gpu.arch = GpuArch::volta;
  EXPECT_EQ(assumed_power(gpu),
            "memory-bound kernels at 65 % of the rating; hosts rated at 137.5 W a GPU");
}

TEST(Power, ALimitCapsWhatAGpuDraws) {
  Gpu gpu;
  gpu.power = Power{700};
  EXPECT_EQ(gpu_watts(gpu, Draw::compute), 700);
  gpu.power_limit = Power{400};
  EXPECT_EQ(gpu_watts(gpu, Draw::compute), 400);
  EXPECT_EQ(gpu_watts(gpu, Draw::idle), 0.2 * 700);
  gpu.power = {};
  EXPECT_FALSE(gpu_watts(gpu, Draw::compute));
}

// A new architecture needs a row host_rated in job/power.csv, or its reason here.
TEST(Power, EveryArchitectureHasARatedHostOrAReason) {
  const std::set<std::string_view> kWithout{"other"};  // any maker's: there is no one node of it
  for (size_t i = 0; i < kGpuArchitectures.size(); ++i) {
    const std::string_view name = kGpuArchitectures[i].name;
    Gpu gpu;
    gpu.arch = static_cast<GpuArch>(i);
    gpu.power = Power{700};
    EXPECT_NE(host_watts(gpu).has_value(), kWithout.contains(name)) << name;
    EXPECT_NE(check_power(gpu).has_value(), host_watts(gpu).has_value()) << name;
  }
}

TEST(Power, SaysWhichOfGpuAndHostIsNotKnown) {
  Gpu gpu;
  gpu.arch = GpuArch::other;
  ASSERT_TRUE(check_power(gpu));
  EXPECT_THAT(check_power(gpu)->message, HasSubstr("the power of this GPU is not known"));
  EXPECT_THAT(check_power(gpu)->help, HasSubstr("cluster.node.gpu.power"));
  gpu.power = Power{700};
  ASSERT_TRUE(check_power(gpu));
  EXPECT_THAT(check_power(gpu)->message, HasSubstr("no host rating for architecture 'other'"));
  EXPECT_THAT(check_power(gpu)->help, HasSubstr("volta, ampere, hopper, blackwell"));
}

TEST(Train, SaysWhyThereIsNoEnergy) {
  const TrainingResult r = trained({{"job.tokens", "1T"}, {"cluster.node.gpu.arch", "other"}});
  EXPECT_FALSE(r.energy);
  EXPECT_THAT(r.warnings, ::testing::Contains(HasSubstr("no host rating for architecture")));
}

// Watts of a GPU with its share of the host, over a step.
double drawn(const std::string& text) {
  const Scenario s = load_scenario_text(text, "run.yaml");
  ForecastOptions options;
  options.what_if = false;
  const auto energy = step_energy(s.cluster.node.gpu, forecast(s, options));
  return energy ? energy->gpu_watts + energy->host_watts : 0;
}

// Measured: nodes of 8 x H100 that train transformers draw 76 % of the rated 10.2 kW, 969 W a GPU
// (Newkirk et al. 2025, arXiv 2506.14551), and never more than 8.4 kW (arXiv 2412.08602).  The
// host's share of our figure comes from these 8.4 kW: this says that the parts add up, and is no
// check of its own.
TEST(Power, NodesOfH100DrawWhatWasMeasured) {
  const double watts = drawn(
      "model: llama2-13b\ncluster: dgx-h100 x 1\nparallel: {zero: 3}\n"
      "batch: {global: 64, micro: 1, seq: 4096}\n");
  EXPECT_NEAR(watts / 969, 1, 0.12);
  EXPECT_LT(8 * watts, 8400);
}

// Measured: 330 W for each V100 with its share of the system while GPT-3 was trained on 10,000 of
// them (Patterson et al. 2021, arXiv 2104.10350, table 4).  How it was laid out is not published.
// No figure of ours comes from there: the shares are of A100 and H100, the host's is of H100.
TEST(Power, Gpt3OnV100DrawsWhatWasMeasured) {
  const double watts = drawn(
      "model: gpt3-175b\ncluster: dgx-1-v100 x 128\nparallel: {tp: 8, pp: 16}\n"
      "batch: {global: 1536, micro: 1, seq: 2048}\nprecision: fp16-mixed\n");
  EXPECT_NEAR(watts / 330, 1, 0.12);
}

// What was reckoned from these: chips x days x hours x watts x PUE (table 4): arithmetic alone.
TEST(PublishedRuns, PattersonsEnergiesAreChipsTimesHoursTimesWatts) {
  struct Row {
    const char* model;
    double chips, days, watts, pue, mwh;
  };
  for (const Row& r : {Row{"T5", 512, 20, 310, 1.12, 85.7}, Row{"Meena", 1024, 30, 289, 1.09, 232},
                       Row{"GShard-600B", 1024, 3.1, 288, 1.09, 24.1},
                       Row{"Switch Transformer", 1024, 27, 245, 1.10, 179},
                       Row{"GPT-3", 10'000, 14.8, 330, 1.10, 1287}})
    EXPECT_NEAR(r.chips * r.days * 24 * r.watts * r.pue / 1e6 / r.mwh, 1, 0.008) << r.model;
}

}  // namespace
}  // namespace stepcast
