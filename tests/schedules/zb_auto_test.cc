// SPDX-License-Identifier: Apache-2.0
// The automatic zero-bubble families against the lists and times of the zero-bubble program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "schedules/families/families.h"
#include "schedules/synthesis/order_timing.h"
#include "tests/schedules/vectors.h"
#include "tests/schedules/written_actions.h"

namespace stepcast::zb_auto_test {
namespace {

using ::testing::HasSubstr;
using testing::parse_actions;

constexpr double kUnit = 1000;  // ps

// One unit of the parameters is 1 ns here, or 1 byte.
PipelineCosts costs_of(const ScheduleParams& params, std::vector<uint16_t> rank_of_stage) {
  const auto number = [&](const char* key) { return ParamReader(params).numbers(key); };
  PipelineCosts costs =
      level_costs(params.pp, params.microbatches, std::move(rank_of_stage), {}, {}, Time{}, 0);
  const auto at = [](const std::vector<double>& numbers, size_t s) {
    return static_cast<int64_t>(numbers.size() == 1 ? numbers[0] : numbers.at(s));
  };
  const auto unit = static_cast<int64_t>(kUnit);
  for (size_t s = 0; s < costs.times.size(); ++s) {
    costs.times[s].forward = Time{at(number("tF"), s) * unit};
    costs.times[s].backward_input = Time{at(number("tB_input"), s) * unit};
    costs.times[s].backward_weight = Time{at(number("tW"), s) * unit};
    costs.memory[s] = {at(number("mem_F"), s), at(number("mem_B"), s), at(number("mem_W"), s)};
  }
  costs.hops.assign(costs.hops.size(), Time{at(number("tComm"), 0) * unit});
  costs.memory_limit.assign(costs.memory_limit.size(),
                            at(number("mem_limit_in_activations"), 0) * costs.memory[0].forward);
  return costs;
}

#ifdef NDEBUG
constexpr int64_t kMostRanks = 64;
#else
constexpr int64_t kMostRanks = 4;  // so that an unoptimised build takes seconds
#endif

class AutomaticVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(AutomaticVectors, TakeNoLongerThanTheReferenceWithinItsMemory) {
  for (const testing::Vector& v : testing::read_vectors(GetParam())) {
    if (v.params.pp > kMostRanks) continue;
    SCOPED_TRACE(v.id);
    const Schedule s = generate_schedule(*find_schedule_family(v.schedule), v.params);
    EXPECT_EQ(s.name, v.schedule);
    EXPECT_EQ(testing::faults_of(s), "");
    Order reference;
    for (const std::string& row : v.rows) reference.push_back(parse_actions(row));
    const PipelineCosts costs = costs_of(v.params, s.rank_of_stage);
    const std::optional<OrderTimes> theirs = time_order(costs, reference);
    const std::optional<OrderTimes> ours = time_order(costs, s.ranks);
    ASSERT_TRUE(theirs && ours);
    EXPECT_LE(ours->makespan, theirs->makespan);
    // Theirs is made for a short span alone.
    EXPECT_LE(to_seconds(ours->span), 1.02 * to_seconds(theirs->span));
    EXPECT_TRUE(fits_memory(costs, s.ranks));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, AutomaticVectors,
                         ::testing::Values("zb_auto.jsonl", "zbv_auto.jsonl"),
                         [](const auto& file) {
                           return file.index == 0 ? std::string("OneChunk") : std::string("V");
                         });

// Times that differ by stage; the family's name ends with "-heterogeneous" there.
TEST(AutomaticSchedules, TakeNoLongerThanTheReferenceWithStagesThatDiffer) {
  std::istringstream in(testing::read_file("reference_makespans.jsonl"));
  const std::string suffix = "-heterogeneous";
  int compared = 0;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    const std::string name = json.at("schedule");
    if (!name.ends_with(suffix)) continue;
    SCOPED_TRACE(line);
    ScheduleParams params{json.at("pp"), json.at("vpp"), json.at("microbatches"), 0};
    for (const auto& [key, value] : json.at("params").items()) params.more[key] = value.dump();
    const Schedule s = generate_schedule(
        *find_schedule_family(name.substr(0, name.size() - suffix.size())), params);
    const PipelineCosts costs = costs_of(params, s.rank_of_stage);
    Order reference;
    for (const auto& row : json.at("ranks"))
      reference.push_back(parse_actions(row.get<std::string>()));
    const std::optional<OrderTimes> theirs = time_order(costs, reference);
    const std::optional<OrderTimes> ours = time_order(costs, s.ranks);
    ASSERT_TRUE(theirs && ours);
    EXPECT_EQ(static_cast<double>(theirs->span.count()) / kUnit,
              json.at("reference_value").get<double>());
    EXPECT_LE(ours->makespan, theirs->makespan);
    EXPECT_LE(ours->span, theirs->span);
    EXPECT_TRUE(fits_memory(costs, s.ranks));
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

Schedule made(const std::string& name, int64_t pp, int64_t vpp, int64_t m,
              std::map<std::string, std::string, std::less<>> more = {}) {
  return generate_schedule(*find_schedule_family(name), {pp, vpp, m, 0, std::move(more)});
}

TEST(AutomaticSchedules, NeedNoParameters) {
  EXPECT_EQ(made("zb-1p", 4, 1, 8).ranks, made("zb-1p-auto", 4, 1, 8,
                                               {{"tF", "1000"},
                                                {"tB_input", "1000.0"},
                                                {"tW", "1000"},
                                                {"tComm", "1"},
                                                {"mem_F", "303104"},
                                                {"mem_limit_in_activations", "4"},
                                                {"note", "any"}})
                                              .ranks);
}

TEST(AutomaticSchedules, TakeAnyNumberOfRanksAndMicrobatches) {
  for (const int64_t pp : {1, 2, 3, 5})
    for (const int64_t m : {1, 2, 5, 9}) {
      EXPECT_EQ(testing::faults_of(made("zb-1p-auto", pp, 1, m)), "");
      EXPECT_EQ(testing::faults_of(made("zb-2p-auto", pp, 1, m)), "");
      EXPECT_EQ(testing::faults_of(made("zb-v-auto", pp, 2, m)), "");
    }
}

TEST(AutomaticSchedules, DoNotDependOnTheUnitOfTime) {
  const Schedule in_ms = made(
      "zb-2p", 4, 1, 9, {{"tF", "1.5"}, {"tB_input", "1.25"}, {"tW", "0.5"}, {"tComm", "0.125"}});
  const Schedule in_us = made(
      "zb-2p", 4, 1, 9, {{"tF", "1500"}, {"tB_input", "1250"}, {"tW", "500"}, {"tComm", "125"}});
  EXPECT_EQ(in_ms.ranks, in_us.ranks);
}

std::string refusal(const std::string& name, int64_t pp, int64_t vpp, int64_t m,
                    std::map<std::string, std::string, std::less<>> more = {}) {
  try {
    made(name, pp, vpp, m, std::move(more));
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(AutomaticSchedules, RefuseWithTheReason) {
  EXPECT_EQ(refusal("zb-1p", 4, 2, 8),
            "zb-1p-auto runs one chunk on each rank: vpp = 2 must be 1, or the schedule zb-v-auto");
  EXPECT_THAT(refusal("zb-v-auto", 4, 1, 8), HasSubstr("must be 2"));
  EXPECT_EQ(refusal("zb-1p", 4, 1, 8, {{"tF", "1,2,3"}}),
            "tF has 3 numbers: one is needed, or one for each of the 4 stages");
  EXPECT_THAT(refusal("zb-1p", 4, 1, 8, {{"tF", "fast"}}), HasSubstr("tF = fast"));
  EXPECT_EQ(refusal("zb-1p", 4, 1, 8, {{"tW", "-1"}}), "tF, tB_input and tW must not be negative");
  EXPECT_EQ(refusal("zb-1p", 4, 1, 8, {{"tComm", "-1"}}), "tComm must not be negative");
  EXPECT_EQ(refusal("zb-1p", 4, 1, 8, {{"tF", "1e13"}}), "tF is out of range: at most 1e12");
  EXPECT_THAT(refusal("zb-1p", 4, 1, 8, {{"mem_W", "5"}}), HasSubstr("must add up to 0"));
  EXPECT_THAT(refusal("zb-1p", 4, 1, 8, {{"mem_limit_in_activations", "0"}}),
              HasSubstr("must be positive"));
  EXPECT_THAT(refusal("zb-1p", 4, 1, 8, {{"mem_limit_in_activations", "0.5"}}),
              HasSubstr("one microbatch alone needs 303104 on rank 0 (limit 151552)"));
  EXPECT_THAT(refusal("zb-1p", 4, 1, 8, {{"tX", "1"}}), HasSubstr("is not a parameter"));
}

}  // namespace
}  // namespace stepcast::zb_auto_test
