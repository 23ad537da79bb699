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

#include "report/format.h"
#include "report/json_writer.h"
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

}  // namespace stepcast
