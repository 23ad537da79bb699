// SPDX-License-Identifier: Apache-2.0
#include "schedules/custom_schedule.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "schedules/action_text.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr size_t kMostRanks = 65'536;
constexpr size_t kMostDiagnostics = 20;
constexpr size_t kLongestSourceLine = 200;  // bytes; a caret far to the right helps nobody

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (!lines.empty() && lines.back().find_first_not_of(" \t") == std::string_view::npos)
    lines.pop_back();
  return lines;
}

// Reads the cells of a line one by one, so that every wrong one is reported.
std::vector<Action> read_line(std::string_view line, int number, const std::string& file_name,
                              std::vector<Diagnostic>& problems) {
  std::vector<Action> actions;
  size_t begin = 0;
  while (begin < line.size() && problems.size() < kMostDiagnostics) {
    const size_t end = std::min(line.find(',', begin), line.size());
    try {
      for (const Action& a : parse_actions(line.substr(begin, end - begin))) actions.push_back(a);
    } catch (const ActionTextError& e) {
      Diagnostic d;
      d.code = "E402";
      d.message = e.what();
      d.file = file_name;
      d.line = number;
      d.column = static_cast<int>(begin + e.offset) + 1;
      d.length = static_cast<int>(e.length);
      if (line.size() <= kLongestSourceLine) d.source_line = line;
      problems.push_back(std::move(d));
    }
    begin = end + 1;
  }
  return actions;
}

}  // namespace

Schedule schedule_of_rows(std::string_view name, std::vector<std::vector<Action>> rows) {
  if (rows.empty()) throw std::invalid_argument("the schedule has no ranks");
  if (rows.size() > kMostRanks)
    throw std::invalid_argument("the schedule has " + std::to_string(rows.size()) +
                                " ranks: at most " + std::to_string(kMostRanks) + " are possible");
  int64_t stages = 0, microbatches = 0;
  for (const std::vector<Action>& row : rows)
    for (const Action& a : row) {
      stages = std::max(stages, int64_t{a.stage} + 1);
      microbatches = std::max(microbatches, int64_t{a.microbatch} + 1);
    }
  if (stages == 0) throw std::invalid_argument("the schedule has no actions");
  Schedule schedule;
  schedule.name = name;
  schedule.pp = static_cast<int64_t>(rows.size());
  schedule.microbatches = microbatches;
  schedule.rank_of_stage.assign(static_cast<size_t>(stages), 0);
  std::vector<bool> seen(static_cast<size_t>(stages), false);
  schedule.vpp = 1;
  for (size_t r = 0; r < rows.size(); ++r) {
    int64_t chunks = 0;
    for (const Action& a : rows[r]) {
      if (seen[a.stage]) continue;
      seen[a.stage] = true;
      schedule.rank_of_stage[a.stage] = static_cast<uint16_t>(r);
      schedule.vpp = std::max(schedule.vpp, ++chunks);
    }
  }
  schedule.ranks = std::move(rows);
  return schedule;
}

Schedule read_schedule_csv(std::string_view text, const std::string& file_name) {
  std::vector<Diagnostic> problems;
  std::vector<std::vector<Action>> rows;
  for (const std::string_view line : lines_of(text))
    rows.push_back(read_line(line, static_cast<int>(rows.size()) + 1, file_name, problems));
  if (!problems.empty()) throw InputError(std::move(problems));
  try {
    return schedule_of_rows(file_name, std::move(rows));
  } catch (const std::invalid_argument& e) {
    Diagnostic d;
    d.code = "E403";
    d.message = e.what();
    d.file = file_name;
    d.help = "a schedule file has one line a pipeline rank, with cells such as 0F0,1F0,1B0,0B0";
    throw InputError(std::move(d));
  }
}

std::string write_schedule_csv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& row : schedule.ranks) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ',';
      text += to_string(row[i]);
    }
    if (row.empty()) text += ',';  // an empty line at the end would not count as a rank
    text += "\r\n";
  }
  return text;
}

}  // namespace stepcast
