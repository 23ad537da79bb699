// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_run.h"

#include <array>

#include "scenarios/frameworks/importers.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

using Importer = void (*)(const ImportSources&, const ImportCluster&, ScenarioDraft&,
                          ImportCounts&);
constexpr std::array<std::string_view, 7> kKinds{
    "hf", "megatron-args", "megatron-log", "bridge", "torchtitan", "deepspeed", "nanotron"};
constexpr std::array<Importer, 7> kImporters{
    import_hf,         import_megatron_args, import_megatron_log, import_bridge,
    import_torchtitan, import_deepspeed,     import_nanotron};

// The last part of a path, without its ending.
std::string stem(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) name.erase(dot);
  return name.empty() || name == "<stdin>" ? "imported" : name;
}

// A value may be legal where it stood and still be too deep or too long in a scenario.
void refuse_unreadable(Problems& problems, const SourceRef& file, const std::string& scenario) {
  Problems written;
  parse_yaml(written, written.add_source({"written", scenario, false}));
  if (!written.any()) return;
  problems.add("E331",
               "what this file says cannot be written as a scenario: " +
                   written.diagnostics().front().message,
               {file, 0, 0});
  problems.throw_if_any();
}

}  // namespace

std::span<const std::string_view> import_kinds() {
  return kKinds;
}

ImportedRun import_run(const ImportRequest& request) {
  size_t kind = 0;
  while (kind < kKinds.size() && kKinds[kind] != request.kind) ++kind;
  STEPCAST_CHECK(kind < kKinds.size(), "no such kind: " + request.kind);

  Problems problems;
  const SourceRef file = problems.add_source({request.file, request.text, false});
  SourceRef config;
  if (!request.model_file.empty())
    config = problems.add_source({request.model_file, request.model_text, false});
  ScenarioDraft draft;
  ImportCounts counts;
  draft.set("schema", int64_t{1}, "");
  draft.set_text("name", stem(request.file), "");
  kImporters[kind]({problems, file, config, request.set}, request.cluster, draft, counts);
  for (const auto& [path, value] : request.set) draft.override_with(path, value);
  problems.throw_if_any();

  ImportedRun run;
  run.used = counts.used;
  run.ignored = counts.ignored;
  for (const UnknownArgument& u : counts.unknown)
    run.unknown.push_back({u.written, u.mark.line, u.mark.column, u.near});
  run.notes = draft.notes();
  run.measured = counts.measured;
  std::string head = "A scenario from " + escape_text(request.file) + " (" + request.kind + ").";
  for (const UnknownPlace& u : run.unknown)
    head += "\n- not understood: " + escape_text(u.name) + " in line " + std::to_string(u.line) +
            (u.near.empty() ? "" : "; did you mean " + escape_text(u.near) + "?");
  run.scenario = draft.text(head);
  refuse_unreadable(problems, file, run.scenario);
  return run;
}

}  // namespace stepcast
