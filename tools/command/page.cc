// SPDX-License-Identifier: Apache-2.0
#include "tools/command/page.h"

#include <fmt/format.h>

#include <functional>

#include "report/format.h"
#include "report/html/page.h"
#include "sim/results/step_ranking.h"
#include "sim/text.h"
#include "stepcast/page_facts.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

// What makes the report again; where it was written is left out, so that equal reports are equal.
std::string command_of(const Arguments& args, std::string command) {
  if (!args.file.empty()) command += ' ' + shell_word(args.file);
  for (const std::string& file : args.files) command += ' ' + shell_word(file);
  for (const std::string& word : args.given) command += ' ' + shell_word(word);
  for (const std::string& schedule : args.schedules)
    command +=
        (&schedule == &args.schedules.front() ? " --schedules " : ",") + shell_word(schedule);
  for (const std::string& where : args.where) command += " --where " + shell_word(where);
  if (!args.objectives.empty())
    command += (command.starts_with("stepcast report") ? " --by " : " --objective ") +
               shell_word(join(args.objectives, ","));
  if (!args.with_schedules.empty())
    command += " --schedules " + shell_word(join(args.with_schedules, ","));
  if (!args.gpus.empty()) command += " --gpus " + shell_word(args.gpus);
  if (args.pareto) command += " --pareto";
  if (args.memory_margin) command += fmt::format(" --memory-margin {}", *args.memory_margin);
  if (args.tokens) command += fmt::format(" --tokens {}", *args.tokens);
  if (args.gpu_price) command += fmt::format(" --price {}USD/GPUh", *args.gpu_price);
  if (args.top) command += " --top " + std::to_string(*args.top);
  if (args.budget)
    command += " --budget " + exact_decimal(args.budget->count(), 1'000'000'000'000) + 's';
  for (const std::string& set : args.set) command += " -s " + shell_word(set);
  if (!args.root.empty()) command += " --root " + shell_word(args.root);
  if (!args.ranks.empty()) command += " --ranks " + shell_word(args.ranks);
  if (args.what_if) command += " --what-if";
  const TrainArguments& train = args.train;
  if (!train.tokens.empty()) command += " --tokens " + shell_word(train.tokens);
  if (train.days) command += fmt::format(" --days {}", *train.days);
  if (!train.gpus.empty()) command += " --gpus " + shell_word(join(train.gpus, ","));
  if (train.replicas) command += fmt::format(" --replicas {}", *train.replicas);
  if (train.seed) command += fmt::format(" --seed {}", *train.seed);
  return command;
}

void write_to_file(const std::string& name, const Arguments& args,
                   const std::function<void(const PageSink&)>& write) {
  OutputFile file(name, args.force);
  write([&](std::string_view piece) { file.write(piece); });
  file.commit();
  if (!args.quiet) write_stderr("report: " + escape_text(name) + "; any browser opens it\n");
}

}  // namespace

void check_page_options(const Arguments& args) {
  if (args.html.empty()) return;
  if (args.html == "-")
    usage_error("E004", "the report goes to a file, standard output is for the answer",
                "for example: --html step.html");
  if (args.html == args.trace) usage_error("E004", "--html and --trace name the same file");
  refuse_existing(args.html, args.force);
}

void write_page(const Result& result, const Scenario& scenario, const Arguments& args) {
  const PageFacts facts =
      page_facts_of(result, scenario, version(), command_of(args, "stepcast run"));
  write_to_file(args.html, args,
                [&](const PageSink& sink) { write_run_page(result, facts, sink); });
}

void write_compare_page(std::span<const Result> results, std::span<const Scenario> scenarios,
                        std::span<const std::string> names, size_t baseline,
                        std::span<const std::optional<TrainingPlan>> whole_runs,
                        std::span<const LeftOut> left_out, const Arguments& args) {
  const std::vector<PageCase> cases = page_cases_of(results, scenarios, names, whole_runs);
  PageFacts facts;
  facts.version = version();
  facts.command = command_of(args, "stepcast compare");
  facts.model = model_facts_of(scenarios);
  write_to_file(args.html, args, [&](const PageSink& sink) {
    write_compare_page(cases, baseline, facts, left_out, sink);
  });
}

void write_search_page(const SearchResult& search, const StepPoints& points, const Scenario* best,
                       const Arguments& args) {
  PageFacts facts;
  facts.version = version();
  facts.command = command_of(args, "stepcast search");
  if (best != nullptr) facts.settings = setting_lines_of(*best);
  if (best != nullptr) facts.model = model_facts_of({best, 1});
  facts.settings_of = " of the best layout";
  write_to_file(args.html, args,
                [&](const PageSink& sink) { write_search_page(search, points, facts, sink); });
}

void write_train_page(const TrainingResult& run, const Scenario& scenario, const Arguments& args) {
  PageFacts facts;
  facts.version = version();
  facts.command = command_of(args, "stepcast train");
  facts.description = scenario.description;
  facts.model = model_facts_of({&scenario, 1});
  facts.settings = setting_lines_of(scenario);
  write_to_file(args.html, args, [&](const PageSink& sink) { write_train_page(run, facts, sink); });
}

void write_store_page(StorePage& page, const std::vector<std::string>& files,
                      const Arguments& args) {
  PageFacts facts;
  facts.version = version();
  facts.command = command_of(args, "stepcast report");
  facts.files = files;
  write_to_file(args.output, args,
                [&](const PageSink& sink) { write_store_page(page, facts, sink); });
}

}  // namespace stepcast::cli
