// SPDX-License-Identifier: Apache-2.0
// The contention engine: a step in which transfers share links and compute is slowed by
// communication beside it.
//
// Semantics are those of op_graph.h and lanes.h, except for what an op's time depends on:
//
//   * a collective or transfer whose links are shared (Traffic) first takes its latency, then moves
//     its bytes as one flow (flow_network.h) that alone would take the rest of its price;
//   * while communication runs on a rank, its compute (on the compute stream) takes
//     Interference::compute times as long, and while compute runs on any rank of a collective, that
//     takes Interference::communication times as long.
//
// Rates change at run time, so the order of events matters: ranks run ahead as far as what they do
// is certain, then the earliest start or end is processed; what happens at one moment may be taken
// in any order.  Ops that need neither stay priced constants on the fast path; `shared_ops` says
// how many do not.
//
// Rates are whole bytes per second (flow_network.h), the factors whole 1/4096; times are counted in
// 1/4096 ps, and a flow or an op ends at the first whole one at which nothing is left.  Compute
// that goes on without a break keeps the fraction, so chains may be merged.
//
// Windows and jitter are those of lanes.h.  When a window begins or ends, what is left of an op, or
// of communication on private links, goes on at the new pace (rounded down to whole 1/4096 ps of
// what it would take alone), and a flow at the rate that its new price gives it alone.
// docs/engine.md has the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/contention/flow_network.h"
#include "sim/lanes/lanes.h"

namespace stepcast {

struct Interference {
  double compute = 1;        // time of compute beside communication / alone; 1 = none
  double communication = 1;  // time of communication beside compute / alone
};

// What communication puts on links.
struct Traffic {
  static constexpr uint32_t kPrivate = UINT32_MAX;

  std::vector<int64_t> capacity;               // of each directed link, bytes per second
  std::vector<std::vector<LinkUse>> patterns;  // links of one group or pair
  // [work][role * lanes + lane]: pattern of the group that the lane is in (of a transfer: at the
  // sender); kPrivate: no other rank uses its links, or its price contains the sharing.  An empty
  // inner vector: all private.
  std::vector<std::vector<uint32_t>> pattern_of;
  std::vector<Time> latency;  // [work]: part of its price during which no bytes move
};

struct ContentionResult {
  LaneResult lanes;
  int64_t shared_ops = 0;        // rank-ops whose rate could change
  int64_t flow_events = 0;       // starts and ends of flows
  int64_t turns = 0;             // of the contention engine: items, instructions, events, flows
  int64_t periods_left_out = 0;  // of a steady state: the same as the one before
  int64_t passes_at_once = 0;    // of tp groups, from where their ranks met (undisturbed_passes.h)
};

class LonePassCache;  // lone_passes.h

// REQUIRES: as run_lanes.  With private traffic and no interference the times are those of
// run_lanes.  Throws Deadlock; InputError if the step is longer than 2^50 ps or a factor is not in
// 1..1024.  LaneOptions::record runs the tp group of the lane that ends last once more, unless the
// lane is given or all are merged to one.  LaneOptions::fold merges equal lanes, on shared links
// those whose transfers load alike links that are loaded alike.  Throws TooManyTurns where
// LaneOptions::most_turns are not enough. `passes` may be null: where it is
// kept what passes take, from one step to the next.
ContentionResult run_contended(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                               const Traffic& traffic, const Interference& interference,
                               const LaneOptions& options = {}, LonePassCache* passes = nullptr);

}  // namespace stepcast
