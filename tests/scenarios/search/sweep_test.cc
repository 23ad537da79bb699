// SPDX-License-Identifier: Apache-2.0
// Sweeps: each point is what `run` says of it, and what is wrong with axes is said.
#include "scenarios/search/sweep.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "job/training.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/search/store_folder.h"
#include "sim/for_each_item.h"
#include "sim/results/step_ranking.h"
#include "tests/scenarios/loading.h"
#include "tests/temporary_folder.h"

namespace stepcast::sweep_test {
namespace {

const std::string kSmall =
    "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 1\n"
    "batch: {global: 16, seq: 2048}\n";

ScenarioDocument document(const std::string& text) {
  return ScenarioDocument::of_text(text, "run.yaml", "");
}

TEST(Sweep, PointsAreWhatRunSays) {
  const std::string texts[] = {
      kSmall + "sweep: {axes: {parallel.tp: [1, 2], batch.micro: [1, 2]}}\n",
      kSmall + "perturb: [{where: rank 3, compute: 0.8}]\nsweep: {axes: {parallel.tp: [2, 4]}}\n",
      kSmall + "mode: decode\nsweep: {axes: {parallel.tp: [2, 4]}}\n",
      kSmall + "parallel: {pp: 2}\nsweep: {axes: {schedule: [1f1b, zb-1p-auto]}}\n"};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    const SweepResult result = sweep(document(text));
    ASSERT_FALSE(result.points.empty());
    for (const SweepPoint& p : result.points) {
      ASSERT_EQ(p.outcome, SweepPoint::Outcome::found) << p.why;
      LoadOptions options;
      for (size_t a = 0; a < result.axes.size(); ++a)
        options.set.emplace_back(result.axes[a], p.values[a]);
      const Result run = forecast(load_scenario_text(text, "run.yaml", options));
      EXPECT_EQ(p.row.step_time_ps, run.step_time.count());
      EXPECT_EQ(p.row.reserved_bytes, run.memory_reserved.value);
      EXPECT_EQ(p.row.usable_bytes, run.memory_usable.value);
      EXPECT_EQ(p.row.peak_bytes, run.memory[run.peak_role].memory.peak.value);
      EXPECT_EQ(p.row.tokens_per_gpu_s, run.tokens_per_s_per_gpu);
      EXPECT_EQ(p.row.fits(), run.fits);
      EXPECT_EQ(p.row.mfu.value_or(run.utilization.mfu_full_attention),
                run.utilization.mfu_full_attention);
    }
  }
}

TEST(Sweep, AValueThatIsListedTwiceMakesItsPointsOnce) {
  const SweepResult once =
      sweep(document(kSmall + "sweep: {axes: {parallel.tp: [2, 4, 2], batch.micro: [1, 1]}}\n"));
  ASSERT_EQ(once.points.size(), 2u);
  EXPECT_EQ(once.points[1].values, (std::vector<std::string>{"4", "1"}));
  // In pairs it belongs to another value.
  EXPECT_EQ(
      sweep(document(kSmall +
                     "sweep: {mode: zip, axes: {parallel.tp: [2, 2], batch.micro: [1, 2]}}\n"))
          .points.size(),
      2u);
}

TEST(Sweep, GoesThroughAllCombinationsOrPairs) {
  const std::string axes = "axes: {parallel.tp: [1, 2, 3], batch.micro: [1, 2, 4]}";
  const SweepSpace product(document(kSmall + "sweep: {" + axes + "}\n"));
  EXPECT_EQ(product.size(), 9u);
  EXPECT_EQ(settings_text(product.settings(1)), "parallel.tp=1 batch.micro=2");
  const SweepSpace zipped(document(kSmall + "sweep: {mode: zip, " + axes + "}\n"));
  EXPECT_EQ(zipped.size(), 3u);
  EXPECT_EQ(settings_text(zipped.settings(2)), "parallel.tp=3 batch.micro=4");
}

TEST(Sweep, AxesOfTheCommandLineReplaceThoseOfTheFile) {
  SweepOptions options;
  options.axes = {"parallel.tp=8", "precision=bf16-mixed,fp8-delayed", "model={preset: llama3-8b}"};
  const SweepSpace space(document(kSmall + "sweep: {axes: {parallel.tp: [1, 2], seed: 1}}\n"),
                         options);
  EXPECT_EQ(space.paths(), (std::vector<std::string>{"seed", "parallel.tp", "precision", "model"}));
  EXPECT_EQ(space.size(), 2u);
}

TEST(Sweep, RowsSayWhatTheCommandLineHasSet) {
  const std::string text = kSmall + "sweep: {axes: {parallel.tp: [2, 4]}}\n";
  SweepOptions options;
  options.given = {{"batch.seq", "512"},
                   {"batch.seq", "1024"},
                   {"parallel.tp", "8"},
                   {"sweep.mode", "zip"},
                   {"search.top", "3"}};
  ScenarioDocument changed = document(text);
  LoadOptions set;
  set.set = options.given;
  changed.set(set);
  SweepRun run;
  std::vector<std::string> kept;
  run.remember = [&](const Scenario&, const auto& settings, const JobFacts&, const auto& simulate) {
    kept.push_back(settings_text(settings));
    return simulate();
  };
  const SweepResult result = sweep(changed, options, run);
  ASSERT_EQ(result.points.size(), 2u);
  EXPECT_EQ(result.points[0].row.settings, "batch.seq=1024 parallel.tp=2");
  EXPECT_EQ(kept, (std::vector{result.points[0].row.settings, result.points[1].row.settings}));
}

TEST(Sweep, WhatIsNoValueOfAKeyIsRefusedBeforeAnyPoint) {
  const auto refused = [](const std::string& axis) {
    SweepOptions options;
    options.axes = {axis};
    return testing::failure_of([&] { sweep(document(kSmall), options); });
  };
  for (const char* range : {"1-4", "1..4", "1:4"}) {
    const testing::Failure f = refused(std::string("parallel.tp=") + range);
    ASSERT_EQ(f.all.size(), 1u) << range;
    EXPECT_EQ(f.all[0].help, "values are listed one by one: 1,2,4") << range;
    EXPECT_EQ(f.all[0].file, "--axis parallel.tp");
  }
  EXPECT_EQ(refused("parallel.tp=1-4").lines,
            std::vector<std::string>{"E107 1:2 'tp' must be a plain number, not '1-4'"});
  EXPECT_EQ(refused("parallel.tp=1,x").codes, "E107");
  EXPECT_EQ(refused("recompute.granularity=none,ful").codes, "E125");
  EXPECT_EQ(refused("parallel.tp=1,3").codes, "");  // a value, of no scenario
}

TEST(Sweep, RowsSayThePriceOfTheirPoint) {
  std::vector<double> told;
  SweepRun run;
  run.remember = [&](const Scenario&, const auto&, const JobFacts& job, const auto& simulate) {
    told.push_back(job.price.value_or(0));
    return simulate();
  };
  const SweepResult result =
      sweep(document(kSmall + "job: {tokens: 1T, price: 1USD/GPUh}\n"
                              "sweep: {axes: {job.price: [2USD/GPUh, 3USD/GPUh]}}\n"),
            {}, run);
  ASSERT_EQ(result.points.size(), 2u);
  EXPECT_EQ(told, (std::vector{2.0, 3.0}));
  const StepRow &two = result.points[0].row, &three = result.points[1].row;
  EXPECT_EQ(two.price_usd_per_gpu_h, 2);
  EXPECT_EQ(three.price_usd_per_gpu_h, 3);
  EXPECT_EQ(two.step(), three.step());
  EXPECT_NE(two.key, three.key);
}

TEST(Sweep, DaysAndPriceAreThoseOfTheWholeTraining) {
  const ScenarioDocument point = document(kSmall + "job: {tokens: 1T, price: 1USD/GPUh}\n");
  const SweepResult result = sweep(document(kSmall + "job: {tokens: 1T, price: 1USD/GPUh}\n"
                                                     "sweep: {axes: {batch.micro: [1]}}\n"),
                                   {}, {});
  ScenarioDocument same = point;
  same.set("batch.micro", scalar_value("1"));
  const TrainingResult whole = train(same);
  ASSERT_EQ(result.points.size(), 1u);
  const StepRow& row = result.points[0].row;
  EXPECT_LT(row.useful_share.value(), 1);
  EXPECT_DOUBLE_EQ(row.days().value(), whole.times.wall / 86400);
  EXPECT_DOUBLE_EQ(row.price().value(), whole.price.value());
}

TEST(Sweep, CountsWhatIsNoScenario) {
  const SweepResult result = sweep(document(kSmall + "sweep: {axes: {parallel.tp: [1, 3, 0]}}\n"));
  ASSERT_EQ(result.points.size(), 3u);
  EXPECT_EQ(result.points[0].outcome, SweepPoint::Outcome::found);
  EXPECT_EQ(result.points[1].outcome, SweepPoint::Outcome::illegal);
  EXPECT_EQ(result.points[1].code, "E210");
  EXPECT_EQ(result.points[2].code, "E121");
}

TEST(Sweep, SaysAllThatIsWrongWithItsSection) {
  const auto codes = [](const std::string& section, std::vector<std::string> axes = {}) {
    std::string all;
    try {
      SweepOptions options;
      options.axes = std::move(axes);
      SweepSpace space(document(kSmall + section), options);
    } catch (const InputError& e) {
      for (const Diagnostic& d : e.diagnostics) {
        all += (all.empty() ? "" : " ") + d.code;
        EXPECT_GT(d.line, 0) << d.message;
        EXPECT_FALSE(d.help.empty() && d.label.empty()) << d.message;
      }
    }
    return all;
  };
  EXPECT_EQ(codes(""), "E126");
  EXPECT_EQ(codes("sweep: {axes: {}}\n"), "E126");
  EXPECT_EQ(codes("sweep: 3\n"), "E107");
  EXPECT_EQ(codes("sweep: {axes: [1]}\n"), "E107");
  EXPECT_EQ(codes("sweep: {axis: {parallel.tp: 1}}\n"), "E102");
  EXPECT_EQ(codes("sweep: {axes: {parallel.tpp: [1, 2], batch.micro: []}, mode: random}\n"),
            "E102 E125 E125");
  EXPECT_EQ(codes("sweep: {axes: {search.top: [1, 2]}}\n"), "E102");
  EXPECT_EQ(codes("sweep: {mode: zip, axes: {parallel.tp: [1, 2], batch.micro: [1, 2, 4]}}\n"),
            "E127");
  EXPECT_EQ(codes("", {"parallel.tp", "=2", "parallel.pp="}), "E004 E004 E125");
  std::string many = "seed: [0";
  for (int i = 1; i < 1000; ++i) many += ", " + std::to_string(i);
  std::string axes;
  for (const char* path : {"", "replicas", "parallel.tp", "parallel.pp"})
    axes += *path == 0 ? many + ']' : ", " + std::string(path) + many.substr(4) + ']';
  EXPECT_EQ(codes("sweep: {axes: {" + axes + "}}\n"), "E123");  // 10^12 points
}

TEST(Sweep, PartsMakeTheWhole) {
  const ScenarioDocument d = document(
      kSmall +
      "sweep: {axes: {parallel.tp: [1, 2, 4], batch.micro: [1, 2], parallel.pp: [1, 2]}}\n");
  const auto rows = [&](SearchShard shard, int jobs) {
    SweepRun run;
    run.shard = shard;
    run.jobs = jobs;
    run.version = "1";
    std::map<Hash128, StepRow> all;
    for (const SweepPoint& p : sweep(d, {}, run).points)
      if (p.outcome == SweepPoint::Outcome::found) {
        EXPECT_TRUE(all.emplace(p.row.key, p.row).second);
      }
    return all;
  };
  const auto whole = rows({}, 1);
  EXPECT_EQ(rows({}, 3), whole);
  auto together = rows({2, 3}, 2);
  together.merge(rows({0, 3}, 1));
  together.merge(rows({1, 3}, 1));
  EXPECT_EQ(together, whole);
}

TEST(Sweep, EndsWhenItIsAskedTo) {
  SweepRun run;
  int asked = 0;
  run.stop = [&] { return ++asked > 2; };
  const SweepResult result =
      sweep(document(kSmall + "sweep: {axes: {parallel.tp: [1, 2, 4, 8]}}\n"), {}, run);
  EXPECT_EQ(result.points[1].outcome, SweepPoint::Outcome::found);
  EXPECT_EQ(result.points[2].outcome, SweepPoint::Outcome::open);
  EXPECT_EQ(result.points[3].values, std::vector<std::string>{"8"});
}

TEST(ForEachItem, BeginsNothingAfterWhatThrew) {
  for (const int jobs : {1, 4}) {
    std::atomic<int> begun{0};
    try {
      for_each_item(100'000, jobs, [&](size_t i, size_t) {
        ++begun;
        if (i >= 10) throw i;
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const size_t lowest) {
      EXPECT_EQ(lowest, 10u);
    }
    EXPECT_LE(begun, 10 + 2 * jobs);
  }
}

TEST(ForEachItem, TheCallerDoesTheFirst) {
  for (int i = 0; i < 100; ++i) {
    std::array<std::thread::id, 3> by;
    for_each_item(by.size(), 3,
                  [&](size_t item, size_t) { by[item] = std::this_thread::get_id(); });
    EXPECT_EQ(by[0], std::this_thread::get_id());
  }
}

// ------------------------------------------------------------------------------------------- keys

Hash128 key(const std::string& text, const std::string& version = "1") {
  return step_key(load_scenario_text(text, "run.yaml"), version);
}

TEST(StepKey, IsThatOfTheStep) {
  const Hash128 own = key(kSmall);
  EXPECT_EQ(key(kSmall + "name: other\n"), own);
  EXPECT_EQ(key(kSmall + "parallel: {tp: 1}\nsearch: {top: 3}\njob: {tokens: 1T}\n"), own);
  EXPECT_EQ(key(kSmall + "sweep: {axes: {seed: [1]}}\n"), own);
  for (const char* more : {"parallel: {tp: 2}\n", "seed: 1\n", "in_situ: off\n", "replicas: 2\n",
                           "perturb: [{where: rank 3, compute: 0.8}]\n"})
    EXPECT_NE(key(kSmall + more), own) << more;
  EXPECT_NE(key(kSmall, "2"), own);
}

TEST(StepKey, KnowsTheFilesThatAScenarioNames) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path() / name) << text;
  };
  const auto own = [&] {
    return step_key(load_scenario((folder.path() / "run.yaml").string()), "1");
  };
  write("run.yaml",
        "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 1\n"
        "batch: {global: 8, seq: 2048}\nparallel: {pp: 2}\nschedule: {file: order.csv}\n");
  write("order.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const Hash128 first = own();
  EXPECT_EQ(own(), first);
  write("order.csv", "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_NE(own(), first);
}

// ------------------------------------------------------------------------------ searches that keep

TEST(Search, TakesUpWhatRunsAsItsSettingsSay) {
  const std::string text =
      "model: {preset: gpt3-1.3b, num_hidden_layers: 8}\ncluster: dgx-a100-80g x 1\n"
      "batch: {global: 32, micro: 2, seq: 2048}\n"
      "parallel: {tp: 2, pp: 2, vpp: 2, dp: 2, zero: 1, sp: true}\n"
      "schedule: {kind: interleaved-1f1b, group: 4}\n"
      "contention: {links: on}\nreplicas: 2\n"
      "perturb: [{ranks: 0, speed: 0.5}]\n"
      "search: {space: {parallel.cp: 1, batch.micro: [1, 2]}, top: 2}\n";
  SearchOptions options;
  options.given = {{"batch.seq", "1024"}};
  LoadOptions given;
  given.set = options.given;
  ScenarioDocument d = document(text);
  d.set(given);
  SearchRun run;
  run.forecasts = false;
  int kept = 0;
  run.remember = [&](const Scenario& scenario, const auto& settings, const JobFacts&,
                     const auto& simulate) {
    LoadOptions set;
    set.set = settings;
    EXPECT_EQ(step_key(load_scenario_text(text, "run.yaml", set), "1"), step_key(scenario, "1"))
        << settings_text(settings);
    ++kept;
    return simulate();
  };
  search_layouts(d, options, run);
  EXPECT_GT(kept, 0);
}

TEST(Search, TakesUpWhatItKept) {
  const std::string text =
      kSmall +
      "search: {space: {parallel.cp: 1, batch.micro: [1, 2]}, memory_margin: 20%, top: 5}\n";
  SearchRun run;
  run.forecasts = false;
  run.jobs = 2;
  const SearchAnswer plain = search_layouts(document(text), {}, run);
  std::mutex mutex;
  std::map<Hash128, Evaluator::Trial> kept;
  std::atomic<int> simulated{0};
  run.remember = [&](const Scenario& scenario, const auto&, const JobFacts&, const auto& simulate) {
    const Hash128 own = step_key(scenario, "1");
    {
      const std::lock_guard lock(mutex);
      if (const auto known = kept.find(own); known != kept.end()) return known->second;
    }
    ++simulated;
    const Evaluator::Trial trial = simulate();
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(kept.emplace(own, trial).second);
    return trial;
  };
  const auto same = [&](const SearchAnswer& answer) {
    ASSERT_EQ(answer.rows.size(), plain.rows.size());
    for (size_t i = 0; i < plain.rows.size(); ++i) {
      EXPECT_EQ(answer.rows[i].layout, plain.rows[i].layout);
      EXPECT_EQ(answer.rows[i].outcome, plain.rows[i].outcome);
      // Of what is slower than the best no more is looked at than that it is.
      if (plain.rows[i].outcome == SearchRow::Outcome::fits) {
        EXPECT_EQ(answer.rows[i].time, plain.rows[i].time);
      }
      EXPECT_EQ(answer.rows[i].peak, plain.rows[i].peak);
      EXPECT_EQ(answer.rows[i].reserved, plain.rows[i].reserved);
    }
    ASSERT_EQ(answer.result.best.size(), plain.result.best.size());
    for (size_t i = 0; i < plain.result.best.size(); ++i)
      EXPECT_EQ(answer.result.best[i].set, plain.result.best[i].set);
    for (size_t i = 0; i < plain.result.decided.size(); ++i)
      EXPECT_EQ(answer.result.decided[i].count, plain.result.decided[i].count);
  };
  same(search_layouts(document(text), {}, run));
  EXPECT_EQ(simulated, static_cast<int>(plain.rows.size()));
  same(search_layouts(document(text), {}, run));
  EXPECT_EQ(simulated, static_cast<int>(plain.rows.size()));
  // In parts, then as a whole: what the parts found is not simulated again.
  kept.clear();
  for (int64_t i = 0; i < 3; ++i) {
    run.shard = {i, 3};
    search_layouts(document(text), {}, run);
  }
  run.shard = {};
  same(search_layouts(document(text), {}, run));
}

// What a step draws takes a forecast, which is made once, whoever asks and in whatever parts.
TEST(Search, TakesUpTheEnergyThatItKept) {
  const ScenarioDocument asked =
      document(kSmall +
               "search: {space: {parallel.cp: 1, batch.micro: 1}, memory_margin: 20%, top: 5, "
               "objective: energy}\n");
  const testing::TemporaryFolder temporary;
  std::atomic<int> forecasts{0};
  const auto kept = [&](const std::string& name, int jobs, SearchShard shard = {}) {
    StoreFolder folder((temporary.path() / name).string(),
                       store_file_name("run.yaml", "search", shard), "1");
    SearchRun run;
    run.forecasts = false;
    run.jobs = jobs;
    run.shard = shard;
    run.remember = folder.remember();
    run.remember_energy = [&](const Scenario& scenario, const auto& settings, const JobFacts& job,
                              const auto& forecast) {
      return folder.remember_energy()(scenario, settings, job, [&] {
        ++forecasts;
        return forecast();
      });
    };
    SearchAnswer answer = search_layouts(asked, {}, run);
    folder.close();
    return answer;
  };
  SearchRun alone;
  alone.forecasts = false;
  const SearchAnswer plain = search_layouts(asked, {}, alone);
  ASSERT_FALSE(plain.result.best.empty());
  const auto expect_same = [&](const SearchAnswer& answer) {
    ASSERT_EQ(answer.result.best.size(), plain.result.best.size());
    for (size_t i = 0; i < plain.result.best.size(); ++i) {
      EXPECT_EQ(answer.result.best[i].set, plain.result.best[i].set);
      EXPECT_EQ(answer.result.best[i].joules_per_token, plain.result.best[i].joules_per_token);
    }
  };
  const auto rows_of = [&](const std::string& name) {
    std::vector<StepRow> rows;
    for (const std::string& file : store_files((temporary.path() / name).string()))
      read_steps(file, [&](StepRow row) { rows.push_back(std::move(row)); });
    return rows;
  };
  StepRanking by_energy;
  by_energy.by = {SearchObjective::energy};
  by_energy.memory_margin = 0.2;
  expect_same(kept("whole", 2));
  EXPECT_GT(forecasts.exchange(0), 0);
  expect_same(kept("whole", 3));
  EXPECT_EQ(forecasts.exchange(0), 0);
  expect_same(kept("again", 1));
  const std::vector<StepRow> whole = rows_of("whole");
  EXPECT_EQ(rows_of("again"), whole);

  kept("parts", 2, {0, 2});
  kept("parts", 1, {1, 2});
  forecasts = 0;
  expect_same(kept("parts", 2));
  EXPECT_EQ(forecasts, 0);  // the best of all are among the best of their parts
  for (const std::vector<StepRow>& rows : {whole, rows_of("parts")}) {
    const std::vector<StepRow> ranked = rank_steps(rows, by_energy);
    ASSERT_GE(ranked.size(), plain.result.best.size());
    EXPECT_EQ(ranked.front().joules_per_token, plain.result.best.front().joules_per_token);
  }
}

TEST(Sweep, SaysWhatAStepDraws) {
  ScenarioDocument swept = document(kSmall);
  SweepOptions options;
  options.axes = {"parallel.tp=1,2,3"};
  SweepRun run;
  run.energy = true;
  const SweepResult asked = sweep(swept, options, run);
  ASSERT_EQ(asked.points.size(), 3u);
  for (const size_t i : {0u, 1u}) {
    LoadOptions set;
    set.set = {{"parallel.tp", asked.points[i].values.front()}};
    const Scenario scenario = load_scenario_text(kSmall, "run.yaml", set);
    EXPECT_EQ(asked.points[i].row.joules_per_token, joules_per_token(scenario));
  }
  EXPECT_EQ(asked.points[2].outcome, SweepPoint::Outcome::illegal);
  run.energy = false;
  EXPECT_FALSE(sweep(swept, options, run).points[0].row.joules_per_token.has_value());
  run.energy = true;
  options.axes = {"cluster.node.gpu.arch=other"};
  EXPECT_FALSE(sweep(swept, options, run).points[0].row.joules_per_token.has_value());
}

}  // namespace
}  // namespace stepcast::sweep_test
