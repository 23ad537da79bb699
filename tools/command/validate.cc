// SPDX-License-Identifier: Apache-2.0
// stepcast validate FILE...: read, resolve, check, and say whether it fits: nothing takes time.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>

#include "job/training.h"
#include "report/diagnostics.h"
#include "report/json/result.h"
#include "report/json/writer.h"
#include "report/text/run.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/search/space.h"
#include "scenarios/search/sweep.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/search_advice.h"

namespace stepcast::cli {
namespace {

struct Verdict {
  std::string file;
  int status = 0;
  std::string name;
  int64_t gpus = 0;
  bool trains = true;
  std::optional<Result> memory;
  std::vector<std::string> warnings;
  std::vector<Diagnostic> errors;
};

// What `search` and `sweep` would say of their sections.
void add_section_problems(std::vector<Diagnostic>& errors, const ScenarioDocument& document) {
  const auto add = [&](const char* section, auto read) {
    if (document.tree().find(section) == nullptr) return;
    try {
      read();
    } catch (const InputError& e) {
      for (const Diagnostic& d : e.diagnostics)
        if (std::ranges::none_of(errors, [&](const Diagnostic& said) {  // of the whole file
              return said.code == d.code && said.line == d.line && said.message == d.message;
            }))
          errors.push_back(d);
    }
  };
  add("search", [&] { SearchSpace{document}; });
  add("sweep", [&] { SweepSpace{document}; });
}

Verdict check(const std::string& file, const Arguments& args) {
  Verdict v;
  v.file = file;
  try {
    Scenario scenario = load_or_advise(file, args);
    v.name = scenario.name;
    v.gpus = scenario.plan.grid.world();
    v.trains = scenario.plan.trains();
    v.memory = forecast_memory(scenario);
    v.warnings = std::move(scenario.warnings);
    const ScenarioDocument document = read_scenario(file, args);
    add_job_problems(v.errors, document, &scenario);
    add_section_problems(v.errors, document);
  } catch (const InputError& e) {
    v.errors = e.diagnostics;
    try {
      const ScenarioDocument document = read_scenario(file, args);
      add_job_problems(v.errors, document, nullptr);
      add_section_problems(v.errors, document);
    } catch (const InputError&) {
      // A file that cannot be read to its end: that has been said.
    }
  }
  if (!v.errors.empty()) v.status = exit_status_of(v.errors);
  return v;
}

std::string as_json(std::span<const Verdict> verdicts) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    json.objects("files", verdicts, [&](const Verdict& v) {
      json.member("file", v.file);
      json.member("ok", v.status == 0);
      if (v.status == 0) {
        json.member("name", v.name);
        json.member("gpus", v.gpus);
        if (v.memory) {
          write_memory(json, *v.memory);
        } else {
          json.key("memory");
          json.null();
        }
      }
      json.values("warnings", v.warnings);
      json.objects("errors", v.errors, [&](const Diagnostic& d) { write_diagnostic(json, d); });
    });
  });
}

// "; 66.1 of 76.3 GiB: fits, 13 % free"
std::string memory_text(const Verdict& v, const TextStyle& style) {
  if (!v.memory) return "";
  const Result& r = *v.memory;
  return "; " + gib(r.memory_reserved) + " of " + gib(r.memory_usable) +
         " GiB: " + paint(memory_verdict(r), tone_of(fit_of(r)), style);
}

int validate_command(const Arguments& args, const Terminal& terminal) {
  std::vector<Verdict> verdicts;
  for (const std::string& file : args.files) verdicts.push_back(check(file, args));
  int status = 0;
  for (const Verdict& v : verdicts) status = std::max(status, v.status);
  if (args.json) {
    write_stdout(as_json(verdicts));
    return status;
  }
  for (const Verdict& v : verdicts) {
    if (v.status != 0) {
      write_stderr(render_diagnostics(v.errors, terminal.err, ""));
      continue;
    }
    if (!args.quiet)
      write_stdout(escape_text(v.file) + ": " + paint("ok", Tone::good, terminal.out) + "  (" +
                   escape_text(v.name) + ", " + grouped(v.gpus) + " GPUs" +
                   memory_text(v, terminal.out) + ")\n");
    if (v.memory && !args.quiet) {
      const std::string advice = search_advice(v.file, args, v.memory->fits, v.gpus, v.trains);
      if (!advice.empty()) write_stdout(wrap(advice, "  ", terminal.out.width));
    }
    for (const std::string& w : v.warnings)
      if (!args.quiet)
        write_stderr(wrap(escape_text(w), escape_text(v.file) + ": warning: ", terminal.err.width));
  }
  return status;
}

}  // namespace

void add_validate(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "validate", "Read and check scenarios, and whether they fit",
                              chosen, validate_command);
  add_files(sub, args, "FILE", "scenarios; - is standard input");
  add_scenario_options(sub, args);
  sub->footer(
      "All mistakes of a file are printed at once, with what would be legal.  Of a legal one: "
      "what\n"
      "the fullest rank reserves, of what is usable, and how surely that fits (docs/trust.md).\n"
      "No time is simulated.  Schedules that are made for their costs are known to `run` alone.");
  add_common(sub, args);
}

}  // namespace stepcast::cli
