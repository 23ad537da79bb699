// SPDX-License-Identifier: Apache-2.0
// The file that a command is about: a scenario, or a file of another tool, which is imported first.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "scenarios/document/config_folder.h"
#include "tools/command/import.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

// The importer that reads `file`; empty for scenarios, and for what is left to their reader to
// refuse: files that are missing, special or too large.
std::string kind_of_input(const std::string& file, const Arguments& args) {
  std::error_code none;
  constexpr uintmax_t kMost = uintmax_t{64} << 20;
  if (file != "-" && (!std::filesystem::is_regular_file(file, none) ||
                      std::filesystem::file_size(file, none) > kMost))
    return {};
  const std::string kind(kind_of_file(file == "-" ? standard_input() : read_whole_file(file)));
  return kind == "hf" && !says_the_run(parse_sets(args.set)) ? std::string() : kind;
}

// Only scripts are started with words.
void refuse_words(const Arguments& args) {
  if (!args.given.empty())
    usage_error("E003", "'" + args.given.front() + "' is one argument too many",
                "one scenario at a time; `stepcast compare` takes several, and words after the "
                "file are for scripts");
}

// A file behind a script that takes no words is meant for a second scenario.
void refuse_files(const std::string& script, const Arguments& args) {
  if (args.given.empty() || reads_words(script == "-" ? standard_input() : read_whole_file(script)))
    return;
  std::error_code none;
  for (const std::string& word : args.given)
    if (std::filesystem::is_regular_file(word, none))
      usage_error("E003", "'" + word + "' is one argument too many: the script reads no $1",
                  "one scenario at a time; `stepcast compare` takes several");
}

// What a file leaves open can be said to `stepcast import` in more ways than to other commands.
ImportedRun import_with_advice(const ImportRequest& request, const std::string& file) {
  try {
    return import_run(request);
  } catch (InputError& e) {
    for (Diagnostic& d : e.diagnostics)
      if (d.code == "E332")
        d.note = fmt::format(
            "{}{}`stepcast import auto {} -o run.yaml`, which writes the scenario, takes --model "
            "and words after the file",
            d.note, d.note.empty() ? "" : "; ", file);
    throw;
  }
}

}  // namespace

std::optional<std::string> imported_scenario(const std::string& file, const Arguments& args) {
  const std::string kind = kind_of_input(file, args);
  if (kind == "megatron-args")
    refuse_files(file, args);
  else
    refuse_words(args);
  if (kind.empty()) return {};
  ImportRequest request = import_request(args, kind, file);
  const ImportedRun run = import_with_advice(request, file);
  if (!args.quiet && args.told.insert(file).second)
    write_stderr(imported_remarks(run) + imported_summary(run));
  return run.scenario;
}

ScenarioDocument read_scenario(const std::string& file, const Arguments& args) {
  const std::string path = config_in(file);
  // What --set says went into the import.
  if (auto imported = imported_scenario(path, args)) {
    ScenarioDocument made =
        ScenarioDocument::of_text(std::move(*imported), "imported from " + shown_name(path),
                                  args.root, path == "-" ? shown_name(path) : path);
    made.mark_imported();
    return made;
  }
  if (!args.log.empty() && !args.preset.empty())
    usage_error("E003", "--preset is for files that are imported, and '" + file + "' is a scenario",
                "-s cluster.preset=NAME changes its cluster");
  LoadOptions options;
  options.set = parse_sets(args.set);
  ScenarioDocument document =
      file == "-" ? ScenarioDocument::of_text(standard_input(), shown_name(file), args.root)
                  : ScenarioDocument::of_file(path, args.root);
  document.set(options);
  if (writes_files(args)) refuse_overwriting(document.files(), args);
  return document;
}

}  // namespace stepcast::cli
