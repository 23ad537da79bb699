// SPDX-License-Identifier: Apache-2.0
#include "tools/command/schedule/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>

#include "report/json/writer.h"
#include "scenarios/forecast/make_schedule.h"
#include "schedules/check.h"
#include "schedules/formats/schedule_csv.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/text.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {

namespace {

constexpr int kMostDecimals = 15;
constexpr int64_t kLargest = int64_t{1} << 60;

// digits / 10^decimals, without zeros at the end.
struct Decimal {
  int64_t digits = 0;
  int decimals = 0;
};

[[noreturn]] void bad_decimal(std::string_view option, std::string_view text,
                              const std::string& why) {
  usage_error("E004", "'" + std::string(text) + "' in " + std::string(option) + ' ' + why,
              "plain decimals such as 10, 0.5 or 601.25, with at most 15 digits after the point");
}

Decimal parse_decimal(std::string_view option, std::string_view text) {
  Decimal d;
  bool point = false, any = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') bad_decimal(option, text, "is not a number of at least 0");
    any = true;
    if (d.digits > (kLargest - (c - '0')) / 10) bad_decimal(option, text, "has too many digits");
    d.digits = 10 * d.digits + (c - '0');
    d.decimals += point;
  }
  if (!any) bad_decimal(option, text, "is not a number of at least 0");
  for (; d.decimals > 0 && d.digits % 10 == 0; --d.decimals) d.digits /= 10;
  if (d.decimals > kMostDecimals) bad_decimal(option, text, "has too many digits");
  return d;
}

int64_t power_of_ten(int exponent) {
  int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

int64_t times(std::string_view option, int64_t a, int64_t b) {
  if (a > 0 && b > kLargest / a)
    usage_error("E004", "the times in " + std::string(option) + " have too many digits to be kept",
                "write them with fewer digits, or in a larger unit");
  return a * b;
}

std::vector<Decimal> parse_decimals(std::string_view option, std::string_view text) {
  std::vector<Decimal> parsed;
  for (std::string_view rest = text;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    parsed.push_back(parse_decimal(option, rest.substr(0, comma)));
    if (comma == rest.size()) return parsed;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<Decimal> four_decimals(std::string_view costs) {
  std::vector<Decimal> parsed = parse_decimals("--costs", costs);
  if (parsed.size() != 4)
    usage_error(
        "E004", fmt::format("--costs {} names {} times instead of 4", costs, parsed.size()),
        "tF,tI,tW,c: forward, input gradient, weight gradient, transfer; such as 10,12,7,1");
  return parsed;
}

// The lines of a --stages file.
std::vector<std::vector<Decimal>> stage_lines(std::string_view text) {
  std::vector<std::vector<Decimal>> lines;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    line.erase(std::min(line.find('#'), line.size()));
    if (line.empty()) continue;
    const std::string where = fmt::format("line {} of --stages", number);
    lines.push_back(parse_decimals(where, line));
    const size_t numbers = lines.back().size();
    if (numbers != 3 && numbers != 5 && numbers != 6)
      usage_error("E004", fmt::format("{} has {} numbers", where, numbers),
                  "tF,tI,tW of a stage; or five, with what it holds after F and after I; or six, "
                  "with tB");
    if (lines.back().size() != lines.front().size())
      usage_error("E004", where + " has more or fewer numbers than the first one",
                  "all lines have three numbers, or all five, or all six");
  }
  if (lines.empty())
    usage_error("E004", "the file of --stages names no stage", "one line a stage: tF,tI,tW");
  return lines;
}

void read_straggler(ScheduleCosts& c, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    usage_error("E004", "--straggler " + std::string(text) + " is not of the form RANK=FACTOR",
                "for example: --straggler 2=1.5");
  c.slow_rank = parse_count("--straggler", text.substr(0, equals), 0);
  const Decimal factor = parse_decimal("--straggler", text.substr(equals + 1));
  if (factor.digits == 0)
    usage_error("E004", "the factor in --straggler must be above 0", "1.5 is half as slow again");
  const int64_t ten = power_of_ten(factor.decimals);
  const int64_t common = std::gcd(factor.digits, ten);
  c.slow_numerator = factor.digits / common;
  c.slow_denominator = ten / common;
}

}  // namespace

ScheduleCosts parse_costs(std::string_view costs, std::string_view straggler,
                          std::string_view stages) {
  ScheduleCosts c;
  c.given = !costs.empty();
  const std::vector<Decimal> parsed = four_decimals(costs.empty() ? "1,1,1,0" : costs);
  std::vector<std::vector<Decimal>> lines;
  if (!stages.empty()) lines = stage_lines(stages);
  if (!straggler.empty()) read_straggler(c, straggler);
  int decimals = 0;
  for (const Decimal& d : parsed) decimals = std::max(decimals, d.decimals);
  for (const std::vector<Decimal>& line : lines)
    for (size_t i = 0; i < line.size(); ++i)
      if (i != 3 && i != 4) decimals = std::max(decimals, line[i].decimals);
  c.per_unit = times("--straggler", power_of_ten(decimals), c.slow_denominator);
  const auto ticks = [&](const Decimal& d) {
    return times("--costs", d.digits, c.per_unit / power_of_ten(d.decimals));
  };
  c.forward = ticks(parsed[0]);
  c.backward_input = ticks(parsed[1]);
  c.backward_weight = ticks(parsed[2]);
  c.hop = ticks(parsed[3]);
  for (const std::vector<Decimal>& line : lines) {
    StageCosts& s = c.by_stage.emplace_back();
    s.forward = ticks(line[0]);
    s.backward_input = ticks(line[1]);
    s.backward_weight = ticks(line[2]);
    if (line.size() == 3) continue;
    if (line[3].decimals > 0 || line[4].decimals > 0)
      usage_error("E004", "what a stage of --stages holds must be a whole number",
                  "bytes, or any other unit that --memory-limit counts in");
    s.after_forward = line[3].digits;
    s.after_input = line[4].digits;
    if (line.size() == 6) s.backward = ticks(line[5]);
  }
  return c;
}

void require_stages(size_t stages, const ScheduleCosts& costs) {
  if (costs.by_stage.empty() || costs.by_stage.size() == stages) return;
  usage_error(
      "E004",
      fmt::format("--stages names {} stages, the schedule has {}", costs.by_stage.size(), stages),
      "one line a stage, the first one holds the embedding");
}

OpGraph lower_with(const Schedule& schedule, const ScheduleCosts& costs, P2pStyle style,
                   std::vector<Time>& durations) {
  UnitCosts unit;
  unit.times.forward = Time{costs.forward};
  unit.times.backward_input = Time{costs.backward_input};
  unit.times.backward_weight = Time{costs.backward_weight};
  unit.times.recompute = Time{costs.forward};
  unit.hop = Time{costs.hop};
  for (const StageCosts& s : costs.by_stage) {
    StageTimes& times = unit.by_stage.emplace_back();
    times.forward = times.recompute = Time{s.forward};
    times.backward_input = Time{s.backward_input};
    times.backward_weight = Time{s.backward_weight};
    times.backward = Time{s.backward};
  }
  if (costs.slow_rank < 0) return lower_unit(schedule, unit, durations, style);
  // Factors of 2 and 4 are exact in floating point.  The works whose times differ between the two
  // are those of the straggler, and get its own factor.
  unit.slow_rank = costs.slow_rank;
  unit.slow_factor = 4;
  std::vector<Time> fourfold;
  lower_unit(schedule, unit, fourfold, style);
  unit.slow_factor = 2;
  OpGraph graph = lower_unit(schedule, unit, durations, style);
  STEPCAST_CHECK(fourfold.size() == durations.size(), "the factor changes the graph");
  for (size_t i = 0; i < durations.size(); ++i)
    if (fourfold[i] != durations[i])
      durations[i] = durations[i] / 2 / costs.slow_denominator * costs.slow_numerator;
  return graph;
}

void require_countable(const Schedule& schedule, const ScheduleCosts& costs) {
  // The makespan is at most what all the work would take on one rank, at the straggler's speed,
  // with two hops for each piece of it.
  __int128 piece = __int128{costs.forward} + costs.backward_input + costs.backward_weight;
  for (const StageCosts& s : costs.by_stage)
    piece = std::max(
        piece, __int128{s.forward} +
                   std::max(__int128{s.backward}, __int128{s.backward_input} + s.backward_weight));
  const __int128 slow = std::max<int64_t>(1, costs.slow_numerator / costs.slow_denominator + 1);
  const __int128 pieces = static_cast<__int128>(schedule.rank_of_stage.size()) * schedule.pieces();
  if (piece > 0 && pieces * slow > std::numeric_limits<int64_t>::max() / 4 / piece)
    usage_error("E004", "the times in --costs have too many digits to be added up exactly",
                "write them with fewer digits, or in a larger unit");
  if (costs.hop > 0 && pieces * 4 > std::numeric_limits<int64_t>::max() / 4 / costs.hop)
    usage_error("E004", "the transfer time in --costs has too many digits to be added up exactly",
                "write it with fewer digits, or in a larger unit");
}

namespace {

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
    usage_error("E205", wrong->message,
                fmt::format("`stepcast presets schedules --show {}` has its rules", family.name));
  require_few_actions(params);
  remarks.push_back(fmt::format(
      "--vpp is not given and {} does not go with 1 chunk a rank: vpp = 2", family.name));
  return generate_schedule(family, params);
}

ChosenSchedule of_family(const ScheduleFamily& family, const ScheduleArguments& a,
                         const ScheduleCosts& costs) {
  ScheduleParams params;
  if (!a.pp || !a.microbatches) {
    const std::string missing = a.pp             ? "--microbatches"
                                : a.microbatches ? "--pp"
                                                 : "--pp and --microbatches";
    usage_error("E003", "the schedule " + std::string(family.name) + " needs " + missing,
                "for example: " + std::string(family.name) + " --pp 4 --microbatches 8");
  }
  params.pp = *a.pp;
  params.microbatches = *a.microbatches;
  if (a.vpp) params.vpp = *a.vpp;
  for (const std::string& text : a.params) read_param(family, text, params);
  if (costs.given) hand_over_costs(family, costs, params);
  ChosenSchedule chosen;
  chosen.title = std::string(family.name);
  chosen.schedule = generate_any(family, params, a.vpp.has_value(), chosen.remarks);
  const std::vector<ScheduleProblem> problems = check_schedule(chosen.schedule, 1);
  STEPCAST_CHECK(problems.empty(), problems.front().message);
  return chosen;
}

// Sizes that are given for a file must be those of the file.
void require_equal(std::string_view option, std::optional<int64_t> given, int64_t value) {
  if (given && *given != value)
    usage_error("E004",
                fmt::format("{} {} contradicts the schedule, which has {}", option, *given, value),
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
        "E205", "pp * vpp * microbatches is more than " + grouped(kMostActions / 3),
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
  if (s.seq_splits > 1) text += fmt::format(" in {} splits", s.seq_splits);
  return text + ", " + count(actions, "action", "actions");
}

void write_schedule(JsonWriter& json, const ChosenSchedule& chosen) {
  const Schedule& s = chosen.schedule;
  json.member("schema_version", 1);
  json.member("schedule", chosen.title);
  json.member("pp", s.pp);
  json.member("vpp", s.vpp);
  json.member("stages", static_cast<int64_t>(s.rank_of_stage.size()));
  json.member("microbatches", s.microbatches);
  if (s.seq_splits > 1) json.member("seq_splits", s.seq_splits);
}

void require_rank(const Schedule& schedule, const ScheduleCosts& costs) {
  if (costs.slow_rank >= schedule.pp)
    usage_error("E004", fmt::format("--straggler names rank {}, and the schedule has ranks 0 to {}",
                                    costs.slow_rank, schedule.pp - 1));
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
