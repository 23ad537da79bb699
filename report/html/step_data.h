// SPDX-License-Identifier: Apache-2.0
// One step as numbers for a page: what its script draws, searches and adds up.
//
// A step of a million slices is made of a few hundred ops, in a few passes that repeat, so what is
// written is the passes, and of each run of a pass only how its times differ from those of the run
// before it: mostly by nothing, which deflates to nothing.  report/page/source/data.js reads it.
#pragma once

#include <string>

#include "sim/results/result.h"

namespace stepcast {

// The format, in its order; all numbers are little-endian base-128 varints (7 bits a byte, lowest
// first), `~` zigzag ones.  Times are picoseconds.
//
//   length of the header in bytes; the header: JSON (step_header)
//   for each role:        passes it runs, of each: pass + 1, then flags (1 has an action, 2 has a
//                         second one), kind, stage, ~microbatch - that of the last one, for each
//   for each rendezvous:  work, label, number of roles it is drawn on, these (sender, receiver)
//   for each lane:        for each rendezvous ~begin - begin of the last, ~duration - price
//                         for each process of the lane:
//                           for each pass: ~begin of its first op - that of the last pass
//                           for each op: ~(begin - begin of the pass's first op) - the same the
//                                        last time that this pass ran, on any rank
//                           for each op: ~duration - that of the last time; at first, its price
//
// REQUIRES: result.graph and result.prices; timelines of Record::all.
std::string step_data(const Result& result);

}  // namespace stepcast
