// SPDX-License-Identifier: Apache-2.0
// From what a scenario says of ranks and links to lanes, groups and classes.
#include "scenarios/forecast/lane_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"

namespace stepcast::lane_set_test {
namespace {

const std::string kHead = "model: {preset: gpt3-1.3b, tie_word_embeddings: false}\n";
// Two pipeline stages a node and more: neighbours meet inside a node and between nodes.
const std::string kPipeline = kHead +
                              "cluster: dgx-a100-80g x 2\n"
                              "parallel: {tp: 2, pp: 8, dp: 1}\n"
                              "batch: {global: 16, micro: 1, seq: 2048}\n";
// tp inside a node, dp across nodes behind uplinks with a sixteenth of the bandwidth.
const std::string kNested = kHead +
                            "cluster:\n"
                            "  preset: dgx-a100-80g\n"
                            "  nodes: 8\n"
                            "  fabric: {kind: clos, tiers: [{name: leaf, size: 8}, {name: pod, "
                            "size: 16, oversub: 4}, {name: spine, size: 64, oversub: 4}]}\n"
                            "parallel: {tp: 8, pp: 1, dp: 8}\n"
                            "batch: {global: 16, micro: 1, seq: 2048}\n";

Result forecast_of(const std::string& text, const std::string& items = {}) {
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(
      load_scenario_text(text + (items.empty() ? "" : "perturb: [" + items + "]\n"), "run.yaml"),
      quick);
}

LaneSet lanes_of(const std::string& text, const std::string& items) {
  const Result sound = forecast_of(text);
  const Scenario s = load_scenario_text(text + "perturb: [" + items + "]\n", "run.yaml");
  return lane_set(s, *sound.graph, *sound.prices, 0);
}

TEST(LaneSet, GroupsOfLanesAreThoseOfTheGrid) {
  std::vector<RankGrid> grids;
  grids.push_back({.tp = 2, .cp = 2, .dp = 4, .pp = 2, .ep = 4, .replicas = 2});
  grids.push_back({.tp = 4, .cp = 1, .dp = 4, .pp = 3, .ep = 8, .etp = 2, .replicas = 4});
  grids.push_back({.tp = 2, .cp = 4, .dp = 2, .pp = 2, .ep = 1, .etp = 1, .replicas = 4});
  grids.push_back({.tp = 1, .cp = 1, .dp = 1, .pp = 2});
  grids.push_back({.tp = 2, .cp = 1, .dp = 4, .pp = 2, .order = parse_order("dp-tp-pp-cp")});
  const Axis axes[] = {Axis::tp,  Axis::cp,   Axis::dp,    Axis::pp,      Axis::etp,  Axis::ep,
                       Axis::edp, Axis::data, Axis::shard, Axis::replica, Axis::model};
  for (const RankGrid& grid : grids) {
    Scenario s;
    s.plan.grid = grid;
    s.cluster.nodes = 100;
    s.cluster.node.gpus = 8;
    OpGraph graph;
    for (int64_t stage = 0; stage < grid.pp; ++stage)
      graph.roles.emplace_back().pipeline_rank = static_cast<uint32_t>(stage);
    const LaneSet lanes = lane_set(s, graph, {}, 0);
    ASSERT_EQ(lanes.lanes() * grid.pp, grid.world());
    for (const Axis axis : axes) {
      const std::vector<int64_t> first = first_of_group(lanes.digits, axis);
      const bool over_stages = axis == Axis::pp || axis == Axis::model;
      for (uint32_t role = 0; role < graph.roles.size(); ++role) {
        for (size_t lane = 0; lane < first.size(); ++lane) {
          std::vector<int64_t> group;
          for (uint32_t other = 0; other < graph.roles.size(); ++other) {
            if (other != role && !over_stages) continue;
            for (size_t i = 0; i < first.size(); ++i)
              if (first[i] == first[lane])
                group.push_back(rank_of_lane(s, graph, other, static_cast<int64_t>(i)));
          }
          std::ranges::sort(group);
          const int64_t rank = rank_of_lane(s, graph, role, static_cast<int64_t>(lane));
          EXPECT_EQ(group, grid.group(axis, rank)) << name_of(axis) << " of rank " << rank;
        }
      }
    }
  }
}

TEST(LaneSet, ATransferSuffersFromBothOfItsEnds) {
  const Time one = forecast_of(kPipeline, "{where: stage 2 nvlink, bw: 0.02}").step_time;
  const Time both =
      forecast_of(kPipeline, "{where: stage 2 nvlink, bw: 0.02}, {where: stage 3, bw: 0.9}")
          .step_time;
  EXPECT_GE(both, one);
}

TEST(LaneSet, AMildWindowDoesNotHideASevereOne) {
  const std::string severe = "{where: gpu 0 nvlink, bw: 0.1, from: 1ps, until: 1000s}";
  const std::string mild = "{where: gpu 1, bw: 0.9, from: 1ps, until: 1000s}";
  for (const std::string& text : {kPipeline, kNested})
    EXPECT_GE(forecast_of(text, severe + ", " + mild).step_time,
              forecast_of(text, severe).step_time);
}

TEST(LaneSet, LinksThatAreSlowInSeveralRespectsHaveJoins) {
  const LaneSet lanes =
      lanes_of(kNested, "{where: node 0, bw: 0.5}, {where: node 1, latency: 50us}");
  // Slower, later, and both: the ranks of a dp group are on all nodes.
  ASSERT_EQ(lanes.class_ps.size(), 1U);
  EXPECT_TRUE(lanes.windows.empty());
  const LaneSet apart = lanes_of(kNested,
                                 "{where: node 0, bw: 0.5, until: 1s}, {where: node 1, latency: "
                                 "50us, from: 500ms, until: 2s}");
  ASSERT_EQ(apart.class_ps.size(), 3U);
  for (uint8_t c = 0; c <= 3; ++c) {
    EXPECT_EQ(apart.joined(c, 0), c);
    EXPECT_EQ(apart.joined(0, c), c);
    EXPECT_EQ(apart.joined(c, 3), 3);
    EXPECT_EQ(apart.joined(c, c), c);
  }
  EXPECT_EQ(apart.joined(1, 2), 3);
  for (size_t w = 0; w < apart.class_ps[2].size(); ++w)
    EXPECT_GE(apart.class_ps[2][w], std::max(apart.class_ps[0][w], apart.class_ps[1][w]));
}

TEST(LaneSet, WindowsThatNeverMeetHaveNoJoin) {
  const LaneSet lanes = lanes_of(kNested,
                                 "{where: node 0, bw: 0.5, until: 1s}, "
                                 "{where: node 1, latency: 50us, from: 1s, until: 2s}");
  EXPECT_EQ(lanes.class_ps.size(), 2U);
}

TEST(LaneSet, LanesOfOneKindShareTheirWindows) {
  const LaneSet lanes = lanes_of(kNested, "{where: all, compute: 0.5, from: 1s, until: 2s}");
  ASSERT_EQ(lanes.window_lists.size(), 1U);
  ASSERT_EQ(lanes.window_lists[0].size(), 1U);
  EXPECT_EQ(lanes.window_lists[0][0].slowness, 2 * kNominal);
  EXPECT_EQ(lanes.windows_of(0, 63).size(), 1U);
}

TEST(LaneSet, MoreKindsOfSlowLinksThanAreCountedAreRefused) {
  std::string items;
  for (int i = 0; i < 17; ++i) {
    if (i > 0) items += ", ";
    items += "{where: rank " + std::to_string(i) + ", bw: 0." + std::to_string(900 + i) + "}, ";
    items += "{where: rank " + std::to_string(63 - i) + ", latency: " + std::to_string(1 + i) +
             "us, until: 1s}";
  }
  EXPECT_NO_THROW(lanes_of(kNested, items));
  std::string many;
  for (int i = 0; i < 300; ++i) {
    if (i > 0) many += ", ";
    many += "{where: all, bw: 0." + std::to_string(600 + i) + ", from: " + std::to_string(i + 1) +
            "ms, until: " + std::to_string(i + 2) + "ms}";
  }
  try {
    lanes_of(kNested, many);
    FAIL() << "not refused";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.front().code, "E130");
  }
}

TEST(LaneSet, ASlowNicBehindASlowerUplinkIsNoLossAndNeverAGain) {
  const std::string late = "{where: all, latency: 500us";
  const Time alone = forecast_of(kNested, late + "}").step_time;
  const Time half = forecast_of(kNested, late + ", bw: 0.5}").step_time;
  const Time little = forecast_of(kNested, late + ", bw: 0.02}").step_time;
  EXPECT_GE(half, alone);
  EXPECT_GT(little, half);
}

TEST(LaneSet, RanksOnSlowLinksAreThoseWhoseOwnLinksAre) {
  const auto count = [](const std::string& items) {
    return forecast_of(kPipeline, items).disturbance->slow_links;
  };
  EXPECT_EQ(count("{where: node 1 nvlink, bw: 0.25}"), 8);
  EXPECT_EQ(count("{where: gpu 3 nvlink, latency: 3us, from: 1ms, until: 2ms}"), 1);
  // Stages 3 and 4, and the first and last, talk between nodes.
  EXPECT_EQ(count("{where: stage 3, bw: 0.25}"), 2);
  EXPECT_EQ(count("{where: rank 1, compute: 0.5}"), 0);
}

}  // namespace
}  // namespace stepcast::lane_set_test
