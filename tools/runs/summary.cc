// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/search/space.h"
#include "sim/csv.h"
#include "sim/statistics.h"
#include "tools/runs/observed.h"
#include "tools/runs/observed_memory.h"

namespace stepcast::accuracy {
namespace {

// Tokens a second and GPU.
struct Speeds {
  double measured = 0, predicted = 0;
};

// Numbers as '#', so that like reasons are equal.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    const bool in_word = !out.empty() && std::isalnum(static_cast<unsigned char>(out.back())) != 0;
    if (!digit || in_word || i < 4) {  // an error code comes first
      out += text[i];
    } else if (out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

// Where "runs.yaml:12:3" ends in "runs.yaml:12:3: E126 ..."; 0 if there is no such place.
size_t end_of_place(const std::string& text) {
  const size_t at = text.find(": E");
  const bool is_place = at != text.npos && at > 0 && at + 3 < text.size() &&
                        std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0 &&
                        std::isdigit(static_cast<unsigned char>(text[at + 3])) != 0;
  return is_place ? at : 0;
}

std::optional<double> relative_error(const std::optional<double>& predicted,
                                     const std::optional<double>& measured) {
  if (!predicted || !measured) return {};
  return *predicted / *measured - 1;
}

void count_call(const RunRow& row, OutOfMemory& oom) {
  if (!row.measured.out_of_memory || !row.out_of_memory) return;
  if (*row.measured.out_of_memory) {
    ++(*row.out_of_memory ? oom.hit : oom.missed);
  } else {
    ++(*row.out_of_memory ? oom.alarms : oom.fits);
  }
}

void count_interval(const RunRow& row, InInterval& c) {
  if (!row.interval || !row.measured.step_time_s) return;
  const double measured = *row.measured.step_time_s;
  ++c.runs;
  c.level = row.interval->level;
  if (measured < row.interval->low_s) {
    ++c.below;
  } else if (measured > row.interval->high_s) {
    ++c.above;
  } else {
    ++c.inside;
  }
}

void rank_group(std::vector<Speeds> group, Rankings& r, std::vector<double>& ratios) {
  constexpr double kGap = 0.02;
  if (group.size() < 2) return;
  std::stable_sort(group.begin(), group.end(),
                   [](const Speeds& a, const Speeds& b) { return a.measured > b.measured; });
  const Speeds& best = group.front();
  for (size_t i = 1; i < group.size(); ++i)
    ratios.push_back(group[i].predicted / best.predicted / (group[i].measured / best.measured) - 1);
  if (best.measured <= (1 + kGap) * group[1].measured) return;
  ++r.groups;
  const bool named = std::all_of(group.begin() + 1, group.end(), [&](const Speeds& other) {
    return best.predicted > other.predicted;
  });
  if (named) ++r.winners;
}

// One run of a group of layouts, as far as a choice depends on it.
struct Candidate {
  const RunRow* row = nullptr;
  double predicted = 0;  // seconds for a token and GPU
  std::optional<double> measured;
  bool ran_out = false;
  double free = 0;  // share of the memory; below 0: forecast not to fit
};

std::map<std::string, std::vector<Candidate>> candidates_of(const Pool& pool) {
  std::map<std::string, std::vector<Candidate>> groups;
  for (const RunRow* row : pool) {
    const bool ran_out = row->measured.out_of_memory.value_or(false);
    if (row->scenario.empty() || row->tokens_per_gpu <= 0 || !row->step_time_s) continue;
    if (!ran_out && !row->measured.step_time_s) continue;
    Candidate c{
        row, *row->step_time_s / row->tokens_per_gpu, {}, ran_out, row->memory_free.value_or(1)};
    if (!ran_out) c.measured = *row->measured.step_time_s / row->tokens_per_gpu;
    groups[row->source + '/' + without_layout(row->scenario)].push_back(c);
  }
  return groups;
}

Regret regret_of(const Pool& pool) {
  Regret r;
  for (auto& [name, group] : candidates_of(pool)) {
    const auto ran = std::ranges::count_if(group, [](const Candidate& c) { return !c.ran_out; });
    if (ran < 2) continue;
    ++r.groups;
    const Candidate* fastest = nullptr;
    for (const Candidate& c : group)
      if (c.measured && (fastest == nullptr || *c.measured < *fastest->measured)) fastest = &c;
    const double margin = SearchSettings{}.memory_margin;
    const bool any =
        std::ranges::any_of(group, [&](const Candidate& c) { return c.free >= margin; });
    std::vector<const Candidate*> order;
    for (const Candidate& c : group)
      if (c.free >= (any ? margin : 0)) order.push_back(&c);
    std::ranges::stable_sort(order, {}, &Candidate::predicted);
    if (!order.empty() && order.front()->ran_out) ++r.out_of_memory;
    const auto chosen =
        std::ranges::find_if(order, [](const Candidate* c) { return c->measured.has_value(); });
    if (chosen == order.end()) {
      ++r.no_answer;
      continue;
    }
    const double cost = *(*chosen)->measured / *fastest->measured - 1;
    r.mean += cost;
    r.worst = std::max(r.worst, cost);
    r.choices.push_back({(*chosen)->row, fastest->row, cost});
  }
  if (!r.choices.empty()) r.mean /= static_cast<double>(r.choices.size());
  return r;
}

Rankings rank_groups(const Pool& pool) {
  std::map<std::string, std::vector<Speeds>> groups;
  for (const RunRow* row : pool) {
    if (row->group.empty() || row->tokens_per_gpu <= 0 || !time_error(*row)) continue;
    groups[fmt::format("{}/{}", row->source, row->group)].push_back(
        {row->tokens_per_gpu / *row->measured.step_time_s,
         row->tokens_per_gpu / *row->step_time_s});
  }
  Rankings r;
  std::vector<double> ratios;
  for (auto& [name, group] : groups) rank_group(std::move(group), r, ratios);
  r.ratio = errors_of(std::move(ratios));
  return r;
}

}  // namespace

std::string without_layout(const std::string& scenario) {
  constexpr std::array<std::string_view, 8> kApart{
      "name", "description", "tags", "measured", "parallel", "schedule", "recompute", "compare"};
  Problems problems;
  Value tree = parse_yaml(problems, problems.add_source({"scenario", scenario}));
  std::erase_if(tree.members,
                [&](const Member& m) { return std::ranges::count(kApart, m.key) > 0; });
  if (Value* batch = tree.find("batch"); batch != nullptr)
    std::erase_if(batch->members, [](const Member& m) { return m.key == "micro"; });
  return to_flow(tree);
}

std::string without_size(const std::string& scenario) {
  constexpr std::array<std::string_view, 5> kApart{"name", "description", "tags", "measured",
                                                   "compare"};
  Problems problems;
  Value tree = parse_yaml(problems, problems.add_source({"scenario", scenario}));
  std::erase_if(tree.members,
                [&](const Member& m) { return std::ranges::count(kApart, m.key) > 0; });
  const auto leave_out = [&](const char* section, std::string_view key) {
    if (Value* of = tree.find(section); of != nullptr)
      std::erase_if(of->members, [&](const Member& m) { return m.key == key; });
  };
  leave_out("cluster", "nodes");
  leave_out("parallel", "dp");
  leave_out("batch", "global");
  return to_flow(tree);
}

std::vector<Scaling> scalings(const std::vector<RunRow>& rows) {
  constexpr int64_t kSpan = 4;
  std::map<std::string, Scaling> by_setting;
  for (const RunRow& row : rows) {
    const bool known = row.step_time_s && row.measured.step_time_s && row.tokens_per_gpu > 0;
    if (!known || row.gpus <= 0 || row.scenario.empty()) continue;
    by_setting[row.source + '/' + without_size(row.scenario)].push_back({&row, 0, 0});
  }
  std::vector<Scaling> found;
  for (auto& [setting, runs] : by_setting) {
    std::ranges::stable_sort(runs, {}, [](const ScaledRun& run) { return run.row->gpus; });
    // The first of equal size.
    const auto same_size = [](const ScaledRun& a, const ScaledRun& b) {
      return a.row->gpus == b.row->gpus;
    };
    runs.erase(std::unique(runs.begin(), runs.end(), same_size), runs.end());
    const RunRow& first = *runs.front().row;
    if (runs.back().row->gpus < kSpan * first.gpus) continue;
    const auto loss = [&](const ScaledRun& run, double first_s, double run_s) {
      return 1 - run.row->tokens_per_gpu / run_s / (first.tokens_per_gpu / first_s);
    };
    for (ScaledRun& run : runs) {
      run.measured = loss(run, *first.measured.step_time_s, *run.row->measured.step_time_s);
      run.predicted = loss(run, *first.step_time_s, *run.row->step_time_s);
    }
    found.push_back(std::move(runs));
  }
  std::ranges::sort(found, {}, [](const Scaling& s) {
    return std::pair(s.front().row->source, s.front().row->id);
  });
  return found;
}

std::string layout_words(const std::string& scenario) {
  Problems problems;
  const Value tree = parse_yaml(problems, problems.add_source({"scenario", scenario}));
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : " ") + words; };
  if (const Value* parallel = tree.find("parallel"))
    for (const Member& m : parallel->members)
      if (m.value.is_scalar() && m.value.text != "1" && m.key != "split")
        add(m.key + ' ' + m.value.text);
  if (const Value* batch = tree.find("batch"))
    if (const Value* micro = batch->find("micro")) add("micro " + micro->text);
  if (const Value* recompute = tree.find("recompute"))
    if (const Value* granularity = recompute->find("granularity"))
      if (granularity->text != "none") add(granularity->text + " recomputation");
  return text;
}

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f}", 100 * share);
}

Errors errors_of(std::vector<double> relative) {
  Errors e;
  e.count = relative.size();
  if (relative.empty()) return e;
  std::sort(relative.begin(), relative.end());
  e.bias = nearest_rank<double>(relative, 50);
  for (double& x : relative) {
    x = std::abs(x);
    e.mean += x / static_cast<double>(e.count);
  }
  std::sort(relative.begin(), relative.end());
  e.median = nearest_rank<double>(relative, 50);
  e.p90 = nearest_rank<double>(relative, 90);
  e.worst = relative.back();
  return e;
}

std::optional<double> time_error(const RunRow& row) {
  return relative_error(row.step_time_s, row.measured.step_time_s);
}

std::optional<double> left_out_error(const RunRow& row) {
  return relative_error(row.left_out_s, row.measured.step_time_s);
}

std::optional<double> without_error(const RunRow& row) {
  return relative_error(row.without_s, row.measured.step_time_s);
}

std::optional<double> memory_error(const RunRow& row) {
  return relative_error(row.peak_memory, row.measured.peak_memory);
}

std::optional<double> profiled_error(const RunRow& row) {
  return relative_error(row.profiled_step_s, row.measured.step_time_s);
}

Pool all_of(const std::vector<RunRow>& rows) {
  Pool pool;
  for (const RunRow& row : rows) pool.push_back(&row);
  return pool;
}

std::map<std::string, Pool> pools_by(const std::vector<RunRow>& rows, std::string RunRow::*key) {
  std::map<std::string, Pool> pools;
  for (const RunRow& row : rows) pools[row.*key].push_back(&row);
  return pools;
}

PoolSummary summarize(const Pool& pool) {
  PoolSummary s;
  std::vector<double> times, left_out, without, memories, profiled;
  for (const RunRow* row : pool) {
    ++s.records;
    if (row->step_time_s) ++s.predicted;
    if (const auto e = time_error(*row)) times.push_back(*e);
    if (const auto e = left_out_error(*row)) left_out.push_back(*e);
    if (const auto e = without_error(*row)) without.push_back(*e);
    if (const auto e = memory_error(*row)) memories.push_back(*e);
    if (const auto e = profiled_error(*row)) profiled.push_back(*e);
    count_call(*row, s.oom);
    count_interval(*row, s.coverage);
  }
  s.time = errors_of(std::move(times));
  s.left_out = errors_of(std::move(left_out));
  s.without = errors_of(std::move(without));
  s.memory = errors_of(std::move(memories));
  s.profiled = errors_of(std::move(profiled));
  s.rankings = rank_groups(pool);
  s.regret = regret_of(pool);
  return s;
}

std::vector<Reason> reasons(const std::vector<RunRow>& rows) {
  std::map<std::string, Reason> by_text;
  for (const RunRow& row : rows) {
    std::map<std::string, std::string> own;  // and an example
    for (const std::string& text : row.skipped) {
      const size_t place = end_of_place(text);
      if (place == 0) {
        own.emplace(without_numbers(text), row.id);
      } else {
        own.emplace(without_numbers(text.substr(place + 2)), text.substr(0, place));
      }
    }
    for (const auto& [text, example] : own) {
      Reason& reason = by_text[text];
      reason.text = text;
      ++reason.records;
      if (own.size() == 1) ++reason.alone;
      if (reason.example.empty()) reason.example = example;
    }
  }
  std::vector<Reason> all;
  for (auto& [text, reason] : by_text) all.push_back(std::move(reason));
  std::stable_sort(all.begin(), all.end(),
                   [](const Reason& a, const Reason& b) { return a.records > b.records; });
  return all;
}

// ---- what is aimed at

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
  Reached (*figure)(const PoolSummary&);  // null: of_rows, of all rows
  double low = 0, high = 0;
  Reached (*of_rows)(const std::vector<RunRow>&) = nullptr;
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

Reached memory_covered_unseen(const std::vector<RunRow>& rows) {
  const std::vector<ObservedMemory> runs = observed_memories(rows);
  if (runs.empty()) return {};
  return {100 * memory_coverages(runs).source_unseen.mean(), runs.size()};
}
Reached surely_ran(const std::vector<RunRow>& rows) {
  constexpr double kSure = 0.9;
  size_t runs = 0, ran = 0;
  for (const Surely& s : surely_fits(rows)) {
    if (s.from < kSure) continue;
    runs += s.runs;
    ran += s.ran;
  }
  return share(ran, runs);
}

// Means of single sources: simulators that were published with these runs state means of them.
constexpr std::array<Goal, 22> kGoals{{
    {"step time, median error", "", "", error<&PoolSummary::time, &Errors::median>, 0, 5},
    {"step time, p90 of the error", "", "", error<&PoolSummary::time, &Errors::p90>, 0, 12},
    {"step time, bias", "", "", error<&PoolSummary::time, &Errors::bias>, -2, 2},
    {"source left out: step time, median error", "", "",
     error<&PoolSummary::left_out, &Errors::median>, 0, 11},
    {"source left out: step time, p90 of the error", "", "",
     error<&PoolSummary::left_out, &Errors::p90>, 0, 32},
    {"source left out: step time, bias", "", "", error<&PoolSummary::left_out, &Errors::bias>, -4,
     4},
    {"step time in the interval of 80 % that its source had no part in, mean of runs and sources",
     "", "", nullptr, 75, 85, covered_unseen},
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
    {"peak memory in the interval of 80 % that its source had no part in, mean of runs and sources",
     "", "", nullptr, 75, 85, memory_covered_unseen},
    {"runs said to fit nine times of ten or more that ran", "", "", nullptr, 99, 100, surely_ran},
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
            ? goal.of_rows(rows)
            : goal.figure(goal.source.empty() ? whole : summarize(pool_of(rows, goal)));
    if (r.of == 0) continue;
    aims.push_back({std::string(goal.what), range_text(goal), r.value, r.of,
                    goal.low <= r.value && r.value <= goal.high});
  }
  return aims;
}

// ---- what was reached before

namespace {

struct Column {
  std::string_view key, name;
  enum class Kind : uint8_t { more_is_better, less_is_better, nearer_to_zero, share } kind;
};
using Kind = Column::Kind;

constexpr std::array<Column, 16> kColumns{{
    {"predicted", "runs predicted", Kind::more_is_better},
    {"time_median", "median error of step time", Kind::less_is_better},
    {"time_p90", "p90 error of step time", Kind::less_is_better},
    {"time_bias", "bias of step time", Kind::nearer_to_zero},
    {"left_out_median", "median error of step time, source left out", Kind::less_is_better},
    {"left_out_p90", "p90 error of step time, source left out", Kind::less_is_better},
    {"left_out_bias", "bias of step time, source left out", Kind::nearer_to_zero},
    {"memory_median", "median error of peak memory", Kind::less_is_better},
    {"memory_p90", "p90 error of peak memory", Kind::less_is_better},
    {"ratio", "error of speeds within groups", Kind::less_is_better},
    {"winners", "winners of groups named right", Kind::more_is_better},
    {"oom_found", "runs out of memory called so", Kind::more_is_better},
    {"false_alarms", "false alarms of out of memory", Kind::less_is_better},
    {"covered", "times in their intervals", Kind::share},
    {"profiled_median", "median error from stage times", Kind::less_is_better},
    {"profiled_worst", "worst error from stage times", Kind::less_is_better},
}};

using Figures = std::array<std::optional<double>, kColumns.size()>;

std::string reached_header() {
  std::string text = "source";
  for (const Column& column : kColumns) text += fmt::format(",{}", column.key);
  return text;
}

// "-20.1": what is shown, so that it is what is compared.
std::string rounded(double percent) {
  const std::string text = fmt::format("{:.1f}", percent);
  return text == "-0.0" ? "0.0" : text;
}

std::string row_text(const std::string& name, const PoolSummary& p, bool of_all) {
  const auto error = [](const Errors& e, double Errors::*figure) {
    return e.count == 0 ? "" : rounded(100 * e.*figure);
  };
  const auto count = [](bool known, size_t n) { return known ? fmt::format("{}", n) : ""; };
  const Errors none;
  std::string text = fmt::format("{},{}", name, p.predicted);
  for (const std::string& cell :
       {error(p.time, &Errors::median), error(p.time, &Errors::p90), error(p.time, &Errors::bias),
        error(p.left_out, &Errors::median), error(p.left_out, &Errors::p90),
        error(p.left_out, &Errors::bias), error(p.memory, &Errors::median),
        error(p.memory, &Errors::p90), error(p.rankings.ratio, &Errors::median),
        count(p.rankings.groups > 0, p.rankings.winners),
        count(p.oom.hit + p.oom.missed > 0, p.oom.hit),
        count(p.oom.fits + p.oom.alarms > 0, p.oom.alarms),
        of_all && p.coverage.runs > 0 ? rounded(100.0 * static_cast<double>(p.coverage.inside) /
                                                static_cast<double>(p.coverage.runs))
                                      : "",
        error(of_all ? p.profiled : none, &Errors::median),
        error(of_all ? p.profiled : none, &Errors::worst)})
    text += ',' + cell;
  return text + '\n';
}

bool is_worse(Kind kind, double now, double before) {
  constexpr double kWanted = 80, kSlack = 5;
  switch (kind) {
    case Kind::more_is_better: return now < before;
    case Kind::less_is_better: return now > before;
    case Kind::nearer_to_zero: return std::abs(now) > std::abs(before);
    case Kind::share: break;
  }
  return std::abs(now - kWanted) > std::max(kSlack, std::abs(before - kWanted));
}

std::map<std::string, Figures> read_reached(std::string_view text) {
  std::map<std::string, Figures> table;
  for (const CsvRow& row : csv_rows(text, reached_header())) {
    Figures& figures = table[std::string(row.cells[0])];
    for (size_t i = 0; i < figures.size(); ++i)
      if (!row.cells[i + 1].empty()) figures[i] = row.number(i + 1);
  }
  return table;
}

}  // namespace

std::string reached_csv(const std::vector<RunRow>& rows) {
  std::string text =
      "# Accuracy of the shipped records by source, errors in %; nothing may become worse "
      "(summary.h).\n# tools/accuracy --update rewrites this.\n" +
      reached_header() + '\n';
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source))
    text += row_text(name, summarize(pool), false);
  return text + row_text("all", summarize(all_of(rows)), true);
}

std::string worse_than_reached(const std::string& before, const std::string& now) {
  const std::map<std::string, Figures> current = read_reached(now);
  std::string worse;
  for (const auto& [source, reached] : read_reached(before)) {
    const auto found = current.find(source);
    for (size_t i = 0; i < reached.size(); ++i) {
      if (!reached[i]) continue;
      const std::optional<double> value = found == current.end() ? std::nullopt : found->second[i];
      if (value && !is_worse(kColumns[i].kind, *value, *reached[i])) continue;
      worse += fmt::format("{}: {} {}, was {}\n", source, kColumns[i].name,
                           value ? fmt::format("{}", *value) : "gone", *reached[i]);
    }
  }
  return worse;
}

}  // namespace stepcast::accuracy
