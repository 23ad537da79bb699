// SPDX-License-Identifier: Apache-2.0
// Output of the programs of NVIDIA/nccl-tests (all_reduce_perf and the others).
//
// The text in all its layouts: with and without the root column, `error` or `#wrong`, per-iteration
// columns and timestamps, prefixes of srun and mpirun on each line, lines of others between,
// several runs in one file.  The JSON that -J writes.  Times out of place; several rows of one
// size: their median.
#pragma once

#include "calibrate/measurement_input.h"
#include "calibrate/table_text.h"

namespace stepcast {

bool is_nccl_tests_text(std::string_view text);
bool is_nccl_tests_json(std::string_view text);

// Throw InputError: E330 no results in it, E333 a row is broken, E334 something that options have
// to state, E335 wrong results.
TableText import_nccl_tests_text(const MeasurementInput& in);
TableText import_nccl_tests_json(const MeasurementInput& in);

}  // namespace stepcast
