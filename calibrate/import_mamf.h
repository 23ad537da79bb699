// SPDX-License-Identifier: Apache-2.0
// Output of mamf-finder.py (stas00/ml-engineering compute/accelerator/benchmarks), versions 1 to 4.
//
// It searches for the shape at which a GPU multiplies matrices fastest, in a loop over the same
// operands in the layout tn: what its best shapes reach is an upper bound of what a run sees, and
// the sources of the rows say so.
#pragma once

#include "calibrate/measurement_input.h"
#include "calibrate/table_text.h"

namespace stepcast {

bool is_mamf_output(std::string_view text);

// Rows of each shape that the output states a rate of: the median of the iterations, the rate that
// is sustained (MSMF); where only the fastest iterations are stated (max, MAMF) a row that is
// derived.  Throws InputError: E330 no rates in it, E333 a rate or shape is broken, E334 the GPU or
// the number type has to be stated.
TableText import_mamf(const MeasurementInput& in);

}  // namespace stepcast
