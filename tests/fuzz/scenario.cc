// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "scenarios/scenario.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/whole_path.h"

namespace stepcast::fuzz {
namespace {

// Lines `#set PATH=VALUE` at the head are --set; files that the text names are those of tests/data.
Scenario load(std::string_view text) {
  LoadOptions options;
  options.root = STEPCAST_TEST_DATA;
  for (std::string_view rest = text; rest.starts_with("#set ");) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view set = line.substr(5);
    const size_t equals = set.find('=');
    if (equals == 0 || equals == std::string_view::npos) break;
    options.set.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  }
  return load_scenario_text(std::string(text), STEPCAST_TEST_DATA "/fuzz.yaml", options);
}

}  // namespace

void scenario(std::string_view text) {
  takes([&] { load(text); });
}

void forecast(std::string_view text) {
  takes([&] {
    const Scenario scenario = load(text);
    if (is_small(scenario)) check_whole_path(scenario);
  });
}

}  // namespace stepcast::fuzz
