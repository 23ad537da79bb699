// SPDX-License-Identifier: Apache-2.0
// What importing a run found, as JSON: `stepcast import KIND FILE --json`.
#pragma once

#include <string>

#include "scenarios/frameworks/import_run.h"

namespace stepcast {

// {"scenario": its YAML, "used", "without_effect": counts of arguments,
//  "unknown": [{name, line, col, did_you_mean}], "notes": [...]}
std::string import_json(const ImportedRun& run);

}  // namespace stepcast
