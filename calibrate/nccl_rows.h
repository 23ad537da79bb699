// SPDX-License-Identifier: Apache-2.0
// Sweeps of nccl-tests -> a table.
#pragma once

#include <vector>

#include "calibrate/nccl_sweep.h"

namespace stepcast {

// The table of all sweeps of a file: one row a shape, one source for each kind of run (launched as
// CUDA graphs or not, several collectives in one launch, results checked or not).  Where two kinds
// have one shape the first in the file counts, with a note.  Throws E330 if there are no rows, and
// as add_sweep does.
TableText nccl_rows(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps);

// The NVLink bandwidth of a table of collectives, and whether the switches reduced: files of other
// tools do not say.  As options state, else as the GPU's shipped table has them, with a line in the
// conditions.  False where neither says the bandwidth: such collectives would answer nothing.
bool take_link_conditions(const MeasurementInput& in, TableText& table);

}  // namespace stepcast
