// SPDX-License-Identifier: Apache-2.0
// resolve_schedule: a family by name, or the actions the user wrote out.
#include <algorithm>
#include <stdexcept>

#include "scenarios/resolve_plan.h"
#include "scenarios/spelling.h"
#include "schedules/action_text.h"
#include "schedules/check.h"
#include "schedules/custom_schedule.h"

namespace stepcast {
namespace {

std::string str(int64_t n) {
  return std::to_string(n);
}

// Memory is spent on every action before anything is known to work.
constexpr int64_t kMostActions = 10'000'000;

struct Place {
  Mark mark;
  int length = 1;
};

Place place_of(const FieldValues& v) {
  for (const char* path : {"schedule.kind", "parallel.vpp", "parallel.pp", "batch.global"})
    if (v.value(path) != nullptr) return {v.mark(path), v.length(path)};
  return {v.mark("schedule"), 1};
}

// What the rest of the program can run: whole backward passes, stage s on rank s % pp.
std::string not_simulated(const Schedule& s) {
  if (s.is_bidirectional()) return "it holds two replicas of the model";
  for (size_t stage = 0; stage < s.rank_of_stage.size(); ++stage)
    if (s.rank_of_stage[stage] != stage % static_cast<size_t>(s.pp))
      return "its stages are not placed in turn on the ranks";
  for (const auto& list : s.ranks)
    for (const Action& a : list)
      if (a.kind == ActionKind::backward_input || a.kind == ActionKind::backward_weight)
        return "it splits the backward pass";
  return {};
}

// Families that run now, for messages: tried out on a pipeline that suits them all.
std::string families_now() {
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families())
    for (const int64_t vpp : {1, 2}) {
      try {
        if (!not_simulated(family.generate({2, vpp, 4, 0})).empty()) continue;
      } catch (const std::invalid_argument&) {
        continue;
      }
      names.emplace_back(family.name);
      break;
    }
  return or_list(names);
}

// Known from papers and frameworks, not generated yet.
constexpr std::string_view kKnownElsewhere =
    "dualpipe|dualpipev|dualpipe-v|zb-1p|zb-2p|hanayo|terapipe|seq1f1b|v-half|v-min|1f1b-v";

const ScheduleFamily* family_of(const PlanInputs& in, const Plan& plan) {
  FieldValues& v = in.values;
  if (v.value("schedule.kind") == nullptr) {
    const std::string name = plan.vpp == 1 ? "1f1b" : "interleaved-1f1b";
    v.derive("schedule.kind", name, name,
             plan.vpp == 1 ? "default: the least memory without chunks"
                           : "default: vpp = " + str(plan.vpp) + " chunks");
  }
  if (!v.has("schedule.kind")) return nullptr;
  const std::string& name = v.text("schedule.kind");
  const ScheduleFamily* family = find_schedule_family(name);
  if (family != nullptr) return family;
  const Place place = place_of(v);
  if (one_of(name, kKnownElsewhere)) {
    in.problems.add("E130", "schedule '" + name + "' is not supported yet", place.mark,
                    place.length, {}, "legal now: " + families_now());
    return nullptr;
  }
  const std::vector<std::string_view> near = similar_schedule_names(name);
  in.problems.add("E125", "there is no schedule '" + name + '\'', place.mark, place.length,
                  near.empty() ? "" : "did you mean '" + std::string(near.front()) + "'?",
                  "legal now: " + families_now());
  return nullptr;
}

std::optional<Schedule> generate(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const ScheduleFamily* family = family_of(in, plan);
  if (family == nullptr) return {};
  const Place place = place_of(v);
  ScheduleParams params{plan.pp, plan.vpp, plan.microbatches(), 0};
  if (v.has("schedule.group")) {
    params.group = v.whole("schedule.group");
    if (!family->name.starts_with("interleaved")) {
      in.problems.add("E127",
                      "'group' is for interleaved schedules, not " + std::string(family->name),
                      v.mark("schedule.group"), v.length("schedule.group"));
      return {};
    }
  }
  try {
    Schedule schedule = family->generate(params);
    if (const std::string why = not_simulated(schedule); !why.empty()) {
      in.problems.add("E130",
                      "schedule '" + std::string(family->name) + "' is not supported yet: " + why,
                      place.mark, place.length, {}, "legal now: " + families_now());
      return {};
    }
    return schedule;
  } catch (const std::invalid_argument& e) {
    in.problems.add("E205", e.what(), place.mark, place.length);
    return {};
  }
}

// The lists under `steps`.
std::optional<Schedule> read_steps(const PlanInputs& in) {
  const FieldValues& v = in.values;
  const Value& steps = *v.value("schedule.steps");
  std::vector<std::vector<Action>> rows;
  bool ok = true;
  const std::vector<Value> one{steps};
  for (const Value& row : steps.is_scalar() ? one : steps.items) {
    try {
      rows.push_back(parse_actions(row.text));
    } catch (const ActionTextError& e) {
      ok = false;
      Mark mark = row.mark;
      if (row.text.find('\n') == std::string::npos)
        mark.column += static_cast<int>(e.offset) + (row.quoted ? 1 : 0);
      in.problems.add("E403", e.what(), mark, static_cast<int>(e.length));
    }
  }
  if (!ok) return {};
  try {
    return schedule_of_rows("custom", std::move(rows));
  } catch (const std::invalid_argument& e) {
    in.problems.add("E403", e.what(), v.key_mark("schedule.steps"), 5);
    return {};
  }
}

std::optional<Schedule> read_file(const PlanInputs& in, ScenarioFiles& files) {
  const FieldValues& v = in.values;
  const std::string& path = v.text("schedule.file");
  const std::optional<uint32_t> source = files.open(path, v.mark("schedule.file"));
  if (!source) return {};
  try {
    return read_schedule_csv(in.problems.source(*source).text, in.problems.source(*source).name);
  } catch (const InputError& e) {
    for (const Diagnostic& d : e.diagnostics)
      in.problems.add("E403", d.message, Mark{*source, d.line, d.column}, d.length, d.label, d.help,
                      d.note);
    return {};
  }
}

// A written schedule must be the plan's, complete, and free of deadlock.
bool check_written(const PlanInputs& in, const Plan& plan, const Schedule& s, const Mark& mark,
                   int length) {
  const auto differs = [&](const char* what, int64_t theirs, int64_t ours) {
    if (theirs == ours) return false;
    in.problems.add("E205",
                    "the schedule has " + str(theirs) + ' ' + what + ", the scenario " + str(ours),
                    mark, length);
    return true;
  };
  const bool ranks = differs("pipeline ranks", s.pp, plan.pp);
  const bool chunks = differs("chunks a rank", s.vpp, plan.vpp);
  const bool microbatches = differs("microbatches", s.microbatches, plan.microbatches());
  if (ranks || chunks || microbatches) return false;
  const std::vector<ScheduleProblem> found = check_schedule(s);
  const bool alone = !in.problems.any();
  for (const ScheduleProblem& p : found) {
    const bool deadlock = p.kind == ScheduleProblem::Kind::deadlock;
    std::string help;
    for (const std::string& line : p.cycle) help += (help.empty() ? "" : "; ") + line;
    in.problems.add(deadlock ? "E401" : "E402", p.message, mark, length, {}, help);
    if (deadlock && alone) in.problems.exit_status = 4;
  }
  if (!found.empty()) return false;
  const std::string why = not_simulated(s);
  if (!why.empty())
    in.problems.add("E130", "this schedule is not supported yet: " + why, mark, length);
  return why.empty();
}

}  // namespace

std::optional<Schedule> resolve_schedule(const PlanInputs& in, const Plan& plan, bool complete,
                                         ScenarioFiles& files) {
  const FieldValues& v = in.values;
  const bool steps = v.value("schedule.steps") != nullptr,
             file = v.value("schedule.file") != nullptr;
  if (!complete) {
    if (!steps && !file) family_of(in, plan);
    return {};
  }
  const auto stages = static_cast<int64_t>(plan.stages.size());
  if (stages > 65535 || plan.microbatches() > kMostActions / (2 * stages)) {
    const Place place = place_of(v);
    in.problems.add("E123",
                    "a schedule of " + str(stages) + " stages and " + str(plan.microbatches()) +
                        " microbatches is too large",
                    place.mark, place.length, {}, "at most 65,535 stages and 10^7 actions");
    return {};
  }
  if (!steps && !file) return generate(in, plan);
  const char* path = steps ? "schedule.steps" : "schedule.file";
  const int length = steps ? 5 : 4;  // of the key
  if (!v.has(path)) return {};
  if ((steps && file) || v.value("schedule.kind") != nullptr) {
    in.problems.add("E127", "a schedule has one of kind, steps and file", v.key_mark(path), length);
    return {};
  }
  std::optional<Schedule> schedule = steps ? read_steps(in) : read_file(in, files);
  if (!schedule || !check_written(in, plan, *schedule, v.key_mark(path), length)) return {};
  return schedule;
}

std::string schedule_title(const Schedule& schedule) {
  std::string title = schedule.name;
  const size_t at = title.find("1f1b");
  if (at != std::string::npos) title.replace(at, 4, "1F1B");
  if (title == "gpipe") return "GPipe";
  std::replace(title.begin(), title.end(), '-', ' ');
  return title;
}

}  // namespace stepcast
