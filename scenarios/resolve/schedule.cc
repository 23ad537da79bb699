// SPDX-License-Identifier: Apache-2.0
// The section `schedule`: a family by name, `auto`, or actions that the user wrote out; how its
// transfers block, and whether it shares the vocabulary over the pipeline.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/document/number.h"
#include "schedules/check.h"
#include "schedules/families/families.h"
#include "schedules/formats/action_text.h"
#include "schedules/formats/schedule_csv.h"
#include "schedules/lower/lower.h"
#include "schedules/lower/vocabulary.h"
#include "schedules/schedule.h"
#include "schedules/synthesis/synthesis.h"
#include "schedules/transfers/transfers.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {

namespace {

// The key that a problem with the whole schedule is shown at.
Key place_of(const FieldValues& v) {
  for (const Key key : Keys{"schedule.kind", "parallel.vpp", "parallel.pp", "batch.global"})
    if (v.value(key) != nullptr) return key;
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
  v.derive<std::string>("schedule.kind", name,
                        plan.vpp == 1 ? "default: the least memory without chunks"
                                      : fmt::format("default: vpp = {} chunks", plan.vpp));
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
                    v.key_mark({"schedule.params", key}), static_cast<int>(key.size()),
                    did_you_mean(key, keys), known.empty() ? "it has none" : "it has: " + list);
  }
  return ok;
}

// The key that a message about sizes or a parameter points to: the one that the message begins
// with.
Key place_of_sentence(const FieldValues& v, const ScheduleParams& params,
                      std::string_view sentence) {
  for (const auto& [name, value] : params.more) {
    const Key key("schedule.params", name);
    if (sentence.starts_with(name) && v.value(key) != nullptr) return key;
  }
  return place_of(v);
}

bool read_group(const PlanInputs& in, const ScheduleFamily& family, ScheduleParams& params) {
  const FieldValues& v = in.values;
  if (!v.has("schedule.group")) return v.value("schedule.group") == nullptr;
  params.group = v.whole("schedule.group");
  const std::optional<Diagnostic> wrong = check_group(family, params);
  if (!wrong) return true;
  v.refuse("E127", "schedule.group", wrong->message,
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

// Exchanging one microbatch's tokens beside the compute of another (overlap.ep) needs pairs of
// passes. In place of 1F1B that is Megatron's order with pairs; some other families have pairs by
// themselves. nullptr if the schedule has no pairs.
const ScheduleFamily* family_with_pairs(const PlanInputs& in, const Plan& plan,
                                        const ScheduleFamily* family) {
  if (!plan.overlap.ep) return family;
  if (plan.ep == 1) {
    in.warnings.push_back("overlap.ep has no effect: ep = 1");
    return family;
  }
  const bool chunks = plan.vpp > 1 || plan.pp == 1;
  if (chunks && !family->paired.empty()) return find_schedule_family(family->paired);
  if (family->has_pairs) return family;
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
  const Key place = place_of_sentence(in.values, params, "seq_splits");
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
  v.read("schedule.memory_limit", make.memory_limit);
  if (!read_params(in, kAuto, kAutoParameters, make.params)) return {};
  const auto refuse_params = [&](const std::string& why) {
    v.refuse("E205", place_of_sentence(v, make.params, why), why);
    return std::nullopt;
  };
  if (const auto wrong = check_sizes(make.params)) return refuse_params(wrong->message);
  ParamReader params(make.params);
  const std::optional<std::string> placement = params.word("placement", {"loop", "v"});
  make.v_placement = placement ? *placement == "v" : plan.vpp == 2;
  if (make.v_placement && plan.vpp % 2 != 0)
    params.refuse(
        fmt::format("placement = v needs an even number of chunks, not vpp = {}", plan.vpp));
  make.split_backward = params.flag("split_backward");
  const int64_t actions = 3 * plan.pp * plan.vpp * plan.microbatches();
  make.effort = params.whole("effort", 1, most_effort(actions)).value_or(0);
  make.seed = static_cast<uint64_t>(params.whole("seed", 0).value_or(1));
  if (const auto& wrong = params.wrong()) return refuse_params(wrong->message);
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
  // Every action takes memory before anything about the schedule is checked, hence the limit first.
  if (stages > kMostStages || plan.microbatches() > most_microbatches(stages)) {
    v.refuse("E123", place_of(v),
             fmt::format("a schedule of {} stages and {} microbatches is too large", stages,
                         plan.microbatches()),
             fmt::format("at most {} stages, and {} microbatches in {} of them", kMostStages,
                         most_microbatches(std::min(stages, kMostStages)),
                         std::min(stages, kMostStages)));
    return {};
  }
  for (const StageContent& stage : plan.stages) {
    if (stage.layers <= kMostStageLayers) continue;
    v.refuse("E123", place_of(v),
             fmt::format("a stage of {} layers: at most {} are possible", stage.layers,
                         kMostStageLayers),
             "more pipeline stages (parallel.pp, parallel.vpp) have fewer layers each");
    return {};
  }
  if (automatic && !steps && !file) return plan_auto(in, plan);
  if (!steps && !file)
    return v.has("schedule.kind") ? generate(in, plan, v.text("schedule.kind")) : std::nullopt;
  const Key key = steps ? Key("schedule.steps") : Key("schedule.file");
  if (!v.has(key)) return {};
  if ((steps && file) || v.value("schedule.kind") != nullptr) {
    in.problems.add("E127", "a schedule has one of kind, steps and file", v.key_mark(key),
                    steps ? 5 : 4, {}, "leave the others out");
    return {};
  }
  std::optional<Schedule> schedule = written_schedule(in, plan, files);
  if (!schedule) return {};
  return ResolvedSchedule{std::move(*schedule), std::nullopt};
}

// ----------------------------------------------------------------------------- actions written out

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
  const SourceRef source = files.open(path, v.mark("schedule.file"));
  if (source == nullptr) return {};
  try {
    return load_schedule_csv(source->text, source->name);
  } catch (const InputError& e) {
    for (const Diagnostic& d : e.diagnostics) {
      const Mark mark = d.line > 0 ? Mark{source, d.line, d.column} : v.mark("schedule.file");
      in.problems.add(d.code, d.message, mark, d.length, d.label, d.help, d.note);
    }
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
                    fmt::format("the schedule has {} {}, the scenario {}", theirs, what, ours),
                    mark, length, {}, std::move(help));
    return true;
  };
  const bool ranks =
      differs("pipeline ranks", s.pp, plan.pp, fmt::format("parallel.pp = {} goes with it", s.pp));
  const bool chunks =
      !s.is_bidirectional() && differs("chunks a rank", s.vpp, plan.vpp,
                                       fmt::format("parallel.vpp = {} goes with it", s.vpp));
  const bool stages = !ranks && !chunks &&
                      differs("stages", static_cast<int64_t>(s.rank_of_stage.size()),
                              static_cast<int64_t>(plan.stages.size()),
                              "parallel.layout says what each stage holds");
  const int64_t unit = plan.micro_batch * plan.dp;
  const bool microbatches = differs("microbatches", s.microbatches, plan.microbatches(),
                                    fmt::format("batch.global / (micro*dp = {}): {} makes {}", unit,
                                                s.microbatches * unit, s.microbatches));
  if (ranks || chunks || stages || microbatches) return false;
  if (!check_order) return check_pieces(in, plan, s, mark, length);
  const std::vector<ScheduleProblem> found = check_schedule(s);
  for (const ScheduleProblem& p : found) {
    const bool deadlock = p.kind == ScheduleProblem::Kind::deadlock;
    std::string help;
    for (const std::string& line : p.cycle) help += (help.empty() ? "" : "; ") + line;
    in.problems.add(deadlock ? "E401" : "E402", p.message, mark, length, {}, help);
  }
  return found.empty() && check_pieces(in, plan, s, mark, length);
}

}  // namespace

bool check_pieces(const PlanInputs& in, const Plan& plan, const Schedule& s, const Mark& mark,
                  int length) {
  const int64_t unit = s.seq_splits * (plan.sp ? plan.tp : 1);
  if (s.seq_splits > 1 && plan.cp > 1) {
    in.values.refuse("E127", "parallel.cp",
                     fmt::format("{} cuts sequences into pieces, which does not go with cp = {}",
                                 s.name, plan.cp),
                     "cp = 1, or a schedule of whole sequences such as 1f1b");
    return false;
  }
  const auto mixes = [](const Transformer& m) {
    return m.index_topk > 0 || !m.compressions.empty() || has_recurrent_layers(m);
  };
  if (s.seq_splits > 1 && ((in.model != nullptr && mixes(*in.model)) ||
                           (plan.teacher.has_value() && mixes(*plan.teacher)))) {
    in.problems.add("E130",
                    fmt::format("not supported yet: {} cuts sequences of recurrent layers or of "
                                "sparse attention into pieces",
                                s.name),
                    mark, length, {}, "schedules of whole sequences do, such as 1f1b");
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
  in.problems.add(
      "E205",
      fmt::format("batch.seq = {} is not a multiple of {}, into which {} cuts sequences", plan.seq,
                  unit == s.seq_splits ? fmt::format("the schedule's {} pieces", unit)
                                       : fmt::format("pieces * tp = {}", unit),
                  s.name),
      mark, length, {}, nearest_multiples(plan.seq, unit));
  return false;
}

std::optional<Schedule> written_schedule(const PlanInputs& in, const Plan& plan,
                                         ScenarioFiles& files) {
  const FieldValues& v = in.values;
  const bool steps = v.value("schedule.steps") != nullptr;
  const Mark mark = v.key_mark(steps ? Key("schedule.steps") : Key("schedule.file"));
  const int length = steps ? 5 : 4;  // of the key
  std::optional<Schedule> schedule = steps ? read_steps(in) : read_file(in, files);
  if (!schedule || !check_written(in, plan, *schedule, mark, length, steps)) return {};
  return schedule;
}

// --------------------------------------------------------------------------------------- transfers

namespace {

bool waits(P2pStyle style) {
  return style == P2pStyle::megatron || style == P2pStyle::dualpipe || style == P2pStyle::deepspeed;
}

std::string reason_of(P2pStyle style) {
  switch (style) {
    case P2pStyle::megatron:
      return "default: Megatron waits for every exchange with its neighbours";
    case P2pStyle::megatron_overlap:
    case P2pStyle::megatron_overlap_flush:
      return "default: on without Megatron's --no-overlap-p2p-communication";
    case P2pStyle::dualpipe: return "default: DualPipe exchanges before each action";
    case P2pStyle::deepspeed: return "default: DeepSpeed sends and receives one after the other";
    case P2pStyle::async: break;
  }
  return "default: sends leave at once and nobody waits for them";
}

// What the framework of the schedule does; Megatron-LM's switches are parameters of the family.
P2pStyle default_style(const FieldValues& v, const Schedule& schedule) {
  const P2pStyle style = default_p2p_style(schedule.name);
  if (style != P2pStyle::megatron_overlap || v.value("schedule.params") == nullptr) return style;
  ScheduleParams params;
  for (const std::string& pair : v.texts("schedule.params")) {
    const size_t equals = pair.find('=');
    params.more[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  ParamReader read(params);
  if (!read.flag(kMegatronOverlap).value_or(true)) return P2pStyle::megatron;
  const bool flush = read.flag(kMegatronOverlapFlush).value_or(false);
  return flush ? P2pStyle::megatron_overlap_flush : style;
}

// Whether the style of a software profile applies: schedules that bring one of their own keep it,
// and so do those that it cannot run.
bool takes_software(const FieldValues& v, const Schedule& schedule) {
  if (!v.stated("schedule.p2p") || !v.has("schedule.p2p")) return false;
  const P2pStyle own = default_p2p_style(schedule.name);
  const auto style = v.get<P2pStyle>("schedule.p2p");
  const bool like_megatron = own == P2pStyle::megatron || own == P2pStyle::megatron_overlap;
  return like_megatron && !check_transfers(schedule, style);
}

}  // namespace

ResolvedTransfers resolve_transfers(const PlanInputs& in, const Schedule& schedule) {
  FieldValues& v = in.values;
  const bool flagged = v.value("overlap.pp_p2p") != nullptr && v.has("overlap.pp_p2p");
  const bool stated =
      v.value("schedule.p2p") != nullptr || (!flagged && takes_software(v, schedule));
  P2pStyle style = default_style(v, schedule);
  std::string origin =
      style == default_p2p_style(schedule.name) ? reason_of(style) : "derived: schedule.params";
  Key at = "schedule.p2p";
  if (stated && v.has("schedule.p2p")) {
    v.read("schedule.p2p", style);
    origin = "derived: schedule.p2p";
    if (flagged && v.flag("overlap.pp_p2p") == waits(style))
      v.refuse("E127", "overlap.pp_p2p",
               "overlap.pp_p2p contradicts schedule.p2p = " + v.text("schedule.p2p"),
               "leave one of them out");
  } else if (flagged) {
    at = "overlap.pp_p2p";
    if (!v.flag("overlap.pp_p2p") && !waits(style)) style = P2pStyle::megatron;
    if (v.flag("overlap.pp_p2p") && waits(style)) style = P2pStyle::async;
  }
  if (!stated)
    v.derive<P2pStyle>("schedule.p2p", style, flagged ? "derived: overlap.pp_p2p" : origin);
  if (v.value("overlap.pp_p2p") == nullptr) v.derive<bool>("overlap.pp_p2p", !waits(style), origin);
  if (style == P2pStyle::async) return {style, nullptr};  // which goes with all
  auto made = make_transfers(schedule, style);
  if (const Diagnostic* wrong = std::get_if<Diagnostic>(&made)) {
    v.refuse("E127", at, wrong->message);
    return {style, nullptr};
  }
  return {style, std::get<std::shared_ptr<const MadeTransfers>>(std::move(made))};
}

// -------------------------------------------------------------------------------------- vocabulary

VocabularySplit resolve_vocabulary(const PlanInputs& in, const Plan& plan,
                                   const Schedule& schedule) {
  const VocabularySplit split = vocabulary_split(schedule);
  if (split == VocabularySplit::none || in.model == nullptr) return split;
  FieldValues& v = in.values;
  if (v.value("kernels.loss") != nullptr && plan.kernels.loss != Loss::megatron)
    in.warnings.push_back(
        "kernels.loss has no effect: the schedule shares the vocabulary and has passes of "
        "Megatron's");
  Key at = "schedule";
  for (const Key one : Keys{"schedule.kind", "schedule.steps", "schedule.file"})
    if (v.value(one) != nullptr) at = one;
  const auto refuse = [&](bool wrong, const std::string& what) {
    if (!wrong) return;
    v.refuse("E127", at,
             "the schedule shares the vocabulary over the pipeline, which is not "
             "modelled with " +
                 what,
             "schedules without vocab in their names go with it, such as 1f1b");
  };
  refuse(plan.teacher.has_value(), "distillation");
  refuse(plan.zero >= 2, "parallel.zero 2 or 3");
  refuse(in.model->mtp_layers > 0, "multi-token prediction");
  refuse(in.model->encoder_layers > 0, "an encoder and a decoder");
  refuse(in.model->masked_head, "the head of a masked language model");
  return split;
}

// ------------------------------------------------------------------------------------------ titles

std::string schedule_title(const std::string& schedule_name) {
  const ScheduleFamily* family = find_schedule_family(schedule_name);
  if (family != nullptr && family->name == schedule_name) return std::string(family->title);
  if (schedule_name.find('.') != std::string::npos) return schedule_name;  // a file
  std::string title = schedule_name;
  std::replace(title.begin(), title.end(), '-', ' ');
  return title;
}

}  // namespace stepcast
