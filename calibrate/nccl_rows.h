// SPDX-License-Identifier: Apache-2.0
// Sweeps of nccl-tests -> a table.
#pragma once

#include <vector>

#include "calibrate/nccl_sweep.h"

namespace stepcast {

// The table of all sweeps of a file: one row a shape.  Throws E330 if there are no rows, and as
// add_sweep does.
TableText nccl_rows(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps);

// The NVLink bandwidth of a table of collectives, and whether the switches reduced: files of other
// tools do not say.  As options state, else as the GPU's shipped table has them, with a line in the
// conditions.
void take_link_conditions(const MeasurementInput& in, TableText& table);

}  // namespace stepcast
