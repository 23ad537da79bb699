// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/observed_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "sim/statistics.h"

namespace stepcast::accuracy {
namespace {

using Memories = std::vector<ObservedMemory>;

std::vector<SourceSample> ratios_of(const Memories& runs, std::string_view memory_class) {
  std::vector<SourceSample> samples;
  for (const ObservedMemory& r : runs)
    if (memory_class == kAnyMemory || r.memory_class == memory_class)
      samples.push_back({r.source, r.ratio});
  return samples;
}

MemoryErrors errors_of_class(std::string_view name, const std::vector<SourceSample>& samples,
                             const std::vector<WeightedSample>& pool) {
  MemoryErrors e;
  e.name = name;
  e.runs = static_cast<int64_t>(samples.size());
  std::set<std::string_view> sources;
  for (const SourceSample& s : samples) sources.insert(s.source);
  e.sources = static_cast<int64_t>(sources.size());
  for (size_t i = 0; i < kMemoryShares.size(); ++i)
    e.ratios[i] = weighted_quantile(pool, kMemoryShares[i]);
  return e;
}

bool covers(std::span<const MemoryErrors> table, const ObservedMemory& run) {
  const MemoryErrors* like = memory_errors_like(table, run.memory_class);
  if (like == nullptr) return false;  // no interval holds it
  const MemoryInterval i = make_memory_interval(Bytes{}, *like);
  return i.like_low <= run.ratio && run.ratio <= i.like_high;
}

// Counts of runs by source.
using Counts = std::map<std::string_view, std::pair<double, double>>;  // covered, all

Coverage coverage_of(const Counts& by_source) {
  Coverage c;
  double all = 0;
  for (const auto& [source, count] : by_source) {
    c.by_run += count.first;
    c.by_source += count.first / count.second / static_cast<double>(by_source.size());
    all += count.second;
  }
  if (all > 0) c.by_run /= all;
  return c;
}

// Judges each part of the runs by a table of the others; with one part, by their own.
template <class Key>
Coverage judged(const Memories& runs, const std::vector<Key>& part_of) {
  Counts counts;
  const std::set<Key> parts(part_of.begin(), part_of.end());
  for (const Key& part : parts) {
    Memories others;
    for (size_t i = 0; i < runs.size(); ++i)
      if (part_of[i] != part || parts.size() == 1) others.push_back(runs[i]);
    const std::vector<MemoryErrors> table = memory_classes(others);
    for (size_t i = 0; i < runs.size(); ++i) {
      if (part_of[i] != part) continue;
      auto& [covered, all] = counts[runs[i].source];
      ++all;
      if (covers(table, runs[i])) ++covered;
    }
  }
  return coverage_of(counts);
}

}  // namespace

std::vector<ObservedMemory> observed_memories(const std::vector<RunRow>& rows) {
  Memories runs;
  for (const RunRow& r : rows) {
    if (!r.peak_memory || !r.measured.peak_memory || r.memory_class.empty()) continue;
    if (!(*r.peak_memory > 0)) continue;
    runs.push_back({r.source, r.memory_class, *r.measured.peak_memory / *r.peak_memory});
  }
  return runs;
}

std::vector<MemoryErrors> memory_classes(const std::vector<ObservedMemory>& runs) {
  std::vector<MemoryErrors> table;
  if (runs.empty()) return table;
  const std::vector<SourceSample> all = ratios_of(runs, kAnyMemory);
  const std::vector<WeightedSample> any = weigh_by_source(all);
  table.push_back(errors_of_class(kAnyMemory, all, any));
  for (const std::string_view name : {kAllocatedMemory, kReservedMemory}) {
    const std::vector<SourceSample> samples = ratios_of(runs, name);
    if (!samples.empty())
      table.push_back(errors_of_class(name, samples, weigh_by_source(samples, &any)));
  }
  return table;
}

Coverages memory_coverages(const std::vector<ObservedMemory>& runs) {
  std::vector<std::string> sources;
  std::vector<int> halves;
  std::map<std::string, int> met;
  for (const ObservedMemory& r : runs) {
    sources.push_back(r.source);
    halves.push_back(met[r.source]++ % 2);
  }
  return {judged(runs, std::vector<int>(runs.size())), judged(runs, sources), judged(runs, halves)};
}

std::vector<Surely> surely_fits(const std::vector<RunRow>& rows) {
  constexpr std::array kBounds{0.0, 0.1, 0.5, 0.9, 0.95, 1.0};
  std::vector<Surely> bins;
  for (size_t i = kBounds.size() - 1; i > 0; --i)
    bins.push_back({kBounds[i - 1], kBounds[i], 0, 0});
  const Memories runs = observed_memories(rows);
  std::map<std::string, std::vector<MemoryErrors>> without;
  for (const RunRow& row : rows) {
    if (!row.memory_room || !row.measured.out_of_memory) continue;
    const auto [table, is_new] = without.try_emplace(row.source);
    if (is_new) {
      Memories others;
      std::ranges::copy_if(runs, std::back_inserter(others),
                           [&](const ObservedMemory& r) { return r.source != row.source; });
      table->second = memory_classes(others);
    }
    const MemoryErrors* like = memory_errors_like(table->second, kReservedMemory);
    if (like == nullptr) continue;
    const double share = share_that_fits(*like, *row.memory_room);
    Surely& bin = *std::ranges::find_if(bins, [&](const Surely& s) { return s.from <= share; });
    ++bin.runs;
    if (!*row.measured.out_of_memory) ++bin.ran;
  }
  return bins;
}

std::string memory_csv(const std::vector<ObservedMemory>& runs) {
  return memory_errors_csv(
      memory_classes(runs),
      "# Measured / forecast memory of published runs (calibrate/runs/records), by what was "
      "measured: ratios below\n# which that share of the weight lies (docs/trust.md).  "
      "tools/accuracy --update rewrites this.\n");
}

std::string memory_trust_text(const std::vector<RunRow>& rows) {
  std::string text;
  const auto line = [](const char* name, const Coverage& part) {
    return fmt::format("  {:<46} {:>5.1f} % of runs, {:>5.1f} % as mean of sources\n", name,
                       100 * part.by_run, 100 * part.by_source);
  };
  if (const Memories runs = observed_memories(rows); !runs.empty()) {
    const Coverages c = memory_coverages(runs);
    text += fmt::format("Measured memory within the {:.0f} % interval, of {} runs\n",
                        100 * MemoryInterval{}.level, runs.size()) +
            line("by a table without the run's source", c.source_unseen) +
            line("by one of every other run of each source", c.half_unseen) +
            line("by one of these very runs", c.seen);
  }
  std::string bins;
  for (const Surely& s : surely_fits(rows)) {
    if (s.runs == 0) continue;
    bins += fmt::format("  {:>3.0f} to {:>3.0f} % {:>8} {:>8} {:>8.1f} %\n", 100 * s.from,
                        100 * s.to, s.runs, s.ran,
                        100.0 * static_cast<double>(s.ran) / static_cast<double>(s.runs));
  }
  if (!bins.empty())
    text +=
        "\nSteps said to fit, by a table without the run's source, and runs that did\n"
        "  said             runs      ran    of them\n" +
        bins;
  return text;
}

std::string stale_memory_errors(const std::string& shipped, const std::string& now) {
  constexpr double kTolerance = 0.01;
  std::string stale;
  const std::vector<MemoryErrors> before = parse_memory_errors(shipped);
  const std::vector<MemoryErrors> current = parse_memory_errors(now);
  const auto find = [](const std::vector<MemoryErrors>& table, const std::string& name) {
    const auto at = std::ranges::find(table, name, &MemoryErrors::name);
    return at == table.end() ? nullptr : &*at;
  };
  for (const MemoryErrors& e : current) {
    const MemoryErrors* was = find(before, e.name);
    if (was == nullptr) {
      stale += fmt::format("{}: not in the table\n", e.name);
      continue;
    }
    if (was->runs != e.runs || was->sources != e.sources)
      stale += fmt::format("{}: {} runs of {} sources, in the table {} of {}\n", e.name, e.runs,
                           e.sources, was->runs, was->sources);
    for (size_t i = 0; i < e.ratios.size(); ++i)
      if (std::fabs(was->ratios[i] - e.ratios[i]) > kTolerance)
        stale += fmt::format("{}: {:.3f} at {:.0f} %, in the table {:.3f}\n", e.name, e.ratios[i],
                             100 * kMemoryShares[i], was->ratios[i]);
  }
  for (const MemoryErrors& e : before)
    if (find(current, e.name) == nullptr) stale += fmt::format("{}: no run of it\n", e.name);
  return stale;
}

}  // namespace stepcast::accuracy
