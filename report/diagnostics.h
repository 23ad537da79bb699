// SPDX-License-Identifier: Apache-2.0
// Diagnostics as a compiler shows them:
//
//   error[E102]: unknown key 'global_batch_size' in 'batch'
//     --> run.yaml:5:3
//      |
//    5 |   global_batch_size: 256
//      |   ^^^^^^^^^^^^^^^^^ did you mean 'global'?
//      = note: Megatron's --global-batch-size is batch.global here
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/format.h"
#include "report/json/writer.h"
#include "sim/diagnostic.h"

namespace stepcast {

std::string render_diagnostic(const Diagnostic& d, const TextStyle& style = {});

// All of them, then "2 errors. `stepcast help E210` explains a code. Nothing was run."
// `outcome` replaces "Nothing was run."
std::string render_diagnostics(std::span<const Diagnostic> all, const TextStyle& style = {},
                               std::string_view outcome = "Nothing was run.");

// {"error": {"code": ..., "file": ..., "line": ..., ...}, "errors": [...]}: the first one and all.
// REQUIRES: !all.empty().
std::string diagnostics_json(std::span<const Diagnostic> all);
// The members of one of them, in an object that is open.
void write_diagnostic(JsonWriter& json, const Diagnostic& d);

// --- The codes, explained: what `stepcast help CODE` prints
//
//   E0xx  the command line            E1xx  reading a scenario: text, numbers, units, files
//   E2xx  a scenario that cannot be   E30x  cost tables   E32x  topologies
//   E33x  files of other tools        E34x  measuring     E4xx  schedules
//   E5xx  reading and writing files

struct ErrorCode {
  std::string_view code;         // "E102"
  std::string_view title;        // "unknown key"
  std::string_view explanation;  // why it is an error, and what to do
};

// All of them, by code.
std::span<const ErrorCode> error_codes();
// nullptr if there is none.
const ErrorCode* find_error_code(std::string_view code);

}  // namespace stepcast
