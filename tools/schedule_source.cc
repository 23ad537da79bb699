// SPDX-License-Identifier: Apache-2.0
#include "tools/schedule_source.h"

#include <algorithm>
#include <filesystem>

#include "report/json/writer.h"
#include "scenarios/forecast/make_schedule.h"
#include "schedules/check.h"
#include "schedules/formats/schedule_csv.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/text.h"
#include "tools/options.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

constexpr int64_t kMostActions = 10'000'000;

bool is_scenario(std::string_view name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
}

bool is_file(const std::string& name) {
  std::error_code ignored;
  return name == "-" || name.ends_with(".csv") || is_scenario(name) ||
         name.find('/') != std::string::npos || std::filesystem::exists(name, ignored);
}

[[noreturn]] void unknown_name(const std::string& name) {
  if (name == "auto")
    usage_error("E006", "'auto' is no fixed order",
                "`stepcast schedule synth --pp 4 --microbatches 8 --costs 10,12,7,1 -o FILE` "
                "makes one; in a scenario `schedule: auto` does");
  std::string help;
  for (const std::string_view near : similar_schedule_names(name))
    help += (help.empty() ? "did you mean '" : "', '") + std::string(near);
  help = help.empty() ? "`stepcast presets schedules` lists the families; files end with .csv"
                      : help + "'?";
  usage_error("E006", "there is no schedule '" + name + "', neither a family nor a file", help);
}

void read_param(const ScheduleFamily& family, const std::string& text, ScheduleParams& params) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    usage_error("E004", "'--param " + text + "' is not of the form KEY=VALUE",
                "for example: --param seq_splits=4");
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  std::vector<std::string_view> known;
  for (const ScheduleParameter& p : family.parameters) known.push_back(p.key);
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    if (key == "group") {
      params.group = parse_count("--param group", value, 0);
      return;
    }
    std::vector<std::string> words(known.begin(), known.end());
    const std::string near = did_you_mean(key, known);
    usage_error("E004", "'" + key + "' is not a parameter of " + std::string(family.name),
                !near.empty()   ? near
                : words.empty() ? "it has none"
                                : "it has " + or_list(words));
  }
  if (!params.more.emplace(key, value).second)
    usage_error("E004", "--param " + key + " is given twice");
}

// Times are relative to each other, so they go in whole ticks.
void hand_over_costs(const ScheduleFamily& family, const ScheduleCosts& costs,
                     ScheduleParams& params) {
  const auto hand_over = [&](std::string_view key, int64_t ticks) {
    for (const ScheduleParameter& p : family.parameters)
      if (p.key == key) params.more.emplace(key, std::to_string(ticks));
  };
  hand_over("tF", costs.forward);
  hand_over("tB_input", costs.backward_input);
  hand_over("tW", costs.backward_weight);
  hand_over("tComm", costs.hop);
}

// Without --vpp one chunk a rank; families that refuse that get the two that most of them take.
Schedule generate_any(const ScheduleFamily& family, ScheduleParams params, bool has_vpp,
                      std::vector<std::string>& remarks) {
  require_few_actions(params);
  const std::optional<Diagnostic> wrong = check_params(family, params);
  if (!wrong) return generate_schedule(family, params);
  params.vpp = 2;
  if (has_vpp || check_params(family, params))  // the first reason is the better one
    usage_error(
        "E205", wrong->message,
        "`stepcast presets schedules --show " + std::string(family.name) + "` has its rules");
  require_few_actions(params);
  remarks.push_back("--vpp is not given and " + std::string(family.name) +
                    " does not go with 1 chunk a rank: vpp = 2");
  return generate_schedule(family, params);
}

ChosenSchedule of_family(const ScheduleFamily& family, const ScheduleArguments& a,
                         const ScheduleCosts& costs) {
  ScheduleParams params;
  if (a.pp.empty() || a.microbatches.empty()) {
    const std::string missing = !a.pp.empty()             ? "--microbatches"
                                : !a.microbatches.empty() ? "--pp"
                                                          : "--pp and --microbatches";
    usage_error("E003", "the schedule " + std::string(family.name) + " needs " + missing,
                "for example: " + std::string(family.name) + " --pp 4 --microbatches 8");
  }
  params.pp = parse_count("--pp", a.pp, 1);
  params.microbatches = parse_count("--microbatches", a.microbatches, 1);
  if (!a.vpp.empty()) params.vpp = parse_count("--vpp", a.vpp, 1);
  for (const std::string& text : a.params) read_param(family, text, params);
  if (costs.given) hand_over_costs(family, costs, params);
  ChosenSchedule chosen;
  chosen.title = std::string(family.name);
  chosen.schedule = generate_any(family, params, !a.vpp.empty(), chosen.remarks);
  const std::vector<ScheduleProblem> problems = check_schedule(chosen.schedule, 1);
  STEPCAST_CHECK(problems.empty(), problems.front().message);
  return chosen;
}

// Sizes that are given for a file must be those of the file.
void require_equal(std::string_view option, const std::string& text, int64_t value) {
  if (!text.empty() && parse_count(option, text, 1) != value)
    usage_error("E004",
                std::string(option) + ' ' + text + " contradicts the schedule, which has " +
                    std::to_string(value),
                "leave it out: sizes are read off the file");
}

}  // namespace

std::string read_stages(const ScheduleArguments& a) {
  return a.stages.empty() ? std::string() : read_whole_file(a.stages) + '\n';
}

void require_few_actions(const ScheduleParams& params) {
  const __int128 actions = __int128{3} * params.pp * params.vpp * params.microbatches;
  if (actions > kMostActions || params.pp > kMostActions || params.vpp > kMostActions)
    usage_error(
        "E205", "pp * vpp * microbatches is more than 3,333,333",
        "that many actions are not needed to see what a schedule does: the pattern repeats");
}

ChosenSchedule choose_schedule(const Arguments& args, const ScheduleCosts& costs) {
  const ScheduleArguments& a = args.schedule;
  const ScheduleFamily* family = find_schedule_family(args.file);
  if (family != nullptr) {
    refuse_scenario_options(args, args.file);
    return of_family(*family, a, costs);
  }
  if (!is_file(args.file)) unknown_name(args.file);
  if (!a.params.empty())
    usage_error("E003", "--param is for families; the order of a file is what it is");
  ChosenSchedule chosen;
  if (is_scenario(args.file)) {
    Scenario scenario = load(args.file, args);
    chosen.schedule = schedule_of(scenario);
    chosen.title = scenario.schedule_title;
    chosen.remarks = std::move(scenario.warnings);
  } else {
    refuse_scenario_options(args, args.file);
    chosen.title = shown_name(args.file);
    chosen.schedule = load_schedule_csv(read_whole_file(args.file), chosen.title);
  }
  require_equal("--pp", a.pp, chosen.schedule.pp);
  require_equal("--vpp", a.vpp, chosen.schedule.vpp);
  require_equal("--microbatches", a.microbatches, chosen.schedule.microbatches);
  return chosen;
}

std::string sizes_of(const Schedule& s) {
  int64_t actions = 0;
  for (const std::vector<Action>& rank : s.ranks) actions += static_cast<int64_t>(rank.size());
  const auto count = [](int64_t n, const std::string& one, const std::string& many) {
    return grouped(n) + ' ' + (n == 1 ? one : many);
  };
  std::string text = count(s.pp, "rank", "ranks") + ", " +
                     count(static_cast<int64_t>(s.rank_of_stage.size()), "stage", "stages") + ", " +
                     count(s.microbatches, "microbatch", "microbatches");
  if (s.seq_splits > 1) text += " in " + std::to_string(s.seq_splits) + " splits";
  return text + ", " + count(actions, "action", "actions");
}

void write_schedule(JsonWriter& json, const ChosenSchedule& chosen) {
  const Schedule& s = chosen.schedule;
  json.member("schedule", chosen.title);
  json.member("pp", s.pp);
  json.member("vpp", s.vpp);
  json.member("stages", static_cast<int64_t>(s.rank_of_stage.size()));
  json.member("microbatches", s.microbatches);
  if (s.seq_splits > 1) json.member("seq_splits", s.seq_splits);
}

void require_rank(const Schedule& schedule, const ScheduleCosts& costs) {
  if (costs.slow_rank >= schedule.pp)
    usage_error("E004", "--straggler names rank " + std::to_string(costs.slow_rank) +
                            ", and the schedule has ranks 0 to " + std::to_string(schedule.pp - 1));
}

void remark_stalls(ChosenSchedule& chosen) {
  for (const ScheduleProblem& p : check_rendezvous(chosen.schedule, 3))
    chosen.remarks.push_back(p.message);
}

void say_remarks(const ChosenSchedule& chosen, const Arguments& args, const Terminal& terminal) {
  if (args.quiet) return;
  for (const std::string& remark : chosen.remarks)
    write_stderr(wrap(escape_text(remark), "remark: ", terminal.err.width));
}

}  // namespace stepcast::cli
