// SPDX-License-Identifier: Apache-2.0
// A Program is the compiled form of an OpGraph with its prices: flat instructions, durations
// inside, nothing left to look up.  See op_graph.h for the symbolic form and its semantics.
//
// All ranks of a role run the same instructions; a rank is a lane.  This engine has one lane for
// each role.
//
// Two equal compilations exist:
//   merged    chains of ops on one stream that nothing waits for are one instruction (exact: see
//             Instruction), and whole passes one step where nothing inside is recorded (PassStep);
//   unmerged  one instruction an op, so that the start of each op can be recorded.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/graph/spend.h"

namespace stepcast {
// The engine keeps for each role the time t of each stream, the time h of the host, and event
// slots.
enum class OpCode : uint8_t {
  run,             // t = max(t + duration, h + lead); h += launch
  run_mark_end,    // the same; slot = t
  run_mark_start,  // the same; slot = start of the op (never merged)
  run_mark_both,   // slot = end, slot + 1 = start
  wait,            // t = max(t, slot + duration)
};

// A chain of k ops with durations d_i and launch costs l_i ends at
//     max(t + sum d_i,  h + max_i(l_1 + .. + l_i + d_i + .. + d_k)),
// so `duration` = sum d_i and `lead` = that maximum over i; k = 1 is an ordinary op (lead = l_1 +
// d_1).
struct Instruction {
  int64_t duration = 0;  // ps
  int64_t lead = 0;      // ps
  int64_t launch = 0;    // ps of host time, sum over the chain
  OpCode code = OpCode::run;
  Stream stream = Stream::compute;
  uint16_t slot = 0;
  uint32_t op = 0;  // first op of the chain, index into Pass::ops
};

// A whole pass as one step: it is linear over (max,+), so the times after it are
//     t'[i] = max over j of ( step[i][j] + t[j] )
// over the streams it uses and the host (last).  What searches and what-if questions run on.
struct PassStep {
  std::vector<Stream> streams;  // that the pass uses
  // (streams + 1) squared, by row; kNever where t'[i] does not depend on t[j].
  std::vector<int64_t> step;
  static constexpr int64_t kNever = INT64_MIN / 4;
};

// A whole pass where nothing from before it holds it up: the host has launched each op in time, and
// the other streams were done no later than the compute stream, from whose time t0 on everything
// counts.  Most passes of a step run like this, and what they leave behind is a constant.
struct UndisturbedPass {
  // All of that decides only what it decides where host <= t0 + slack, and t <= t0 of the other
  // streams.  kNever: there is no such moment.
  int64_t slack = PassStep::kNever;
  std::vector<std::pair<Stream, int64_t>> ends;   // of each stream that the pass uses, since t0
  int64_t launch = 0;                             // what the host takes for it
  std::vector<std::pair<Spend, int64_t>> inside;  // stand-stills of the compute stream
};

struct CompiledPass {
  std::vector<Instruction> code;
  PassStep whole;
  UndisturbedPass undisturbed;
  std::vector<Spend> slot_spend;  // what a wait for it is booked as
  uint32_t slots = 0;
  uint32_t device_ops = 0;
  std::array<int64_t, kSpends> busy{};  // ps on the compute stream, by what for
};

// Which prices to change before compiling; how what-if questions are asked.  Costs are only ever
// scaled, the order of things never changes.
struct Variation {
  // Communication by Axis; 0 = free.
  std::array<double, kAxes> axis_scale{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  double launch_scale = 1;
  double optimizer_scale = 1;      // ops of Phase::optimizer
  double recompute_scale = 1;      // ops of Phase::recompute
  std::vector<double> pass_scale;  // every op of a pass; empty = 1 for all
};

struct Program {
  const OpGraph* graph = nullptr;      // not owned; must outlive the Program
  std::vector<CompiledPass> passes;    // as OpGraph::passes
  std::vector<int64_t> rendezvous_ps;  // duration of each rendezvous
  std::vector<int64_t> launch_ps;      // host time of each launch
  std::vector<int64_t> post_ps;        // host time of a post of each rendezvous
  bool merged = true;
};

// Slots that a pass may need (wait_slots): Instruction::slot has 16 bits.
constexpr size_t kMostSlots = 65'535;

// What the ops of a pass take on the compute stream, one after the other.
Time compute_time(const Pass& pass, const Prices& prices);

// REQUIRES: what check_graph(graph) checks; no pass needs more than kMostSlots; a price for each
// work, and a time for each launch or for none.  O(ops of the passes).
Program compile(const OpGraph& graph, const Prices& prices, const Variation& variation = {},
                bool merged = true);

// -------------------------------------------------------------------------------------------------
// A step under a Variation, as a graph and prices of its own: for the engines that take no
// variations.

// What a variation makes of the duration of an op, in ps; `pass_scale`: of its pass.
int64_t varied_ps(int64_t ps, const Work& work, Phase phase, const Variation& variation,
                  double pass_scale = 1);
// Host time of each launch, in ps.
std::vector<int64_t> varied_launches(const OpGraph& graph, const Prices& prices,
                                     const Variation& variation);

// Of a wait: what it adds to the other op's end is host time (op_graph.h).
int64_t varied_delay(Time delay, const Variation& variation);

struct VariedStep {
  OpGraph graph;
  Prices prices;
};

// Times are those of compile(graph, prices, variation).  Works whose duration changes are added at
// the end; all keep their index.
// REQUIRES: prices.by_work.size() == graph.works.size().  O(size of the graph).
VariedStep vary(const OpGraph& graph, const Prices& prices, const Variation& variation);

}  // namespace stepcast
