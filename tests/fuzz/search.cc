// SPDX-License-Identifier: Apache-2.0
// The sections `search` and `sweep` of a scenario, and conditions by themselves.
#include <string>
#include <vector>

#include "scenarios/search/expression.h"
#include "scenarios/search/space.h"
#include "scenarios/search/sweep.h"
#include "sim/check.h"
#include "tests/fuzz/readers.h"
#include "tests/temporary_folder.h"

namespace stepcast::fuzz {

void search(std::string_view text) {
  static const testing::TemporaryFolder folder;
  takes([&] {
    const SearchSpace space(ScenarioDocument::of_text(
        std::string(text), (folder.path() / "fuzz.yaml").string(), folder.path().string()));
    STEPCAST_CHECK(!space.places().empty(), "a space has a place");
    STEPCAST_CHECK(!space.settings().objectives.empty(), "a search looks for something");
  });
  takes([&] {
    const SweepSpace space(ScenarioDocument::of_text(
        std::string(text), (folder.path() / "fuzz.yaml").string(), folder.path().string()));
    STEPCAST_CHECK(space.size() >= 1 && space.size() <= kMostPoints, "a sweep has points");
    STEPCAST_CHECK(space.settings(space.size() - 1).size() == space.paths().size(),
                   "each axis sets its key");
  });
  const std::vector<std::string> words{"none", "full"};
  const std::vector<ExpressionName> names{{"tp", {}}, {"gpu.memory", {}}, {"recompute", words}};
  ExpressionProblem problem;
  if (const auto e = parse_expression(text, names, problem))
    static_cast<void>(e->holds(std::vector<double>{2, 8e10, 1}));
  else
    STEPCAST_CHECK(!problem.message.empty() && problem.offset <= text.size(), "says what is wrong");
}

}  // namespace stepcast::fuzz
