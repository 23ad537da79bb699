// SPDX-License-Identifier: Apache-2.0
#include "schedules/formats/schedule_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "schedules/formats/action_text.h"
#include "schedules/formats/compute_comms.h"

namespace stepcast {
namespace {

// Reads the cells one by one, so that every wrong one is reported.
struct CsvReader {
  const std::string& file_name;
  std::vector<std::vector<WrittenAction>> rows = {};
  std::vector<Diagnostic> problems = {};
  std::string first_cell = {};  // that is an action, and whether it has a sequence split
  bool first_has_split = false;

  bool full() const { return problems.size() >= kMostCellErrors; }
};

// Throws ActionTextError.
void read_cell(CsvReader& reader, std::string_view text) {
  std::vector<WrittenAction>& row = reader.rows.back();
  if (parse_comm_cell(text)) return;
  const size_t before = row.size();
  parse_cell(text, row);
  const auto has_split = [](const WrittenAction& a) { return a.split != WrittenAction::kNoSplit; };
  if (reader.first_cell.empty()) {
    reader.first_cell = text;
    reader.first_has_split = has_split(row[before]);
  }
  for (size_t i = before; i < row.size(); ++i)
    if (has_split(row[i]) != reader.first_has_split)
      throw ActionTextError(
          '`' + std::string(text) + "` has " + (reader.first_has_split ? "no" : "a") +
              " sequence split, but `" + reader.first_cell +
              (reader.first_has_split ? "` has one" : "` has none") + ": write all or none",
          0, text.size());
}

void read_line(CsvReader& reader, std::string_view line) {
  reader.rows.emplace_back();
  CsvPlace place;
  while (!reader.full()) {
    const std::optional<CsvField> cell = next_cell(line, place);
    if (!cell) return;
    try {
      read_cell(reader, cell->text);
    } catch (const ActionTextError& e) {
      reader.problems.push_back(
          field_diagnostic("E402", e.what(), reader.file_name, reader.rows.size(), line, *cell));
    }
  }
}

// The directions of the microbatches, if the lists are those of a bidirectional schedule: every
// stage on two ranks that mirror each other.  A microbatch runs the way that most of its actions
// do; the others are then on the wrong rank, which is for the check to say.
std::optional<std::vector<bool>> directions_of(const std::vector<std::vector<Action>>& rows,
                                               size_t stages, size_t microbatches) {
  const size_t pp = rows.size();
  if (stages != pp || pp % 2 != 0) return std::nullopt;
  std::vector<bool> down(stages, false), up(stages, false);
  std::vector<int32_t> surplus(microbatches, 0);  // actions that run down, less those that run up
  for (size_t r = 0; r < pp; ++r)
    for (const Action& a : rows[r]) {
      if (a.stage != r && a.stage != pp - 1 - r) return std::nullopt;
      (a.stage == r ? down : up)[a.stage] = true;
      surplus[a.microbatch] += a.stage == r ? 1 : -1;
    }
  const auto all = [](const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), false) == flags.end();
  };
  std::vector<bool> reversed(microbatches);
  for (size_t m = 0; m < microbatches; ++m) reversed[m] = surplus[m] < 0;
  const bool both = std::find(reversed.begin(), reversed.end(), true) != reversed.end() &&
                    std::find(reversed.begin(), reversed.end(), false) != reversed.end();
  if (!all(down) || !all(up) || !both) return std::nullopt;
  return reversed;
}

// The cell of the action at `position` of a rank.
std::optional<CsvField> cell_of(std::string_view line, uint32_t position) {
  CsvPlace place;
  size_t actions = 0;
  while (const std::optional<CsvField> cell = next_cell(line, place)) {
    if (parse_comm_cell(cell->text)) continue;
    actions += actions_in_cell(cell->text);
    if (actions > position) return cell;
  }
  return std::nullopt;
}

void place_stages(Schedule& schedule, size_t stages) {
  schedule.rank_of_stage.assign(stages, 0);
  std::vector<bool> seen(stages, false);
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    int64_t chunks = 0;
    for (const Action& a : schedule.ranks[r]) {
      if (seen[a.stage]) continue;
      seen[a.stage] = true;
      schedule.rank_of_stage[a.stage] = static_cast<uint16_t>(r);
      schedule.vpp = std::max(schedule.vpp, ++chunks);
    }
  }
}

void place_bidirectional(Schedule& schedule, std::vector<bool> reversed) {
  schedule.vpp = 2;
  for (int64_t s = 0; s < schedule.pp; ++s) {
    schedule.rank_of_stage.push_back(static_cast<uint16_t>(s));
    schedule.reverse_rank_of_stage.push_back(static_cast<uint16_t>(schedule.pp - 1 - s));
  }
  schedule.reversed = std::move(reversed);
}

}  // namespace

Schedule schedule_of_rows(std::string_view name, std::vector<std::vector<Action>> rows,
                          int64_t seq_splits) {
  if (rows.empty()) refuse("the schedule has no ranks");
  if (rows.size() > static_cast<size_t>(kMostStages))
    refuse(fmt::format("the schedule has {} ranks: at most {} are possible", rows.size(),
                       kMostStages));
  size_t stages = 0, pieces = 0, actions = 0;
  for (const std::vector<Action>& row : rows) {
    actions += row.size();
    for (const Action& a : row) {
      stages = std::max<size_t>(stages, a.stage + size_t{1});
      pieces = std::max<size_t>(pieces, a.microbatch + size_t{1});
    }
  }
  if (actions == 0) refuse("the schedule has no actions");
  Schedule schedule;
  schedule.name = name;
  schedule.pp = static_cast<int64_t>(rows.size());
  schedule.seq_splits = seq_splits;
  schedule.microbatches = (static_cast<int64_t>(pieces) + seq_splits - 1) / seq_splits;
  // With fewer actions than microbatches nothing is complete, and memory would follow the number.
  std::optional<std::vector<bool>> reversed;
  if (static_cast<size_t>(schedule.pieces()) <= actions)
    reversed = directions_of(rows, stages, static_cast<size_t>(schedule.pieces()));
  schedule.ranks = std::move(rows);
  if (reversed)
    place_bidirectional(schedule, *std::move(reversed));
  else
    place_stages(schedule, stages);
  return schedule;
}

Schedule read_schedule_csv(std::string_view text, const std::string& file_name) {
  CsvReader reader{file_name};
  for (const std::string_view line : split_csv_lines(text)) read_line(reader, line);
  if (!reader.problems.empty()) throw InputError(std::move(reader.problems));
  try {
    ActionRows rows = combine_rows(std::move(reader.rows));
    Schedule schedule = schedule_of_rows(file_name, std::move(rows.ranks), rows.seq_splits);
    schedule.names_pieces = rows.names_pieces;
    return schedule;
  } catch (InputError& e) {
    for (Diagnostic& d : e.diagnostics)
      d.help = "a schedule file has one line a pipeline rank, with cells such as 0F0,1F0,1B0,0B0";
    throw with_code_and_file(std::move(e), "E403", file_name);
  }
}

Schedule load_schedule_csv(std::string_view text, const std::string& file_name) {
  Schedule schedule = read_schedule_csv(text, file_name);
  std::vector<Diagnostic> problems =
      schedule_diagnostics(check_schedule(schedule, kMostCellErrors), text, file_name);
  if (problems.empty() && has_comm_cells(text))
    problems = check_compute_comms(text, file_name, schedule);
  if (problems.empty()) return schedule;
  throw InputError(std::move(problems));
}

std::vector<Diagnostic> schedule_diagnostics(std::span<const ScheduleProblem> problems,
                                             std::string_view text, const std::string& file_name) {
  std::vector<Diagnostic> all;
  if (problems.empty()) return all;
  const std::vector<std::string_view> lines = split_csv_lines(text);
  for (const ScheduleProblem& p : problems) {
    Diagnostic d;
    if (p.rank < lines.size()) {
      const std::string_view line = lines[p.rank];
      const bool placed = p.position != ScheduleProblem::kNoPosition;
      const std::optional<CsvField> cell = placed ? cell_of(line, p.position) : std::nullopt;
      d = field_diagnostic({}, {}, file_name, p.rank + size_t{1}, line,
                           cell.value_or(CsvField{line.substr(0, 1), 0}));
    }
    d.message = p.message;
    for (const std::string& step : p.cycle) d.help += (d.help.empty() ? "" : "; ") + step;
    if (p.kind == ScheduleProblem::Kind::deadlock)
      d.code = "E401";
    else if (p.kind != ScheduleProblem::Kind::stall)
      d.code = "E402";
    all.push_back(std::move(d));
  }
  return all;
}

std::string write_schedule_csv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& row : schedule.ranks) {
    text += to_text(row, schedule.seq_splits, schedule.names_pieces);
    if (row.empty()) text += ',';  // an empty line at the end would not count as a rank
    text += "\r\n";
  }
  return text;
}

}  // namespace stepcast
