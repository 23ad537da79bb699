// SPDX-License-Identifier: Apache-2.0
// stepcast validate FILE...: read, resolve and check only.
#include <algorithm>

#include "forecast/forecast.h"
#include "report/diagnostics.h"
#include "report/json_writer.h"
#include "tools/command.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

struct Verdict {
  std::string file;
  int status = 0;
  std::string name;
  int64_t gpus = 0;
  std::vector<std::string> warnings;
  std::vector<Diagnostic> errors;
};

Verdict check(const std::string& file, const Arguments& args) {
  Verdict v;
  v.file = file;
  try {
    Scenario scenario = load(file, args);
    v.name = scenario.name;
    v.gpus = scenario.plan.tp * scenario.plan.cp * scenario.plan.pp * scenario.plan.dp;
    v.warnings = std::move(scenario.warnings);
  } catch (const InputError& e) {
    v.status = e.exit_status;
    v.errors = e.diagnostics;
  }
  return v;
}

std::string as_json(std::span<const Verdict> verdicts) {
  JsonWriter json;
  json.begin_object();
  json.key("files");
  json.begin_array();
  for (const Verdict& v : verdicts) {
    json.begin_object();
    json.member("file", v.file);
    json.member("ok", v.status == 0);
    if (v.status == 0) {
      json.member("name", v.name);
      json.member("gpus", v.gpus);
    }
    json.key("warnings");
    json.begin_array();
    for (const std::string& w : v.warnings) json.value(w);
    json.end_array();
    json.key("errors");
    json.begin_array();
    for (const Diagnostic& d : v.errors) write_diagnostic(json, d);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text() + '\n';
}

}  // namespace

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
                   escape_text(v.name) + ", " + grouped(v.gpus) + " GPUs)\n");
    for (const std::string& w : v.warnings)
      if (!args.quiet)
        write_stderr(wrap(escape_text(w), escape_text(v.file) + ": warning: ", terminal.err.width));
  }
  return status;
}

}  // namespace stepcast::cli
