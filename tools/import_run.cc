// SPDX-License-Identifier: Apache-2.0
#include "tools/import_run.h"

#include "report/json_writer.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

std::string shown(const std::string& file) {
  return file == "-" ? "<stdin>" : file;
}

std::string remarks(const ImportedRun& run, const std::string& file) {
  std::string text;
  for (const UnknownPlace& u : run.unknown)
    text += file + ':' + std::to_string(u.line) + ':' + std::to_string(u.column) +
            ": unknown argument '" + u.name + "': whether it changes the cost is not known\n";
  for (const std::string& note : run.notes) text += "note: " + note + '\n';
  return text;
}

std::string as_json(const ImportedRun& run) {
  JsonWriter json;
  json.begin_object();
  json.member("scenario", run.scenario);
  json.member("used", run.used);
  json.member("without_effect", run.ignored);
  json.objects("unknown", run.unknown, [&](const UnknownPlace& u) {
    json.member("name", u.name);
    json.member("line", u.line);
    json.member("col", u.column);
  });
  json.key("notes");
  json.begin_array();
  for (const std::string& note : run.notes) json.value(note);
  json.end_array();
  json.end_object();
  return json.text() + '\n';
}

}  // namespace

std::string imported_summary(const ImportedRun& run) {
  return "imported " + std::to_string(run.used) + " cost-relevant arguments (" +
         std::to_string(run.unknown.size()) + " unknown, " + std::to_string(run.ignored) +
         " without effect on cost)" + (run.measured.empty() ? "" : " and " + run.measured) + '\n';
}

bool is_run_kind(const std::string& kind) {
  for (const std::string_view k : import_kinds())
    if (k == kind) return true;
  return false;
}

std::string run_kinds() {
  std::string names;
  for (const std::string_view k : import_kinds())
    names += (names.empty() ? "" : ", ") + std::string(k);
  return names;
}

ImportRequest import_request(const Arguments& args, const std::string& kind,
                             const std::string& file) {
  const ImportArguments& a = args.import;
  ImportRequest request;
  request.kind = kind;
  request.file = shown(file);
  request.text = read_whole_file(file);
  if (!a.model.empty()) {
    request.model_file = shown(a.model);
    request.model_text = read_whole_file(a.model);
  }
  if (!a.preset.empty()) {
    request.cluster.preset = a.preset;
    request.cluster.assumed = false;
  }
  request.cluster.gpu = a.gpu;
  request.set = parse_sets(args.set);
  return request;
}

int import_run_command(const Arguments& args) {
  const ImportRequest request = import_request(args, args.import.kind, args.import.file);
  const ImportedRun run = import_run(request);
  if (args.json) {
    write_stdout(as_json(run));
    return 0;
  }
  deliver(run.scenario, args.import.output, args.force);
  write_stderr(remarks(run, request.file) + imported_summary(run));
  return 0;
}

}  // namespace stepcast::cli
