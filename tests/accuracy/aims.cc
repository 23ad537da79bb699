// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/aims.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <string_view>

#include "tests/accuracy/observed.h"
#include "tests/accuracy/summary.h"

namespace stepcast::accuracy {
namespace {

// A figure in per cent, and how many it is taken over.
struct Reached {
  double value = 0;
  size_t of = 0;
};

Reached share(size_t part, size_t whole) {
  if (whole == 0) return {};
  return {100.0 * static_cast<double>(part) / static_cast<double>(whole), whole};
}

// What is aimed at: the figures `low` to `high`, of the runs of a source whose id begins so.
struct Goal {
  std::string_view what, source, id;      // source "": all
  Reached (*figure)(const PoolSummary&);  // null: covered_unseen, of all rows
  double low = 0, high = 0;
};

template <auto kErrors, auto kFigure>
Reached error(const PoolSummary& s) {
  const Errors& errors = s.*kErrors;
  return {100 * errors.*kFigure, errors.count};
}
constexpr auto kTimeMean = error<&PoolSummary::time, &Errors::mean>;

Reached found(const PoolSummary& s) {
  return share(s.oom.hit, s.oom.hit + s.oom.missed);
}
Reached fitting(const PoolSummary& s) {
  return share(s.oom.fits, s.oom.fits + s.oom.alarms);
}
Reached winners(const PoolSummary& s) {
  return share(s.rankings.winners, s.rankings.groups);
}
Reached ratio(const PoolSummary& s) {
  return {100 * s.rankings.ratio.median, s.rankings.ratio.count};
}
// By intervals that the run's source had no part in: by those of the shipped table, which is made
// of these runs, any would do well.
Reached covered_unseen(const std::vector<RunRow>& rows) {
  const std::vector<ObservedRun> runs = observed_runs(rows);
  if (runs.empty()) return {};
  return {100 * coverages_at_level(runs).source_unseen.mean(), runs.size()};
}

// Means of single sources: simulators that were published with these runs state means of them.
constexpr std::array<Goal, 17> kGoals{{
    {"step time, median error", "", "", error<&PoolSummary::time, &Errors::median>, 0, 5},
    {"step time, p90 of the error", "", "", error<&PoolSummary::time, &Errors::p90>, 0, 12},
    {"step time, bias", "", "", error<&PoolSummary::time, &Errors::bias>, -2, 2},
    {"step time in the interval of 80 % that its source had no part in", "", "", nullptr, 75, 85},
    {"Korthikanti 22B and 175B, mean error", "korthikanti_recompute", "korthikanti-t5", kTimeMean,
     0, 3.65},
    {"vTrain on one node, mean error", "vtrain_single_node_bulk", "", kTimeMean, 0, 8.37},
    {"vTrain on several nodes, mean error", "vtrain_multi_node", "", kTimeMean, 0, 11},
    {"SimuMax on B200, mean error", "simumax", "simumax-b200", kTimeMean, 0, 5.6},
    {"step from measured stage times, median error", "", "",
     error<&PoolSummary::profiled, &Errors::median>, 0, 2},
    {"step from measured stage times, worst error", "", "",
     error<&PoolSummary::profiled, &Errors::worst>, 0, 5},
    {"fastest of a group named right", "", "", winners, 95, 100},
    {"speed against the fastest of the group, median error", "", "", ratio, 0, 3},
    {"peak memory, median error", "", "", error<&PoolSummary::memory, &Errors::median>, 0, 3},
    {"peak memory, p90 of the error", "", "", error<&PoolSummary::memory, &Errors::p90>, 0, 8},
    {"SimuMax on B200, mean error of peak memory", "simumax", "simumax-b200",
     error<&PoolSummary::memory, &Errors::mean>, 0, 0.5},
    {"runs out of memory called so", "", "", found, 95, 100},
    {"runs that fit called so", "", "", fitting, 95, 100},
}};

std::string range_text(const Goal& g) {
  if (g.high >= 100) return fmt::format("at least {}", g.low);
  if (g.low == -g.high) return fmt::format("within ±{}", g.high);
  return g.low == 0 ? fmt::format("at most {}", g.high) : fmt::format("{} to {}", g.low, g.high);
}

Pool pool_of(const std::vector<RunRow>& rows, const Goal& goal) {
  Pool pool;
  for (const RunRow& row : rows)
    if ((goal.source.empty() || row.source == goal.source) && row.id.starts_with(goal.id))
      pool.push_back(&row);
  return pool;
}

}  // namespace

std::vector<Aim> aims_of(const std::vector<RunRow>& rows) {
  std::vector<Aim> aims;
  const PoolSummary whole = summarize(all_of(rows));
  for (const Goal& goal : kGoals) {
    const Reached r =
        goal.figure == nullptr
            ? covered_unseen(rows)
            : goal.figure(goal.source.empty() ? whole : summarize(pool_of(rows, goal)));
    if (r.of == 0) continue;
    aims.push_back({std::string(goal.what), range_text(goal), r.value, r.of,
                    goal.low <= r.value && r.value <= goal.high});
  }
  return aims;
}

}  // namespace stepcast::accuracy
