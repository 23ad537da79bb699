// SPDX-License-Identifier: Apache-2.0
// stepcast train FILE: the whole training run of which the scenario is a step.
#include "report/text/train.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "job/training.h"
#include "scenarios/document/number.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/page.h"

namespace stepcast::cli {
namespace {

int train_command(const Arguments& args, const Terminal& terminal) {
  Arguments given = args;
  if (args.gpu_price) given.set.push_back(fmt::format("job.price={}USD/GPUh", *args.gpu_price));
  if (!args.train.tokens.empty()) given.set.push_back("job.tokens=" + args.train.tokens);
  TrainOptions options;
  options.replicas = args.train.replicas.value_or(0);
  if (options.replicas > kMostReplicas)
    usage_error("E004", fmt::format("--replicas {} are too many", options.replicas),
                fmt::format("at most {}", kMostReplicas));
  options.seed = static_cast<uint64_t>(args.train.seed.value_or(0));
  options.days = args.train.days;
  for (const std::string& n : args.train.gpus)
    for (const int64_t gpus : parse_gpus(n)) options.gpus.push_back(gpus);
  check_page_options(args);
  const ScenarioDocument document = read_scenario(args.file, given);
  const TrainingResult result = train(document, options);
  if (!args.html.empty()) write_train_page(result, document.resolve(), args);
  write_stdout(args.json ? training_json(result, version()) : training_text(result, terminal.out));
  if (!args.quiet && !args.json)
    for (const std::string& w : result.warnings)
      write_stderr(wrap(escape_text(w), "warning: ", terminal.err.width));
  return args.fail_on_oom && !result.fullest.fits ? kExitOutOfMemory : 0;
}

}  // namespace

void add_train(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(
      app, "train", "Forecast a whole training run: days, failures, checkpoints, energy, price",
      chosen, train_command);
  add_scenario(sub, args);
  sub->add_option("--tokens", args.train.tokens, "to train on: 15.6T; instead of job.tokens")
      ->option_text("COUNT");
  add_quantity(
      sub, "--days", args.train.days,
      [](const Value& v, std::string_view what, Problems& problems) {
        Value days = v;  // a Time ends before four months
        if (days.text.ends_with('d')) days.text.pop_back();
        return read_number(days, what, problems, true);
      },
      "also find the fewest GPUs that take no longer, as replicas of the layout: 60, 60d",
      "NUMBER");
  add_quantity(
      sub, "--price", args.gpu_price,
      [](const Value& v, std::string_view, Problems& problems) { return read_price(v, problems); },
      "of a GPU and hour, instead of job.price: 2.5USD/GPUh", "PRICE");
  sub->add_option("--gpus", args.train.gpus,
                  "also on so many GPUs: 8192,16384, or 1024..8192, doubled each time")
      ->delimiter(',')
      ->option_text("N,...");
  add_count(sub, "--replicas", args.train.replicas, 1,
            "also draw so many runs, with failures at random");
  add_count(sub, "--seed", args.train.seed, 0, "of what is drawn; default 0");
  sub->add_flag("--fail-on-oom", args.fail_on_oom, "exit with 3 if a step does not fit in memory");
  add_html(sub, args);
  add_force(sub, args);
  sub->footer(
      "The section job of FILE says what is known of the run (docs/training_runs.md): tokens,\n"
      "failures, checkpoints, spares, power, price. What it does not say has a published default,\n"
      "printed with its source, or no line: no price, PUE or carbon is assumed.\n\n"
      "  stepcast train run.yaml --tokens 15.6T --days 60 -s job.price=2.5USD/GPUh");
  add_common(sub, args);
}

}  // namespace stepcast::cli
