// SPDX-License-Identifier: Apache-2.0
// stepcast schema: the JSON Schema of scenario files, for editors.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "scenarios/schema/keys.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {

void add_schema(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "schema", "Print the JSON Schema of scenario files, for editors",
                              chosen, [](const Arguments&, const Terminal&) {
                                write_stdout(scenario_json_schema());
                                return 0;
                              });
  sub->footer(
      "Editors complete and check a scenario whose first line names the file (YAML extension of\n"
      "VS Code and others): # yaml-language-server: $schema=scenario.schema.json");
  add_common(sub, args);
}

}  // namespace stepcast::cli
