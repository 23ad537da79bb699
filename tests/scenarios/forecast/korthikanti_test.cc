// SPDX-License-Identifier: Apache-2.0
// Korthikanti et al. 2022 (arXiv:2205.05198), Table 5: measured iteration times on A100-80G.  The
// bounds below only catch a model that breaks; nothing is fitted to these runs, and
// docs/accuracy.md has the errors.
#include <gtest/gtest.h>

#include <string>

#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"

namespace stepcast::korthikanti_test {
namespace {

constexpr const char* k22b = R"(
model: gpt-22b
cluster: dgx-a100-80g x 1
parallel: {tp: 8, sp: SP}
batch: {global: 4, micro: 4, seq: 2048}
precision: fp16-mixed
recompute: MODE
kernels: {attention: unfused, dropout: 0.1}
)";

constexpr const char* k175b = R"(
model: gpt3-175b
cluster: dgx-a100-80g x 8
parallel: {tp: 8, pp: 8, vpp: 3, sp: SP}
batch: {global: 64, micro: 1, seq: 2048}
schedule: interleaved
precision: fp16-mixed
recompute: MODE
kernels: {attention: unfused, dropout: 0.1}
)";

struct Row {
  const char* name;
  const char* scenario;
  const char* recompute;
  double measured_s;
};

class Table5 : public ::testing::TestWithParam<Row> {};

std::string filled(std::string text, const std::string& mode) {
  const auto put = [&](const std::string& key, const std::string& value) {
    text.replace(text.find(key), key.size(), value);
  };
  put("SP", mode == "full" ? "false" : "true");  // "present work" is selective + sequence parallel
  put("MODE", mode);
  return text;
}

TEST_P(Table5, IsForecastWithinAFewPercent) {
  const Row& row = GetParam();
  const Result result = forecast(load_scenario_text(filled(row.scenario, row.recompute), row.name));
  const double predicted = to_seconds(result.step_time);
  const double error = predicted / row.measured_s - 1;
  RecordProperty("predicted_s", std::to_string(predicted));
  EXPECT_GT(error, -0.20);
  EXPECT_LT(error, 0.20);
  EXPECT_TRUE(result.fits);
}

INSTANTIATE_TEST_SUITE_P(Korthikanti2022, Table5,
                         ::testing::Values(Row{"22b_full", k22b, "full", 1.42},
                                           Row{"22b_selective", k22b, "selective", 1.10},
                                           Row{"175b_full", k175b, "full", 18.13},
                                           Row{"175b_selective", k175b, "selective", 13.75}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace stepcast::korthikanti_test
