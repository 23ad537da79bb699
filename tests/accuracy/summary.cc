// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

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

Rankings rank_groups(const Pool& pool) {
  std::map<std::string, std::vector<Speeds>> groups;
  for (const RunRow* row : pool) {
    if (row->group.empty() || row->tokens_per_gpu <= 0 || !time_error(*row)) continue;
    groups[row->source + '/' + row->group].push_back(
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

double nearest_rank(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
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
  e.bias = nearest_rank(relative, 0.5);
  for (double& x : relative) {
    x = std::abs(x);
    e.mean += x / static_cast<double>(e.count);
  }
  std::sort(relative.begin(), relative.end());
  e.median = nearest_rank(relative, 0.5);
  e.p90 = nearest_rank(relative, 0.9);
  e.worst = relative.back();
  return e;
}

std::optional<double> time_error(const RunRow& row) {
  return relative_error(row.step_time_s, row.measured.step_time_s);
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
  std::vector<double> times, memories, profiled;
  for (const RunRow* row : pool) {
    ++s.records;
    if (row->step_time_s) ++s.predicted;
    if (const auto e = time_error(*row)) times.push_back(*e);
    if (const auto e = memory_error(*row)) memories.push_back(*e);
    if (const auto e = profiled_error(*row)) profiled.push_back(*e);
    count_call(*row, s.oom);
    count_interval(*row, s.coverage);
  }
  s.time = errors_of(std::move(times));
  s.memory = errors_of(std::move(memories));
  s.profiled = errors_of(std::move(profiled));
  s.rankings = rank_groups(pool);
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

}  // namespace stepcast::accuracy
