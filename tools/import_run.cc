// SPDX-License-Identifier: Apache-2.0
#include "tools/import_run.h"

#include <fmt/format.h>

#include "report/json/writer.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

std::string remarks(const ImportedRun& run, const std::string& file) {
  std::string text;
  for (const UnknownPlace& u : run.unknown)
    text += fmt::format("{}:{}:{}: unknown argument '{}': {}\n", escape_text(file), u.line,
                        u.column, escape_text(u.name),
                        u.near.empty() ? "whether it changes the cost is not known"
                                       : fmt::format("did you mean {}?", escape_text(u.near)));
  for (const std::string& note : run.notes) text += fmt::format("note: {}\n", escape_text(note));
  return text;
}

std::string as_json(const ImportedRun& run) {
  return json_document([&](JsonWriter& json) {
    json.member("scenario", run.scenario);
    json.member("used", run.used);
    json.member("without_effect", run.ignored);
    json.objects("unknown", run.unknown, [&](const UnknownPlace& u) {
      json.member("name", u.name);
      json.member("line", u.line);
      json.member("col", u.column);
      if (!u.near.empty()) json.member("did_you_mean", u.near);
    });
    json.values("notes", run.notes);
  });
}

}  // namespace

std::string imported_summary(const ImportedRun& run) {
  return fmt::format(
      "imported {} cost-relevant arguments ({} unknown, {} without effect on cost){}\n", run.used,
      run.unknown.size(), run.ignored,
      run.measured.empty() ? "" : " and " + escape_text(run.measured));
}

ImportRequest import_request(const Arguments& args, const std::string& kind,
                             const std::string& file) {
  ImportRequest request;
  request.kind = kind;
  request.file = shown_name(file);
  request.text = read_whole_file(file);
  if (!args.model.empty()) {
    request.model_file = shown_name(args.model);
    request.model_text = read_whole_file(args.model);
  }
  if (!args.preset.empty()) {
    request.cluster.preset = args.preset;
    request.cluster.assumed = false;
  }
  request.cluster.gpu = args.gpu;
  request.set = parse_sets(args.set);
  return request;
}

int import_run_command(const Arguments& args) {
  const ImportRequest request = import_request(args, args.kind, args.file);
  const ImportedRun run = import_run(request);
  if (args.json) {
    write_stdout(as_json(run));
    return 0;
  }
  deliver(run.scenario, args.output, args.force);
  if (!args.quiet) write_stderr(remarks(run, request.file) + imported_summary(run));
  return 0;
}

}  // namespace stepcast::cli
