// SPDX-License-Identifier: Apache-2.0
#include "stepcast/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "stepcast/stepcast.h"

namespace stepcast::forecast_test {
namespace {

LoadedScenario small() {
  return LoadedScenario::from_text(
      "model: {preset: llama3-8b, num_hidden_layers: 2}\ncluster: dgx-h100\n"
      "parallel: {tp: 8}\nbatch: {global: 1, micro: 1, seq: 1024}\n",
      "small.yaml");
}

TEST(Forecast, WritesATraceOfWhatWasRecorded) {
  ForecastSettings settings;
  settings.trace = true;
  size_t bytes = 0;
  Forecast(small(), settings).write_trace([&](std::string_view piece) { bytes += piece.size(); });
  EXPECT_GT(bytes, 1000u);
}

TEST(Forecast, RefusesATraceOfWhatWasNotRecorded) {
  const Forecast forecast(small());
  try {
    forecast.write_trace([](std::string_view) { FAIL() << "a piece of a trace"; });
    FAIL() << "a trace was written";
  } catch (const InputError& error) {
    EXPECT_THAT(describe(error), ::testing::HasSubstr("ForecastSettings::trace"));
  }
}

}  // namespace
}  // namespace stepcast::forecast_test
