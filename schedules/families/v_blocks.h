// SPDX-License-Identifier: Apache-2.0
// Schedules made of a building block, for two chunks a rank in the form of a V (Qi et al. 2024,
// Pipeline Parallelism with Controllable Memory, arXiv:2405.15362).
//
// A block says in which slot of unit length every rank runs the passes of one microbatch; it is
// repeated every kVPeriod slots (the time of all passes), so that the steady state and with it the
// activations held follow from the block alone.  What is left is to close the gaps of warm-up and
// cool-down without holding more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "schedules/schedule.h"
#include "sim/graph/action.h"

namespace stepcast {

// The passes of one microbatch on one rank.  The first four follow each other through the pipeline:
// forward of chunk 0 down the ranks, of chunk 1 up, input gradient of chunk 1 down, of chunk 0 up.
enum class VPass : uint8_t { forward0, forward1, input1, input0, weight1, weight0, idle };
constexpr size_t kVPasses = 6;
constexpr int64_t kVPeriod = 6;  // two chunks of F, I, W

constexpr size_t index_of(VPass pass) {
  return static_cast<size_t>(pass);
}
constexpr bool is_forward(VPass pass) {
  return pass <= VPass::forward1;
}
constexpr bool is_input(VPass pass) {
  return pass == VPass::input1 || pass == VPass::input0;
}
constexpr bool is_weight(VPass pass) {
  return pass == VPass::weight1 || pass == VPass::weight0;
}

// A rank's slots.  The k-th occurrence of a pass belongs to microbatch k.
using VRow = std::vector<VPass>;
using VRows = std::vector<VRow>;  // one a rank

// Slots of a rank's passes for microbatch 0, by VPass; kNoSlot: the pass is put in later.
constexpr int64_t kNoSlot = -1;
using VBlock = std::array<int64_t, kVPasses>;

// The block of every rank, repeated for every microbatch.  REQUIRES: different slots modulo
// `period` on each rank; microbatches >= 1.
VRows repeat_block(std::span<const VBlock> block, int64_t microbatches, int64_t period = kVPeriod);

// Rank and pass whose microbatch k has to end before microbatch k of `pass` may start on `rank`;
// a weight gradient waits for its input gradient.  rank = -1: nothing.
struct VNeed {
  int64_t rank = -1;
  VPass pass = VPass::idle;
};
VNeed need_of(VPass pass, int64_t rank, int64_t pp);

// Puts the weight gradients that are owed into the idle slots, as early as possible, and behind the
// row where none is left.  `by_chunk`: chunk 1 before chunk 0; otherwise they are not told apart
// and are all called weight1.  REQUIRES: there is none in the row.
void fill_weights(VRow& row, bool by_chunk);
void drop_weights(VRow& row);

// Most chunk activations held at a time: from the forward to the weight gradient, or, in a row
// without weight gradients, to the idle slot that the weight gradient would fill.
int64_t peak_held(const VRow& row);

// The same order on each rank, every pass as early as its needs allow, unit times.
VRows squeeze(const VRows& rows);

// Moves the passes of warm-up and cool-down (without weight gradients: of the cool-down) into
// earlier idle slots, first come first served, where no rank comes to hold more than the fullest
// does before.  The steady state, from the first backward of stage 0 to its last forward, stays.
void reorder(VRows& rows, bool with_weights);

// The list of a rank.  `full_backward`: a B for every input gradient, weight gradients left out.
std::vector<Action> actions_of(const VRow& row, int64_t rank, int64_t pp, bool full_backward);

// The costs that zero-bubble's configuration names beside V-Half and V-Min.  Their order is always
// made for equal times: accepted, without effect.
inline constexpr ScheduleParameter kVBlockParameters[] = {
    {"tF", "time of F; without effect, the order is made for equal times"},
    {"tB_input", "time of I; without effect"},
    {"tW", "time of W; without effect"},
    {"tComm", "latency of a hop; without effect"},
};

// Nothing, or that there are not two chunks a rank, or that one of these parameters is no number.
std::optional<Diagnostic> check_v_block(std::string_view name, const ScheduleParams& params);

// V-Half and V-Min: repeats the block, fills in weight gradients, reorders and squeezes twice.
// REQUIRES: check_v_block() is empty.
Schedule v_block_schedule(std::string_view name, const ScheduleParams& params,
                          VBlock (*block_of)(int64_t rank, int64_t pp));

// ------------------------------------------------------------------------------------------------
// Runs the rows of a V schedule as priority lists: a rank with nothing to do takes the next pass of
// its row that can run, though others stand before it, as long as it will never hold more than a
// limit.  Time runs with the costs given, so that what was made for slots becomes an order made for
// those costs; and it runs forward or backward, so that both warm-up and cool-down close up.

// In any unit; passes of both chunks alike.  REQUIRES: forward, input, weight > 0; hop >= 0.
struct VTimes {
  int64_t forward = 1, input = 1, weight = 1;
  int64_t hop = 0;  // between ranks, latency alone
  bool operator==(const VTimes&) const = default;
};

// Which of the passes that can run a rank takes.
enum class VChoice : uint8_t {
  first_of_row,       // the one nearest to the head of the row
  inputs_first_late,  // an input gradient if there is one, once all forwards of the rank are done
};

struct VRunRules {
  VChoice choice = VChoice::first_of_row;
  int64_t limit = INT64_MAX;  // chunk activations held; REQUIRES: the rows in order keep to it
  // Time runs backward, from the end of the step: what can be late becomes late.
  bool backward = false;
};

struct VRun {
  VRows rows;  // without idle slots, in order of (forward) time
  int64_t makespan = 0, span = 0;
};

// REQUIRES: rows that can be run in order, with all weight gradients and as many microbatches of
// each pass; idle slots are not looked at.  O(passes * log pp).
VRun run_ahead(const VRows& rows, const VTimes& times, const VRunRules& rules);

}  // namespace stepcast
