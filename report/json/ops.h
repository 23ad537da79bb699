// SPDX-License-Identifier: Apache-2.0
// Every op of a step with its times, as columns: for data frames.
#pragma once

#include <string>

#include "sim/results/result.h"

namespace stepcast {

// {"rank": [...], "action": [...], ...}: of each pipeline rank in turn, what its streams run in the
// order in which it is launched.  Transfers between ranks are not among them.
//   rank           pipeline rank
//   action         "5F12" (stage, kind, microbatch); of what is none of a schedule's: "optimizer"
//   stage, microbatch, layer   -1 where there is none
//   phase, stream, name        "forward", "compute", "qkv"
//   begin_s, end_s, begin_ps, end_ps
// REQUIRES: a result that was traced.
std::string ops_json(const Result& result);

}  // namespace stepcast
