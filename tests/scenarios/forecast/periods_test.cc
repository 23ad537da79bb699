// SPDX-License-Identifier: Apache-2.0
// Periods of a steady state that the engine of equal ranks leaves out, against the engine that runs
// every one of them.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/forecast/step.h"
#include "scenarios/pricing_table.h"
#include "scenarios/scenario.h"
#include "sim/contention/contention.h"
#include "sim/lanes/lane_speeds.h"
#include "tests/scenarios/forecast/contended_steps.h"

namespace stepcast::periods_test {
namespace {

PricedStep priced(const Scenario& scenario) {
  return price_step(lower_step(scenario, scenario.schedule), pricing_table(scenario).table);
}

int64_t whole(double factor) {
  return static_cast<int64_t>(factor * kNominal + 0.5);
}

// What differs between the step and that of which every period is run; `left_out`: how many were
// not.
std::string difference(const std::string& text, const Interference& interference,
                       int64_t& left_out) {
  const Scenario scenario = load_scenario_text(text, "run.yaml");
  const PricedStep step = priced(scenario);
  const ContentionResult got = testing::run_as_equal_ranks(step, whole(interference.compute),
                                                           whole(interference.communication));
  left_out += got.periods_left_out;
  return testing::difference_of(step, got, testing::run_every_op(step, interference));
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
