// SPDX-License-Identifier: Apache-2.0
// The field table as JSON Schema (draft 2020-12), with which editors complete and check scenarios.
#pragma once

#include <string>

namespace stepcast {

// One object a line, ends with '\n'.
std::string scenario_json_schema();

}  // namespace stepcast
