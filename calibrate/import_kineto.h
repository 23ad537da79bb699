// SPDX-License-Identifier: Apache-2.0
// Traces of the PyTorch profiler (Kineto): the kernels of a real run whose shapes it states.
//
//   matrix products  aten::mm, addmm, bmm, baddbmm, _scaled_mm with "Input Dims", "Input Strides",
//                    "Input type" (record_shapes=True): the kernels that a call launched, together
//   attention        flash and cuDNN attention of aten:: and flash_attn::, of equal lengths
//   collectives      NCCL's kernels, which name collective, elements, type and group
//
// Rows are medians over the calls, with their spread.  A collective's kernel also waits for the
// last rank: the fastest one counts, and its row is derived.  Everything else is counted by kernel.
#pragma once

#include "calibrate/kineto_trace.h"
#include "calibrate/table_text.h"

namespace stepcast {

// Throws InputError: E330 no kernel with a shape, E333 broken JSON, E334 the GPU has to be stated.
TableText import_kineto(const MeasurementInput& in);

}  // namespace stepcast
