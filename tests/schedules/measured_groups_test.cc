// SPDX-License-Identifier: Apache-2.0
// Published groups of measurements: what the schedules take with the stage times measured beside
// them, and that synthesis finds nothing worse than the best of them.  Single figures are
// properties of the tests: --gtest_output=json writes them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "schedules/synthesis/synthesis.h"
#include "tests/csv_rows.h"

namespace stepcast::measured_groups_test {
namespace {

using testing::number;
using testing::Row;
using testing::whole;

std::vector<Row> read_table(const std::string& file) {
  return testing::read_rows(std::string(STEPCAST_TEST_DATA) + "/schedules/" + file);
}

constexpr double kPicosecondsPerMs = 1e9;

// Every stage alike; the chunks of a rank share its time.  Memory of a layer without a fused
// attention, in bytes a token: 34h + 5as, of which W frees 32h (docs/schedules.md).
PipelineCosts costs_of(const Row& row) {
  const int64_t pp = whole(row, "pp"), vpp = whole(row, "vpp");
  const auto time = [&](const char* key) {
    return Time{std::llround(number(row, key) * kPicosecondsPerMs / static_cast<double>(vpp))};
  };
  StageTimes times;
  times.forward = time("t_f");
  times.backward_input = time("t_b");
  times.backward_weight = time("t_w");
  const int64_t h = whole(row, "hidden"), as = whole(row, "heads") * whole(row, "seq");
  std::vector<uint16_t> ranks;
  for (int64_t s = 0; s < pp * vpp; ++s) ranks.push_back(static_cast<uint16_t>(s % pp));
  const Time hop{std::llround(number(row, "t_comm") * kPicosecondsPerMs)};
  return level_costs(pp, whole(row, "microbatches"), std::move(ranks), times,
                     {34 * h + 5 * as, -2 * h - 5 * as, -32 * h}, hop, std::nullopt);
}

Schedule schedule_of(const Row& row) {
  ScheduleParams params{whole(row, "pp"), whole(row, "vpp"), whole(row, "microbatches"), 0};
  const std::string& name = row.at("schedule");
  if (name.starts_with("zb-")) {
    const StageMemory m = costs_of(row).memory[0];
    params.more = {{"tF", row.at("t_f")},
                   {"tB_input", row.at("t_b")},
                   {"tW", row.at("t_w")},
                   {"tComm", row.at("t_comm")},
                   {"mem_F", std::to_string(m.forward)},
                   {"mem_B", std::to_string(m.backward_input)},
                   {"mem_W", std::to_string(m.backward_weight)}};
  }
  return generate_schedule(*find_schedule_family(name), params);
}

struct Outcome {
  double makespan_s = 0, span_s = 0, measured_s = 0;
  int64_t peak = 0;  // in activations of a rank, the worst
};

Outcome outcome_of(const Row& row) {
  const PipelineCosts costs = costs_of(row);
  const Schedule s = schedule_of(row);
  const std::optional<OrderTimes> times = time_order(costs, s.ranks);
  const std::vector<int64_t> peaks = peak_memory(costs, s.ranks);
  return {to_seconds(times.value().makespan), to_seconds(times.value().span), number(row, "step_s"),
          *std::max_element(peaks.begin(), peaks.end()) / whole(row, "vpp")};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#ifdef NDEBUG
constexpr size_t kGroups = 12;  // all of them
#else
constexpr size_t kGroups = 2;  // so that an unoptimised build takes seconds
#endif

// Measured with an optimizer step that needs no barrier, a row of each group.
std::vector<Row> profiles(const std::string& schedule) {
  std::vector<Row> rows;
  for (Row& row : read_table("zero_bubble_profiles.csv"))
    if (row.at("schedule") == schedule && row.at("barrier") == "0" && rows.size() < kGroups)
      rows.push_back(std::move(row));
  return rows;
}

// Relative errors of the makespan.
std::vector<double> errors_of(const std::string& schedule) {
  std::vector<double> errors;
  for (const Row& row : profiles(schedule)) {
    const Outcome o = outcome_of(row);
    const double error = o.makespan_s / o.measured_s - 1;
    ::testing::Test::RecordProperty(row.at("group") + ' ' + schedule,
                                    fmt::format("makespan {:+.1f} %, span {:+.1f} %", 100 * error,
                                                100 * (o.span_s / o.measured_s - 1)));
    errors.push_back(std::abs(error));
  }
  return errors;
}

TEST(MeasuredProfiles, ZeroBubbleTwoPTakesWhatWasMeasured) {
  const std::vector<double> errors = errors_of("zb-2p");
  ASSERT_EQ(errors.size(), kGroups);
  EXPECT_LE(median(errors), 0.02);
  // The longest, of 256 microbatches, is known to two digits: 1.0 samples/s/GPU.
  EXPECT_LE(*std::max_element(errors.begin(), errors.end()), 0.051);
}

// The profile leaves out some 5 to 8 % of every step, and transfers take time of the compute, most
// where chunks make many of them.
TEST(MeasuredProfiles, OtherSchedulesAreTooShortByWhatTheProfileLeavesOut) {
  const std::map<std::string, double> most = {
      {"zb-1p", 0.09}, {"1f1b", 0.08}, {"interleaved-1f1b", 0.15}};
  for (const auto& [schedule, worst] : most) {
    SCOPED_TRACE(schedule);
    const std::vector<double> errors = errors_of(schedule);
    ASSERT_EQ(errors.size(), kGroups);
    EXPECT_LE(*std::max_element(errors.begin(), errors.end()), worst);
  }
}

TEST(MeasuredProfiles, SchedulesAreInTheMeasuredOrderOfMemory) {
  std::map<std::string, std::map<std::string, std::pair<double, int64_t>>> groups;
  for (const Row& row : read_table("zero_bubble_profiles.csv")) {
    if (row.at("barrier") != "0") continue;
    if (groups.size() == kGroups && !groups.contains(row.at("group"))) continue;
    groups[row.at("group")][row.at("schedule")] = {number(row, "peak_gb"), outcome_of(row).peak};
  }
  EXPECT_EQ(groups.size(), kGroups);
  for (const auto& [group, schedules] : groups)
    for (const auto& [a, of_a] : schedules)
      for (const auto& [b, of_b] : schedules)
        if (of_a.first < of_b.first) {
          EXPECT_LE(of_a.second, of_b.second) << group << ' ' << a << ' ' << b;
        }
}

// Of `costs`, with memory limits of what each of the schedules holds in turn.
void expect_no_worse(PipelineCosts costs, const std::vector<std::string>& names, int64_t effort) {
  for (const std::string& cap : names) {
    const Schedule held =
        generate_schedule(*find_schedule_family(cap), {costs.pp, 1, costs.microbatches, 0});
    const std::vector<int64_t> peaks = peak_memory(costs, held.ranks);
    costs.memory_limit.assign(peaks.size(), *std::max_element(peaks.begin(), peaks.end()));
    SynthesisProblem problem;
    problem.costs = costs;
    problem.effort = effort;
    const Synthesis s = synthesize(problem);
    EXPECT_TRUE(fits_memory(costs, s.schedule.ranks));
    for (const std::string& name : names) {
      const Schedule fixed =
          generate_schedule(*find_schedule_family(name), {costs.pp, 1, costs.microbatches, 0});
      if (fits_memory(costs, fixed.ranks)) {
        EXPECT_LE(s.makespan, time_order(costs, fixed.ranks).value().makespan) << name;
      }
    }
  }
}

TEST(MeasuredGroups, SynthesisIsNoWorseThanTheBestScheduleOfEqualMemoryWithProfiledTimes) {
  for (const Row& row : profiles("1f1b")) {
    SCOPED_TRACE(row.at("group"));
    expect_no_worse(costs_of(row), {"1f1b", "zb-h1", "zb-h2"}, 60);
  }
}

// Stage times by floating-point operations, one unit a GFLOP: no times are published.
PipelineCosts vocabulary_costs(const Row& row) {
  const int64_t pp = whole(row, "pp"), layers = whole(row, "layers") / pp;
  const double h = number(row, "hidden"), s = number(row, "seq");
  const double linear = 24 * h * h * s, attention = 4 * h * s * s;  // forward of a layer
  const double head = 2 * h * s * number(row, "vocab");
  std::vector<uint16_t> ranks(static_cast<size_t>(pp));
  std::iota(ranks.begin(), ranks.end(), uint16_t{0});
  const StageMemory layer{34, -2, -32};
  PipelineCosts costs = level_costs(
      pp, whole(row, "microbatches"), std::move(ranks), {},
      {layer.forward * layers, layer.backward_input * layers, layer.backward_weight * layers},
      Time{0}, std::nullopt);
  for (size_t stage = 0; stage < costs.times.size(); ++stage) {
    const double last = stage + 1 == costs.times.size() ? head : 0;
    const auto n = static_cast<double>(layers);
    const auto time = [](double flops) { return Time{std::llround(flops / 1000)}; };
    costs.times[stage].forward = time(n * (linear + attention) + last);
    costs.times[stage].backward_input = time(n * (linear + 2 * attention) + last);
    costs.times[stage].backward_weight = time(n * linear + last);
  }
  return costs;
}

TEST(MeasuredGroups, SynthesisIsNoWorseThanTheBestScheduleOfEqualMemoryWithALargeVocabulary) {
  const std::vector<Row> rows = read_table("vocabulary_groups.csv");
  ASSERT_EQ(rows.size(), 16u);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.at("group"));
    expect_no_worse(vocabulary_costs(row), {"1f1b", "zb-h1", "zb-h2"}, 60);
  }
}

}  // namespace
}  // namespace stepcast::measured_groups_test
