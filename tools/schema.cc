// SPDX-License-Identifier: Apache-2.0
// stepcast schema: the JSON Schema of scenario files, for editors.
#include "scenarios/json_schema.h"
#include "tools/options.h"
#include "tools/output.h"

namespace stepcast::cli {

void add_schema(CLI::App& app, Arguments& args, Command& chosen) {
  add_common(
      add_command(app, "schema", "Print the JSON Schema of scenario files, for editors", chosen,
                  [](const Arguments&, const Terminal&) {
                    write_stdout(scenario_json_schema());
                    return 0;
                  }),
      args);
}

}  // namespace stepcast::cli
