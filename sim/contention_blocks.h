// SPDX-License-Identifier: Apache-2.0
// Which lanes the contention engine may advance as one.
//
// The lanes of the innermost digit (a tp group) meet at nearly every layer, on links nobody else
// uses; advanced together they cost little more than one.  But a block stands until the last of its
// lanes may go on, and what a lane begins on shared links must be known in time.  So between such a
// stop and the next thing the block shows to others there has to be a collective of its own that
// waits for all its lanes anyway.  Streams with other collectives (dp) are walked lane by lane.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/contention_program.h"
#include "sim/op_graph.h"

namespace stepcast {

enum class TalkKind : uint8_t {
  alone,   // of one lane, priced
  block,   // among the lanes of each block, priced
  others,  // with lanes of other blocks, or on shared links
};

struct BlockPlan {
  // By role and stream (the last is the host): walked lane by lane.
  std::vector<std::array<bool, kThreads>> narrow;
  // By role: its blocks go together; otherwise all its threads are narrow, and what lanes of a
  // block do among themselves they do as with others.
  std::vector<bool> together;
};

// `talks`: by work, of collectives in passes; `whole`: by work, does a rendezvous join all lanes of
// the blocks in it?  O(ops of all items).
BlockPlan plan_blocks(const OpGraph& graph, const ContentionProgram& program,
                      const std::vector<TalkKind>& talks, const std::vector<bool>& whole);

}  // namespace stepcast
