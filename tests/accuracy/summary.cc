// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/summary.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

namespace stepcast::accuracy {
namespace {

// REQUIRES: sorted, not empty, 0 < share <= 1.
double nearest_rank(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

// Tokens a second and GPU.
struct Speeds {
  double measured = 0, predicted = 0;
};

// Numbers as '#', so that like reasons are equal.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    const bool in_word = !out.empty() && std::isalpha(static_cast<unsigned char>(out.back())) != 0;
    if (!digit || in_word || i < 4) {  // an error code comes first
      out += text[i];
    } else if (out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

}  // namespace

Errors errors_of(std::vector<double> relative) {
  Errors e;
  e.count = relative.size();
  if (relative.empty()) return e;
  std::sort(relative.begin(), relative.end());
  e.bias = nearest_rank(relative, 0.5);
  for (double& x : relative) x = std::abs(x);
  std::sort(relative.begin(), relative.end());
  e.median = nearest_rank(relative, 0.5);
  e.p90 = nearest_rank(relative, 0.9);
  return e;
}

std::optional<double> time_error(const RunRow& row) {
  if (!row.step_time_s || !row.measured.step_time_s) return {};
  return *row.step_time_s / *row.measured.step_time_s - 1;
}

std::optional<double> memory_error(const RunRow& row) {
  if (!row.peak_memory || !row.measured.peak_memory) return {};
  return *row.peak_memory / *row.measured.peak_memory - 1;
}

PoolSummary summarize(const std::vector<const RunRow*>& rows) {
  PoolSummary s;
  std::vector<double> times, memories;
  for (const RunRow* row : rows) {
    ++s.records;
    if (row->step_time_s) ++s.predicted;
    if (const auto e = time_error(*row)) times.push_back(*e);
    if (const auto e = memory_error(*row)) memories.push_back(*e);
    if (!row->measured.out_of_memory || !row->out_of_memory) continue;
    if (*row->measured.out_of_memory) {
      ++(*row->out_of_memory ? s.oom.hit : s.oom.missed);
    } else {
      ++(*row->out_of_memory ? s.oom.alarms : s.oom.fits);
    }
  }
  s.time = errors_of(std::move(times));
  s.memory = errors_of(std::move(memories));
  return s;
}

std::map<std::string, PoolSummary> summarize_by(const std::vector<RunRow>& rows,
                                                std::string RunRow::*key) {
  std::map<std::string, std::vector<const RunRow*>> pools;
  for (const RunRow& row : rows) pools[row.*key].push_back(&row);
  std::map<std::string, PoolSummary> all;
  for (const auto& [name, pool] : pools) all[name] = summarize(pool);
  return all;
}

PoolSummary summarize_all(const std::vector<RunRow>& rows) {
  std::vector<const RunRow*> pool;
  for (const RunRow& row : rows) pool.push_back(&row);
  return summarize(pool);
}

Rankings rank_groups(const std::vector<RunRow>& rows) {
  constexpr double kGap = 0.02;
  std::map<std::string, std::vector<Speeds>> groups;
  for (const RunRow& row : rows) {
    if (row.group.empty() || !time_error(row)) continue;
    groups[row.group].push_back(
        {row.tokens_per_gpu / *row.measured.step_time_s, row.tokens_per_gpu / *row.step_time_s});
  }
  Rankings r;
  std::vector<double> ratios;
  for (auto& [name, group] : groups) {
    if (group.size() < 2) continue;
    std::stable_sort(group.begin(), group.end(),
                     [](const Speeds& a, const Speeds& b) { return a.measured > b.measured; });
    const Speeds& best = group.front();
    for (size_t i = 1; i < group.size(); ++i)
      ratios.push_back(group[i].predicted / best.predicted / (group[i].measured / best.measured) -
                       1);
    if (best.measured <= (1 + kGap) * group[1].measured) continue;
    ++r.groups;
    const bool named = std::all_of(group.begin() + 1, group.end(), [&](const Speeds& other) {
      return best.predicted > other.predicted;
    });
    if (named) ++r.winners;
  }
  r.ratio = errors_of(std::move(ratios));
  return r;
}

std::vector<Reason> reasons(const std::vector<RunRow>& rows) {
  std::map<std::string, Reason> by_text;
  for (const RunRow& row : rows) {
    std::set<std::string> own;
    for (const std::string& text : row.skipped) own.insert(without_numbers(text));
    for (const std::string& text : own) {
      Reason& reason = by_text[text];
      reason.text = text;
      ++reason.records;
      if (own.size() == 1) ++reason.alone;
      if (reason.example.empty()) reason.example = row.id;
    }
  }
  std::vector<Reason> all;
  for (auto& [text, reason] : by_text) all.push_back(std::move(reason));
  std::stable_sort(all.begin(), all.end(),
                   [](const Reason& a, const Reason& b) { return a.records > b.records; });
  return all;
}

}  // namespace stepcast::accuracy
