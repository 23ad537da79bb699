// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/observed.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/check.h"
#include "sim/statistics.h"

namespace stepcast::accuracy {
namespace {

// A source of few runs counts less than one: 3 runs as half of one.
constexpr double kHalfASource = 3;
// Sources that the next wider class counts as.
constexpr double kWiderSources = 2;

// Sorted by value; the weights sum to 1.
using Weighted = std::vector<WeightedSample>;

void scale(Weighted& pool, double to) {
  double sum = 0;
  for (const WeightedSample& w : pool) sum += w.weight;
  for (WeightedSample& w : pool) w.weight *= to / sum;
}

using Runs = std::vector<const ObservedRun*>;

Weighted weighted_runs(const Runs& runs, double (*value)(const ObservedRun&),
                       const Weighted* wider) {
  std::vector<SourceSample> samples;
  for (const ObservedRun* r : runs) samples.push_back({r->source, value(*r)});
  return weigh_by_source(samples, wider);
}

double ratio_of(const ObservedRun& r) {
  return to_seconds(r.measured) / to_seconds(r.forecast);
}

double cost_error_of(const ObservedRun& r) {
  return r.cost_error;
}

std::string wider_class(const std::string& name) {
  const size_t cut = name.rfind(" / ");
  return cut == std::string::npos ? "" : name.substr(0, cut);
}

using ClassKey = std::pair<int64_t, std::string>;  // own runs, name

// Every class and all wider ones with their runs; a wider one stands before those in it.
std::map<ClassKey, Runs> by_class(const std::vector<ObservedRun>& runs) {
  std::map<ClassKey, Runs> classes;
  for (const ObservedRun& r : runs)
    for (std::string name = r.run_class; !name.empty(); name = wider_class(name))
      classes[{r.own_runs, name}].push_back(&r);
  return classes;
}

// Counts runs in the intervals of tables made of other runs.
class Tally {
 public:
  void add(const ObservedRun& r, std::span<const ClassErrors> table) {
    auto& [runs, covered] = by_source_[r.source];
    ++runs;
    const ClassErrors* like = errors_like(table, r.run_class, r.own_runs);
    if (like == nullptr) return;  // no interval holds it
    const Interval i = make_interval(r.forecast, r.cost_error, *like);
    if (i.low <= r.measured && r.measured <= i.high) ++covered;
  }
  Coverage coverage() const {
    Coverage c;
    double all = 0;
    for (const auto& [source, count] : by_source_) {
      all += count.first;
      c.by_run += count.second;
      c.by_source += count.second / count.first / static_cast<double>(by_source_.size());
    }
    if (all > 0) c.by_run /= all;
    return c;
  }

 private:
  std::map<std::string, std::pair<double, double>> by_source_;
};

// Judges each part of the runs by a table of the others.
template <class Key>
Coverage cross_validated(const std::vector<ObservedRun>& runs, double share,
                         const std::vector<Key>& part_of) {
  Tally tally;
  for (const Key& part : std::set<Key>(part_of.begin(), part_of.end())) {
    std::vector<ObservedRun> others;
    for (size_t i = 0; i < runs.size(); ++i)
      if (part_of[i] != part) others.push_back(runs[i]);
    const std::vector<ClassErrors> table = class_errors(others, share);
    for (size_t i = 0; i < runs.size(); ++i)
      if (part_of[i] == part) tally.add(runs[i], table);
  }
  return tally.coverage();
}

// The least share by which `covered` is at least `level`.
double least_share(const std::vector<ObservedRun>& runs, double level,
                   double (*covered)(const Coverages&)) {
  // Wider intervals cover more, so that bisection finds it; in steps of the file's last digit.
  int low = 500, high = 999;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (covered(coverages(runs, middle / 1000.0)) < level) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low / 1000.0;
}

}  // namespace

std::vector<WeightedSample> weigh_by_source(const std::vector<SourceSample>& samples,
                                            const std::vector<WeightedSample>* wider) {
  std::map<std::string_view, double> counts;
  for (const SourceSample& sample : samples) ++counts[sample.source];
  double sources = 0;
  for (const auto& [source, n] : counts) sources += n / (n + kHalfASource);
  Weighted pool;
  for (const SourceSample& sample : samples)
    pool.push_back({sample.value, 1 / (counts[sample.source] + kHalfASource)});
  scale(pool, sources);
  if (wider != nullptr) {
    Weighted prior = *wider;
    scale(prior, kWiderSources);
    pool.insert(pool.end(), prior.begin(), prior.end());
  }
  std::stable_sort(pool.begin(), pool.end(), [](const WeightedSample& a, const WeightedSample& b) {
    return a.value < b.value;
  });
  scale(pool, 1);
  return pool;
}

std::vector<ObservedRun> observed_runs(const std::vector<RunRow>& rows) {
  std::vector<ObservedRun> runs;
  const auto is_step = [](const std::optional<double>& s) { return s && is_step_time(*s); };
  for (const RunRow& r : rows) {
    if (!is_step(r.step_time_s) || !is_step(r.measured.step_time_s) || r.run_class.empty())
      continue;
    // What forecasts of new runs are off by is what they are of sources that had no part in them.
    const double forecast = r.left_out_s.value_or(*r.step_time_s);
    runs.push_back({r.source, r.run_class, time_from_seconds(forecast),
                    time_from_seconds(*r.measured.step_time_s), r.cost_error, 0});
  }
  return runs;
}

std::vector<ClassErrors> class_errors(const std::vector<ObservedRun>& runs, double share) {
  std::vector<ClassErrors> table;
  std::map<ClassKey, Weighted> pools;
  for (const auto& [key, members] : by_class(runs)) {
    const auto& [own_runs, name] = key;
    const auto wider = pools.find({own_runs, wider_class(name)});
    const Weighted& pool = pools[key] =
        weighted_runs(members, ratio_of, wider == pools.end() ? nullptr : &wider->second);
    std::set<std::string_view> sources;
    for (const ObservedRun* r : members) sources.insert(r->source);
    table.push_back(
        {name, static_cast<int64_t>(members.size()), static_cast<int64_t>(sources.size()),
         // The forecast is the best estimate: it lies in its own interval.
         std::min(1.0, weighted_quantile(pool, (1 - share) / 2)),
         std::max(1.0, weighted_quantile(pool, (1 + share) / 2)),
         weighted_quantile(weighted_runs(members, cost_error_of, nullptr), 0.5), own_runs});
  }
  return table;
}

Coverages coverages(const std::vector<ObservedRun>& runs, double share) {
  Coverages c;
  Tally seen;
  const std::vector<ClassErrors> table = class_errors(runs, share);
  for (const ObservedRun& r : runs) seen.add(r, table);
  c.seen = seen.coverage();
  std::vector<std::string> sources;
  std::vector<int> halves;
  std::map<std::string, int> met;
  for (const ObservedRun& r : runs) {
    sources.push_back(r.source);
    halves.push_back(met[r.source]++ % 2);
  }
  c.source_unseen = cross_validated(runs, share, sources);
  c.half_unseen = cross_validated(runs, share, halves);
  return c;
}

double share_that_covers(const std::vector<ObservedRun>& runs, double level) {
  constexpr double kNear = 0.05;
  STEPCAST_CHECK(!runs.empty(), "runs to be covered");
  const auto sources = [](const Coverages& c) { return c.source_unseen.mean(); };
  const auto both = [](const Coverages& c) {
    return (c.source_unseen.mean() + c.half_unseen.mean()) / 2;
  };
  const double share = least_share(runs, level, sources);
  const double halves = coverages(runs, share).half_unseen.mean();
  return std::fabs(halves - level) < kNear ? share : least_share(runs, level, both);
}

Coverages coverages_at_level(const std::vector<ObservedRun>& runs) {
  return coverages(runs, share_that_covers(runs, Interval{}.level));
}

std::string observed_csv(const std::vector<ObservedRun>& runs) {
  const double level = Interval{}.level;
  const double share = runs.empty() ? level : share_that_covers(runs, level);
  const double covered = coverages(runs, share).source_unseen.mean();
  std::string text = fmt::format(
      "# Measured / forecast step times of published runs (calibrate/runs/records), by class: "
      "where {:.1f} % of the\n# weight lie, by which {:.0f} % of runs of sources left out are "
      "covered (docs/trust.md).\n# tools/accuracy --write-observed rewrites this.\n"
      "class,runs,sources,low,high,cost_error\n",
      100 * share, 100 * covered);
  for (const ClassErrors& c : class_errors(runs, share))
    text += fmt::format("{},{},{},{:.3f},{:.3f},{:.3f}\n", c.name, c.runs, c.sources, c.low, c.high,
                        c.cost_error);
  return text;
}

std::string highest_mfu_csv(const std::vector<RunRow>& rows) {
  std::map<std::pair<std::string, int64_t>, std::pair<double, int64_t>> highest;
  for (const RunRow& row : rows) {
    if (!row.measured_mfu || *row.measured_mfu >= 1) continue;
    auto& [mfu, runs] = highest[{row.gpu_generation, -row.product_bits}];
    mfu = std::max(mfu, *row.measured_mfu);
    ++runs;
  }
  std::string text =
      "# The highest model FLOPs utilization that published runs (calibrate/runs/records) reached: "
      "full attention counted,\n# of the peak in the format of the parameters "
      "(scenarios/highest_mfu.h).  tools/accuracy --update rewrites this.\n"
      "gpus,bits,mfu,runs\n";
  for (const auto& [key, found] : highest)
    text += fmt::format("{},{},{:.3f},{}\n", key.first, -key.second, found.first, found.second);
  return text;
}

std::string coverage_text(const std::vector<RunRow>& rows) {
  const std::vector<ObservedRun> runs = observed_runs(rows);
  if (runs.empty()) return "";
  Tally shipped;
  for (const ObservedRun& r : runs) shipped.add(r, observed_errors());
  const Coverages c = coverages_at_level(runs);
  const auto line = [](const char* name, const Coverage& part) {
    return fmt::format("  {:<46} {:>5.1f} % of runs, {:>5.1f} % as mean of sources\n", name,
                       100 * part.by_run, 100 * part.by_source);
  };
  return fmt::format("Measured steps within the {:.0f} % interval, of {} runs\n",
                     100 * Interval{}.level, runs.size()) +
         line("by a table without the run's source", c.source_unseen) +
         line("by one of every other run of each source", c.half_unseen) +
         line("by one of these very runs", c.seen) +
         line("by the shipped table", shipped.coverage());
}

std::string stale_errors(const std::string& shipped, const std::string& now) {
  constexpr double kTolerance = 0.05;
  const auto differ = [](double a, double b) { return std::fabs(a - b) > kTolerance * b; };
  std::string stale;
  const std::vector<ClassErrors> before = parse_observed_errors(shipped);
  const std::vector<ClassErrors> current = parse_observed_errors(now);
  for (const ClassErrors& c : current) {
    const ClassErrors* was = errors_like(before, c.name);
    if (was == nullptr || was->name != c.name) {
      stale += fmt::format("{}: not in the table\n", c.name);
    } else if (was->runs != c.runs || was->sources != c.sources) {
      stale += fmt::format("{}: {} runs of {} sources, in the table {} of {}\n", c.name, c.runs,
                           c.sources, was->runs, was->sources);
    } else if (differ(was->cost_error, c.cost_error)) {
      stale += fmt::format("{}: error of prices {:.3f}, in the table {:.3f}\n", c.name,
                           c.cost_error, was->cost_error);
    } else if (differ(was->low, c.low) || differ(was->high, c.high)) {
      stale += fmt::format("{}: {:.3f} to {:.3f}, in the table {:.3f} to {:.3f}\n", c.name, c.low,
                           c.high, was->low, was->high);
    }
  }
  for (const ClassErrors& c : before) {
    const ClassErrors* is = errors_like(current, c.name);
    if (is == nullptr || is->name != c.name) stale += fmt::format("{}: no run of it\n", c.name);
  }
  return stale;
}

}  // namespace stepcast::accuracy
