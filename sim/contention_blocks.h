// SPDX-License-Identifier: Apache-2.0
// What the contention engine may walk together, in program order: lanes and streams.
//
// The lanes of the innermost digit (a tp group) meet at nearly every layer, on links nobody else
// uses; walked together they cost little more than one.  So do streams whose communication is
// priced.  But such a strand stands until the last of its lanes and streams may go on, and what a
// lane begins on shared links must be known in time.  So between such a stop and the next thing the
// strand shows to others there has to be something that waits for it anyway: for the other lanes a
// collective of their own.  Streams with other collectives (dp) are walked lane by lane.
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

// Streams of which no pass has communication with others.  `talks`: by work.
std::array<bool, kStreams> strand_streams(const OpGraph& graph, const std::vector<TalkKind>& talks);

struct StrandChoice {
  std::array<bool, kStreams> streams{};
  const std::vector<TalkKind>& talks;  // by work, of collectives in passes
  const std::vector<bool>& whole;      // by work: does it join all lanes of the blocks in it?
  uint32_t lanes = 1;                  // of a block
};

// By role: may its strand be walked together, for all lanes of a block?  O(ops of all items).
std::vector<bool> plan_strands(const OpGraph& graph, const ContentionProgram& program,
                               const StrandChoice& choice);

}  // namespace stepcast
