// SPDX-License-Identifier: Apache-2.0
// stepcast export KIND SCENARIO: what makes another tool run it.
#include "tools/export.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "frameworks/export_megatron.h"
#include "report/json_writer.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

int export_command(const Arguments& args, const Terminal&) {
  const ImportArguments& a = args.import;
  if (a.kind != "megatron-args")
    usage_error("E004", "there is no export of " + a.kind, "megatron-args");
  const ExportedArguments exported = export_megatron(load(a.file, args));
  if (args.json) {
    JsonWriter json;
    json.begin_object();
    json.member("text", exported.text);
    json.key("notes");
    json.begin_array();
    for (const std::string& note : exported.notes) json.value(note);
    json.end_array();
    json.end_object();
    write_stdout(json.text() + '\n');
    return 0;
  }
  deliver(exported.text, a.output, args.force);
  for (const std::string& note : exported.notes) write_stderr("note: " + note + '\n');
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Arguments& args, Command& command) {
  CLI::App* sub = app.add_subcommand("export", "Write the arguments of another tool");
  sub->callback([&command] { command = export_command; });
  sub->footer(
      "KIND:\n"
      "  megatron-args  the command line that makes Megatron-LM train the scenario");
  ImportArguments& a = args.import;
  sub->add_option("KIND", a.kind, "megatron-args")->required()->option_text(" ");
  sub->add_option("SCENARIO", a.file, "scenario; - is standard input")
      ->required()
      ->option_text(" ");
  sub->add_option("-s,--set", args.set, "set a value, as often as needed: -s parallel.tp=4")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  sub->add_option("--root", args.root, "directory that `extends` may not leave")
      ->option_text("DIR");
  sub->add_option("-o,--output", a.output, "write to a file")->option_text("FILE");
  sub->add_flag("--force", args.force, "overwrite existing outputs");
  add_common(sub, args);
}

}  // namespace stepcast::cli
