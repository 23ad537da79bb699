// SPDX-License-Identifier: Apache-2.0
// written_schedule: the actions that the user wrote out, in the scenario or in a file.
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/legal_numbers.h"
#include "scenarios/resolve_schedule.h"
#include "schedules/check.h"
#include "schedules/formats/action_text.h"
#include "schedules/formats/schedule_csv.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

// The lists under `steps`.
std::optional<Schedule> read_steps(const PlanInputs& in) {
  const FieldValues& v = in.values;
  const Value& steps = *v.value("schedule.steps");
  const std::vector<Value> one{steps};
  const std::vector<Value>& written = steps.is_scalar() ? one : steps.items;
  std::vector<std::string_view> texts;
  for (const Value& row : written) texts.push_back(row.text);
  try {
    std::vector<ActionRowError> errors;
    ActionRows rows = parse_rows(texts, errors);
    for (const ActionRowError& e : errors) {
      const Value& row = written[e.row];
      Mark mark = row.mark;
      if (row.text.find('\n') == std::string::npos)
        mark.column += static_cast<int>(e.error.offset) + (row.quoted ? 1 : 0);
      in.problems.add("E403", e.error.what(), mark, static_cast<int>(e.error.length));
    }
    if (!errors.empty()) return {};
    Schedule schedule = schedule_of_rows("custom", std::move(rows.ranks), rows.seq_splits);
    schedule.names_pieces = rows.names_pieces;
    return schedule;
  } catch (const InputError& e) {
    in.problems.add("E403", e.what(), v.key_mark("schedule.steps"), 5);
    return {};
  }
}

std::optional<Schedule> read_file(const PlanInputs& in, ScenarioFiles& files) {
  const FieldValues& v = in.values;
  const std::string& path = v.text("schedule.file");
  const std::optional<uint32_t> source = files.open(path, v.mark("schedule.file"));
  if (!source) return {};
  const bool alone = !in.problems.any();
  try {
    return load_schedule_csv(in.problems.source(*source).text, in.problems.source(*source).name);
  } catch (const InputError& e) {
    for (const Diagnostic& d : e.diagnostics) {
      const Mark mark = d.line > 0 ? Mark{*source, d.line, d.column} : v.mark("schedule.file");
      in.problems.add(d.code, d.message, mark, d.length, d.label, d.help, d.note);
    }
    if (alone) in.problems.exit_status = e.exit_status;
    return {};
  }
}

// A written schedule must be the plan's, complete, and free of deadlock (which a file is, once it
// has been read).
bool check_written(const PlanInputs& in, const Plan& plan, const Schedule& s, const Mark& mark,
                   int length, bool check_order) {
  const auto differs = [&](const char* what, int64_t theirs, int64_t ours, std::string help) {
    if (theirs == ours) return false;
    in.problems.add("E205",
                    "the schedule has " + std::to_string(theirs) + ' ' + what + ", the scenario " +
                        std::to_string(ours),
                    mark, length, {}, std::move(help));
    return true;
  };
  const bool ranks = differs("pipeline ranks", s.pp, plan.pp,
                             "parallel.pp = " + std::to_string(s.pp) + " goes with it");
  const bool chunks =
      !s.is_bidirectional() && differs("chunks a rank", s.vpp, plan.vpp,
                                       "parallel.vpp = " + std::to_string(s.vpp) + " goes with it");
  const bool stages = !ranks && !chunks &&
                      differs("stages", static_cast<int64_t>(s.rank_of_stage.size()),
                              static_cast<int64_t>(plan.stages.size()),
                              "parallel.layout says what each stage holds");
  const int64_t unit = plan.micro_batch * plan.dp;
  const bool microbatches = differs("microbatches", s.microbatches, plan.microbatches(),
                                    "batch.global / (micro*dp = " + std::to_string(unit) +
                                        "): " + std::to_string(s.microbatches * unit) + " makes " +
                                        std::to_string(s.microbatches));
  if (ranks || chunks || stages || microbatches) return false;
  if (!check_order) return check_pieces(in, plan, s, mark, length);
  const std::vector<ScheduleProblem> found = check_schedule(s);
  const bool alone = !in.problems.any();
  for (const ScheduleProblem& p : found) {
    const bool deadlock = p.kind == ScheduleProblem::Kind::deadlock;
    std::string help;
    for (const std::string& line : p.cycle) help += (help.empty() ? "" : "; ") + line;
    in.problems.add(deadlock ? "E401" : "E402", p.message, mark, length, {}, help);
    if (deadlock && alone) in.problems.exit_status = 4;
  }
  return found.empty() && check_pieces(in, plan, s, mark, length);
}

}  // namespace

bool check_pieces(const PlanInputs& in, const Plan& plan, const Schedule& s, const Mark& mark,
                  int length) {
  const int64_t unit = s.seq_splits * (plan.sp ? plan.tp : 1);
  if (s.seq_splits > 1 && plan.cp > 1) {
    in.values.refuse("E127", "parallel.cp",
                     s.name + " cuts sequences into pieces, which does not go with cp = " +
                         std::to_string(plan.cp),
                     "cp = 1, or a schedule of whole sequences such as 1f1b");
    return false;
  }
  if (s.seq_splits > 1 && in.model != nullptr &&
      (in.model->bidirectional || in.model->encoder_layers > 0)) {
    in.problems.add("E127",
                    s.name + " cuts sequences into pieces, of which an encoder sees all at once",
                    mark, length, {}, "schedules of whole sequences do, such as 1f1b");
    return false;
  }
  if (s.seq_splits == 1 || plan.seq % unit == 0) return true;
  in.problems.add("E205",
                  "batch.seq = " + std::to_string(plan.seq) + " is not a multiple of " +
                      (unit == s.seq_splits ? "the schedule's " + std::to_string(unit) + " pieces"
                                            : "pieces * tp = " + std::to_string(unit)) +
                      ", into which " + s.name + " cuts sequences",
                  mark, length, {}, nearest_multiples(plan.seq, unit));
  return false;
}

std::optional<Schedule> written_schedule(const PlanInputs& in, const Plan& plan,
                                         ScenarioFiles& files) {
  const FieldValues& v = in.values;
  const bool steps = v.value("schedule.steps") != nullptr;
  const Mark mark = v.key_mark(steps ? "schedule.steps" : "schedule.file");
  const int length = steps ? 5 : 4;  // of the key
  std::optional<Schedule> schedule = steps ? read_steps(in) : read_file(in, files);
  if (!schedule || !check_written(in, plan, *schedule, mark, length, steps)) return {};
  return schedule;
}

}  // namespace stepcast
