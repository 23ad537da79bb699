// SPDX-License-Identifier: Apache-2.0
// FlowNetwork and max_min_rates against the slow simulator in exact fractions, to the picosecond
// and to the byte per second.
// Each of ten shards has 300 random cases by default (random_cases.h).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/contention/fair_shares.h"
#include "sim/contention/flow_network.h"
#include "tests/oracle/flows.h"
#include "tests/oracle/network_ends.h"
#include "tests/random_cases.h"

namespace stepcast::flows_equal_oracle_test {
namespace {

using oracle::FairFlow;
using oracle::FlowCase;
using oracle::TimedFlow;

constexpr uint64_t kShards = 10;

uint64_t cases_per_shard() {
  return testing::random_cases(300);
}

std::string describe(const FlowCase& c) {
  std::string text = "capacity";
  for (const int64_t x : c.capacity) text += " " + std::to_string(x);
  for (const TimedFlow& f : c.flows) {
    text += "\n  flow from " + std::to_string(f.earliest);
    for (const uint32_t a : f.after) text += " after " + std::to_string(a);
    text += ", " + std::to_string(f.bytes) + " B, cap " + std::to_string(f.cap);
    for (const LinkUse& u : f.uses)
      text += ", " + std::to_string(u.load) + " on " + std::to_string(u.link);
    for (const oracle::CapChange& x : f.changes)
      text += ", cap " + std::to_string(x.cap) + " at " + std::to_string(x.time);
  }
  return text;
}

class RandomFlows : public ::testing::TestWithParam<uint64_t> {
 protected:
  uint64_t first() const { return GetParam() * 1'000'000; }
  uint64_t last() const { return first() + cases_per_shard(); }
};

TEST_P(RandomFlows, HaveTheRatesOfTheExactSolver) {
  for (uint64_t seed = first(); seed < last(); ++seed) {
    const FlowCase c = oracle::random_flows(seed);
    std::vector<FairFlow> exact;
    std::vector<FlowDemand> flows;
    for (const TimedFlow& f : c.flows) {
      exact.push_back({f.cap, f.uses});
      flows.push_back({f.cap, f.uses});
    }
    ASSERT_EQ(max_min_rates(c.capacity, flows), oracle::fair_rates(c.capacity, exact))
        << "seed " << seed << "\n"
        << describe(c);
  }
}

TEST_P(RandomFlows, EndWhenTheNaiveSimulatorSays) {
  for (uint64_t seed = first(); seed < last(); ++seed) {
    const FlowCase c = oracle::random_flows(seed);
    const std::vector<int64_t> want = oracle::flow_ends(c.capacity, c.flows);
    ASSERT_EQ(oracle::network_ends(c.capacity, c.flows, seed % 2 == 0), want)
        << "seed " << seed << "\n"
        << describe(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomFlows, ::testing::Range<uint64_t>(0, kShards));

}  // namespace
}  // namespace stepcast::flows_equal_oracle_test
