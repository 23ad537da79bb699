// SPDX-License-Identifier: Apache-2.0
// The schedule alone with given costs, worked out by hand.
#include "schedules/lower/lower_unit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "schedules/check.h"
#include "schedules/families/families.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "sim/memory/memory.h"
#include "tests/schedules/vectors.h"

namespace stepcast::lower_unit_test {
namespace {

using enum ActionKind;

Action pair_with_next(Action a) {
  a.overlaps_next = true;
  return a;
}

// The actions of a rank with their start and end, in ps.
struct Placed {
  Timeline timeline;
  std::map<std::string, std::pair<int64_t, int64_t>> actions;
};

Placed place(const Schedule& schedule, const UnitCosts& costs, P2pStyle style = P2pStyle::async) {
  std::vector<Time> durations;
  const OpGraph graph = lower_unit(schedule, costs, durations, style);
  check_graph(graph);
  Prices prices;
  for (const Time t : durations) prices.by_work.push_back({t, Origin::measured, {}});
  const Program program = compile(graph, prices);
  Placed placed{run(program, Record::account), {}};
  for (size_t r = 0; r < graph.roles.size(); ++r)
    for (size_t i = 0; i < graph.roles[r].items.size(); ++i) {
      const Item& item = graph.roles[r].items[i];
      if (item.kind != ItemKind::pass) continue;
      const ItemTime& time = placed.timeline.roles[r].items[i];
      placed.actions[to_string(item.action)] = {time.begin.count(), time.end.count()};
    }
  return placed;
}

UnitCosts level(int64_t forward, int64_t input, int64_t weight, int64_t hop) {
  UnitCosts costs;
  costs.times = {Time{forward}, Time{input}, Time{weight}, Time{3}, Time{5}, Time{7}};
  costs.hop = Time{hop};
  return costs;
}

using Interval = std::pair<int64_t, int64_t>;

TEST(LowerUnit, PairStartsWhenBothHalvesMayAndSendsWhenBothHaveRun) {
  Schedule s = loop_schedule("own", {2, 1, 2, 0});
  s.ranks = {
      {forward_of(0, 0), forward_of(0, 1), backward_of(0, 0), backward_of(0, 1)},
      {forward_of(1, 0), pair_with_next(forward_of(1, 1)), backward_of(1, 0), backward_of(1, 1)}};
  const Placed placed = place(s, level(10, 12, 7, 1));
  EXPECT_EQ(placed.actions.at("1F0"), (Interval{11, 21}));
  EXPECT_EQ(placed.actions.at("1F1"), (Interval{21, 31}));
  EXPECT_EQ(placed.actions.at("1B0"), (Interval{31, 50}));
  EXPECT_EQ(placed.actions.at("0B0"), (Interval{51, 70}));
  EXPECT_EQ(placed.timeline.makespan.count(), 89);
}

// The backward half has to wait for its gradient, and the forward half waits with it.
TEST(LowerUnit, PairWaitsForTheLaterOfItsInputs) {
  Schedule s = loop_schedule("own", {2, 1, 2, 0});
  s.ranks = {
      {forward_of(0, 0), pair_with_next(forward_of(0, 1)), backward_of(0, 0), backward_of(0, 1)},
      {forward_of(1, 0), backward_of(1, 0), forward_of(1, 1), backward_of(1, 1)}};
  const Placed placed = place(s, level(10, 12, 7, 1));
  EXPECT_EQ(placed.actions.at("1B0"), (Interval{21, 40}));
  EXPECT_EQ(placed.actions.at("0F1"), (Interval{41, 51}));
  EXPECT_EQ(placed.actions.at("0B0"), (Interval{51, 70}));
  EXPECT_EQ(placed.actions.at("1F1").first, 71);  // after the whole unit
}

TEST(LowerUnit, PairHoldsItsForwardWhileItsBackwardRuns) {
  Schedule s = loop_schedule("own", {1, 1, 2, 0});
  s.ranks = {
      {forward_of(0, 0), pair_with_next(forward_of(0, 1)), backward_of(0, 0), backward_of(0, 1)}};
  std::vector<Time> durations;
  const std::vector<RoleMemory> memory = trace_memory(lower_unit(s, {}, durations));
  EXPECT_EQ(memory.at(0).peak_in_flight, 2);
}

TEST(LowerUnit, StagesMayHaveTheirOwnTimes) {
  const Schedule s = find_schedule_family("1f1b")->generate({2, 1, 2, 0});
  UnitCosts costs;
  costs.by_stage = {{Time{1}, Time{2}, Time{3}}, {Time{10}, Time{20}, Time{30}}};
  const Placed placed = place(s, costs);
  EXPECT_EQ(placed.actions.at("0F0"), (Interval{0, 1}));
  EXPECT_EQ(placed.actions.at("1F0"), (Interval{1, 11}));
  EXPECT_EQ(placed.actions.at("1B0"), (Interval{11, 61}));
  EXPECT_EQ(placed.actions.at("0B1"), (Interval{121, 126}));
  costs.slow_rank = 1;
  costs.slow_factor = 2;
  EXPECT_EQ(place(s, costs).timeline.makespan.count(), 1 + 2 * 120 + 5);
}

TEST(LowerUnit, RecomputeOffloadAndReloadTakeTheirOwnTimes) {
  Schedule s = loop_schedule("own", {1, 1, 2, 0});
  s.ranks = {{forward_of(0, 0),
              {offload, 0, 0},
              forward_of(0, 1),
              {recompute, 0, 1},
              backward_of(0, 1),
              {reload, 0, 0},
              {backward_input, 0, 0},
              {backward_weight, 0, 0}}};
  const Placed placed = place(s, level(10, 12, 8, 1));
  EXPECT_EQ(placed.actions.at("0O0"), (Interval{10, 15}));
  EXPECT_EQ(placed.actions.at("0R1"), (Interval{25, 28}));
  EXPECT_EQ(placed.actions.at("0L0"), (Interval{48, 55}));
  EXPECT_EQ(placed.timeline.makespan.count(), 75);
  std::vector<Time> durations;
  const std::vector<RoleMemory> memory = trace_memory(lower_unit(s, {}, durations));
  EXPECT_EQ(memory.at(0).peak.value, 1);  // never two at a time
  EXPECT_EQ(memory.at(0).end.value, 0);
}

TEST(LowerUnit, SequenceSplitsAreMessagesOfTheirOwn) {
  Schedule s = loop_schedule("own", {2, 1, 1, 0});
  s.seq_splits = 2;
  s.ranks = {{forward_of(0, 0), forward_of(0, 1), backward_of(0, 1), backward_of(0, 0)},
             {forward_of(1, 0), forward_of(1, 1), backward_of(1, 1), backward_of(1, 0)}};
  const Placed placed = place(s, level(10, 12, 8, 1));
  EXPECT_EQ(placed.actions.at("1F1"), (Interval{21, 31}));
  EXPECT_EQ(placed.actions.at("0B1"), (Interval{52, 72}));
  EXPECT_EQ(placed.timeline.makespan.count(), 92);
}

TEST(LowerUnit, BothDirectionsOfABidirectionalScheduleTakeTheirTime) {
  Schedule s = bidirectional_schedule("own", {2, 2, 2, 0});
  s.reversed = {false, true};
  s.ranks = {{forward_of(0, 0), forward_of(1, 1), backward_of(1, 1), backward_of(0, 0)},
             {forward_of(0, 1), forward_of(1, 0), backward_of(1, 0), backward_of(0, 1)}};
  const Placed placed = place(s, level(10, 12, 8, 3));
  EXPECT_EQ(placed.actions.at("1F1"), (Interval{13, 23}));
  EXPECT_EQ(placed.actions.at("1F0"), (Interval{13, 23}));
  EXPECT_EQ(placed.actions.at("0B0"), (Interval{46, 66}));
}

TEST(LowerUnit, BlockingSendEndsWhenTheReceiverIsThere) {
  const Schedule s = find_schedule_family("gpipe")->generate({2, 1, 2, 0});
  // Rank 1 takes its second input when its first forward has run, at 13 + 50.
  UnitCosts costs;
  costs.by_stage = {{Time{10}, Time{10}, Time{10}}, {Time{50}, Time{10}, Time{10}}};
  costs.hop = Time{3};
  const Placed free = place(s, costs), blocking = place(s, costs, P2pStyle::megatron);
  EXPECT_EQ(free.actions.at("1F1"), (Interval{63, 113}));
  EXPECT_EQ(blocking.actions.at("0F1"), (Interval{13, 23}));
  EXPECT_EQ(blocking.actions.at("1F1"), (Interval{66, 116}));
}

TEST(LowerUnit, StyleThatDoesNotGoWithTheScheduleIsRefused) {
  const Schedule s = find_schedule_family("zb-v")->generate({2, 2, 4, 0});
  std::vector<Time> durations;
  EXPECT_THROW(lower_unit(s, {}, durations, P2pStyle::deepspeed), InputError);
}

// What the programs' own evaluators give.
struct Reference {
  std::string id;
  Schedule schedule;
  UnitCosts costs;
  double makespan = 0, span = -1;  // -1: not given
};

constexpr double kPicoseconds = 1e6;  // of one unit; costs are given to six decimals

UnitCosts costs_of(const nlohmann::json& params) {
  const auto time = [&](const char* key) {
    return Time{std::llround(params.at(key).get<double>() * kPicoseconds)};
  };
  UnitCosts costs;
  costs.times.forward = time("tF");
  costs.times.backward_input = time("tB_input");
  costs.times.backward_weight = time("tW");
  costs.hop = time("tComm");
  return costs;
}

// The families with a fixed order, or one that follows from these costs.
bool is_reproduced(const std::string& family) {
  return family == "1f1b" || family == "zb-h1" || family == "zb-h2" ||
         family == "interleaved-1f1b" || family == "v-half" || family == "v-min";
}

std::vector<Reference> read_references() {
  std::istringstream in(testing::read_file("reference_makespans.jsonl"));
  std::vector<Reference> all;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    const std::string name = json["schedule"];
    if (!is_reproduced(name)) continue;
    const ScheduleFamily* family = find_schedule_family(name);
    if (family == nullptr) throw std::runtime_error("no family " + name);
    ScheduleParams params{json["pp"], json["vpp"], json["microbatches"], 0, {}};
    for (const ScheduleParameter& p : family->parameters)
      if (json["params"].contains(p.key))
        params.more[std::string(p.key)] = json["params"][std::string(p.key)].dump();
    Reference r;
    r.id = name + ' ' + std::to_string(params.pp) + ' ' + std::to_string(params.microbatches);
    r.schedule = generate_schedule(*family, params);
    r.costs = costs_of(json["params"]);
    r.makespan = json["our_dependency_eval_makespan"];
    if (json.contains("our_dependency_eval_span")) r.span = json["our_dependency_eval_span"];
    all.push_back(std::move(r));
  }
  return all;
}

TEST(ReferenceMakespans, ComeOutForEveryFixedOrder) {
  const std::vector<Reference> references = read_references();
  EXPECT_EQ(references.size(), 42u);
  for (const Reference& r : references) {
    SCOPED_TRACE(r.id);
    const Timeline timeline = place(r.schedule, r.costs).timeline;
    const auto units = [](Time t) { return static_cast<double>(t.count()) / kPicoseconds; };
    EXPECT_NEAR(units(timeline.makespan), r.makespan, 1e-3);  // thirds are cut to six decimals
    if (r.span >= 0) {
      EXPECT_NEAR(units(timeline.span), r.span, 1e-3);
    }
  }
}

}  // namespace
}  // namespace stepcast::lower_unit_test
