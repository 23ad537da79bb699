// SPDX-License-Identifier: Apache-2.0
// Periods of a steady state that the engine of equal ranks leaves out, against the engine that runs
// every one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/forecast/step.h"
#include "scenarios/pricing_table.h"
#include "scenarios/scenario.h"
#include "sim/account/account.h"
#include "sim/contention/contention.h"
#include "sim/graph/program.h"
#include "sim/random.h"

namespace stepcast::periods_test {
namespace {

PricedStep priced(const Scenario& scenario) {
  return price_step(lower_step(scenario, scenario.schedule), pricing_table(scenario).table);
}

ContentionResult run(const PricedStep& step, bool fold, const Interference& interference) {
  LaneSet lanes;
  lanes.digits = {{Axis::tp, 1}};
  return run_contended(step.graph, step.prices, lanes, {}, interference,
                       {.fold = fold, .record = true});
}

// What differs between the step and that of which every period is run; `left_out`: how many were
// not.
std::string difference(const std::string& text, const Interference& interference,
                       int64_t& left_out) {
  const Scenario scenario = load_scenario_text(text, "run.yaml");
  const PricedStep step = priced(scenario);
  const ContentionResult got = run(step, true, interference);
  const ContentionResult want = run(step, false, interference);
  left_out += got.periods_left_out;
  const Timeline &a = got.lanes.timeline, &b = want.lanes.timeline;
  std::string out;
  if (got.lanes.end != want.lanes.end) out += "ends ";
  if (got.lanes.span != want.lanes.span) out += "span ";
  if (got.shared_ops != want.shared_ops) out += "shared_ops ";
  for (size_t r = 0; r < a.roles.size(); ++r) {
    const RoleTimeline &x = a.roles[r], &y = b.roles[r];
    const auto same_item = [](const auto& i, const auto& j) {
      return i.begin == j.begin && i.end == j.end;
    };
    if (!std::ranges::equal(x.items, y.items, same_item)) out += "items ";
    if (x.inside != y.inside) out += "inside ";
  }
  const auto same_rendezvous = [](const RendezvousTime& i, const RendezvousTime& j) {
    return i.begin == j.begin && i.end == j.end && i.last_role == j.last_role &&
           i.last_item == j.last_item && i.contended == j.contended;
  };
  if (!std::ranges::equal(a.rendezvous, b.rendezvous, same_rendezvous)) out += "rendezvous ";
  const Program program = compile(step.graph, step.prices);
  if (make_account(program, a).by_role != make_account(program, b).by_role) out += "account ";
  return out;
}

std::string scenario_of(const std::string& schedule, int vpp, int microbatches, int micro) {
  return "model: {preset: gpt3-1.3b, num_hidden_layers: 8}\ncluster: dgx-a100-80g x 1\nparallel: "
         "{tp: 2, pp: "
         "4, vpp: " +
         std::to_string(vpp) + "}\nbatch: {global: " + std::to_string(microbatches * micro) +
         ", micro: " + std::to_string(micro) + ", seq: 1024}\nschedule: " + schedule + "\n";
}

struct Case {
  std::string schedule;
  int vpp;
};

const std::vector<Case> kCases = {
    {"1f1b", 1},
    {"{kind: 1f1b, p2p: async}", 1},
    {"{kind: 1f1b, p2p: deepspeed}", 1},
    {"interleaved", 2},
    {"{kind: interleaved, p2p: async}", 2},
    {"zb-h1", 1},
    {"zb-v", 2},
    {"gpipe", 1},
};

TEST(Periods, LeftOutAreWhatTheyAreWhenRun) {
  for (const Case& c : kCases) {
    int64_t left_out = 0;
    for (const int microbatches : {12, 16, 40}) {
      for (const int micro : {1, 4}) {
        for (const Interference& i :
             {Interference{1.25, 1.5}, Interference{1, 2}, Interference{1.001, 1}}) {
          EXPECT_EQ(difference(scenario_of(c.schedule, c.vpp, microbatches, micro), i, left_out),
                    "")
              << c.schedule << ", " << microbatches << " microbatches of " << micro;
        }
      }
    }
    // All forwards come first in GPipe, and a rank then waits for others only at the turn.
    if (c.schedule != "gpipe") {
      EXPECT_GT(left_out, 0) << c.schedule;
    }
  }
}

}  // namespace
}  // namespace stepcast::periods_test
