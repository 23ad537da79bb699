// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "calibrate/nccl_sweep.h"

namespace stepcast {

// The table of all sweeps of a file: one row a shape.  Throws E330 if there are no rows, and as
// add_sweep does.
TableText nccl_rows(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps);

}  // namespace stepcast
