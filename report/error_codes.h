// SPDX-License-Identifier: Apache-2.0
// The codes of Diagnostics, explained: what `stepcast help CODE` prints.
//
//   E0xx  the command line            E1xx  reading a scenario: text, numbers, units, files
//   E2xx  a scenario that cannot be   E30x  cost tables   E32x  topologies
//   E33x  files of other tools        E34x  measuring     E4xx  schedules
//   E5xx  reading and writing files
#pragma once

#include <span>
#include <string_view>

#include "sim/diagnostic.h"

namespace stepcast {

struct ErrorCode {
  std::string_view code;         // "E102"
  std::string_view title;        // "unknown key"
  std::string_view explanation;  // why it is an error, and what to do
};

// What the command exits with for these problems: 7 if a file cannot be read or written, else 4 if
// a schedule deadlocks, else 2.
int exit_status_of(std::span<const Diagnostic> problems);

// All of them, by code.
std::span<const ErrorCode> error_codes();
// nullptr if there is none.
const ErrorCode* find_error_code(std::string_view code);

}  // namespace stepcast
