// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_schedule.h"

#include <algorithm>
#include <array>
#include <span>

#include "schedules/families/families.h"
#include "schedules/schedule.h"
#include "schedules/synthesis/synthesis.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Memory is spent on every action before anything is known to work.
constexpr int64_t kMostOfScenario = 10'000'000;

// The key that a problem with the whole schedule is shown at.
std::string place_of(const FieldValues& v) {
  for (const char* path : {"schedule.kind", "parallel.vpp", "parallel.pp", "batch.global"})
    if (v.value(path) != nullptr) return path;
  return "schedule";
}

constexpr std::string_view kAuto = "auto";

std::string names_of_families() {
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  names.emplace_back(kAuto);
  return or_list(names);
}

// Default: what the number of chunks suggests.
void derive_kind(FieldValues& v, const Plan& plan) {
  if (v.value("schedule.kind") != nullptr) return;
  const std::string name = plan.vpp == 1 ? "1f1b" : "interleaved-1f1b";
  v.derive("schedule.kind", name, name,
           plan.vpp == 1 ? "default: the least memory without chunks"
                         : "default: vpp = " + std::to_string(plan.vpp) + " chunks");
}

const ScheduleFamily* family_of(const PlanInputs& in, const std::string& name) {
  const ScheduleFamily* family = find_schedule_family(name);
  if (family != nullptr) return family;
  std::vector<std::string_view> near = similar_schedule_names(name);
  if (near.empty() && edit_distance(name, kAuto) == 1) near.push_back(kAuto);
  in.values.refuse("E125", place_of(in.values), "there is no schedule '" + name + '\'',
                   "legal now: " + names_of_families(),
                   near.empty() ? "" : "did you mean '" + std::string(near.front()) + "'?");
  return nullptr;
}

// -------------------------------------------------------------------------------------- parameters
constexpr std::array<ScheduleParameter, 4> kAutoParameters{
    {{"placement", "loop or v; default v with two chunks a rank"},
     {"split_backward", "whether I and W are apart; default: whichever is better"},
     {"effort", "orders that are tried; default: about a second's worth"},
     {"seed", "of the search; default 1"}}};

// schedule.params, each key one of `known`.
bool read_params(const PlanInputs& in, std::string_view family,
                 std::span<const ScheduleParameter> known, ScheduleParams& params) {
  const FieldValues& v = in.values;
  if (v.value("schedule.params") == nullptr) return true;
  if (!v.has("schedule.params")) return false;
  bool ok = true;
  std::vector<std::string_view> keys;
  std::string list;
  for (const ScheduleParameter& p : known) {
    keys.push_back(p.key);
    list += (list.empty() ? "" : ", ") + std::string(p.key);
  }
  for (const std::string& pair : v.texts("schedule.params")) {
    const size_t equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    params.more[key] = pair.substr(equals + 1);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    ok = false;
    in.problems.add("E102", '\'' + key + "' is not a parameter of " + std::string(family),
                    v.key_mark("schedule.params." + key), static_cast<int>(key.size()),
                    did_you_mean(key, keys), known.empty() ? "it has none" : "it has: " + list);
  }
  return ok;
}

// Where a sentence about the sizes or a parameter points to: the parameter it begins with.
std::string place_of_sentence(const FieldValues& v, const ScheduleParams& params,
                              std::string_view sentence) {
  for (const auto& [key, value] : params.more) {
    const std::string path = "schedule.params." + key;
    if (sentence.starts_with(key) && v.value(path) != nullptr) return path;
  }
  return place_of(v);
}

bool read_group(const PlanInputs& in, const ScheduleFamily& family, ScheduleParams& params) {
  const FieldValues& v = in.values;
  if (!v.has("schedule.group")) return v.value("schedule.group") == nullptr;
  params.group = v.whole("schedule.group");
  if (family.name.starts_with("interleaved")) return true;
  v.refuse("E127", "schedule.group",
           "'group' is for interleaved schedules, not " + std::string(family.name),
           "leave it out, or take schedule.kind: interleaved-1f1b");
  return false;
}

// Whether the order depends on what the stages cost and not all of that is stated.
bool wants_prices(const ScheduleFamily& family, const ScheduleParams& params) {
  const auto has = [&](std::string_view key) {
    return std::any_of(family.parameters.begin(), family.parameters.end(),
                       [&](const ScheduleParameter& p) { return p.key == key; });
  };
  const auto open = [&](std::string_view key) { return has(key) && !params.more.contains(key); };
  return has("tF") && (open("tF") || open("tB_input") || open("tW") || open("tComm"));
}

// Exchanges of one microbatch beside the compute of another need pairs of passes: Megatron's own
// order in place of its 1F1B, others have them anyway.  nullptr: the schedule has none.
const ScheduleFamily* family_with_pairs(const PlanInputs& in, const Plan& plan,
                                        const ScheduleFamily* family) {
  if (!plan.overlap.ep) return family;
  if (plan.ep == 1) {
    in.warnings.push_back("overlap.ep has no effect: ep = 1");
    return family;
  }
  const bool chunks = plan.vpp > 1 || plan.pp == 1;
  if (chunks && (family->name == "1f1b" || family->name == "interleaved-1f1b"))
    return find_schedule_family("interleaved-1f1b-ep-overlap");
  if (family->name.starts_with("dualpipe") || family->name.ends_with("ep-overlap")) return family;
  in.values.refuse("E127", "overlap.ep",
                   "overlap.ep needs a schedule that pairs forwards with backwards, which " +
                       std::string(family->name) + " does not",
                   "interleaved-1f1b with parallel.vpp > 1, dualpipe and dualpipev do");
  return nullptr;
}

// The chunks on a rank that the schedule runs and the layers divide by; empty if nothing does.
std::string legal_chunks(const PlanInputs& in, const ScheduleFamily& family,
                         ScheduleParams params) {
  constexpr int64_t kMostTried = 1'000'000;  // stages * microbatches
  const int64_t layers = in.model->layers;
  if (in.values.value("parallel.layout") != nullptr || layers % params.pp != 0) return {};
  std::vector<std::string> legal;
  for (int64_t vpp = 1; params.pp * vpp <= std::min(layers, kMostTried / params.microbatches);
       ++vpp) {
    if (layers % (params.pp * vpp) != 0) continue;
    params.vpp = vpp;
    if (!check_params(family, params)) legal.push_back(std::to_string(vpp));
  }
  return legal.empty() ? "" : "parallel.vpp can be " + or_list(legal);
}

std::optional<ResolvedSchedule> generate(const PlanInputs& in, const Plan& plan,
                                         const std::string& name) {
  const ScheduleFamily* family = family_of(in, name);
  if (family != nullptr) family = family_with_pairs(in, plan, family);
  if (family == nullptr) return {};
  ScheduleParams params{plan.pp, plan.vpp, plan.microbatches(), 0, {}};
  if (family_chunks(in.values).replicas) params.vpp = 2;
  const bool group = read_group(in, *family, params);
  if (!read_params(in, family->name, family->parameters, params) || !group) return {};
  if (const auto wrong = check_params(*family, params)) {
    const std::string& why = wrong->message;
    in.values.refuse("E205", place_of_sentence(in.values, params, why), why,
                     why.find("vpp") == why.npos ? "" : legal_chunks(in, *family, params));
    return {};
  }
  ResolvedSchedule out;
  out.schedule = generate_schedule(*family, params);
  const std::string place = place_of_sentence(in.values, params, "seq_splits");
  if (!check_pieces(in, plan, out.schedule, in.values.mark(place), in.values.length(place)))
    return {};
  if (wants_prices(*family, params)) {
    out.to_make.emplace();
    out.to_make->family = std::string(family->name);
    out.to_make->params = std::move(params);
  }
  return out;
}

// -------------------------------------------------------------------------------------------- auto
std::optional<ResolvedSchedule> plan_auto(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  ResolvedSchedule out;
  ScheduleToMake& make = out.to_make.emplace();
  make.family = kAuto;
  make.params = {plan.pp, plan.vpp, plan.microbatches(), 0, {}};
  if (v.has("schedule.memory_limit")) make.memory_limit = {v.whole("schedule.memory_limit")};
  if (!read_params(in, kAuto, kAutoParameters, make.params)) return {};
  if (const auto wrong = check_sizes(make.params)) {
    in.values.refuse("E205", place_of_sentence(in.values, make.params, wrong->message),
                     wrong->message);
    return {};
  }
  ParamReader params(make.params);
  const std::optional<std::string> placement = params.word("placement", {"loop", "v"});
  make.v_placement = placement ? *placement == "v" : plan.vpp == 2;
  if (make.v_placement && plan.vpp % 2 != 0)
    params.refuse("placement = v needs an even number of chunks, not vpp = " +
                  std::to_string(plan.vpp));
  make.split_backward = params.flag("split_backward");
  const int64_t actions = 3 * plan.pp * plan.vpp * plan.microbatches();
  make.effort = params.whole("effort", 1, most_effort(actions)).value_or(0);
  make.seed = static_cast<uint64_t>(params.whole("seed", 0).value_or(1));
  if (const auto& wrong = params.wrong()) {
    in.values.refuse("E205", place_of_sentence(in.values, make.params, wrong->message),
                     wrong->message);
    return {};
  }
  const Schedule placed =
      make.v_placement ? snake_schedule(kAuto, make.params) : loop_schedule(kAuto, make.params);
  out.schedule = all_forwards_then_backwards(placed.rank_of_stage, plan.pp, plan.microbatches());
  out.schedule.name = kAuto;
  return out;
}

}  // namespace

FamilyChunks family_chunks(const FieldValues& values) {
  if (values.value("schedule.kind") == nullptr || !values.has("schedule.kind")) return {};
  const ScheduleFamily* family = find_schedule_family(values.text("schedule.kind"));
  if (family == nullptr) return {};
  // Tried out on a pipeline that suits every family.
  const auto runs = [&](int64_t vpp) -> std::optional<Schedule> {
    const ScheduleParams params{2, vpp, 4, 0, {}};
    if (check_params(*family, params)) return {};
    return family->generate(params);
  };
  const std::optional<Schedule> two = runs(2);
  if (!two) return {};
  if (two->is_bidirectional()) return {2, true};
  // The second half of a V or a snake begins on the rank where the first half ends.
  const bool turns = two->rank_of_stage[2] == two->rank_of_stage[1];
  return {turns && !runs(1) ? std::optional<int64_t>(2) : std::nullopt, false};
}

std::optional<ResolvedSchedule> resolve_schedule(const PlanInputs& in, const Plan& plan,
                                                 bool complete, ScenarioFiles& files) {
  FieldValues& v = in.values;
  const bool steps = v.value("schedule.steps") != nullptr,
             file = v.value("schedule.file") != nullptr;
  if (!steps && !file) derive_kind(v, plan);
  const bool automatic = v.has("schedule.kind") && v.text("schedule.kind") == kAuto;
  if (!complete) {
    if (!steps && !file && !automatic && v.has("schedule.kind"))
      family_of(in, v.text("schedule.kind"));
    return {};
  }
  if (!automatic && v.value("schedule.memory_limit") != nullptr)
    v.refuse("E127", "schedule.memory_limit", "'memory_limit' is for schedule: auto",
             "leave it out, or write schedule: {kind: auto, memory_limit: ...}");
  const auto stages = static_cast<int64_t>(plan.stages.size());
  if (stages > 65535 || plan.microbatches() > kMostOfScenario / (2 * stages)) {
    v.refuse("E123", place_of(v),
             "a schedule of " + std::to_string(stages) + " stages and " +
                 std::to_string(plan.microbatches()) + " microbatches is too large",
             "at most 65,535 stages, and 10^7 actions: two for each stage and microbatch");
    return {};
  }
  if (automatic && !steps && !file) return plan_auto(in, plan);
  if (!steps && !file)
    return v.has("schedule.kind") ? generate(in, plan, v.text("schedule.kind")) : std::nullopt;
  const char* path = steps ? "schedule.steps" : "schedule.file";
  if (!v.has(path)) return {};
  if ((steps && file) || v.value("schedule.kind") != nullptr) {
    in.problems.add("E127", "a schedule has one of kind, steps and file", v.key_mark(path),
                    steps ? 5 : 4, {}, "leave the others out");
    return {};
  }
  std::optional<Schedule> schedule = written_schedule(in, plan, files);
  if (!schedule) return {};
  return ResolvedSchedule{std::move(*schedule), std::nullopt};
}

}  // namespace stepcast
