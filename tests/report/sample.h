// SPDX-License-Identifier: Apache-2.0
// A small step for the tests of reports: two pipeline ranks, two microbatches, 1F1B,
// tensor-parallel all-reduces beside the products, transfers, an optimizer.  Computed by the engine
// itself, so that accounts and traces are consistent.
#pragma once

#include "sim/results/result.h"

namespace stepcast {

// Times, in microseconds: a forward is 100 + 20 (all-reduce waited for) + 30, a backward twice
// that, the optimizer 50, a transfer 10; rank 1 computes 10 % longer.
Result sample_result();

// A result with nothing in it but its headline: what a report must survive.
Result empty_result();

}  // namespace stepcast
