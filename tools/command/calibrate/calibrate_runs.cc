// SPDX-License-Identifier: Apache-2.0
#include "tools/command/calibrate/calibrate_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/in_situ_fit.h"
#include "calibrate/fit/own_runs.h"
#include "calibrate/fit/own_runs_text.h"
#include "model/passes/forward_only.h"
#include "report/json/writer.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/in_situ_step.h"
#include "scenarios/own_runs.h"
#include "tools/command/output.h"
#include "tools/command/run_input.h"

namespace stepcast::cli {
namespace {

struct TrainedRun {
  std::string name, file, model;
  double measured_s = 0;
  InSituStep step;
  double before_s = 0;               // with what published runs say
  bool doubtful = false;             // before_s is off by more than a factor of two
  double after_s = 0;                // with what all own runs say
  std::optional<double> left_out_s;  // ... what the others say; of one run alone there are none

  double seconds(const InSituValues& values) const { return to_seconds(step.time(values)); }
};

double measured_seconds(const Scenario& s, const Measured& m) {
  if (m.step_time_s) return *m.step_time_s;
  return static_cast<double>(step_tokens(s.plan)) / *m.tokens_per_gpu_s /
         static_cast<double>(s.plan.grid.world());
}

// Adds what there is to doubt to `warnings`.  Throws InputError E314 for what says nothing of a
// step.
TrainedRun trained(MeasuredScenario run, const std::string& file, std::set<std::string>& warnings) {
  Scenario& s = run.scenario;
  if (!run.measured.step_time_s && !run.measured.tokens_per_gpu_s)
    throw file_error("E314", fmt::format("'{}' has no step time and no rate", run.name), file,
                     "measured: {step_time: 13.75s}, or {tokens_per_gpu_s: 5762}");
  if (!s.plan.trains())
    throw file_error("E314", fmt::format("'{}' does not train", run.name), file,
                     "in-situ parameters are of training steps");
  s.own_runs = nullptr;  // the prior is what published runs say
  // Refuses what cannot be run, with its place.
  const Result before = forecast(s, {.what_if = false});
  if (auto doubt = doubt_of_memory(run.name, before)) warnings.insert(std::move(*doubt));
  const double measured = measured_seconds(s, run.measured);
  std::string model = own_model_key(s.model);
  return {std::move(run.name),
          file,
          std::move(model),
          measured,
          InSituStep(std::move(s)),
          0,
          false,
          0,
          {}};
}

// The same parameters hold for all runs.  Throws InputError E313 if they do not.
void check_alike(std::span<const TrainedRun> runs) {
  const auto rows_of = [](const Scenario& s) {
    return in_situ_rows(in_situ_parameters(), s.cluster.node, s.plan.kernels.libraries);
  };
  const Scenario& first = runs.front().step.scenario();
  for (const TrainedRun& run : runs) {
    const Node& node = run.step.scenario().cluster.node;
    if (rows_of(run.step.scenario()) == rows_of(first)) continue;
    throw file_error(
        "E313",
        fmt::format("'{}' was on {}, '{}' on {}: other parameters hold for them", run.name,
                    node.gpu.name, runs.front().name, first.cluster.node.gpu.name),
        run.file,
        "runs of each generation of GPUs, and of each age of software (kernels.libraries), make a "
        "file of their own");
  }
}

// What differs, in the order of the runs.
template <class Word>
std::vector<std::string> words_of(const std::vector<TrainedRun>& runs,
                                  std::span<const size_t> which, const Word& word) {
  std::vector<std::string> all;
  for (const size_t i : which) {
    std::string next = word(runs[i].step.scenario());
    if (std::ranges::find(all, next) == all.end()) all.push_back(std::move(next));
  }
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

struct OwnAnswer {
  std::vector<TrainedRun> runs;
  std::vector<InSituParameter> prior, parameters;
  OwnRunsText file;
};

std::string error_text(double forecast, double measured) {
  const double error = 100 * (forecast / measured - 1);
  return (error > 0 ? "+" : "") + fixed(error, 1) + " %";
}

std::string doubt_of(const TrainedRun& run) {
  return fmt::format(
      "'{}' took {}, {} times the {} that are forecast: it is doubtful, and not used", run.name,
      format_time(time_from_seconds(run.measured_s)), fixed(run.measured_s / run.before_s, 1),
      format_time(time_from_seconds(run.before_s)));
}

// Throws InputError E314 if no run is near its forecast.
std::vector<size_t> near_runs(const std::vector<TrainedRun>& runs) {
  std::vector<size_t> near;
  for (size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].doubtful) near.push_back(i);
  if (!near.empty()) return near;
  std::string text;
  for (const TrainedRun& run : runs) text += (text.empty() ? "" : "; ") + doubt_of(run);
  throw file_error("E314", "nothing can be learnt: " + text, runs.front().file,
                   "`stepcast explain` shows what a scenario is; does it describe the run?");
}

OwnAnswer learn(std::vector<TrainedRun> trained_runs) {
  OwnAnswer answer;
  answer.runs = std::move(trained_runs);
  std::vector<TrainedRun>& runs = answer.runs;
  const Scenario& first = runs.front().step.scenario();
  answer.prior = own_prior(in_situ_parameters(), first.cluster.node, first.plan.kernels.libraries);
  for (TrainedRun& run : runs) {
    run.before_s = run.seconds(values_of(answer.prior));
    run.doubtful = is_other_program(run.measured_s, run.before_s);
  }
  const std::vector<size_t> near = near_runs(runs);
  std::vector<OwnRun> own;
  for (const size_t i : near)
    own.push_back({runs[i].measured_s, runs[i].model,
                   [&run = runs[i]](const InSituValues& values) { return run.seconds(values); },
                   runs[i].step.scenario().model.experts > 0});
  const OwnEstimate estimate = estimate_own_values(own, answer.prior);
  answer.parameters = estimate.parameters;
  for (TrainedRun& run : runs) run.after_s = run.seconds(values_of(answer.parameters));
  for (size_t k = 0; k < near.size() && near.size() > 1; ++k) {
    std::vector<OwnEvidence> others = estimate.runs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    TrainedRun& run = runs[near[k]];
    run.left_out_s = run.seconds(values_of(own_values(others, answer.prior)));
  }
  answer.file = {
      joined(words_of(runs, near, [](const Scenario& s) { return s.cluster.node.gpu.name; })),
      words_of(runs, near, prices_key),
      static_cast<int64_t>(near.size()),
      {},
      answer.parameters};
  for (const size_t i : near)
    answer.file.remarks.push_back(
        fmt::format("run: {:.4g} s measured, {:.4g} s forecast before, {:.4g} s now: {}",
                    runs[i].measured_s, runs[i].before_s, runs[i].after_s, runs[i].name));
  return answer;
}

// Whether runs moved a value, or made it known better.
bool is_learnt(const InSituParameter& before, const InSituParameter& now) {
  constexpr double kBetter = 0.9, kMoved = 0.2;
  return now.sd < kBetter * before.prior_sd ||
         std::abs(now.value - before.prior) > kMoved * before.prior_sd;
}

std::string value_text(double value, double sd) {
  return fmt::format("{:.4g} \u00b1 {:.2g}", value, sd);
}

// What a value means beside that of published runs.
std::string in_words(const InSituParameter& before, const InSituParameter& now) {
  if (neutral_value(now.term) != 1) {
    const double more = now.value - before.prior;
    return fmt::format("{:.2g} {} {} than in published runs", std::abs(more), unit_of(now.term),
                       more < 0 ? "less" : "more");
  }
  const double more = 100 * (now.value / before.prior - 1);
  return fixed(std::abs(more), 1) + (more < 0 ? " % shorter" : " % longer") +
         " than in published runs";
}

std::string as_text(const OwnAnswer& answer, const TextStyle& style) {
  const auto own = std::ranges::count(answer.runs, false, &TrainedRun::doubtful);
  std::string s =
      fmt::format("{} {} on {}, priced by {}\n\n", own, own == 1 ? "run" : "runs",
                  escape_text(answer.file.gpu), escape_text(joined(answer.file.prices)));
  std::vector<std::vector<std::string>> rows = {
      {"run", "measured", "published", "", "with all own runs", "", "without this one", ""}};
  for (const TrainedRun& run : answer.runs) {
    const auto time = [](double seconds) { return format_time(time_from_seconds(seconds)); };
    const auto error = [&](double seconds) { return error_text(seconds, run.measured_s); };
    const double left_out = run.left_out_s.value_or(run.before_s);
    rows.push_back({escape_text(run.name) + (run.doubtful ? " (doubtful)" : ""),
                    time(run.measured_s), time(run.before_s), error(run.before_s),
                    time(run.after_s), error(run.after_s), run.doubtful ? "-" : time(left_out),
                    run.doubtful ? "" : error(left_out)});
  }
  s += titled_table(rows, "<>>>>>>>", style) + '\n';
  rows = {{"what was learnt", "of", "unit", "published", "of this cluster", ""}};
  std::string nothing;
  for (size_t k = 0; k < answer.parameters.size(); ++k) {
    const InSituParameter &before = answer.prior[k], &now = answer.parameters[k];
    if (!is_learnt(before, now)) {
      nothing += (nothing.empty() ? "" : ", ") + std::string(name_of(now.term));
      continue;
    }
    rows.push_back({std::string(name_of(now.term)), now.scope, std::string(unit_of(now.term)),
                    value_text(before.prior, before.prior_sd), value_text(now.value, now.sd),
                    in_words(before, now)});
  }
  if (rows.size() > 1) s += titled_table(rows, "<<<>><", style);
  if (!nothing.empty())
    s += wrap("little was learnt of " + nothing +
                  ": these steps hardly depend on it, or something else explains them as well",
              "  ", style.width);
  for (const TrainedRun& run : answer.runs)
    if (run.doubtful) s += wrap(escape_text(doubt_of(run)), "  ! ", style.width);
  return s;
}

std::string as_json(const OwnAnswer& answer, const std::string& file) {
  return json_document([&](JsonWriter& json) {
    json.member("gpu", answer.file.gpu);
    json.member("prices", joined(answer.file.prices));
    json.objects("runs", answer.runs, [&](const TrainedRun& run) {
      json.member("run", run.name);
      json.member("measured_s", run.measured_s);
      json.member("before_s", run.before_s);
      json.member("after_s", run.after_s);
      if (run.left_out_s) json.member("left_out_s", *run.left_out_s);
      json.member("doubtful", run.doubtful);
    });
    size_t k = 0;
    json.objects("parameters", answer.parameters, [&](const InSituParameter& p) {
      const InSituParameter& before = answer.prior[k++];
      json.member("term", name_of(p.term));
      json.member("scope", p.scope);
      json.member("unit", unit_of(p.term));
      json.member("before", before.prior);
      json.member("before_sd", before.prior_sd);
      json.member("value", p.value);
      json.member("sd", p.sd);
      json.member("learnt", is_learnt(before, p));
    });
    if (!file.empty()) json.member("file", file);
  });
}

}  // namespace

int calibrate_runs_command(const Arguments& args, const Terminal& terminal) {
  if (args.json && args.output == "-")
    usage_error("E004", "--json and the file cannot both go to standard output",
                "-o FILE names a file for what was learnt");
  std::vector<TrainedRun> runs;
  std::set<std::string> names, warnings;
  for (const std::string& file : args.files)
    for (MeasuredScenario& run : read_measured_runs(file, args, names)) {
      warnings.insert(run.scenario.warnings.begin(), run.scenario.warnings.end());
      runs.push_back(trained(std::move(run), file, warnings));
    }
  check_alike(runs);
  const OwnAnswer answer = learn(std::move(runs));
  const std::string file = write_own_runs(answer.file);
  const bool to_file = !args.output.empty() && args.output != "-";
  if (to_file) deliver(file, args.output, args.force);
  for (const std::string& w : warnings)
    if (!args.quiet) write_stderr(wrap(escape_text(w), "warning: ", terminal.err.width));
  write_stdout(args.json ? as_json(answer, to_file ? "" : file)
               : to_file ? as_text(answer, terminal.out)
                         : file);
  return 0;
}

}  // namespace stepcast::cli
