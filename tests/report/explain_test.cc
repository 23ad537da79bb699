// SPDX-License-Identifier: Apache-2.0
#include "report/text/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/check.h"
#include "tests/report/sample.h"

namespace stepcast {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ExplainSettings, AlignsPathValueOrigin) {
  const std::array<SettingLine, 3> settings{{{"parallel.tp", "8", "run.yaml:3:12"},
                                             {"parallel.dp", "4", "derived: 64 / (8*2*1)"},
                                             {"name", "x\x1b[1m", "--set"}}};
  EXPECT_EQ(explain_settings(settings),
            "parallel.tp  8         run.yaml:3:12\n"
            "parallel.dp  4         derived: 64 / (8*2*1)\n"
            "name         x\\x1b[1m  --set\n");
  EXPECT_EQ(explain_settings({}), "");
}

TEST(ExplainMemory, BreaksThePeakOfEachRankDown) {
  const std::string text = explain_memory(sample_result(), {});
  EXPECT_THAT(text, HasSubstr("params"));
  EXPECT_THAT(text, HasSubstr("optim"));
  EXPECT_THAT(text, HasSubstr("activ"));
  EXPECT_THAT(text, Not(HasSubstr("logits")));  // nobody has any
  EXPECT_THAT(text, HasSubstr("stage 1"));
  EXPECT_THAT(text, HasSubstr("peak: stage 0, at norm in 0F1"));
  EXPECT_THAT(text, HasSubstr("2,000,000"));
  EXPECT_THAT(text, Not(HasSubstr("s*b*h")));
}

TEST(ExplainMemory, GivesTheCoefficientALayer) {
  Result r = sample_result();
  ASSERT_EQ(r.memory[0].memory.peak_in_flight, 2);
  // 2,000,000 bytes of 2 passes in flight, 5 layers each, 10,000 elements a layer: 20 bytes.
  const std::array<ActivationUnit, 2> units{{{10'000, 5}, {10'000, 5}}};
  const std::string text = explain_memory(r, units);
  EXPECT_THAT(text, HasSubstr("x s*b*h a layer"));
  EXPECT_THAT(text, HasSubstr("20.000"));
  EXPECT_THAT(text, HasSubstr("30.000"));  // the sum
}

TEST(ExplainMemory, ChunksThatDifferHaveNoCoefficient) {
  const std::array<ActivationUnit, 2> units{{{10'000, 0}, {10'000, 0}}};
  EXPECT_THAT(explain_memory(sample_result(), units), Not(HasSubstr("s*b*h")));
}

TEST(ExplainBubble, ContentionHasAColumnOfItsOwn) {
  Result r = sample_result();
  EXPECT_THAT(explain_bubble(r), Not(HasSubstr("contention")));
  r.account.by_role[0][static_cast<size_t>(Spend::contention)] = Time{1'000'000};
  EXPECT_THAT(explain_bubble(r), HasSubstr("contention: ops that take longer than alone"));
}

TEST(ExplainBubble, ListsTheCausesThatOccur) {
  const std::string text = explain_bubble(sample_result());
  EXPECT_THAT(text, HasSubstr("fill"));
  EXPECT_THAT(text.substr(0, text.find('\n')), Not(HasSubstr("blocked")));
  EXPECT_THAT(text, HasSubstr(" *"));
}

TEST(ExplainCriticalPath, NamesWhoRunsWhat) {
  const std::string text = explain_critical_path(sample_result());
  EXPECT_THAT(text, HasSubstr("stretches; stage 0 "));
  EXPECT_THAT(text, HasSubstr("to stage 1"));
  EXPECT_THAT(text, HasSubstr("activations 0 -> 1"));
  EXPECT_THAT(text, HasSubstr("1F0 .. "));
}

TEST(ExplainCriticalPath, LeavesOutTheMiddleOfALongOne) {
  Result r = sample_result();
  r.critical_path.clear();
  for (int i = 0; i < 1000; ++i) {
    PathSegment s;
    s.begin = Time{i * 1'000'000};
    s.end = Time{(i + 1) * 1'000'000};
    r.critical_path.push_back(s);
  }
  const std::string text = explain_critical_path(r);
  EXPECT_THAT(text, HasSubstr("... 940 more, all of them with --json ..."));
  EXPECT_THAT(text, HasSubstr("\n         999.0           1.0  stage 0"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 70);
}

TEST(CostLines, CountEveryRun) {
  const Result r = sample_result();
  Time total{};
  for (const CostLine& line : cost_lines(r)) total += line.total;
  // Both ranks: 2 x (150 + 300), 2 x (165 + 330), 2 x 50; 4 transfers of 10.
  EXPECT_EQ(total, Time{(900 + 990 + 100 + 40) * int64_t{1'000'000}});
}

TEST(CostLines, AreSortedByTotal) {
  Time previous = Time::max();
  for (const CostLine& line : cost_lines(sample_result())) {
    EXPECT_LE(line.total, previous);
    previous = line.total;
  }
}

TEST(ExplainCosts, SaysHowEachPriceIsKnown) {
  const std::string text = explain_costs(sample_result());
  EXPECT_THAT(text, HasSubstr("2 x 220.0 us"));
  EXPECT_THAT(text, HasSubstr("measured"));
  EXPECT_THAT(text, HasSubstr("table test: exact row"));
  EXPECT_THAT(text, HasSubstr("4 x 10.00 us"));
  EXPECT_THAT(text, HasSubstr("send_recv between 2 pairs of ranks, 4096 B"));
}

TEST(ExplainCosts, ListsWhatTheBusiestHostLaunches) {
  Result r = sample_result();
  auto graph = std::make_shared<OpGraph>();
  graph->launches = {Launch{}, Launch{}.add(HostCall::module), Launch{}.add(HostCall::kernel, 2)};
  Pass pass;
  pass.ops.resize(3);
  pass.ops[1].launch = pass.ops[2].launch = LaunchId{1};
  graph->passes.push_back(std::move(pass));
  graph->rendezvous.resize(1);
  graph->rendezvous[0].launch = LaunchId{2};
  Item run, post;
  post.kind = ItemKind::post;
  graph->roles.resize(2);
  graph->roles[0].name = "idle";
  graph->roles[1].name = "busy";
  graph->roles[1].items = {run, run, post};
  auto prices = std::make_shared<Prices>();
  prices->by_launch = {Time{}, Time{30'000'000}, Time{8'000'000}};
  r.graph = graph;
  r.prices = prices;
  const HostTime host = host_time_of(r);
  EXPECT_EQ(host.role, "busy");
  EXPECT_EQ(host.total, Time{128'000'000});
  ASSERT_EQ(host.lines.size(), 2u);
  EXPECT_EQ(host.lines[0].runs, 4);
  const std::string text = host_table(r, {});
  EXPECT_THAT(text, HasSubstr("the host of busy launches for 128.0 us of the step\n"));
  EXPECT_THAT(text, HasSubstr("4 x 30.00 us"));
  EXPECT_THAT(text, HasSubstr("2 kernel\n"));
}

TEST(ExplainCosts, InJsonToo) {
  JsonWriter w;
  w.begin_object();
  write_costs(w, sample_result());
  w.end_object();
  const auto j = nlohmann::json::parse(w.text());
  EXPECT_EQ(j["costs"][0]["runs"], 2);
  EXPECT_EQ(j["costs"][0]["time_ps"], 220'000'000);
  EXPECT_EQ(j["costs"][0]["origin"], "measured");
}

TEST(Explain, SurvivesAnEmptyResult) {
  const Result r = empty_result();
  EXPECT_EQ(explain_memory(r, {}), "no memory was traced\n");
  EXPECT_EQ(explain_critical_path(r), "no critical path was traced\n");
  EXPECT_THAT(explain_bubble(r), HasSubstr("% of the step"));
  EXPECT_THROW(explain_costs(r), InternalError);
}

}  // namespace
}  // namespace stepcast
