// SPDX-License-Identifier: Apache-2.0
// stepcast explain FILE: every setting with its origin; --memory, --bubble, --critical-path,
// --stages, --costs, --price, --in-situ, --links open up the result.
#include "report/text/explain.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "calibrate/price/compute_price.h"
#include "calibrate/price/in_situ.h"
#include "job/training.h"
#include "report/json/result.h"
#include "report/text/intervals.h"
#include "report/text/run.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/in_situ_step.h"
#include "scenarios/forecast/stage_costs.h"
#include "scenarios/forecast/step.h"
#include "scenarios/own_runs.h"
#include "scenarios/pricing_table.h"
#include "sim/text.h"
#include "stepcast/topology_view.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/page.h"

namespace stepcast::cli {
namespace {

// A part of the program that most scenarios do not use, and where its settings are.
struct Part {
  const char* name;
  std::vector<std::string_view> begins;  // of their paths
  bool used;
};

std::vector<Part> parts_of(const Scenario& scenario) {
  const Plan& plan = scenario.plan;
  const bool experts =
      scenario.model.experts > 0 || (plan.teacher.has_value() && plan.teacher->experts > 0);
  const bool fsdp = plan.zero == 3;
  return {
      {"experts", {"moe."}, experts},
      {"FSDP", {"parallel.fsdp", "parallel.reshard_after_forward", "overlap.fsdp_prefetch"}, fsdp},
      {"offload", {"offload."}, false}};  // which is used where something of it is written
}

// Without the defaults of parts that the scenario does not use; they are named in `unused`.
std::vector<SettingLine> setting_lines(const Scenario& scenario, std::string& unused) {
  std::vector<SettingLine> lines;
  std::set<std::string> names;
  const std::vector<Part> parts = parts_of(scenario);
  const auto part_of = [&](const Setting& s) {
    return std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
      return std::any_of(part.begins.begin(), part.begins.end(),
                         [&](std::string_view begin) { return s.path.starts_with(begin); });
    });
  };
  std::set<std::string_view> written;
  for (const Setting& s : scenario.settings)
    if (const auto part = part_of(s); part != parts.end() && !s.origin.starts_with("default:"))
      written.insert(part->name);
  for (const Setting& s : scenario.settings) {
    const auto part = part_of(s);
    const bool hidden = part != parts.end() && !part->used && !written.contains(part->name);
    if (hidden) names.insert(part->name);
    if (!hidden) lines.push_back({s.path, s.value, s.origin});
  }
  for (const std::string& name : names) unused += (unused.empty() ? "" : ", ") + name;
  return lines;
}

// s*b*h and the layers of a chunk, for each pipeline rank.
std::vector<ActivationUnit> activation_units(const Scenario& scenario) {
  const Plan& plan = scenario.plan;
  std::vector<ActivationUnit> units(static_cast<size_t>(plan.pp));
  std::vector<std::optional<int64_t>> layers(units.size());
  const size_t stages = std::min(plan.stages.size(), scenario.schedule.rank_of_stage.size());
  for (size_t s = 0; s < stages; ++s) {
    const size_t rank = scenario.schedule.rank_of_stage[s];
    if (rank >= units.size()) continue;
    const int64_t here = plan.stages[s].layers;
    layers[rank] = layers[rank].value_or(here) == here ? here : 0;
  }
  for (size_t rank = 0; rank < units.size(); ++rank) {
    units[rank].elements = static_cast<double>(plan.seq * plan.micro_batch) *
                           static_cast<double>(scenario.model.hidden);
    units[rank].layers_per_chunk = static_cast<double>(layers[rank].value_or(0));
  }
  return units;
}

std::vector<StageLine> stages_of(const Scenario& scenario) {
  const PipelineCosts costs = stage_costs(scenario, pricing_table(scenario).table);
  std::vector<StageLine> lines(costs.times.size());
  for (size_t s = 0; s < lines.size(); ++s) {
    StageLine& line = lines[s];
    const StageTimes& times = costs.times[s];
    line.rank = costs.rank_of_stage[s];
    line.forward = times.forward;
    line.backward = times.backward;
    line.backward_input = times.backward_input;
    line.backward_weight = times.backward_weight;
    line.after_forward = std::max<int64_t>(0, costs.memory[s].forward);
    line.after_input =
        std::max<int64_t>(0, costs.memory[s].forward + costs.memory[s].backward_input);
    if (s < costs.hops.size()) line.hop = hop_between(costs, s);
  }
  return lines;
}

// "ranks in order tp-cp-dp-pp on 8 nodes of 8 GPUs"
std::string where_ranks_lie(const Scenario& scenario) {
  const int64_t gpus = scenario.cluster.node.gpus, world = scenario.plan.grid.world();
  std::string order;
  for (const Axis axis : scenario.plan.grid.order)
    order += (order.empty() ? "" : "-") + std::string(name_of(axis));
  const int64_t nodes = (world + gpus - 1) / gpus;
  std::string text =
      fmt::format("links crossed: {} ranks, order {}, on {}{}{} GPUs", grouped(world), order,
                  grouped(nodes), nodes == 1 ? " node of " : " nodes of ", gpus);
  if (!scenario.placement.in_order()) text += " as cluster.placement lists them";
  return text;
}

struct PricedWork {
  Work work;
  Price price;
  PriceParts parts;  // of communication in_situ alone
};

// The works of the step that are called `name`, as --costs has it.  Throws InputError E004.
std::vector<PricedWork> works_called(const std::string& name, const Scenario& scenario,
                                     const Result& result) {
  std::vector<PricedWork> found;
  std::vector<std::string> names;
  for (const CostLine& line : cost_lines(result)) {
    const auto at = static_cast<size_t>(line.work);
    const Work& work = result.graph->works[at];
    names.push_back(describe(work));
    if (names.back() != name) continue;
    PricedWork& priced = found.emplace_back(PricedWork{work, result.prices->by_work[at], {}});
    if (!is_communication(work.kind))
      compute_price(work, scenario.cluster.node.gpu, pricing_table(scenario).table, &priced.parts,
                    result.graph->libraries);
    priced.parts.in_situ = in_situ_factors(in_situ_values_of(scenario), work, priced.price,
                                           scenario.plan.grid.world());
  }
  if (!found.empty()) return found;
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string near = did_you_mean(name, candidates);
  usage_error("E004", "nothing that the step does is called '" + name + "'",
              (near.empty() ? "" : near + ' ') + "--costs lists everything");
}

// Throws InputError as forecast() does.
InSituAnswer in_situ_of(const Scenario& scenario) {
  InSituAnswer answer;
  if (!scenario.in_situ || !scenario.plan.trains()) return answer;
  forecast(scenario, {.what_if = false});  // refuses what cannot be run, with its place
  const InSituStep step(scenario);
  const std::span<const InSituParameter> parameters = in_situ_parameters_of(scenario);
  const Node& node = scenario.cluster.node;
  const int64_t libraries = scenario.plan.kernels.libraries;
  const InSituValues values = in_situ_values(parameters, node, libraries);
  const InSituRows rows = in_situ_rows(parameters, node, libraries);
  const bool own = scenario.own_runs != nullptr;  // counts of its file are of them
  if (own) {
    answer.own_runs = scenario.own_runs->runs;
    answer.own_file = scenario.own_runs->file;
  }
  answer.step = step.time(values);
  answer.without = step.time(neutral_in_situ());
  for (size_t t = 0; t < rows.size(); ++t) {
    if (rows[t] < 0) continue;
    InSituValues others = values;
    others[t] = neutral_value(static_cast<InSituTerm>(t));
    const InSituParameter& p = parameters[static_cast<size_t>(rows[t])];
    answer.lines.push_back({std::string(name_of(p.term)), p.scope, std::string(unit_of(p.term)),
                            p.prior_source, p.value, p.sd, p.prior, p.prior_sd,
                            answer.step - step.time(others), own ? 0 : p.runs,
                            own ? 0 : p.sources});
  }
  return answer;
}

std::string as_json(const Arguments& args, const Scenario& scenario, const Result* result) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", kResultSchemaVersion);
    json.member("version", version());
    json.object("scenario", [&] {
      json.member("name", scenario.name);
      json.member("hash", scenario.hash);
    });
    json.objects("settings", scenario.settings, [&](const Setting& s) {
      json.member("path", s.path);
      json.member("value", s.value);
      json.member("origin", s.origin);
    });
    if (args.stages) write_stages(json, stages_of(scenario));
    if (args.in_situ) write_in_situ(json, in_situ_of(scenario));
    if (result == nullptr) return;
    if (args.memory) write_memory(json, *result);
    if (args.bubble) write_bubble(json, *result);
    if (args.bubble) write_account(json, *result);
    if (args.critical_path) write_critical_path(json, *result);
    if (args.costs) write_costs(json, *result);
    if (args.costs) write_interval_basis(json, result->interval);
    if (!args.price.empty())
      json.objects("prices", works_called(args.price, scenario, *result),
                   [&](const PricedWork& w) { write_price(json, w.work, w.price, w.parts); });
    if (args.links) write_links(json, links_of(scenario, *result));
  });
}

// What the section job leaves out and follows from the rest, among its other settings.
void add_derived(Scenario& scenario, const Arguments& args) {
  const auto of_job = [](const Setting& s) { return s.path.starts_with("job."); };
  if (!scenario.plan.trains() || std::ranges::none_of(scenario.settings, of_job)) return;
  const Job job = read_job(read_scenario(args.file, args));
  for (TrainingFact& f : derived_settings(job, scenario))
    scenario.settings.push_back(
        {std::move(f.name), std::move(f.value), std::move(f.reason), false});
}

int explain_command(const Arguments& args, const Terminal& terminal) {
  Scenario scenario = load(args.file, args);
  add_derived(scenario, args);
  std::optional<Result> result;
  if (args.memory || args.bubble || args.critical_path || args.costs || !args.price.empty() ||
      args.links) {
    ForecastOptions options;
    options.what_if = false;
    result = forecast(scenario, options);
  }
  if (args.json) {
    write_stdout(as_json(args, scenario, result ? &*result : nullptr));
    return 0;
  }
  const TextStyle& style = terminal.out;
  if (args.stages)
    write_stdout(explain_stages(scenario.name, stages_of(scenario), scenario.plan.vpp));
  if (args.in_situ)
    write_stdout((args.stages ? "\n" : "") + explain_in_situ(in_situ_of(scenario), style));
  if (!result && (args.stages || args.in_situ)) return 0;
  if (!result) {
    std::string unused;
    const std::vector<SettingLine> lines = setting_lines(scenario, unused);
    write_stdout(explain_settings(lines, style));
    if (!unused.empty())
      write_stdout("\nLeft out, since nothing uses them: the defaults of " + unused +
                   ". --json has them.\n");
    return 0;
  }
  std::string text = (args.stages || args.in_situ ? "\n" : "") + headline(result->scenario, style);
  if (args.memory) text += '\n' + explain_memory(*result, activation_units(scenario), style);
  if (args.bubble) text += '\n' + explain_bubble(*result, style);
  if (args.critical_path) text += '\n' + explain_critical_path(*result, style);
  if (args.costs) text += '\n' + explain_costs(*result, style);
  if (args.costs) text += '\n' + explain_interval(result->step_time, result->interval, style);
  if (!args.price.empty())
    for (const PricedWork& w : works_called(args.price, scenario, *result))
      text += '\n' + explain_price(w.work, w.price, w.parts, style);
  if (args.links)
    text += '\n' + explain_links(links_of(scenario, *result), where_ranks_lie(scenario),
                                 result->step_time, style);
  write_stdout(text);
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "explain", "Show where every setting, byte, wait and price comes from",
                  chosen, explain_command);
  add_scenario(sub, args);
  sub->add_flag("--memory", args.memory, "what fills the memory of each rank");
  sub->add_flag("--bubble", args.bubble, "why ranks wait");
  sub->add_flag("--stages", args.stages,
                "how long each pass of each stage takes and what it holds, as a file that\n"
                "`stepcast schedule eval --stages FILE` reads");
  sub->add_flag("--critical-path", args.critical_path, "the longest chain of the step");
  sub->add_flag("--costs", args.costs, "every price, and how it is known");
  sub->add_option("--price", args.price,
                  "how one of these prices is made, to the last row of a table")
      ->option_text("WORK");
  sub->add_flag("--in-situ", args.in_situ,
                "what kernels, collectives and the host take longer inside a step than measured\n"
                "alone: parameters estimated from published runs, and what each adds");
  sub->add_flag("--links", args.links, "which groups cross which links, and how full they are");
  sub->footer(
      "Without one of these the settings are listed, each with its value and its origin. WORK is "
      "a\n"
      "name that --costs lists: --price 'gemm 15360x5120x4096 bf16 nt accumulate'");
  add_common(sub, args);
}

}  // namespace stepcast::cli
