// SPDX-License-Identifier: Apache-2.0
// Stepcast as a library: forecasts the scenario files named on the command line.
#include <cstdio>

#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"
#include "sim/diagnostic.h"
#include "sim/units.h"

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) {
      const stepcast::Scenario scenario = stepcast::load_scenario(argv[i]);
      const stepcast::Result result = stepcast::forecast(scenario);
      std::printf("%s: one step takes %.3f s\n", scenario.name.c_str(),
                  stepcast::to_seconds(result.step_time));
    }
  } catch (const stepcast::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
