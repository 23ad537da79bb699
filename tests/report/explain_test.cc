// SPDX-License-Identifier: Apache-2.0
#include "report/text/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <memory>
#include <sstream>

#include "report/json/result.h"
#include "report/text/compare.h"
#include "report/text/intervals.h"
#include "report/text/run.h"
#include "sim/check.h"
#include "tests/report/sample.h"

namespace stepcast::explain_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(text, HasSubstr("fullest: stage 0, at norm in 0F1"));
  EXPECT_THAT(text, HasSubstr("2,000,000"));
  EXPECT_THAT(text, Not(HasSubstr("s*b*h")));
}

TEST(ExplainMemory, HasWhatIsReservedBesideThePeakOfEachRank) {
  Result r = sample_result();
  r.memory[0].reserved = {int64_t{3} << 30};
  r.memory[1].reserved = {int64_t{2} << 30};
  r.memory_reserved = r.memory[0].reserved;
  const std::string text = explain_memory(r, {});
  EXPECT_THAT(text, HasSubstr("peak  reserved  in flight"));
  EXPECT_THAT(text, HasSubstr(" 3.0          2\n"));
  EXPECT_THAT(text, HasSubstr(" 2.0          1\n"));
  EXPECT_THAT(text, Not(HasSubstr("how far to trust")));
  r.reserved_interval = MemoryInterval{.low = Bytes{int64_t{2} << 30},
                                       .high = Bytes{int64_t{4} << 30},
                                       .like = "memory / reserved",
                                       .runs = 113,
                                       .sources = 4,
                                       .like_low = 0.67,
                                       .like_high = 1.33};
  r.fits_share = 0.95;
  r.memory_usable = {int64_t{16} << 30};
  const std::string trusted = explain_memory(r, {}, {.width = 1000});
  EXPECT_THAT(trusted,
              HasSubstr("how far to trust 3.0 GiB: 80 % of such steps reserve 2.0 to 4.0"));
  EXPECT_THAT(trusted, HasSubstr("memory / reserved: 80 % of 113 runs of 4 sources"));
  EXPECT_THAT(trusted, HasSubstr("95 % or more of such steps fit in 16.0 GiB"));
}

TEST(ExplainMemory, ListsWhatIsHeldBesideTheAllocatorInColumns) {
  Result r = sample_result();
  const auto mebibytes = [](int64_t n) { return Bytes{n << 20}; };
  r.device_memory = {{"CUDA context", mebibytes(512), "its key"},
                     {"communicator of the embeddings, slots", mebibytes(256), "a source"},
                     {"communicator of pp, slots", mebibytes(30), "a source"},
                     {"communicator of pp, exchange", mebibytes(40), "a source"}};
  EXPECT_THAT(explain_memory(r, {}),
              HasSubstr("  beside the allocator                    GiB  counted from\n"
                        "  CUDA context                            0.5  its key\n"
                        "  communicator of the embeddings, slots   0.2  a source\n"
                        "  2 of less than 0.05 GiB                 0.1\n"
                        "  sum                                     0.8\n"));
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
  EXPECT_FALSE(j["costs"][0].contains("algorithm"));
}

TEST(ExplainCosts, InJsonACollectiveHasItsAlgorithmAndProtocol) {
  Result r = sample_result();
  auto prices = std::make_shared<Prices>(*r.prices);
  for (Price& p : prices->by_work) {
    p.algorithm = Algorithm::ring;
    p.protocol = Protocol::ll128;
  }
  r.prices = prices;
  JsonWriter w;
  w.begin_object();
  write_costs(w, r);
  w.end_object();
  const auto j = nlohmann::json::parse(w.text());
  EXPECT_EQ(j["costs"][0]["algorithm"], "ring");
  EXPECT_EQ(j["costs"][0]["protocol"], "LL128");
}

TEST(Explain, SurvivesAnEmptyResult) {
  const Result r = empty_result();
  EXPECT_EQ(explain_memory(r, {}), "no memory was traced\n");
  EXPECT_EQ(explain_critical_path(r), "no critical path was traced\n");
  EXPECT_THAT(explain_bubble(r), HasSubstr("% of the step"));
  EXPECT_THROW(explain_costs(r), InternalError);
}

Interval around(double low, double high) {
  Interval i;
  i.low = time_from_seconds(low);
  i.high = time_from_seconds(high);
  i.cost_error = 0.05;
  i.cost_parts = {{"product", 0.03}, {"attention", 0}, {"memory", 0.04}};
  i.like = "training / long kernels";
  i.runs = 1200;
  i.sources = 21;
  i.like_low = 0.95;
  i.like_high = 1.2;
  i.like_cost_error = 0.08;
  return i;
}

const Time kStep = time_from_seconds(10);
const TextStyle kWide{.width = 1000};

TEST(IntervalText, PlusMinusOnlyWhereBothEndsAreAsFar) {
  EXPECT_EQ(step_text(kStep, around(9.6, 10.4)), "10.00 s \u00b1 4 %");
  EXPECT_EQ(step_text(kStep, around(9.65, 10.43)), "10.00 s \u00b1 4 %");
  EXPECT_EQ(step_text(kStep, around(9.6, 11)), "10.00 s");
  EXPECT_EQ(step_text(kStep, around(10.1, 11)), "10.00 s");  // known to be too short
  EXPECT_EQ(step_text(Time{}, around(0, 0)), format_time(Time{}));
}

TEST(IntervalText, SaysBothEndsAndWhoseTheyAre) {
  EXPECT_EQ(interval_name(around(9.6, 11)), "80 % interval");
  EXPECT_EQ(interval_text(kStep, around(9.6, 11)),
            "9.600 s to 11.00 s   -4 % to +10 %, as 1,200 runs of 21 sources");
  EXPECT_THAT(interval_text(kStep, around(10.1, 11)), HasSubstr("+1 % to +10 %"));
}

TEST(IntervalText, ExplainsWhereItComesFrom) {
  std::string text = explain_interval(kStep, around(9.6, 11), kWide);
  EXPECT_THAT(text, HasSubstr("9.600 s to 11.00 s"));
  EXPECT_THAT(text, HasSubstr("training / long kernels: 80 % of 1,200 runs of 21 sources"));
  EXPECT_THAT(text, HasSubstr("(product 3.0 %, memory 4.0 %, added in squares)"));
  EXPECT_THAT(text, HasSubstr("the interval is theirs"));
  Interval worse = around(9.6, 11);
  worse.cost_error = 0.2;
  text = explain_interval(kStep, worse, kWide);
  EXPECT_THAT(text, HasSubstr("20.0 %"));
  EXPECT_THAT(text, HasSubstr("wider"));
}

TEST(IntervalText, WhatIsLikeNoRunHasNone) {
  EXPECT_EQ(explain_interval(kStep, {}, kWide),
            "how far to trust 10.00 s: no run like this one was published and forecast, so it has "
            "no interval\n");
  JsonWriter json(0);
  json.begin_object();
  write_interval_basis(json, {});
  json.end_object();
  EXPECT_EQ(json.text(), "{\"interval\":null}");
}

TEST(IntervalText, JsonHasTheEndsInSeconds) {
  Result r = sample_result();
  EXPECT_THAT(run_json(r, "1"), HasSubstr("\"interval\": null"));
  r.interval = around(9.6, 11);
  EXPECT_THAT(
      run_json(r, "1"),
      HasSubstr("\"interval\": {\n    \"low_s\": 9.6,\n    \"high_s\": 11.0,\n    \"level\": "
                "0.8\n  }"));
  JsonWriter json(0);
  json.begin_object();
  write_interval_basis(json, around(9.6, 11));
  json.end_object();
  EXPECT_THAT(json.text(), HasSubstr("\"sources\":21"));
  EXPECT_THAT(json.text(), HasSubstr("\"memory\":0.04"));
}

TEST(IntervalText, IsALineOfTheReport) {
  Result r = sample_result();
  EXPECT_THAT(text_report(r), Not(HasSubstr("interval")));
  r.interval = around(9.6, 11);
  EXPECT_THAT(text_report(r), HasSubstr("\n  80 % interval  9.600 s to 11.00 s   "));
}

TEST(CheckTable, SaysWhetherWhatWasMeasuredLiesInTheInterval) {
  CheckedFigure in{"a", Figure::step_time, 1.05, 1, 0.1, ""};
  in.interval = {0.9, 1.2, 0.8};
  CheckedFigure out = in;
  out.run = "b";
  out.measured = 1.3;
  const CheckedFigure without{"c", Figure::peak_memory, 5, 5, 0.1, ""};
  const std::string text = check_table(std::vector{in, out, without}, {});
  EXPECT_THAT(text, HasSubstr("in its 80 %\n"));
  EXPECT_THAT(text, HasSubstr("yes\nb"));
  EXPECT_THAT(text, HasSubstr("outside  no\n"));
  const std::string json = check_json(std::vector{in, without}, {}, {});
  EXPECT_THAT(json, HasSubstr("\"low_s\": 0.9,"));
  EXPECT_THAT(json, HasSubstr("\"in_interval\": true"));
  EXPECT_THAT(json, HasSubstr("\"in_interval\": null"));
  EXPECT_THAT(json, HasSubstr("\"interval\": null"));
  CheckedFigure rate = in;
  rate.figure = Figure::tokens_per_gpu_s;
  EXPECT_THAT(check_json(std::vector{rate}, {}, {}), HasSubstr("\"high\": 1.2,"));
  CheckedFigure memory = in;
  memory.figure = Figure::peak_memory;
  EXPECT_THAT(check_json(std::vector{memory}, {}, {}), HasSubstr("\"high_bytes\": 1.2,"));
}

LinkLoads sample() {
  LinkLoads loads;
  loads.crossings = {
      {Axis::tp,
       {WorkKind::all_gather, WorkKind::reduce_scatter},
       8,
       8,
       "NVLink",
       128,
       128,
       1,
       346.7e9,
       1.156},
      {Axis::pp, {WorkKind::send_recv}, 112, 2, "PCIe", 224, 336, 2, 2.416e9, 0.077},
      {Axis::pp, {WorkKind::send_recv}, 112, 2, "NIC - leaf", 224, 256, 2, 2.416e9, 0.097}};
  loads.fullest = {
      {"NVLink", "n0/gpu0", "NVSwitches", 350e9, 1.2, {{Axis::tp, 346.5e9}, {Axis::pp, 3.5e9}}}};
  return loads;
}

constexpr Time kStepOfLinks{13'000'000'000'000};

TEST(LinksText, SaysWhichGroupsCrossWhichLinksAndHowFullTheseAre) {
  const std::string text = explain_links(sample(), "links crossed: 64 ranks", kStepOfLinks);
  EXPECT_THAT(text, HasSubstr("links crossed: 64 ranks\n"));
  EXPECT_THAT(text, HasSubstr("  tp         8   8  NVLink      128 of 128              1  346.7    "
                              "1.156    8.9 %\n"));
  // The axis is named once.
  EXPECT_THAT(text, HasSubstr("  pp       112   2  PCIe"));
  EXPECT_THAT(text, HasSubstr("\n                    NIC - leaf  224 of 256"));
  EXPECT_THAT(text, HasSubstr("n0/gpu0  NVSwitches  350.0    1.200    9.2 %  tp 99.0 %, pp 1.0 %"));
  EXPECT_THAT(text, HasSubstr("tp all-gather, reduce-scatter; pp transfers"));
}

TEST(LinksText, FitsAHundredColumnsAndFortyLines) {
  LinkLoads loads;
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::embedding}) {
    for (const char* links : {"NVLink", "PCIe", "NIC - rack", "rack - pod", "pod - spine"}) {
      loads.crossings.push_back(
          {axis, {WorkKind::all_reduce}, 16384, 1024, links, 65536, 131072, 1024, 1e12, 99.999});
    }
  }
  for (const char* links : {"NVLink", "PCIe", "NIC - rack", "rack - pod", "pod - spine"}) {
    loads.fullest.push_back(
        {links, "rack1023", "pod3/15", 1e12, 99.999, {{Axis::dp, 0.5e12}, {Axis::pp, 0.5e12}}});
  }
  std::istringstream text(explain_links(loads, "links crossed", kStepOfLinks));
  int lines = 0;
  for (std::string line; std::getline(text, line); ++lines)
    EXPECT_LE(display_width(line), 100) << line;
  EXPECT_LE(lines, 40);
}

TEST(InSituText, SaysWhatIsKnownFromFewSources) {
  InSituLine line;
  line.term = "host calls";
  line.scope = "until 2022";
  line.unit = "x";
  line.added = Time{1'000'000'000};
  line.runs = 560;
  line.sources = 1;
  InSituAnswer answer{{line}, Time{3'000'000'000}, Time{2'000'000'000}, 0, {}};
  const char* few = "host calls (until 2022): all that is known is from 560 runs of one source";
  EXPECT_THAT(explain_in_situ(answer), HasSubstr(few));
  answer.lines[0].sources = 3;
  EXPECT_THAT(explain_in_situ(answer), Not(HasSubstr("all that is known")));
  answer.lines[0].sources = 1;
  answer.lines[0].added = Time{};  // this step does not depend on it
  EXPECT_THAT(explain_in_situ(answer), Not(HasSubstr("all that is known")));
}

TEST(LinksText, EscapesNamesAndLeavesTinyMessagesOut) {
  LinkLoads loads = sample();
  loads.fullest[0].from = "n0/\x1b[31mgpu";
  loads.crossings[0].links = "a\nb";
  loads.crossings[1].bytes = 4;
  const std::string text = explain_links(loads, "x", kStepOfLinks);
  EXPECT_THAT(text, HasSubstr("n0/\\x1b[31mgpu"));
  EXPECT_THAT(text, HasSubstr("a\\x0ab"));
  EXPECT_THAT(text, Not(HasSubstr("PCIe")));
}

TEST(LinksText, OfARankAloneSaysSo) {
  EXPECT_THAT(explain_links({}, "links crossed: 1 rank", kStepOfLinks),
              HasSubstr("no group of ranks communicates"));
}

TEST(LinksJson, HasEveryNumber) {
  JsonWriter json;
  json.begin_object();
  write_links(json, sample());
  json.end_object();
  const auto links = nlohmann::json::parse(json.text())["links"];
  ASSERT_EQ(links["crossings"].size(), 3u);
  const auto& tp = links["crossings"][0];
  EXPECT_EQ(tp["axis"], "tp");
  EXPECT_EQ(tp["kinds"], (nlohmann::json{"all_gather", "reduce_scatter"}));
  EXPECT_EQ(tp["groups"], 8);
  EXPECT_EQ(tp["ranks"], 8);
  EXPECT_EQ(tp["links"], "NVLink");
  EXPECT_EQ(tp["links_used"], 128);
  EXPECT_EQ(tp["links_there"], 128);
  EXPECT_EQ(tp["groups_per_link"], 1);
  EXPECT_EQ(tp["bytes"], 346.7e9);
  EXPECT_EQ(tp["seconds"], 1.156);
  const auto& fullest = links["fullest"][0];
  EXPECT_EQ(fullest["from"], "n0/gpu0");
  EXPECT_EQ(fullest["to"], "NVSwitches");
  EXPECT_EQ(fullest["bytes_by_axis"]["pp"], 3.5e9);
}

std::array<StageLine, 2> two_stages() {
  std::array<StageLine, 2> stages;
  stages[0] = {.rank = 1,
               .forward = Time{10'000'000'000},
               .backward = Time{19'500'000'000},
               .backward_input = Time{12'000'000'000},
               .backward_weight = Time{8'000'000'000},
               .after_forward = 300,
               .after_input = 200,
               .hop = Time{250'000'000}};
  stages[1] = stages[0];
  stages[1].rank = 0;
  stages[1].hop.reset();
  return stages;
}

TEST(StagesText, IsAFileForScheduleEval) {
  EXPECT_EQ(explain_stages("run", two_stages(), 2),
            "# run, one microbatch: passes and transfers in ms, bytes held after F and I.\n"
            "# For stepcast schedule eval FAMILY --pp 2 --vpp 2 -m MICROBATCHES --stages FILE "
            "--costs 0,0,0,0.250\n"
            "#       F        I       W  after F  after I       B  # stage  pp rank    hop\n"
            "  10.000,  12.000,  8.000,     300,     200,  19.500      # 0        1  0.250\n"
            "  10.000,  12.000,  8.000,     300,     200,  19.500      # 1        0      -\n");
}

TEST(StagesText, JsonHasTheTimesExactly) {
  const auto j = nlohmann::json::parse(
      json_document([&](JsonWriter& json) { write_stages(json, two_stages()); }))["stages"];
  ASSERT_EQ(j.size(), 2U);
  EXPECT_EQ(j[0]["stage"], 0);
  EXPECT_EQ(j[0]["pp_rank"], 1);
  EXPECT_EQ(j[0]["forward_ps"], 10'000'000'000);
  EXPECT_EQ(j[0]["backward_ps"], 19'500'000'000);
  EXPECT_EQ(j[0]["backward_input_ps"], 12'000'000'000);
  EXPECT_EQ(j[0]["backward_weight_ps"], 8'000'000'000);
  EXPECT_EQ(j[0]["bytes_after_forward"], 300);
  EXPECT_EQ(j[0]["bytes_after_input"], 200);
  EXPECT_EQ(j[0]["hop_ps"], 250'000'000);
  EXPECT_TRUE(j[1]["hop_ps"].is_null());
}

}  // namespace
}  // namespace stepcast::explain_test
