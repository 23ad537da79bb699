// SPDX-License-Identifier: Apache-2.0
// A scenario's own cost table, and the plan of what to measure for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "calibrate/fit/fit_table.h"
#include "calibrate/price/plausible_times.h"
#include "calibrate/table/cost_table.h"
#include "calibrate/table/table_text.h"
#include "calibrate/table/write_table.h"
#include "scenarios/cluster_section.h"
#include "scenarios/forecast/calibration_plan.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/presets.h"
#include "scenarios/pricing_table.h"
#include "sim/diagnostic.h"
#include "sim/text.h"
#include "tests/temporary_folder.h"

namespace stepcast::calibration_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kScenario =
    "model: llama3-8b\n"
    "cluster: dgx-h100 x 2\n"
    "parallel: {tp: 2, pp: 2}\n"
    "batch: {global: 32, micro: 1, seq: 4096}\n";

// The shipped table with all products twice as long, in the present format.
std::string slow_table() {
  TableText table = parse_table_text(shipped_table_text("h100-sxm"), "h100-sxm");
  for (GemmRow& r : table.gemms) r.us *= 2;
  for (FitRow& f : table.fits) {
    if (f.kind != WorkKind::gemm) continue;
    f.t0_us *= 2;
    f.tflops /= 2;
    f.gbs /= 2;
  }
  return write_table(table);
}

std::string refused(const std::string& file) {
  try {
    load_scenario(file);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Calibration, TheTableThatAScenarioNamesIsUsedAndNamed) {
  const testing::TemporaryFolder folder;
  const std::string table = slow_table();
  const std::string plain = folder.write("plain.yaml", kScenario);
  folder.write("mine.csv", table);
  const std::string own = folder.write("own.yaml", kScenario + "calibration: mine.csv\n");
  const Scenario scenario = load_scenario(own);
  EXPECT_THAT(scenario.warnings, IsEmpty());
  const Result before = forecast(load_scenario(plain), {.what_if = false});
  const Result after = forecast(scenario, {.what_if = false});
  EXPECT_GT(to_seconds(after.step_time), 1.3 * to_seconds(before.step_time));
  EXPECT_EQ(before.calibration, "table h100-sxm");
  EXPECT_EQ(before.calibration_hash, hex_of(hash_text(shipped_table_text("h100-sxm"))));
  EXPECT_THAT(after.calibration, HasSubstr("table of h100-sxm in "));
  EXPECT_THAT(after.calibration, HasSubstr("mine.csv"));
  EXPECT_EQ(after.calibration_hash, hex_of(hash_text(table)));
}

TEST(Calibration, ATableOfAnotherGpuIsUsedWithAWarning) {
  const testing::TemporaryFolder folder;
  folder.write("a100.csv", shipped_table_text("a100-sxm-80g"));
  const std::string file = folder.write("run.yaml", kScenario + "calibration: a100.csv\n");
  EXPECT_THAT(load_scenario(file).warnings,
              ElementsAre(HasSubstr("is of a100-sxm-80g, the cluster has h100-sxm")));
}

TEST(Calibration, ATableOfAFasterGpuIsUsedWithAWarningThatHasTheNumber) {
  const testing::TemporaryFolder folder;
  folder.write("h100.csv", shipped_table_text("h100-sxm"));
  const std::string a100 =
      "model: llama3-8b\ncluster: dgx-a100-80g x 2\nparallel: {tp: 2, pp: 2}\n"
      "batch: {global: 32, micro: 1, seq: 4096}\ncalibration: h100.csv\n";
  EXPECT_THAT(
      load_scenario(folder.write("a100.yaml", a100)).warnings,
      ElementsAre(AllOf(HasSubstr("is of h100-sxm, the cluster has a100-sxm-80g; gemm,bf16,"),
                        HasSubstr(" TFLOP/s, and the peak of a100-sxm-80g is 312 (the first "
                                  "of "))));
  // The same GPU, slower than its data sheet.
  const std::string slower =
      "model: llama3-8b\n"
      "cluster: {preset: dgx-h100, nodes: 2, node: {gpu: {peak: {bf16: 400TFLOP/s}}}}\n"
      "batch: {global: 32, micro: 1, seq: 4096}\ncalibration: h100.csv\n";
  EXPECT_THAT(load_scenario(folder.write("slower.yaml", slower)).warnings,
              ::testing::Contains(
                  AllOf(HasSubstr("is of h100-sxm, the cluster has h100-sxm changed; gemm,bf16,"),
                        HasSubstr("and the peak of h100-sxm changed is 400"))));
}

// What a forecast was priced by is told apart where GPUs differ.
TEST(Calibration, TablesOfOtherGpusAreNamedAndCounted) {
  const auto priced = [](const std::string& gpu, const std::string& more = "") {
    return pricing_table(load_scenario_text(
        "model: llama3-8b\ncluster: {preset: dgx-h100, nodes: 1, node: {gpu: " + gpu +
            "}}\nbatch: {global: 32, micro: 1, seq: 4096}\n" + more,
        "priced.yaml"));
  };
  const PricingTable own = priced("h100-sxm"),
                     changed = priced("{preset: h100-sxm, mem_bw: 4TB/s}"),
                     more = priced("{preset: h100-sxm, mem_bw: 5TB/s}"), like = priced("gb200"),
                     both = priced("{preset: gb200, mem_bw: 9TB/s}"),
                     users = priced("gb200", "calibration: b200-sxm\n"),
                     none = priced("{preset: h100-pcie, mem_bw: 3TB/s}");
  EXPECT_EQ(own.title, "table h100-sxm");
  EXPECT_EQ(changed.title, "table h100-sxm, scaled");
  EXPECT_EQ(like.title, "table gb200, else that of b200-sxm, scaled");
  EXPECT_EQ(both.title, like.title);
  EXPECT_EQ(users.title.substr(0, 29), "table of b200-sxm in b200-sxm");
  EXPECT_EQ(none.title, "no table: roofline");
  EXPECT_EQ(none.table, nullptr);
  const std::set<std::string> hashes{own.hash, changed.hash, more.hash, like.hash, both.hash};
  EXPECT_EQ(hashes.size(), 5U);
}

TEST(Calibration, FamiliesLeftToAShippedTableAreTakenFromIt) {
  const testing::TemporaryFolder folder;
  folder.write("thin.csv",
               "# stepcast cost table\n# format: 1\n# gpu: h100-sxm\n"
               "# share: h100-sxm gemm attention memory\n# source: s measured by hand\n"
               "# rows: 1\nlaunch,4,s\n");
  const std::string file = folder.write("run.yaml", kScenario + "calibration: thin.csv\n");
  const Result r = forecast(load_scenario(file), {.what_if = false});
  EXPECT_GT(r.trust[static_cast<size_t>(Origin::extrapolated)], 0.5);
}

TEST(Calibration, WhatIsToBeSaidOfFitsStandsBesideTheTable) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("run.yaml", kScenario + "calibration: mine.csv\n");
  const auto calibration = [&](const TableText& table) {
    folder.write("mine.csv", write_table(table));
    return forecast(load_scenario(file), {.what_if = false}).calibration;
  };
  TableText table = parse_table_text(slow_table(), "mine.csv");
  // What the run does not ask for is not worth a word.
  for (FitRow& f : table.fits) f.flag = f.dtype == DType::fp8 ? FitFlag::partial : FitFlag::none;
  EXPECT_THAT(calibration(table), ::testing::EndsWith("mine.csv"));
  for (FitRow& f : table.fits) f.flag = FitFlag::scattered;
  EXPECT_THAT(calibration(table),
              ::testing::EndsWith("mine.csv; fit of gemm bf16 scattered, of attention_forward bf16 "
                                  "scattered, of attention_backward bf16 scattered"));
  table.fits.clear();
  EXPECT_THAT(calibration(table), HasSubstr("no fits"));
}

TEST(Calibration, ShippedTablesAndWhatIsTakenOverHaveTheSameRemarks) {
  const testing::TemporaryFolder folder;
  folder.write("thin.csv",
               "# stepcast cost table\n# format: 1\n# gpu: b200-sxm\n"
               "# share: b200-sxm gemm\n# source: s measured by hand\n# rows: 1\nlaunch,4,s\n");
  const auto calibration = [&](const std::string& cluster, const std::string& more = "") {
    const std::string file =
        folder.write("run.yaml", "model: llama3-8b\ncluster: " + cluster +
                                     " x 1\nparallel: {tp: 4}\n"
                                     "batch: {global: 32, micro: 1, seq: 6144}\n" +
                                     more);
    return forecast(load_scenario(file), {.what_if = false}).calibration;
  };
  EXPECT_EQ(calibration("dgx-b200"),
            "table b200-sxm; fit of gemm bf16 partial, of attention_forward bf16 scattered");
  EXPECT_THAT(calibration("dgx-b200", "calibration: thin.csv\n"),
              ::testing::EndsWith("thin.csv; fit of gemm bf16 partial"));
  EXPECT_EQ(calibration("dgx-h100"), "table h100-sxm");
  EXPECT_EQ(calibration("dgx-h200"), "table h200-sxm");  // kernels go by their rows
}

TEST(Calibration, TablesThatCannotBeUsedAreRefusedWithTheirPlace) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("run.yaml", kScenario + "calibration: mine.csv\n");
  EXPECT_THAT(refused(file), HasSubstr("run.yaml:5:14: E101"));
  folder.write("mine.csv", "model: llama3-8b\n");
  EXPECT_THAT(refused(file), HasSubstr("mine.csv:1:1: E301"));
  std::string text = slow_table();
  folder.write("mine.csv", text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  EXPECT_THAT(refused(file), HasSubstr("mine.csv"));
  text.replace(text.rfind(",") - 1, 1, "77");
  folder.write("mine.csv", text);
  EXPECT_THAT(refused(file), HasSubstr("E309"));
  folder.write("mine.csv",
               "# stepcast cost table\n# format: 1\n# gpu: x\n# share: tpu-v5p gemm\n# rows: 0\n");
  EXPECT_THAT(refused(file), HasSubstr("tpu-v5p"));
  const std::string outside = folder.write("out.yaml", kScenario + "calibration: ../mine.csv\n");
  EXPECT_THAT(refused(outside), HasSubstr("E111"));
}

// ------------------------------------------------------------------------------------------- plan

// The shipped table of the H100 with all times of products times `factor`.
std::string scaled_table(double factor) {
  TableText table = parse_table_text(shipped_table_text("h100-sxm"), "h100-sxm");
  for (GemmRow& r : table.gemms) r.us *= factor;
  return write_table(fit_table(table).table);
}

TEST(Calibration, TimesThatTheGpuCannotHaveAreRefusedWithRowAndNumber) {
  const testing::TemporaryFolder folder;
  folder.write("fast.csv", scaled_table(1e-6));
  folder.write("slow.csv", scaled_table(1e6));
  folder.write("odd.csv", scaled_table(0.5));
  const auto run = [&](const std::string& table) {
    return refused(folder.write("run.yaml", kScenario + "calibration: " + table + "\n"));
  };
  EXPECT_THAT(run("fast.csv"), AllOf(HasSubstr("fast.csv:"), HasSubstr("E311 gemm,bf16,tn,"),
                                     HasSubstr("TFLOP/s, and the peak of h100-sxm is")));
  EXPECT_THAT(run("slow.csv"), AllOf(HasSubstr("slow.csv:"), HasSubstr("E311 gemm,bf16,"),
                                     HasSubstr("times as long as the data sheet")));
  EXPECT_THAT(run("odd.csv"), HasSubstr("E311"));  // 1,400 TFLOP/s
}

TEST(Calibration, TimesOfEveryShippedTableArePlausible) {
  for (const std::string_view gpu : preset_names(PresetKind::gpu)) {
    const std::string_view text = shipped_table_text(gpu);
    if (text.empty()) continue;
    const std::string name(gpu);
    EXPECT_NO_THROW(check_plausible(parse_table_text(text, name), preset_node("", name).gpu))
        << gpu;
  }
}

double weights(const CalibrationPlan& plan) {
  double sum = 0;
  for (const PlanRow& r : plan.text.rows) sum += r.weight;
  for (const auto& [what, weight] : plan.left_out) sum += weight;
  return sum;
}

Scenario scenario_of(const std::string& more = "") {
  return load_scenario_text(kScenario + more, "run.yaml");
}

TEST(CalibrationPlan, HasEveryShapeOnceHeaviestFirst) {
  const Scenario s = scenario_of();
  const CalibrationPlan plan = calibration_plan({&s, 1});
  EXPECT_EQ(plan.text.gpu, "h100-sxm");
  EXPECT_THAT(plan.text.scenarios, ElementsAre("run " + s.hash));
  EXPECT_NEAR(weights(plan), 1, 1e-9);
  std::set<std::string> keys;
  for (size_t i = 0; i < plan.text.rows.size(); ++i) {
    EXPECT_TRUE(keys.insert(plan_key(plan.text.rows[i])).second);
    if (i == 0) continue;
    EXPECT_LE(plan.text.rows[i].weight, plan.text.rows[i - 1].weight);
  }
  // fc1 (gate and up) of half a model, its two gradients, and the attention of half the heads.
  for (const char* key :
       {"gemm,bf16,tn,4096,14336,4096,1", "gemm,bf16,nn,4096,4096,14336,1",
        "gemm,bf16,nt,14336,4096,4096,1", "attention,fwd,bf16,1,16,4,4096,4096,128,1",
        "attention,bwd,bf16,1,16,4,4096,4096,128,1"})
    EXPECT_TRUE(keys.contains(key)) << key << "\n" << write_plan(plan.text);
  const PlanText again = parse_plan_text(write_plan(plan.text), "plan.csv");
  EXPECT_EQ(again.rows.size(), plan.text.rows.size());
}

TEST(CalibrationPlan, WeightsOfOriginsAreThoseOfTheForecast) {
  const Scenario s = scenario_of("in_situ: off\n");
  const Result r = forecast(s, {.what_if = false});
  std::array<double, kOrigins> sums{};
  const CalibrationPlan plan = calibration_plan({&s, 1});
  for (const PlanRow& row : plan.text.rows) sums[static_cast<size_t>(row.origin)] += row.weight;
  for (size_t o = 0; o < sums.size(); ++o) EXPECT_NEAR(sums[o], r.trust[o], 1e-9) << o;
}

// A table of exactly the plan's rows, a millisecond each; Adam, which reads and writes gigabytes,
// takes twenty.
std::string table_of(const PlanText& plan) {
  std::string rows;
  int64_t count = 0;
  for (const PlanRow& r : plan.rows) {
    std::string key = plan_key(r);
    if (key.starts_with("grouped_")) key.erase(0, std::string_view("grouped_").size());
    rows += key + (key.starts_with("memory,adam") ? ",20000,s\n" : ",1000,s\n");
    ++count;
  }
  return "# stepcast cost table\n# format: 2\n# gpu: h100-sxm\n# nvlink_gbs: 450\n"
         "# in_network_reduction: yes\n# source: s measured by hand\n# rows: " +
         std::to_string(count) + '\n' + rows;
}

TEST(CalibrationPlan, WhatIsMeasuredByItIsWhatTheForecastAsksFor) {
  const testing::TemporaryFolder folder;
  const std::string text =
      "model: llama3-8b\ncluster: dgx-h100 x 1\nparallel: {tp: 8}\n"
      "batch: {global: 32, micro: 1, seq: 4096}\nin_situ: off\n";
  const Scenario scenario = load_scenario_text(text, "run.yaml");
  const CalibrationPlan plan = calibration_plan({&scenario, 1});
  const TableText rows = parse_table_text(table_of(plan.text), "rows.csv", TableFile::edited);
  folder.write("mine.csv", write_table(fit_table(rows).table));
  const std::string file = folder.write("run.yaml", text + "calibration: mine.csv\n");
  const Result r = forecast(load_scenario(file), {.what_if = false});
  EXPECT_GT(r.trust[static_cast<size_t>(Origin::measured)], 0.999);
}

TEST(CalibrationPlan, ShapesOfSeveralScenariosAreAddedUp) {
  const Scenario one = scenario_of(), two = scenario_of("name: other\nseed: 3\n");
  const std::vector<Scenario> both{one, two};
  const CalibrationPlan single = calibration_plan({&one, 1}), plan = calibration_plan(both);
  ASSERT_EQ(plan.text.rows.size(), single.text.rows.size());
  for (size_t i = 0; i < plan.text.rows.size(); ++i) {
    EXPECT_EQ(plan_key(plan.text.rows[i]), plan_key(single.text.rows[i]));
    EXPECT_NEAR(plan.text.rows[i].weight, 2 * single.text.rows[i].weight, 1e-12);
  }
}

TEST(CalibrationPlan, GroupsOfCommunicationAreStated) {
  const Scenario s = load_scenario_text(
      "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 8, pp: 2}\n"
      "batch: {global: 32, micro: 1, seq: 4096}\n",
      "run.yaml");
  bool gather = false, transfer = false;
  for (const PlanRow& r : calibration_plan({&s, 1}).text.rows) {
    if (r.work.kind == WorkKind::all_gather && r.ranks == 8) {
      gather = true;
      EXPECT_EQ(r.nodes, 1);
      EXPECT_EQ(r.nic_gbs, 0);
    }
    if (r.work.kind == WorkKind::send_recv) {
      transfer = true;
      EXPECT_EQ(r.ranks, 2);
      EXPECT_EQ(r.nodes, 2);
      EXPECT_EQ(r.ranks_per_node, 1);
      EXPECT_EQ(r.nic_gbs, 50);
    }
  }
  EXPECT_TRUE(gather);
  EXPECT_TRUE(transfer);
}

TEST(CalibrationPlan, ScenariosOfDifferentGpusDoNotShareOne) {
  const std::vector<Scenario> both{
      scenario_of(),
      load_scenario_text("model: llama3-8b\ncluster: dgx-a100-80g x 2\n"
                         "batch: {global: 32, micro: 1, seq: 4096}\nparallel: {tp: 8}\n",
                         "other.yaml")};
  try {
    calibration_plan(both);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("E127 this scenario runs on a100-sxm-80g, run.yaml on h100-sxm"));
  }
}

TEST(CalibrationPlan, WorksOfExpertsArePartOfIt) {
  const Scenario s = load_scenario_text(
      "model: mixtral-8x7b\ncluster: dgx-h100 x 2\nparallel: {tp: 1, ep: 8, pp: 2}\n"
      "batch: {global: 32, micro: 1, seq: 4096}\n",
      "run.yaml");
  const CalibrationPlan plan = calibration_plan({&s, 1});
  EXPECT_NEAR(weights(plan), 1, 1e-9);
  EXPECT_THAT(write_plan(plan.text), HasSubstr("gemm,bf16,tn"));
  EXPECT_THAT(write_plan(plan.text), HasSubstr("all_to_all,8,1,8,0,"));
}

}  // namespace
}  // namespace stepcast::calibration_test
