// SPDX-License-Identifier: Apache-2.0
// stepcast schema: the JSON Schema of scenario files, for editors.
#include "scenarios/fields.h"
#include "tools/command.h"
#include "tools/output.h"

namespace stepcast::cli {

int schema_command(const Arguments&, const Terminal&) {
  write_stdout(scenario_json_schema());
  return 0;
}

}  // namespace stepcast::cli
