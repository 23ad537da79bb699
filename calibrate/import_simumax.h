// SPDX-License-Identifier: Apache-2.0
// System files of SimuMax (MooreThreads/SimuMax configs/system/*.json): efficiencies that its
// authors measured, by shape.
//
//   matmul, fp8_matmul              time = 2 b m n k / (tflops efficiency)
//   group_matmul, fp8_group_matmul  the same for ng products of M rows; N, K of the forward pass
//   sdp_fwd, sdp_bwd                causal attention whose efficiency counts all of 2 (5 backward)
//                                   batch seq^2 heads (qk + v) flops
//
// Its bandwidths and networks are fits, which tables have no rows of.
#pragma once

#include "calibrate/measurement_input.h"
#include "calibrate/table_text.h"

namespace stepcast {

bool is_simumax_system(std::string_view text);

// Throws InputError: E330 no efficiencies by shape, E333 JSON or a key is broken, E334 the GPU has
// to be stated (these files name it freely).
TableText import_simumax(const MeasurementInput& in);

}  // namespace stepcast
