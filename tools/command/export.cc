// SPDX-License-Identifier: Apache-2.0
// stepcast export KIND FILE: what makes another tool run it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <fmt/format.h>

#include "report/json/writer.h"
#include "scenarios/frameworks/megatron/export.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

int export_command(const Arguments& args, const Terminal&) {
  parse_word("export of", args.kind, {"megatron-args"});
  const ExportedArguments exported = export_megatron(load(args.file, args));
  if (args.json) {
    write_stdout(json_document([&](JsonWriter& json) {
      json.member("text", exported.text);
      json.values("notes", exported.notes);
    }));
    return 0;
  }
  deliver(exported.text, args.output, args.force);
  if (!args.quiet)
    for (const std::string& note : exported.notes)
      write_stderr(fmt::format("note: {}\n", escape_text(note)));
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "export", "Write a scenario as the arguments of another tool",
                              chosen, export_command);
  sub->footer(
      "KIND:\n"
      "  megatron-args  the command line that makes Megatron-LM train the scenario\n\n"
      "What Megatron cannot be told is said on standard error; a model that pretrain_gpt.py\n"
      "does not train, such as one with an encoder, is refused. Data and tokenizer, of which a\n"
      "scenario says nothing, are mock ones: stepcast export megatron-args run.yaml -o train.sh");
  sub->add_option("KIND", args.kind, "megatron-args")->required()->option_text(" ");
  add_scenario(sub, args);
  add_output(sub, args);
  add_common(sub, args);
}

}  // namespace stepcast::cli
