// SPDX-License-Identifier: Apache-2.0
// Scenarios with experts: layout, dispatch, routing, and what does not fit.
#include <gtest/gtest.h>

#include <string>

#include "scenarios/scenario.h"
#include "tests/scenarios/loading.h"
#include "tests/temporary_folder.h"

namespace stepcast::experts_test {
namespace {

using testing::Failure;

std::string text(const std::string& parallel, const std::string& more = "") {
  return "model: mixtral-8x7b\ncluster: {preset: dgx-h100, nodes: 4}\nparallel: " + parallel +
         "\nbatch: {global: 64, seq: 4096}\n" + more;
}

Plan plan_of(const std::string& parallel, const std::string& more = "") {
  return testing::load(text(parallel, more)).plan;
}

Failure failure_of(const std::string& parallel, const std::string& more = "") {
  return testing::failure(text(parallel, more));
}

TEST(ExpertLayout, SpreadsExpertsOverTheRanksOfAStage) {
  const Plan p = plan_of("{tp: 2, pp: 4, ep: 8, etp: 1}");
  EXPECT_EQ(p.dp, 4);
  EXPECT_EQ(p.grid.size(Axis::ep), 8);
  EXPECT_EQ(p.grid.size(Axis::edp), 1);
  EXPECT_EQ(p.grid.group(Axis::ep, 0), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(ExpertLayout, SplitsExpertsAsTpUnlessItIsSaid) {
  EXPECT_EQ(plan_of("{tp: 2, ep: 8}").etp, 2);
  EXPECT_EQ(plan_of("{tp: 2, ep: 8, etp: 1}").etp, 1);
  EXPECT_EQ(plan_of("{tp: 8, ep: 8, pp: 4}").etp, 1);  // 8 ranks a stage
}

TEST(ExpertLayout, ThatDoesNotFitIsRefusedWhereItIsWritten) {
  const Failure experts = failure_of("{ep: 3}");
  EXPECT_EQ(experts.codes, "E206");
  EXPECT_EQ(experts.all[0].message, "ep = 3 does not divide num_experts = 8");
  EXPECT_EQ(experts.all[0].help, "ep can be 1, 2, 4 or 8");
  EXPECT_EQ(experts.all[0].line, 3);
  EXPECT_EQ(failure_of("{tp: 1, ep: 1, etp: 5}").codes, "E206");
  EXPECT_EQ(failure_of("{ep: 8, pp: 8, etp: 2}").codes, "E201");  // 4 ranks a stage
  EXPECT_EQ(failure_of("{tp: 2, sp: false}").codes, "E127");
  EXPECT_EQ(testing::failure("model: llama3-8b\ncluster: dgx-h100\nparallel: {ep: 2}\n"
                             "batch: {global: 64, seq: 4096}\n")
                .codes,
            "E127");
}

TEST(ExpertLayout, StagesWithUnlikeLayersDiffer) {
  const Scenario s = testing::load(
      "model: {preset: qwen3-30b-a3b, mlp_only_layers: [0]}\ncluster: dgx-h100\n"
      "parallel: {pp: 2, ep: 4}\nbatch: {global: 64, seq: 4096}\n");
  EXPECT_FALSE(s.plan.stages[0].kinds[0].experts);
  EXPECT_TRUE(s.plan.stages[0].kinds[1].experts);
  EXPECT_TRUE(s.plan.stages[1].kinds[0].experts);
}

TEST(ExpertRun, HasMegatronsRecipesAsDefault) {
  const MoeRun run = plan_of("{ep: 8}").moe;
  EXPECT_EQ(run.dispatcher, Dispatcher::all_to_all);
  EXPECT_EQ(run.dispatch, DType::bf16);
  EXPECT_TRUE(run.grouped_gemm);
  EXPECT_EQ(run.capacity_factor, 0);
  EXPECT_EQ(run.routing.kind, Routing::Kind::balanced);
}

TEST(ExpertRun, ReadsDispatchAndRouting) {
  const MoeRun run =
      plan_of("{ep: 8}",
              "moe: {dispatcher: deepep, dispatch_dtype: fp8, capacity_factor: 1.25, "
              "pad_to_capacity: true, node_limit: 2, routing: zipf(0.5)}\n")
          .moe;
  EXPECT_EQ(run.dispatcher, Dispatcher::deepep);
  EXPECT_EQ(run.dispatch, DType::fp8);
  EXPECT_EQ(run.combine, DType::bf16);
  EXPECT_EQ(run.capacity_factor, 1.25);
  EXPECT_TRUE(run.pad_to_capacity);
  EXPECT_EQ(run.node_limit, 2);
  EXPECT_EQ(run.routing.kind, Routing::Kind::zipf);
  EXPECT_EQ(run.routing.exponent, 0.5);
  const Routing shares =
      plan_of("{ep: 8}", "moe: {routing: {shares: [3, 1, 1, 1, 1, 1, 1, 1], by_sequence: true}}\n")
          .moe.routing;
  EXPECT_EQ(shares.kind, Routing::Kind::shares);
  EXPECT_DOUBLE_EQ(shares.shares[0], 0.3);
  EXPECT_TRUE(shares.by_sequence);
}

TEST(ExpertRun, WrongWordsAreNamed) {
  const auto code = [](const std::string& moe) {
    return failure_of("{ep: 8}", "moe: " + moe + "\n").codes;
  };
  EXPECT_EQ(code("{dispatcher: mail}"), "E125");
  EXPECT_EQ(code("{routing: zipf}"), "E125");
  EXPECT_EQ(code("{routing: zipf(-1)}"), "E125");
  EXPECT_EQ(code("{routing: zipf(x)}"), "E125");
  EXPECT_EQ(code("{routing: {shares: [1, 2]}}"), "E127");
  EXPECT_EQ(code("{routing: {shares: [1, 1, 1, 1, 1, 1, 1, x]}}"), "E125");
  EXPECT_EQ(code("{routing: {shares: [0, 0, 0, 0, 0, 0, 0, 0]}}"), "E127");
  EXPECT_EQ(code("{pad_to_capacity: true}"), "E127");
  EXPECT_EQ(code("{dispach: alltoall}"), "E102");
}

// A scenario that lies beside the traces.
std::string with_trace(const std::string& file) {
  return text("{ep: 8}", "moe: {routing: {trace: " + file + "}}\n");
}
const std::string kBeside = STEPCAST_TEST_DATA "/scenarios/routing/run.yaml";

TEST(RoutingTrace, SharesAreWhatWasCounted) {
  for (const char* file : {"steps.csv", "experts.csv"}) {
    const Routing r = load_scenario_text(with_trace(file), kBeside).plan.moe.routing;
    EXPECT_EQ(r.kind, Routing::Kind::shares);
    ASSERT_EQ(r.shares.size(), 8u);
    EXPECT_DOUBLE_EQ(r.shares[0], 0.3);
    EXPECT_DOUBLE_EQ(r.shares[7], 0.1);
  }
}

TEST(RoutingTrace, CountsAllLinesOfALongFile) {
  const testing::TemporaryFolder folder;
  const std::string remark = "# " + std::string(1 << 20, 'x') + "\n";
  std::string trace = "1,1,1,1,1,1,1,1\n";
  for (int i = 0; i < 17; ++i) trace += remark;
  folder.write("long.csv", trace + "0,0,0,0,0,0,0,8\n");
  const Routing r =
      load_scenario_text(with_trace("long.csv"), folder.path() / "run.yaml").plan.moe.routing;
  EXPECT_DOUBLE_EQ(r.shares.back(), 9.0 / 16);
}

TEST(RoutingTrace, ReadsCellsInQuotesAndBetweenBlanks) {
  const testing::TemporaryFolder folder;
  folder.write("quoted.csv", "\"3\", \"1\",1 1,1,1,\"1\",\"1\" # as a spreadsheet writes it\r\n");
  const Routing r =
      load_scenario_text(with_trace("quoted.csv"), folder.path() / "run.yaml").plan.moe.routing;
  EXPECT_DOUBLE_EQ(r.shares.front(), 0.3);
  EXPECT_DOUBLE_EQ(r.shares.back(), 0.1);
}

TEST(RoutingTrace, ThatCannotBeReadIsRefusedAtItsPlace) {
  const auto problem = [](const std::string& scenario) {
    const Failure f = testing::failure_of([&] { return load_scenario_text(scenario, kBeside); });
    EXPECT_EQ(f.all.size(), 1u) << f.codes;
    return f.lines.empty() ? std::string() : f.lines[0];
  };
  EXPECT_EQ(problem(with_trace("few.csv")), "E127 1:1 a line of 4 counts, for 8 experts");
  EXPECT_EQ(problem(with_trace("words.csv")), "E125 2:7 a count of tokens cannot be 'many'");
  EXPECT_EQ(problem(with_trace("none.csv")), "E127 1:1 the trace counts no tokens");
  EXPECT_EQ(problem(with_trace("missing.csv")).substr(0, 4), "E101");
  EXPECT_EQ(problem(with_trace("../../secret.csv")).substr(0, 4), "E111");
  EXPECT_EQ(
      problem(text("{ep: 8}", "moe: {routing: {kind: balanced, trace: steps.csv}}\n")).substr(0, 4),
      "E127");
}

TEST(ExpertRun, OverlapsExchangesWhereTheScheduleHasPairs) {
  const std::string on = "overlap: {ep: true}\n";
  EXPECT_EQ(testing::load(text("{pp: 4, ep: 8, vpp: 2}", on)).schedule.name,
            "interleaved-1f1b-ep-overlap");
  EXPECT_EQ(
      testing::load(text("{pp: 4, ep: 8, vpp: 2}", on + "schedule: dualpipev\n")).schedule.name,
      "dualpipev");
  EXPECT_EQ(failure_of("{pp: 4, ep: 8}", on).codes, "E127");
  EXPECT_EQ(failure_of("{pp: 4, ep: 8}", on + "schedule: gpipe\n").codes, "E127");
}

TEST(ExpertRun, LimitsNodesAsTheModelGroupsItsExperts) {
  const auto limit = [](const std::string& moe) {
    return testing::load(
               "model: deepseek-v3\ncluster: {preset: dgx-h100, nodes: 8}\n"
               "parallel: {ep: 64, pp: 1}\nbatch: {global: 64, seq: 4096}\n" +
               moe)
        .plan.moe.node_limit;
  };
  EXPECT_EQ(limit("moe: {dispatcher: deepep}\n"), 4);
  EXPECT_EQ(limit("moe: {dispatcher: deepep, node_limit: 8}\n"), 8);
  EXPECT_EQ(limit(""), 0);
}

}  // namespace
}  // namespace stepcast::experts_test
