// SPDX-License-Identifier: Apache-2.0
// System files of calculon (calculon-ai/calculon systems/*.json): curves of efficiency, assumed or
// fitted by its authors, sampled at powers of two.  All rows are derived.
//
//   matrix, mem1      square products, 2 n^3 / (tflops efficiency) and the operands' bytes /
//                     (GBps efficiency), added or the longer one as processing_mode says
//   mem1              memory-bound kernels (`add`): bytes / (GBps efficiency)
//   mem2              copies from and to the second memory
//   networks          collectives: latency + (1 + offset / n) scalar bytes / (bandwidth efficiency)
//
// A curve is a list of [at least, efficiency], largest first, in GFLOP (matrix) or MB (memories).
#pragma once

#include "calibrate/measurement_input.h"
#include "calibrate/table_text.h"

namespace stepcast {

bool is_calculon_system(std::string_view text);

// Throws InputError: E330 no curves, E333 JSON or a curve is broken, E334 the GPU has to be stated
// (these files do not name it).
TableText import_calculon(const MeasurementInput& in);

}  // namespace stepcast
