// SPDX-License-Identifier: Apache-2.0
// The best layouts of a space: `stepcast search`.
//
// A funnel: layouts that hold too much by a lower bound, and those that are slower than the k-th
// best by a lower bound, are decided without being simulated; the others are, best bound first, in
// rounds.  Within a round all are held against the same k-th best, so that what is found, and how
// many each rule decided, does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "scenarios/forecast/evaluator.h"
#include "scenarios/scenario_document.h"
#include "scenarios/search/space.h"
#include "sim/results/search_result.h"
#include "sim/results/step_ranking.h"

namespace stepcast {

// Of a space whose layouts are shared out by a hash of what they are: the part with this number.
struct SearchShard {
  int64_t index = 0, count = 1;
};

// What the section `job` says of the whole training.
struct JobFacts {
  std::optional<int64_t> tokens;
  std::optional<double> price;        // USD for a GPU and hour
  std::shared_ptr<const Job> losses;  // where it says of how many tokens
};

// What a layout takes and holds, whole: simulated now, or known from before.  `settings` makes it
// of the file, `simulate()` finds it out.
using RememberedTrial = std::function<Evaluator::Trial(
    const Scenario& scenario, const std::vector<std::pair<std::string, std::string>>& settings,
    const JobFacts& job, const std::function<Evaluator::Trial()>& simulate)>;

// The same of the joules of a token, which a whole forecast finds out.  After the step itself.
using RememberedEnergy = std::function<double(
    const Scenario& scenario, const std::vector<std::pair<std::string, std::string>>& settings,
    const JobFacts& job, const std::function<double()>& forecast)>;

struct SearchRun {
  int jobs = 1;  // threads
  SearchShard shard{};
  bool exhaustive = false;  // simulate every layout: for tests of the bounds
  bool any = false;         // end with the first round that finds a layout
  bool forecasts = true;    // of the best, with account and interval
  bool points = false;      // all that were simulated to their end, as rows: SearchAnswer::points
  int64_t next = 0;         // how many layouts to name that are worth measuring
  // A step time to compare with: all layouts that are faster are found and counted.
  std::optional<Time> against{};
  // Asked again and again, with search.budget; true ends the search with what has been found.  Of
  // the best only the first is then forecast whole.  Called by one thread.
  std::function<bool(std::optional<Time> budget)> stop{};
  // If set, what is simulated goes through it, to its end.  Called by all threads; what it throws
  // ends the search.
  RememberedTrial remember{};
  RememberedEnergy remember_energy{};  // likewise
  // How many layouts are decided of how many.  Called by one thread.
  std::function<void(int64_t decided, int64_t total)> progress{};
  // Before that: how many classes of layouts have bounds.  Called by one thread.
  std::function<void(int64_t known, int64_t total)> progress_of_bounds{};
};

// One layout that was simulated.
struct SearchRow {
  uint32_t layout = 0;  // index into SearchSpace::layouts()
  enum class Outcome : uint8_t { impossible, too_large, slower, breaks_constraint, fits } outcome{};
  Time time{};  // of those that are slower: at least
  Bytes peak{}, reserved{}, usable{};
};

struct SearchAnswer {
  SearchResult result;
  std::vector<SearchRow> rows;              // in the order in which they were simulated
  std::vector<Layout> layouts;              // all of them
  std::vector<ScenarioDocument> documents;  // of each of result.best: the scenario with that layout
  std::vector<ScenarioDocument> next;       // likewise of result.next
  StepPoints points;                        // without keys; the first is the best
  int64_t bounds_too_high = 0;              // bounds above what was simulated: none, or a bug
};

// Throws InputError as SearchSpace().
SearchAnswer search_layouts(const ScenarioDocument& document, const SearchOptions& options = {},
                            const SearchRun& run = {});

}  // namespace stepcast
