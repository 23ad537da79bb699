// SPDX-License-Identifier: Apache-2.0
// Stepcast as a library: forecasts the scenario files named on the command line.
#include <cstdio>

#include "stepcast/stepcast.h"

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) {
      const auto scenario = stepcast::LoadedScenario::from_file(argv[i]);
      const auto figures = stepcast::Forecast(scenario).figures();
      std::printf("%s: one step takes %.3f s\n", scenario.name().c_str(), figures.step_time_s);
    }
  } catch (const stepcast::InputError& error) {
    std::fprintf(stderr, "%s", stepcast::describe(error).c_str());
    return 2;
  }
  return 0;
}
